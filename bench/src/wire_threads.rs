//! Gain from a second thread: `weir wire` with one and two threads, and two processes with one
//! thread at the same time.
//!
//! Two processes that share nothing show the limit of the CPUs; two threads hand over packets, with
//! a cache line each. In a virtual machine that cost changes from second to second, so each round
//! measures it, rounds alternate, and the best counts: slow ones are due to the machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::caches::{handed_over_gigabytes, round_trip_ns};
use crate::{meter, report};

/// Least total time of each kind.
const SECONDS_EACH: f64 = 5.0;
const ROUNDS_MAX: usize = 40;

/// Wall seconds of a round, and the state of the CPUs before it.
struct ThreadRound {
    one: f64,
    two: f64,
    apart: f64,
    round_trip_ns: f64,
    gigabytes: f64,
}

/// Measures each of `files`: title, path, and number of packets or lines.
pub(crate) fn measure(
    page: &mut report::Report,
    weir: &str,
    files: &[(String, PathBuf, u64)],
) -> anyhow::Result<()> {
    if round_trip_ns().is_none() {
        page.text(
            "### A second thread\n\nNot measured: there is one processor, or it may not be chosen.",
        );
        return Ok(());
    }
    let heads = [
        "of",
        "rounds",
        "one thread, s",
        "two threads, s",
        "times as fast",
        "two programs, s",
        "what they allow",
        "M/s with two threads",
        "in the best round: ns a round trip",
        "GB/s handed over",
        "in the worst: times",
        "ns",
        "GB/s",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for (name, path, count) in files {
        rows.push(row(page, (weir, name), path, *count)?);
    }
    page.text(
        "### A second thread\n\nThreads are bound to processors 0 and 1. Each kind ran for 5 s at least, in turns, and its best run \
         counts. *Two programs* are two of one thread each at the same time, one on each processor, each reading all of it: what \
         the machine allows is twice one thread's time, divided by theirs. Before each round a cache line goes from one processor \
         to the other and back, and 256 KiB at a time are written by one and read by the other.",
    );
    page.table(&rows);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn row(
    page: &mut report::Report,
    (weir, name): (&str, &str),
    path: &Path,
    count: u64,
) -> anyhow::Result<Vec<String>> {
    let mut rounds = Vec::new();
    let mut spent = [0.0_f64; 2];
    while rounds.len() < ROUNDS_MAX && spent.iter().any(|spent| *spent < SECONDS_EACH) {
        let round = round(page, weir, path)?;
        spent = [spent[0] + round.one, spent[1] + round.two];
        rounds.push(round);
    }
    let picks: [fn(&ThreadRound) -> f64; 3] =
        [|round| round.one, |round| round.two, |round| round.apart];
    let [one, two, apart] = picks.map(|pick| rounds.iter().map(pick).fold(f64::INFINITY, f64::min));
    rounds.sort_by(|a, b| a.two.total_cmp(&b.two));
    let (fast, slow) = rounds.first().zip(rounds.last()).context("a round was run")?;
    Ok(vec![
        name.to_owned(),
        rounds.len().to_string(),
        format!("{one:.3}"),
        format!("{two:.3}"),
        format!("{:.2}", one / two),
        format!("{apart:.3}"),
        format!("{:.2}", 2.0 * one / apart),
        format!("{:.2}", count as f64 / two / 1e6),
        format!("{:.0}", fast.round_trip_ns),
        format!("{:.1}", fast.gigabytes),
        format!("{:.2}", one / slow.two),
        format!("{:.0}", slow.round_trip_ns),
        format!("{:.1}", slow.gigabytes),
    ])
}

fn round(page: &mut report::Report, weir: &str, path: &Path) -> anyhow::Result<ThreadRound> {
    let round_trip_ns = round_trip_ns().context("the CPUs were available before")?;
    let gigabytes = handed_over_gigabytes().context("the CPUs were available before")?;
    let two = run(page, weir, path, &[("0,1", "2")])?;
    let one = run(page, weir, path, &[("0", "1")])?;
    let apart = run(page, weir, path, &[("0", "1"), ("1", "1")])?;
    Ok(ThreadRound { one, two, apart, round_trip_ns, gigabytes })
}

/// Runs weir once per pair of CPUs and threads, all at the same time. Returns seconds until the
/// last ends.
fn run(
    page: &mut report::Report,
    weir: &str,
    path: &Path,
    each: &[(&str, &str)],
) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let children = each.iter().map(|(processors, threads)| {
        Command::new("taskset")
            .args(["--cpu-list", processors, weir, "wire"])
            .arg(path)
            .args(["--format", "json", "--threads", threads])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run `taskset`")
    });
    for child in children.collect::<Result<Vec<_>, _>>()? {
        let [user, system] = meter::wait_split(child)?;
        ensure!(user + system > 0.0, "weir cannot read `{}`", path.display());
        page.own(user + system);
    }
    Ok(begin.elapsed().as_secs_f64())
}
