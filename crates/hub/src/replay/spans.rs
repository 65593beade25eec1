//! The spans of time in which a rule may have something to say.

use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use weir_process::failure::Failure;
use weir_rules::Rule;
use weir_store::{RowCondition, row_conditions};
use weir_tables::Micros;

/// From and to, oldest first, apart from each other.
pub(super) type TimeSpans = Vec<(Micros, Micros)>;

const DAY: Duration = Duration::from_secs(86_400);
/// So exactly is it asked when a condition was true. A day has fewer bins than an answer may have
/// rows.
pub(super) const BIN: Duration = Duration::from_secs(10);

/// The spans between two moments: by that of the rule's cheap conditions that held for the shortest
/// time, or from the first row on of what it needs.
pub(super) fn find(
    rule: &Rule,
    from: Micros,
    to: Micros,
    ask: &mut impl FnMut(&str) -> Result<Vec<RecordBatch>, Failure>,
) -> Result<TimeSpans, Failure> {
    let Some(first) = first_row(rule, from, to, ask)? else { return Ok(Vec::new()) };
    let mut shortest = vec![(first, to)];
    for conditions in rule.when.iter().filter_map(|sql| row_conditions(sql)) {
        let found = true_spans(rule, &conditions, (first, to), ask);
        if length(&found) < length(&shortest) {
            shortest = found;
        }
    }
    Ok(shortest)
}

/// Of all of them together.
pub(super) fn length(spans: &TimeSpans) -> Duration {
    let each = spans.iter().map(|(from, to)| to.seconds_since(*from));
    Duration::try_from_secs_f64(each.sum()).unwrap_or_default()
}

/// When the first row came of the tables that the rule needs; `None` without any.
fn first_row(
    rule: &Rule,
    from: Micros,
    to: Micros,
    ask: &mut impl FnMut(&str) -> Result<Vec<RecordBatch>, Failure>,
) -> Result<Option<Micros>, Failure> {
    if rule.needs.is_empty() {
        return Ok(Some(from));
    }
    let mut first: Option<Micros> = None;
    for table in &rule.needs {
        let sql = format!(
            "select cast(extract(epoch from min(ts)) as bigint) as first from {table} where ts > timestamp '{from}' and ts <= timestamp '{to}'"
        );
        let at = numbers(&ask(&sql)?).first().map(|at| Micros(at * 1_000_000));
        first = first.into_iter().chain(at).min();
    }
    Ok(first.map(|first| first.max(from)))
}

/// When rows came of which one is enough, with the time that a finding needs to fire and to end.
/// What cannot be asked in time counts as true.
fn true_spans(
    rule: &Rule,
    conditions: &[RowCondition],
    (from, to): (Micros, Micros),
    ask: &mut impl FnMut(&str) -> Result<Vec<RecordBatch>, Failure>,
) -> TimeSpans {
    let to_end =
        Duration::from_secs(rule.for_seconds + rule.clear_seconds + 3 * rule.every_seconds);
    let mut found = TimeSpans::new();
    for condition in conditions {
        let seen = condition.window();
        // A look at the begin sees what was before it.
        let mut day = from - seen;
        while day < to {
            let end = (day + DAY).min(to);
            let Ok(answer) = ask(&bins_sql(condition, day, end)) else {
                found.push((day.max(from), to));
                break;
            };
            let bins = numbers(&answer).into_iter().map(|begin| Micros(begin * 1_000_000));
            found.extend(bins.map(|bin| (bin.max(from), (bin + BIN + seen + to_end).min(to))));
            day = end;
        }
    }
    found.sort_unstable();
    let mut spans = TimeSpans::new();
    for (begin, end) in found {
        match spans.last_mut() {
            Some((_, last)) if *last >= begin => *last = end.max(*last),
            _ => spans.push((begin, end)),
        }
    }
    spans
}

/// The begins, in seconds since 1970, of those [`BIN`]s after `from` and until `to` that have such
/// a row.
fn bins_sql(condition: &RowCondition, from: Micros, to: Micros) -> String {
    let (table, row, bin) = (condition.table.name, &condition.row, BIN.as_secs());
    format!(
        "select distinct cast(extract(epoch from date_bin(interval '{bin} seconds', ts)) as bigint) as bin from {table} \
         where ({row}) and ts > timestamp '{from}' and ts <= timestamp '{to}' order by 1"
    )
}

/// The first column of an answer.
fn numbers(answer: &[RecordBatch]) -> Vec<i64> {
    let columns = answer.iter().filter(|batch| batch.num_columns() > 0);
    let columns = columns.filter_map(|batch| batch.column(0).as_primitive_opt::<Int64Type>());
    columns.flat_map(|column| column.iter().flatten().collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};
    use weir_rules::SourceFile;

    use super::*;

    const HEAD: &str = "/*---\nid = \"test.spans\"\ntitle = \"t\"\ntier = \"kernel\"\nclass = \"mail\"\nfor = \"4s\"\n\
        every = \"2s\"\nclear = \"10s\"\nkey = [\"what\"]\nneeds = [\"request\"]\nsubject = \"{what}\"\nsummary = \"{n} of {what}\"\n\
        why = \"w\"\nlook_at = \"l\"\nsilent_when = \"s\"\nfix = \"f\"\nsource = \"x\"\n";
    const BEGIN: i64 = 1_795_176_000;

    /// Spans of two days, in seconds from their begin; the first row comes after 50 s, and a day's
    /// bins are queried only when `is_well`.
    fn spans(when: &str, bins: &[i64], is_well: bool) -> Vec<(i64, i64)> {
        let text = format!("{HEAD}{when}---*/\nselect $now");
        let rule = Rule::parse(SourceFile { origin: "test", text: &text }).unwrap();
        let mut days = 0;
        let mut ask = |sql: &str| {
            let values = if sql.contains("min(ts)") {
                vec![BEGIN + 50]
            } else if is_well {
                days += 1;
                let is_first = days == 1;
                bins.iter().filter(|_| is_first).map(|second| BEGIN + second).collect()
            } else {
                return Err(Failure::new("it takes too long"));
            };
            let column: ArrayRef = Arc::new(Int64Array::from(values));
            Ok(vec![RecordBatch::try_from_iter([("n", column)]).unwrap()])
        };
        let found = find(&rule, at(0), at(172_800), &mut ask).unwrap();
        found.into_iter().map(|(from, to)| (second_of(from), second_of(to))).collect()
    }

    fn at(second: i64) -> Micros {
        Micros((BEGIN + second) * 1_000_000)
    }

    fn second_of(at: Micros) -> i64 {
        at.0 / 1_000_000 - BEGIN
    }

    #[test]
    fn what_can_be_asked_of_single_rows_leaves_the_time_around_them() {
        let when = "when = \"select 1 from request where duration_seconds > 1 and ts > $now - interval '20 seconds' and ts <= $now limit 1\"\n";
        assert_eq!(spans(when, &[], true), []);
        // A bin of 10 s, 20 s that a look goes back, 4 to fire, 10 to end, and three looks.
        assert_eq!(spans(when, &[100, 110, 500], true), [(100, 160), (500, 550)]);
        assert_eq!(spans(when, &[30, 86_000], true), [(50, 80), (86_000, 86_050)]);
        // A question that takes too long leaves all of the time.
        assert_eq!(spans(when, &[100], false), [(50, 172_800)]);
    }

    #[test]
    fn without_such_a_condition_it_is_all_from_the_first_row_on() {
        assert_eq!(spans("", &[100], true), [(50, 172_800)]);
    }
}
