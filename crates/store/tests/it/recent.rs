//! Watched conditions return false only when the query has no row.

use std::sync::Arc;
use std::time::Duration;

use weir_store::{ConditionWatch, Query, Store, StoreOptions};
use weir_tables::{Batch, FixedClock, Log, LogRows, Micros, Parcel, Rows};

use crate::tool::{NOON, options};

const SQL: &str = "select 1 from log where body like '%bad%' and ts > $now - interval '10 seconds' and ts <= $now limit 1";

fn line(second: u64, body: &str) -> Batch {
    let mut rows = LogRows::default();
    rows.push(&Log { ts: at(second), host: "web1", source: "a", body, ..Default::default() });
    Batch { table: LogRows::SPEC, rows: rows.finish() }
}

fn at(second: u64) -> Micros {
    NOON + Duration::from_secs(second)
}

async fn append(store: &Store, second: u64, body: &str) {
    let parcel = Parcel { range: None, batches: vec![line(second, body)] };
    store.append(parcel).await.unwrap();
}

/// Seconds of `0..60` at which the query has a row; the watch must not return false there.
async fn fitting(store: &Store, recent: &ConditionWatch) -> Vec<u64> {
    let mut fitting = Vec::new();
    for second in 0..60 {
        let sql = SQL.replace("$now", &format!("timestamp '{}'", at(second)));
        let answer = store.query(Query::new(&sql)).run().await.unwrap();
        let may_have = store.may_have(recent, at(second)).await.unwrap();
        if answer.row_count() > 0 {
            assert!(may_have, "second {second}");
            fitting.push(second);
        }
    }
    fitting
}

#[tokio::test]
async fn rows_of_before_and_after_and_of_an_earlier_run_are_seen() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(FixedClock::new(NOON));
    let open = || {
        let clock = Arc::<FixedClock>::clone(&clock);
        Store::open(StoreOptions { clock, ..options(dir.path()) }).unwrap()
    };
    let store = open();
    append(&store, 3, "bad before it is watched").await;
    store.flush().await.unwrap();
    append(&store, 5, "good").await;
    let recent = store.watch(SQL).unwrap();
    assert!(recent.says_all());
    assert!(store.may_have(&recent, at(12)).await.unwrap());
    assert!(!store.may_have(&recent, at(13)).await.unwrap(), "the second 3 is ten seconds ago");
    append(&store, 20, "good").await;
    assert!(!store.may_have(&recent, at(20)).await.unwrap());
    append(&store, 21, "bad after it").await;
    assert!(store.may_have(&recent, at(22)).await.unwrap());
    // The clock went back: rows outside every window matter again.
    append(&store, 8, "bad and late").await;
    let expected: Vec<u64> = (3..18).chain(21..31).collect();
    assert_eq!(fitting(&store, &recent).await, expected);
    store.close().await.unwrap();
    drop(store);

    let store = open();
    let recent = store.watch(SQL).unwrap();
    assert_eq!(fitting(&store, &recent).await, expected);
    assert!(!store.may_have(&recent, at(59)).await.unwrap());
}

#[tokio::test]
async fn rows_far_ahead_of_the_clock_keep_no_condition_awake() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { future: Duration::from_secs(3600), ..options(dir.path()) };
    let store = Store::open(options).unwrap();
    let recent = store.watch(SQL).unwrap();
    assert!(!store.may_have(&recent, at(0)).await.unwrap());
    append(&store, 100_000, "bad").await;
    assert!(!store.may_have(&recent, at(1)).await.unwrap());
    append(&store, 2, "bad").await;
    assert!(store.may_have(&recent, at(3)).await.unwrap());
}

#[tokio::test]
async fn condition_that_fails_is_left_to_the_query_and_rows_come_in() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    let sql = "select 1 from log where 10 / length(body) > 2 and ts > $now - interval '10 seconds' and ts <= $now limit 1";
    let recent = store.watch(sql).unwrap();
    assert!(!store.may_have(&recent, at(0)).await.unwrap());
    append(&store, 1, "four").await;
    assert!(!store.may_have(&recent, at(2)).await.unwrap());
    append(&store, 2, "").await;
    assert!(store.may_have(&recent, at(3)).await.unwrap() && !recent.says_all());
    let asked = sql.replace("$now", &format!("timestamp '{}'", at(3)));
    let answer = store.query(Query::new(&asked)).run().await;
    assert!(answer.unwrap_err().to_string().contains("ivide by zero"));
    assert!(store.may_have(&recent, at(100)).await.unwrap());
}
