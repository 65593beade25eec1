//! What `weir parse` prints of a line.

use std::fmt::Write as _;

use weir_parse::{Parsers, Pipeline, Progress};

use crate::explain::Explained;
use crate::terminal::{Paint, say};

/// Columns that say nothing about a line by itself.
const LEFT_OUT: [&str; 7] =
    ["host", "tier", "observed_ts", "source", "source_offset", "parser", "raw"];
/// Bytes of the line around the place where a pattern stopped.
const AROUND: usize = 40;

/// Counts over all lines.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) lines: usize,
    rejects: usize,
    repaired: usize,
    nanos: u64,
}

impl Counts {
    pub(super) fn add(&mut self, explained: &Explained) {
        self.lines += 1;
        self.rejects += usize::from(explained.row.table == "reject");
        self.repaired += usize::from(explained.row.get("repair").is_some());
        self.nanos += explained.nanos;
    }

    pub(super) fn text(&self) -> String {
        let mean = self.nanos / u64::try_from(self.lines.max(1)).unwrap_or(1);
        format!(
            "{} lines, {} not understood, {} mended, {mean} ns a line",
            self.lines, self.rejects, self.repaired
        )
    }
}

/// Text from logs must not move a terminal's cursor.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// One line, with everything that is known of it.
pub(super) fn line(
    number: usize,
    text: &str,
    explained: &Explained,
    pipeline: Option<&Pipeline>,
    paint: Paint,
) -> String {
    let row = &explained.row;
    let named = pipeline.filter(|pipeline| !pipeline.origin().starts_with("--"));
    let by = match named {
        Some(pipeline) => format!("{} (pipeline {})", explained.format, pipeline.name()),
        None => explained.format.to_owned(),
    };
    let table = match row.table {
        "reject" => paint.class("page", row.table),
        table => paint.bold(table),
    };
    let mut out = format!("line {number}  {table}  by {by}  {} ns\n", explained.nanos);
    for (name, kind, value) in row.columns.iter().filter(|(name, _, _)| !LEFT_OUT.contains(name)) {
        let _ = writeln!(out, "  {name:<28} {}  {}", clean(value), paint.dim(kind.as_str()));
    }
    for (name, value) in &row.attrs {
        let name = format!("attrs.{}", clean(name));
        let _ = writeln!(out, "  {name:<28} {}  {}", clean(value), paint.dim("text"));
    }
    for progress in explained.progress.iter().filter(|progress| !progress.is_match) {
        out += &stopped("pattern", text, progress, paint);
    }
    for progress in &explained.near {
        out += &stopped("near", text, progress, paint);
    }
    out
}

/// Where a pattern stopped: the line around it, and what should have come.
fn stopped(word: &str, line: &str, progress: &Progress, paint: Paint) -> String {
    let pattern = clean(&progress.pattern);
    if progress.is_too_costly {
        return format!("  {word} {pattern}\n    takes too many steps on this line\n");
    }
    if progress.is_match {
        return format!("  {word} {}\n    matches\n", paint.bold(&pattern));
    }
    let at = line.floor_char_boundary(progress.stopped_at);
    let start = line.floor_char_boundary(at.saturating_sub(AROUND));
    let end = line.floor_char_boundary(line.len().min(at + AROUND));
    let before = clean(&line[start..at]);
    let pad = " ".repeat(before.chars().count());
    format!(
        "  {word} {}\n    {} of {} pieces, up to byte {at}: {}\n    {before}{}\n    {pad}^ {} expected\n",
        paint.bold(&pattern),
        progress.pieces_matched,
        progress.pieces,
        clean(&progress.matched),
        clean(&line[at..end]),
        clean(&progress.expected),
    )
}

/// Every pipeline and every name of a pattern.
pub(super) fn list(parsers: &Parsers) {
    let paint = Paint::for_stdout();
    for pipeline in parsers.pipelines() {
        let (name, origin) = (paint.bold(pipeline.name()), paint.dim(pipeline.origin()));
        say(&format!("{name}  {}  {origin}", pipeline.description()));
    }
    say("");
    for name in parsers.pattern_names() {
        let expression = parsers.pattern(name).unwrap_or_default();
        say(&format!("{:<24} {expression}", format!("%{{{name}}}")));
    }
}
