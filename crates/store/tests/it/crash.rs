//! `kill -9` at any moment: every acknowledged row exists exactly once.
//!
//! The child is this test binary. Its store has such low limits that flush, compaction and
//! retention run all the time, so kills hit them and the recovery as well. `WEIR_SEED` reproduces
//! the kill times of a run.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use weir_store::{
    Query, QueryLimits, Retention, SlowOptions, SlowRule, Store, StoreOptions, inspect,
};
use weir_tables::{
    Batch, Clock, Micros, Parcel, Reject, RejectRows, Rows, StreamId, Sysctl, SysctlRows,
};

use crate::slow::{files, place};
use crate::tool::{Chance, NOON, eventually, number, parcel, set};

const ROUNDS: u64 = 40;
const STREAMS: u128 = 3;
const DIR: &str = "WEIR_STORE_CRASH_DIR";
/// Cold tier to which files move all the time, if set.
const SLOW: &str = "WEIR_STORE_CRASH_SLOW";
const ROUND: &str = "WEIR_STORE_CRASH_ROUND";

fn tight(dir: &Path, slow: Option<&Path>) -> StoreOptions {
    let rule = SlowRule { after: Duration::ZERO, ..SlowRule::default() };
    StoreOptions {
        slow: slow.map(|slow| SlowOptions { rule, ..place(slow) }),
        hot_bytes_max: 30_000,
        wal_segment_bytes: 10_000,
        small_file_count: 3,
        gc_grace: Duration::ZERO,
        maintenance_interval: Duration::from_millis(1),
        retention: Retention {
            days_by_table: vec![("reject".into(), 0)],
            restorable: Duration::ZERO,
            ..Retention::default()
        },
        ..StoreOptions::new(dir, Arc::new(TickingClock::default()))
    }
}

/// A clock that advances by a millisecond per read, so that existing rows are old.
#[derive(Default)]
struct TickingClock(AtomicI64);

impl Clock for TickingClock {
    fn now(&self) -> Micros {
        Micros(NOON.0 + self.0.fetch_add(1000, Ordering::Relaxed))
    }
}

/// The child process that is killed, not a test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let slow = std::env::var_os(SLOW);
    let store = Store::open(tight(Path::new(&dir), slow.as_ref().map(Path::new))).unwrap();
    let senders = (0..STREAMS).map(|stream| {
        let store = store.clone();
        tokio::spawn(async move { send_stream(&store, stream).await })
    });
    let senders: Vec<_> = senders.collect();
    for at in 0.. {
        let number = round * 1_000_000 + at;
        store
            .append(Parcel { range: None, batches: vec![sample(number), expired()] })
            .await
            .unwrap();
        acknowledge("sample", number);
    }
    drop(senders);
}

async fn send_stream(store: &Store, stream: u128) {
    let known = store.positions(&[StreamId(stream)]);
    let mut at = known.first().map_or(0, |entry| entry.1);
    for step in 1.. {
        // Every third parcel overlaps the previous one, like a sender that missed the response.
        let from = if step % 3 == 0 { at.saturating_sub(7) } else { at };
        let to = at + 1 + step % 40;
        let answer = if step % 2 == 0 {
            store.append_encoded(parcel(stream, from..to).encode(step % 4 == 0)).await
        } else {
            store.append(parcel(stream, from..to)).await
        };
        assert_eq!(answer.unwrap().position, Some(to));
        at = to;
        acknowledge(&stream.to_string(), to);
    }
}

fn acknowledge(what: &str, number: u64) {
    writeln!(std::io::stdout().lock(), "ack {what} {number}").unwrap();
}

fn sample(number: u64) -> Batch {
    let mut rows = SysctlRows::default();
    let name = number.to_string();
    rows.push(&Sysctl { ts: NOON, host: "web1", name: &name, value: "1", ..Default::default() });
    Batch { table: SysctlRows::SPEC, rows: rows.finish() }
}

fn expired() -> Batch {
    let mut rows = RejectRows::default();
    rows.push(&Reject {
        ts: Micros(NOON.0 - 40 * 86_400_000_000),
        host: "web1",
        ..Default::default()
    });
    Batch { table: RejectRows::SPEC, rows: rows.finish() }
}

/// Positions that children acknowledged before they were killed.
#[derive(Default)]
struct AcknowledgedRows {
    streams: HashMap<u128, u64>,
    samples: Vec<u64>,
}

impl AcknowledgedRows {
    fn take(&mut self, line: &str) {
        let mut words = line.split(' ').skip(1);
        let (Some(what), Some(number)) = (words.next(), words.next()) else { return };
        // The kill may cut the last line; a truncated number is smaller, and that position is valid
        // as well.
        let Ok(number) = number.parse::<u64>() else { return };
        match what.parse() {
            Ok(stream) => {
                let known = self.streams.entry(stream).or_insert(0);
                *known = number.max(*known);
            }
            Err(_) if what == "sample" => self.samples.push(number),
            Err(_) => {}
        }
    }
}

fn start(dir: &Path, slow: Option<&Path>, round: u64) -> (Child, Receiver<String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .envs(slow.map(|slow| (SLOW, slow)))
        .args(["crash::child", "--exact", "--nocapture"])
        .env(DIR, dir)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, lines) = channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        let mut stdout = stdout;
        let mut line = String::new();
        while stdout.read_line(&mut line).is_ok_and(|length| length > 0) {
            // Only complete lines: a truncated number is another number.
            if let Some(whole) = line.strip_suffix('\n') {
                drop(sender.send(whole.to_owned()));
            }
            line.clear();
        }
    });
    (child, lines)
}

#[test]
fn kill_at_any_moment_loses_and_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    kill_again_and_again(dir.path(), None);
}

#[tokio::test]
async fn kill_at_any_moment_of_a_move_loses_and_doubles_and_leaks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (data, slow) = (dir.path().join("data"), dir.path().join("slow"));
    let (to, from) = (data.clone(), slow.clone());
    tokio::task::spawn_blocking(move || kill_again_and_again(&to, Some(&from))).await.unwrap();
    let options = StoreOptions {
        retention: Retention { days: 36_500, restorable: Duration::ZERO, ..Retention::default() },
        ..tight(&data, Some(&slow))
    };
    let store = Store::open(options).unwrap();
    store.flush().await.unwrap();
    let rows = number(&store, "select count(*) from log").await;
    eventually(async || {
        let found = inspect(&data, Some(&place(&slow)), false).unwrap();
        let named: u64 = found.tables.values().map(|table| table.file_count).sum();
        assert_eq!(found.problems, []);
        files(&data).is_empty() && files(&slow).len() as u64 == named
    })
    .await;
    assert!(store.stats().slow_file_count > 0);
    store.close().await.unwrap();
    let found = inspect(&data, Some(&place(&slow)), true).unwrap();
    assert_eq!((found.problems, found.unknown_files), (vec![], vec![]));
    assert_eq!(found.tables["log"].row_count, rows.unsigned_abs());
}

#[expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]
fn kill_again_and_again(dir: &Path, slow: Option<&Path>) {
    let seed = set("WEIR_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20 | 1);
    println!("WEIR_SEED={seed}");
    let mut chance = Chance::new(seed);
    let mut acknowledged = AcknowledgedRows::default();
    let mut spoke = 0;
    for round in 0..ROUNDS {
        let (mut child, lines) = start(dir, slow, round);
        let is_early = chance.below(4) == 0;
        // Some are killed during recovery, the others during work.
        while !is_early && let Ok(line) = lines.recv_timeout(Duration::from_secs(30)) {
            acknowledged.take(&line);
            if line.contains("ack ") {
                break;
            }
        }
        let deadline = Instant::now() + Duration::from_millis(chance.below(120));
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            let Ok(line) = lines.recv_timeout(left) else { break };
            acknowledged.take(&line);
        }
        child.kill().unwrap();
        let end = child.wait_with_output().unwrap();
        assert!(
            end.status.code().is_none(),
            "the child ended by itself: {}",
            String::from_utf8_lossy(&end.stderr)
        );
        let before = acknowledged.samples.len();
        lines.iter().for_each(|line| acknowledged.take(&line));
        spoke += usize::from(acknowledged.samples.len() > before || !is_early);
    }
    assert!(spoke > 10, "children were killed before they did anything");
    assert!(acknowledged.samples.len() > 100, "only {} samples", acknowledged.samples.len());
    tokio::runtime::Runtime::new().unwrap().block_on(check(dir, slow, &acknowledged));
}

async fn check(dir: &Path, slow: Option<&Path>, acknowledged: &AcknowledgedRows) {
    let store = Store::open(tight(dir, slow)).unwrap();
    let answer = store.query(Query::new("select count(*) from log")).run().await.unwrap();
    assert_eq!(answer.row_count(), 1);
    let mut total = 0;
    for (stream, known) in &acknowledged.streams {
        let position = store.positions(&[StreamId(*stream)])[0].1;
        assert!(
            position >= *known,
            "stream {stream} stands at {position}, {known} was acknowledged"
        );
        total += position;
    }
    // Streams share bodies and offsets, so every number below a stream's end exists once per
    // stream.
    let rows = number(&store, "select count(*) from log").await;
    assert_eq!(rows.unsigned_abs(), total, "rows of all streams");
    for edge in acknowledged.streams.values().flat_map(|end| [0, end / 2, end - 1]) {
        let ends =
            acknowledged.streams.keys().map(|stream| store.positions(&[StreamId(*stream)])[0].1);
        let expected = ends.filter(|end| *end > edge).count();
        let sql = format!("select count(*) from log where source_offset = {edge}");
        assert_eq!(number(&store, &sql).await, i64::try_from(expected).unwrap(), "offset {edge}");
    }
    let most =
        number(&store, "select max(n) from (select count(*) as n from log group by source_offset)")
            .await;
    assert!(most <= i64::try_from(STREAMS).unwrap());
    let doubled = "select count(*) - count(distinct name) from sysctl";
    assert_eq!(number(&store, doubled).await, 0, "samples twice");
    let kept = samples(&store).await;
    for number in &acknowledged.samples {
        assert!(kept.contains(number), "sample {number} was acknowledged and is not there");
    }
}

async fn samples(store: &Store) -> std::collections::HashSet<u64> {
    use arrow_array::cast::AsArray;
    let limits = QueryLimits { rows: 10_000_000, ..QueryLimits::default() };
    let answer =
        store.query(Query::new("select name from sysctl").limits(limits)).run().await.unwrap();
    assert!(!answer.is_truncated);
    let names =
        answer.batches.iter().flat_map(|rows| rows.column(0).as_string::<i32>().iter().flatten());
    names.map(|name| name.parse().unwrap()).collect()
}
