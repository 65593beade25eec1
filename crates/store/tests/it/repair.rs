//! `repair` of real damage, with queries beside it: readable rows are restored, unreadable ones
//! reported, nothing is deleted.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use weir_store::{ErrorKind, FileRepair, Query, Store, inspect, repair};
use weir_tables::{Batch, Micros, Parcel, Rows, StreamId, Sysctl, SysctlRows};

use crate::tool::{NOON, number, options, parcel};

/// 300,000 rows of `sysctl` in three row groups, 1,000 of `log` in two files.
async fn stored(dir: &Path) {
    let store = Store::open(options(dir)).unwrap();
    let mut rows = SysctlRows::default();
    for at in 0..300_000_i64 {
        let (ts, value) = (Micros(NOON.0 + at), at.to_string());
        rows.push(&Sysctl { ts, host: "web1", name: "a", value: &value, ..Default::default() });
    }
    let batch = Batch { table: SysctlRows::SPEC, rows: rows.finish() };
    store.append(Parcel { range: None, batches: vec![batch] }).await.unwrap();
    store.append(parcel(7, 0..600)).await.unwrap();
    store.flush().await.unwrap();
    store.append(parcel(7, 600..1000)).await.unwrap();
    store.close().await.unwrap();
}

fn files(dir: &Path, table: &str) -> Vec<PathBuf> {
    let day = dir.join("data").join(table).join("2026-11-20");
    let mut files: Vec<_> =
        std::fs::read_dir(day).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// A repair starts its own runtime, like the command.
async fn mend(dir: &Path) -> Vec<FileRepair> {
    let options = options(dir);
    tokio::task::spawn_blocking(move || repair(&options).unwrap()).await.unwrap()
}

fn sane(dir: &Path) {
    let found = inspect(dir, None, true).unwrap();
    assert_eq!((found.problems, found.unknown_files), (vec![], vec![]));
}

fn kept(dir: &Path, mended: &FileRepair) -> u64 {
    let place = dir.join(mended.kept_at.as_ref().expect("it is kept"));
    place.metadata().expect("it is there").len()
}

#[tokio::test]
async fn a_damaged_file_is_named_by_its_queries_only_and_its_readable_rows_are_taken_up() {
    let dir = tempfile::tempdir().unwrap();
    stored(dir.path()).await;
    let damaged = files(dir.path(), "sysctl").remove(0);
    let length = damaged.metadata().unwrap().len();
    // Damage early in the first row group.
    let file = std::fs::OpenOptions::new().write(true).open(&damaged).unwrap();
    file.write_all_at(&[0x5a; 4000], 2000).unwrap();

    let store = Store::open(options(dir.path())).unwrap();
    let sql = "select count(distinct value) from sysctl";
    let error = store.query(Query::new(sql)).run().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    assert!(error.message.contains("`data/sysctl/2026-11-20/00000000000"), "{error}");
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("weir store repair")), "{error}");
    assert_eq!(number(&store, "select count(distinct body) from log").await, 1000);
    let busy = tokio::task::spawn_blocking({
        let options = options(dir.path());
        move || repair(&options)
    });
    assert_eq!(busy.await.unwrap().unwrap_err().kind, ErrorKind::Locked);
    drop(store);

    let mended = mend(dir.path()).await;
    assert_eq!(mended.len(), 1, "{mended:?}");
    let one = &mended[0];
    let lost = one.rows_lost.unwrap();
    assert!(lost > 0 && lost <= 131_072, "{one:?}");
    assert_eq!((one.rows_taken, one.rows_known), (300_000 - lost, 0), "{one:?}");
    assert_eq!(one.times, Some((NOON, Micros(NOON.0 + 299_999))));
    assert_eq!(kept(dir.path(), one), length);
    sane(dir.path());
    let store = Store::open(options(dir.path())).unwrap();
    let rows = i64::try_from(300_000 - lost).unwrap();
    assert_eq!(number(&store, sql).await, rows);
    assert_eq!(store.positions(&[StreamId(7)]), [(StreamId(7), 1000)]);
    drop(store);
    assert!(mend(dir.path()).await.is_empty());
}

#[tokio::test]
async fn cut_off_missing_and_nameless_files_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    stored(dir.path()).await;
    let logs = files(dir.path(), "log");
    assert_eq!(logs.len(), 2);
    let sysctl = files(dir.path(), "sysctl").remove(0);
    // A copy of an existing file, and a file whose rows are gone from the table.
    std::fs::copy(&logs[0], logs[0].with_file_name("000000000900.parquet")).unwrap();
    std::fs::rename(&logs[1], logs[1].with_file_name("000000000901.parquet")).unwrap();
    std::fs::write(logs[1].with_file_name("000000000902.parquet"), "PAR1 no").unwrap();
    let length = sysctl.metadata().unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&sysctl).unwrap();
    file.set_len(length - 10).unwrap();

    let mended = mend(dir.path()).await;
    let one = |name: &str| {
        let found = mended.iter().find(|file| file.path.contains(name));
        found.unwrap_or_else(|| panic!("{name}: {mended:?}"))
    };
    assert_eq!(mended.len(), 5, "{mended:?}");
    let copy = one("000000000900");
    assert_eq!((copy.rows_taken, copy.rows_known, copy.rows_lost), (0, 600, Some(0)));
    let renamed = one("000000000901");
    assert_eq!((renamed.rows_taken, renamed.rows_known, renamed.rows_lost), (400, 0, Some(0)));
    let broken = one("000000000902");
    assert_eq!((broken.rows_taken, broken.rows_lost), (0, None));
    let missing = one(logs[1].file_name().unwrap().to_str().unwrap());
    assert_eq!((missing.rows_lost, missing.kept_at.as_deref()), (Some(400), None));
    let cut = one("sysctl");
    assert_eq!((cut.rows_taken, cut.rows_lost), (0, Some(300_000)), "{cut:?}");
    assert_eq!(kept(dir.path(), cut), length - 10);
    sane(dir.path());
    let store = Store::open(options(dir.path())).unwrap();
    assert_eq!(number(&store, "select count(distinct body) from log").await, 1000);
    assert_eq!(number(&store, "select count(*) from log").await, 1000);
    assert_eq!(number(&store, "select count(*) from sysctl").await, 0);
}

#[tokio::test]
async fn a_manifest_from_an_older_copy_is_refused_and_repaired_without_loss() {
    let dir = tempfile::tempdir().unwrap();
    stored(dir.path()).await;
    let manifest = dir.path().join("manifest.sqlite");
    let older = std::fs::read(&manifest).unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    store.append(parcel(7, 1000..1500)).await.unwrap();
    store.flush().await.unwrap();
    store.append(parcel(7, 1500..1600)).await.unwrap();
    drop(store);
    std::fs::write(&manifest, older).unwrap();
    for end in ["-wal", "-shm"] {
        drop(std::fs::remove_file(dir.path().join(format!("manifest.sqlite{end}"))));
    }
    let error = Store::open(options(dir.path())).err().expect("it would delete 500 rows");
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("weir store repair")), "{error}");
    assert_eq!(files(dir.path(), "log").len(), 3, "nothing was deleted");
    let mended = mend(dir.path()).await;
    assert_eq!(mended.len(), 1, "{mended:?}");
    assert_eq!((mended[0].rows_taken, mended[0].rows_lost), (500, Some(0)));
    let store = Store::open(options(dir.path())).unwrap();
    assert_eq!(number(&store, "select count(distinct body) from log").await, 1600);
    assert_eq!(number(&store, "select count(*) from log").await, 1600);
}
