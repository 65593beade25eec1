//! The history of a rule in the table `measure`, and which parts of it were incidents.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use weir_rules::mine::{NamedSeries, Point};
use weir_rules::{Cell, Row, Rule, rows_of};
use weir_store::{Query, QueryLimits, Store, StoreError};
use weir_tables::Micros;

/// Rows that are read of a rule's past: four weeks of some 250 subjects.
const MAX_ROWS: usize = 2_000_000;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Host and subject.
pub(super) type SeriesName = (String, String);

/// A rule's past.
#[derive(Default)]
pub(super) struct RulePast {
    /// Points by host and subject, sorted by time.
    pub(super) series: BTreeMap<SeriesName, Vec<Point>>,
    /// Spans of confirmed incidents, in seconds since 1970.
    pub(super) incidents: Vec<Range<i64>>,
}

impl RulePast {
    /// Reads the newest four weeks before `now`.
    pub(super) async fn of(store: &Store, rule: &Rule, now: Micros) -> Result<Self, StoreError> {
        let sql = format!(
            "select host, subject, cast(date_part('epoch', ts) as bigint) as at, value from measure \
             where rule = '{}' and ts > {} and ts <= {} order by host, subject, ts",
            rule.id,
            time(now - Duration::from_secs(28 * 86_400)),
            time(now)
        );
        let answer = store
            .query(Query::new(&sql).limits(QueryLimits::of_rule(MAX_ROWS, TIMEOUT)))
            .run()
            .await?;
        let mut series: BTreeMap<SeriesName, Vec<Point>> = BTreeMap::new();
        for row in rows_of(&answer.batches, MAX_ROWS) {
            let point = (number(&row, "at"), number(&row, "value"));
            if let (Some(at), Some(value)) = point
                && value.is_finite()
            {
                #[expect(clippy::cast_possible_truncation, reason = "seconds since 1970")]
                series.entry(name(&row)).or_default().push(Point { at: at as i64, value });
            }
        }
        Ok(Self { series, incidents: incidents(store, rule, now).await? })
    }

    /// The series as subjects with one name, without the incidents.
    pub(super) fn calm_subjects(&self) -> Vec<NamedSeries> {
        let calm = |points: &Vec<Point>| weir_rules::mine::without(points, &self.incidents);
        let named = self.series.iter();
        named
            .map(|(name, points)| NamedSeries { name: shown(name), points: calm(points) })
            .collect()
    }
}

/// Findings of the rule whose newest judgement is `real`, from before they began to when they
/// ended.
async fn incidents(store: &Store, rule: &Rule, now: Micros) -> Result<Vec<Range<i64>>, StoreError> {
    let since = time(now - Duration::from_secs(35 * 86_400));
    let sql = format!(
        "select cast(date_part('epoch', min(f.started_ts)) as bigint) as began, \
         cast(date_part('epoch', max(f.ts)) as bigint) as ended \
         from finding f join (select finding_id, verdict, row_number() over \
         (partition by finding_id order by ts desc) as place from judgement \
         where rule = '{id}' and ts > {since}) j on j.finding_id = f.finding_id \
         where j.place = 1 and j.verdict = 'real' and f.rule = '{id}' and f.ts > {since} \
         group by f.finding_id",
        id = rule.id
    );
    let answer =
        store.query(Query::new(&sql).limits(QueryLimits::of_rule(10_000, TIMEOUT))).run().await?;
    let spans = rows_of(&answer.batches, 10_000).into_iter().filter_map(|row| {
        let (began, ended) = (number(&row, "began")?, number(&row, "ended")?);
        // The five minutes before are those in which it began.
        #[expect(clippy::cast_possible_truncation, reason = "seconds since 1970")]
        Some(began as i64 - super::STEP_SECONDS..ended as i64 + 1)
    });
    Ok(spans.collect())
}

/// `host subject` for people.
pub(super) fn shown((host, subject): &SeriesName) -> String {
    format!("{host} {subject}")
}

pub(super) fn name(row: &Row) -> SeriesName {
    (text(row, "host"), text(row, "subject"))
}

fn text(row: &Row, column: &str) -> String {
    row.text(column).unwrap_or_default().to_owned()
}

pub(super) fn number(row: &Row, column: &str) -> Option<f64> {
    row.get(column).and_then(Cell::as_number)
}

/// A time as SQL.
pub(super) fn time(at: Micros) -> String {
    format!("timestamp '{at}'")
}
