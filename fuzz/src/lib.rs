//! What several targets share: assertions about rows of log lines, and a hub that stores nothing.

mod hub;
mod senders;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use weir_tables::{Batch, LogFormat, LogSource, Micros, Program};

pub use hub::CountingHub;
pub use senders::{PEER, intake, intake_with, post, runtime};

/// The time of every run, so that a crash repeats.
pub const NOW: Micros = Micros(1_795_176_000_000_000);

/// A log of this format.
pub fn log_source(format: LogFormat) -> LogSource {
    LogSource { path: "/a".into(), program: Program::Other, format, found_in: "fuzz".into() }
}

/// Panics unless each line that is not blank is exactly one row.
pub fn assert_one_row_per_line(batches: &[Batch], bytes: &[u8], parser: &str) {
    let (mut at, mut lines) = (0, Vec::new());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        // The mark of the encoding alone is blank as well.
        if !line.trim_ascii().is_empty() && text != b"\xef\xbb\xbf" {
            lines.push(at);
        }
        at += i64::try_from(line.len()).expect("inputs are short");
    }
    assert_eq!(row_offsets(batches), lines, "offsets of rows and of lines differ in {parser}");
}

/// Offsets of all rows, in order.
pub fn row_offsets(batches: &[Batch]) -> Vec<i64> {
    let mut rows = Vec::new();
    for batch in batches {
        let offsets = batch.rows.column_by_name("source_offset").expect("each table has it");
        rows.extend(offsets.as_primitive::<Int64Type>().iter().flatten());
    }
    rows.sort_unstable();
    rows
}
