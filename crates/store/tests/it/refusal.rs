//! Errors of the store: one message, one hint, nothing touched.

use std::path::Path;

use expect_test::{Expect, expect};
use weir_store::{ErrorKind, Query, Store, StoreOptions};
use weir_tables::{Batch, Parcel};

use crate::tool::{clock, options, parcel};

fn refused(options: StoreOptions) -> weir_store::StoreError {
    Store::open(options).err().expect("refused")
}

#[test]
fn a_directory_belongs_to_one_weir() {
    let dir = tempfile::tempdir().unwrap();
    let first = Store::open(options(dir.path())).unwrap();
    let error = refused(options(dir.path()));
    assert_eq!(error.kind, ErrorKind::Locked);
    let pid = format!("process {} has it", std::process::id());
    assert!(error.message.contains(&pid) && error.hint.is_some(), "{error}");
    drop(first);
    Store::open(options(dir.path())).unwrap();
}

#[test]
fn a_newer_layout_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("VERSION"), "2\n").unwrap();
    let error = refused(options(dir.path()));
    assert_eq!(error.kind, ErrorKind::NewerVersion);
    assert!(error.message.ends_with("its layout is version 2, this weir knows up to 1"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn rows_without_their_manifest_are_not_taken_for_a_new_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    store.append(parcel(7, 0..5)).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let before = list_data(dir.path());
    assert!(before.contains(".parquet"), "{before}");
    for name in ["manifest.sqlite", "manifest.sqlite-wal", "manifest.sqlite-shm"] {
        let _ = std::fs::remove_file(dir.path().join(name));
    }
    for _again in 0..2 {
        let error = refused(options(dir.path()));
        assert_eq!(error.kind, ErrorKind::Corrupt);
        assert!(error.message.ends_with("it is empty, but rows are beside it"), "{error}");
        assert_eq!(list_data(dir.path()), before);
    }
}

fn list_data(dir: &Path) -> String {
    let found = std::process::Command::new("find").arg(dir.join("data")).output();
    String::from_utf8(found.unwrap().stdout).unwrap()
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let error = refused(options(Path::new("/proc/weir")));
    assert_eq!(error.kind, ErrorKind::Io);
    assert!(error.message.starts_with("cannot make `/proc/weir`: "), "{error}");
}

#[tokio::test]
async fn damage_in_the_log_is_set_aside_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    for at in 0..3 {
        store.append(parcel(7, at..at + 1)).await.unwrap();
    }
    drop(store);
    let path = dir.path().join("wal/0000000000.wal");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    let stats = store.stats();
    assert_eq!((stats.lost_records, stats.hot_rows), (1, 2));
    let message = stats.message.unwrap();
    assert!(message.contains("0000000000.wal` at byte 16: "), "{message}");
    let copy = std::fs::read(dir.path().join("wal/0000000000.16.damaged")).unwrap();
    assert!(bytes[16..].starts_with(&copy), "the copy has the damaged bytes");
    // Further rows arrive, and what is damaged is gone after a flush.
    store.append(parcel(7, 3..4)).await.unwrap();
    store.flush().await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let stats = Store::open(options(dir.path())).unwrap().stats();
    assert_eq!((stats.lost_records, stats.message, stats.file_rows), (0, None, 3));
}

#[tokio::test]
async fn parcel_that_is_too_large_in_memory_is_refused_and_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    store.append(parcel(7, 0..2)).await.unwrap();
    let error = store.append_encoded(hollow_parcel()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadParcel, "{error}");
    store.append(parcel(7, 2..4)).await.unwrap();
    let stats = store.stats();
    assert_eq!((stats.hot_rows, stats.message), (4, None));
}

/// A few hundred bytes that announce a hundred million rows without a column.
fn hollow_parcel() -> Vec<u8> {
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(100_000_000));
    let schema = std::sync::Arc::new(arrow_schema::Schema::empty());
    let rows = arrow_array::RecordBatch::try_new_with_options(schema, vec![], &options).unwrap();
    let table = weir_tables::table("log").unwrap();
    Parcel { range: None, batches: vec![Batch { table, rows }] }.encode(true)
}

async fn check(sql: &str, message: Expect) {
    let store = Store::in_memory(clock());
    let error = store.query(Query::new(sql)).run().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadQuery);
    message.assert_eq(&error.to_string());
}

#[tokio::test]
async fn mistakes_in_sql_come_with_the_nearest_name() {
    check(
        "select * from requests",
        expect![[r#"
        there is no table `requests`
        hint: did you mean `request`?"#]],
    )
    .await;
    check(
        "select stauts from request",
        expect![[r#"
            there is no column `stauts`
            hint: did you mean `http_response_status_code` or `upstream_status_code`?"#]],
    )
    .await;
    check(
        "select l.boddy from log l",
        expect![[r#"
        there is no column `boddy`
        hint: did you mean `body`?"#]],
    )
    .await;
    check(
        "selec 1",
        expect![
            "cannot read the SQL: Expected: an SQL statement, found: selec at Line: 1, Column: 1"
        ],
    )
    .await;
    check(
        "select conut(1)",
        expect![[r#"
        there is no function `conut`
        hint: did you mean `count`?"#]],
    )
    .await;
    check(
        "select Time_Bucket('5 minutes', ts) from request",
        expect![[r#"
            there is no function `time_bucket`
            hint: here it is `date_bin(interval '5 minutes', ts)`"#]],
    )
    .await;
    check(
        "select nosuchfunction(1)",
        expect![[r#"
            there is no function `nosuchfunction`
            hint: `show functions` lists them"#]],
    )
    .await;
    check(
        "insert into log values (1)",
        expect![[r#"
        only queries are run, not `insert`
        hint: weir's tables are written by its collectors; begin with `select` or `with`"#]],
    )
    .await;
    check(
        "update nosuchtable set a = 1",
        expect![[r#"
        there is no table `nosuchtable`
        hint: `weir tables` lists the tables"#]],
    )
    .await;
    check(
        "delete from log",
        expect![[r#"
            only queries are run, not `delete`
            hint: weir's tables are written by its collectors; begin with `select` or `with`"#]],
    )
    .await;
    check(
        "set x = 1",
        expect![[r#"
            only queries are run, not `set`
            hint: weir's tables are written by its collectors; begin with `select` or `with`"#]],
    )
    .await;
    check(
        "select 1; select 2",
        expect!["cannot run 2 statements as one query: send them one by one"],
    )
    .await;
}
