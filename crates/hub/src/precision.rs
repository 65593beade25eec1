//! What people judged of each rule's findings, for the engine: a rule that is mostly not real pages
//! no more.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_rules::{Cell, Precision, rows_of};
use weir_store::{Query, QueryLimits, Store};
use weir_tables::Micros;

use crate::rule_runner::RuleRunner;

/// The newest ten judged findings of each rule in 90 days, each by its newest judgement; as in
/// `weir.noisy_rule`.
const PRECISION: &str = "select rule, count(*) as judged, count(*) filter (where verdict = 'real') as real \
    from (select *, row_number() over (partition by rule order by ts desc) as age \
      from (select rule, verdict, ts, row_number() over (partition by finding_id order by ts desc) as place \
        from judgement where ts > $now - interval '90 days' and ts <= $now) where place = 1) \
    where age <= 10 group by rule";
const MAX_RULES: usize = 10_000;

/// Tells the engine; what cannot be asked stays as it was.
pub async fn learn(judge: &RuleRunner, store: &Store, now: Micros) {
    let limits = QueryLimits::of_rule(MAX_RULES, Duration::from_secs(10));
    let sql = PRECISION.replace("$now", &format!("timestamp '{now}'"));
    let Ok(answer) = store.query(Query::new(&sql).limits(limits)).run().await else { return };
    let rows = rows_of(&answer.batches, MAX_RULES).into_iter().filter_map(|row| {
        let count = |name: &str| match row.get(name) {
            Some(Cell::Int(count)) => u64::try_from(*count).ok(),
            _ => None,
        };
        let precision = Precision { judged: count("judged")?, real: count("real")? };
        Some((row.text("rule")?.to_owned(), precision))
    });
    let rows: BTreeMap<String, Precision> = rows.collect();
    judge.with_engine(|engine| engine.set_precision(rows));
}
