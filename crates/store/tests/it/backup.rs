//! Backups: a restore returns what was there, despite kills, merges, damage or a full disk
//! meanwhile.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use weir_store::{
    ErrorKind, Store, StoreOptions, backup, backup_snapshots, restore, verify_backup,
};
use weir_tables::{Micros, StreamId};

use crate::full::SmallDisk;
use crate::tool::{NOON, number, options, parcel};

const COUNT: &str = "select count(*) from log";
const SUM: &str = "select sum(source_offset) from log";
const FROM: &str = "WEIR_STORE_BACKUP_FROM";
const TO: &str = "WEIR_STORE_BACKUP_TO";

/// Fills a store with rows `0..end`, all of them in files.
pub(crate) async fn fill(store: &Store, end: u64) {
    let from = store.positions(&[StreamId(1)]).first().map_or(0, |entry| entry.1);
    store.append(parcel(1, from..end)).await.unwrap();
    store.flush().await.unwrap();
}

pub(crate) fn at(second: i64) -> Micros {
    Micros(NOON.0 + second * 1_000_000)
}

/// Row count, sum, and stream position of a restored directory.
pub(crate) async fn content(dir: &Path) -> (i64, i64, u64) {
    let store = Store::open(options(dir)).unwrap();
    let position = store.positions(&[StreamId(1)])[0].1;
    let found = (number(&store, COUNT).await, number(&store, SUM).await, position);
    store.close().await.unwrap();
    found
}

#[tokio::test]
async fn every_snapshot_comes_back_as_it_was_and_shares_what_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let store = Store::open(options(&data)).unwrap();
    std::fs::create_dir(data.join("link")).unwrap();
    std::fs::write(data.join("link/hub.key"), "secret").unwrap();
    fill(&store, 1000).await;
    let first = backup(&data, None, &copy, at(0), None).unwrap();
    assert_eq!(first.snapshot, "2026-11-20T12-00-00Z");
    let same = backup(&data, None, &copy, at(0), None).unwrap();
    assert_eq!((same.snapshot.as_str(), same.new_files), ("2026-11-20T12-00-00Z-2", 0));
    fill(&store, 2500).await;
    let second = backup(&data, None, &copy, at(60), None).unwrap();
    assert_eq!((second.new_files, second.file_count), (1, first.file_count + 1));
    store.close().await.unwrap();

    let bring = |name: &str, at: Option<&str>| {
        let to = dir.path().join(name);
        restore(&copy, at, &to).map(|_| to)
    };
    let newest = bring("newest", None).unwrap();
    assert_eq!(content(&newest).await, (2500, sum_below(2500), 2500));
    assert_eq!(std::fs::read(newest.join("link/hub.key")).unwrap(), b"secret");
    let earlier = bring("earlier", Some("2026-11-20T12:00:59Z")).unwrap();
    assert_eq!(content(&earlier).await, (1000, sum_below(1000), 1000));
    let named = bring("named", Some(&first.snapshot)).unwrap();
    assert_eq!(content(&named).await, (1000, sum_below(1000), 1000));
    let none = bring("none", Some("2026-11-19T00:00:00Z")).unwrap_err();
    assert!(none.message.contains("there is no snapshot of"), "{none}");
    let used = bring("newest", None).unwrap_err();
    assert!(used.message.contains("is not empty"), "{used}");

    // The restored store works, and its backups go to the same target.
    let store = Store::open(options(&earlier)).unwrap();
    fill(&store, 1500).await;
    store.close().await.unwrap();
    let third = backup(&earlier, None, &copy, at(120), Some(2)).unwrap();
    assert_eq!(third.new_files, 1, "the others are there under their checksums");
    assert_eq!(third.removed, ["2026-11-20T12-00-00Z", "2026-11-20T12-00-00Z-2"]);
    assert_eq!(backup_snapshots(&copy).unwrap().len(), 2);
    assert_eq!(verify_backup(&copy).unwrap().problems, [""; 0]);
    assert_eq!(content(&bring("third", None).unwrap()).await, (1500, sum_below(1500), 1500));
    let second = bring("second", Some(&second.snapshot)).unwrap();
    assert_eq!(content(&second).await, (2500, sum_below(2500), 2500));
}

fn sum_below(end: i64) -> i64 {
    end * (end - 1) / 2
}

#[tokio::test]
async fn damage_is_found_and_named_and_spares_what_does_not_need_it() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let store = Store::open(options(&data)).unwrap();
    fill(&store, 100).await;
    backup(&data, None, &copy, at(0), None).unwrap();
    let before = objects(&copy);
    fill(&store, 200).await;
    backup(&data, None, &copy, at(1), None).unwrap();
    store.close().await.unwrap();
    let new = objects(&copy).into_iter().find(|object| !before.contains(object)).unwrap();
    let whole = std::fs::read(&new).unwrap();
    let mut bent = whole.clone();
    bent[whole.len() / 2] ^= 1;
    for (bytes, why) in
        [(bent, "its bytes are not what"), (whole[..10].to_vec(), "it has 10 bytes")]
    {
        std::fs::write(&new, bytes).unwrap();
        let found = verify_backup(&copy).unwrap();
        assert_eq!(found.problems.len(), 1, "{found:?}");
        let told = &found.problems[0];
        let names = told.contains("data/log/") && told.contains("`2026-11-20T12-00-01Z`");
        assert!(told.contains(why) && names, "{told}");
        let to = dir.path().join("damaged");
        let refused = restore(&copy, None, &to).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Corrupt, "{refused}");
        let error = Store::open(options(&to)).err().unwrap();
        assert!(error.message.contains("a restore into it did not finish"), "{error}");
    }
    let to = dir.path().join("whole");
    restore(&copy, Some("2026-11-20T12-00-00Z"), &to).unwrap();
    assert_eq!(content(&to).await.0, 100);
    let list = copy.join("snapshots/2026-11-20T12-00-00Z/list");
    let text = std::fs::read_to_string(&list).unwrap();
    std::fs::write(&list, &text[..text.len() / 2]).unwrap();
    let told = verify_backup(&copy).unwrap().problems;
    assert!(told.iter().any(|problem| problem.contains("is not the list")), "{told:?}");
    std::fs::write(&new, whole).unwrap();
    let thinned = backup(&data, None, &copy, at(2), Some(9)).unwrap();
    assert_eq!(thinned.new_files, 0, "nothing was removed for a list that cannot be read");
}

fn objects(copy: &Path) -> Vec<PathBuf> {
    list_dir(copy.join("objects")).filter(|path| path.is_dir()).flat_map(list_dir).collect()
}

fn list_dir(path: PathBuf) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(path).unwrap().flatten().map(|entry| entry.path())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backups_beside_a_store_that_merges_have_every_row_once() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let busy = StoreOptions {
        small_file_count: 3,
        gc_grace: Duration::ZERO,
        maintenance_interval: Duration::from_millis(1),
        ..options(&data)
    };
    let store = Store::open(busy).unwrap();
    fill(&store, 10).await;
    let writing = tokio::spawn({
        let store = store.clone();
        async move {
            for step in 2..60 {
                fill(&store, step * 10).await;
            }
        }
    });
    let mut snapshots = Vec::new();
    for second in 0.. {
        let (data, copy) = (data.clone(), copy.clone());
        let made =
            tokio::task::spawn_blocking(move || backup(&data, None, &copy, at(second), None));
        snapshots.push(made.await.unwrap().unwrap().snapshot);
        if writing.is_finished() {
            break;
        }
    }
    writing.await.unwrap();
    store.close().await.unwrap();
    assert_eq!(verify_backup(&copy).unwrap().problems, [""; 0]);
    for name in snapshots.iter().rev().step_by(snapshots.len().div_ceil(6)) {
        let to = dir.path().join(name);
        restore(&copy, Some(name), &to).unwrap();
        let (rows, sum, position) = content(&to).await;
        assert_eq!((rows.cast_unsigned(), sum), (position, rows * (rows - 1) / 2), "{name}");
    }
}

/// The child process that is killed, not a test.
#[test]
fn child() {
    let (Some(from), Some(to)) = (std::env::var_os(FROM), std::env::var_os(TO)) else { return };
    let (from, to) = (Path::new(&from), Path::new(&to));
    if to.ends_with("restored") {
        restore(from, None, to).unwrap();
    } else {
        backup(from, None, to, at(3600), Some(2)).unwrap();
    }
}

/// Runs the child and kills it after a delay; returns whether it had already exited.
async fn killed(from: &Path, to: &Path, after: Duration) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["backup::child", "--exact", "--nocapture"])
        .env(FROM, from)
        .env(TO, to)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    tokio::time::sleep(after).await;
    let is_done = child.try_wait().unwrap().is_some();
    drop(child.kill());
    child.wait().unwrap();
    is_done
}

#[tokio::test]
async fn kills_at_any_moment_leave_earlier_snapshots_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let store = Store::open(options(&data)).unwrap();
    fill(&store, 500).await;
    backup(&data, None, &copy, at(0), None).unwrap();
    let (mut interrupted, mut moment) = (0, 0);
    for round in 1..=20_u64 {
        fill(&store, 500 + round * 300).await;
        // Kill times spread over the duration of a backup, plus the start of a process.
        moment = (moment * 7 + 3) % 40;
        interrupted += u32::from(!killed(&data, &copy, Duration::from_millis(5 + moment)).await);
        let found = verify_backup(&copy).unwrap();
        assert!(found.problems.is_empty() && found.snapshots >= 1, "round {round}: {found:?}");
    }
    assert!(interrupted > 0, "no kill came in time");
    let last = backup(&data, None, &copy, at(7200), Some(1)).unwrap();
    store.close().await.unwrap();
    assert_eq!(verify_backup(&copy).unwrap().file_count, last.file_count);
    assert_eq!(objects(&copy).len(), last.file_count, "nothing is left of those that were killed");

    let to = dir.path().join("restored");
    for after in [2, 5, 9, 14, 20, 27] {
        if killed(&copy, &to, Duration::from_millis(after)).await {
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
    if !to.join("manifest.sqlite").exists() || to.join("RESTORING").exists() {
        restore(&copy, None, &to).unwrap();
    }
    let rows = 500 + 20 * 300_i64;
    assert_eq!(content(&to).await, (rows, rows * (rows - 1) / 2, rows.cast_unsigned()));
}

#[tokio::test]
async fn full_disks_say_so_and_leave_earlier_snapshots_whole() {
    let Some(disk) = SmallDisk::new(3) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), disk.path.join("copy"));
    let store = Store::open(options(&data)).unwrap();
    fill(&store, 100).await;
    backup(&data, None, &copy, at(0), None).unwrap();
    std::fs::write(disk.ballast(), vec![1; 2 << 20]).unwrap();
    let mut end = 100;
    let refused = loop {
        end += 40_000;
        fill(&store, end).await;
        match backup(&data, None, &copy, at(60), None) {
            Err(error) => break error,
            Ok(_) => assert!(end < 4_000_000, "the disk never fills"),
        }
    };
    assert_eq!(refused.kind, ErrorKind::Full, "{refused}");
    assert!(refused.to_string().contains("\nhint: make room and run it again"), "{refused}");
    assert!(verify_backup(&copy).unwrap().problems.is_empty());
    std::fs::remove_file(disk.ballast()).unwrap();
    backup(&data, None, &copy, at(120), Some(1)).unwrap();
    store.close().await.unwrap();
    assert_eq!(verify_backup(&copy).unwrap().snapshots, 1);
}

#[test]
fn other_directories_and_second_backups_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = backup(dir.path(), None, &dir.path().join("copy"), at(0), None).unwrap_err();
    assert!(refused.message.contains("it has no `manifest.sqlite`"), "{refused}");
    std::fs::write(dir.path().join("manifest.sqlite"), "").unwrap();
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("photo.jpg"), "").unwrap();
    let refused = backup(dir.path(), None, other.path(), at(0), None).unwrap_err();
    assert!(refused.message.contains("has `photo.jpg` in it"), "{refused}");
    let refused = verify_backup(other.path()).unwrap_err();
    assert!(refused.to_string().contains("hint: name the directory of a backup"), "{refused}");
}
