//! Real connections to an intake whose hub keeps lines in memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use weir_tables::{Batch, Micros};

use crate::check::{NOW, texts};
use crate::{
    AccessRules, BodySource, CheckRules, Hub, Intake, IntakeResponse, IntakeSettings, KeepFuture,
    LineGroup, OverTcp, ParsedLines, Sender,
};

/// How long a test waits for what must happen at once.
const WITHIN: Duration = Duration::from_secs(30);

/// Keeps the lines that it parses.
#[derive(Default)]
pub(crate) struct MemoryHub {
    lines: Mutex<Vec<String>>,
    changed: Notify,
}

impl Hub for MemoryHub {
    fn now(&self) -> Micros {
        NOW
    }

    fn host(&self) -> &str {
        "hub"
    }

    fn parse(&self, lines: &LineGroup, _observed: Micros) -> ParsedLines {
        let text = String::from_utf8_lossy(&lines.bytes).into_owned();
        self.lines.lock().extend(text.lines().map(str::to_owned));
        self.changed.notify_waiters();
        ParsedLines::default()
    }

    fn clean(&self, batch: Batch) -> Batch {
        batch
    }

    fn keep(&self, _batches: Vec<Batch>) -> KeepFuture<'_> {
        Box::pin(async { Ok(()) })
    }
}

impl MemoryHub {
    /// Waits until `count` lines are there, and returns them.
    async fn lines(&self, count: usize) -> Vec<String> {
        let all = async {
            loop {
                let changed = self.changed.notified();
                let lines = self.lines.lock().clone();
                if lines.len() >= count {
                    return lines;
                }
                changed.await;
            }
        };
        let seen = || self.lines.lock().clone();
        tokio::time::timeout(WITHIN, all).await.unwrap_or_else(|_| panic!("only {:?}", seen()))
    }
}

/// An intake with the usual limits.
pub(crate) fn intake(in_flight_bytes: usize) -> (Arc<MemoryHub>, Arc<Intake>) {
    let hub = Arc::new(MemoryHub::default());
    let settings = IntakeSettings {
        access: AccessRules { token: None, allow: Vec::new() },
        host_names: Vec::new(),
        shared_key: None,
        nsca: None,
        checks: CheckRules::default(),
        body_bytes: 16 << 20,
        in_flight_bytes,
        known: Duration::from_secs(600),
        elasticsearch_version: "8.19.0".into(),
    };
    (Arc::clone(&hub), Intake::new(hub as _, settings))
}

/// Listens on a free port until the test ends.
async fn listen(intake: &Arc<Intake>, protocol: OverTcp, room: &Arc<Semaphore>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (end, ended) = watch::channel(false);
    let (intake, room) = (Arc::clone(intake), Arc::clone(room));
    tokio::spawn(async move {
        intake.listen_tcp(listener, protocol, None, room, ended).await;
        drop(end);
    });
    address
}

fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(test);
}

fn counts(intake: &Intake) -> String {
    let batch = intake.report().expect("something was counted");
    texts(&batch, &["protocol", "outcome", "reason", "rows", "bytes"])
}

/// What Python's SysLogHandler, appliances and an overlong frame send.
#[test]
fn a_syslog_connection_lives_whatever_frames_come() {
    run(async {
        let (hub, intake) = intake(64 << 20);
        let address = listen(&intake, OverTcp::Syslog, &Arc::new(Semaphore::new(8))).await;
        let mut python = TcpStream::connect(address).await.expect("it listens");
        python.write_all(b"<11>order 1 failed\0").await.expect("it reads");
        assert_eq!(hub.lines(1).await, ["<11>order 1 failed"], "at once");
        python.write_all(b"<11>order 2 failed\0").await.expect("the connection lives");
        assert_eq!(hub.lines(2).await[1], "<11>order 2 failed", "at once");
        let mut lines = TcpStream::connect(address).await.expect("it listens");
        let long = vec![b'x'; 200_000];
        for bytes in [&b"<13>"[..], &long, b"\n2026-11-26 a line\n<13>b\n<13>", b"c\n"] {
            lines.write_all(bytes).await.expect("the connection lives");
        }
        assert_eq!(hub.lines(5).await[2..], ["2026-11-26 a line", "<13>b", "<13>c"]);
        let counts = counts(&intake);
        assert!(counts.contains("outcome=rejected reason=too_long rows=1"), "{counts}");
        assert!(counts.contains("outcome=lost reason=too_long rows=1"), "{counts}");
    });
}

/// A body whose chunks a test sends; it stays open until the sender is dropped.
struct SentBody(tokio::sync::mpsc::UnboundedReceiver<Bytes>);

impl BodySource for SentBody {
    async fn next(&mut self) -> Option<Result<Bytes, String>> {
        self.0.recv().await.map(Ok)
    }
}

/// Posts lines as 192.0.2.`last`; the response comes when the body ends.
fn post(
    intake: &Arc<Intake>,
    last: u8,
    headers: &[(&str, &str)],
) -> (tokio::sync::mpsc::UnboundedSender<Bytes>, tokio::task::JoinHandle<IntakeResponse>) {
    let (chunks, body) = tokio::sync::mpsc::unbounded_channel();
    let mut request = http::Request::post("/intake/jsonl");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).expect("a request").into_parts();
    let sender = Sender { address: [192, 0, 2, last].into(), has_certificate: true };
    let intake = Arc::clone(intake);
    let response = async move { intake.respond(parts, sender, SentBody(body)).await };
    (chunks, tokio::spawn(response))
}

/// Field case: four requests that announce 16 MiB and send one byte; also what h2 senders do that
/// open streams and stop (envoy#6869, hyper#2899).
#[test]
fn announced_lengths_take_no_memory_and_one_address_leaves_some_to_others() {
    run(async {
        let (hub, intake) = intake(1 << 20);
        let announced = [("content-length", "16777216")];
        let slow: Vec<_> = (0..100).map(|_| post(&intake, 1, &announced)).collect();
        slow.iter().for_each(|(chunks, _)| chunks.send(Bytes::from_static(b"{")).expect("open"));
        let (chunks, response) = post(&intake, 1, &[]);
        chunks.send(Bytes::from_static(b"{\"a\":1}\n")).expect("open");
        drop(chunks);
        assert_eq!(response.await.expect("it ends").status, 200);
        assert_eq!(hub.lines(1).await.len(), 1);
        // An address that really sends: its second body is refused, another address is not.
        let half = Bytes::from(vec![b'x'; 500 << 10]);
        let (first, _first) = post(&intake, 2, &[]);
        first.send(half.clone()).expect("open");
        while intake.memory.hold(origin("jsonl", 2)).try_grow(100 << 10) {
            tokio::task::yield_now().await;
        }
        let (second, refused) = post(&intake, 2, &[]);
        second.send(half).expect("open");
        assert_eq!(refused.await.expect("it ends").status, 429);
        let (chunks, response) = post(&intake, 3, &[]);
        chunks.send(Bytes::from_static(b"{\"a\":2}\n")).expect("open");
        drop(chunks);
        assert_eq!(response.await.expect("it ends").status, 200);
    });
}

fn origin(protocol: &'static str, last: u8) -> crate::counts::BatchOrigin {
    crate::counts::BatchOrigin { protocol, peer: Some([192, 0, 2, last].into()) }
}

fn zeros(bytes: usize) -> Vec<u8> {
    use std::io::Write;
    let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    writer.write_all(&vec![b'0'; bytes]).expect("memory");
    writer.finish().expect("memory")
}

/// A packed body takes memory as it is decompressed: the pool has 1 MiB, of which others use half.
#[test]
fn a_bomb_is_refused_before_its_memory_is_used() {
    run(async {
        let (_hub, intake) = intake(1 << 20);
        let other = intake.memory.hold(origin("fluent", 9));
        assert!(other.try_grow(512 << 10));
        let (chunks, response) = post(&intake, 1, &[("content-encoding", "deflate")]);
        chunks.send(zeros(16 << 20).into()).expect("open");
        drop(chunks);
        assert_eq!(response.await.expect("it ends").status, 429);
        assert!(intake.memory.hold(origin("jsonl", 1)).try_grow(500 << 10), "all is given back");
    });
}

/// What comes over Lumberjack waits until there is memory for it, and is read then.
#[test]
fn a_compressed_frame_waits_for_memory() {
    run(async {
        let (hub, intake) = intake(1 << 20);
        let address = listen(&intake, OverTcp::Lumberjack, &Arc::new(Semaphore::new(8))).await;
        let other = intake.memory.hold(origin("lumberjack", 9));
        assert!(other.try_grow(768 << 10), "the protocol's share");
        let event = [&b"2J\0\0\0\x01\0\0\0\x07{\"a\":1}"[..]].concat();
        let packed = {
            use std::io::Write;
            let mut writer =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            writer.write_all(&event).expect("memory");
            writer.finish().expect("memory")
        };
        let length = u32::try_from(packed.len()).expect("short").to_be_bytes();
        let frame = [&b"2C"[..], &length, &packed].concat();
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(&frame).await.expect("it reads");
        tokio::task::yield_now().await;
        assert!(hub.lines.lock().is_empty());
        drop(other);
        let mut reply = [0; 6];
        tokio::time::timeout(WITHIN, stream.read_exact(&mut reply))
            .await
            .expect("at once")
            .expect("open");
        assert_eq!(
            (&reply, hub.lines.lock().as_slice()),
            (b"2A\0\0\0\x01", &["{\"a\":1}".to_owned()][..])
        );
    });
}

/// Idle connections of one address leave places to its other protocols and to others.
#[test]
fn idle_connections_do_not_keep_others_out() {
    run(async {
        let (hub, intake) = intake(64 << 20);
        let room = Arc::new(Semaphore::new(100));
        let graphite = listen(&intake, OverTcp::Graphite, &room).await;
        let syslog = listen(&intake, OverTcp::Syslog, &room).await;
        let mut idle = Vec::new();
        for _ in 0..120 {
            idle.push(TcpStream::connect(graphite).await.expect("the kernel accepts"));
        }
        let mut stream = TcpStream::connect(syslog).await.expect("it listens");
        stream.write_all(b"<13>x\n").await.expect("it reads");
        assert_eq!(hub.lines(1).await, ["<13>x"]);
        // The last ones are closed, the first one is not.
        let mut byte = [0; 1];
        let mut last = idle.pop().expect("many");
        let closed = tokio::time::timeout(WITHIN, last.read(&mut byte)).await.expect("at once");
        assert!(matches!(closed, Ok(0) | Err(_)));
        assert!(counts(&intake).contains("outcome=refused reason=too_many_connections"));
    });
}
