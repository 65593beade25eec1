//! The spans of time in which a rule may have something to say.

use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use weir_rules::{Gate, Rule};
use weir_tables::Micros;

use crate::failure::Failure;

/// From and to, oldest first, apart from each other.
pub(super) type Spans = Vec<(Micros, Micros)>;

const DAY: Duration = Duration::from_secs(86_400);
/// So exactly is it asked when a condition was true. A day has fewer bins than an answer may have rows.
pub(super) const BIN: Duration = Duration::from_secs(10);

/// The spans between two moments: by that of the rule's conditions on single rows that was true for the shortest time, or from the
/// first row on of what it needs.
pub(super) fn find(
    rule: &Rule,
    from: Micros,
    to: Micros,
    ask: &mut impl FnMut(&str) -> Result<Vec<RecordBatch>, Failure>,
) -> Result<Spans, Failure> {
    let Some(first) = first_row(rule, from, to, ask)? else { return Ok(Vec::new()) };
    let mut shortest = vec![(first, to)];
    for gate in rule.gates() {
        let found = true_spans(rule, &gate, (first, to), ask);
        if seconds(&found) < seconds(&shortest) {
            shortest = found;
        }
    }
    Ok(shortest)
}

/// Of all of them together.
pub(super) fn seconds(spans: &Spans) -> u64 {
    let each = spans.iter().map(|(from, to)| to.seconds_since(*from));
    Duration::try_from_secs_f64(each.sum()).unwrap_or_default().as_secs()
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

/// When a condition was true, with the time that a finding needs to fire and to end. What cannot be asked in time counts as true.
fn true_spans(
    rule: &Rule,
    gate: &Gate,
    (from, to): (Micros, Micros),
    ask: &mut impl FnMut(&str) -> Result<Vec<RecordBatch>, Failure>,
) -> Spans {
    let after = gate.window
        + Duration::from_secs(rule.for_seconds + rule.clear_seconds + 3 * rule.every_seconds);
    let mut spans = Spans::new();
    let mut add = |begin: Micros, end: Micros| {
        let (begin, end) = (begin.max(from), (end + after).min(to));
        match spans.last_mut() {
            Some((_, last)) if *last >= begin => *last = end.max(*last),
            _ => spans.push((begin, end)),
        }
    };
    // A look at the begin sees what was before it.
    let mut day = from - gate.window;
    while day < to {
        let end = (day + DAY).min(to);
        let Ok(answer) = ask(&gate.bins_sql(day, end, BIN)) else {
            add(day, to);
            break;
        };
        for begin in numbers(&answer) {
            let begin = Micros(begin * 1_000_000);
            add(begin, begin + BIN);
        }
        day = end;
    }
    spans
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

    use super::*;

    const HEAD: &str = "/*---\nid = \"test.spans\"\ntitle = \"t\"\ntier = \"kernel\"\nclass = \"mail\"\nfor = \"4s\"\n\
        every = \"2s\"\nclear = \"10s\"\nkey = [\"what\"]\nneeds = [\"request\"]\nsubject = \"{what}\"\nsummary = \"{n} of {what}\"\n\
        why = \"w\"\nlook_at = \"l\"\nsilent_when = \"s\"\nfix = \"f\"\nsource = \"x\"\n";
    const BEGIN: i64 = 1_795_176_000;

    /// Spans of two days, in seconds from their begin; the first row comes after 50 s, and a day's bins are asked only when `is_well`.
    fn spans(when: &str, bins: &[i64], is_well: bool) -> Vec<(i64, i64)> {
        let rule = Rule::parse("test", &format!("{HEAD}{when}---*/\nselect $now")).unwrap();
        let at = |second: i64| Micros((BEGIN + second) * 1_000_000);
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
        let second = |at: Micros| at.0 / 1_000_000 - BEGIN;
        found.into_iter().map(|(from, to)| (second(from), second(to))).collect()
    }

    #[test]
    fn what_can_be_asked_of_single_rows_leaves_the_time_around_them() {
        let when = "when = \"select 1 from request where x and ts > $now - interval '20 seconds' and ts <= $now limit 1\"\n";
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
