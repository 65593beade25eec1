//! Budget left and burn rates of every SLO, as JSON for the API and `weir slo list`.

use std::ops::Range;
use std::time::Duration;

use serde_json::{Value, json};
use weir_config::slos::SloSpec;
use weir_rules::slo::{BURN_PAIRS, BURN_WINDOWS, BurnPair, SloCount, burning_pair};
use weir_rules::{Cell, Row, rows_of};
use weir_store::{Query, QueryLimits, Store, StoreError};
use weir_tables::Micros;

use super::source::{literal, quoted};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Requests below which the interval of a rate is wide.
const FEW: u64 = 1_000;

/// One SLO as the API shows it.
pub(crate) async fn report(store: &Store, slo: &SloSpec, now: Micros) -> Result<Value, StoreError> {
    let of_slo =
        format!("slo = {} and definition = {}", quoted(&slo.name), quoted(&slo.definition()));
    let window = i64::try_from(slo.window_days).unwrap_or(30) * 86_400;
    let from = now.0.div_euclid(1_000_000) - window;
    let sql = format!(
        "select cast(date_part('epoch', max(ts)) as bigint) as newest from slo_slice \
         where {of_slo} and ts >= {} and ts <= {}",
        literal(from),
        literal(from + window)
    );
    let newest = row(store, &sql).await?.and_then(|row| int(&row, "newest"));
    let Some(end) = newest.map(|newest| newest + 60) else {
        return Ok(shown(slo, None, &Windows::default()));
    };
    let row = row(store, &windows_sql(&of_slo, end - window..end)).await?;
    Ok(shown(slo, Some(end), &Windows::read(row.as_ref(), window)))
}

/// Counts of the windows, and of the whole window of the SLO.
#[derive(Default)]
struct Windows {
    burn: [SloCount; 5],
    budget: SloCount,
}

/// One row with `total_N`, `failed_N` and `minutes_N` for each window that ends with the budget's.
fn windows_sql(of_slo: &str, budget: Range<i64>) -> String {
    let (end, window) = (budget.end, budget.end - budget.start);
    let columns = lengths(window).enumerate().map(|(index, seconds)| {
        let is_in = format!("case when ts >= {} then", literal(end - seconds));
        format!(
            "coalesce(sum({is_in} total_count end), 0) as total_{index}, \
             coalesce(sum({is_in} failed_count end), 0) as failed_{index}, \
             count(distinct {is_in} ts end) as minutes_{index}"
        )
    });
    format!(
        "select {} from slo_slice where {of_slo} and ts >= {} and ts < {}",
        columns.collect::<Vec<_>>().join(", "),
        literal(end - window),
        literal(end)
    )
}

/// Lengths of the windows; the last is that of the SLO.
fn lengths(window: i64) -> impl Iterator<Item = i64> {
    BURN_WINDOWS.iter().map(|window| i64::try_from(window.seconds).unwrap_or(0)).chain([window])
}

impl Windows {
    fn read(row: Option<&Row>, window: i64) -> Self {
        let counts = lengths(window).enumerate().map(|(index, seconds)| {
            let number = |name: &str| row.and_then(|row| int(row, &format!("{name}_{index}")));
            let count =
                |name: &str| number(name).and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
            SloCount {
                total: count("total"),
                failed: count("failed"),
                covered_ratio: ratio(count("minutes"), u64::try_from(seconds / 60).unwrap_or(1)),
            }
        });
        let counts: Vec<SloCount> = counts.collect();
        let mut windows = Self::default();
        windows.burn.copy_from_slice(&counts[..BURN_WINDOWS.len()]);
        windows.budget = counts[BURN_WINDOWS.len()];
        windows
    }
}

fn shown(slo: &SloSpec, end: Option<i64>, windows: &Windows) -> Value {
    let allowed = slo.allowed_ratio;
    let pair = burning_pair(&windows.burn, allowed);
    let burn = BURN_WINDOWS.iter().zip(&windows.burn).map(|(window, count)| {
        let interval = count.burn_interval(allowed);
        json!({
            "window": window.label, "seconds": window.seconds, "total": count.total, "failed": count.failed,
            "burn": count.burn(allowed), "covered_ratio": count.covered_ratio,
            "low": interval.map(|(low, _)| low), "high": interval.map(|(_, high)| high),
        })
    });
    let budget = windows.budget;
    let is_known = end.is_some();
    json!({
        "name": slo.name,
        "kind": slo.kind.as_str(),
        "definition": slo.definition(),
        "objective_percent": slo.objective_ratio() * 100.0,
        "window_days": slo.window_days,
        "owner": slo.owner,
        "state": state(end, pair),
        "counted_until": end.map(|end| Micros(end * 1_000_000).to_string()),
        "total": budget.total,
        "failed": budget.failed,
        "covered_ratio": budget.covered_ratio,
        "budget_left_ratio": is_known.then(|| budget.budget_left_ratio(allowed)),
        "burn": burn.collect::<Vec<_>>(),
        "certainty": certainty(slo, end, windows),
    })
}

fn state(end: Option<i64>, pair: Option<&BurnPair>) -> &'static str {
    match (end, pair) {
        (None, _) => "not_counted",
        (_, None) => "ok",
        (_, Some(pair)) if pair.class == BURN_PAIRS[0].class => "burning_fast",
        (_, Some(_)) => "burning_slowly",
    }
}

/// How sure the figures are, in words; empty where nothing has to be said.
fn certainty(slo: &SloSpec, end: Option<i64>, windows: &Windows) -> String {
    if end.is_none() {
        return "nothing was counted yet".to_owned();
    }
    let (budget, mut words) = (windows.budget, Vec::new());
    let unit = if slo.kind.as_str() == "checks" { "checks" } else { "requests" };
    if budget.total == 0 {
        words.push(format!("no {unit}"));
    } else if budget.total < FEW {
        words.push(format!("only {} {unit}", budget.total));
    } else if ratio(budget.total, 1) * slo.allowed_ratio < 10.0 {
        words.push(format!("fewer than 10 of {} {unit} may fail", budget.total));
    }
    if budget.covered_ratio < 0.99 {
        let percent = budget.covered_ratio * 100.0;
        words.push(format!("{percent:.0} % of {} d counted", slo.window_days));
    }
    words.join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

async fn row(store: &Store, sql: &str) -> Result<Option<Row>, StoreError> {
    let limits = QueryLimits::of_rule(1, TIMEOUT);
    let answer = store.query(Query::new(sql).limits(limits)).run().await?;
    Ok(rows_of(&answer.batches, 1).pop())
}

fn int(row: &Row, column: &str) -> Option<i64> {
    match row.get(column)? {
        Cell::Int(number) => Some(*number),
        _ => None,
    }
}
