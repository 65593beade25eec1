//! A real process that is killed at random moments: this test binary starts itself, and sends
//! notices over TCP to the parent.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::sync::watch;
use weir_actions::{Notice, NoticeKind};
use weir_ledger::{LedgerBackend, SqliteLedger};
use weir_tables::{Clock, Micros};

use super::doubles::{ChangeLog, SECOND_US, START_US, incident, notice};
use super::{NOTICE_KIND, NoticeRecord, NoticeState, Outbox, OutboxContext};
use crate::receiver::{Accepted, Message, RateLimit, Receiver, RetryAdvice, SendError};

const CHILD: &str = "WEIR_OUTBOX_KILL_CHILD";
const THIS_TEST: &str = "outbox::kill_tests::notices_survive_kill_9";
const KILLS: i64 = 30;
const INCIDENTS: usize = 60;

/// Real time on top of the start of this run: each run begins after the leases of the one before.
struct RunClock {
    base_us: i64,
    start: Instant,
}

impl Clock for RunClock {
    fn now(&self) -> Micros {
        Micros(self.base_us) + self.start.elapsed()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Sends `id repeat` as a line, and waits for a line.
#[derive(Debug)]
struct LineReceiver {
    address: String,
}

impl LineReceiver {
    async fn exchange(&self, message: &Message) -> std::io::Result<String> {
        let mut stream = tokio::net::TcpStream::connect(&self.address).await?;
        let line = format!("{} {}\n", message.notice.id, message.is_repeat);
        stream.write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        tokio::io::BufReader::new(stream).read_line(&mut answer).await?;
        Ok(answer)
    }
}

#[async_trait]
impl Receiver for LineReceiver {
    async fn send(&self, message: &Message) -> Result<Accepted, SendError> {
        let unclear = |message| SendError { message, retry: RetryAdvice::Unclear };
        let answer = self.exchange(message).await.map_err(|error| unclear(error.to_string()))?;
        if answer.is_empty() {
            return Err(unclear("no answer".to_owned()));
        }
        Ok(Accepted { answer, external_id: None })
    }

    async fn probe(&self) -> Result<String, SendError> {
        Ok(String::new())
    }

    fn is_idempotent(&self) -> bool {
        false
    }

    fn rate_limit(&self) -> RateLimit {
        RateLimit { burst: 1000.0, per_second: 1000.0 }
    }
}

fn notices() -> Vec<Notice> {
    let two_of = |number: usize| {
        [NoticeKind::Page, NoticeKind::Ack].into_iter().zip(1..).map(move |(kind, order)| {
            let mut notice = notice("line", kind, order, "kill");
            notice.id = format!("{number:03}-{order}");
            notice.incident = incident(&format!("inc{number}"));
            notice
        })
    };
    (0..INCIDENTS).flat_map(two_of).collect()
}

/// The process that is killed: `argument` is directory, address and start of its clock.
fn run_child(argument: &str) {
    let [directory, address, base_us] = argument.split('|').collect::<Vec<_>>()[..] else {
        panic!("three parts: {argument}");
    };
    let base_us = base_us.parse().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(RunClock { base_us, start: Instant::now() });
    let ledger = SqliteLedger::open(directory.as_ref(), Arc::clone(&clock)).unwrap();
    let receiver: Arc<dyn Receiver> = Arc::new(LineReceiver { address: address.to_owned() });
    let outbox = Arc::new(Outbox::new(OutboxContext {
        ledger: Arc::new(Mutex::new(ledger)),
        clock,
        receivers: BTreeMap::from([("line".to_owned(), receiver)]),
        sink: Arc::new(ChangeLog::default()),
        owner: format!("child {}", std::process::id()),
        page_url: String::new(),
        templates: None,
        seed: None,
    }));
    let committing = Arc::clone(&outbox);
    let writer = std::thread::spawn(move || {
        for notices in notices().chunks(10) {
            committing.commit(&[], notices).unwrap();
        }
    });
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let (_end, ended) = watch::channel(false);
    runtime.block_on(outbox.run(ended));
    writer.join().unwrap();
}

/// Takes messages on a port of its own; sends each line that arrived, before it is answered.
fn start_double() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, arrivals) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if !answer(stream.unwrap(), &sender) {
                return;
            }
        }
    });
    (address, arrivals)
}

/// False when the test is over.
#[expect(
    clippy::disallowed_methods,
    reason = "a slow receiver: most kills hit a message on its path"
)]
fn answer(mut stream: TcpStream, arrivals: &mpsc::Sender<String>) -> bool {
    let mut line = String::new();
    let is_whole = BufReader::new(&stream).read_line(&mut line).is_ok() && line.ends_with('\n');
    let is_wanted = !is_whole || arrivals.send(line.trim_end().to_owned()).is_ok();
    std::thread::sleep(Duration::from_micros(fastrand::u64(0..15_000)));
    // The client may be dead by now.
    drop(stream.write_all(b"ok\n"));
    is_wanted
}

fn child_argument(directory: &std::path::Path, address: &str, run: i64) -> String {
    format!("{}|{address}|{}", directory.display(), START_US + run * 40 * SECOND_US)
}

/// Starts the child, and kills it after so many further messages, at a random moment after that.
fn run_and_kill(
    argument: &str,
    arrivals: &mpsc::Receiver<String>,
    random: &mut fastrand::Rng,
) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", THIS_TEST, "--nocapture"])
        .env(CHILD, argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = Vec::new();
    for _ in 0..random.usize(0..4) {
        lines.extend(arrivals.recv_timeout(Duration::from_secs(5)));
    }
    // A random moment between two messages is what this test is for.
    let moment = Instant::now() + Duration::from_micros(random.u64(0..20_000));
    while let Some(rest) = moment.checked_duration_since(Instant::now()) {
        lines.extend(arrivals.recv_timeout(rest));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    lines.extend(arrivals.try_iter());
    lines
}

/// Ids of notices that are not sent yet.
fn unsent(directory: &std::path::Path) -> Vec<String> {
    let clock = Arc::new(RunClock { base_us: 0, start: Instant::now() });
    let mut ledger = SqliteLedger::open(directory, clock).unwrap();
    let documents = ledger.all(NOTICE_KIND).unwrap();
    let records = documents.iter().map(|document| NoticeRecord::parse(document).unwrap());
    let open = records.filter(|record| record.state != NoticeState::Sent);
    open.map(|record| record.notice.id).collect()
}

#[test]
fn notices_survive_kill_9() {
    if let Ok(argument) = std::env::var(CHILD) {
        return run_child(&argument);
    }
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let (address, arrivals) = start_double();
    let mut lines = Vec::new();
    for run in 0..KILLS {
        let argument = child_argument(dir.path(), &address, run);
        lines.extend(run_and_kill(&argument, &arrivals, &mut random));
    }
    let (mut run, all) = (KILLS, notices().len());
    let distinct = |lines: &[String]| {
        let ids = lines.iter().filter_map(|line| line.split(' ').next());
        ids.collect::<std::collections::BTreeSet<_>>().len()
    };
    while distinct(&lines) < all || !unsent(dir.path()).is_empty() {
        let argument = child_argument(dir.path(), &address, run);
        lines.extend(run_and_kill(&argument, &arrivals, &mut random));
        run += 1;
        assert!(run < 400, "{} of {all} arrived", distinct(&lines));
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut repeats = 0;
    for line in &lines {
        let (id, mark) = line.split_once(' ').unwrap();
        let is_second = !seen.insert(id);
        assert!(!is_second || mark == "true", "unmarked double {id}");
        assert!(!id.ends_with("-2") || seen.contains(&*id.replace("-2", "-1")), "{id} too early");
        repeats += usize::from(is_second);
    }
    println!("{run} kills, {} messages, {repeats} of them repeats", lines.len());
}
