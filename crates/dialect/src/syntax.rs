//! Rewrites syntax that the engine lacks or reads differently, one expression at a time.

use std::ops::ControlFlow;

use crate::copy_budget::CopyBudget;
use crate::fragments::{arguments, call, literal, nested, number, text};
use crate::known_wrong::refuse_syntax;
use crate::postgres_syntax::BETWEEN_SYMMETRIC;
use crate::refusal::{Result, SyntaxRefusal, refuse};
use crate::regex::{rust_regex, similar_regex};
use crate::whole_rows::{CatalogColumns, KnownRelations};
use sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, Query, Select, Statement, TableFactor, TimezoneInfo,
    UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
};

use crate::{
    array_query, array_syntax, bytes_syntax, cast_syntax, constant_syntax, function_depth,
    join_columns, json_building, json_syntax, lateral_columns, operator_syntax, select_items,
    set_operations, subquery_syntax, sum_quotients, table_syntax, time_syntax, type_names,
    window_names,
};

/// Rewrites a statement to one that means the same to the engine.
///
/// # Errors
/// The statement has a shape that the engine would answer wrongly.
pub fn rewrite_statement(
    statement: &mut Statement,
    catalog: CatalogColumns<'_>,
) -> std::result::Result<(), SyntaxRefusal> {
    refuse_syntax(statement)?;
    let mut rewriter = SyntaxRewriter::new(catalog);
    rewriter.has_numeric_sums = sum_quotients::divides_rows_of_tables(statement);
    match VisitMut::visit(statement, &mut rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Rewrites a condition on a row.
///
/// # Errors
/// The condition has a shape that the engine would answer wrongly.
pub fn rewrite_condition(condition: &mut Expr) -> std::result::Result<(), SyntaxRefusal> {
    match condition.visit(&mut SyntaxRewriter::new(&|_| None)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(refusal) => Err(refusal),
    }
}

struct SyntaxRewriter<'a> {
    relations: KnownRelations<'a>,
    budget: CopyBudget,
    /// Whether sums are taken as PostgreSQL's, which are `numeric`.
    has_numeric_sums: bool,
}

impl<'a> SyntaxRewriter<'a> {
    fn new(catalog: CatalogColumns<'a>) -> Self {
        Self {
            relations: KnownRelations::new(catalog),
            budget: CopyBudget::default(),
            has_numeric_sums: false,
        }
    }
}

impl VisitorMut for SyntaxRewriter<'_> {
    type Break = SyntaxRefusal;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SyntaxRefusal> {
        let done = table_syntax::fetch_to_limit(query)
            .and_then(|()| set_operations::count_duplicates(&mut query.body))
            .and_then(|()| lateral_columns::inline(query, &self.budget))
            .and_then(|()| join_columns::merge(query, &self.budget))
            .and_then(|()| select_items::check_order(query));
        select_items::order_by_place(query);
        let done = done.and_then(|()| select_items::order_grouped_rows(query));
        table_syntax::read_quoted_counts(query);
        let done = done.and_then(|()| self.relations.enter(query, &self.budget));
        json_syntax::rewrite_values(&mut query.body);
        flow(done.and_then(|()| select_items::order_by_item(query, &self.budget)))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SyntaxRefusal> {
        self.relations.leave(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SyntaxRefusal> {
        subquery_syntax::rewrite_projection(&mut select.projection);
        flow(
            select_items::check_items(select)
                .and_then(|()| window_names::expand(select, &self.budget)),
        )
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SyntaxRefusal> {
        select_items::unnest_series(select);
        select_items::rename_equal_items(select);
        if self.has_numeric_sums {
            sum_quotients::mark_named(select);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<SyntaxRefusal> {
        flow(table_syntax::rewrite(table, &self.budget))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SyntaxRefusal> {
        flow(subquery_syntax::rewrite(expr, &self.budget))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SyntaxRefusal> {
        if let Expr::BinaryOp { left, op: BinaryOperator::Divide, right } = expr
            && self.has_numeric_sums
        {
            sum_quotients::rename(left, right);
        }
        let was_function = matches!(expr, Expr::Function(_));
        let done = rewrite_expr(expr, &self.budget);
        let is_new = !was_function && matches!(expr, Expr::Function(_));
        flow(if is_new { done.and_then(|()| function_depth::check(expr)) } else { done })
    }
}

fn flow(done: Result<()>) -> ControlFlow<SyntaxRefusal> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

fn rewrite_expr(expr: &mut Expr, budget: &CopyBudget) -> Result<()> {
    match expr {
        Expr::SimilarTo { negated, expr: text, pattern, escape_char } => {
            let op = if *negated {
                BinaryOperator::PGRegexNotMatch
            } else {
                BinaryOperator::PGRegexMatch
            };
            let pattern = similar_pattern(pattern, escape_char.as_ref())?;
            *expr = nested(Expr::BinaryOp { left: text.clone(), op, right: Box::new(pattern) });
        }
        Expr::Like { .. } | Expr::ILike { .. } if array_syntax::rewrite_like(expr).is_some() => {
            array_syntax::rewrite_like(expr).into_iter().for_each(|new| *expr = new);
        }
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            if let Some(escape) = escape_char.take() {
                **pattern = like_pattern(pattern, &escape)?;
            }
        }
        Expr::AtTimeZone { timestamp, time_zone } => {
            *expr = call("timezone", vec![(**time_zone).clone(), (**timestamp).clone()]);
        }
        Expr::Substring {
            expr: value, substring_from: Some(from), substring_for: None, ..
        } if is_text(from) => {
            let pattern = literal(from).unwrap_or_default();
            *expr = matched(value, &regex(pattern)?);
        }
        Expr::BinaryOp { op, right, .. } if is_regex(op) => {
            if let Some(pattern) = literal(right) {
                **right = text(&regex(pattern)?);
            }
        }
        Expr::BinaryOp { left, op, right } => {
            let new = operator_syntax::rewrite_binary(left, op, right);
            new.into_iter().for_each(|new| *expr = new);
        }
        Expr::AnyOp { left, compare_op, right, .. } => {
            let new = array_syntax::rewrite_any(left, compare_op, right);
            new.into_iter().for_each(|new| *expr = new);
        }
        Expr::AllOp { left, compare_op, right } => {
            let new = array_syntax::rewrite_all(left, compare_op, right);
            new.into_iter().for_each(|new| *expr = new);
        }
        Expr::UnaryOp { op, expr: value } => {
            rewrite_unary(*op, value).into_iter().for_each(|new| *expr = new);
        }
        Expr::Cast { .. } | Expr::TypedString(_) | Expr::Interval(_) => cast_syntax::rewrite(expr)?,
        Expr::Ceil { expr: value, .. } if constant_syntax::is_negative(value) => {
            *expr = constant_syntax::without_negative_zero(expr.clone());
        }
        Expr::Value(value) if matches!(value.value, Value::HexStringLiteral(_)) => {
            return refuse!("bit strings and hexadecimal numbers are not supported: {value}");
        }
        Expr::Function(function) => {
            rewrite_function(function, budget)?.into_iter().for_each(|new| *expr = new)
        }
        _ => {}
    }
    Ok(())
}

/// An operator with one operand as the engine has it; `None` if it stays.
fn rewrite_unary(op: UnaryOperator, value: &Expr) -> Option<Expr> {
    Some(match op {
        UnaryOperator::Minus if matches!(value, Expr::Interval(_)) => {
            let (left, right) = (Box::new(value.clone()), Box::new(number(-1)));
            nested(Expr::BinaryOp { left, op: BinaryOperator::Multiply, right })
        }
        UnaryOperator::Minus if is_power(value) => {
            let mut power = value.clone();
            negate_base(&mut power);
            power
        }
        UnaryOperator::Minus if constant_syntax::is_zero(value) => value.clone(),
        UnaryOperator::BitwiseNot => {
            let (left, right) = (Box::new(number(-1)), Box::new(value.clone()));
            nested(Expr::BinaryOp { left, op: BinaryOperator::Minus, right })
        }
        UnaryOperator::PGAbs => call("abs", vec![value.clone()]),
        UnaryOperator::PGSquareRoot => call("sqrt", vec![value.clone()]),
        UnaryOperator::PGCubeRoot => call("cbrt", vec![value.clone()]),
        _ => return None,
    })
}

/// A constant that is cast to a float, which the engine takes for the constant.
fn is_float(expr: &Expr) -> bool {
    match expr {
        Expr::Cast { data_type, expr, .. } => {
            let is_constant = matches!(**expr, Expr::Value(_));
            let kind = data_type.to_string().to_uppercase();
            is_constant
                && ["FLOAT8", "DOUBLE", "DOUBLE PRECISION", "FLOAT"].contains(&kind.as_str())
        }
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_float(expr),
        _ => false,
    }
}

fn is_power(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op, .. } if op.to_string() == "^")
}

/// A sign binds closer than `^`: `-2 ^ 2` is 4.
fn negate_base(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op, .. } if op.to_string() == "^" => negate_base(left),
        base => {
            let value = Box::new(base.clone());
            *base = nested(Expr::UnaryOp { op: UnaryOperator::Minus, expr: value });
        }
    }
}

fn is_regex(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch
    )
}

/// A constant regular expression with PostgreSQL's meaning.
///
/// The optimizer turns literal text into `like`, where it forgets to escape backslashes: a pattern
/// with one is put into brackets, which it leaves alone.
fn regex(pattern: &str) -> Result<String> {
    match rust_regex(pattern) {
        Ok(regex) if has_backslash(&regex) => Ok(format!("({regex})")),
        Ok(regex) => Ok(regex),
        Err(why) => refuse!("cannot use the pattern `{pattern}`: {why}"),
    }
}

/// Whether a pattern may match a backslash literally.
fn has_backslash(regex: &str) -> bool {
    let lower = regex.to_ascii_lowercase();
    lower.contains("\\\\") || lower.contains("5c")
}

/// A constant replacement of `regexp_replace` for the engine, in which `$` begins a group.
fn replacement(constant: &str) -> Result<String> {
    let mut new = String::with_capacity(constant.len());
    let mut chars = constant.chars();
    while let Some(next) = chars.next() {
        match next {
            '$' => new.push_str("$$"),
            '\\' => match chars.next() {
                Some('&') => new.push_str("${0}"),
                Some(digit @ '1'..='9') => new.extend(["${", &digit.to_string(), "}"]),
                _ => {
                    return refuse!("a backslash in the replacement `{constant}` is not supported");
                }
            },
            other => new.push(other),
        }
    }
    Ok(new)
}

/// Functions whose second argument is a pattern.
const REGEX_FUNCTIONS: [&str; 5] =
    ["regexp_like", "regexp_match", "regexp_replace", "regexp_count", "regexp_instr"];

/// Gives a function's constant pattern and replacement PostgreSQL's meaning.
fn rewrite_patterns(name: &str, function: &mut Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    for (at, argument) in list.args.iter_mut().enumerate() {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { continue };
        let new = match (at, literal(expr)) {
            (1, Some(pattern)) => regex(pattern)?,
            (2, Some(constant)) if name == "regexp_replace" => replacement(constant)?,
            _ => continue,
        };
        *expr = text(&new);
    }
    Ok(())
}

/// Functions under another name here.
const NAMES: [(&str, &str); 7] = [
    ("every", "bool_and"),
    ("variance", "var_samp"),
    ("transaction_timestamp", "now"),
    ("statement_timestamp", "now"),
    ("clock_timestamp", "now"),
    ("ceiling", "ceil"),
    ("sign", "signum"),
];

/// Arguments of `make_interval` by name.
const INTERVAL_PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

fn rewrite_function(function: &mut Function, budget: &CopyBudget) -> Result<Option<Expr>> {
    let [part] = function.name.0.as_slice() else { return Ok(None) };
    let Some(name) = part.as_ident().map(|ident| ident.value.to_lowercase()) else {
        return Ok(None);
    };
    if let Some((_, here)) = NAMES.iter().find(|(other, _)| *other == name) {
        function.name = ObjectName::from(vec![Ident::new(*here)]);
    }
    let arguments_here = arguments(function);
    if ["ceil", "ceiling", "round", "trunc"].contains(&name.as_str())
        && arguments_here.first().is_some_and(constant_syntax::is_negative)
    {
        let call = Expr::Function(function.clone());
        return Ok(Some(constant_syntax::without_negative_zero(call)));
    }
    if let FunctionArguments::Subquery(query) = &function.args
        && name == "array"
    {
        return array_query::array_of_query(query, budget).map(Some);
    }
    if let Some(sorted) = array_syntax::distinct_in_order(function)? {
        return Ok(Some(sorted));
    }
    if REGEX_FUNCTIONS.contains(&name.as_str()) {
        rewrite_patterns(&name, function)?;
        return Ok(None);
    }
    let json = json_building::rewrite(&name, function);
    let json = json.or_else(|| json_syntax::rewrite_function(&name, function));
    if let Some(new) = json.or_else(|| bytes_syntax::rewrite_function(&name, &arguments_here)) {
        return Ok(Some(new));
    }
    if ["concat", "concat_ws", "format"].contains(&name.as_str()) {
        operator_syntax::rewrite_texts(function);
        return Ok(None);
    }
    Ok(match (name.as_str(), arguments(function).as_slice()) {
        ("row", _) => return refuse!("a row is no value here: select its columns"),
        ("pg_typeof", [value]) => type_names::type_of(value)?,
        ("date_trunc", args) => time_syntax::date_trunc(args),
        ("regexp_substr", [value, pattern]) => Some(first_match(value, pattern)?),
        (BETWEEN_SYMMETRIC, [value, low, high]) => {
            Some(between_symmetric(value, low, high, budget)?)
        }
        ("age", [time]) => Some(call("age", vec![call("current_date", Vec::new()), time.clone()])),
        ("localtimestamp", _) => Some(call("local_time", vec![call("now", Vec::new())])),
        ("localtime", _) => {
            let now = call("local_time", vec![call("now", Vec::new())]);
            Some(operator_syntax::cast(&now, DataType::Time(None, TimezoneInfo::None)))
        }
        ("round", [value]) if is_float(value) => Some(call("round_half_even", vec![value.clone()])),
        ("mod", [value, by]) => {
            let (left, right) = (Box::new(value.clone()), Box::new(by.clone()));
            Some(nested(Expr::BinaryOp { left, op: BinaryOperator::Modulo, right }))
        }
        ("to_char", [_, pattern]) if literal(pattern).is_some_and(|text| !text.contains('%')) => {
            let is_constant = constant_syntax::is_number(&arguments(function)[0]);
            let name = if is_constant { "constant_to_char" } else { "value_to_char" };
            Some(call(name, arguments(function)))
        }
        ("make_interval", _) => Some(interval_call(function)?),
        (name, args) => match (table_syntax::array_of_rows(name), count_type(name)) {
            (Some(array), _) => Some(call("unnest", vec![call(array, args.to_vec())])),
            (None, kind) => {
                kind.map(|kind| operator_syntax::cast(&Expr::Function(function.clone()), kind))
            }
        },
    })
}

/// Type of functions in which the engine counts by numbers without a sign, which clients would get as
/// `numeric`.
fn count_type(function: &str) -> Option<DataType> {
    match function {
        "array_ndims" | "array_position" | "cardinality" => Some(DataType::Int(None)),
        "array_positions" => {
            let item = Box::new(DataType::Int(None));
            Some(DataType::Array(ArrayElemTypeDef::SquareBracket(item, None)))
        }
        _ => None,
    }
}

/// Between two bounds in either order; the value and the bounds are copied, since `least` and
/// `greatest` leave out NULL.
fn between_symmetric(value: &Expr, low: &Expr, high: &Expr, budget: &CopyBudget) -> Result<Expr> {
    for copied in [value, low, high] {
        budget.copy(copied, 1)?;
    }
    let between = |low: &Expr, high: &Expr| {
        let (low, high) = (Box::new(low.clone()), Box::new(high.clone()));
        nested(Expr::Between { expr: Box::new(value.clone()), negated: false, low, high })
    };
    let (left, right) = (Box::new(between(low, high)), Box::new(between(high, low)));
    Ok(nested(Expr::BinaryOp { left, op: BinaryOperator::Or, right }))
}

/// Text of the first match of a constant pattern.
fn first_match(value: &Expr, pattern: &Expr) -> Result<Expr> {
    match literal(pattern) {
        Some(pattern) => Ok(matched(value, &format!("({})", regex(pattern)?))),
        None => refuse!("the pattern of regexp_substr has to be a constant"),
    }
}

/// First group of a match, or the whole match of a pattern without groups.
fn matched(value: &Expr, regex: &str) -> Expr {
    let groups = call("regexp_match", vec![value.clone(), text(regex)]);
    call("array_element", vec![groups, number(1)])
}

/// `make_interval` with all its arguments in order.
fn interval_call(function: &Function) -> Result<Expr> {
    let mut parts = vec![number(0); INTERVAL_PARTS.len()];
    let FunctionArguments::List(list) = &function.args else {
        return Ok(call("make_interval", parts));
    };
    for (at, argument) in list.args.iter().enumerate() {
        let (at, value) = match argument {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (
                INTERVAL_PARTS.iter().position(|part| name.value.eq_ignore_ascii_case(part)),
                value,
            ),
            FunctionArg::ExprNamed { name, arg: FunctionArgExpr::Expr(value), .. } => {
                let name = name.to_string();
                (INTERVAL_PARTS.iter().position(|part| name.eq_ignore_ascii_case(part)), value)
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (Some(at), value),
            _ => (None, &parts[0]),
        };
        let value = value.clone();
        match at.and_then(|at| parts.get_mut(at)) {
            Some(part) => *part = value,
            None => return refuse!("make_interval has no such argument: {argument}"),
        }
    }
    Ok(call("make_interval", parts))
}

/// A constant pattern as a regular expression, another one as a call.
fn similar_pattern(pattern: &Expr, escape: Option<&ValueWithSpan>) -> Result<Expr> {
    let escape = match escape.map(|escape| &escape.value) {
        None => Some('\\'),
        Some(value) => one_char(value)?,
    };
    if let Some(pattern) = literal(pattern) {
        return match similar_regex(pattern, escape) {
            Ok(regex) => Ok(text(&regex)),
            Err(why) => refuse!("cannot use the pattern `{pattern}`: {why}"),
        };
    }
    let escape = escape.map(String::from).unwrap_or_default();
    Ok(call("similar_to_escape", vec![pattern.clone(), text(&escape)]))
}

/// The pattern of `like … escape …` with backslashes as escapes.
fn like_pattern(pattern: &Expr, escape: &ValueWithSpan) -> Result<Expr> {
    let escape = one_char(&escape.value)?;
    if escape == Some('\\') {
        return Ok(pattern.clone());
    }
    let Some(pattern) = literal(pattern) else {
        let escape = escape.map(String::from).unwrap_or_default();
        return Ok(call("like_escape", vec![pattern.clone(), text(&escape)]));
    };
    match like_escape(pattern, escape) {
        Some(new) => Ok(text(&new)),
        None => refuse!("the pattern `{pattern}` ends with its escape character"),
    }
}

/// A pattern of `like` with backslashes as escapes; `None` if it ends with its escape character.
pub fn like_escape(pattern: &str, escape: Option<char>) -> Option<String> {
    let mut new = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(next) = chars.next() {
        if Some(next) == escape {
            new.extend(['\\', chars.next()?]);
        } else {
            new.extend((next == '\\').then_some('\\'));
            new.push(next);
        }
    }
    Some(new)
}

fn one_char(value: &Value) -> Result<Option<char>> {
    let text = match value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text,
        other => return refuse!("{other} is no escape character"),
    };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (first, None) => Ok(first),
        _ => refuse!("the escape `{text}` has more than one character"),
    }
}

fn is_text(expr: &Expr) -> bool {
    literal(expr).is_some()
}

#[cfg(test)]
pub(crate) mod tests {
    use sqlparser::parser::Parser;

    use super::*;
    use crate::postgres_syntax::PostgresSyntax;

    /// A statement after its rewrite, or why it is refused.
    pub(crate) fn rewritten(sql: &str) -> String {
        let mut statements = Parser::parse_sql(&PostgresSyntax, sql).expect("SQL of a test");
        match rewrite_statement(&mut statements[0], &|_| None) {
            Ok(()) => statements[0].to_string(),
            Err(refusal) => refusal.to_string(),
        }
    }

    fn condition(sql: &str) -> String {
        let parser = Parser::new(&PostgresSyntax).try_with_sql(sql);
        let mut expr = parser.and_then(|mut parser| parser.parse_expr()).expect("SQL of a test");
        match rewrite_condition(&mut expr) {
            Ok(()) => expr.to_string(),
            Err(refusal) => refusal.to_string(),
        }
    }

    /// Also apache/datafusion#22263, #19076 and #13291.
    #[test]
    fn patterns_have_the_meaning_of_postgresql() {
        for (sql, expected) in [
            (r"b ~ 'C:\\temp'", r"b ~ '(C:\\temp)'"),
            ("b ~ 'a.b'", "b ~ '(?s)a.b'"),
            ("b !~* 'plain'", "b !~* 'plain'"),
            ("b similar to 'a%_'", "(b ~ '(?s)^(?:a.*.)$')"),
            ("b not similar to 'a#_' escape '#'", r"(b !~ '(?s)^(?:a\_)$')"),
            ("b similar to p", "(b ~ similar_to_escape(p, '\\'))"),
            ("b like 'a/_b' escape '/'", r"b LIKE 'a\_b'"),
            (r"b like 'a\b' escape ''", r"b LIKE 'a\\b'"),
            ("b like p escape '/'", "b LIKE like_escape(p, '/')"),
            ("substring(b from 'o(.)b')", "array_element(regexp_match(b, '(?s)o(.)b'), 1)"),
            (r"regexp_replace(b, 'x', '\1$')", "regexp_replace(b, 'x', '${1}$$')"),
        ] {
            assert_eq!(condition(sql), expected, "{sql}");
        }
        assert!(condition(r"b ~ '(a)\1'").contains("back references are not supported"));
    }

    /// Also apache/datafusion#25258.
    #[test]
    fn comparisons_with_subqueries_name_their_column() {
        for (sql, expected) in [
            ("x = any (select x from t)", "x IN (SELECT x FROM t)"),
            ("x <> all (select x from t)", "x NOT IN (SELECT x FROM t)"),
            ("x > all (select x from t)", "x > ALL((SELECT x AS compared_value FROM t))"),
            ("(a, b) = (1, 2)", "((a = 1) AND (b = 2))"),
            ("(a, b) <= (1, 2)", "((a < 1) OR ((a = 1) AND (b <= 2)))"),
            ("(a, b) in ((1, 2))", "((a = 1) AND (b = 2))"),
        ] {
            let brackets = ['(', ')'];
            assert_eq!(
                condition(sql).replace(brackets, ""),
                expected.replace(brackets, ""),
                "{sql}"
            );
        }
        assert!(condition("(a, b) not in (select 1, 2)").contains("not exists"));
    }

    /// Also apache/datafusion#22881.
    #[test]
    fn merged_columns_of_outer_joins_take_both_sides() {
        let sql = "select x, b.y from a full join b using (x) where x > 1 order by x";
        let merged = r#"coalesce(a."x", b."x")"#;
        let found = rewritten(sql);
        assert!(found.contains(r#"ON (a."x" = b."x")"#), "{found}");
        assert!(found.contains(&format!("WHERE ({merged}) > 1")), "{found}");
        assert!(found.contains(&format!(r#"({merged}) AS "x""#)), "{found}");
        let inner = "SELECT x FROM a LEFT JOIN b USING(x)";
        assert_eq!(rewritten(inner), inner);
        let unknown = rewritten("select * from a natural full join b");
        assert!(unknown.contains("are not known here"), "{unknown}");
    }

    /// Windows also dolthub/dolt#5209 and apache/datafusion#621; keys of `order by` also #8391 and
    /// #13558; rows and NULL also #24246.
    #[test]
    fn forms_that_the_engine_lacks_or_mistakes_are_written_out() {
        for (sql, expected) in [
            (
                "select sum(x) over (w order by y) from t window w as (partition by p)",
                "OVER (PARTITION BY p ORDER BY y)",
            ),
            ("select x from t where (a, b) is null", "((a IS NULL) AND (b IS NULL))"),
            ("select x from t where x like any (array['a%', 'b%'])", "(x LIKE 'a%') OR"),
            ("select array(select x from t order by y)", "array_agg(x ORDER BY y)"),
            (
                "select array(select x from t order by y limit 1)",
                "array_agg(element ORDER BY place)",
            ),
            ("select a in (select b from t) from u", "searched.searched_value = (a)"),
            ("select (select b from t)", "only_value(b)"),
            ("select x from a join b using (x) join c using (x)", r#"SELECT (a."x") AS "x""#),
            ("select j->'a'->>'b' from t", "json_get_text(json_get(j, 'a'), 'b')"),
            ("select '{}'::jsonb @> j from t", "contains_all(jsonb_in('{}'), j)"),
            ("select 0.1 + 0.2 = 0.3", "0.3 = 0.3"),
            ("select interval '1 day' * 2", "interval_times(INTERVAL '1 days'"),
            ("select e from unnest(array[1]) e", "e (e)"),
            (r#"select x::"int4" from t"#, "x::INT"),
        ] {
            let found = rewritten(sql);
            assert!(found.contains(expected), "{sql}: {found}");
        }
        for sql in [
            "select -x as x from t order by x + 0",
            "select y as x from (values (1, 2)) v(x, y) order by x * 1",
        ] {
            assert!(rewritten(sql).contains("name the result differently"), "{sql}");
        }
        let nested = rewritten("select ((((1, 1) < (1, 2)), 1) between (1, 1) and (2, 2))");
        assert!(nested.contains("rows within rows"), "{nested}");
        assert!(rewritten("select row(1, 2)").contains("no value here"));
        assert!(rewritten("select 1::char").contains("padded"));
    }

    /// Also apache/datafusion#12955 and #12956.
    #[test]
    fn set_operations_with_all_number_equal_rows() {
        let found = rewritten("select x from a except all select x from b");
        assert!(found.contains("EXCEPT SELECT *, duplicate_number()"), "{found}");
        let other = "SELECT x FROM a EXCEPT SELECT x FROM b";
        assert_eq!(rewritten(other), other);
    }

    /// Also apache/datafusion#13563.
    #[test]
    fn what_would_be_ignored_is_refused() {
        for sql in [
            "select * from a tablesample system (10)",
            "select * from (select * from a tablesample bernoulli (1)) b",
            "select x from a order by x fetch first 1 row with ties",
        ] {
            assert!(rewritten(sql).contains("not supported"), "{sql}");
        }
        assert_eq!(rewritten("select x from a fetch first 2 rows only"), "SELECT x FROM a LIMIT 2");
    }
}
