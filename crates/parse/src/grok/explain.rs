//! How far a pattern fits a line, and what was expected where it stopped: what a person needs to mend it.
//!
//! A pattern is taken apart into the pieces that follow each other; the longest run of pieces from the front that still
//! matches is found by halving, because a run that matches has only shorter runs that match.

use regex_syntax::ast::{Ast, GroupKind, parse::Parser};

use super::engine::{MAX_LINE_BYTES, MAX_STEPS, Outcome};
use super::pattern::{Pattern, compile};

/// How far one pattern fits one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The pattern as written.
    pub pattern: String,
    /// Whether it matches.
    pub is_match: bool,
    /// The byte of the line that it matched up to, or could not get past.
    pub stopped_at: usize,
    /// The part of the pattern that still matches.
    pub matched: String,
    /// The piece that should have come next; empty when it matches.
    pub expected: String,
    /// Pieces that match, and all pieces.
    pub pieces_matched: usize,
    /// All pieces.
    pub pieces: usize,
    /// Whether an automaton runs it that looks at each byte once.
    pub is_one_pass: bool,
    /// Whether the line is too long, or took more steps than a line may.
    pub is_too_costly: bool,
}

/// A part of a pattern: its expression, and how it was written.
struct Piece {
    regex: String,
    written: String,
}

impl Pattern {
    /// How far this pattern fits `line`.
    pub(crate) fn progress(&self, line: &str) -> Progress {
        let mut steps_left = MAX_STEPS;
        let outcome = match line.len() > MAX_LINE_BYTES {
            true => Outcome::TooCostly,
            false => self.search(line, &mut self.scratch(), &mut steps_left),
        };
        let pieces = self.pieces();
        let (is_match, stopped_at) = match outcome {
            Outcome::Match(end) => (true, end),
            Outcome::NoMatch(at) => (false, at),
            Outcome::TooCostly => (false, 0),
        };
        let is_too_costly = outcome == Outcome::TooCostly;
        let count = match (is_match, is_too_costly) {
            (true, _) => pieces.len(),
            (_, true) => 0,
            _ => longest_run(&pieces, line),
        };
        let written =
            |pieces: &[Piece]| pieces.iter().map(|piece| piece.written.as_str()).collect();
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

    fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let Ok(tree) = Parser::new().parse(&self.expanded.regex) {
            self.take_apart(&tree, &mut pieces);
        }
        pieces
    }

    /// Follows sequences and groups that only hold one; everything else is a piece.
    fn take_apart(&self, tree: &Ast, pieces: &mut Vec<Piece>) {
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
                pieces.push(Piece { regex, written });
            }
        }
    }
}

/// A group without a name and flags, that holds a sequence.
fn is_plain(kind: &GroupKind, inner: &Ast) -> bool {
    let is_unnamed = matches!(kind, GroupKind::NonCapturing(flags) if flags.items.is_empty());
    is_unnamed && !matches!(inner, Ast::Alternation(_))
}

/// How many pieces from the front match the front of the line together.
fn longest_run(pieces: &[Piece], line: &str) -> usize {
    let (mut fits, mut fails) = (0, pieces.len() + 1);
    while fails - fits > 1 {
        let middle = fits.midpoint(fails);
        let regex: String = pieces[..middle].iter().map(|piece| piece.regex.as_str()).collect();
        let is_match = compile(&regex).is_ok_and(|nfa| {
            let engine = super::engine::Engine::new(nfa);
            let mut steps_left = MAX_STEPS;
            matches!(engine.search(line, &mut engine.scratch(), &mut steps_left), Outcome::Match(_))
        });
        if is_match {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    fits
}

/// The next piece; single characters are told together up to the next name.
fn expected(pieces: &[Piece]) -> String {
    let is_short = |piece: &&Piece| piece.written.len() <= 2;
    match pieces.first() {
        Some(first) if is_short(&first) => {
            pieces.iter().take_while(is_short).map(|piece| piece.written.as_str()).collect()
        }
        Some(first) => first.written.clone(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grok::Library;

    fn progress(written: &str, line: &str) -> Progress {
        Pattern::grok(&Library::built_in(), written).unwrap().progress(line)
    }

    #[test]
    fn progress_names_the_piece_that_did_not_come() {
        let found = progress(
            "%{COMBINEDAPACHELOG}",
            r#"1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" OK 5 "-" "-""#,
        );
        assert_eq!((found.is_match, found.stopped_at), (false, 58));
        assert_eq!(found.expected, "%{NONNEGINT:http_response_status_code}");
        assert!(found.matched.ends_with(r#""%{QUOTEDVALUE:request_line}" "#), "{}", found.matched);
    }

    #[test]
    fn literals_are_told_together_and_matches_are_whole() {
        let found = progress("took %{NUMBER:ms} ms total", "took 5 s");
        assert_eq!((found.stopped_at, found.expected.as_str()), (7, "ms total"));
        assert_eq!(found.matched, "took %{NUMBER:ms} ");
        let found = progress("took %{NUMBER:ms}", "took 5 s");
        assert!(found.is_match && found.expected.is_empty() && found.stopped_at == 6);
        let found = progress("%{IP:a}|%{WORD:b}", "- x");
        assert_eq!((found.pieces_matched, found.stopped_at), (0, 0));
        let found = progress("(.*a){20}!", &"a".repeat(60_000));
        assert!(found.is_too_costly);
    }
}
