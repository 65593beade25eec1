//! `search('timeout "connection reset" host:web1 -debug')`: a search expression as a condition on a
//! row.
//!
//! The function never runs: before planning, it is rewritten to conditions on columns of the
//! queried tables, which the text index then handles as if they had been written out.

use std::sync::Arc;

use arrow_array::BooleanArray;
use arrow_schema::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, TableReference, plan_err};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarUDF, Volatility, create_udf, lit};
use datafusion::logical_expr::{Operator, binary_expr};
use datafusion::scalar::ScalarValue;
use weir_tables::{TABLES, TableSpec};

use super::phrase::{Phrase, has_phrase};

/// The SQL function.
pub(super) fn search() -> ScalarUDF {
    let (types, answer) = (vec![DataType::Utf8], DataType::Boolean);
    create_udf(
        "search",
        types,
        answer,
        Volatility::Immutable,
        Arc::new(|_: &[ColumnarValue]| {
            debug_assert!(false, "it is rewritten before anything runs");
            Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(vec![false]))))
        }),
    )
}

/// Rewrites `search(…)` to conditions on columns.
#[derive(Debug)]
pub struct SearchRewrite;

impl FunctionRewrite for SearchRewrite {
    fn name(&self) -> &'static str {
        "search"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(call) = &expr else { return Ok(Transformed::no(expr)) };
        if call.name() != "search" {
            return Ok(Transformed::no(expr));
        }
        let [Expr::Literal(ScalarValue::Utf8(Some(text)), _)] = call.args.as_slice() else {
            return plan_err!("search takes one constant text: search('timeout -debug')");
        };
        let terms = terms(text)?;
        let conditions = terms.iter().map(|term| term.condition(schema));
        let all = conditions.collect::<Result<Vec<_>>>()?.into_iter().reduce(Expr::and);
        match all {
            Some(all) => Ok(Transformed::yes(all)),
            None => plan_err!("search: there is no word in `{text}`"),
        }
    }
}

/// One term that a row must, or must not, match.
#[derive(Debug, PartialEq, Eq)]
struct SearchTerm {
    is_wanted: bool,
    field: Option<String>,
    text: String,
}

/// Parses words, "phrases", field:value, and a `-` that negates a term.
fn terms(text: &str) -> Result<Vec<SearchTerm>> {
    let mut terms = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (is_wanted, after) =
            rest.strip_prefix('-').map_or((true, rest), |after| (false, after));
        let end = after.find(|c: char| c == ':' || c == '"' || c.is_whitespace());
        let field = end.filter(|end| after[*end..].starts_with(':') && *end > 0);
        let (field, after) = match field {
            Some(end) => (Some(after[..end].to_owned()), &after[end + 1..]),
            None => (None, after),
        };
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some(parts) => parts,
                None => return plan_err!("search: the quote in `{text}` has no end"),
            },
            None => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
        };
        terms.push(SearchTerm { is_wanted, field, text: value.to_owned() });
        rest = after.trim_start();
    }
    Ok(terms)
}

impl SearchTerm {
    fn condition(&self, schema: &DFSchema) -> Result<Expr> {
        let condition = match &self.field {
            Some(field) => self.field_condition(field, schema)?,
            None => self.text_condition(schema)?,
        };
        // NULL does not match, so it matches the negation.
        let condition = Box::new(condition);
        Ok(if self.is_wanted { Expr::IsTrue(condition) } else { Expr::IsNotTrue(condition) })
    }

    fn text_condition(&self, schema: &DFSchema) -> Result<Expr> {
        self.check_phrase()?;
        let places = searched(schema);
        let conditions = places.into_iter().map(|(column, is_id)| self.in_text(column, is_id));
        match conditions.reduce(Expr::or) {
            Some(any) => Ok(any),
            None => plan_err!("search: nothing here has a text to search; use it in `where`"),
        }
    }

    fn in_text(&self, column: Column, is_id: bool) -> Expr {
        if is_id {
            Expr::Column(column).eq(lit(self.text.as_str()))
        } else {
            has_phrase().call(vec![Expr::Column(column), lit(self.text.as_str())])
        }
    }

    fn field_condition(&self, name: &str, schema: &DFSchema) -> Result<Expr> {
        let Some((table, field)) = schema.iter().find(|(_, field)| field.name() == name) else {
            return plan_err!(
                "search: there is no column `{name}`; put a text with `:` in quotes: \"{name}:{}\"",
                self.text
            );
        };
        let column = Column::new(table.cloned(), name);
        let (operator, value) = self.comparison();
        let wrong = |what: &str| plan_err!("search: `{value}` is not {what}, as `{name}` is");
        let value = match field.data_type() {
            DataType::Utf8 if operator == Operator::Eq => {
                self.check_phrase()?;
                let spec = spec_of(schema, table);
                return Ok(self.in_text(column, spec.is_some_and(|spec| spec.ids.contains(&name))));
            }
            DataType::Int64 => match value.parse::<i64>() {
                Ok(number) => lit(number),
                Err(_) => return wrong("a whole number"),
            },
            DataType::Float64 => match value.parse::<f64>() {
                Ok(number) => lit(number),
                Err(_) => return wrong("a number"),
            },
            DataType::Boolean => match value.parse::<bool>() {
                Ok(flag) => lit(flag),
                Err(_) => return wrong("`true` or `false`"),
            },
            _ => {
                return plan_err!(
                    "search: `{name}` cannot be searched like this; write `and {name} …` after it"
                );
            }
        };
        Ok(binary_expr(Expr::Column(column), operator, value))
    }

    /// Splits `>=500` into an operator and a value; the default is `=`.
    fn comparison(&self) -> (Operator, &str) {
        let signs = [
            (">=", Operator::GtEq),
            ("<=", Operator::LtEq),
            (">", Operator::Gt),
            ("<", Operator::Lt),
        ];
        let found = signs.into_iter().find_map(|(sign, operator)| {
            self.text.strip_prefix(sign).map(|value| (operator, value))
        });
        found.unwrap_or((Operator::Eq, &self.text))
    }

    fn check_phrase(&self) -> Result<()> {
        match Phrase::new(&self.text) {
            Some(_) => Ok(()),
            None => plan_err!("search: `{}` has no word", self.text),
        }
    }
}

/// Columns that a free term is searched in, and whether they are ids: the columns that a table
/// declares, or all its text columns if it declares none.
fn searched(schema: &DFSchema) -> Vec<(Column, bool)> {
    let texts = schema.iter().filter(|(_, field)| *field.data_type() == DataType::Utf8);
    texts
        .filter_map(|(table, field)| {
            let name = field.name().as_str();
            let spec = spec_of(schema, table);
            let says_none = spec.is_none_or(|spec| spec.ids.is_empty() && spec.words.is_empty());
            let is_id = spec.is_some_and(|spec| spec.ids.contains(&name));
            let is_searched =
                says_none || is_id || spec.is_some_and(|spec| spec.words.contains(&name));
            is_searched.then(|| (Column::new(table.cloned(), name), is_id))
        })
        .collect()
}

/// The table behind a name in a query, which may be an alias: identified by its columns.
fn spec_of(schema: &DFSchema, table: Option<&TableReference>) -> Option<&'static TableSpec> {
    let names = || schema.iter().filter(|(of, _)| *of == table).map(|(_, field)| field.name());
    TABLES.iter().find(|spec| names().eq(spec.columns.iter().map(|column| column.name))).copied()
}

#[cfg(test)]
mod tests {
    use super::{SearchTerm, terms};

    #[test]
    fn terms_are_words_phrases_fields_and_what_must_not_be() {
        let read =
            terms(r#" timeout "connection reset" host:web1 -debug -program:"my app" 12:30 "#);
        let expected = [
            term(true, None, "timeout"),
            term(true, None, "connection reset"),
            term(true, Some("host"), "web1"),
            term(false, None, "debug"),
            term(false, Some("program"), "my app"),
            term(true, Some("12"), "30"),
        ];
        assert_eq!(read.unwrap(), expected);
        assert!(terms("a \"b").is_err());
        assert!(terms("  ").unwrap().is_empty());
    }

    fn term(is_wanted: bool, field: Option<&str>, text: &str) -> SearchTerm {
        SearchTerm { is_wanted, field: field.map(str::to_owned), text: text.to_owned() }
    }
}
