//! `searchable`: time from writing a line to seeing it in SQL, while lines arrive steadily.
//!
//! The pacer records length and time after each write; a poller queries the highest byte offset in
//! SQL. A write counts as visible at the end of the first response with its last line. The figures
//! are upper bounds: they include the time of the query and half of the polling interval.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::data::{self, WriteLog};
use crate::weir::{Weir, wait_for};
use crate::{meter, report};

const POLL: Duration = Duration::from_millis(50);
/// Upper bound of a line's length.
const LINE_BYTES_MAX: u64 = 4096;

/// Runs agent and hub as two processes, with `rate` lines per second for `span`.
pub(crate) fn run(rate: u32, span: Duration) -> anyhow::Result<()> {
    let mut page = report::Report::new("searchable");
    let dir = tempfile::tempdir()?;
    let (log, data) =
        (dir.path().join("access.log"), dir.path().join("data").display().to_string());
    let hub = Weir::serve(&["hub", "--listen", "127.0.0.1:0", "--data", &data])?;
    let agent = Weir::agent(&["agent", "--hub", &hub.url, "--tail", &log.display().to_string()])?;
    // Write a few lines first, so that the agent has found the file and its stream exists.
    let (warm, _) = data::pace(&log, 100, Duration::from_secs(2), report::now())?;
    let from = warm.last().context("nothing was written")?.0;
    wait_for("the first lines", Duration::from_secs(30), POLL, || {
        Ok(seen(&hub)? + LINE_BYTES_MAX >= from)
    })?;
    let before = [&agent, &hub].map(|weir| meter::cpu_seconds(weir.id()));
    let began = Instant::now();
    let pacer = std::thread::spawn({
        let log = log.clone();
        move || data::pace(&log, rate, span, report::now())
    });
    let mut answers: Vec<(u64, Instant)> = Vec::new();
    while !pacer.is_finished()
        || answers.last().is_none_or(|(offset, _)| offset + LINE_BYTES_MAX < length(&log))
    {
        answers.push((seen(&hub)?, Instant::now()));
        ensure!(
            began.elapsed() < span + Duration::from_secs(60),
            "lines are still missing a minute after the last was written"
        );
        data::pause(POLL);
    }
    let seconds = began.elapsed().as_secs_f64();
    let after = [&agent, &hub].map(|weir| meter::cpu_seconds(weir.id()));
    let (written, lines) =
        pacer.join().map_err(|_panic| anyhow::anyhow!("the pacer panicked"))??;
    let mut delays = delays(&written, from, &answers);
    delays.sort_by(f64::total_cmp);
    let memory = [&agent, &hub].map(|weir| meter::memory_mib(weir.id()).1);
    page.text(&format!("{lines} lines in {:.0} s, {} queries; `weir agent` tails the file and sends to `weir hub` on the same host.", span.as_secs_f64(), answers.len()));
    let shares = [0, 1].map(|at| format!("{:.1}", (after[at] - before[at]) / seconds * 100.0));
    page.table(&[
        ["figure", "measured", "bar"].map(str::to_owned).to_vec(),
        vec![
            "written to visible, p50 / p99 / worst, s".to_owned(),
            format!(
                "{:.2} / **{:.2}** / {:.2}",
                at_share(&delays, 0.5),
                at_share(&delays, 0.99),
                at_share(&delays, 1.0)
            ),
            "p99 1".to_owned(),
        ],
        vec![
            "agent, % of a core / peak RSS MiB".to_owned(),
            format!("{} / {:.0}", shares[0], memory[0]),
            "–".to_owned(),
        ],
        vec![
            "hub with rules and the poller's queries, % of a core / peak RSS MiB".to_owned(),
            format!("{} / {:.0}", shares[1], memory[1]),
            "–".to_owned(),
        ],
    ]);
    page.text("Reference at 25,000 lines/s: Fluent Bit 5.1 relaying JSON 20.2 % of a core and 26 MiB, rsyslog with mmjsonparse 91.7 % and 9 MiB; neither stores anything.");
    page.own(agent.stop()? + hub.stop()?);
    page.write()
}

/// The highest offset of a request in SQL; broken lines are rare enough to ignore.
fn seen(hub: &Weir) -> anyhow::Result<u64> {
    hub.number("select max(source_offset) from request")
}

fn length(path: &std::path::Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Seconds from each write to the first response with it; the file had `from` bytes before.
fn delays(written: &WriteLog, from: u64, answers: &[(u64, Instant)]) -> Vec<f64> {
    let delays = written.iter().filter_map(|(length, at)| {
        let first = answers.partition_point(|(offset, _)| offset + LINE_BYTES_MAX < from + length);
        let (_, seen_at) = answers.get(first).or(answers.last())?;
        Some(seen_at.saturating_duration_since(*at).as_secs_f64())
    });
    delays.collect()
}

/// The percentile of sorted values at `share`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a few thousand values"
)]
fn at_share(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{at_share, delays};

    #[test]
    fn a_write_is_visible_in_the_first_response_with_it() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let written = vec![(10_000, start), (20_000, start + second)];
        let answers = [(0, start), (115_000, start + 2 * second), (119_000, start + 3 * second)];
        assert_eq!(delays(&written, 100_000, &answers), [2.0, 2.0]);
    }

    #[test]
    fn shares_are_values_of_the_list() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            [at_share(&values, 0.5), at_share(&values, 0.99), at_share(&values, 1.0)],
            [50.0, 99.0, 100.0]
        );
    }
}
