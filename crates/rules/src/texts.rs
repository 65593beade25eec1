//! Texts that the head of a rule chooses by a key: its sections `[text.COLUMN]`.
//!
//! The query decides which case it is (`case … then 'stalled' … end as fix_text`), the head has the
//! words. Both are compared when the rule is loaded, so a key without a text, a text without a key
//! and a misspelt placeholder never reach a finding.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weir_tables::{TABLES, VIEWS};

use crate::suggest::nearest;
use crate::template::{columns, render};
use crate::{Cell, Row};

/// A column of the query whose key the engine replaces by a text: a section `[text.COLUMN]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenText {
    /// The column.
    pub column: String,
    /// By key, a template over the columns of the row and over the chosen texts before this one.
    pub by_key: BTreeMap<String, String>,
}

/// A fault of a section, with a hint.
pub(crate) struct TextFault {
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl ChosenText {
    /// Compares the keys with those of the query, and the placeholders with its columns.
    pub(crate) fn check(&self, query: &QueryWords) -> Result<(), TextFault> {
        let chosen = query.keys_of(&self.column)?;
        let known: Vec<&str> = self.by_key.keys().map(String::as_str).collect();
        if let Some(key) = chosen.iter().find(|key| !known.contains(&key.as_str())) {
            return Err(TextFault {
                message: format!("`[text.{}]` lacks `{key}`, which the query chooses", self.column),
                hint: nearest_or(key, &known, "add a text for it"),
            });
        }
        if let Some(key) = known.iter().find(|key| !chosen.contains(**key)) {
            let chosen: Vec<&str> = chosen.iter().map(String::as_str).collect();
            return Err(TextFault {
                message: format!("the query never chooses `{key}` of `[text.{}]`", self.column),
                hint: nearest_or(key, &chosen, "delete the text, or choose it in the query"),
            });
        }
        self.by_key.values().try_for_each(|text| query.check_placeholders(text))
    }
}

/// Replaces the keys in a row by their texts, in the order of the head.
pub(crate) fn fill(texts: &[ChosenText], row: &mut Row) {
    for chosen in texts {
        let template = row.text(&chosen.column).and_then(|key| chosen.by_key.get(key));
        if let Some(template) = template {
            let text = render(template, row);
            row.set(&chosen.column, Cell::Text(text));
        }
    }
}

fn nearest_or(word: &str, known: &[&str], other: &str) -> String {
    nearest(word, known).map_or_else(|| other.to_owned(), |near| format!("did you mean `{near}`?"))
}

#[derive(Debug, PartialEq, Eq)]
enum QueryToken {
    Word(String),
    Literal(String),
    Symbol(char),
}

impl QueryToken {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }
}

/// A query in words, as far as its texts are concerned.
pub(crate) struct QueryWords {
    tokens: Vec<QueryToken>,
    /// Words that a placeholder may be: any word of the query, and the columns behind a `*`.
    names: BTreeSet<String>,
}

impl QueryWords {
    /// Reads a query that reads the tables `needs`.
    pub(crate) fn new(sql: &str, needs: &[String]) -> Self {
        let tokens = tokens(sql);
        let words = tokens.iter().filter_map(|token| match token {
            QueryToken::Word(word) => Some(word.clone()),
            _ => None,
        });
        let mut names: BTreeSet<String> = words.collect();
        let views = VIEWS.iter().map(|view| &view.table);
        let read = TABLES.iter().copied().chain(views);
        let read = read
            .filter(|spec| names.contains(spec.name) || needs.iter().any(|name| name == spec.name));
        let columns: Vec<String> =
            read.flat_map(|spec| spec.columns).map(|column| column.name.to_owned()).collect();
        names.extend(columns);
        Self { tokens, names }
    }

    /// Keys that the query gives a column: literals, branches of a `case`, and another such column.
    fn keys_of(&self, column: &str) -> Result<BTreeSet<String>, TextFault> {
        let mut keys = BTreeSet::new();
        let mut has_any = false;
        for at in 1..self.tokens.len().saturating_sub(1) {
            if !(self.tokens[at].is("as") && self.tokens[at + 1].is(column)) {
                continue;
            }
            has_any = true;
            let value = match &self.tokens[at - 1] {
                QueryToken::Literal(key) => Some(BTreeSet::from([key.clone()])),
                end if end.is("end") => self.branches(at - 1),
                QueryToken::Word(other) if other != column => self.keys_of(other).ok(),
                _ => None,
            };
            keys.extend(value.ok_or_else(|| not_a_key(column))?);
        }
        if has_any { Ok(keys) } else { Err(not_a_key(column)) }
    }

    /// Keys of the branches of the `case` that ends at a token; `None` if one is no literal.
    fn branches(&self, end: usize) -> Option<BTreeSet<String>> {
        let mut keys = BTreeSet::new();
        let (mut depth, mut branch_end) = (1, end);
        for at in (0..end).rev() {
            let token = &self.tokens[at];
            if token.is("end") {
                depth += 1;
            } else if token.is("case") {
                depth -= 1;
                if depth == 0 {
                    return Some(keys);
                }
            } else if depth == 1 && token.is("when") {
                branch_end = at;
            } else if depth == 1 && (token.is("then") || token.is("else")) {
                keys.extend(self.branch_key(at + 1..branch_end)?);
                branch_end = at;
            }
        }
        None
    }

    /// The key of a branch; `Some(None)` for NULL.
    fn branch_key(&self, branch: Range<usize>) -> Option<Option<String>> {
        match self.tokens.get(branch)? {
            [QueryToken::Literal(key)] => Some(Some(key.clone())),
            [null] if null.is("null") => Some(None),
            _ => None,
        }
    }

    fn check_placeholders(&self, text: &str) -> Result<(), TextFault> {
        let Some(name) = columns(text).into_iter().find(|name| !self.names.contains(name)) else {
            return Ok(());
        };
        let known: Vec<&str> = self.names.iter().map(String::as_str).collect();
        Err(TextFault {
            message: format!("the query has no column `{name}` for `{{{name}}}`"),
            hint: nearest_or(&name, &known, "write a column of the query between the braces"),
        })
    }
}

fn not_a_key(column: &str) -> TextFault {
    TextFault {
        message: format!("the query does not choose the texts of `[text.{column}]` by keys"),
        hint: format!("write `case when … then 'key' … else 'other_key' end as {column}`"),
    }
}

/// Splits a query into words in lower case, texts and signs, without its comments.
fn tokens(sql: &str) -> Vec<QueryToken> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let length = if first == '\'' {
            let (key, length) = literal(rest);
            tokens.push(QueryToken::Literal(key));
            length
        } else if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if is_word_part(first) {
            let length = rest.find(|letter| !is_word_part(letter)).unwrap_or(rest.len());
            tokens.push(QueryToken::Word(rest[..length].to_lowercase()));
            length
        } else {
            if !first.is_whitespace() {
                tokens.push(QueryToken::Symbol(first));
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

fn is_word_part(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The text of a literal at the start, and its length with the quotes.
fn literal(sql: &str) -> (String, usize) {
    let mut from = 1;
    while let Some(quote) = sql[from..].find('\'').map(|at| from + at) {
        if !sql[quote + 1..].starts_with('\'') {
            return (sql[1..quote].replace("''", "'"), quote + 1);
        }
        from = quote + 2;
    }
    (sql[1..].to_owned(), sql.len())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(sql: &str, texts: &[(&str, &str)], expected: Expect) {
        let by_key =
            texts.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        let chosen = ChosenText { column: "fix_text".to_owned(), by_key };
        let shown = match chosen.check(&QueryWords::new(sql, &[])) {
            Ok(()) => "good".to_owned(),
            Err(fault) => format!("{}\nhint: {}", fault.message, fault.hint),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn keys_and_placeholders_are_those_of_the_query() {
        let sql = "select host, port, case when a then 'slow' when case when b then 1 end = 1 then null \
            else 'dead' end as fix_text -- 'x' as fix_text\nfrom t union all select host, port, 'gone' as fix_text";
        let texts = [("slow", "a {port}"), ("dead", "server { listen {host}; }"), ("gone", "")];
        check(sql, &texts, expect!["good"]);
        check(
            sql,
            &texts[..2],
            expect![[r#"
            `[text.fix_text]` lacks `gone`, which the query chooses
            hint: add a text for it"#]],
        );
        check(
            &sql.replace("'dead'", "'deed'"),
            &texts,
            expect![[r#"
            `[text.fix_text]` lacks `deed`, which the query chooses
            hint: did you mean `dead`?"#]],
        );
        check(
            &sql.replace("'gone'", "'slow'"),
            &texts,
            expect![[r#"
            the query never chooses `gone` of `[text.fix_text]`
            hint: delete the text, or choose it in the query"#]],
        );
        check(
            sql,
            &[("slow", "a {prt}"), texts[1], texts[2]],
            expect![[r#"
            the query has no column `prt` for `{prt}`
            hint: did you mean `port`?"#]],
        );
    }

    #[test]
    fn texts_that_the_query_writes_itself_are_refused() {
        for sql in [
            "select 1",
            "select concat('a', b) as fix_text",
            "select case when a then concat('b') else 'c' end as fix_text",
            "select end as fix_text",
        ] {
            check(
                sql,
                &[("c", "d")],
                expect![[r#"
                the query does not choose the texts of `[text.fix_text]` by keys
                hint: write `case when … then 'key' … else 'other_key' end as fix_text`"#]],
            );
        }
    }

    #[test]
    fn texts_are_filled_in_order_and_unknown_keys_stay() {
        let json = r#"{"place":"known","fix":"raise","file":"a.conf","other":"raise"}"#;
        let mut row = Row::from_json(&serde_json::from_str(json).unwrap()).unwrap();
        let texts = [
            ("place", "known", "{file}: "),
            ("fix", "raise", "{place}backlog 16384"),
            ("other", "lower", "x"),
            ("absent", "raise", "x"),
        ]
        .map(|(column, key, text)| ChosenText {
            column: column.to_owned(),
            by_key: BTreeMap::from([(key.to_owned(), text.to_owned())]),
        });
        fill(&texts, &mut row);
        let texts = ["place", "fix", "other"].map(|column| row.text(column));
        assert_eq!(texts, [Some("a.conf: "), Some("a.conf: backlog 16384"), Some("raise")]);
    }
}
