//! Rows of a running query, batch by batch.

use std::time::Duration;

use weir_store::{ErrorKind, Query, QueryEnd, QueryLimits, Store, StoreOptions};

use crate::tool::{eventually, options};

const ROWS: usize = 3_000_000;
const SERIES: &str = "select value from generate_series(1, 3000000)";

fn open(dir: &std::path::Path) -> std::sync::Arc<Store> {
    let told = StoreOptions { slow_query: Duration::ZERO, ..options(dir) };
    Store::open(told).unwrap()
}

fn unlimited(timeout: Duration) -> QueryLimits {
    QueryLimits { rows: usize::MAX, timeout, ..QueryLimits::default() }
}

#[tokio::test]
async fn a_query_waits_for_its_reader_within_its_time_and_ends_with_its_stream() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let patient = Duration::from_secs(30);
    let query = Query::new(SERIES).caller("ann").limits(unlimited(patient));
    let mut stream = store.query(query.clone()).stream().await.unwrap();
    let mut rows = 0;
    while let Some(batch) = stream.next().await.unwrap() {
        assert!(store.take_ended_queries().0.is_empty(), "it is running until its end");
        rows += batch.num_rows();
    }
    assert_eq!(rows, ROWS);
    assert!(!stream.is_truncated() && !stream.elapsed().is_zero());
    assert!(stream.next().await.unwrap().is_none());
    let ended = store.take_ended_queries().0;
    assert_eq!((ended[0].end, ended[0].rows), (QueryEnd::Answered, ROWS as u64));

    let mut stream = store.query(query).stream().await.unwrap();
    assert!(stream.next().await.unwrap().is_some());
    drop(stream);
    let ended = store.take_ended_queries().0;
    assert_eq!((ended[0].end, ended[0].user.as_str()), (QueryEnd::Cancelled, "ann"));
}

#[tokio::test]
async fn a_reader_that_stalls_ends_the_query() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let limits = unlimited(Duration::from_millis(500));
    let mut stream = store.query(Query::new(SERIES).limits(limits)).stream().await.unwrap();
    assert!(stream.next().await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut batches = 0;
    let error = loop {
        match stream.next().await {
            Ok(batch) => assert!(batch.is_some(), "a part is not the whole result"),
            Err(error) => break error,
        }
        batches += 1;
    };
    assert!(batches <= 2, "{batches} batches were made ahead of the reader");
    assert_eq!(error.kind, ErrorKind::QueryLimit, "{error}");
    assert!(error.message.contains("stopped after 0.5 s"), "{error}");
    let mut ends = Vec::new();
    eventually(async || {
        ends.extend(store.take_ended_queries().0.iter().map(|query| query.end));
        ends == [QueryEnd::Time]
    })
    .await;
}
