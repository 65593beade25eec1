//! Rows in the log, in memory and in files: each appears once, whatever happens around it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use expect_test::expect;
use weir_store::{ErrorKind, Retention, Store, StoreOptions};
use weir_tables::{
    Batch, Finding, FindingRows, FixedClock, Log, LogRows, Micros, Parcel, Rows, StreamId,
};

use crate::tool::{NOON, ask, clock, eventually, number, numbered, options, parcel};

const COUNTS: &str =
    "select count(*) as n, count(distinct source_offset) as d, sum(source_offset) as sum from log";

#[tokio::test]
async fn rows_and_positions_survive_a_restart_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    store.append(parcel(7, 0..100)).await.unwrap();
    store.append_encoded(parcel(8, 5..10).encode(true)).await.unwrap();
    drop(store);

    let store = Store::open(options(dir.path())).unwrap();
    assert_eq!(store.stats().file_count, 0);
    assert_eq!(
        store.positions(&[StreamId(7), StreamId(8)]),
        [(StreamId(7), 100), (StreamId(8), 10)]
    );
    assert_eq!(number(&store, "select count(*) from log").await, 105);
    assert_eq!(store.append(parcel(7, 50..110)).await.unwrap().rows, 10);
    drop(store);

    let store = Store::open(options(dir.path())).unwrap();
    assert_eq!(number(&store, "select count(*) from log").await, 115);
}

#[tokio::test]
async fn flushed_rows_are_in_files_and_the_log_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    store.append(parcel(7, 0..1000)).await.unwrap();
    let before = ask(&store, COUNTS).await;
    store.flush().await.unwrap();
    assert_eq!(ask(&store, COUNTS).await, before);
    store.append(parcel(7, 1000..1001)).await.unwrap();

    let stats = store.stats();
    assert_eq!((stats.hot_rows, stats.file_rows, stats.file_count), (1, 1000, 1));
    store.close().await.unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    let stats = store.stats();
    assert_eq!((stats.hot_rows, stats.file_rows, stats.file_count), (0, 1001, 2));
    assert_eq!(stats.wal_bytes, 16);
    assert_eq!(store.positions(&[StreamId(7)]), [(StreamId(7), 1001)]);
    assert_eq!(number(&store, "select count(*) from log").await, 1001);
}

#[tokio::test]
async fn a_position_alone_survives_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    let blank_lines = Parcel { batches: Vec::new(), ..parcel(7, 0..30) };
    store.append(blank_lines).await.unwrap();
    store.close().await.unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    assert_eq!(store.positions(&[StreamId(7)]), [(StreamId(7), 30)]);
}

#[tokio::test]
async fn queries_see_every_row_once_while_rows_come_and_files_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let settings = StoreOptions {
        hot_bytes_max: 20_000,
        small_file_count: 3,
        gc_grace: Duration::ZERO,
        maintenance_interval: Duration::from_millis(1),
        ..StoreOptions::new(dir.path(), clock())
    };
    let store = Store::open(settings).unwrap();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let writer = {
        let (store, acknowledged) = (Arc::clone(&store), Arc::clone(&acknowledged));
        tokio::spawn(async move {
            for at in 0..300 {
                store.append(parcel(7, at * 50..(at + 1) * 50)).await.unwrap();
                acknowledged.store((at + 1) * 50, Ordering::SeqCst);
            }
        })
    };
    while !writer.is_finished() {
        let known = acknowledged.load(Ordering::SeqCst);
        let sql = format!(
            "select case when count(*) = count(distinct source_offset) and count(*) = coalesce(max(source_offset), -1) + 1
             and count(*) >= {known} then 1 else 0 end from log"
        );
        assert_eq!(number(&store, &sql).await, 1, "after {known}: {}", ask(&store, COUNTS).await);
    }
    writer.await.unwrap();
    assert_eq!(number(&store, "select count(*) from log").await, 15_000);
    assert!(store.stats().file_count > 0);
}

#[tokio::test]
async fn small_files_become_one_sorted_file_and_the_old_ones_go() {
    let dir = tempfile::tempdir().unwrap();
    let settings = StoreOptions {
        small_file_count: 5,
        gc_grace: Duration::ZERO,
        maintenance_interval: Duration::from_millis(1),
        ..StoreOptions::new(dir.path(), clock())
    };
    let store = Store::open(settings).unwrap();
    for at in (0..12).rev() {
        store
            .append(Parcel { range: None, batches: vec![numbered(at * 10..(at + 1) * 10)] })
            .await
            .unwrap();
        store.flush().await.unwrap();
    }
    eventually(async || store.stats().file_count <= 5 && parquet_count(dir.path()) <= 5).await;
    expect![[r#"
        +-----+-----+------+
        | n   | d   | sum  |
        +-----+-----+------+
        | 120 | 120 | 7140 |
        +-----+-----+------+"#]]
    .assert_eq(&ask(&store, COUNTS).await);
    let plain = ask(
        &store,
        "select source_offset from log where source_offset < 60 and source_offset > 55",
    )
    .await;
    assert!(plain.contains("56") && plain.contains("59"), "{plain}");
    store.close().await.unwrap();

    let store = Store::open(options(dir.path())).unwrap();
    assert_eq!(number(&store, "select count(*) from log").await, 120);
}

fn parquet_count(dir: &Path) -> usize {
    walk(dir).iter().filter(|path| path.ends_with(".parquet")).count()
}

#[tokio::test]
async fn old_rows_go_and_findings_stay() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let settings = StoreOptions {
        gc_grace: Duration::ZERO,
        maintenance_interval: Duration::from_millis(1),
        retention: Retention { days: 3, restorable: Duration::ZERO, ..Retention::default() },
        ..StoreOptions::new(dir.path(), Arc::clone(&clock) as Arc<_>)
    };
    let store = Store::open(settings).unwrap();
    let mut findings = FindingRows::default();
    findings.push(&Finding { ts: NOON, host: "web1", ..Default::default() });
    let finding = Batch { table: FindingRows::SPEC, rows: findings.finish() };
    store.append(Parcel { range: None, batches: vec![numbered(0..10), finding] }).await.unwrap();
    store.flush().await.unwrap();
    clock.set(NOON + Duration::from_secs(4 * 86_400));
    eventually(async || store.stats().file_count == 1).await;
    assert_eq!(number(&store, "select count(*) from log").await, 0);
    assert_eq!(number(&store, "select count(*) from finding").await, 1);
    let left = || {
        walk(dir.path()).into_iter().filter(|path| path.ends_with(".parquet")).collect::<Vec<_>>()
    };
    eventually(async || left().len() == 1).await;
    assert!(left()[0].contains("/finding/"), "{:?}", left());
}

#[tokio::test]
async fn rows_of_the_past_and_of_the_future_stay_as_long_as_others() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let settings = StoreOptions {
        gc_grace: Duration::ZERO,
        maintenance_interval: Duration::from_millis(1),
        retention: Retention { days: 3, ..Retention::default() },
        future: Duration::from_secs(86_400),
        ..StoreOptions::new(dir.path(), Arc::clone(&clock) as Arc<_>)
    };
    let store = Store::open(settings).unwrap();
    let day = 86_400_000;
    let mut rows = LogRows::default();
    for ts in [0, NOON.0, NOON.0 + 40 * 86_400_000_000] {
        rows.push(&Log { ts: Micros(ts), host: "web1", ..Default::default() });
    }
    let batch = Batch { table: LogRows::SPEC, rows: rows.finish() };
    store.append(Parcel { range: None, batches: vec![batch, numbered([day * 2])] }).await.unwrap();
    for is_filed in [false, true] {
        if is_filed {
            store.flush().await.unwrap();
        }
        assert_eq!(number(&store, "select count(*) from log").await, 2, "in files: {is_filed}");
        assert_eq!(number(&store, "select count(*) from future.log").await, 2);
        assert_eq!(number(&store, "select count(distinct ts) from log").await, 2);
        assert_eq!(store.stats().future_rows, 2);
    }
    // Their time comes, and all of them are deleted after the retention period.
    clock.set(NOON + Duration::from_secs(2 * 86_400));
    assert_eq!(number(&store, "select count(*) from log").await, 3);
    assert_eq!(store.stats().file_rows, 4);
    clock.set(NOON + Duration::from_secs(4 * 86_400));
    eventually(async || store.stats().file_count == 0).await;
}

#[tokio::test]
async fn files_do_not_grow_in_number_without_end_when_merging_lags() {
    let dir = tempfile::tempdir().unwrap();
    let settings = StoreOptions { small_file_count: 3, small_files_max: 6, ..options(dir.path()) };
    let store = Store::open(settings).unwrap();
    let mut most = 0;
    for at in 0..40 {
        store.append(parcel(7, at * 10..at * 10 + 10)).await.unwrap();
        store.flush().await.unwrap();
        most = most.max(store.stats().file_count);
    }
    assert!((4..=7).contains(&most), "{most} files");
    assert_eq!(number(&store, "select count(distinct body) from log").await, 400);
    assert_eq!(number(&store, "select count(*) from log").await, 400);
}

#[tokio::test]
async fn files_that_others_may_read_stay_for_their_time_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let settings = || StoreOptions {
        small_file_count: 3,
        maintenance_interval: Duration::from_millis(5),
        ..StoreOptions::new(dir.path(), Arc::clone(&clock) as Arc<_>)
    };
    let on_disk = || walk(&dir.path().join("data")).len();
    let store = Store::open(settings()).unwrap();
    for at in 0..4 {
        store.append(parcel(7, at * 10..at * 10 + 10)).await.unwrap();
        store.flush().await.unwrap();
    }
    eventually(async || store.stats().file_count == 1).await;
    store.close().await.unwrap();
    assert_eq!(on_disk(), 5);
    let store = Store::open(settings()).unwrap();
    assert_eq!(on_disk(), 5, "another reader may have them open by name");
    clock.set(NOON + Duration::from_secs(61));
    eventually(async || on_disk() == 1).await;
    assert_eq!(number(&store, "select count(*) from log").await, 40);
}

#[tokio::test]
async fn a_manifest_of_version_1_is_copied_and_brought_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    store.append(parcel(7, 0..10)).await.unwrap();
    store.close().await.unwrap();
    let path = dir.path().join("manifest.sqlite");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch("ALTER TABLE data_file DROP COLUMN arrival_ts; PRAGMA user_version = 1")
        .unwrap();
    drop(connection);
    assert_eq!(weir_store::inspect(dir.path(), None, true).unwrap().problems, []);
    let store = Store::open(options(dir.path())).unwrap();
    assert_eq!(number(&store, "select count(*) from log").await, 10);
    drop(store);
    assert_eq!(first_number(&path, "SELECT arrival_ts FROM data_file"), NOON.0);
    let copy = dir.path().join("manifest.sqlite.v1");
    assert_eq!(first_number(&copy, "SELECT count(*) FROM data_file"), 1);
    assert_eq!(first_number(&copy, "PRAGMA user_version"), 1);
}

fn first_number(path: &Path, sql: &str) -> i64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
}

#[tokio::test]
async fn only_files_of_the_asked_days_are_opened() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    let day = 86_400_000;
    let batches = (0..3).map(|at| numbered(at * day..at * day + 100)).collect();
    store.append(Parcel { range: None, batches }).await.unwrap();
    store.flush().await.unwrap();
    let days: Vec<String> = walk(&dir.path().join("data/log"))
        .into_iter()
        .filter(|path| path.ends_with(".parquet"))
        .collect();
    assert_eq!(days.len(), 3, "{days:?}");
    let plan =
        ask(&store, "explain select body from log where ts >= timestamp '2026-11-22T00:00:00Z'")
            .await;
    assert!(plan.contains("2026-11-22") && !plan.contains("log/2026-11-21"), "{plan}");
    assert_eq!(
        number(&store, "select count(*) from log where ts < timestamp '2026-11-21'").await,
        100
    );
}

#[tokio::test]
async fn clocks_that_are_wrong_by_years_make_few_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    let day = 86_400_000;
    store
        .append(Parcel { range: None, batches: vec![numbered((0..200).map(|at| at * day))] })
        .await
        .unwrap();
    store.flush().await.unwrap();
    assert_eq!(store.stats().file_count, 32);
    assert_eq!(number(&store, "select count(distinct ts) from log").await, 200);
}

#[tokio::test]
async fn the_first_and_the_last_instant_are_rows_like_others() {
    let dir = tempfile::tempdir().unwrap();
    // By this clock no row is in the future.
    let settings = || StoreOptions {
        clock: Arc::new(FixedClock::new(Micros(i64::MAX))),
        ..options(dir.path())
    };
    let store = Store::open(settings()).unwrap();
    let mut rows = LogRows::default();
    for ts in [i64::MIN, 0, i64::MAX] {
        rows.push(&Log { ts: Micros(ts), host: "web1", ..Default::default() });
    }
    let batch = Batch { table: LogRows::SPEC, rows: rows.finish() };
    store.append(Parcel { range: None, batches: vec![batch] }).await.unwrap();
    store.flush().await.unwrap();
    assert_eq!(store.stats().file_count, 3);
    assert_eq!(number(&store, "select count(distinct cast(ts as bigint)) from log").await, 3);
    store.close().await.unwrap();
    let store = Store::open(settings()).unwrap();
    assert_eq!(number(&store, "select count(*) from log").await, 3);
}

#[tokio::test]
async fn rows_of_an_older_or_newer_agent_are_fitted_by_name() {
    let store = Store::in_memory(clock());
    let full = numbered(0..2).rows;
    let schema = full.schema();
    let keep: Vec<usize> = (0..schema.fields().len())
        .rev()
        .filter(|at| schema.field(*at).name() != "severity")
        .collect();
    let older = Batch { table: LogRows::SPEC, rows: full.project(&keep).unwrap() };
    store.append(Parcel { range: None, batches: vec![older] }).await.unwrap();
    assert_eq!(
        number(&store, "select count(*) from log where severity is null and body = '1'").await,
        1
    );

    let without_body: Vec<usize> =
        keep.into_iter().filter(|at| schema.field(*at).name() != "body").collect();
    let broken = Batch { table: LogRows::SPEC, rows: full.project(&without_body).unwrap() };
    let error = store.append(Parcel { range: None, batches: vec![broken] }).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadParcel);
    assert!(error.message.contains("`log`") && error.message.contains("body"), "{error}");
}

#[tokio::test]
async fn hot_rows_are_flushed_by_age() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let settings = StoreOptions::new(dir.path(), Arc::clone(&clock) as Arc<_>);
    let store = Store::open(settings).unwrap();
    store.append(parcel(7, 0..10)).await.unwrap();
    clock.set(Micros(NOON.0 + 301_000_000));
    eventually(async || store.stats().file_rows == 10).await;
    assert_eq!(number(&store, "select count(*) from log").await, 10);
}

/// Every file below `dir`.
/// Every file below `dir`.
pub(crate) fn walk(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut files = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push(path.to_string_lossy().into_owned());
        }
    }
    files
}

#[tokio::test]
async fn manifest_that_cannot_be_written_costs_no_file_and_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    store.append(parcel(1, 0..1000)).await.unwrap();
    let other = rusqlite::Connection::open(dir.path().join("manifest.sqlite")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.flush().await.expect_err("somebody else has the manifest");
    assert!(error.to_string().contains("manifest.sqlite"), "{error}");
    let written = walk(&dir.path().join("data"));
    assert_eq!(written.len(), 1, "what the manifest may know after a loss of power stays");
    assert_eq!(number(&store, "select count(*) from log").await, 1000);
    other.execute_batch("ROLLBACK").unwrap();
    store.flush().await.unwrap();
    assert_eq!(walk(&dir.path().join("data")), written, "the same files, not written again");
    assert_eq!(number(&store, "select count(*) from log").await, 1000);
    drop(store);
    let store = Store::open(options(dir.path())).unwrap();
    assert_eq!(number(&store, "select count(*) from log").await, 1000);
}
