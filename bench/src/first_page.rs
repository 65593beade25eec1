//! `first-page`: time from the start of `weir up` to the first page and the first status, with an
//! empty and with a used store.

use std::time::Duration;

use anyhow::ensure;

use crate::report;
use crate::weir::{Weir, wait_for};

/// Starts weir `runs` times on a new data directory, and again on the same directory.
pub(crate) fn run(runs: u32) -> anyhow::Result<()> {
    let mut page = report::Report::new("first-page");
    let (mut fresh, mut used) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let dir = tempfile::tempdir()?;
        fresh.push(once(&dir.path().display().to_string())?);
        used.push(once(&dir.path().display().to_string())?);
    }
    page.text("Seconds from exec of `weir up` until `GET /` and then `GET /api/status` answered 200. Bar: 2 s.");
    let mut table = vec![
        ["start", "median `/`", "worst `/`", "median status", "worst status"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (name, mut runs) in
        [("empty data directory", fresh), ("data directory of an earlier run", used)]
    {
        runs.sort_by(f64_pairs);
        let mut statuses: Vec<f64> = runs.iter().map(|run| run.1).collect();
        statuses.sort_by(f64::total_cmp);
        let (middle, last) = (runs.len() / 2, runs.len() - 1);
        let cells = [runs[middle].0, runs[last].0, statuses[middle], statuses[last]]
            .map(|seconds| format!("{seconds:.2}"));
        table.push([vec![name.to_owned()], cells.to_vec()].concat());
    }
    page.table(&table);
    page.write()
}

fn f64_pairs(one: &(f64, f64), other: &(f64, f64)) -> std::cmp::Ordering {
    one.0.total_cmp(&other.0)
}

/// Seconds until the first page and until the first status.
fn once(data: &str) -> anyhow::Result<(f64, f64)> {
    let weir = Weir::serve(&["up", "--listen", "127.0.0.1:0", "--data", data])?;
    let (page, status) = (seconds_until(&weir, "/")?, seconds_until(&weir, "/api/status")?);
    ensure!(weir.get("/")?.contains("<html"), "`/` is not a page");
    weir.stop()?;
    Ok((page, status))
}

fn seconds_until(weir: &Weir, path: &str) -> anyhow::Result<f64> {
    let (limit, interval) = (Duration::from_secs(30), Duration::from_millis(5));
    wait_for(path, limit, interval, || Ok(weir.get(path).is_ok()))?;
    Ok(weir.started.elapsed().as_secs_f64())
}
