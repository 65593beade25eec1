//! Real connections to an intake whose hub keeps lines in memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use weir_tables::{Batch, Micros};

use crate::check::{NOW, texts};
use crate::{
    AccessRules, Hub, Intake, IntakeSettings, KeepFuture, LineGroup, OverTcp, ParsedLines,
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
        shared_key: None,
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
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all();
    runtime.build().expect("threads").block_on(test);
}

fn counts(intake: &Intake) -> String {
    let batch = intake.report().expect("something was counted");
    texts(&batch, &["protocol", "outcome", "reason", "rows", "bytes"])
}

/// What Python's SysLogHandler, appliances and an overlong frame send over one connection.
#[test]
fn a_syslog_connection_lives_whatever_frames_come() {
    run(async {
        let (hub, intake) = intake(64 << 20);
        let address = listen(&intake, OverTcp::Syslog, &Arc::new(Semaphore::new(8))).await;
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(b"<11>order 1 failed\0").await.expect("it reads");
        assert_eq!(hub.lines(1).await, ["<11>order 1 failed"], "at once");
        let long = vec![b'x'; 200_000];
        for bytes in [&b"<11>order 2 failed\0<13>"[..], &long, b"\n2026-11-26 a line\n<13>b\n<13>"]
        {
            stream.write_all(bytes).await.expect("the connection lives");
        }
        stream.write_all(b"c\n").await.expect("the connection lives");
        drop(stream);
        let lines = hub.lines(5).await;
        assert_eq!(
            lines,
            ["<11>order 1 failed", "<11>order 2 failed", "2026-11-26 a line", "<13>b", "<13>c"]
        );
        let counts = counts(&intake);
        assert!(counts.contains("outcome=rejected reason=too_long rows=1"), "{counts}");
        assert!(counts.contains("outcome=lost reason=too_long rows=1"), "{counts}");
    });
}
