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
