//! A line of JSON for each request, for tools that read text: the columns of its row that are not
//! NULL.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use weir_tables::{Batch, Micros, RequestRows, Rows};

/// See the module.
pub(super) struct TextLog {
    path: PathBuf,
    /// Whether a write error was already logged.
    is_told: bool,
}

impl TextLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, is_told: false }
    }

    /// Appends the requests among the rows. A write error is logged once; delivery of the rows is
    /// not affected.
    pub(super) fn write(&mut self, batches: &[Batch]) {
        let written = self.try_write(batches);
        if let (Err(error), false) = (&written, self.is_told) {
            let path = self.path.display();
            tracing::error!(
                "cannot write `{path}` (`edge.log_file`): {error}; its lines are missing until it can be\n\
                 hint: does its directory exist, may this user write there, and is there room?"
            );
        }
        self.is_told = written.is_err();
    }

    fn try_write(&self, batches: &[Batch]) -> std::io::Result<()> {
        let mut lines = Vec::new();
        for batch in batches.iter().filter(|batch| batch.table.name == RequestRows::SPEC.name) {
            push_lines(&batch.rows, &mut lines)?;
        }
        if lines.is_empty() {
            return Ok(());
        }
        // Opened for each batch, so that a log rotator can rename it at any time.
        File::options().create(true).append(true).open(&self.path)?.write_all(&lines)
    }
}

/// A JSON object and a line end for each row; columns that are NULL are left out.
fn push_lines(rows: &RecordBatch, out: &mut Vec<u8>) -> std::io::Result<()> {
    for row in 0..rows.num_rows() {
        let mut separator = b'{';
        for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
            if column.is_null(row) {
                continue;
            }
            out.push(separator);
            separator = b',';
            serde_json::to_writer(&mut *out, field.name())?;
            out.push(b':');
            push_value(column, row, out)?;
        }
        if separator == b'{' {
            out.push(b'{');
        }
        out.extend_from_slice(b"}\n");
    }
    Ok(())
}

/// A value of a kind that tables have (`weir_tables::DataKind`).
fn push_value(column: &ArrayRef, row: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
    if let Some(texts) = column.as_string_opt::<i32>() {
        serde_json::to_writer(out, texts.value(row))?;
    } else if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
        write!(out, "{}", numbers.value(row))?;
    } else if let Some(numbers) = column.as_primitive_opt::<Float64Type>() {
        // Not a number and infinity become null.
        serde_json::to_writer(out, &numbers.value(row))?;
    } else if let Some(flags) = column.as_boolean_opt() {
        write!(out, "{}", flags.value(row))?;
    } else if let Some(times) = column.as_primitive_opt::<TimestampMicrosecondType>() {
        write!(out, "\"{}\"", shortened(&Micros(times.value(row)).to_string()))?;
    } else if let Some(maps) = column.as_map_opt() {
        push_map(&maps.value(row), out)?;
    } else {
        out.extend_from_slice(b"null");
    }
    Ok(())
}

/// The entries of a map as an object.
fn push_map(entries: &StructArray, out: &mut Vec<u8>) -> std::io::Result<()> {
    let (keys, values) = (entries.column(0), entries.column(1));
    let (keys, values) = (keys.as_string::<i32>(), values.as_string::<i32>());
    let present = (0..entries.len()).filter(|at| values.is_valid(*at));
    let pairs = present.map(|at| (keys.value(at), values.value(at)));
    let mut separator = b'{';
    for (key, value) in pairs {
        out.push(separator);
        separator = b',';
        serde_json::to_writer(&mut *out, key)?;
        out.push(b':');
        serde_json::to_writer(&mut *out, value)?;
    }
    if separator == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
    Ok(())
}

/// RFC 3339 without the zeros of a whole second or millisecond: `…:00.000000Z` is `…:00Z`,
/// `…:00.120000Z` is `…:00.120Z`.
fn shortened(time: &str) -> String {
    let Some((whole, fraction)) = time.trim_end_matches('Z').split_once('.') else {
        return time.to_owned();
    };
    match fraction.strip_suffix("000") {
        Some("000") => format!("{whole}Z"),
        Some(milliseconds) => format!("{whole}.{milliseconds}Z"),
        None => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_json::LineDelimitedWriter;
    use weir_tables::Request;

    use super::*;

    /// arrow's own writer is the oracle; it is not in the program because of what it depends on.
    #[test]
    fn lines_are_what_arrow_writes() {
        let mut rows = RequestRows::default();
        for (micros, duration) in [
            (0, 0.25),
            (1_795_178_460_000_000, 12.0),
            (1_795_178_460_120_000, 0.000_012),
            (7, 1e-7),
        ] {
            rows.push(&Request {
                ts: Micros(micros),
                host: "web1\u{1}\"",
                tier: "edge",
                observed_ts: Micros(micros + 1),
                source: "edge",
                url_path: Some("/ä/\n"),
                source_offset: Some(micros),
                duration_seconds: Some(duration),
                attrs: &[("a", "b"), ("c", "")],
                ..Request::default()
            });
        }
        let rows = rows.finish();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        push_lines(&rows, &mut ours).expect("memory takes it");
        let mut writer = LineDelimitedWriter::new(&mut theirs);
        writer.write(&rows).expect("it writes rows");
        writer.finish().expect("it ends");
        assert_eq!(lines(&ours), lines(&theirs));
        assert_eq!(lines(&ours).len(), 4);
    }

    fn lines(text: &[u8]) -> Vec<serde_json::Value> {
        let text = String::from_utf8(text.to_vec()).expect("JSON is UTF-8");
        let parsed = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        parsed.collect::<Vec<serde_json::Value>>()
    }
}
