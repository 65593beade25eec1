//! Suggests a pattern for a sample of lines: a known one, else one built from what the lines share.
//!
//! Lines are split into values and the marks between them. While all lines continue with the same
//! kind of piece, it becomes part of the pattern; where they differ, the message starts.
//!
//! ```text
//!  10.0.0.1 GET /a 200        address  space  word  space  path  space  integer
//!  10.0.0.2 POST /b 404   ─►  %{IPORHOST:client_address} %{WORD:http_request_method}
//!                             %{NOTSPACE:path} %{INT:http_response_status_code}
//! ```

use weir_values::{number, severity};

use crate::grok::engine::{MAX_STEPS, SearchOutcome};
use crate::grok::{Pattern, PatternLibrary};

/// Most lines of a sample.
const MAX_LINES: usize = 1_000;
/// Most pieces of one line.
const MAX_PIECES: usize = 120;
/// Patterns of times, the most specific first.
const TIMES: [&str; 5] =
    ["TIMESTAMP_ISO8601", "HTTPDATE", "HTTPDERROR_DATE", "CATALINA_DATESTAMP", "SYSLOGTIMESTAMP"];

/// A proposed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The pattern.
    pub pattern: String,
    /// Lines of the sample that it matches.
    pub matched: usize,
    /// Lines of the sample.
    pub lines: usize,
    /// Whether it is a known pattern.
    pub is_known: bool,
}

/// Known patterns that match any line with a leading time.
const TOO_WIDE: [&str; 1] = ["GOLOG"];

/// Kind of a piece of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum PieceKind {
    Mark,
    Space,
    Time(usize),
    Integer,
    Number,
    Address,
    Uuid,
    Level,
    Quoted,
    RequestLine,
    Path,
    Word,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct LinePiece<'l> {
    kind: PieceKind,
    text: &'l str,
}

/// Suggests a pattern; `None` for a sample without lines.
pub(crate) fn suggest(
    library: &PatternLibrary,
    known: &[&str],
    lines: &[String],
) -> Option<Suggestion> {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    let lines: Vec<&str> =
        lines.into_iter().filter(|line| !line.is_empty()).take(MAX_LINES).collect();
    let count = |pattern: &Pattern, is_whole: bool| {
        lines.iter().filter(|line| matches(pattern, line, is_whole)).count()
    };
    let whole_known = known.iter().filter(|name| !TOO_WIDE.contains(name)).filter_map(|name| {
        let pattern = Pattern::grok(library, &format!("%{{{name}}}")).ok()?;
        let matched = count(&pattern, true);
        (matched * 20 >= lines.len() * 19 && matched > 0).then_some((pattern, matched))
    });
    let best = whole_known.max_by_key(|(pattern, _)| pattern.names().count());
    if let Some((pattern, matched)) = best {
        let pattern = pattern.written;
        return Some(Suggestion { pattern, matched, lines: lines.len(), is_known: true });
    }
    if lines.is_empty() {
        return None;
    }
    let written = PatternBuilder::new(library, &lines).written();
    let matched = Pattern::grok(library, &written).map_or(0, |pattern| count(&pattern, true));
    Some(Suggestion { pattern: written, matched, lines: lines.len(), is_known: false })
}

fn matches(pattern: &Pattern, line: &str, is_whole: bool) -> bool {
    let mut steps_left = MAX_STEPS;
    match pattern.search(line, &mut pattern.scratch(), &mut steps_left) {
        SearchOutcome::Match(end) => !is_whole || end == line.len(),
        _ => false,
    }
}

/// Builds a pattern.
struct PatternBuilder<'l> {
    lines: Vec<Vec<LinePiece<'l>>>,
    names: Vec<String>,
    out: String,
}

impl<'l> PatternBuilder<'l> {
    fn new(library: &PatternLibrary, lines: &[&'l str]) -> Self {
        let times: Vec<Pattern> = TIMES
            .iter()
            .map(|name| Pattern::grok(library, &format!("%{{{name}}}")))
            .map(|pattern| pattern.expect("the built-in names compile, as a test sees"))
            .collect();
        let lines = lines.iter().map(|line| pieces(line, &times)).collect();
        Self { lines, names: Vec::new(), out: String::new() }
    }

    fn written(mut self) -> String {
        // Keep only the most common start, so that a stack trace in between does not spoil the
        // rest.
        self.keep_commonest();
        let shortest = self.lines.iter().map(Vec::len).min().unwrap_or_default();
        for at in 0..shortest {
            if !self.is_shared(at) || self.is_message(at) {
                break;
            }
            self.push(at);
            if at + 1 == shortest && self.lines.iter().all(|line| line.len() == shortest) {
                return self.out;
            }
        }
        self.out + "%{GREEDYDATA:message}"
    }

    fn keep_commonest(&mut self) {
        let mut counts = std::collections::HashMap::new();
        for line in &self.lines {
            *counts.entry(start_of(line)).or_insert(0usize) += 1;
        }
        if let Some((commonest, _)) =
            counts.into_iter().max_by_key(|(kinds, count)| (*count, kinds.len()))
        {
            self.lines.retain(|line| start_of(line) == commonest);
        }
    }

    fn kinds(&self, at: usize) -> impl Iterator<Item = PieceKind> {
        self.lines.iter().map(move |line| line[at].kind)
    }

    fn is_constant(&self, at: usize) -> bool {
        let first = self.lines[0][at].text;
        self.lines.iter().all(|line| line[at].text == first)
    }

    /// Whether all lines continue with the same mark, or all with a value.
    fn is_shared(&self, at: usize) -> bool {
        match self.kinds(at).any(|kind| matches!(kind, PieceKind::Mark | PieceKind::Space)) {
            true => self.kinds(at).all(|kind| kind == PieceKind::Space) || self.is_constant(at),
            false => true,
        }
    }

    /// Prose starts where two consecutive words differ between lines.
    fn is_message(&self, at: usize) -> bool {
        let is_prose = |at: usize| {
            let is_there = self.lines.iter().all(|line| line.len() > at);
            !is_there
                || (self.kinds(at).any(|kind| kind == PieceKind::Word) && !self.is_constant(at))
        };
        let is_word = self.kinds(at).all(|kind| kind == PieceKind::Word) && !self.is_constant(at);
        let is_spaced = self
            .lines
            .iter()
            .all(|line| line.get(at + 1).is_none_or(|p| p.kind == PieceKind::Space));
        is_word && is_spaced && self.key_before(at).is_none() && is_prose(at + 2)
    }

    fn push(&mut self, at: usize) {
        let first = self.lines[0][at];
        let kind = self.kinds(at).reduce(joined).unwrap_or(PieceKind::Other);
        let is_literal = matches!(kind, PieceKind::Mark)
            || (self.is_constant(at)
                && matches!(kind, PieceKind::Word | PieceKind::Space | PieceKind::Other));
        if is_literal {
            self.out += &regex_syntax::escape(first.text);
            return;
        }
        let (pattern, name) = match kind {
            PieceKind::Space => return self.out.push_str(" +"),
            PieceKind::Time(index) => (TIMES[index], "timestamp"),
            PieceKind::Integer => ("INT", self.number_name(at)),
            PieceKind::Number => ("NUMBER", "number"),
            PieceKind::Address => ("IPORHOST", "client_address"),
            PieceKind::Uuid => ("UUID", "request_id"),
            PieceKind::Level => ("LOGLEVEL", "severity"),
            PieceKind::Quoted => ("QUOTEDVALUE", "text"),
            PieceKind::RequestLine => ("QUOTEDVALUE", "request_line"),
            PieceKind::Path => ("NOTSPACE", "path"),
            PieceKind::Word if self.is_method(at) => ("WORD", "http_request_method"),
            PieceKind::Word => ("WORD", "word"),
            _ => ("NOTSPACE", "value"),
        };
        let is_in_quotes = matches!(kind, PieceKind::Quoted | PieceKind::RequestLine);
        let name = self.key_before(at).unwrap_or_else(|| name.to_owned());
        let name = self.unique(name);
        let quote = if is_in_quotes { "\"" } else { "" };
        self.out += &format!("{quote}%{{{pattern}:{name}}}{quote}");
    }

    fn is_method(&self, at: usize) -> bool {
        const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
        self.lines.iter().all(|line| METHODS.contains(&line[at].text))
    }

    /// The status of an access log follows the request; a number in brackets is a process id.
    fn number_name(&self, at: usize) -> &'static str {
        let is_status = self.lines.iter().all(|line| line[at].text.len() == 3)
            && self
                .names
                .iter()
                .any(|name| name == "request_line" || name == "http_request_method")
            && !self.names.iter().any(|name| name == "http_response_status_code");
        let before = at.checked_sub(1).map_or("", |before| self.lines[0][before].text);
        match (is_status, before) {
            (true, _) => "http_response_status_code",
            (_, "[") => "process_id",
            _ => "number",
        }
    }

    /// `took=5`: the word before the mark is the name.
    fn key_before(&self, at: usize) -> Option<String> {
        let line = &self.lines[0];
        let mark = line.get(at.checked_sub(1)?)?;
        let key = line.get(at.checked_sub(2)?)?;
        let is_key = matches!(mark.text, "=" | ":")
            && key.kind == PieceKind::Word
            && self.is_constant(at - 2);
        is_key.then(|| key.text.to_owned())
    }

    fn unique(&mut self, name: String) -> String {
        let mut unique = name.clone();
        let mut number = 2;
        while self.names.contains(&unique) {
            unique = format!("{name}{number}");
            number += 1;
        }
        self.names.push(unique.clone());
        unique
    }
}

/// The kinds of the first pieces.
fn start_of(line: &[LinePiece<'_>]) -> Vec<PieceKind> {
    line.iter().take(3).map(|piece| piece.kind).collect()
}

/// The kind that covers both.
fn joined(left: PieceKind, right: PieceKind) -> PieceKind {
    match (left.min(right), left.max(right)) {
        (left, right) if left == right => left,
        (PieceKind::Integer, PieceKind::Number) => PieceKind::Number,
        (PieceKind::Quoted, PieceKind::RequestLine) => PieceKind::Quoted,
        _ => PieceKind::Other,
    }
}

fn pieces<'l>(line: &'l str, times: &[Pattern]) -> Vec<LinePiece<'l>> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if pieces.len() == MAX_PIECES {
            break;
        }
        let (kind, length) = piece(rest, first, times);
        let is_quoted = matches!(kind, PieceKind::Quoted | PieceKind::RequestLine);
        let text = if is_quoted { &rest[1..length - 1] } else { &rest[..length] };
        pieces.push(LinePiece { kind, text });
        rest = &rest[length..];
    }
    pieces
}

fn piece(rest: &str, first: char, times: &[Pattern]) -> (PieceKind, usize) {
    if first.is_whitespace() {
        return (PieceKind::Space, rest.len() - rest.trim_start().len());
    }
    if first == '"'
        && let Some((inner, _)) = crate::text::quoted_end(&rest[1..])
    {
        let is_request =
            crate::request_line::parse(inner).is_some_and(|line| line.version.is_some());
        return (
            if is_request { PieceKind::RequestLine } else { PieceKind::Quoted },
            inner.len() + 2,
        );
    }
    for (index, time) in times.iter().enumerate() {
        let mut steps_left = MAX_STEPS;
        let found = time.search(rest, &mut time.scratch(), &mut steps_left);
        if let SearchOutcome::Match(end) = found {
            return (PieceKind::Time(index), end);
        }
    }
    let is_path = first == '/';
    let is_end = |c: char| c.is_whitespace() || (!is_path && "[](){}<>\"'|,;=".contains(c));
    let end = rest.find(is_end).unwrap_or(rest.len());
    if end == 0 {
        return (PieceKind::Mark, first.len_utf8());
    }
    // A trailing colon belongs to the next piece (`sshd: `); an inner one may separate a key.
    let word = rest[..end].trim_end_matches([':', '.']);
    match word.is_empty() {
        true => (PieceKind::Mark, first.len_utf8()),
        false => (kind_of(word), word.len()),
    }
}

fn kind_of(word: &str) -> PieceKind {
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    let is = |test: fn(&u8) -> bool| !digits.is_empty() && digits.bytes().all(|byte| test(&byte));
    if is(u8::is_ascii_digit) {
        PieceKind::Integer
    } else if number::float(word).is_some() {
        PieceKind::Number
    } else if word.parse::<std::net::IpAddr>().is_ok() {
        PieceKind::Address
    } else if is_uuid(word) {
        PieceKind::Uuid
    } else if word.len() > 2 && severity::of_word(word).is_some() {
        PieceKind::Level
    } else if word.starts_with('/') {
        PieceKind::Path
    } else if word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        PieceKind::Word
    } else {
        PieceKind::Other
    }
}

fn is_uuid(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use crate::Parsers;

    fn check(lines: &[&str], expected: &str, matched: usize) {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let found = Parsers::built_in().suggest(&lines).unwrap();
        assert_eq!((found.pattern.as_str(), found.matched), (expected, matched));
    }

    #[test]
    fn known_formats_are_recognised() {
        check(
            &[r#"1.2.3.4 - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl""#],
            "%{COMBINEDAPACHELOG}",
            1,
        );
    }

    #[test]
    fn patterns_are_put_together_from_what_lines_share() {
        check(
            &[
                "2026-11-20 12:00:00,123 [worker-1] INFO took=15 user=bob order stored",
                "2026-11-20 12:00:01,500 [worker-12] WARN took=3 user=alice the basket was empty",
            ],
            r"%{TIMESTAMP_ISO8601:timestamp} \[%{NOTSPACE:value}\] %{LOGLEVEL:severity} took=%{INT:took} user=%{WORD:user} %{GREEDYDATA:message}",
            2,
        );
        check(
            &["10.0.0.1 GET /a 200 0.5", "10.0.0.2 POST /b?x=1 404 1.25", "fe80::1 GET / 200 3"],
            r"%{IPORHOST:client_address} %{WORD:http_request_method} %{NOTSPACE:path} %{INT:http_response_status_code} %{NUMBER:number}",
            3,
        );
    }

    #[test]
    fn a_stack_trace_between_does_not_spoil_the_pattern() {
        check(
            &["12:01 | 5 | ok", "12:02 | 6 | ok", "\tat a.b.c(D.java:5)", "12:03 | 7 | ok"],
            r"%{NOTSPACE:value} \| %{INT:number} \| ok",
            3,
        );
    }

    #[test]
    fn any_lines_give_a_pattern_that_compiles() {
        let parsers = Parsers::built_in();
        arbtest::arbtest(|u| {
            let lines: Vec<String> =
                (0..u.int_in_range(1..=4)?).map(|_| u.arbitrary()).collect::<Result<_, _>>()?;
            if let Some(found) = parsers.suggest(&lines) {
                assert!(
                    parsers
                        .pipeline_of(crate::ParserFile {
                            origin: "x",
                            text: &format!(
                                "[parse]\nformat = \"grok\"\npattern = {}\n",
                                toml::Value::from(found.pattern.as_str())
                            )
                        })
                        .is_ok(),
                    "{found:?}"
                );
            }
            Ok(())
        })
        .budget_ms(500);
    }
}
