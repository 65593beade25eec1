//! Converts the conditions of a query to index keys that a block must contain for one of its rows
//! to match.
//!
//! The keys are necessary, never sufficient: the remaining rows are still filtered. Conditions that
//! are not understood count as "any block may match".
//!
//! # Example
//! `has_phrase(message, 'connection reset')` yields the words `connection` and `reset`, and the
//! three-byte parts of the text. `message like '%connection reset%'` yields only the parts: the
//! pattern also matches `disconnection resets`, which contains neither word.

use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Like, Operator};
use regex_syntax::hir::{Hir, HirKind};
use weir_datafile::text_index::{FilterKey, bucket, folded, is_telling, words};
use weir_tables::TableSpec;

/// Keys that a block must contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexProbe {
    Key(FilterKey),
    All(Vec<IndexProbe>),
    Any(Vec<IndexProbe>),
}

/// A text is looked up with at most this many words and this many parts: more would hardly skip
/// more blocks.
const KEYS_MAX: usize = 8;
/// Longer lists of values are not looked up.
const LIST_MAX: usize = 256;

/// Probe for the conjunction of `filters` on a block of `table`; `None` if the index cannot
/// evaluate any of them.
pub(crate) fn probe_of(table: &TableSpec, filters: &[Expr]) -> Option<IndexProbe> {
    all(filters.iter().filter_map(|filter| of_expr(table, filter)).collect())
}

fn of_expr(table: &TableSpec, expr: &Expr) -> Option<IndexProbe> {
    match expr {
        Expr::BinaryExpr(binary) => of_binary(table, binary),
        Expr::Like(like) => of_like(table, like),
        Expr::InList(InList { expr, list, negated: false }) if list.len() <= LIST_MAX => {
            let column = SearchedColumn::new(table, expr)?;
            any(list.iter().map(|value| column.equal(text(value)?)).collect::<Option<_>>()?)
        }
        Expr::ScalarFunction(call) => {
            let [expr, wanted] = call.args.as_slice() else { return None };
            let (column, wanted) = (SearchedColumn::new(table, expr)?, text(wanted)?);
            match call.name() {
                "has_token" => column.holding(&[TextPiece::closed(wanted)]),
                "has_phrase" => column.holding(&[TextPiece::phrase(wanted)]),
                "contains" => column.holding(&[TextPiece::open(wanted)]),
                "starts_with" => column
                    .holding(&[TextPiece { is_open_right: true, ..TextPiece::closed(wanted) }]),
                "ends_with" => {
                    column.holding(&[TextPiece { is_open_left: true, ..TextPiece::closed(wanted) }])
                }
                "regexp_like" => column.matching(wanted),
                _ => None,
            }
        }
        Expr::IsTrue(inner) => of_expr(table, inner),
        _ => None,
    }
}

fn of_binary(table: &TableSpec, binary: &BinaryExpr) -> Option<IndexProbe> {
    let (left, right) = (&*binary.left, &*binary.right);
    match binary.op {
        Operator::And => {
            all([left, right].iter().filter_map(|side| of_expr(table, side)).collect())
        }
        Operator::Or => any(vec![of_expr(table, left)?, of_expr(table, right)?]),
        Operator::Eq => {
            let (column, value) = match text(right) {
                Some(value) => (left, value),
                None => (right, text(left)?),
            };
            SearchedColumn::new(table, column)?.equal(value)
        }
        Operator::RegexMatch => SearchedColumn::new(table, left)?.matching(text(right)?),
        _ => None,
    }
}

fn of_like(table: &TableSpec, like: &Like) -> Option<IndexProbe> {
    if like.negated || like.escape_char.is_some_and(|escape| escape != '\\') {
        return None;
    }
    let column = SearchedColumn::new(table, &like.expr)?;
    let pattern = text(&like.pattern)?;
    let mut pieces = like_pieces(pattern);
    if like.case_insensitive {
        pieces = pieces.iter().flat_map(TextPiece::certain_in_any_case).collect();
    }
    column.holding(&pieces)
}

/// A column that the index covers.
struct SearchedColumn {
    id: i32,
    has_words: bool,
}

impl SearchedColumn {
    fn new(table: &TableSpec, expr: &Expr) -> Option<Self> {
        let name = match expr {
            Expr::Column(column) => column.name.as_str(),
            // Only casts to another text type: a searched column cast to anything else is never
            // compared with a text.
            Expr::Cast(cast) => return Self::new(table, &cast.expr),
            _ => return None,
        };
        let has_words = table.words.contains(&name);
        let id = table.column(name).filter(|_| has_words || table.ids.contains(&name))?.id;
        Some(Self { id, has_words })
    }

    fn equal(&self, value: &str) -> Option<IndexProbe> {
        if self.has_words {
            self.holding(&[TextPiece::closed(value)])
        } else {
            Some(IndexProbe::Key(FilterKey::whole(self.id, value)))
        }
    }

    fn matching(&self, pattern: &str) -> Option<IndexProbe> {
        let mut pieces = Vec::new();
        required(&regex_syntax::parse(pattern).ok()?, &mut pieces);
        self.holding(&pieces)
    }

    /// Requires all of these texts in the value.
    fn holding(&self, pieces: &[TextPiece]) -> Option<IndexProbe> {
        if !self.has_words {
            return None;
        }
        let (mut found_words, mut found_parts) = (Vec::new(), Vec::new());
        for piece in pieces {
            let text = folded(&piece.text);
            let bytes = text.as_bytes();
            let whole = words(bytes).filter(|word| {
                (word.start > 0 || !piece.is_open_left)
                    && (word.end < bytes.len() || !piece.is_open_right)
            });
            let telling = whole.map(|word| &bytes[word]).filter(|word| is_telling(word));
            found_words.extend(telling.map(|word| FilterKey::word(self.id, word)));
            let parts = bytes.array_windows::<3>().filter_map(|three| bucket(*three));
            found_parts.extend(parts.map(|bucket| FilterKey::part(self.id, bucket)));
        }
        all(thinned(found_words).chain(thinned(found_parts)).map(IndexProbe::Key).collect())
    }
}

/// At most [`KEYS_MAX`] keys, spread evenly.
fn thinned(mut keys: Vec<FilterKey>) -> impl Iterator<Item = FilterKey> {
    keys.sort_unstable();
    keys.dedup();
    let step = keys.len().div_ceil(KEYS_MAX).max(1);
    keys.into_iter().step_by(step)
}

/// A text that a value must contain, and whether a word may continue beyond its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TextPiece {
    text: String,
    is_open_left: bool,
    is_open_right: bool,
}

impl TextPiece {
    fn open(text: &str) -> Self {
        Self { text: text.to_owned(), is_open_left: true, is_open_right: true }
    }

    /// A piece with `has_phrase`'s word boundaries.
    fn phrase(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(text) => Self { is_open_right: true, ..Self::closed(text) },
            None => Self::closed(text),
        }
    }

    fn closed(text: &str) -> Self {
        Self { text: text.to_owned(), is_open_left: false, is_open_right: false }
    }

    /// Pieces whose bytes are the same in every case. Beyond ASCII that is not certain; and `k` and
    /// `s` also match the Kelvin sign and the long s.
    fn certain_in_any_case(&self) -> Vec<Self> {
        let mut parts: Vec<Self> =
            self.text.split(|c: char| !is_certain(c)).map(Self::open).collect();
        if let Some(first) = parts.first_mut() {
            first.is_open_left = self.is_open_left;
        }
        if let Some(last) = parts.last_mut() {
            last.is_open_right = self.is_open_right;
        }
        parts
    }
}

fn is_certain(c: char) -> bool {
    c.is_ascii() && !matches!(c, 'k' | 'K' | 's' | 'S')
}

/// Texts between the wildcards of a `LIKE` pattern.
fn like_pieces(pattern: &str) -> Vec<TextPiece> {
    let mut pieces = vec![TextPiece::closed("")];
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if matches!(c, '%' | '_' | '\\') {
            // Escape rules differ, so a backslash yields no piece.
            if c == '\\' {
                chars.next();
            }
            pieces.last_mut().expect("never empty").is_open_right = true;
            pieces.push(TextPiece { is_open_left: true, ..TextPiece::closed("") });
        } else {
            pieces.last_mut().expect("never empty").text.push(c);
        }
    }
    pieces
}

/// Texts that every match of a regular expression contains.
fn required(hir: &Hir, pieces: &mut Vec<TextPiece>) {
    match hir.kind() {
        HirKind::Literal(literal) => {
            if let Ok(text) = std::str::from_utf8(&literal.0) {
                pieces.push(TextPiece::open(text));
            }
        }
        HirKind::Concat(parts) => parts.iter().for_each(|part| required(part, pieces)),
        HirKind::Capture(capture) => required(&capture.sub, pieces),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub, pieces),
        _ => {}
    }
}

fn all(probes: Vec<IndexProbe>) -> Option<IndexProbe> {
    if probes.len() > 1 { Some(IndexProbe::All(probes)) } else { probes.into_iter().next() }
}

/// Disjunction of probes; without probes there is no conclusion.
fn any(probes: Vec<IndexProbe>) -> Option<IndexProbe> {
    if probes.len() > 1 { Some(IndexProbe::Any(probes)) } else { probes.into_iter().next() }
}

/// A constant text.
fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};
    use expect_test::{Expect, expect};
    use weir_tables::Request;

    use super::*;

    fn check(filter: Expr, expected: &Expect) {
        let probe = probe_of(&Request::SPEC, &[filter]);
        let shown = probe.map_or_else(|| "anything".to_owned(), |probe| show(&probe));
        expected.assert_eq(&shown);
    }

    /// Shows only the kinds of keys: another test covers their hashes.
    fn show(probe: &IndexProbe) -> String {
        match probe {
            IndexProbe::Key(key) => format!("{}:{:?}", key.column, key.kind),
            IndexProbe::All(probes) => list(probes, " and "),
            IndexProbe::Any(probes) => list(probes, " or "),
        }
    }

    fn list(probes: &[IndexProbe], word: &str) -> String {
        format!("({})", probes.iter().map(show).collect::<Vec<_>>().join(word))
    }

    fn regex(column: Expr, pattern: &str) -> Expr {
        let (left, right) = (Box::new(column), Box::new(lit(pattern)));
        Expr::BinaryExpr(BinaryExpr::new(left, Operator::RegexMatch, right))
    }

    #[test]
    fn conditions_ask_for_keys_that_have_to_be_there() {
        check(col("request_id").eq(lit("ab")), &expect!["8:Whole"]);
        check(lit("ab").eq(col("request_id")), &expect!["8:Whole"]);
        check(
            col("request_id").in_list(vec![lit("a"), lit("b")], false),
            &expect!["(8:Whole or 8:Whole)"],
        );
        check(
            col("url_path").eq(lit("/a/b7")),
            &expect!["(15:Word and 15:Word and 15:Part and 15:Part)"],
        );
        check(
            col("url_path").like(lit("%ab/cd/ef%")),
            &expect![
                "(15:Word and 15:Part and 15:Part and 15:Part and 15:Part and 15:Part and 15:Part)"
            ],
        );
        check(col("url_path").like(lit("%ab%")), &expect!["anything"]);
        check(col("url_path").like(lit("ab%")), &expect!["anything"]);
        check(col("url_path").like(lit(r"%a\%bc%")), &expect!["anything"]);
        check(col("url_path").not_like(lit("%abcd%")), &expect!["anything"]);
        check(col("url_path").ilike(lit("%ask%")), &expect!["anything"]);
        check(
            col("url_path").ilike(lit("% abc %")),
            &expect!["(15:Word and 15:Part and 15:Part and 15:Part)"],
        );
        check(
            regex(col("url_path"), "^/(api|app)/cart[0-9]+$"),
            &expect!["(15:Part and 15:Part and 15:Part)"],
        );
        check(regex(col("url_path"), "(?i)cart"), &expect!["anything"]);
        check(regex(col("url_path"), "(cart)?"), &expect!["anything"]);
        check(col("host").eq(lit("web1")), &expect!["anything"]);
    }

    #[test]
    fn and_needs_one_side_and_or_needs_both() {
        check(request_id().and(col("host").eq(lit("x"))), &expect!["8:Whole"]);
        check(request_id().or(col("host").eq(lit("x"))), &expect!["anything"]);
        check(
            request_id().or(col("server_address").eq(lit("x"))),
            &expect!["(8:Whole or 11:Whole)"],
        );
        check(!request_id(), &expect!["anything"]);
    }

    fn request_id() -> Expr {
        col("request_id").eq(lit("ab"))
    }
}
