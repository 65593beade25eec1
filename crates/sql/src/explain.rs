//! Turns DataFusion's errors into one message and one hint, with the nearest name where a name is
//! unknown.

use std::collections::BTreeSet;

use arrow_schema::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::parser::ParserError;
use weir_datafile::{ErrorKind, StoreError};
use weir_tables::{TABLES, VIEWS, edit_distance as distance};

/// Longer messages are truncated: some contain a whole plan.
const MESSAGE_CHARS_MAX: usize = 400;

/// At most this many equally near names are suggested.
const NEAREST_MAX: usize = 3;

/// Verbs of statements that write.
const WRITING_VERBS: [&str; 11] = [
    "insert", "update", "delete", "merge", "truncate", "create", "drop", "alter", "copy", "set",
    "grant",
];

/// Explains an error to the author of the SQL.
pub(crate) fn explain(error: &DataFusionError, sql: &str, context: &SessionContext) -> StoreError {
    match error.find_root() {
        DataFusionError::SchemaError(schema, _) => explain_schema(schema),
        DataFusionError::SQL(parser, _) => explain_syntax(parser, sql),
        DataFusionError::External(error) if error.is::<StoreError>() => {
            error.downcast_ref().map_or_else(StoreError::closed, StoreError::repeat)
        }
        DataFusionError::Plan(text) => explain_plan(text, sql, context),
        root @ (DataFusionError::IoError(_)
        | DataFusionError::ObjectStore(_)
        | DataFusionError::External(_)
        | DataFusionError::ParquetError(_)) => cannot_read(root),
        root @ DataFusionError::ArrowError(error, _) if is_of_file(error) => cannot_read(root),
        root => bad_query(&root.strip_backtrace()),
    }
}

/// Whether an Arrow error concerns a file; the others concern the query (a division by zero).
fn is_of_file(error: &ArrowError) -> bool {
    matches!(
        error,
        ArrowError::ParquetError(_) | ArrowError::IoError(..) | ArrowError::ExternalError(_)
    )
}

fn cannot_read(error: &DataFusionError) -> StoreError {
    let text = format!("cannot read files: {}", shorten(&error.strip_backtrace()));
    StoreError::new(ErrorKind::Io, text)
}

fn bad_query(text: &str) -> StoreError {
    StoreError::new(ErrorKind::BadQuery, shorten(text))
}

fn explain_syntax(error: &ParserError, sql: &str) -> StoreError {
    let text = error.to_string();
    let why = text.strip_prefix("sql parser error: ").unwrap_or(&text);
    let error = bad_query(&format!("cannot read the SQL: {why}"));
    let sql = sql.to_lowercase();
    if sql.match_indices("top(").any(|(at, _)| !sql[..at].ends_with(is_word)) {
        return error
            .with_hint("`top` is a word of SQL itself: the function is `top_k(value, 10)`");
    }
    error
}

fn is_word(before: char) -> bool {
    before.is_alphanumeric() || before == '_'
}

fn explain_schema(error: &SchemaError) -> StoreError {
    let SchemaError::FieldNotFound { field, valid_fields } = error else {
        return bad_query(&error.to_string());
    };
    let error = bad_query(&format!("there is no column `{}`", field.name()));
    match nearest(field.name(), valid_fields.iter().map(|valid| valid.name())) {
        Some(names) => error.with_hint(format!("did you mean {names}?")),
        None => error.with_hint("`weir tables NAME` lists the columns of a table"),
    }
}

fn explain_plan(text: &str, sql: &str, context: &SessionContext) -> StoreError {
    if let Some(name) = text
        .strip_suffix(" not found")
        .filter(|text| text.starts_with("table "))
        .and_then(|text: &str| text.split('\'').nth(1).map(str::to_owned))
    {
        let name = name.strip_prefix("weir.public.").unwrap_or(&name).to_owned();
        let error = bad_query(&format!("there is no table `{name}`"));
        let views = VIEWS.iter().map(|view| view.table.name);
        return match nearest(&name, TABLES.iter().map(|spec| spec.name).chain(views)) {
            Some(near) => error.with_hint(format!("did you mean {near}?")),
            None => error.with_hint("`weir tables` lists the tables"),
        };
    }
    // A statement that writes may fail on a detail before it is refused for writing.
    let verb = sql.split_whitespace().next().unwrap_or_default().to_lowercase();
    let is_statement = REFUSED_STATEMENTS.iter().any(|start| text.starts_with(start));
    if is_statement || WRITING_VERBS.contains(&verb.as_str()) {
        return bad_query(&format!("only queries are run, not `{verb}`")).with_hint(
            "weir's tables are written by its collectors; begin with `select` or `with`",
        );
    }
    match text.strip_prefix("Invalid function '").and_then(|rest| rest.split('\'').next()) {
        Some(name) => explain_function(name, &context.state()),
        None => bad_query(text),
    }
}

/// How the engine's refusals of statements that are no queries begin.
const REFUSED_STATEMENTS: [&str; 3] =
    ["DDL not supported: ", "DML not supported: ", "Statement not supported: "];

/// Functions of other databases, and their equivalents here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("time_bucket", "date_bin(interval '5 minutes', ts)"),
    ("tostartofinterval", "date_bin(interval '5 minutes', ts)"),
    ("tostartofminute", "date_trunc('minute', ts)"),
    ("tostartofhour", "date_trunc('hour', ts)"),
    ("quantile", "percentile(value, 0.99)"),
    ("topk", "top_k(value, 10)"),
    ("approx_top_k", "top_k(value, 10)"),
    ("approx_most_frequent", "top_k(value, 10)"),
    ("uniq", "approx_distinct(value)"),
    ("approx_count_distinct", "approx_distinct(value)"),
    ("countif", "count(*) filter (where …)"),
    ("count_if", "count(*) filter (where …)"),
];

/// Suggests a function; DataFusion would suggest the nearest one at any distance.
fn explain_function(name: &str, state: &SessionState) -> StoreError {
    let error = bad_query(&format!("there is no function `{name}`"));
    let lower = name.to_lowercase();
    if let Some((_, here)) = ELSEWHERE.iter().find(|(other, _)| *other == lower) {
        return error.with_hint(format!("here it is `{here}`"));
    }
    let scalar = state.scalar_functions().keys();
    let names =
        scalar.chain(state.aggregate_functions().keys()).chain(state.window_functions().keys());
    match nearest(name, names.map(String::as_str)) {
        Some(near) => error.with_hint(format!("did you mean {near}?")),
        None => error.with_hint("`show functions` lists them"),
    }
}

/// The first lines, without the request to report a bug in DataFusion.
fn shorten(text: &str) -> String {
    let text =
        ["Error during planning: ", "Execution error: ", "This feature is not implemented: "]
            .iter()
            .fold(text, |text, prefix| text.strip_prefix(prefix).unwrap_or(text));
    let text = text
        .split("\nThis issue was likely caused")
        .next()
        .unwrap_or(text)
        .trim_end_matches(['.', '\n']);
    let text = without_plan(text);
    let mut short: String = text.chars().take(MESSAGE_CHARS_MAX).collect();
    // Not the first letter of a keyword such as `LIKE`.
    if short.chars().nth(1).is_some_and(char::is_lowercase) {
        let first: String = short.drain(..1).collect();
        short.insert_str(0, &first.to_lowercase());
    }
    if text.chars().count() > MESSAGE_CHARS_MAX {
        short.push('…');
    }
    short
}

/// What the planner says of an expression that it has no operator for.
const UNPLANNED: &str = "Physical plan does not support logical expression ";

/// The text without the inner form of a plan or a statement, such as `Exists(Exists { subquery: …`.
fn without_plan(text: &str) -> String {
    if let Some(rest) = text.strip_prefix(UNPLANNED) {
        let what = match rest.split(['(', ' ']).next() {
            Some("OuterReferenceColumn") => "this use of an outer column in a subquery",
            Some("Exists" | "InSubquery" | "ScalarSubquery" | "SetComparison") => {
                "a subquery in this place"
            }
            _ => "an expression of this kind in this place",
        };
        return format!("{what} is not supported: join with the subquery instead");
    }
    let inner = text.find(" { ").or_else(|| text.find("Ident {")).or_else(|| text.find('\n'));
    let Some(inner) = inner else { return text.to_owned() };
    let before = &text[..inner];
    // The word before a brace is the name of an inner type.
    let end = if text[inner..].starts_with('\n') {
        inner
    } else {
        before.rfind([' ', '(']).unwrap_or(inner)
    };
    before[..end].trim_end_matches([' ', '(', ':', ',']).to_owned()
}

/// Names with the smallest distance to `wanted`, if it is small: `` `a` or `b` ``.
fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let wanted = wanted.to_lowercase();
    let limit = (wanted.chars().count() / 3).max(1);
    let rated: BTreeSet<(usize, &str)> =
        names.map(|name| (unlikeness(&wanted, name), name)).collect();
    let least = rated.first().map(|rated| rated.0).filter(|least| *least <= limit)?;
    let alike = rated.iter().take_while(|rated| rated.0 == least).take(NEAREST_MAX);
    Some(alike.map(|(_, name)| format!("`{name}`")).collect::<Vec<_>>().join(" or "))
}

/// Distance between `wanted` and `name` or words of `name`: `status` matches
/// `http_response_status_code`.
fn unlikeness(wanted: &str, name: &str) -> usize {
    let words: Vec<&str> = name.split('_').collect();
    let parts = words.windows(wanted.split('_').count().min(words.len()));
    let part = parts.map(|part| distance(wanted, &part.join("_")) + 1).min();
    distance(wanted, name).min(part.unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_found_and_far_ones_are_not() {
        assert_eq!(nearest("requests", tables()), Some("`request`".to_owned()));
        assert_eq!(nearest("TCP_STATS", tables()), Some("`tcp_stat`".to_owned()));
        assert_eq!(nearest("reqeust", tables()), Some("`request`".to_owned()));
        assert_eq!(
            nearest("stauts", ["upstream_status", "host", "http_status_code"].into_iter()),
            Some("`http_status_code` or `upstream_status`".to_owned())
        );
        assert_eq!(nearest("customers", tables()), None);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn messages_have_no_inner_form_of_plans_and_keep_keywords() {
        for (text, short) in [
            (
                "This feature is not implemented: LIKE does not support escape_char",
                "LIKE does not support escape_char",
            ),
            ("Error during planning: Cannot coerce this", "cannot coerce this"),
            (
                "This feature is not implemented: Physical plan does not support logical expression \
                 Exists(Exists { subquery: <subquery>, negated: false })",
                "a subquery in this place is not supported: join with the subquery instead",
            ),
            (
                "This feature is not implemented: Unsupported ast node in sqltorel: Tuple(Ident { value: 1 })",
                "unsupported ast node in sqltorel: Tuple",
            ),
        ] {
            assert_eq!(shorten(text), short);
        }
    }

    fn tables() -> impl Iterator<Item = &'static str> {
        ["request", "reject", "tcp_stat"].into_iter()
    }
}
