//! Files in the cold tier: the same results wherever files are, and no loss when the tier is
//! missing, full or foreign.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_store::{
    ErrorKind, Query, Retention, SlowOptions, SlowPlace, SlowRule, Store, StoreOptions, backup,
    inspect, repair, restore,
};
use weir_tables::{FixedClock, Micros, Parcel};

use crate::full::SmallDisk;
use crate::text_index::{batch, id};
use crate::tool::{NOON, ask, eventually, metric, number, options, parcel};

const DAY: i64 = 86_400_000_000;

pub(crate) fn place(root: &Path) -> SlowOptions {
    SlowOptions::new(SlowPlace::Directory(root.to_owned()))
}

/// Moves files older than `after`, without delay.
fn moving(dir: &Path, slow: &Path, after: Duration) -> StoreOptions {
    let rule = SlowRule { after, ..SlowRule::default() };
    StoreOptions {
        maintenance_interval: Duration::from_millis(1),
        gc_grace: Duration::ZERO,
        slow: Some(SlowOptions { rule, ..place(slow) }),
        ..options(dir)
    }
}

/// Options under which no file moves by itself.
fn resting(dir: &Path, slow: &Path) -> StoreOptions {
    StoreOptions { slow: Some(place(slow)), ..options(dir) }
}

struct Dirs {
    _dir: tempfile::TempDir,
    data: PathBuf,
    slow: PathBuf,
}

fn dirs() -> Dirs {
    let dir = tempfile::tempdir().unwrap();
    let (data, slow) = (dir.path().join("data"), dir.path().join("slow"));
    Dirs { _dir: dir, data, slow }
}

/// Data files below a directory.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let days = list_dir(root.join("data")).into_iter().flat_map(list_dir);
    days.flat_map(list_dir).collect()
}

fn list_dir(dir: PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
}

/// Opens the store until all `count` files are in the cold tier, and only there.
async fn move_all(dirs: &Dirs, count: usize) {
    let store = Store::open(moving(&dirs.data, &dirs.slow, Duration::ZERO)).unwrap();
    eventually(async || files(&dirs.slow).len() == count && files(&dirs.data).is_empty()).await;
    assert_eq!(store.stats().message, None);
    store.close().await.unwrap();
}

/// Inserts rows of `log`, all in one file.
async fn fill(dirs: &Dirs, rows: u64) {
    let store = Store::open(options(&dirs.data)).unwrap();
    store.append(parcel(1, 0..rows)).await.unwrap();
    store.close().await.unwrap();
}

/// Queries of every kind: by the text index, from the end, by distinct values, by groups.
fn questions() -> Vec<String> {
    let needle = id(23_456);
    let rows = "ts, host, url_path, request_id, http_response_status_code";
    vec![
        "select count(*), min(ts), max(ts) from request".into(),
        "select tier, count(*), count(distinct url_path), max(request_id) from request group by 1".into(),
        format!("select {rows} from request where request_id = '{needle}'"),
        format!("select {rows} from request where url_path like '%tretch7%' order by ts"),
        "select count(*) from request where search('stretch3 -museum')".into(),
        "select count(*) from request where has_token(url_path, 'stretch9')".into(),
        "select count(*) from request where url_path ~ 'art.stretch[0-4]'".into(),
        "select count(*) from request where request_id = 'nowhere'".into(),
        format!("select {rows} from request order by ts desc limit 100"),
        format!("select {rows} from request where http_response_status_code = 203 order by ts desc limit 7"),
        "select url_path, count(*) from request where upper(url_path) like '%CART%' group by 1 order by 2 desc, 1 limit 20".into(),
        "select date_trunc('minute', ts) as at, http_response_status_code, count(*) from request group by 1, 2 order by 1, 2".into(),
        "select date_trunc('minute', ts) as at, count(*) from request group by 1 order by 1".into(),
        "select * from request where ts >= timestamp '2026-11-20T12:00:20Z' and ts < timestamp '2026-11-20T12:00:20.050Z' order by ts".into(),
        "select a.ts from request a join request b on a.request_id = b.request_id where a.http_response_status_code = 200 order by 1 limit 9".into(),
    ]
}

#[tokio::test]
async fn every_kind_of_question_has_the_same_answer_wherever_files_are() {
    let dirs = dirs();
    let clock = Arc::new(FixedClock::new(NOON));
    let of = |after| {
        let clock = Arc::clone(&clock);
        StoreOptions { clock, ..moving(&dirs.data, &dirs.slow, after) }
    };
    let store = Store::open(of(Duration::MAX)).unwrap();
    for part in 0..3 {
        clock.set(Micros(NOON.0 + part * DAY));
        let from = part.unsigned_abs() * 14_000;
        let rows = batch(from..from + 14_000);
        store.append(Parcel { range: None, batches: vec![rows] }).await.unwrap();
        store.flush().await.unwrap();
    }
    let mut before = Vec::new();
    for sql in questions() {
        before.push(ask(&store, &sql).await);
        assert!(!before[before.len() - 1].contains("Bad"), "{sql}: {}", before[before.len() - 1]);
    }
    store.close().await.unwrap();
    // Two of three files, then all.
    for (days, moved) in [(1, 2), (0, 3)] {
        let store = Store::open(of(Duration::from_secs(days * 86_400))).unwrap();
        eventually(async || {
            files(&dirs.slow).len() == moved && files(&dirs.data).len() == 3 - moved
        })
        .await;
        for (sql, before) in questions().iter().zip(&before) {
            assert_eq!(&ask(&store, sql).await, before, "{moved} files are slow: {sql}");
        }
        let stats = store.stats();
        assert_eq!((stats.file_count, stats.slow_file_count), (3, moved as u64));
        let needle = format!("select * from request where request_id = '{}'", id(3_456));
        assert!(metric(&store, &needle, "text_index_blocks_left_out").await > 0);
        store.close().await.unwrap();
    }
    let found = inspect(&dirs.data, Some(&place(&dirs.slow)), true).unwrap();
    assert_eq!((found.problems, found.unknown_files), (vec![], vec![]));
    let cost = &found.tables["request"];
    assert_eq!((cost.file_count, cost.byte_count), (3, cost.slow_bytes));
}

#[tokio::test]
async fn oldest_files_of_a_table_move_for_space_and_merging_goes_on_without_them() {
    let dirs = dirs();
    let mut settings = moving(&dirs.data, &dirs.slow, Duration::MAX);
    settings.small_file_count = 2;
    let rule = SlowRule { after: Duration::MAX, fast_bytes: 1 };
    settings.slow.as_mut().unwrap().by_table = vec![("log".into(), rule)];
    let store = Store::open(settings).unwrap();
    for at in 0..6 {
        store.append(parcel(1, at * 10..at * 10 + 10)).await.unwrap();
        store.flush().await.unwrap();
        let rows = batch(at * 10..at * 10 + 10);
        store.append(Parcel { range: None, batches: vec![rows] }).await.unwrap();
        store.flush().await.unwrap();
    }
    eventually(async || {
        let (fast, slow) = (files(&dirs.data), files(&dirs.slow));
        let is_of =
            |name: &'static str| move |path: &PathBuf| path.to_str().unwrap().contains(name);
        slow.iter().all(is_of("/log/")) && fast.iter().all(is_of("/request/")) && fast.len() <= 2
    })
    .await;
    assert_eq!(number(&store, "select sum(source_offset) from log").await, 60 * 59 / 2);
    assert_eq!(number(&store, "select count(*) from request").await, 60);
}

#[tokio::test]
async fn retention_deletes_in_the_slow_tier_too() {
    let dirs = dirs();
    fill(&dirs, 100).await;
    move_all(&dirs, 1).await;
    let clock = Arc::new(FixedClock::new(Micros(NOON.0 + 31 * DAY)));
    let settings = moving(&dirs.data, &dirs.slow, Duration::ZERO);
    let opened = |retention| {
        Store::open(StoreOptions {
            clock: Arc::clone(&clock) as Arc<_>,
            retention,
            ..settings.clone()
        })
        .unwrap()
    };
    let waiting = Retention { clock_patience: Duration::ZERO, ..Retention::default() };
    let store = opened(waiting.clone());
    eventually(async || store.stats().file_count == 0).await;
    assert_eq!(number(&store, "select count(*) from log").await, 0);
    store.close().await.unwrap();
    assert!(!files(&dirs.slow).is_empty(), "they can be restored");

    let store = opened(Retention { restorable: Duration::ZERO, ..waiting });
    eventually(async || files(&dirs.slow).is_empty()).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn tier_that_is_gone_is_named_and_everything_else_goes_on() {
    let dirs = dirs();
    fill(&dirs, 100).await;
    move_all(&dirs, 1).await;
    let away = dirs.slow.with_extension("away");
    std::fs::rename(&dirs.slow, &away).unwrap();
    std::fs::create_dir(&dirs.slow).unwrap();

    let store = Store::open(moving(&dirs.data, &dirs.slow, Duration::ZERO)).unwrap();
    let now = Micros(NOON.0 + 1_000_000);
    store.append(parcel(1, 100..130)).await.unwrap();
    store.flush().await.unwrap();
    eventually(async || store.stats().message.is_some()).await;
    let told = store.stats().message.unwrap();
    assert!(told.contains(dirs.slow.to_str().unwrap()), "{told}");
    assert!(told.contains("it has no file `WEIR`"), "{told}");
    let answer = ask(&store, "select sum(source_offset) from log").await;
    assert!(
        answer.starts_with("Io: cannot read a file that the answer needs: the cold tier `"),
        "{answer}"
    );
    assert!(answer.contains("is its disk mounted?"), "{answer}");
    let recent = format!("select count(body) from log where ts >= to_timestamp_micros({})", now.0);
    assert_eq!(number(&store, &recent).await, 0);
    let told = inspect(&dirs.data, Some(&place(&dirs.slow)), false).unwrap().problems;
    assert!(told.len() == 1 && told[0].1.contains("it has no file `WEIR`"), "{told:?}");
    let refused =
        backup(&dirs.data, Some(&place(&dirs.slow)), &dirs.slow.with_extension("copy"), NOON, None);
    assert!(refused.unwrap_err().message.contains("it has no file `WEIR`"));
    assert!(files(&dirs.slow).is_empty(), "nothing goes where the disk is not");

    std::fs::remove_dir(&dirs.slow).unwrap();
    std::fs::rename(&away, &dirs.slow).unwrap();
    eventually(async || store.stats().message.is_none() && files(&dirs.data).is_empty()).await;
    assert_eq!(number(&store, "select sum(source_offset) from log").await, 130 * 129 / 2);
    store.close().await.unwrap();

    let refused = repair(&StoreOptions { slow: Some(place(&away)), ..options(&dirs.data) });
    let refused = tokio::task::spawn_blocking(move || refused).await.unwrap().unwrap_err();
    assert!(refused.message.contains("cannot be used"), "{refused}");
    let store = Store::open(options(&dirs.data)).unwrap();
    let answer = ask(&store, "select sum(source_offset) from log").await;
    assert!(
        answer.contains("none is configured") && answer.contains("store.slow_path"),
        "{answer}"
    );
}

#[tokio::test]
async fn place_of_another_store_is_refused() {
    let (dirs, other) = (dirs(), dirs());
    fill(&dirs, 100).await;
    move_all(&dirs, 1).await;
    let store = Store::open(moving(&other.data, &dirs.slow, Duration::ZERO)).unwrap();
    store.append(parcel(1, 0..10)).await.unwrap();
    store.flush().await.unwrap();
    eventually(async || store.stats().message.is_some()).await;
    let told = store.stats().message.unwrap();
    assert!(told.contains("it has files of another weir"), "{told}");
    assert_eq!((files(&other.data).len(), files(&dirs.slow).len()), (1, 1));
    assert_eq!(number(&store, "select sum(source_offset) from log").await, 45);
}

#[tokio::test]
async fn full_tier_keeps_files_on_the_fast_disk_until_there_is_room() {
    let Some(disk) = SmallDisk::new(2) else { return };
    let dirs = Dirs { slow: disk.path.join("slow"), ..dirs() };
    std::fs::write(disk.ballast(), vec![1; 3 << 20]).unwrap_err();
    fill(&dirs, 20_000).await;
    let store = Store::open(moving(&dirs.data, &dirs.slow, Duration::ZERO)).unwrap();
    eventually(async || store.stats().message.is_some()).await;
    assert_eq!(number(&store, "select sum(source_offset) from log").await, 20_000 * 19_999 / 2);
    assert_eq!(files(&dirs.data).len(), 1);
    assert!(files(&dirs.slow).is_empty(), "no half of a file");
    assert!(!store.stats().is_full, "the fast disk has room");
    std::fs::remove_file(disk.ballast()).unwrap();
    eventually(async || files(&dirs.data).is_empty() && store.stats().message.is_none()).await;
    assert_eq!(number(&store, "select sum(source_offset) from log").await, 20_000 * 19_999 / 2);
    store.close().await.unwrap();
}

#[tokio::test]
async fn backup_has_both_tiers_and_what_is_restored_needs_no_tier() {
    let dirs = dirs();
    let (copy, to) = (dirs.data.with_extension("copy"), dirs.data.with_extension("new"));
    fill(&dirs, 100).await;
    move_all(&dirs, 1).await;
    let store = Store::open(resting(&dirs.data, &dirs.slow)).unwrap();
    store.append(parcel(1, 100..150)).await.unwrap();
    store.flush().await.unwrap();
    let slow = place(&dirs.slow);
    let done = backup(&dirs.data, Some(&slow), &copy, NOON, None).unwrap();
    assert_eq!(done.new_files, done.file_count);
    let again = backup(&dirs.data, Some(&slow), &copy, NOON, None).unwrap();
    assert_eq!(again.new_files, 0, "nothing is copied twice");
    restore(&copy, None, &to).unwrap();
    let restored = Store::open(options(&to)).unwrap();
    assert_eq!(number(&restored, "select sum(source_offset) from log").await, 150 * 149 / 2);
    restored.close().await.unwrap();
    assert_eq!(inspect(&to, None, true).unwrap().problems, []);
}

#[tokio::test]
async fn damaged_file_in_the_tier_is_set_aside_and_files_that_nobody_names_are_taken_up() {
    let dirs = dirs();
    fill(&dirs, 1000).await;
    move_all(&dirs, 1).await;
    let store = Store::open(resting(&dirs.data, &dirs.slow)).unwrap();
    store.append(parcel(1, 1000..1100)).await.unwrap();
    store.close().await.unwrap();
    move_all(&dirs, 2).await;
    let mut found = files(&dirs.slow);
    found.sort();
    let mut bytes = std::fs::read(&found[0]).unwrap();
    let at = bytes.len() / 3;
    bytes[at..at + 2000].fill(7);
    std::fs::write(&found[0], &bytes).unwrap();
    let stray = found[1].with_file_name("000000009999.parquet");
    std::fs::copy(&found[1], &stray).unwrap();

    let settings = resting(&dirs.data, &dirs.slow);
    let mended = tokio::task::spawn_blocking(move || repair(&settings).unwrap()).await.unwrap();
    let told: Vec<_> =
        mended.iter().map(|file| (file.rows_taken, file.rows_known, file.rows_lost)).collect();
    assert_eq!(mended.len(), 2, "{mended:?}");
    assert!(told.contains(&(0, 100, Some(0))), "the stray file's rows are there: {told:?}");
    assert!(told.iter().any(|file| file.2.unwrap() > 0), "{told:?}");
    let store = Store::open(moving(&dirs.data, &dirs.slow, Duration::ZERO)).unwrap();
    eventually(async || !stray.exists() && !found[0].exists()).await;
    assert!(number(&store, "select count(*) from log").await >= 100);
    store.close().await.unwrap();
    let found = inspect(&dirs.data, Some(&place(&dirs.slow)), true).unwrap();
    assert_eq!((found.problems, found.unknown_files), (vec![], vec![]));
}

#[tokio::test]
async fn slow_tier_does_not_open_without_what_it_needs() {
    let dirs = dirs();
    // A file where the directory should be.
    std::fs::write(&dirs.slow, "x").unwrap();
    fill(&dirs, 10).await;
    let store = Store::open(moving(&dirs.data, &dirs.slow, Duration::ZERO)).unwrap();
    eventually(async || store.stats().message.is_some()).await;
    let told = store.stats().message.unwrap();
    assert!(told.contains(dirs.slow.to_str().unwrap()), "{told}");
    assert_eq!(number(&store, "select sum(source_offset) from log").await, 45);
    let refused = store.query(Query::new("select nothing from log")).run().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::BadQuery);
}
