//! Extracts per-row conditions from the SQL of rules: what a query over a recent window requires of
//! each row.

use std::time::Duration;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, Select, SetExpr, SetOperator, Statement,
};
use datafusion::sql::sqlparser::parser::Parser;
use weir_dialect::PostgresSyntax;
use weir_tables::{TABLES, TableSpec};

use crate::statement_size::check_condition;

/// `select … from table where row and ts > $now - window and ts <= $now`: can return rows only if a
/// row within the window matches.
#[derive(Debug)]
pub struct RowCondition {
    /// Table of the rows.
    pub table: &'static TableSpec,
    /// SQL condition on a row.
    pub row: String,
    /// Length of the window in µs.
    pub window_micros: i64,
    /// Whether the query requires more than a matching row.
    pub has_groups: bool,
}

impl RowCondition {
    /// Length of the window.
    pub fn window(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.window_micros).unwrap_or_default())
    }
}

/// Splits `sql`, with `$now` as the current time, into selects of which at least one must return
/// rows for the query to return rows. `None` if the query depends on more than single rows and
/// their age.
pub fn row_conditions(sql: &str) -> Option<Vec<RowCondition>> {
    check_condition(sql).ok()?;
    let [Statement::Query(query)] = &Parser::parse_sql(&PostgresSyntax, sql).ok()?[..] else {
        return None;
    };
    let mut found = Vec::new();
    let text = walk(&query.body, &mut found)?;
    // Any part that the walk ignored would make the two texts differ.
    let is_all = query.to_string() == text || query.to_string() == format!("{text} LIMIT 1");
    is_all.then_some(found)
}

/// Adds the selects below `body`, and returns the part of its SQL that was understood.
fn walk(body: &SetExpr, found: &mut Vec<RowCondition>) -> Option<String> {
    match body {
        SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } => {
            let (left, right) = (walk(left, found)?, walk(right, found)?);
            Some(format!("{left} UNION ALL {right}"))
        }
        SetExpr::Query(query) => {
            let Query { body, .. } = &**query;
            Some(format!("({})", walk(body, found)?))
        }
        SetExpr::Select(select) => {
            let (shape, text) = shape(select)?;
            found.push(shape);
            Some(text)
        }
        _ => None,
    }
}

/// Without `group by`, an aggregate returns a row even if no row matches; with it, only matching
/// rows form groups.
fn shape(select: &Select) -> Option<(RowCondition, String)> {
    let [from] = &select.from[..] else { return None };
    let name = from.to_string();
    let table = TABLES.iter().find(|table| table.name == name)?;
    let selection = select.selection.as_ref()?;
    let items: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    let mut text = format!("SELECT {} FROM {name} WHERE {selection}", items.join(", "));
    let has_groups =
        !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if has_groups {
        text = format!("{text} {}", select.group_by);
    } else if items.iter().any(|item| item.contains('(')) {
        return None;
    }
    if let Some(having) = &select.having {
        text = format!("{text} HAVING {having}");
    }
    let (mut window, mut row) = (None, Vec::new());
    for term in terms(selection) {
        match term.strip_prefix("ts > $now - INTERVAL '").and_then(|rest| rest.strip_suffix('\'')) {
            Some(span) if window.is_none() => window = Some(micros(span)?),
            _ if term == "ts <= $now" => {}
            _ if term.contains("$now") => return None,
            _ => row.push(term),
        }
    }
    if row.is_empty() {
        row.push("true".to_owned());
    }
    Some((RowCondition { table, row: row.join(" AND "), window_micros: window?, has_groups }, text))
}

/// Operands of a conjunction.
fn terms(expr: &Expr) -> Vec<String> {
    use datafusion::sql::sqlparser::ast::BinaryOperator::And;
    match expr {
        Expr::BinaryOp { left, op: And, right } => {
            terms(left).into_iter().chain(terms(right)).collect()
        }
        other => vec![other.to_string()],
    }
}

/// Parses an interval such as `15 seconds` to µs.
fn micros(span: &str) -> Option<i64> {
    let (count, unit) = span.split_once(' ')?;
    let unit = match unit.trim_end_matches('s') {
        "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86400,
        _ => return None,
    };
    count.parse::<i64>().ok()?.checked_mul(unit * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(sql: &str) -> Option<Vec<(&'static str, String, i64)>> {
        let shapes = row_conditions(sql)?;
        Some(
            shapes
                .into_iter()
                .map(|one| (one.table.name, one.row, one.window_micros / 1_000_000))
                .collect(),
        )
    }

    #[test]
    fn conditions_on_single_rows_are_understood() {
        let one = "select 1 from request where (upstream_tries > 1 or status = 'x') and ts > $now - interval '2 minutes' and ts <= $now limit 1";
        assert_eq!(
            told(one),
            Some(vec![("request", "(upstream_tries > 1 OR status = 'x')".into(), 120)])
        );
        let two = "select 1 as n from kmsg where kind = 'oom_kill' and ts > $now - interval '1 hour' and ts <= $now \
            union all select 1 as n from log where body like '%a \\\\_ b%' and ts > $now - interval '1 second' and ts <= $now limit 1";
        let two = told(two).expect("two selects");
        assert_eq!((two[0].0, two[0].2, two[1].0, two[1].2), ("kmsg", 3600, "log", 1));
        let groups = "select host from softnet_stat where ts > $now - interval '60 seconds' and ts <= $now group by host, cpu having max(drops_total) >= 5 limit 1";
        assert_eq!(told(groups), Some(vec![("softnet_stat", "true".into(), 60)]));
    }

    #[test]
    fn what_needs_more_than_a_row_and_its_age_is_left_to_the_query() {
        for sql in [
            "select max(ts) from request where ts > $now - interval '1 minute' and ts <= $now",
            "select 1 from request where ts > $now - interval '1 day' - interval '10 minutes' and ts <= $now - interval '1 day' limit 1",
            "select 1 from certificate where served_not_after < $now + interval '21 days' and ts > $now - interval '3 minutes' and ts <= $now limit 1",
            "select 1 from request r join log l on r.host = l.host where ts > $now - interval '1 minute' and ts <= $now limit 1",
            "select 1 from (select 1 from request where ts > $now - interval '1 minute' and ts <= $now) limit 1",
            "select 1 from request where ts <= $now limit 1",
            "with a as (select 1) select 1 from request where ts > $now - interval '1 minute' and ts <= $now limit 1",
            "select 1 from request where ts > $now - interval '1 minute' and ts <= $now limit 1 offset 5",
            "select 1 from nowhere where ts > $now - interval '1 minute' limit 1",
            "not sql",
        ] {
            assert_eq!(told(sql), None, "{sql}");
        }
    }
}
