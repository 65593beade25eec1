//! A worker process: reads a cell a line from standard input, and prints the counts.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_hub::store_failure;
use weir_process::failure::Failure;
use weir_process::terminal::say;
use weir_store::{RangeReader, SlowPlace};

use super::cell::{Cell, ReadCounts};
use super::{WARM_UP, name};

/// The processes.
pub(super) struct Nodes(Vec<Node>);

struct Node {
    child: Child,
    cells: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Nodes {
    pub(super) fn start(count: usize, place: &str) -> Result<Self, Failure> {
        let start = || {
            let program = std::env::current_exe()?;
            let mut command = Command::new(program);
            command.args(std::env::args_os().skip(1)).arg("--node");
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let cells = child.stdin.take().ok_or_else(missing_pipe)?;
            let answers = BufReader::new(child.stdout.take().ok_or_else(missing_pipe)?);
            Ok(Node { child, cells, answers })
        };
        let nodes: std::io::Result<Vec<Node>> = (0..count).map(|_| start()).collect();
        nodes.map(Self).map_err(|error| {
            Failure::new(format!("cannot start a process to read `{place}`: {error}"))
        })
    }

    /// What as many of them as the cell says count together.
    pub(super) fn measure(&mut self, cell: &Cell) -> Result<ReadCounts, Failure> {
        let line = serde_json::to_string(cell).map_err(|error| gone(&error.to_string()))?;
        for node in &mut self.0[..cell.nodes] {
            let told = writeln!(node.cells, "{line}").and_then(|()| node.cells.flush());
            told.map_err(|error| gone(&error.to_string()))?;
        }
        let mut counts = ReadCounts::default();
        for node in &mut self.0[..cell.nodes] {
            let mut answer = String::new();
            let read = node.answers.read_line(&mut answer);
            read.map_err(|error| gone(&error.to_string()))?;
            counts.merge(serde_json::from_str(&answer).map_err(|error| gone(&error.to_string()))?);
        }
        match &counts.why {
            Some(why) if counts.total() == 0 => Err(Failure::new(why.clone())),
            _ => Ok(counts),
        }
    }
}

fn missing_pipe() -> std::io::Error {
    std::io::Error::other("it has no pipe")
}

fn gone(error: &str) -> Failure {
    Failure::new(format!("a process that measured is gone: {error}"))
}

/// Measures what standard input says, until it ends.
pub(super) fn run(place: &SlowPlace) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| Failure::new(format!("cannot read stdin: {error}")))?;
        let cell: Cell = serde_json::from_str(&line)
            .map_err(|error| Failure::new(format!("cannot measure `{line}`: {error}")))?;
        let counts = runtime.block_on(measure(place, cell))?;
        let answer = serde_json::to_string(&counts)
            .map_err(|error| Failure::new(format!("cannot tell what was counted: {error}")))?;
        say(&answer);
    }
    Ok(())
}

async fn measure(place: &SlowPlace, cell: Cell) -> Result<ReadCounts, Failure> {
    let mut place = place.clone();
    if let SlowPlace::Bucket(options) = &mut place {
        (options.requests, options.hedge_after) = (cell.concurrency, None);
    }
    let reader = Arc::new(RangeReader::open(&place).map_err(store_failure)?);
    let counts = Arc::new(Mutex::new(ReadCounts::default()));
    let start = Instant::now() + WARM_UP;
    let end = start + Duration::from_secs(cell.seconds);
    let seed = u64::from(std::process::id()) << 32;
    let readers = (0..cell.concurrency as u64).map(|number| {
        let (reader, counts) = (Arc::clone(&reader), Arc::clone(&counts));
        tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(seed | (number + 1));
            while Instant::now() < end {
                let object = random.usize(..cell.objects);
                let offset = random.u64(..=cell.object_bytes - cell.range_bytes);
                let range = offset..offset + cell.range_bytes;
                let begun = Instant::now();
                let outcome = reader.read(&name(object), range).await;
                let (now, took) = (Instant::now(), begun.elapsed());
                let mut counts = counts.lock();
                match outcome {
                    Ok(_) if (start..end).contains(&now) => counts.add(took.as_secs_f64()),
                    Ok(_) => {}
                    Err(error) => {
                        counts.errors += 1;
                        counts.why = Some(error.to_string());
                    }
                }
            }
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.map_err(|error| Failure::new(format!("a reader broke off: {error}")))?;
    }
    let mut counts = std::mem::take(&mut *counts.lock());
    counts.failed = reader.failed();
    Ok(counts)
}
