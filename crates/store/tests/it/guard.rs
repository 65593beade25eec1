//! Limits of a single query, and the resources left to the others.

use std::time::Duration;

use weir_store::{Asker, ErrorKind, Query, QueryEnd, QueryLimits, Store, StoreError, StoreOptions};

use crate::tool::{clock, eventually, number, options, parcel};

const GROUPS: &str = "select count(*) from (select (value * 7919) % 1000003 as k, count(*) from generate_series(1, 1000000) group by 1)";
const JOIN: &str =
    "select count(*) from generate_series(1, 2000000) a join generate_series(1, 2000000) b
    on a.a = b.b";
/// A cross join, which buffers one side in memory.
const CROSS: &str = "select sum(a.a * b.b) from generate_series(1, 2000000) a
    cross join generate_series(1, 2000000) b";
const ENDLESS: &str =
    "select count(*) from generate_series(1, 1000000) a cross join generate_series(1, 1000000) b
    where a.a % 7 = b.b % 11";

/// Records every ended query.
fn all_told(dir: &std::path::Path) -> StoreOptions {
    StoreOptions { slow_query: Duration::ZERO, ..options(dir) }
}

fn small() -> QueryLimits {
    QueryLimits { memory_bytes: 8 << 20, ..QueryLimits::default() }
}

async fn refused(store: &Store, sql: &str, limits: QueryLimits) -> StoreError {
    let error = store.query(Query::new(sql).limits(limits)).run().await.expect_err(sql);
    assert_eq!(error.kind, ErrorKind::QueryLimit, "{error}");
    assert!(error.hint.is_some(), "{error}");
    error
}

fn spilled_files(dir: &std::path::Path) -> usize {
    std::fs::read_dir(dir.join("spill")).unwrap().count()
}

#[tokio::test]
async fn grouping_that_does_not_fit_into_memory_goes_on_on_disk_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(all_told(dir.path())).unwrap();
    let answer = store.query(Query::new(GROUPS).caller("ann").limits(small())).run().await.unwrap();
    assert_eq!(answer.row_count(), 1);
    let (ended, dropped) = store.take_ended_queries();
    assert_eq!((ended.len(), dropped), (1, 0));
    let told = &ended[0];
    assert_eq!(
        (told.end, told.asker, told.user.as_str()),
        (QueryEnd::Answered, Asker::User, "ann")
    );
    assert!(told.spilled_bytes > 1 << 20, "{told:?}");
    assert!(told.memory_bytes > 0 && told.memory_bytes <= 12 << 20, "{told:?}");
    assert!(told.cpu > Duration::from_millis(10), "{told:?}");
    assert!(told.cpu < told.duration * 8, "{told:?}");
    assert_eq!(spilled_files(dir.path()), 0);
    let sorted = "select count(*) filter (where value < before) from (select value, lag(value) over (order by value) as before
        from (select value from generate_series(1, 500000) order by (value * 7919) % 500009))";
    assert_eq!(number(&store, sorted).await, 0);
    assert!(store.take_ended_queries().0.iter().all(|query| query.spilled_bytes == 0));
}

#[tokio::test]
async fn sorting_on_disk_gives_the_same_order_as_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(all_told(dir.path())).unwrap();
    let sql = "select value, (value * 7919) % 300007 as place, repeat('x', 100) as pad
        from generate_series(1, 600000) order by place, value";
    let limits = QueryLimits { rows: 700_000, answer_bytes: 256 << 20, ..QueryLimits::default() };
    let in_memory = store.query(Query::new(sql).limits(limits)).run().await.unwrap();
    let on_disk = store
        .query(Query::new(sql).limits(QueryLimits { memory_bytes: 64 << 20, ..limits }))
        .run()
        .await
        .unwrap();
    let (ended, _) = store.take_ended_queries();
    assert!(ended[1].spilled_bytes > 0, "{ended:?}");
    assert!(whole(&in_memory) == whole(&on_disk));
}

fn whole(answer: &weir_store::QueryResult) -> arrow_array::RecordBatch {
    arrow_select::concat::concat_batches(&answer.schema, &answer.batches).unwrap()
}

#[tokio::test]
async fn each_limit_ends_a_query_with_its_own_words() {
    let dir = tempfile::tempdir().unwrap();
    let settings = StoreOptions { query_spill_bytes: 1 << 20, ..all_told(dir.path()) };
    let store = Store::open(settings).unwrap();
    store.append(parcel(7, 0..50_000)).await.unwrap();
    store.flush().await.unwrap();

    // The inputs of a join may spill as well: with disk space, only memory is missing.
    let roomy = tempfile::tempdir().unwrap();
    let with_room = Store::open(all_told(roomy.path())).unwrap();
    let error = refused(&with_room, CROSS, small()).await;
    assert!(error.message.contains("more than 8 MiB of memory"), "{error}");
    assert_eq!(with_room.take_ended_queries().0[0].end, QueryEnd::Memory);
    eventually(async || spilled_files(roomy.path()) == 0).await;
    let error = refused(&store, GROUPS, small()).await;
    assert!(error.message.contains("used up its spill space on disk"), "{error}");
    let limits = QueryLimits { timeout: Duration::from_millis(200), ..QueryLimits::default() };
    let error = refused(&store, ENDLESS, limits).await;
    assert!(error.message.contains("stopped after 0.2 s"), "{error}");
    let limits = QueryLimits { read_bytes: 10_000, ..QueryLimits::default() };
    let error = refused(&store, "select body from log", limits).await;
    assert!(error.message.contains("stopped at 9.7 KiB read"), "{error}");
    let limits = QueryLimits { answer_bytes: 10_000, ..QueryLimits::default() };
    let error = refused(&store, "select body, source from log", limits).await;
    assert!(error.message.contains("larger than 9.7 KiB"), "{error}");

    let (ended, _) = store.take_ended_queries();
    let ends: Vec<QueryEnd> = ended.iter().map(|query| query.end).collect();
    use QueryEnd::{Answer, Read, Spill, Time};
    assert_eq!(ends, [Spill, Time, Read, Answer], "{ended:?}");
    assert!(ended[2].read_bytes > 10_000 && ended[2].reads > 0, "{ended:?}");
    assert_eq!(spilled_files(dir.path()), 0);
    assert_eq!(number(&store, "select count(*) from log").await, 50_000);
}

#[tokio::test]
async fn what_a_users_queries_read_within_an_hour_is_limited_and_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        StoreOptions { user_read_bytes: 3_000_000, column_cache_bytes: 0, ..all_told(dir.path()) };
    let store = Store::open(settings).unwrap();
    store.append(parcel(7, 0..50_000)).await.unwrap();
    store.flush().await.unwrap();
    let limits = QueryLimits { rows: 50_000, ..QueryLimits::default() };
    let sql = "select body from log where body <> 'nothing'";
    let mut answered = 0;
    let error = loop {
        match store.query(Query::new(sql).caller("ann").limits(limits)).run().await {
            Ok(_) => answered += 1,
            Err(error) => break error,
        }
        assert!(answered < 200, "nothing ends them");
    };
    let text = "queries of `ann` may read 2.8 MiB from files within an hour, this one needs more";
    assert_eq!(error.message, text);
    assert!(error.hint.is_some_and(|hint| hint.contains("api.user_read_bytes")));
    store.query(Query::new(sql).caller("ann").limits(limits)).run().await.unwrap_err();
    let (ended, _) = store.take_ended_queries();
    let read: u64 = ended[..answered].iter().map(|query| query.read_bytes).sum();
    assert!(read <= 3_000_000 && ended[answered].end == QueryEnd::UserRead, "{ended:?}");
    assert!(answered > 0, "one alone may read less");
    store.query(Query::new(sql).caller("bob").limits(limits)).run().await.unwrap();
    // Queries without a user have no such limit.
    for _ in 0..=answered {
        store.query(Query::new(sql).limits(limits)).run().await.unwrap();
    }
}

#[tokio::test]
async fn a_query_may_not_have_more_memory_than_all_together() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        StoreOptions { query_memory_bytes: 8 << 20, query_spill_bytes: 0, ..options(dir.path()) };
    let store = Store::open(settings).unwrap();
    refused(&store, JOIN, QueryLimits::default()).await;
    let error = refused(&store, GROUPS, QueryLimits::default()).await;
    assert!(error.message.contains("of memory"), "{error}");
    assert!(!dir.path().join("spill").exists());
}

#[tokio::test]
async fn rows_come_in_and_rules_run_while_users_keep_every_thread_busy() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(all_told(dir.path())).unwrap();
    let busy: Vec<_> = (0..6)
        .map(|_| {
            let store = std::sync::Arc::clone(&store);
            tokio::spawn(async move { store.query(Query::new(ENDLESS)).run().await })
        })
        .collect();
    tokio::time::timeout(Duration::from_secs(20), async {
        for at in 0..20 {
            store.append(parcel(7, at * 100..(at + 1) * 100)).await.unwrap();
            let rule = QueryLimits::of_rule(10, Duration::from_secs(10));
            let answer = store
                .query(Query::new("select count(*) from log").limits(rule))
                .run()
                .await
                .unwrap();
            assert_eq!(answer.row_count(), 1);
        }
    })
    .await
    .expect("neither waits for the queries of users");
    busy.iter().for_each(tokio::task::JoinHandle::abort);
    let mut cancelled = 0;
    eventually(async || {
        let (ended, _) = store.take_ended_queries();
        cancelled += ended.iter().filter(|query| query.end == QueryEnd::Cancelled).count();
        cancelled == 6
    })
    .await;
}

#[tokio::test]
async fn only_slow_and_stopped_queries_are_told_and_what_a_kill_left_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let slow = StoreOptions { slow_query: Duration::from_secs(60), ..options(dir.path()) };
    let store = Store::open(slow.clone()).unwrap();
    number(&store, "select count(*) from log").await;
    assert!(store.query(Query::new("select nothing")).run().await.is_err());
    assert!(store.take_ended_queries().0.is_empty());
    drop(store);
    std::fs::write(dir.path().join("spill/77.arrow"), "left").unwrap();
    let store = Store::open(slow).unwrap();
    assert_eq!(spilled_files(dir.path()), 0);
    let limits = QueryLimits { timeout: Duration::from_millis(50), ..QueryLimits::default() };
    refused(&store, ENDLESS, limits).await;
    let (ended, _) = store.take_ended_queries();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].ts, weir_tables::Clock::now(&*clock()));
}
