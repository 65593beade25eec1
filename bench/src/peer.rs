//! DuckDB over the same file, for a ratio from the same minute: installed from PyPI into a cache of this benchmark.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{meter, report};

/// Reads the lines and writes a sorted Parquet file: what the store does, without log, search or safety.
const SCRIPT: &str = "\
import duckdb, sys
duckdb.sql('set threads to 2')
duckdb.sql(f\"copy (select * from read_json('{sys.argv[1]}', format='newline_delimited', ignore_errors=true) \
order by \\\"@timestamp\\\") to '{sys.argv[2]}' (format parquet, compression zstd)\")
";

/// What DuckDB took for a file.
pub(crate) struct Duck {
    /// CPU-seconds per million lines.
    pub(crate) seconds: f64,
    /// Bytes of Parquet per line.
    pub(crate) bytes: f64,
}

impl Duck {
    /// CPU-seconds per million lines where the bars were set.
    pub(crate) const SECONDS_OF_BARS: f64 = 3.5;

    /// The mean of several; `None` of none.
    #[expect(clippy::cast_precision_loss, reason = "a few")]
    pub(crate) fn mean(ducks: &[Self]) -> Option<Self> {
        let of = |figure: fn(&Self) -> f64| {
            (!ducks.is_empty()).then(|| ducks.iter().map(figure).sum::<f64>() / ducks.len() as f64)
        };
        Some(Self { seconds: of(|duck| duck.seconds)?, bytes: of(|duck| duck.bytes)? })
    }

    /// How much slower this machine is than the one of the bars.
    pub(crate) fn slowness(&self) -> f64 {
        self.seconds / Self::SECONDS_OF_BARS
    }

    /// A sentence with its figures and how weir's compares, in CPU-seconds per million lines.
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

/// `None` (and a word to the terminal) when DuckDB cannot be had.
#[expect(clippy::cast_precision_loss, reason = "file sizes are far below 2^53")]
pub(crate) fn duckdb(file: &Path, events: u32) -> Option<Duck> {
    let Some(python) = python() else {
        report::say(
            "DuckDB cannot be had here (python3 -m venv, pip install duckdb); references only",
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
    Some(Duck { seconds: seconds * 1e6 / events, bytes: bytes as f64 / events })
}

/// Asks each question of a table in memory, warm; prints wall and processor milliseconds of one asking.
const QUESTIONS_SCRIPT: &str = "\
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

/// Median wall and mean processor milliseconds of each question, asked of DuckDB over the rows of weir's files; `None` (and
/// a word to the terminal) when it cannot be had.
pub(crate) fn duckdb_questions(
    files: &str,
    times: u32,
    questions: &[String],
) -> Option<Vec<(f64, f64)>> {
    let output = Command::new(python()?)
        .args(["-c", QUESTIONS_SCRIPT, files, &times.to_string()])
        .args(questions)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.lines().map(|line| {
        let (wall, cpu) = line.split_once(' ')?;
        Some((wall.parse().ok()?, cpu.parse().ok()?))
    });
    let figures: Option<Vec<_>> = figures.collect();
    let figures = figures.filter(|figures| figures.len() == questions.len());
    if figures.is_none() {
        let why = String::from_utf8_lossy(&output.stderr);
        report::say(&format!("DuckDB did not answer: {}", why.lines().last().unwrap_or("no word")));
    }
    figures
}

/// The interpreter of a virtual environment that has DuckDB, made at the first call.
fn python() -> Option<PathBuf> {
    let dir = Path::new(&std::env::var_os("HOME")?).join(".cache/weir-bench/venv");
    let python = dir.join("bin/python");
    let runs = |program: &Path, args: &[&str]| {
        let status = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    let has_duckdb = || runs(&python, &["-c", "import duckdb"]);
    let is_ready = has_duckdb()
        || (runs(Path::new("python3"), &["-m", "venv", dir.to_str()?])
            && runs(&python, &["-m", "pip", "install", "--quiet", "duckdb"])
            && has_duckdb());
    is_ready.then_some(python)
}
