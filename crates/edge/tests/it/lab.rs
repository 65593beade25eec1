//! Test harness: an edge in this process whose rows are kept, scripted backends, and raw clients.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use weir_edge::{BackendSettings, Edge, InheritedState, ListenerSettings, Settings, Sink};
use weir_tables::{Batch, FixedClock, Micros};

/// How long to wait for an expected event.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A row as text by column, without NULLs.
pub(crate) type Row = BTreeMap<String, String>;

#[derive(Default)]
struct RowStore {
    batches: Mutex<Vec<Batch>>,
    changed: Condvar,
}

/// A running edge and its rows.
pub(crate) struct Lab {
    pub(crate) edge: Option<Edge>,
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<FixedClock>,
    store: Arc<RowStore>,
}

/// Settings with one listener on a free port.
pub(crate) fn settings(backends: &[SocketAddr]) -> Settings {
    let listener = ListenerSettings::parse("127.0.0.1:0", false, 128).expect("an address");
    let backends = backends.iter().map(|one| BackendSettings::parse(&one.to_string()));
    Settings {
        threads: 1,
        host: "edge1".into(),
        listeners: vec![listener],
        backends: backends.collect::<Result<_, _>>().expect("addresses"),
        ..Settings::default()
    }
}

/// Settings with one listener for HTTP/2 without TLS.
pub(crate) fn h2c_settings(backends: &[SocketAddr]) -> Settings {
    let mut settings = settings(backends);
    settings.listeners[0].is_h2c = true;
    settings
}

/// A backend that reports each head that it gets, and answers `answer`.
pub(crate) fn reporting(answer: &'static str) -> (SocketAddr, Receiver<String>) {
    let (seen, heads) = channel();
    let address = backend(move |asked| {
        let _ = seen.send(asked.head.to_ascii_lowercase());
        asked.answer(answer);
        true
    });
    (address, heads)
}

/// The switch to a WebSocket.
pub(crate) const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The next head that a backend reports.
pub(crate) fn next_head(heads: &Receiver<String>) -> String {
    heads.recv_timeout(PATIENCE).expect("a request reaches the backend")
}

impl Lab {
    pub(crate) fn start(settings: Settings) -> Self {
        Self::start_with(settings, InheritedState::default())
    }

    /// An edge before a backend that calls `answer`, see [`backend`].
    pub(crate) fn with_backend(
        answer: impl Fn(&mut BackendRequest<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::start(settings(&[backend(answer)]))
    }

    pub(crate) fn start_with(settings: Settings, inherited: InheritedState) -> Self {
        let store = Arc::<RowStore>::default();
        let received = Arc::clone(&store);
        let sink: Sink = Arc::new(move |batches| {
            received.batches.lock().unwrap_or_else(PoisonError::into_inner).extend(batches);
            received.changed.notify_all();
        });
        let clock = Arc::new(FixedClock::new(Micros(1_700_000_000_000_000)));
        let edge = Edge::start_with(settings, Arc::clone(&clock) as _, sink, inherited);
        let edge = edge.unwrap_or_else(|error| panic!("{error}"));
        let address = edge.addresses()[0];
        Self { edge: Some(edge), address, clock, store }
    }

    /// Waits for at least `count` rows of a table.
    pub(crate) fn rows(&self, table: &str, count: usize) -> Vec<Row> {
        let end = Instant::now() + PATIENCE;
        let mut batches = self.store.batches.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let own = batches.iter().filter(|batch| batch.table.name == table);
            let rows: Vec<Row> = own.flat_map(|batch| rows_of(&batch.rows)).collect();
            let left = end.saturating_duration_since(Instant::now());
            if rows.len() >= count {
                return rows;
            }
            assert!(!left.is_zero(), "{count} rows of `{table}` did not come, but {rows:#?}");
            batches = self.store.changed.wait_timeout(batches, left).expect("no panic").0;
        }
    }

    /// The only row of `request`.
    pub(crate) fn request(&self) -> Row {
        let mut rows = self.rows("request", 1);
        assert_eq!(rows.len(), 1, "{rows:#?}");
        rows.remove(0)
    }

    /// Ends the edge; returns all rows of a table.
    pub(crate) fn end(mut self, table: &str) -> Vec<Row> {
        self.edge.take().expect("it ends once").end();
        self.rows(table, 0)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    /// Sends `text` on a new connection; returns everything until the edge closes it.
    pub(crate) fn say(&self, text: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).expect("the edge reads");
        read_all(&mut stream)
    }

    /// Sends a GET on a new connection.
    pub(crate) fn get(&self, path: &str) -> String {
        self.say(&format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(edge) = self.edge.take() {
            edge.end();
        }
    }
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let schema = batch.schema();
    let rows = (0..batch.num_rows()).map(|at| {
        let columns = schema.fields().iter().zip(batch.columns());
        let cells =
            columns.filter_map(|(field, column)| Some((field.name().clone(), cell(column, at)?)));
        cells.collect()
    });
    rows.collect()
}

fn cell(column: &dyn Array, at: usize) -> Option<String> {
    if column.is_null(at) {
        return None;
    }
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().value(at).to_owned()),
        DataType::Int64 => Some(column.as_primitive::<Int64Type>().value(at).to_string()),
        DataType::Float64 => Some(column.as_primitive::<Float64Type>().value(at).to_string()),
        DataType::Boolean => Some(column.as_boolean().value(at).to_string()),
        _ => None,
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a listener");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// Ends a connection with a reset.
pub(crate) fn reset(stream: TcpStream) {
    let linger = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
    linger.expect("a socket");
    drop(stream);
}

/// Reads until the other side closes or resets the connection.
pub(crate) fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads one response with a `Content-Length`.
pub(crate) fn read_answer(reader: &mut BufReader<TcpStream>) -> String {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).expect("an answer") == 0 {
            return head;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(text) = lower.strip_prefix("content-length:") {
            length = text.trim().parse().expect("a length");
        }
        head += &line;
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a whole body");
    head + &String::from_utf8_lossy(&body)
}

/// A request at a backend.
pub(crate) struct BackendRequest<'a> {
    pub(crate) head: &'a str,
    pub(crate) stream: &'a mut BufReader<TcpStream>,
    /// The number of the request at this backend, from 1.
    pub(crate) number: usize,
}

impl BackendRequest<'_> {
    pub(crate) fn answer(&mut self, text: &str) {
        let _ = self.stream.get_mut().write_all(text.as_bytes());
    }

    /// Responds with 200 and a body.
    pub(crate) fn ok(&mut self, body: &str) -> bool {
        self.answer(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        true
    }
}

/// Starts a backend that calls `answer` with each request head, until that returns false.
pub(crate) fn backend(
    answer: impl Fn(&mut BackendRequest<'_>) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    backend_on(TcpListener::bind("127.0.0.1:0").expect("a free port"), answer)
}

/// The same on a socket that listens already.
pub(crate) fn backend_on(
    listener: TcpListener,
    answer: impl Fn(&mut BackendRequest<'_>) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    let address = listener.local_addr().expect("it is bound");
    let (answer, count) = (Arc::new(answer), Arc::new(Mutex::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                while let Some(head) = read_head(&mut stream) {
                    let number = {
                        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
                        *count += 1;
                        *count
                    };
                    if !answer(&mut BackendRequest { head: &head, stream: &mut stream, number }) {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn read_head(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// An address without listener.
pub(crate) fn unused_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound")
}

/// Waits until `is_true`.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
