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

/// One sentence with both figures, or `None` (and a word to the terminal) when DuckDB cannot be had.
#[expect(clippy::cast_precision_loss, reason = "file sizes are far below 2^53")]
pub(crate) fn duckdb(
    file: &Path,
    events: u32,
    weir_seconds: f64,
    weir_bytes: u64,
) -> Option<String> {
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
    let per_million = |seconds: f64| seconds * 1e6 / f64::from(events);
    Some(format!(
        "Peer in the same run, {events} lines: DuckDB reads the file and writes one sorted Parquet file (zstd) with {:.2} CPU-s \
         per M and {:.1} bytes/line; weir's whole road takes {:.2}, which is {:.1} × as much, and {:.2} × the bytes.",
        per_million(seconds),
        bytes as f64 / f64::from(events),
        per_million(weir_seconds),
        weir_seconds / seconds,
        weir_bytes as f64 / bytes as f64,
    ))
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
