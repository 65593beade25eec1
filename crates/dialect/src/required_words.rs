//! Words of which a text must contain one for a condition on a row to be true.
//!
//! Rules look for hundreds of words in every log line. One search for all words is much cheaper
//! than one `like` after the other, and most lines contain none.
//!
//! # Example
//! `severity = 'error' and (body like '%ECONNREFUSED%' or body like 'dial tcp %')` can be true only
//! for a body that contains `ECONNREFUSED` or `dial tcp `.

use sqlparser::ast::{BinaryOperator, Expr, Value};
use sqlparser::parser::Parser;

use crate::postgres_syntax::PostgresSyntax;
use crate::statement_size::check_condition;

/// Bytes of the shortest word: shorter ones are in most texts.
const SHORTEST: usize = 4;

/// Words of which the text in `column` must contain one for `condition` to be true; `None` if it
/// can be true for any text.
pub fn required_words(condition: &str, column: &str) -> Option<Vec<String>> {
    check_condition(condition).ok()?;
    let mut parser = Parser::new(&PostgresSyntax).try_with_sql(condition).ok()?;
    words(&parser.parse_expr().ok()?, column)
}

fn words(expr: &Expr, column: &str) -> Option<Vec<String>> {
    match expr {
        Expr::Nested(inner) => words(inner, column),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            match (words(left, column), words(right, column)) {
                (Some(left), Some(right)) if right.len() < left.len() => Some(right),
                (left, right) => left.or(right),
            }
        }
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
            let (mut all, more) = (words(left, column)?, words(right, column)?);
            all.extend(more);
            Some(all)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } if is_column(left, column) => {
            Some(vec![long_enough(text(right)?)?])
        }
        Expr::Like { negated: false, any: false, expr, pattern, escape_char: None }
            if is_column(expr, column) =>
        {
            Some(vec![longest_part(text(pattern)?)?])
        }
        Expr::InList { expr, list, negated: false } if is_column(expr, column) => {
            list.iter().map(|item| long_enough(text(item)?)).collect()
        }
        _ => None,
    }
}

fn is_column(expr: &Expr, column: &str) -> bool {
    matches!(expr, Expr::Identifier(name) if name.value == column)
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// The longest part of a pattern without wildcards; `None` for one with escaped characters.
fn longest_part(pattern: &str) -> Option<String> {
    if pattern.contains('\\') {
        return None;
    }
    long_enough(pattern.split(['%', '_']).max_by_key(|part| part.len())?)
}

fn long_enough(word: &str) -> Option<String> {
    (word.len() >= SHORTEST).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::required_words;

    #[test]
    fn words_are_those_without_which_the_condition_is_false() {
        for (condition, expected) in [
            ("body like '%ECONNREFUSED%'", Some("ECONNREFUSED")),
            ("body LIKE 'a % longer_part%'", Some(" longer")),
            (
                "severity = 'error' and (body like '%refused%' or body = 'ended')",
                Some("refused|ended"),
            ),
            ("body in ('first', 'second') and program = 'nginx'", Some("first|second")),
            ("body like '%first%' and (body like '%this%' or body like '%that%')", Some("first")),
            ("body like '%100\\%%'", None),
            ("body like 'a\\_b%' escape '\\'", None),
            ("body not like '%refused%'", None),
            ("body ilike '%refused%'", None),
            ("body like '%refused%' or severity = 'error'", None),
            ("body like '%ab%'", None),
            ("message_template like '%refused%'", None),
            ("lower(body) like '%refused%'", None),
            ("not (body like '%refused%')", None),
            ("body like", None),
            ("true", None),
        ] {
            let words = required_words(condition, "body").map(|words| words.join("|"));
            assert_eq!(words.as_deref(), expected, "{condition}");
        }
    }
}
