//! Copies: every row once, in order, from a position that survives restarts, while the log retains
//! the rows.

use std::path::Path;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use weir_store::{Copy, CopyOptions, ErrorKind, Store, StoreOptions};
use weir_tables::{LogPosition, LogRows, Rows, SysctlRows};

use crate::tool::{clock, options, parcel};

fn asked(condition: Option<&str>) -> CopyOptions {
    CopyOptions {
        name: "one".into(),
        table: LogRows::SPEC,
        condition: condition.map(str::to_owned),
        keep_bytes: 1 << 30,
    }
}

fn with_copy(dir: &Path) -> StoreOptions {
    StoreOptions { copies: Some(vec!["one".into()]), ..options(dir) }
}

/// Row offsets and their log positions, until nothing arrives.
fn read(copy: &mut Copy) -> (Vec<i64>, Vec<LogPosition>, LogPosition) {
    let (mut offsets, mut places, mut next) = (Vec::new(), Vec::new(), copy.position());
    while let Some(piece) = copy.read(Duration::from_millis(20)).unwrap() {
        assert_eq!(piece.lost_records, 0);
        let column = piece.rows.column_by_name("source_offset").unwrap();
        offsets.extend(column.as_primitive::<Int64Type>().values());
        places.extend(piece.places);
        next = piece.next;
    }
    (offsets, places, next)
}

fn segments(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("wal")).unwrap().count()
}

#[tokio::test]
async fn a_copy_goes_on_where_it_was_over_flushes_and_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(with_copy(dir.path())).unwrap();
    store.append(parcel(7, 0..10)).await.unwrap();
    let mut copy = store.copy(&asked(None)).unwrap();
    assert!(read(&mut copy).0.is_empty(), "a new copy begins with what comes");
    store.append(parcel(7, 10..1500)).await.unwrap();
    store.flush().await.unwrap();
    store.append(parcel(7, 1500..1510)).await.unwrap();
    let (offsets, places, end) = read(&mut copy);
    assert_eq!(offsets, (10..1510).collect::<Vec<i64>>());
    assert!(places.is_sorted() && places.windows(2).all(|pair| pair[0] != pair[1]));
    copy.plan(places[1200]).unwrap();
    copy.done(places[700]).unwrap();
    let epoch = copy.epoch();
    drop(copy);
    store.close().await.unwrap();

    assert!(segments(dir.path()) > 1, "the log is kept for the copy");
    let store = Store::open(with_copy(dir.path())).unwrap();
    let mut copy = store.copy(&asked(None)).unwrap();
    assert_eq!((copy.position(), copy.planned()), (places[700], Some(places[1200])));
    assert_eq!(copy.epoch(), epoch);
    let again = read(&mut copy);
    assert_eq!((again.0, &again.1[..]), ((710..1510).collect(), &places[700..]), "the same places");
    assert!(copy.lag_bytes() > 0 && !copy.is_over(), "it is read and not copied");
    copy.done(end).unwrap();
    assert_eq!(copy.lag_bytes(), 0);
    assert_eq!(copy.planned(), None);
    drop(copy);
    store.close().await.unwrap();
    assert_eq!(segments(dir.path()), 1, "nobody needs the rest");
}

#[tokio::test]
async fn a_copy_that_is_not_configured_any_more_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(with_copy(dir.path())).unwrap();
    drop(store.copy(&asked(None)).unwrap());
    store.append(parcel(7, 0..10)).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(segments(dir.path()), 2);
    let store = Store::open(options(dir.path())).unwrap();
    assert_eq!(segments(dir.path()), 2, "who does not say leaves it as it is");
    store.close().await.unwrap();
    let none = StoreOptions { copies: Some(Vec::new()), ..options(dir.path()) };
    let store = Store::open(none).unwrap();
    assert_eq!(segments(dir.path()), 1);
    store.append(parcel(7, 10..20)).await.unwrap();
    assert!(read(&mut store.copy(&asked(None)).unwrap()).0.is_empty(), "it begins anew");
}

#[tokio::test]
async fn conditions_choose_rows_and_keep_their_places() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(with_copy(dir.path())).unwrap();
    let mut copy = store.copy(&asked(Some("log.source_offset % 3 = 0"))).unwrap();
    let other =
        weir_tables::Batch { table: SysctlRows::SPEC, rows: SysctlRows::default().finish() };
    let mut both = parcel(7, 0..7);
    both.batches.insert(0, other);
    store.append(both).await.unwrap();
    let (offsets, places, _) = read(&mut copy);
    assert_eq!(offsets, [0, 3, 6]);
    assert_eq!(places.iter().map(|place| place.row).collect::<Vec<_>>(), [0, 3, 6]);
    for (condition, part) in [
        ("body", "is not a condition"),
        ("nobody = 'x'", "there is no column `nobody`"),
        ("body = (select max(body) from log)", ""),
        ("ts > now()", "`now`, which changes by itself"),
        ("count(*) > 1", "aggregate functions"),
    ] {
        let error = store.check_condition(LogRows::SPEC, condition).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadQuery, "{condition}");
        assert!(error.message.contains(part), "{condition}: {error}");
    }
    let error = Store::in_memory(clock()).copy(&asked(None)).err().unwrap();
    assert_eq!(error.kind, ErrorKind::BadQuery);
}

#[tokio::test]
async fn a_segment_that_is_gone_is_passed_over_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(with_copy(dir.path())).unwrap();
    drop(store.copy(&asked(None)).unwrap());
    for at in 0..3 {
        store.append(parcel(7, at * 10..at * 10 + 10)).await.unwrap();
        store.flush().await.unwrap();
    }
    store.close().await.unwrap();
    std::fs::remove_file(dir.path().join("wal/0000000000.wal")).unwrap();
    let store = Store::open(with_copy(dir.path())).unwrap();
    let mut copy = store.copy(&asked(None)).unwrap();
    let first = copy.read(Duration::ZERO).unwrap().unwrap();
    assert_eq!((first.lost_records, first.rows.num_rows()), (1, 10));
    assert_eq!(read(&mut copy).0, (20..30).collect::<Vec<i64>>());
}

/// A directory whose copy has read none of 30 rows in files and 10 in the log.
async fn with_backlog(dir: &Path) {
    let store = Store::open(with_copy(dir)).unwrap();
    store.append(parcel(7, 0..10)).await.unwrap();
    drop(store.copy(&asked(None)).unwrap());
    for at in 1..3 {
        store.append(parcel(7, at * 10..at * 10 + 10)).await.unwrap();
        store.flush().await.unwrap();
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn changed_position_is_reported_and_loses_no_row() {
    let dir = tempfile::tempdir().unwrap();
    with_backlog(dir.path()).await;
    for change in [
        "sequence = sequence + 2",
        "sequence = sequence | (1 << 40)",
        "row = row + 1",
        "planned_row = planned_row + 4",
        "planned_sequence = planned_sequence + 1",
        "epoch = epoch + 1",
        "name = 'onf'",
    ] {
        let case = dir.path().join("case");
        crate::rot::copy(dir.path(), &case);
        let manifest = rusqlite::Connection::open(case.join("manifest.sqlite")).unwrap();
        let sum = "SELECT checksum FROM copy_checksum WHERE name = 'one'";
        assert!(manifest.query_row(sum, [], |row| row.get::<_, i64>(0)).is_ok());
        manifest.execute(&format!("UPDATE copy_position SET {change}"), []).unwrap();
        drop(manifest);
        let store = Store::open(with_copy(&case)).unwrap();
        let message = store.stats().message.unwrap();
        let expected = "the position of the output `one` changed after writing";
        assert!(message.contains(expected), "{change}: {message}");
        let mut copy = store.copy(&asked(None)).unwrap();
        assert_eq!(read(&mut copy).0, (0..30).collect::<Vec<i64>>(), "{change}");
        drop(copy);
        store.close().await.unwrap();
        let again = Store::open(with_copy(&case)).unwrap();
        assert_eq!(again.stats().message, None, "{change}");
        drop(again);
        std::fs::remove_dir_all(&case).unwrap();
    }
}

#[tokio::test]
async fn position_that_an_older_weir_wrote_has_no_checksum() {
    let dir = tempfile::tempdir().unwrap();
    with_backlog(dir.path()).await;
    let manifest = rusqlite::Connection::open(dir.path().join("manifest.sqlite")).unwrap();
    let old =
        "INSERT OR REPLACE INTO copy_position SELECT name, epoch, 2, 0, 2, 0 FROM copy_position";
    manifest.execute(old, []).unwrap();
    drop(manifest);
    let store = Store::open(with_copy(dir.path())).unwrap();
    assert_eq!(store.stats().message, None);
    assert_eq!(read(&mut store.copy(&asked(None)).unwrap()).0, (20..30).collect::<Vec<i64>>());
}

#[tokio::test]
async fn changed_head_of_an_empty_segment_loses_no_row_of_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    with_backlog(dir.path()).await;
    let newest = dir.path().join("wal/0000000002.wal");
    assert_eq!(std::fs::metadata(&newest).unwrap().len(), 16);
    for bit in 0..16 * 8 {
        let case = dir.path().join("case");
        crate::rot::copy(dir.path(), &case);
        let place = case.join("wal/0000000002.wal");
        let mut head = std::fs::read(&place).unwrap();
        head[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&place, head).unwrap();
        let store = Store::open(with_copy(&case)).unwrap();
        store.append(parcel(7, 30..40)).await.unwrap();
        let mut copy = store.copy(&asked(None)).unwrap();
        let (mut offsets, mut lost) = (Vec::new(), 0);
        while let Some(piece) = copy.read(Duration::from_millis(5)).unwrap() {
            let column = piece.rows.column_by_name("source_offset").unwrap();
            offsets.extend(column.as_primitive::<Int64Type>().values().iter().copied());
            lost += piece.lost_records;
        }
        assert_eq!(offsets, (10..40).collect::<Vec<i64>>(), "bit {bit}");
        // What looks like missing records is reported.
        assert!(lost == 0 || store.stats().message.is_some(), "bit {bit}");
        drop((copy, store));
        std::fs::remove_dir_all(&case).unwrap();
    }
}
