//! Short helpers for rows, parcels and query results.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_cast::pretty::pretty_format_batches;
use weir_store::{QueryLimits, Store, StoreOptions};
use weir_tables::{Batch, FixedClock, Log, LogRows, Micros, Parcel, Rows, StreamId, StreamRange};

/// 2026-11-20T12:00:00Z.
pub(crate) const NOON: Micros = Micros(1_795_176_000_000_000);

/// A clock fixed at noon.
pub(crate) fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock::new(NOON))
}

/// A number from an environment variable that controls the tests.
pub(crate) fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Numbers drawn from a seed.
pub(crate) struct Chance(fastrand::Rng);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }
}

/// `log` rows whose offset and body are the numbers, one millisecond apart from noon on.
pub(crate) fn numbered(numbers: impl IntoIterator<Item = u64>) -> Batch {
    let mut rows = LogRows::default();
    for number in numbers {
        let body = number.to_string();
        let number = i64::try_from(number).unwrap();
        rows.push(&Log {
            ts: Micros(NOON.0 + number * 1000),
            observed_ts: NOON,
            host: "web1",
            source: "/var/log/app.log",
            source_offset: Some(number),
            body: &body,
            attrs: &[("level", "low")],
            ..Default::default()
        });
    }
    Batch { table: LogRows::SPEC, rows: rows.finish() }
}

/// Rows `from..to` of stream `stream`.
pub(crate) fn parcel(stream: u128, from: u64, to: u64) -> Parcel {
    let range = StreamRange { stream: StreamId(stream), from, to };
    Parcel { range: Some(range), batches: vec![numbered(from..to)] }
}

/// The result as a table in the format of `psql`.
pub(crate) async fn ask(store: &Store, sql: &str) -> String {
    match store.query(sql, QueryLimits::default()).await {
        Ok(answer) => pretty_format_batches(&answer.batches).unwrap().to_string(),
        Err(error) => format!("{:?}: {error}", error.kind),
    }
}

/// Options for `dir` without background work: tests trigger flushes and the like.
pub(crate) fn options(dir: &Path) -> StoreOptions {
    StoreOptions {
        maintenance_interval: Duration::from_secs(3600),
        future: Duration::from_secs(1000 * 86_400),
        ..StoreOptions::new(dir, clock())
    }
}

/// The first column of the first row, as a number.
pub(crate) async fn number(store: &Store, sql: &str) -> i64 {
    let answer = store.query(sql, QueryLimits::default()).await.unwrap();
    let rows = answer.batches.iter().find(|rows| rows.num_rows() > 0).expect("a row");
    rows.column(0).as_primitive::<Int64Type>().value(0)
}

/// Polls until the condition holds, for background work. Fails after 20 s.
pub(crate) async fn eventually(is_right: impl AsyncFnMut() -> bool) {
    within(20, is_right).await;
}

/// Polls with a longer timeout, for work that takes longer on a busy machine.
pub(crate) async fn within(seconds: u64, mut is_right: impl AsyncFnMut() -> bool) {
    let work = async {
        while !is_right().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_secs(seconds);
    tokio::time::timeout(limit, work).await.expect("it happens in time");
}

/// The sum of a metric over the executed plan.
pub(crate) async fn metric(store: &Store, sql: &str, name: &str) -> usize {
    let plan = ask(store, &format!("explain analyze {sql}")).await;
    let name = format!("{name}=");
    plan.split(&name).skip(1).map(|rest| count(rest.split([',', ']']).next().unwrap())).sum()
}

/// Parses `12`, or the abbreviations in plans: `1.25 K`, `3.00 M`.
fn count(text: &str) -> usize {
    let (number, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let zeros = match unit {
        "" => 0,
        "K" => 3,
        "M" => 6,
        unit => panic!("{unit}"),
    };
    let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
    number.replace('.', "").parse::<usize>().unwrap() * 10_usize.pow(zeros)
        / 10_usize.pow(u32::try_from(digits).unwrap())
}
