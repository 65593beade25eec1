//! How far a pattern matches a line, and what was expected where it stopped, to help fix it.
//!
//! A pattern is split into consecutive pieces. The longest leading run of pieces that still matches
//! is found by binary search, because every prefix of a matching run matches too.

use regex_syntax::ast::{Ast, GroupKind, parse::Parser};

use super::engine::{MAX_LINE_BYTES, MAX_STEPS, SearchOutcome};
use super::pattern::{Pattern, compile};

/// How far one pattern matches one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The pattern as written.
    pub pattern: String,
    /// Whether it matches.
    pub is_match: bool,
    /// The byte of the line where the match ended or failed.
    pub stopped_at: usize,
    /// The part of the pattern that still matches.
    pub matched: String,
    /// The piece that was expected next; empty on a match.
    pub expected: String,
    /// Pieces that match.
    pub pieces_matched: usize,
    /// All pieces.
    pub pieces: usize,
    /// Whether each byte of a line is read once.
    pub is_one_pass: bool,
    /// Whether the line is too long, or exceeded the step limit.
    pub is_too_costly: bool,
}

/// A part of a pattern: its expression, and its written form.
struct PatternPiece {
    regex: String,
    written: String,
}

impl Pattern {
    /// How far this pattern matches `line`.
    pub(crate) fn progress(&self, line: &str) -> Progress {
        let mut steps_left = MAX_STEPS;
        let outcome = match line.len() > MAX_LINE_BYTES {
            true => SearchOutcome::TooCostly,
            false => self.search(line, &mut self.scratch(), &mut steps_left),
        };
        let pieces = self.pieces();
        let (is_match, stopped_at) = match outcome {
            SearchOutcome::Match(end) => (true, end),
            SearchOutcome::NoMatch(at) => (false, at),
            SearchOutcome::TooCostly => (false, 0),
        };
        let is_too_costly = outcome == SearchOutcome::TooCostly;
        let count = match (is_match, is_too_costly) {
            (true, _) => pieces.len(),
            (_, true) => 0,
            _ => longest_run(&pieces, line),
        };
        let written =
            |pieces: &[PatternPiece]| pieces.iter().map(|piece| piece.written.as_str()).collect();
        Progress {
            pattern: self.written.clone(),
            is_match,
            stopped_at,
            matched: written(&pieces[..count]),
            expected: expected(&pieces[count..]),
            pieces_matched: count,
            pieces: pieces.len(),
            is_one_pass: self.is_one_pass(),
            is_too_costly,
        }
    }

    fn pieces(&self) -> Vec<PatternPiece> {
        let mut pieces = Vec::new();
        if let Ok(tree) = Parser::new().parse(&self.expanded.regex) {
            self.take_apart(&tree, &mut pieces);
        }
        pieces
    }

    /// Descends into sequences and groups of a single sequence; everything else is a piece.
    fn take_apart(&self, tree: &Ast, pieces: &mut Vec<PatternPiece>) {
        match tree {
            Ast::Concat(sequence) => {
                sequence.asts.iter().for_each(|part| self.take_apart(part, pieces));
            }
            Ast::Group(group) if is_plain(&group.kind, &group.ast) => {
                self.take_apart(&group.ast, pieces);
            }
            Ast::Empty(_) => {}
            _ => {
                let span = tree.span();
                let regex = self.expanded.regex[span.start.offset..span.end.offset].to_owned();
                let label = self.expanded.labels.get(&span.start.offset);
                let is_group = matches!(tree, Ast::Group(_));
                let written = label.filter(|_| is_group).unwrap_or(&regex).clone();
                pieces.push(PatternPiece { regex, written });
            }
        }
    }
}

/// A group without name and flags that holds a sequence.
fn is_plain(kind: &GroupKind, inner: &Ast) -> bool {
    let is_unnamed = matches!(kind, GroupKind::NonCapturing(flags) if flags.items.is_empty());
    is_unnamed && !matches!(inner, Ast::Alternation(_))
}

/// Number of leading pieces that together match the start of the line.
fn longest_run(pieces: &[PatternPiece], line: &str) -> usize {
    let (mut fits, mut fails) = (0, pieces.len() + 1);
    while fails - fits > 1 {
        let middle = fits.midpoint(fails);
        let regex: String = pieces[..middle].iter().map(|piece| piece.regex.as_str()).collect();
        let is_match = compile(&regex).is_ok_and(|nfa| {
            let engine = super::engine::Engine::new(nfa);
            let mut steps_left = MAX_STEPS;
            matches!(
                engine.search(line, &mut engine.scratch(), &mut steps_left),
                SearchOutcome::Match(_)
            )
        });
        if is_match {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    fits
}

/// The next piece; single characters are joined up to the next name.
fn expected(pieces: &[PatternPiece]) -> String {
    let short = pieces.iter().take_while(|piece| piece.written.len() <= 2);
    let short: String = short.map(|piece| piece.written.as_str()).collect();
    match pieces.first() {
        Some(first) if short.is_empty() => first.written.clone(),
        _ => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grok::PatternLibrary;

    fn pattern(written: &str) -> Pattern {
        Pattern::grok(&PatternLibrary::built_in(), written).unwrap()
    }

    #[test]
    fn progress_names_the_missing_piece() {
        let found = pattern("%{COMBINEDAPACHELOG}")
            .progress(r#"1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" OK 5 "-" "-""#);
        assert_eq!((found.is_match, found.stopped_at), (false, 58));
        assert_eq!(found.expected, "%{NONNEGINT:http_response_status_code}");
        assert!(found.matched.ends_with(r#""%{QUOTEDVALUE:request_line}" "#), "{}", found.matched);
    }

    #[test]
    fn literals_are_joined_and_matches_are_complete() {
        let found = pattern("took %{NUMBER:ms} ms total").progress("took 5 s");
        assert_eq!((found.stopped_at, found.expected.as_str()), (7, "ms total"));
        assert_eq!(found.matched, "took %{NUMBER:ms} ");
        let found = pattern("took %{NUMBER:ms}").progress("took 5 s");
        assert!(found.is_match && found.expected.is_empty() && found.stopped_at == 6);
        let found = pattern("%{IP:a}|%{WORD:b}").progress("- x");
        assert_eq!((found.pieces_matched, found.stopped_at), (0, 0));
        let found = pattern("(.*a){20}!").progress(&"a".repeat(60_000));
        assert!(found.is_too_costly);
    }
}
