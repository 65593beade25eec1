//! `ingest`: a day of nginx JSON lines, tailed by a real `weir up` until every line is a row on
//! disk.
//!
//! The file enters the tailed directory once weir runs, so that nothing is done before the clock
//! starts. Each line must be stored exactly once, across the three tables for lines, or the run
//! fails.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use weir_tables::Micros;

use crate::weir::{Weir, wait_for};
use crate::{data, meter, peer, report};

const LIMIT: Duration = Duration::from_secs(900);

/// Figures of one run.
struct IngestRun {
    events: u32,
    input_bytes: u64,
    searchable_seconds: f64,
    searchable_cpu_seconds: f64,
    stored_cpu_seconds: f64,
    parquet_bytes: u64,
    data_bytes: u64,
    peak_mib: f64,
    rows: [u64; 3],
}

/// Runs each size, and DuckDB, if available, over the same file.
pub(crate) fn run(sizes: &[u32], runs: u32) -> anyhow::Result<()> {
    let mut page = report::Report::new("ingest");
    page.text("nginx JSON lines (15 fields and a request id) tailed by `weir up --tail`, parsed, written ahead, sorted and stored as Parquet.");
    let mut table = vec![heads()];
    for events in sizes {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("generated");
        report::say(&format!("generating {events} lines"));
        let bytes = data::write_day(&file, *events, yesterday())?;
        let mut measured = Vec::new();
        for number in 1..=runs {
            report::say(&format!("run {number} of {runs}: {events} lines, {bytes} bytes"));
            measured.push(once(&file, *events, bytes)?);
        }
        measured.sort_by(|one, other| one.stored_cpu_seconds.total_cmp(&other.stored_cpu_seconds));
        let median = &measured[measured.len() / 2];
        page.own(measured.iter().map(|run| run.stored_cpu_seconds).sum());
        table.push(row(median, runs));
        if let Some(duck) = peer::duckdb(&file, *events) {
            let lines = f64::from(*events);
            let line = duck.beside(median.stored_cpu_seconds * 1e6 / lines);
            #[expect(clippy::cast_precision_loss, reason = "file sizes are far below 2^53")]
            let bytes = median.parquet_bytes as f64 / lines / duck.bytes;
            page.text(&format!("{events} lines. {line}, and {bytes:.2} × the bytes."));
        }
    }
    page.table(&table);
    page.text(EXPLANATION);
    page.write()
}

const EXPLANATION: &str = "\
*searchable*: until `select count(*)` sees every line; it is durable then. *stored*: until weir has ended after SIGTERM, all \
rows in Parquet files. CPU-seconds are of the whole process tree and include host sampling, rules and the counting \
queries of this benchmark. References (same machine type, quiet, see the peers' figures): VictoriaLogs 1.26 ingest alone \
18.6 + 1.9 CPU-s per M and 66.4 bytes/event; Loki 3.7 26.4 and 105.8; Elasticsearch 8.17 37.9 + 10.5 and 239.9.";

/// Start of yesterday (UTC), so that a whole day of lines is in the past.
pub(crate) fn yesterday() -> Micros {
    Micros((report::now().day() - 1) * 86_400_000_000)
}

fn once(file: &Path, events: u32, input_bytes: u64) -> anyhow::Result<IngestRun> {
    let dir = tempfile::tempdir_in(file.parent().unwrap_or(Path::new(".")))?;
    let (logs, data_dir) = (dir.path().join("logs"), dir.path().join("data"));
    std::fs::create_dir(&logs)?;
    let (tail, data_path) = (format!("{}/*.log", logs.display()), data_dir.display().to_string());
    let up = ["up", "--listen", "127.0.0.1:0", "--data", &data_path, "--tail", &tail];
    let weir = Weir::serve(&up)?;
    // A hard link, so that the next run can use the file again.
    std::fs::hard_link(file, logs.join("access.log"))?;
    let began = Instant::now();
    let mut peak_mib = 0.0_f64;
    wait_for("all lines", LIMIT, Duration::from_millis(500), || {
        peak_mib = peak_mib.max(meter::memory_mib(weir.id()).1);
        Ok(counts(&weir, &tail)?.iter().sum::<u64>() >= u64::from(events))
    })?;
    let (searchable_seconds, searchable_cpu_seconds) =
        (began.elapsed().as_secs_f64(), meter::cpu_seconds(weir.id()));
    let rows = counts(&weir, &tail)?;
    ensure!(rows.iter().sum::<u64>() == u64::from(events), "{events} lines became {rows:?} rows");
    peak_mib = peak_mib.max(meter::memory_mib(weir.id()).1);
    let stored_cpu_seconds = weir.stop()?;
    let parquet_bytes = size(&data_dir, Some("parquet"))?;
    let data_bytes = size(&data_dir, None)?;
    check_after_restart(&up, &tail, events)?;
    Ok(IngestRun {
        events,
        input_bytes,
        searchable_seconds,
        searchable_cpu_seconds,
        stored_cpu_seconds,
        parquet_bytes,
        data_bytes,
        peak_mib,
        rows,
    })
}

/// Rows of the benchmark's lines in request, log and reject.
pub(crate) fn counts(weir: &Weir, tail: &str) -> anyhow::Result<[u64; 3]> {
    let dir = tail.trim_end_matches("*.log");
    let mut counts = [0; 3];
    for (count, table) in counts.iter_mut().zip(["request", "log", "reject"]) {
        *count =
            weir.number(&format!("select count(*) from {table} where source like '{dir}%'"))?;
    }
    Ok(counts)
}

/// Checks that a restart finds the same rows.
fn check_after_restart(up: &[&str], tail: &str, events: u32) -> anyhow::Result<()> {
    let weir = Weir::serve(up)?;
    let rows = counts(&weir, tail)?;
    if rows.iter().sum::<u64>() != u64::from(events) {
        bail!("after a restart {events} lines are {rows:?} rows");
    }
    let dir = tail.trim_end_matches("*.log");
    let distinct = weir.number(&format!(
        "select count(distinct source_offset) from request where source like '{dir}%'"
    ))?;
    ensure!(distinct == rows[0], "{distinct} distinct offsets among {} requests", rows[0]);
    weir.stop().map(drop)
}

/// Size of the files below `dir` with this extension.
pub(crate) fn size(dir: &Path, extension: Option<&str>) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let (path, meta) = (
            entry.as_ref().map(std::fs::DirEntry::path),
            entry.as_ref().map(std::fs::DirEntry::metadata),
        );
        let (Ok(path), Ok(Ok(meta))) = (path, meta) else { continue };
        if meta.is_dir() {
            bytes += size(&path, extension)?;
        } else if extension.is_none_or(|wanted| path.extension().is_some_and(|is| is == wanted)) {
            bytes += meta.len();
        }
    }
    Ok(bytes)
}

fn heads() -> Vec<String> {
    let heads = [
        "lines",
        "runs",
        "bytes/line in",
        "searchable: lines/s",
        "CPU-s per M",
        "stored: CPU-s per M",
        "Parquet bytes/line",
        "data directory bytes/line",
        "peak RSS MiB",
        "rows in request / log / reject",
    ];
    heads.map(str::to_owned).to_vec()
}

fn row(run: &IngestRun, runs: u32) -> Vec<String> {
    let events = f64::from(run.events);
    #[expect(clippy::cast_precision_loss, reason = "file sizes are far below 2^53")]
    let [input, parquet, data] =
        [run.input_bytes, run.parquet_bytes, run.data_bytes].map(|bytes| bytes as f64 / events);
    vec![
        run.events.to_string(),
        format!("median of {runs}"),
        format!("{:.0}", input),
        format!("{:.0}", events / run.searchable_seconds),
        format!("{:.2}", run.searchable_cpu_seconds * 1e6 / events),
        format!("**{:.2}**", run.stored_cpu_seconds * 1e6 / events),
        format!("{:.1}", parquet),
        format!("{:.1}", data),
        format!("{:.0}", run.peak_mib),
        format!("{} / {} / {}", run.rows[0], run.rows[1], run.rows[2]),
    ]
}
