//! Arrays written as text: `= any('{a,b}')` becomes `IN ('a', 'b')`, and `'{1,2}'::int[]` an array.
//! PostgreSQL reads such text by the type that it is compared with or cast to.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Statement, Value, VisitMut,
    VisitorMut,
};

use super::fragments::expression;
use super::type_names::internal_name;

/// Rewrites the arrays of a statement.
pub(super) fn rewrite(statement: &mut Statement) {
    let _ = statement.visit(&mut ArrayLiterals);
}

struct ArrayLiterals;

impl VisitorMut for ArrayLiterals {
    type Break = ();

    /// Before its operands: a cast there is a part of the comparison.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let new = match expr {
            Expr::AnyOp { left, compare_op, right, .. } => {
                list_of(right).map(|list| any_of(left, compare_op, list))
            }
            Expr::AllOp { left, compare_op, right } => {
                list_of(right).map(|list| all_of(left, compare_op, list))
            }
            Expr::Cast { expr: inner, data_type, .. } => array_of(inner, data_type),
            _ => None,
        };
        if let Some(new) = new {
            *expr = new;
        }
        ControlFlow::Continue(())
    }
}

/// Items of an array that is written as text.
fn list_of(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => list_of(inner),
        Expr::Value(value) => {
            let items = items_of(value.value.clone().into_string()?.as_str())?;
            Some(items.into_iter().map(constant).collect())
        }
        Expr::Cast { expr: inner, data_type, .. } => {
            let DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) = data_type else {
                return None;
            };
            let items = list_of(inner)?.into_iter();
            Some(items.map(|value| cast(value, item)).collect())
        }
        _ => None,
    }
}

fn constant(item: Option<String>) -> Expr {
    match item {
        Some(text) => Expr::Value(Value::SingleQuotedString(text).into()),
        None => Expr::Value(Value::Null.into()),
    }
}

/// Casts an item, unless it is to be a text anyway.
fn cast(value: Expr, item: &DataType) -> Expr {
    let texts = ["text", "varchar", "bpchar", "name", "char"];
    if texts.contains(&internal_name(item).as_str()) {
        return value;
    }
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(value),
        data_type: item.clone(),
        array: false,
        format: None,
    }
}

fn any_of(left: &Expr, op: &BinaryOperator, list: Vec<Expr>) -> Expr {
    if list.is_empty() {
        return Expr::Value(Value::Boolean(false).into());
    }
    if *op == BinaryOperator::Eq {
        return Expr::InList { expr: Box::new(left.clone()), list, negated: false };
    }
    joined(left, op, list, BinaryOperator::Or)
}

fn all_of(left: &Expr, op: &BinaryOperator, list: Vec<Expr>) -> Expr {
    if list.is_empty() {
        return Expr::Value(Value::Boolean(true).into());
    }
    if *op == BinaryOperator::NotEq {
        return Expr::InList { expr: Box::new(left.clone()), list, negated: true };
    }
    joined(left, op, list, BinaryOperator::And)
}

/// Compares with each item. The tree is balanced, since planning recurses into it.
fn joined(left: &Expr, op: &BinaryOperator, mut list: Vec<Expr>, join: BinaryOperator) -> Expr {
    if list.len() > 1 {
        let second = list.split_off(list.len() / 2);
        return Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(joined(left, op, list, join.clone())),
            op: join.clone(),
            right: Box::new(joined(left, op, second, join)),
        }));
    }
    let item = list.pop().unwrap_or_else(|| Expr::Value(Value::Null.into()));
    Expr::BinaryOp { left: Box::new(left.clone()), op: op.clone(), right: Box::new(item) }
}

/// `'{1,2}'::int[]` as an array of constants.
fn array_of(inner: &Expr, data_type: &DataType) -> Option<Expr> {
    let Expr::Value(value) = inner else { return None };
    let DataType::Array(ArrayElemTypeDef::SquareBracket(..)) = data_type else { return None };
    let items = items_of(value.value.clone().into_string()?.as_str())?;
    let items: Vec<String> = items.into_iter().map(|item| constant(item).to_string()).collect();
    expression(&format!("CAST(make_array({}) AS {data_type})", items.join(", ")))
}

/// Items of `{a,"b c",NULL}`; `None` if the text is no array of one dimension.
fn items_of(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let mut items = Vec::new();
    let mut item = ItemText::default();
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => item.push(letters.next()?),
            '"' => item.toggle(),
            ',' if !item.is_open => items.push(std::mem::take(&mut item).end()?),
            '{' | '}' if !item.is_open => return None,
            letter => item.text.push(letter),
        }
    }
    if !inner.is_empty() {
        items.push(item.end()?);
    }
    Some(items)
}

/// An item while it is read.
#[derive(Default)]
struct ItemText {
    text: String,
    /// Whether a quote is open.
    is_open: bool,
    was_quoted: bool,
}

impl ItemText {
    fn push(&mut self, letter: char) {
        self.was_quoted = true;
        self.text.push(letter);
    }

    fn toggle(&mut self) {
        if !self.was_quoted {
            self.text.clear();
        }
        self.was_quoted = true;
        self.is_open = !self.is_open;
    }

    /// The item; the inner `None` for NULL.
    fn end(self) -> Option<Option<String>> {
        if self.is_open {
            return None;
        }
        if self.was_quoted {
            return Some(Some(self.text));
        }
        let text = self.text.trim();
        match text {
            "" => None,
            text if text.eq_ignore_ascii_case("null") => Some(None),
            text => Some(Some(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::items_of;

    #[test]
    fn items_keep_quotes_escapes_and_nulls_apart() {
        let items = items_of(r#"{a, "b \"c\"",NULL,"NULL","",d e}"#).expect("an array");
        let items: Vec<_> = items.iter().map(Option::as_deref).collect();
        let expected = [Some("a"), Some("b \"c\""), None, Some("NULL"), Some(""), Some("d e")];
        assert_eq!(items, expected);
        assert_eq!(items_of("{}"), Some(Vec::new()));
        for wrong in ["a", "{a,}", "{{1},{2}}", "{\"a}", "{,}"] {
            assert_eq!(items_of(wrong), None, "{wrong}");
        }
    }
}
