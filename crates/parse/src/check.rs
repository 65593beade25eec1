//! Test helpers: the rows of lines, as text.

use std::fmt::Write as _;

use arrow_array::Array as _;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use expect_test::Expect;
use weir_tables::{Batch, JsonEscape, LogFormat, LogSource, Micros, Program};

use crate::{LineParser, ParsedRows, ParserFile, Parsers, RowText, StreamName};

/// 2026-11-20T12:00:00Z, the time of reading in tests.
pub(crate) const OBSERVED: Micros = Micros(1_795_176_000_000_000);

const STREAM: StreamName<'_> = StreamName { path: "/var/log/a.log", host: "web1" };

/// Columns that do not depend on the parser.
const LEFT_OUT: [&str; 6] = ["host", "observed_ts", "source", "source_offset", "tier", "parser"];

pub(crate) fn source(program: Program, format: LogFormat) -> LogSource {
    LogSource { path: "/var/log/a.log".into(), program, format, found_in: "test".into() }
}

pub(crate) fn nginx(template: &str) -> LogFormat {
    LogFormat::NginxTemplate { template: template.into(), escape: JsonEscape::Default }
}

pub(crate) fn rows(format: LogFormat, bytes: &[u8]) -> ParsedRows {
    let mut out = ParsedRows::default();
    let source = source(Program::Other, format);
    LineParser::new(&source, STREAM).parse(bytes, 0, OBSERVED, &mut out);
    out
}

/// Checks the rows of `bytes` in a format: one paragraph per row, one line per column that is not
/// NULL.
pub(crate) fn check_format(format: LogFormat, bytes: impl AsRef<[u8]>, expected: Expect) {
    let batches = rows(format, bytes.as_ref()).finish();
    expected.assert_eq(&batches.iter().map(show).collect::<String>());
}

/// Checks the rows of `bytes` by the pipeline in `text`, printed as in [`check_format`].
pub(crate) fn check_pipeline(text: &str, bytes: impl AsRef<[u8]>, expected: Expect) {
    let batches = pipeline_batches(text, bytes.as_ref());
    expected.assert_eq(&batches.iter().map(show).collect::<String>());
}

/// The rows of `bytes` by the pipeline in `text`.
pub(crate) fn pipeline_rows(text: &str, bytes: &[u8]) -> Vec<RowText> {
    RowText::all(&pipeline_batches(text, bytes))
}

fn pipeline_batches(text: &str, bytes: &[u8]) -> Vec<Batch> {
    let parsers = Parsers::built_in();
    let pipeline = parsers
        .pipeline_of(ParserFile { origin: "my.toml", text })
        .unwrap_or_else(|problem| panic!("{problem}"));
    let source = source(Program::Other, LogFormat::Auto);
    let mut parser = parsers.line_parser_with(Some(&pipeline), &source, STREAM);
    let mut out = ParsedRows::default();
    parser.parse(bytes, 0, OBSERVED, &mut out);
    out.finish()
}

pub(crate) fn show(batch: &Batch) -> String {
    let mut text = String::new();
    for row in 0..batch.rows.num_rows() {
        writeln!(text, "{}", batch.table.name).unwrap();
        for (column, array) in batch.table.columns.iter().zip(batch.rows.columns()) {
            let options = FormatOptions::default();
            let value = ArrayFormatter::try_new(array, &options).unwrap().value(row).to_string();
            if array.is_valid(row) && !LEFT_OUT.contains(&column.name) && value != "{}" {
                writeln!(text, "  {}: {value}", column.name).unwrap();
            }
        }
    }
    text
}
