//! The real `send_nsca` of Debian against an intake that holds its rows in memory.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, watch};
use weir_tables::{Batch, Micros};

use super::*;
use crate::check::{NOW, texts};
use crate::{
    AccessRules, CheckRules, Hub, Intake, IntakeSettings, KeepFuture, LineGroup, OverTcp,
    ParsedLines,
};

const WITHIN: Duration = Duration::from_secs(30);
const COLUMNS: [&str; 4] = ["host", "check", "status", "output"];

/// Holds rows of `check_result`.
#[derive(Default)]
struct ResultHub {
    rows: Mutex<Vec<String>>,
    changed: Notify,
}

impl Hub for ResultHub {
    fn now(&self) -> Micros {
        NOW
    }

    fn host(&self) -> &str {
        "hub"
    }

    fn parse(&self, _lines: &LineGroup, _observed: Micros) -> ParsedLines {
        ParsedLines::default()
    }

    fn clean(&self, batch: Batch) -> Batch {
        batch
    }

    fn keep(&self, batches: Vec<Batch>) -> KeepFuture<'_> {
        let results = batches.iter().filter(|batch| batch.table.name == "check_result");
        let rows: String = results.map(|batch| texts(batch, &COLUMNS)).collect();
        self.rows.lock().extend(rows.lines().map(str::to_owned));
        self.changed.notify_waiters();
        Box::pin(async { Ok(()) })
    }
}

impl ResultHub {
    /// Waits for `count` rows, and returns them.
    async fn rows(&self, count: usize) -> Vec<String> {
        let all = async {
            loop {
                let changed = self.changed.notified();
                let rows = self.rows.lock().clone();
                if rows.len() >= count {
                    return rows;
                }
                changed.await;
            }
        };
        tokio::time::timeout(WITHIN, all).await.expect("the rows arrive")
    }
}

fn intake(key: NscaKey) -> (Arc<ResultHub>, Arc<Intake>) {
    let hub = Arc::new(ResultHub::default());
    let settings = IntakeSettings {
        access: AccessRules::default(),
        host_names: Vec::new(),
        shared_key: None,
        nsca: Some(key),
        checks: CheckRules::default(),
        body_bytes: 1 << 20,
        in_flight_bytes: 64 << 20,
        known: Duration::from_secs(600),
        elasticsearch_version: "8.19.0".into(),
    };
    (Arc::clone(&hub), Intake::new(hub as _, settings))
}

async fn listen(intake: &Arc<Intake>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (end, ended) = watch::channel(false);
    let (intake, room) = (Arc::clone(intake), Arc::new(Semaphore::new(64)));
    tokio::spawn(async move {
        intake.listen_tcp(listener, OverTcp::Nsca, None, room, ended).await;
        drop(end);
    });
    address
}

/// Runs `send_nsca` to its end with these lines on its input.
fn send(dir: &Path, to: SocketAddr, (method, password): (u32, &str), lines: &str) {
    let config = dir.join("send_nsca.cfg");
    let text = format!("password={password}\nencryption_method={method}\n");
    std::fs::write(&config, text).expect("it can be written");
    let mut command = Command::new("send_nsca");
    command.args(["-H", "127.0.0.1", "-p", &to.port().to_string(), "-c"]).arg(&config);
    let mut sender = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    sender.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("it reads");
    assert!(sender.wait().expect("it ends").success(), "method {method}");
}

fn has_sender() -> bool {
    let is_there = Command::new("send_nsca").arg("-h").output().is_ok();
    if !is_there {
        println!("skipped: send_nsca is missing (apt-get install nsca-client)");
        let is_required = std::env::var("WEIR_REQUIRE_ALL").is_ok_and(|value| value == "1");
        assert!(!is_required, "the test needs send_nsca");
    }
    is_there
}

fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(test);
}

#[test]
fn send_nsca_of_debian_is_understood_with_each_encryption() {
    if !has_sender() {
        return;
    }
    let methods = [
        (0, NscaCipher::None, "unused"),
        (1, NscaCipher::Xor, "geheim"),
        (14, NscaCipher::Aes256, "hunter22"),
    ];
    for (method, cipher, password) in methods {
        run(async {
            let (hub, intake) = intake(NscaKey { cipher, password: password.to_owned() });
            let (address, dir) = (listen(&intake).await, tempfile::tempdir().expect("a directory"));
            // Several results over one connection, and one of the host itself.
            let lines =
                "web1\tdisk\t2\tfull|used=99%\n\x17web1\tload\t1\thigh\n\x17web2\t1\tno reply\n";
            let path = dir.path().to_owned();
            let sending = tokio::task::spawn_blocking(move || {
                send(&path, address, (method, password), lines)
            });
            let rows = hub.rows(3).await;
            sending.await.expect("it ends");
            assert_eq!(
                rows,
                [
                    "host=web1 check=disk status=critical output=full",
                    "host=web1 check=load status=warn output=high",
                    "host=web2 check=host status=critical output=no reply",
                ],
                "method {method}"
            );
        });
    }
}

#[test]
fn send_nsca_with_another_password_leaves_no_row_and_is_counted() {
    if !has_sender() {
        return;
    }
    run(async {
        let key = NscaKey { cipher: NscaCipher::Aes256, password: "hunter22".to_owned() };
        let (hub, intake) = intake(key);
        let (address, dir) = (listen(&intake).await, tempfile::tempdir().expect("a directory"));
        let path = dir.path().to_owned();
        let sending = tokio::task::spawn_blocking(move || {
            send(&path, address, (14, "hunter23"), "web1\tdisk\t2\tfull\n");
            send(&path, address, (14, "hunter22"), "web1\tdisk\t0\tfine\n");
        });
        assert_eq!(hub.rows(1).await, ["host=web1 check=disk status=ok output=fine"]);
        sending.await.expect("it ends");
        let counts = intake.report().expect("something was counted");
        let counts = texts(&counts, &["protocol", "outcome", "reason"]);
        assert!(counts.contains("protocol=nsca outcome=refused reason=bad_checksum"), "{counts}");
    });
}
