//! Backups in a bucket: the same results as in a directory, despite kills and whatever the service
//! answers.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use weir_store::{
    Bucket, ErrorKind, SlowBucketOptions, SlowPlace, Store, backup, backup_snapshots, restore,
    verify_backup,
};

use crate::backup::{at, content, fill};
use crate::bucket::{moving, reached, tier};
use crate::s3::{Line, Mode, Service};
use crate::tool::options;

const FROM: &str = "WEIR_STORE_BUCKET_BACKUP_FROM";
const PORT: &str = "WEIR_STORE_BUCKET_BACKUP_PORT";

fn place(port: u16, prefix: &str) -> SlowPlace {
    let prefix = prefix.to_owned();
    let options = SlowBucketOptions { prefix, ..SlowBucketOptions::new(reached(port)) };
    SlowPlace::Bucket(Box::new(options))
}

/// Lists leftover scratch directories, which hold private files.
fn scratch(pid: u32) -> Vec<String> {
    let names = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&format!("weir-backup-{pid}-"))).collect()
}

fn is_right(end: i64) -> (i64, i64, u64) {
    (end, end * (end - 1) / 2, end.cast_unsigned())
}

#[tokio::test]
async fn snapshots_in_a_bucket_share_come_back_and_go_as_in_a_directory() {
    let Some(service) = Service::start() else { return };
    service.make_bucket("rows").await;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let copy = place(service.port, "copies/weir");
    let none = verify_backup(&copy).unwrap_err();
    assert!(none.to_string().contains("hint: name the bucket and prefix of a backup"), "{none}");
    let store = Store::open(options(&data)).unwrap();
    std::fs::create_dir(data.join("link")).unwrap();
    std::fs::write(data.join("link/hub.key"), "secret").unwrap();
    fill(&store, 1000).await;
    let first = backup(&data, None, &copy, at(0), None).unwrap();
    assert_eq!(first.snapshot, "2026-11-20T12-00-00Z");
    let same = backup(&data, None, &copy, at(0), None).unwrap();
    assert_eq!((same.snapshot.as_str(), same.new_files), ("2026-11-20T12-00-00Z-2", 0));
    fill(&store, 300_000).await;
    let second = backup(&data, None, &copy, at(60), None).unwrap();
    assert_eq!((second.new_files, second.file_count), (1, first.file_count + 1));
    store.close().await.unwrap();
    assert_eq!(verify_backup(&copy).unwrap().problems, [""; 0]);

    let to = dir.path().join("newest");
    restore(&copy, None, &to).unwrap();
    assert_eq!(content(&to).await, is_right(300_000));
    assert_eq!(std::fs::read(to.join("link/hub.key")).unwrap(), b"secret");
    let earlier = dir.path().join("earlier");
    restore(&copy, Some("2026-11-20T12:00:59Z"), &earlier).unwrap();
    assert_eq!(content(&earlier).await, is_right(1000));
    let none = restore(&copy, Some("2026-11-19T00:00:00Z"), &dir.path().join("none")).unwrap_err();
    assert!(none.message.contains("`s3://rows/copies/weir`: there is no snapshot of"), "{none}");

    // Removes one snapshot, and the objects that only it needs.
    let store = Store::open(options(&to)).unwrap();
    fill(&store, 300_500).await;
    store.close().await.unwrap();
    let third = backup(&to, None, &copy, at(120), Some(1)).unwrap();
    assert_eq!(third.removed.len(), 3);
    let left = backup_snapshots(&copy).unwrap();
    assert_eq!(left.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), [third.snapshot]);
    let found = verify_backup(&copy).unwrap();
    assert_eq!((found.file_count, found.byte_count), (third.file_count, third.byte_count));
    let last = dir.path().join("last");
    restore(&copy, None, &last).unwrap();
    assert_eq!(content(&last).await, is_right(300_500));
    assert_eq!(scratch(std::process::id()), [""; 0]);
}

#[tokio::test]
async fn a_bucket_with_other_things_is_refused_and_a_damaged_object_is_named() {
    let Some(service) = Service::start() else { return };
    service.make_bucket("rows").await;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let slow = tier(reached(service.port), 0);
    let store = Store::open(moving(&data, slow.clone())).unwrap();
    fill(&store, 1000).await;
    crate::bucket::is_moved(&data).await;
    store.close().await.unwrap();
    // The tier itself is in some/weir.
    let refused = backup(&data, Some(&slow), place(service.port, "some"), at(0), None).unwrap_err();
    assert!(
        refused.message.contains("`s3://rows/some`: it is no backup, and has `weir` in it"),
        "{refused}"
    );
    let refused = backup(&data, Some(&slow), place(service.port, "some/weir"), at(0), None);
    assert!(refused.unwrap_err().message.contains("it is no backup"));
    let missing = SlowBucketOptions::new(weir_store::BucketOptions {
        bucket: "nothing".into(),
        ..reached(service.port)
    });
    let missing = SlowPlace::Bucket(Box::new(missing));
    let refused = backup(&data, Some(&slow), missing, at(0), None).unwrap_err();
    assert!(refused.message.contains("there is no bucket `nothing`"), "{refused}");

    // From one bucket to another; the restored directory needs no bucket.
    let copy = place(service.port, "copy");
    let done = backup(&data, Some(&slow), &copy, at(0), None).unwrap();
    assert!(done.new_files > 0);
    let to = dir.path().join("restored");
    restore(&copy, None, &to).unwrap();
    assert_eq!(content(&to).await, is_right(1000));
    let whole = verify_backup(&copy).unwrap();
    assert_eq!((whole.problems.len(), whole.file_count), (0, done.file_count));
    // Occasional 503 responses and delays do not affect a backup.
    let line = Line::to(service.port);
    line.set(Mode::Shaky);
    let again = backup(&data, Some(&slow), place(line.port, "copy"), at(60), None).unwrap();
    assert_eq!(again.new_files, 0);
    line.set(Mode::Cut);
    let refused = verify_backup(place(line.port, "copy")).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Io, "{refused}");
    // Corrupts an object that both snapshots need.
    let bucket = Bucket::new(&reached(service.port)).unwrap();
    let objects = bucket.list("copy/objects/").await.unwrap();
    let largest = objects.into_iter().max_by_key(|object| object.byte_count).unwrap();
    bucket.put(&largest.name, vec![7; 10]).await.unwrap();
    let found = verify_backup(&copy).unwrap();
    assert_eq!(found.problems.len(), 1, "{found:?}");
    let told = &found.problems[0];
    assert!(told.contains("it has 10 bytes") && told.contains(&largest.name), "{told}");
    let refused = restore(&copy, None, &dir.path().join("damaged")).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Corrupt, "{refused}");
}

/// The child process that is killed, not a test.
#[test]
fn child() {
    let (Some(from), Ok(port)) = (std::env::var_os(FROM), std::env::var(PORT)) else { return };
    let copy = place(port.parse().unwrap(), "copy");
    backup(Path::new(&from), None, &copy, at(3600), Some(1)).unwrap();
}

#[tokio::test]
async fn a_killed_backup_in_a_bucket_leaves_what_was_there_and_its_lock_is_taken_over() {
    let Some(service) = Service::start() else { return };
    service.make_bucket("rows").await;
    let line = Line::to(service.port);
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = Store::open(options(&data)).unwrap();
    fill(&store, 1000).await;
    let copy = place(service.port, "copy");
    backup(&data, None, &copy, at(0), None).unwrap();
    let mut interrupted = 0;
    for round in 1..=3_u64 {
        fill(&store, 1000 + round * 200).await;
        // Delayed responses leave many moments between the first request and the last.
        line.set(Mode::Slow);
        let before = line.requests();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["bucket_backup::child", "--exact", "--nocapture"])
            .env(FROM, &data)
            .env(PORT, line.port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while line.requests() < before + 6 + round * 5 && child.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        interrupted += u32::from(child.try_wait().unwrap().is_none());
        drop(child.kill());
        child.wait().unwrap();
        for left in scratch(child.id()) {
            std::fs::remove_dir_all(std::env::temp_dir().join(left)).unwrap();
        }
        line.set(Mode::Pass);
        let found = verify_backup(&copy).unwrap();
        assert!(found.problems.is_empty() && found.snapshots >= 1, "round {round}: {found:?}");
    }
    assert!(interrupted > 0, "no kill came in time");
    let last = backup(&data, None, &copy, at(7200), Some(1)).unwrap();
    store.close().await.unwrap();
    let found = verify_backup(&copy).unwrap();
    assert_eq!((found.snapshots, found.file_count), (1, last.file_count));
    let to = dir.path().join("restored");
    restore(&copy, None, &to).unwrap();
    assert_eq!(content(&to).await, is_right(1600));
}

#[tokio::test]
async fn two_backups_into_one_bucket_do_not_meet() {
    let Some(service) = Service::start() else { return };
    service.make_bucket("rows").await;
    let line = Line::to(service.port);
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = Store::open(options(&data)).unwrap();
    fill(&store, 1000).await;
    store.close().await.unwrap();
    let copy = place(service.port, "copy");
    backup(&data, None, &copy, at(0), None).unwrap();
    // A live backup whose every request is slow: its lock keeps changing.
    let slow = place(line.port, "copy");
    line.set(Mode::Slow);
    std::fs::create_dir(data.join("link")).unwrap();
    for number in 0..60 {
        std::fs::write(data.join(format!("link/key{number}")), number.to_string()).unwrap();
    }
    let first = std::thread::spawn({
        let data = data.clone();
        move || backup(&data, None, slow, at(60), None)
    });
    while line.requests() < 12 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = backup(&data, None, &copy, at(60), Some(1)).unwrap_err();
    assert_eq!(second.kind, ErrorKind::Locked, "{second}");
    assert!(second.to_string().contains("another backup does\nhint: wait for it"), "{second}");
    let done = first.join().unwrap().unwrap();
    assert_eq!(done.new_files, 60);
    let found = verify_backup(&copy).unwrap();
    assert_eq!((found.snapshots, found.problems), (2, vec![]));
    // The backup has ended, and the next one does not wait.
    backup(&data, None, &copy, at(120), Some(1)).unwrap();
}
