//! `when = "status >= 500 and url_path starts_with '/api'"`: conditions on any field of a row.
//!
//! ```text
//! condition  = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" condition ")" | FIELD test
//! test       = ("=" | "!=" | "<" | "<=" | ">" | ">=") VALUE | "exists" | "in" "[" VALUE { "," VALUE } "]"
//!            | ("contains" | "starts_with" | "ends_with" | "matches" | "in_network") TEXT
//! ```
//! A test of a field that is NULL is false, `!=` included: `not (a = "b")` also holds without `a`.

use regex::Regex;
use weir_tables::IpNetwork;
use weir_values::number;

use crate::problem::ParserProblem;
use crate::record::{FieldValue, Record, RowKind};

/// Deepest nesting of conditions.
const MAX_DEPTH: usize = 32;
/// Largest compiled expression.
const REGEX_BYTES: usize = 1 << 20;

/// A condition on a row.
#[derive(Debug)]
pub(crate) enum Condition {
    Or(Vec<Condition>),
    And(Vec<Condition>),
    Not(Box<Condition>),
    Test { field: String, test: FieldTest },
}

/// A test of one field.
#[derive(Debug)]
pub(crate) enum FieldTest {
    Exists,
    Equal(Constant),
    Unequal(Constant),
    Ordered { is_less: bool, is_equal_too: bool, bound: f64 },
    In(Vec<Constant>),
    Contains(String),
    StartsWith(String),
    EndsWith(String),
    Matches(Box<Regex>),
    InNetwork(IpNetwork),
}

/// A value in a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Constant {
    text: String,
    number: Option<f64>,
}

impl Condition {
    /// Parses a condition.
    pub(crate) fn parse(text: &str) -> Result<Self, ParserProblem> {
        let mut reader = ConditionReader { text, at: 0 };
        let condition = reader.condition(0)?;
        reader.skip_space();
        match reader.at < text.len() {
            true => Err(reader.problem("`and` or `or` is expected")),
            false => Ok(condition),
        }
    }

    /// Whether the row satisfies it; `source` is the path of its log.
    pub(crate) fn holds(&self, record: &mut Record<'_>, kind: RowKind, source: &str) -> bool {
        match self {
            Self::Or(any) => any.iter().any(|one| one.holds(record, kind, source)),
            Self::And(all) => all.iter().all(|one| one.holds(record, kind, source)),
            Self::Not(inner) => !inner.holds(record, kind, source),
            Self::Test { field, test } => match field.as_str() {
                "source" => test.holds(FieldValue::Text(source)),
                _ => record.value(kind, field).is_some_and(|value| test.holds(value)),
            },
        }
    }

    /// Whether it tests only what every line has: its text and its log.
    pub(crate) fn is_about_any_line(&self) -> bool {
        self.fields().iter().all(|field| matches!(*field, "body" | "source"))
    }

    /// Names of the tested fields.
    fn fields(&self) -> Vec<&str> {
        match self {
            Self::Or(parts) | Self::And(parts) => parts.iter().flat_map(Self::fields).collect(),
            Self::Not(inner) => inner.fields(),
            Self::Test { field, .. } => vec![field],
        }
    }
}

impl FieldTest {
    fn holds(&self, value: FieldValue<'_>) -> bool {
        let text = match value {
            FieldValue::Text(text) => text,
            FieldValue::Integer(_) | FieldValue::Float(_) => "",
        };
        match self {
            Self::Exists => value != FieldValue::Text(""),
            Self::Equal(constant) => constant.equals(value),
            Self::Unequal(constant) => !constant.equals(value),
            Self::In(constants) => constants.iter().any(|constant| constant.equals(value)),
            Self::Ordered { is_less, is_equal_too, bound } => {
                number_of(value).is_some_and(|held| {
                    (*is_equal_too && held == *bound)
                        || if *is_less { held < *bound } else { held > *bound }
                })
            }
            Self::Contains(part) => text.contains(part.as_str()),
            Self::StartsWith(start) => text.starts_with(start.as_str()),
            Self::EndsWith(end) => text.ends_with(end.as_str()),
            Self::Matches(regex) => regex.is_match(text),
            Self::InNetwork(network) => text.parse().is_ok_and(|address| network.contains(address)),
        }
    }
}

impl Constant {
    fn new(text: String) -> Self {
        let number = number::float(&text);
        Self { text, number }
    }

    fn equals(&self, value: FieldValue<'_>) -> bool {
        match (value, self.number) {
            (FieldValue::Text(text), _) => text == self.text,
            (value, Some(number)) => number_of(value) == Some(number),
            _ => false,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a bound written by a person is far below 2^53")]
fn number_of(value: FieldValue<'_>) -> Option<f64> {
    match value {
        FieldValue::Text(text) => number::float(text),
        FieldValue::Integer(integer) => Some(integer as f64),
        FieldValue::Float(float) => Some(float),
    }
}

/// Parser of a condition.
struct ConditionReader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> ConditionReader<'t> {
    fn problem(&self, what: &str) -> ParserProblem {
        let near: String = self.text[self.at..].trim_start().chars().take(30).collect();
        let near = if near.is_empty() { "the end".to_owned() } else { format!("`{near}`") };
        ParserProblem::new(
            format!("the condition `{}` is wrong at {near}: {what}", self.text),
            "such as `http_response_status_code >= 500 and url_path starts_with \"/api\"`",
        )
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn rest(&mut self) -> &'t str {
        self.skip_space();
        &self.text[self.at..]
    }

    fn take(&mut self, mark: &str) -> bool {
        let is_there = self.rest().starts_with(mark);
        if is_there {
            self.at += mark.len();
        }
        is_there
    }

    /// A name of letters, digits and `_ . - @ #`; backquotes hold any other name.
    fn word(&mut self) -> Option<&'t str> {
        let rest = self.rest();
        if let Some(quoted) = rest.strip_prefix('`') {
            let end = quoted.find('`')?;
            self.at += end + 2;
            return Some(&quoted[..end]);
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && !"_.-@#".contains(c));
        let end = end.unwrap_or(rest.len());
        self.at += end;
        (end > 0).then(|| &rest[..end])
    }

    fn peek_word(&mut self) -> &'t str {
        let at = self.at;
        let word = self.word().unwrap_or_default();
        self.at = at;
        word
    }

    fn keyword(&mut self, keyword: &str) -> bool {
        let is_there = self.peek_word() == keyword;
        if is_there {
            self.word();
        }
        is_there
    }

    fn condition(&mut self, depth: usize) -> Result<Condition, ParserProblem> {
        if depth > MAX_DEPTH {
            return Err(self.problem("too many nested parentheses"));
        }
        let mut any = vec![self.all(depth)?];
        while self.keyword("or") {
            any.push(self.all(depth)?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Condition::Or(any) })
    }

    fn all(&mut self, depth: usize) -> Result<Condition, ParserProblem> {
        let mut all = vec![self.one(depth)?];
        while self.keyword("and") {
            all.push(self.one(depth)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::And(all) })
    }

    fn one(&mut self, depth: usize) -> Result<Condition, ParserProblem> {
        if depth > MAX_DEPTH {
            return Err(self.problem("too many nested `not`"));
        }
        if self.keyword("not") {
            return Ok(Condition::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.take("(") {
            let inner = self.condition(depth + 1)?;
            return if self.take(")") { Ok(inner) } else { Err(self.problem("`)` is expected")) };
        }
        let field = self.word().ok_or_else(|| self.problem("a field is expected"))?.to_owned();
        Ok(Condition::Test { field, test: self.test()? })
    }

    fn test(&mut self) -> Result<FieldTest, ParserProblem> {
        for (mark, is_less, is_equal_too) in
            [("<=", true, true), (">=", false, true), ("<", true, false), (">", false, false)]
        {
            if self.take(mark) {
                let bound = self.value()?.number;
                let bound = bound.ok_or_else(|| self.problem("a number is expected"))?;
                return Ok(FieldTest::Ordered { is_less, is_equal_too, bound });
            }
        }
        if self.take("!=") {
            return self.value().map(FieldTest::Unequal);
        }
        if self.take("==") || self.take("=") {
            return self.value().map(FieldTest::Equal);
        }
        match self.word().unwrap_or_default() {
            "exists" => Ok(FieldTest::Exists),
            "in" => self.list().map(FieldTest::In),
            "contains" => Ok(FieldTest::Contains(self.value()?.text)),
            "starts_with" => Ok(FieldTest::StartsWith(self.value()?.text)),
            "ends_with" => Ok(FieldTest::EndsWith(self.value()?.text)),
            "matches" => self.regex(),
            "in_network" => {
                let text = self.value()?.text;
                IpNetwork::parse(&text)
                    .map(FieldTest::InNetwork)
                    .ok_or_else(|| self.problem(&format!("`{text}` is not a network such as 10.0.0.0/8")))
            }
            _ => Err(self.problem(
                "a test is expected: =, !=, <, <=, >, >=, exists, in, contains, starts_with, ends_with, matches, in_network",
            )),
        }
    }

    fn regex(&mut self) -> Result<FieldTest, ParserProblem> {
        let text = self.value()?.text;
        let built = regex::RegexBuilder::new(&text).size_limit(REGEX_BYTES).build();
        built
            .map(|regex| FieldTest::Matches(Box::new(regex)))
            .map_err(|error| self.problem(&format!("the expression `{text}`: {error}")))
    }

    fn list(&mut self) -> Result<Vec<Constant>, ParserProblem> {
        if !self.take("[") {
            return Err(self.problem("a list such as [\"GET\", \"HEAD\"] is expected"));
        }
        let mut values = vec![self.value()?];
        while self.take(",") {
            values.push(self.value()?);
        }
        if self.take("]") { Ok(values) } else { Err(self.problem("`]` is expected")) }
    }

    /// `"text"`, `'text'`, a number, true or false.
    fn value(&mut self) -> Result<Constant, ParserProblem> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''));
        let Some(quote) = quote else {
            let end = rest.find(|c: char| c.is_whitespace() || matches!(c, ')' | ']' | ','));
            let word = &rest[..end.unwrap_or(rest.len())];
            if number::float(word).is_none() && !matches!(word, "true" | "false") {
                return Err(self.problem("a text in quotes or a number is expected"));
            }
            self.at += word.len();
            return Ok(Constant::new(word.to_owned()));
        };
        let mut text = String::new();
        let mut characters = rest[1..].char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' if rest[1 + at + 1..].starts_with([quote, '\\']) => {
                    text.extend(characters.next().map(|(_, kept)| kept));
                }
                _ if character == quote => {
                    self.at += at + 2;
                    return Ok(Constant::new(text));
                }
                _ => text.push(character),
            }
        }
        Err(self.problem("the text has no closing quote"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Condition::parse(text).unwrap_err().message
    }

    #[test]
    fn fields_and_operators_are_read() {
        let condition = Condition::parse(
            r#"http_response_status_code >= 500 and (url_path starts_with "/a\"pi" or not attrs-x exists) or `odd name` in ["a", 2]"#,
        );
        let fields = ["http_response_status_code", "url_path", "attrs-x", "odd name"];
        assert_eq!(condition.unwrap().fields(), fields);
    }

    #[test]
    fn wrong_conditions_say_where() {
        assert!(problem("status >").contains("wrong at the end"));
        assert!(problem("status > high").contains("wrong at `high`"));
        assert!(problem("a = \"b").contains("no closing quote"));
        assert!(problem("a = 1 b = 2").contains("wrong at `b = 2`"));
        assert!(problem("a in_network \"10.0.0.0/40\"").contains("is not a network"));
        assert!(problem("a matches \"(\"").contains("unclosed group"));
        assert!(problem(&"(".repeat(100)).contains("parentheses"));
        assert!(problem(&"not ".repeat(100)).contains("`not`"));
    }

    #[test]
    fn networks_hold_their_addresses() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("::/0", "::1", true),
            ("1.2.3.4", "::ffff:1.2.3.4", true),
            ("1.2.3.4", "1.2.3.5", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "1.2.3.4", false),
        ] {
            let is_held = IpNetwork::parse(network).unwrap().contains(address.parse().unwrap());
            assert_eq!(is_held, expected, "{address} in {network}");
        }
    }
}
