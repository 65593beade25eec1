//! DuckDB over the same file in the same run, for a ratio. Installed from PyPI into a cache of this
//! benchmark.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{meter, report};

/// Reads the lines and writes a sorted Parquet file, as the store does without log, search or
/// safety.
const SCRIPT: &str = "\
import duckdb, sys
duckdb.sql('set threads to 2')
duckdb.sql(f\"copy (select * from read_json('{sys.argv[1]}', format='newline_delimited', ignore_errors=true) \
order by \\\"@timestamp\\\") to '{sys.argv[2]}' (format parquet, compression zstd)\")
";

/// Cost of a file in DuckDB.
pub(crate) struct DuckDbFigures {
    /// CPU-seconds per million lines.
    pub(crate) seconds: f64,
    /// Bytes of Parquet per line.
    pub(crate) bytes: f64,
}

impl DuckDbFigures {
    /// CPU-seconds per million lines where the bars were set.
    pub(crate) const SECONDS_OF_BARS: f64 = 3.5;

    /// The mean of several; `None` if there are none.
    #[expect(clippy::cast_precision_loss, reason = "a few")]
    pub(crate) fn mean(ducks: &[Self]) -> Option<Self> {
        let count = ducks.len() as f64;
        (!ducks.is_empty()).then(|| Self {
            seconds: ducks.iter().map(|duck| duck.seconds).sum::<f64>() / count,
            bytes: ducks.iter().map(|duck| duck.bytes).sum::<f64>() / count,
        })
    }

    /// How much slower this machine is than that of the bars.
    pub(crate) fn slowness(&self) -> f64 {
        self.seconds / Self::SECONDS_OF_BARS
    }

    /// A sentence that compares weir's CPU-seconds per million lines.
    pub(crate) fn beside(&self, weir_seconds: f64) -> String {
        format!(
            "Peer in the same run: DuckDB reads the file and writes one sorted Parquet file (zstd) with {:.2} CPU-s \
             per M and {:.1} bytes/line; weir's whole road takes {weir_seconds:.2}, which is {:.2} × as much",
            self.seconds,
            self.bytes,
            weir_seconds / self.seconds,
        )
    }
}

/// Measures DuckDB; `None`, with a message, if it is not available.
#[expect(clippy::cast_precision_loss, reason = "file sizes are far below 2^53")]
pub(crate) fn duckdb(file: &Path, events: u32) -> Option<DuckDbFigures> {
    let Some(python) = python() else {
        report::say(
            "DuckDB is not available (python3 -m venv, pip install duckdb); using references only",
        );
        return None;
    };
    let out = file.with_extension("parquet");
    let child = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(file)
        .arg(&out)
        .stdin(Stdio::null())
        .spawn()
        .ok()?;
    let seconds = meter::wait(child).ok()?;
    let bytes = std::fs::metadata(&out).ok()?.len();
    let events = f64::from(events);
    Some(DuckDbFigures { seconds: seconds * 1e6 / events, bytes: bytes as f64 / events })
}

/// Runs each query on a table in memory, warm; prints wall and CPU milliseconds of one run.
const QUERIES_SCRIPT: &str = "\
import duckdb, sys, time
base = duckdb.connect()
base.sql('set threads to 2')
base.sql(f\"create table request as select * exclude (attrs) replace (ts::timestamp as ts, observed_ts::timestamp as observed_ts) from '{sys.argv[1]}'\")
times = int(sys.argv[2])
for sql in sys.argv[3:]:
    base.sql(sql).fetchall()
    walls, cpu = [], time.process_time()
    for _ in range(times):
        began = time.perf_counter()
        base.sql(sql).fetchall()
        walls.append(time.perf_counter() - began)
    cpu = time.process_time() - cpu
    print(sorted(walls)[len(walls) // 2] * 1e3, cpu * 1e3 / times, flush=True)
";

/// Median wall and mean CPU milliseconds of each query in DuckDB over the rows of weir's files;
/// `None`, with a message, if it is not available.
pub(crate) fn duckdb_queries(
    files: &str,
    times: u32,
    queries: &[String],
) -> Option<Vec<(f64, f64)>> {
    let output = Command::new(python()?)
        .args(["-c", QUERIES_SCRIPT, files, &times.to_string()])
        .args(queries)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.lines().map(|line| {
        let (wall, cpu) = line.split_once(' ')?;
        Some((wall.parse().ok()?, cpu.parse().ok()?))
    });
    let figures: Option<Vec<_>> = figures.collect();
    let figures = figures.filter(|figures| figures.len() == queries.len());
    if figures.is_none() {
        let why = String::from_utf8_lossy(&output.stderr);
        report::say(&format!("DuckDB failed: {}", why.lines().last().unwrap_or("no message")));
    }
    figures
}

/// The interpreter of a virtual environment with DuckDB, which is created at the first call.
fn python() -> Option<PathBuf> {
    let dir = Path::new(&std::env::var_os("HOME")?).join(".cache/weir-bench/venv");
    let python = dir.join("bin/python");
    let import = ["-c", "import duckdb"];
    let is_ready = succeeds(&python, &import)
        || (succeeds(Path::new("python3"), &["-m", "venv", dir.to_str()?])
            && succeeds(&python, &["-m", "pip", "install", "--quiet", "duckdb"])
            && succeeds(&python, &import));
    is_ready.then_some(python)
}

fn succeeds(program: &Path, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
