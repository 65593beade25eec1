//! `growth`: cost of storing a line, and of finding a request id, as the store grows day by day.
//!
//! Each day of lines is one file, which `weir up` tails and which is deleted once its lines are
//! stored. The next one is written meanwhile.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use weir_tables::Micros;

use crate::weir::{Weir, wait_for};
use crate::{data, ingest, meter, report};

/// Lines of a day.
const DAY_LINES: u32 = 5_000_000;
const DAY: Duration = Duration::from_secs(86_400);
const LIMIT: Duration = Duration::from_secs(600);
/// Searches for an id.
const TIMES: u32 = 20;
/// Files are at rest when their size on disk has equalled the live size for this long.
const REST: Duration = Duration::from_secs(30);

/// Figures at a size of the store.
struct SizeFigures {
    lines: u64,
    /// Cost of the lines since the previous size.
    cpu_seconds_per_million: f64,
    /// Size of Parquet files as soon as the last line is in a file.
    bytes_at_once: u64,
    /// Size of Parquet files after merging and deleting.
    bytes_at_rest: u64,
    /// Wall and CPU milliseconds of a search.
    needle: (f64, f64),
    files: u64,
    peak_mib: f64,
}

/// Grows a store to each of the ascending `sizes` in lines, and keeps it at `keep`.
pub(crate) fn run(sizes: &[u32], keep: Option<PathBuf>) -> anyhow::Result<()> {
    let mut page = report::Report::new("growth");
    let dir = tempfile::tempdir()?;
    let logs = dir.path().join("logs");
    let data_dir = keep.unwrap_or_else(|| dir.path().join("data"));
    ensure!(
        !data_dir.exists(),
        "cannot create `{}`: it exists\nhint: choose another directory for --keep",
        data_dir.display()
    );
    std::fs::create_dir(&logs)?;
    let (tail, data_path) = (format!("{}/*.log", logs.display()), data_dir.display().to_string());
    let weir =
        Weir::serve(&["up", "--listen", "127.0.0.1:0", "--data", &data_path, "--tail", &tail])?;
    let last = sizes.iter().max().copied().unwrap_or_default().div_ceil(DAY_LINES);
    let (mut marks, mut before) = (Vec::new(), (0, meter::cpu_seconds(weir.id())));
    let mut next = write(dir.path().to_owned(), 0);
    for day in 0..last {
        let written = next.join().ok().context("the writer of lines panicked")??;
        next = write(dir.path().to_owned(), (day + 1).min(last - 1));
        take(&weir, &written, &logs, day)?;
        let lines = u64::from(day + 1) * u64::from(DAY_LINES);
        if sizes
            .iter()
            .any(|size| u64::from(*size).div_ceil(u64::from(DAY_LINES)) == u64::from(day + 1))
        {
            marks.push(mark(&weir, &data_dir, lines, &mut before)?);
            report::say(&format!("{lines} lines are stored"));
        }
    }
    // The writer is one day ahead.
    drop(next.join());
    page.own(weir.stop()?);
    page.table(&table(&marks));
    page.text(EXPLANATION);
    page.write()
}

const EXPLANATION: &str = "\
Days of 5,000,000 nginx JSON lines each, tailed by one `weir up`, which also samples its host and runs its rules. CPU-seconds are of the whole \
process, merging included, from the last line of the row before to this row's. \
*At once*: all Parquet files on the disk when the last line is in one, with those that were merged and are kept for a minute for who reads \
them; *at rest*: when all is merged and these are deleted. *needle*: one request id of the first day, without a range of time, \
asked over HTTP 20 times: median of wall times, mean of processor time.";

/// The first day, early enough for the last one to be in the past.
fn first_day() -> Micros {
    Micros(ingest::yesterday().0 - 60 * 86_400_000_000)
}

fn start_of(day: u32) -> Micros {
    first_day() + DAY * day
}

/// Writes a day's lines in a separate thread.
fn write(dir: PathBuf, day: u32) -> std::thread::JoinHandle<anyhow::Result<PathBuf>> {
    std::thread::spawn(move || {
        let path = dir.join(format!("day-{day}"));
        data::write_day_of(&path, DAY_LINES, start_of(day), u64::from(day) + 42)?;
        Ok(path)
    })
}

/// Waits until weir has stored a day's lines.
fn take(weir: &Weir, written: &Path, logs: &Path, day: u32) -> anyhow::Result<()> {
    let log = logs.join(format!("day-{day}.log"));
    std::fs::rename(written, &log)?;
    let range = format!("ts >= '{}' and ts < '{}'", start_of(day), start_of(day + 1));
    let source = format!("source = '{}'", log.display());
    let mut stored = 0;
    wait_for("a day's lines", LIMIT, Duration::from_secs(1), || {
        let requests = weir.number(&format!("select count(*) from request where {range}"))?;
        let logs = weir.number(&format!("select count(*) from log where {source}"))?;
        let rejects = weir.number(&format!("select count(*) from reject where {source}"))?;
        stored = requests + logs + rejects;
        Ok(stored >= u64::from(DAY_LINES))
    })?;
    ensure!(stored == u64::from(DAY_LINES), "{DAY_LINES} lines became {stored} rows");
    std::fs::remove_file(&log)?;
    Ok(())
}

fn mark(
    weir: &Weir,
    data_dir: &Path,
    lines: u64,
    before: &mut (u64, f64),
) -> anyhow::Result<SizeFigures> {
    weir.flush()?;
    let cpu = meter::cpu_seconds(weir.id());
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let cpu_seconds_per_million = (cpu - before.1) * 1e6 / (lines - before.0) as f64;
    let bytes_at_once = ingest::size(data_dir, Some("parquet"))?;
    let needle = needle(weir)?;
    let (files, bytes_at_rest) = rest(weir, data_dir)?;
    *before = (lines, cpu);
    Ok(SizeFigures {
        lines,
        cpu_seconds_per_million,
        bytes_at_once,
        bytes_at_rest,
        needle,
        files,
        peak_mib: meter::memory_mib(weir.id()).1,
    })
}

/// Waits until all files are merged; returns their number and their size on disk. Tolerates one
/// percent, since samples of the host keep arriving.
fn rest(weir: &Weir, data_dir: &Path) -> anyhow::Result<(u64, u64)> {
    let (mut rest, mut bytes, mut since) = ((0, 0), 0_u64, Instant::now());
    wait_for("files to be merged", LIMIT, Duration::from_secs(1), || {
        let status: serde_json::Value = serde_json::from_str(&weir.get("/api/status")?)?;
        let [files, live] = ["file_count", "file_bytes"].map(|name| status["store"][name].as_u64());
        let (files, live) = files.zip(live).context("the status has no figures of files")?;
        let on_disk = ingest::size(data_dir, Some("parquet"))?;
        if on_disk.abs_diff(bytes) > on_disk / 100 || on_disk.abs_diff(live) > live / 100 {
            (bytes, since) = (on_disk, Instant::now());
        }
        rest = (files, on_disk);
        Ok(since.elapsed() >= REST)
    })?;
    Ok(rest)
}

/// Wall and CPU milliseconds of a search for one id.
fn needle(weir: &Weir) -> anyhow::Result<(f64, f64)> {
    let range = format!("ts >= '{}' and ts < '{}'", first_day(), first_day() + DAY);
    let rows = weir.sql(&format!("select request_id from request where {range} limit 1"))?;
    let id = rows.first().and_then(|row| row[0].as_str()).context("no request has an id")?;
    let sql = format!("select * from request where request_id = '{id}'");
    let mut walls = Vec::new();
    // Warm up: the first search reads files into memory.
    ensure!(weir.sql(&sql)?.len() == 1, "the id must exist once");
    let cpu = meter::cpu_seconds(weir.id());
    for _ in 0..TIMES {
        let began = Instant::now();
        weir.sql(&sql)?;
        walls.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let cpu = (meter::cpu_seconds(weir.id()) - cpu) * 1e3 / f64::from(TIMES);
    walls.sort_by(f64::total_cmp);
    Ok((walls[walls.len() / 2], cpu))
}

fn table(marks: &[SizeFigures]) -> Vec<Vec<String>> {
    let heads = [
        "lines",
        "CPU-s per M since the row before",
        "Parquet bytes/line at once",
        "at rest",
        "needle: wall ms",
        "CPU ms",
        "files of all tables",
        "peak RSS MiB",
    ];
    let mut table = vec![heads.map(str::to_owned).to_vec()];
    table.extend(marks.iter().map(|mark| {
        #[expect(clippy::cast_precision_loss, reason = "file sizes are far below 2^53")]
        let [at_once, at_rest] = [mark.bytes_at_once, mark.bytes_at_rest]
            .map(|bytes| format!("{:.1}", bytes as f64 / mark.lines as f64));
        vec![
            mark.lines.to_string(),
            format!("**{:.2}**", mark.cpu_seconds_per_million),
            at_once,
            format!("**{at_rest}**"),
            format!("{:.1}", mark.needle.0),
            format!("**{:.1}**", mark.needle.1),
            mark.files.to_string(),
            format!("{:.0}", mark.peak_mib),
        ]
    }));
    table
}
