//! What `weir parse` prints of a line.

use std::fmt::Write as _;

use weir_hub::explain::ExplainedLine;
use weir_parse::{Parsers, Pipeline, Progress};
use weir_process::terminal::{Paint, say};

/// Columns that say nothing about a line by itself.
const LEFT_OUT: [&str; 7] =
    ["host", "tier", "observed_ts", "source", "source_offset", "parser", "raw"];
/// Bytes of the line before and behind the place where a pattern stopped: with the indent and a
/// mark at each cut, 80 columns hold them, so that a terminal does not wrap the line above its
/// caret.
const BEFORE: usize = 37;
const BEHIND: usize = 37;

/// Counts over all lines.
#[derive(Default)]
pub(super) struct LineCounts {
    pub(super) lines: usize,
    rejects: usize,
    repaired: usize,
    nanos: u64,
}

impl LineCounts {
    pub(super) fn add(&mut self, explained: &ExplainedLine) {
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
    explained: &ExplainedLine,
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
        "reject" => paint.of_class("page").paint(row.table),
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
        out += &stopped("pattern", progress, text, paint);
    }
    for progress in &explained.near {
        out += &stopped("near", progress, text, paint);
    }
    out
}

/// Where a pattern stopped: the line around it, and what should have come.
fn stopped(word: &str, progress: &Progress, line: &str, paint: Paint) -> String {
    let pattern = clean(&progress.pattern);
    if progress.is_too_costly {
        return format!("  {word} {pattern}\n    takes too many steps on this line\n");
    }
    if progress.is_match {
        return format!("  {word} {}\n    matches\n", paint.bold(&pattern));
    }
    let at = line.floor_char_boundary(progress.stopped_at);
    let start = line.ceil_char_boundary(at.saturating_sub(BEFORE));
    let end = line.floor_char_boundary(line.len().min(at + BEHIND));
    let before = format!("{}{}", cut_mark(start > 0), clean(&line[start..at]));
    let pad = " ".repeat(before.chars().map(columns).sum());
    format!(
        "  {word} {}\n    {} of {} pieces, up to byte {at}: {}\n    {before}{}{}\n    {pad}^ {} expected\n",
        paint.bold(&pattern),
        progress.pieces_matched,
        progress.pieces,
        clean(&progress.matched),
        clean(&line[at..end]),
        cut_mark(end < line.len()),
        clean(&progress.expected),
    )
}

fn cut_mark(is_cut: bool) -> &'static str {
    if is_cut { "…" } else { "" }
}

/// Columns of a terminal that a character takes (Unicode TR 11): two for East Asian wide ones and
/// pictures, none for marks that stand on the one before.
fn columns(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
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

#[cfg(test)]
mod tests {
    use weir_parse::Progress;
    use weir_process::terminal::Paint;

    use super::{columns, stopped};

    /// The text above the caret, the caret's column, and the width of the text.
    fn shown(line: &str, stopped_at: usize) -> (String, usize, usize) {
        let progress = Progress {
            pattern: "p".into(),
            is_match: false,
            stopped_at,
            matched: String::new(),
            expected: "e".into(),
            pieces_matched: 1,
            pieces: 2,
            is_one_pass: true,
            is_too_costly: false,
        };
        let out = stopped("near", &progress, line, Paint::off());
        let lines: Vec<&str> = out.lines().collect();
        let width = lines[2].chars().map(columns).sum();
        (lines[2].to_owned(), lines[3].find('^').expect("a caret"), width)
    }

    #[test]
    fn the_caret_stands_below_its_place_in_a_line_that_is_cut() {
        assert_eq!(shown("took 5 s", 5), ("    took 5 s".into(), 9, 12));
        let long: String = ('a'..='z').cycle().take(300).collect();
        let (text, caret, width) = shown(&long, 130);
        assert_eq!(width, 80, "{text}");
        assert!(text.starts_with("    …") && text.ends_with('…'), "{text}");
        // Byte 130 is the first letter of an alphabet again.
        assert_eq!(text.chars().nth(caret), Some('a'), "{text}");
        let wide = format!("{}x", "日本語".repeat(20));
        let (text, caret, width) = shown(&wide, wide.len() - 1);
        assert_eq!((text.chars().last(), caret + 1), (Some('x'), width), "{text}");
    }
}
