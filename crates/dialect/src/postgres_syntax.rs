//! The syntax that statements and conditions are parsed by: PostgreSQL's, with its strengths of
//! operators, and a few words of the engine (`* exclude (…)`).
//!
//! Source: PostgreSQL's manual, 4.1.6 (precedence) and 9.2 (comparison). The parser's own dialect of
//! PostgreSQL takes all that follows for the right side of `is distinct from`
//! (apache/datafusion-sqlparser-rs#2436, apache/datafusion#23692), lets `~` bind as weakly as `=`, reads
//! `a<-1` as an operator `<-`, and knows neither `isnull` nor `between symmetric`.

use std::any::TypeId;

use sqlparser::ast::{Expr, TrimWhereField, UnaryOperator};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::fragments::{call, nested};

/// Function that stands for `between symmetric` until it is written out as two comparisons, with the
/// name that PostgreSQL gives the column of a comparison.
pub(crate) const BETWEEN_SYMMETRIC: &str = "?column?";

/// PostgreSQL's syntax, as weir reads it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PostgresSyntax;

const BASE: PostgreSqlDialect = PostgreSqlDialect {};

/// Answers of the parser's own dialect.
macro_rules! as_the_base {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            BASE.$name()
        })*
    };
}

impl Dialect for PostgresSyntax {
    /// The parser has branches for PostgreSQL.
    fn dialect(&self) -> TypeId {
        BASE.dialect()
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        BASE.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        BASE.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        BASE.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        BASE.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        BASE.is_reserved_for_identifier(keyword)
    }

    /// A sign behind an operator belongs to the number: `a<-1`.
    fn is_custom_operator_part(&self, ch: char) -> bool {
        !matches!(ch, '+' | '-') && BASE.is_custom_operator_part(ch)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        BASE.prec_value(precedence)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk => Some(Ok(self.prec_value(Precedence::PgOther))),
            token if is_word(token, "isnull") => Some(Ok(self.prec_value(Precedence::Is))),
            _ => BASE.get_next_precedence(parser),
        }
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let at = |nth: usize| &parser.peek_nth_token_ref(nth).token;
        if !is_word(at(0), "trim") || *at(1) != Token::LParen {
            return BASE.parse_prefix(parser);
        }
        let (side, count) = match (at(2), is_word(at(3), "from")) {
            (token, true) if is_word(token, "leading") => (TrimWhereField::Leading, 4),
            (token, true) if is_word(token, "trailing") => (TrimWhereField::Trailing, 4),
            (token, true) if is_word(token, "both") => (TrimWhereField::Both, 4),
            (token, _) if is_word(token, "from") => (TrimWhereField::Both, 3),
            _ => return BASE.parse_prefix(parser),
        };
        (0..count).for_each(|_| parser.advance_token());
        Some(trimmed(parser, side))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let at = |nth: usize, word: &str| is_word(&parser.peek_nth_token_ref(nth).token, word);
        if at(0, "isnull") {
            parser.advance_token();
            return Some(Ok(Expr::IsNull(Box::new(left.clone()))));
        }
        let negated = usize::from(at(0, "not"));
        if at(negated, "between") && (at(negated + 1, "symmetric") || at(negated + 1, "asymmetric"))
        {
            return Some(between(parser, left, negated == 1));
        }
        let negated = usize::from(at(1, "not"));
        if at(0, "is") && at(1 + negated, "distinct") && at(2 + negated, "from") {
            (0..3 + negated).for_each(|_| parser.advance_token());
            let right = parser.parse_subexpr(self.prec_value(Precedence::Is));
            return Some(right.map(|right| {
                let (left, right) = (Box::new(left.clone()), Box::new(right));
                match negated {
                    0 => Expr::IsDistinctFrom(left, right),
                    _ => Expr::IsNotDistinctFrom(left, right),
                }
            }));
        }
        BASE.parse_infix(parser, left, precedence)
    }

    fn supports_select_wildcard_exclude(&self) -> bool {
        true
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_select_wildcard_replace(&self) -> bool {
        true
    }

    as_the_base!(
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_alter_column_type_using,
        supports_array_typedef_with_brackets,
        supports_bitwise_shift_operators,
        supports_comma_separated_trim,
        supports_comment_on,
        supports_comment_optimizer_hint,
        supports_create_index_with_clause,
        supports_create_table_like_parenthesized,
        supports_empty_projections,
        supports_explain_with_utility_options,
        supports_factorial_operator,
        supports_filter_during_aggregation,
        supports_geometric_types,
        supports_group_by_expr,
        supports_insert_table_alias,
        supports_interval_options,
        supports_listen_notify,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_named_fn_args_with_expr_name,
        supports_nested_comments,
        supports_notnull_operator,
        supports_numeric_literal_underscores,
        supports_select_wildcard_with_alias,
        supports_set_names,
        supports_string_escape_constant,
        supports_unicode_string_literal,
        supports_xml_expressions,
    );
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Reads the rest of `trim(leading from text, characters)`.
fn trimmed(parser: &mut Parser<'_>, side: TrimWhereField) -> Result<Expr, ParserError> {
    let expr = Box::new(parser.parse_expr()?);
    let what = parser.consume_token(&Token::Comma).then(|| parser.parse_expr()).transpose()?;
    parser.expect_token(&Token::RParen)?;
    let trim_what = what.map(Box::new);
    Ok(Expr::Trim { trim_where: Some(side), trim_what, expr, trim_characters: None })
}

/// Reads `[not] between [a]symmetric low and high` behind its left side.
fn between(parser: &mut Parser<'_>, left: &Expr, negated: bool) -> Result<Expr, ParserError> {
    (0..usize::from(negated) + 1).for_each(|_| parser.advance_token());
    let is_symmetric = is_word(&parser.peek_token_ref().token, "symmetric");
    parser.advance_token();
    if !is_symmetric {
        return parser.parse_between(left.clone(), negated);
    }
    let strength = BASE.prec_value(Precedence::Between);
    let low = parser.parse_subexpr(strength)?;
    parser.expect_keyword_is(Keyword::AND)?;
    let high = parser.parse_subexpr(strength)?;
    let inside = call(BETWEEN_SYMMETRIC, vec![left.clone(), low, high]);
    Ok(if negated {
        let op = UnaryOperator::Not;
        nested(Expr::UnaryOp { op, expr: Box::new(inside) })
    } else {
        inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(sql: &str) -> Expr {
        let parser = Parser::new(&PostgresSyntax).try_with_sql(sql);
        let expr = parser.and_then(|mut parser| parser.parse_expr());
        expr.expect("SQL of a test")
    }

    /// The condition with brackets around each group of operators.
    fn with_brackets(expr: &Expr) -> String {
        let two = |left: &Expr, word: &str, right: &Expr| {
            format!("({} {word} {})", with_brackets(left), with_brackets(right))
        };
        match expr {
            Expr::BinaryOp { left, op, right } => two(left, &op.to_string(), right),
            Expr::IsDistinctFrom(left, right) => two(left, "<>", right),
            Expr::IsNotDistinctFrom(left, right) => two(left, "=", right),
            Expr::UnaryOp { op, expr } => format!("({op} {})", with_brackets(expr)),
            Expr::IsNull(inner) => format!("({} ISNULL)", with_brackets(inner)),
            Expr::IsNotNull(inner) => format!("({} NOTNULL)", with_brackets(inner)),
            Expr::Nested(inner) => with_brackets(inner),
            other => other.to_string(),
        }
    }

    #[test]
    fn operators_bind_as_in_postgresql() {
        for (sql, grouped) in [
            ("a is distinct from b and c", "((a <> b) AND c)"),
            ("a is not distinct from b or c and d", "((a = b) OR (c AND d))"),
            ("p and a is distinct from b or c", "((p AND (a <> b)) OR c)"),
            ("not a is distinct from b and c", "((NOT (a <> b)) AND c)"),
            ("p or not a is distinct from b and not c", "(p OR ((NOT (a <> b)) AND (NOT c)))"),
            (
                "a is distinct from b and c is not distinct from d or e",
                "(((a <> b) AND (c = d)) OR e)",
            ),
            ("a is distinct from b + 1 and c", "((a <> (b + 1)) AND c)"),
            ("a is distinct from (b and c)", "(a <> (b AND c))"),
            ("a is distinct from b = c", "(a <> (b = c))"),
            ("f(a is distinct from b and c)", "f(a IS DISTINCT FROM b AND c)"),
            ("true = a ~ 'x'", "(true = (a ~ 'x'))"),
            ("a !~* 'x' = b and c", "(((a !~* 'x') = b) AND c)"),
            ("a || 'x' ~ b", "((a || 'x') ~ b)"),
            ("a -> 'k' = 'v'", "((a -> 'k') = 'v')"),
            ("1 + 2 || 'a'", "((1 + 2) || 'a')"),
            ("a & 1 = 1", "((a & 1) = 1)"),
            ("a<-1 or a>-1 and a<+2", "((a < (- 1)) OR ((a > (- 1)) AND (a < (+ 2))))"),
            ("a + 1 isnull and b notnull", "(((a + 1) ISNULL) AND (b NOTNULL))"),
            ("not a isnull", "(NOT (a ISNULL))"),
            ("a between symmetric 3 and b + 1 and c", "(?column?(a, 3, b + 1) AND c)"),
            ("a not between symmetric 3 and 1", "(NOT ?column?(a, 3, 1))"),
            ("a between asymmetric 1 and 3", "a BETWEEN 1 AND 3"),
            ("trim(leading from a)", "TRIM(LEADING a)"),
            ("trim(from a)", "TRIM(BOTH a)"),
            ("trim(both from a, 'x')", "TRIM(BOTH 'x' FROM a)"),
            ("trim(both 'x' from a)", "TRIM(BOTH 'x' FROM a)"),
        ] {
            assert_eq!(with_brackets(&parsed(sql)), grouped, "{sql}");
        }
    }

    #[test]
    fn names_that_are_no_operators_stay() {
        for sql in ["\"isnull\"", "f(\"between\")", "isnull_count", "a.isnull"] {
            assert_eq!(parsed(sql).to_string(), sql);
        }
    }
}
