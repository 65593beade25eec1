//! Types and operators of JSON, and `uuid`, as calls of functions.
//!
//! A cast to `jsonb` is `jsonb_in(…)`, `->` is `json_get(…)`: the functions give their results the
//! type, by which comparisons and clients tell them from texts.

use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, Ident, SelectItem, SetExpr, TableAlias, TableFactor,
    Values,
};

use crate::copy_budget::CopyBudget;
use crate::fragments::{arguments, call, column_definition};
use crate::refusal::Result;
use crate::table_syntax::parse_query;

/// Function that reads a text as a value of this type.
fn reader(kind: &DataType) -> Option<&'static str> {
    match kind {
        DataType::JSON => Some("json_in"),
        DataType::JSONB => Some("jsonb_in"),
        DataType::Uuid => Some("uuid_in"),
        _ => None,
    }
}

/// A cast or a typed constant of such a type.
pub(crate) fn rewrite_cast(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Cast { expr: value, data_type, .. } => {
            reader(data_type).map(|name| call(name, vec![(**value).clone()]))
        }
        Expr::TypedString(constant) => {
            let value = Expr::Value(constant.value.clone());
            reader(&constant.data_type).map(|name| call(name, vec![value]))
        }
        _ => None,
    }
}

/// An operator of JSON, or of arrays and JSON.
pub(crate) fn rewrite_operator(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    let (name, is_swapped) = match op {
        BinaryOperator::Arrow => ("json_get", false),
        BinaryOperator::LongArrow => ("json_get_text", false),
        BinaryOperator::HashArrow => ("json_path", false),
        BinaryOperator::HashLongArrow => ("json_path_text", false),
        BinaryOperator::Question => ("json_has", false),
        BinaryOperator::QuestionPipe => ("json_has_any", false),
        BinaryOperator::QuestionAnd => ("json_has_all", false),
        BinaryOperator::AtArrow => ("contains_all", false),
        BinaryOperator::ArrowAt => ("contains_all", true),
        BinaryOperator::PGOverlap => ("shares_any", false),
        _ => return None,
    };
    let sides = [left.clone(), right.clone()];
    let [first, second] = sides;
    Some(call(name, if is_swapped { vec![second, first] } else { vec![first, second] }))
}

/// Functions by the ends of their names, with the function here.
const FUNCTIONS: [(&str, &str); 5] = [
    ("_typeof", "json_kind"),
    ("_array_length", "json_length"),
    ("_extract_path_text", "json_path_text"),
    ("_extract_path", "json_path"),
    ("_array_elements_text", "json_item_texts"),
];

/// Name of a function of JSON behind `json` or `jsonb`, and the function that reads its argument.
fn parts_of_name(name: &str) -> Option<(&str, &'static str)> {
    let binary = name.strip_prefix("jsonb").map(|end| (end, "jsonb_in"));
    binary.or_else(|| name.strip_prefix("json").map(|end| (end, "json_in")))
}

fn read(value: &Expr, reader: &str) -> Expr {
    call(reader, vec![value.clone()])
}

/// A row for each item of an array.
fn rows(array: &str, value: &Expr) -> Expr {
    call("unnest", vec![call(array, vec![value.clone()])])
}

/// A function of JSON that gives one value, or an array of which each item is a row.
pub(crate) fn rewrite_function(name: &str, function: &Function) -> Option<Expr> {
    if name == "gen_random_uuid" {
        return Some(call("uuid_in", vec![call("uuid", Vec::new())]));
    }
    let (end, reader) = parts_of_name(name)?;
    let args = arguments(function);
    let (first, rest) = args.split_first()?;
    let value = read(first, reader);
    Some(match (end, rest) {
        ("_array_elements", []) => read(&rows("json_items", &value), reader),
        ("_array_elements_text", []) => rows("json_item_texts", &value),
        ("_object_keys", []) => rows("json_keys", &value),
        ("_extract_path" | "_extract_path_text", steps) if !steps.is_empty() => {
            let (_, own) = FUNCTIONS.iter().find(|(known, _)| *known == end)?;
            call(own, vec![value, call("make_array", steps.to_vec())])
        }
        ("_typeof" | "_array_length", []) => {
            let (_, own) = FUNCTIONS.iter().find(|(known, _)| *known == end)?;
            call(own, vec![value])
        }
        _ => return None,
    })
}

/// A function of JSON in `from`: its rows, and the names that their columns have.
///
/// # Errors
/// Copies of the argument, within arguments of others, are too long.
pub(crate) fn rewrite_source(table: &mut TableFactor, budget: &CopyBudget) -> Result<()> {
    let (name, args, alias) = match table {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality: false, .. } => {
            (name, crate::fragments::plain_arguments(&args.args), alias)
        }
        TableFactor::Function { name, args, alias, .. } => {
            (name, crate::fragments::plain_arguments(args), alias)
        }
        _ => return Ok(()),
    };
    let name = name.to_string().to_lowercase();
    let Some((end, reader)) = parts_of_name(&name) else { return Ok(()) };
    let [value] = args.as_slice() else { return Ok(()) };
    budget.copy(value, usize::from(end.starts_with("_each")))?;
    let value = read(value, reader);
    let columns = match end {
        "_array_elements" => vec![("value", read(&rows("json_items", &value), reader))],
        "_array_elements_text" => vec![("value", rows("json_item_texts", &value))],
        "_object_keys" => vec![("", rows("json_keys", &value))],
        "_each" => vec![
            ("key", rows("json_keys", &value)),
            ("value", read(&rows("json_values", &value), reader)),
        ],
        "_each_text" => {
            vec![("key", rows("json_keys", &value)), ("value", rows("json_value_texts", &value))]
        }
        _ => return Ok(()),
    };
    let mut alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(name),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        // Keys alone have the name of the rows.
        let own = alias.name.value.clone();
        let names = columns
            .iter()
            .map(|(name, _)| if name.is_empty() { own.clone() } else { (*name).to_owned() });
        alias.columns = names.map(column_definition).collect();
    }
    let mut subquery = parse_query("select 1")?;
    if let SetExpr::Select(select) = &mut *subquery.body {
        let items = columns.into_iter().enumerate().map(|(at, (_, expr))| {
            SelectItem::ExprWithAlias { expr, alias: Ident::new(format!("column_{at}")) }
        });
        select.projection = items.collect();
    }
    *table = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    Ok(())
}

/// Gives all rows of a list of values the type of the first one with such a type.
pub(crate) fn rewrite_values(body: &mut SetExpr) {
    let SetExpr::Values(Values { rows, .. }) = body else { return };
    let width = rows.first().map_or(0, |row| row.content.len());
    for at in 0..width {
        let kind = rows.iter().find_map(|row| match row.content.get(at) {
            Some(Expr::Cast { data_type, .. }) => reader(data_type).map(|_| data_type.clone()),
            _ => None,
        });
        let Some(kind) = kind else { continue };
        for value in rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
            if matches!(value, Expr::Value(_)) {
                *value = Expr::Cast {
                    kind: sqlparser::ast::CastKind::DoubleColon,
                    expr: Box::new(value.clone()),
                    data_type: kind.clone(),
                    array: false,
                    format: None,
                };
            }
        }
    }
}
