//! The two programs of a testbed: an application behind the proxy, and visitors. They are hidden
//! commands of weir that run in a namespace, so that each is a process to stop or kill.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::error::Result;
use crate::{Random, pause};

/// Options of an application that answers every request after a delay.
pub struct AppOptions {
    /// Listening address.
    pub address: SocketAddr,
    /// Length of its accept queue.
    pub backlog: i32,
    /// File with the milliseconds before a response; read at each request.
    pub delay: PathBuf,
    /// Bytes of a response.
    pub bytes: usize,
    /// Uses a CPU for the delay instead of sleeping.
    pub spin: bool,
    /// File with the percentage of requests to answer with 500; read at each request.
    pub failing: Option<PathBuf>,
    /// Fails only health checks.
    pub failing_health: bool,
    /// Limit of file descriptors.
    pub files: Option<u64>,
    /// Requests served at a time; others wait in the accept queue.
    pub workers: Option<u64>,
    /// Store to query over HTTP once per request.
    pub store: Option<SocketAddr>,
    /// File to write 4 KiB to per request with direct I/O, one write at a time: a store's journal.
    pub journal: Option<PathBuf>,
    /// Never closes connections that clients have closed.
    pub leak: bool,
    /// File with extra milliseconds for the first page; read at each request.
    pub slow_page: Option<PathBuf>,
    /// Lets the client close first, whose port then stays in TIME_WAIT for a minute.
    pub last: bool,
    /// Keep-alive: file with the idle timeout in milliseconds; read after each response.
    pub idle: Option<PathBuf>,
}

/// Serves until killed, with a thread per connection.
///
/// # Errors
/// When it cannot listen or start a thread.
pub fn serve(args: &AppOptions) -> Result<()> {
    if let Some(files) = args.files {
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum: Some(files) })?;
    }
    let fd: OwnedFd =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &args.address)?;
    listen(&fd, args.backlog)?;
    let listener = TcpListener::from(fd);
    let state = Arc::new(AppState::of(args)?);
    loop {
        state.wait_for_worker();
        // Without free descriptors, wait and retry, as servers do.
        let Ok((stream, _)) = listener.accept() else {
            pause(Duration::from_millis(50));
            continue;
        };
        let slot = WorkerSlot::acquire(&state);
        let answering = std::thread::Builder::new().stack_size(64 << 10);
        answering.spawn(move || answer(stream, &slot.0))?;
    }
}

/// How requests are answered, and the number in progress.
struct AppState {
    delay: PathBuf,
    body: Vec<u8>,
    spin: bool,
    failing: Option<PathBuf>,
    failing_health: bool,
    workers: u64,
    store: Option<SocketAddr>,
    journal: Option<Mutex<Journal>>,
    leaked: Option<Mutex<Vec<TcpStream>>>,
    slow_page: Option<PathBuf>,
    busy: Mutex<u64>,
    is_free: Condvar,
    is_last: bool,
    idle: Option<PathBuf>,
}

/// A busy worker, released on drop.
struct WorkerSlot(Arc<AppState>);

impl WorkerSlot {
    fn acquire(state: &Arc<AppState>) -> Self {
        *state.busy.lock() += 1;
        Self(Arc::clone(state))
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        *self.0.busy.lock() -= 1;
        self.0.is_free.notify_one();
    }
}

impl AppState {
    fn of(args: &AppOptions) -> Result<Self> {
        Ok(Self {
            delay: args.delay.clone(),
            body: vec![b'z'; args.bytes],
            spin: args.spin,
            failing: args.failing.clone(),
            failing_health: args.failing_health,
            workers: args.workers.unwrap_or(u64::MAX),
            store: args.store,
            journal: args.journal.as_deref().map(Journal::open).transpose()?.map(Mutex::new),
            leaked: args.leak.then(Mutex::default),
            slow_page: args.slow_page.clone(),
            is_last: args.last,
            idle: args.idle.clone(),
            busy: Mutex::new(0),
            is_free: Condvar::new(),
        })
    }

    /// Waits until a worker is free.
    fn wait_for_worker(&self) {
        self.is_free.wait_while(&mut self.busy.lock(), |busy| *busy >= self.workers);
    }

    /// Spends the time that the options ask of a request.
    fn work(&self, request: &[u8]) {
        if let Some(file) = self.slow_page.as_deref().filter(|_| request.starts_with(FIRST_PAGE)) {
            pause(Duration::from_millis(number(file)));
        }
        if let Some(store) = self.store {
            let patience = Duration::from_secs(60);
            let response = TcpStream::connect_timeout(&store, patience)
                .and_then(|stream| request_page(stream, patience, "/row", None));
            // The store is required.
            if response.is_err() {
                pause(Duration::from_millis(20));
            }
        }
        if let Some(journal) = &self.journal {
            journal.lock().write();
        }
        let span = Duration::from_millis(number(&self.delay));
        if !self.spin {
            return pause(span);
        }
        let end = thread_cpu_time() + span;
        while thread_cpu_time() < end {
            std::hint::spin_loop();
        }
    }

    /// Whether this request fails, derived from the client's port.
    fn fails(&self, port: u16, request: &[u8]) -> bool {
        let may_fail = !self.failing_health || request.starts_with(b"GET /health");
        may_fail
            && self.failing.as_deref().is_some_and(|file| u64::from(port / 2 % 100) < number(file))
    }
}

/// CPU time of this thread: a throttled thread makes no progress on it.
fn thread_cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

/// A file written block by block with direct I/O.
struct Journal {
    file: File,
    blocks: Vec<u8>,
    number: u64,
}

impl Journal {
    const BLOCK: usize = 4096;
    const BLOCKS: u64 = 256;

    fn open(path: &Path) -> Result<Self> {
        let zeroes = vec![0; Self::BLOCK];
        let mut file = File::create(path)?;
        // Allocate all blocks now, so that a write changes no metadata.
        (0..Self::BLOCKS).try_for_each(|_| file.write_all(&zeroes))?;
        file.sync_all()?;
        let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or_default();
        let file = OpenOptions::new().write(true).custom_flags(direct).open(path)?;
        Ok(Self { file, blocks: vec![b'j'; 2 * Self::BLOCK], number: 0 })
    }

    fn write(&mut self) {
        self.number += 1;
        let at = self.number % Self::BLOCKS * Self::BLOCK as u64;
        // Direct I/O needs memory aligned to a block.
        let start = self.blocks.as_ptr().align_offset(Self::BLOCK);
        let _full = self.file.write_all_at(&self.blocks[start..start + Self::BLOCK], at);
    }
}

/// The number in a file; 0 if there is none.
pub(crate) fn number(file: &Path) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn answer(mut stream: TcpStream, state: &AppState) {
    let mut request = [0; 2048];
    while let Ok(length @ 1..) = stream.read(&mut request) {
        take_body(&mut stream, &request[..length]);
        state.work(&request);
        let is_bad = stream.peer_addr().is_ok_and(|peer| state.fails(peer.port(), &request));
        let status = if is_bad { "500 Internal Server Error" } else { "200 OK" };
        let version = if state.idle.is_some() { "HTTP/1.1" } else { "HTTP/1.0" };
        let head = format!("{version} {status}\r\nContent-Length: {}\r\n\r\n", state.body.len());
        let _gone = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&state.body));
        let Some(idle) = &state.idle else { break };
        let _limited = stream.set_read_timeout(Some(Duration::from_millis(number(idle).max(1))));
    }
    if state.is_last {
        // Limit the wait: a client that waits for the end would never close.
        let _limited = stream.set_read_timeout(Some(Duration::from_secs(2)));
        let _ended = stream.read(&mut request);
    }
    if let Some(leaked) = &state.leaked {
        leaked.lock().push(stream);
    }
}

/// First bytes of a request for the page that can be slow by itself.
const FIRST_PAGE: &[u8] = b"GET /page ";

/// Reads the rest of a request's body: closing with unread data would reset the connection.
fn take_body(stream: &mut TcpStream, read: &[u8]) {
    let text = String::from_utf8_lossy(read).to_ascii_lowercase();
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let Some(length) = length.and_then(|text| text.trim().parse::<usize>().ok()) else { return };
    let left = length.saturating_sub(read.len() - head.len() - 4);
    let _gone = std::io::copy(&mut stream.take(left as u64), &mut std::io::sink());
}

/// Options of visitors that keep sending requests.
pub struct VisitOptions {
    /// Target address.
    pub address: SocketAddr,
    /// Number of visitors.
    pub visitors: u64,
    /// Milliseconds between a visitor's requests.
    pub pause_millis: u64,
    /// Connect and send nothing.
    pub hold: bool,
    /// Milliseconds of pause after each 16 KiB read.
    pub slow_millis: Option<u64>,
    /// Milliseconds until a visitor gives up.
    pub patience_millis: u64,
    /// Number of pages to request in turn.
    pub pages: u64,
    /// Reuse a connection after about this many idle milliseconds, as a load balancer's pool does.
    pub reuse_millis: Option<u64>,
}

/// Visits until killed.
///
/// # Errors
/// When it cannot start a thread.
pub fn visit(args: &VisitOptions) -> Result<()> {
    let patience = Duration::from_millis(args.patience_millis);
    let (address, is_holding) = (args.address, args.hold);
    let slow = args.slow_millis.map(Duration::from_millis);
    let pages = args.pages.max(1);
    let rest = args.reuse_millis.map(Duration::from_millis);
    for visitor in 0..args.visitors {
        // Vary the pace: visitors in lockstep would be a burst.
        let between = Duration::from_millis(args.pause_millis + visitor * 7 % 50);
        let visiting = std::thread::Builder::new().stack_size(64 << 10);
        visiting.spawn(move || {
            let mut random = Random::new(visitor);
            for number in visitor.. {
                if let Some(rest) = rest {
                    let _ended = reuse(address, patience, rest, &mut random);
                    pause(between);
                    continue;
                }
                let stream = connect(address, patience, slow.is_some());
                let _answer = stream.and_then(|stream| {
                    if is_holding {
                        pause(Duration::from_secs(3600));
                    }
                    request_page(stream, patience, &page_path(number % pages), slow)
                });
                pause(between);
            }
        })?;
    }
    loop {
        pause(Duration::from_secs(3600));
    }
}

/// Sends requests on one connection until it ends, with a jittered pause. A connection known to be
/// closed is not reused.
fn reuse(
    address: SocketAddr,
    patience: Duration,
    rest: Duration,
    random: &mut Random,
) -> std::io::Result<()> {
    /// Jitter of the pause in microseconds.
    const JITTER: u64 = 2000;
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    let mut answer = [0; 4096];
    // Start out of phase with the other connections.
    pause(rest / 1000 * u32::try_from(random.between(&(0..=1000))).unwrap_or_default());
    loop {
        stream.write_all(b"GET /page HTTP/1.1\r\nHost: shop.example\r\n\r\n")?;
        if stream.read(&mut answer)? == 0 {
            return Ok(());
        }
        let more = Duration::from_micros(random.between(&(0..=2 * JITTER)));
        pause((rest + more).saturating_sub(Duration::from_micros(JITTER)));
        stream.set_nonblocking(true)?;
        if stream.peek(&mut answer).is_ok() {
            return Ok(());
        }
        stream.set_nonblocking(false)?;
    }
}

/// Connects. A slow reader gets a small receive buffer, so that the kernel does not read ahead.
fn connect(address: SocketAddr, patience: Duration, is_slow: bool) -> std::io::Result<TcpStream> {
    if !is_slow {
        return TcpStream::connect_timeout(&address, patience);
    }
    let fd: OwnedFd =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_recv_buffer_size(&fd, 16 << 10)?;
    rustix::net::connect(&fd, &address)?;
    Ok(TcpStream::from(fd))
}

fn page_path(number: u64) -> String {
    if number == 0 { "/page".to_owned() } else { format!("/page/{number}") }
}

fn request_page(
    mut stream: TcpStream,
    patience: Duration,
    path: &str,
    slow: Option<Duration>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(patience))?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut part = vec![0; 16 << 10];
    while stream.read(&mut part)? > 0 {
        if let Some(rest) = slow {
            pause(rest);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_kept_connection_serves_again_and_ends_after_the_idle_timeout_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let idle = dir.path().join("idle");
        std::fs::write(&idle, "300").unwrap();
        let address = crate::address::free_address().unwrap();
        let app = AppOptions {
            address,
            backlog: 16,
            delay: dir.path().join("delay"),
            bytes: 3,
            spin: false,
            failing: None,
            failing_health: false,
            files: None,
            workers: None,
            store: None,
            journal: None,
            leak: false,
            slow_page: None,
            last: false,
            idle: Some(idle),
        };
        std::thread::spawn(move || serve(&app));
        let mut client = loop {
            if let Ok(stream) = TcpStream::connect(address) {
                break stream;
            }
            pause(Duration::from_millis(5));
        };
        let expected = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nzzz";
        let mut answer = vec![0; expected.len()];
        for _ in 0..2 {
            client.write_all(b"GET /page HTTP/1.1\r\nHost: shop.example\r\n\r\n").unwrap();
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, expected);
        }
        let answered = Instant::now();
        assert_eq!(client.read(&mut answer).unwrap(), 0);
        assert!(answered.elapsed() > Duration::from_millis(250), "{:?}", answered.elapsed());
    }
}
