//! A disk that is really full: a small tmpfs. Mounting needs root.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_store::{ErrorKind, Store, StoreError, StoreOptions};
use weir_tables::StreamId;

use crate::tool::{eventually, number, options, parcel};

/// A tmpfs of a few MiB; unmounted when dropped.
pub(crate) struct SmallDisk {
    pub(crate) path: PathBuf,
    _dir: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts it; `None`, with a loud message, when that fails.
    #[expect(clippy::print_stderr, reason = "a skipped test has to be seen")]
    pub(crate) fn new(mebibytes: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::create_dir(&path).unwrap();
        let size = format!("size={mebibytes}m");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).status();
        if !mount.is_ok_and(|status| status.success()) {
            assert!(std::env::var_os("CI").is_none(), "CI has to run this as root");
            eprintln!(
                "SKIPPED: cannot mount a tmpfs; run the tests as root to see what a full disk does"
            );
            return None;
        }
        Some(Self { path, _dir: dir })
    }

    pub(crate) fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.path).status());
    }
}

/// Appends until the store refuses; returns the refused position and the error.
async fn fill(store: &Store, mut at: u64) -> (u64, StoreError) {
    loop {
        match store.append(parcel(7, at..at + 1000)).await {
            Ok(_) => at += 1000,
            Err(error) => return (at, error),
        }
    }
}

async fn check(settings: impl Fn(&Path) -> StoreOptions, disk: &SmallDisk) -> StoreError {
    let data = disk.path.join("data");
    std::fs::write(disk.ballast(), vec![1; 6 << 20]).unwrap();
    let store = Store::open(settings(&data)).unwrap();
    let (end, error) = fill(&store, 0).await;
    assert_eq!(error.kind, ErrorKind::Full, "{error}");
    assert!(end > 0 && store.stats().is_full && store.stats().message.is_some());
    let expected = i64::try_from(end).unwrap();
    assert_eq!(number(&store, "select count(*) from log").await, expected, "rows stay readable");
    drop(store);

    let store =
        Store::open(settings(&data)).unwrap_or_else(|error| panic!("a full disk opens: {error}"));
    assert_eq!(store.positions(&[StreamId(7)]), [(StreamId(7), end)]);
    let (still, _) = fill(&store, end).await;
    std::fs::remove_file(disk.ballast()).unwrap();
    eventually(async || !store.stats().is_full).await;
    store.append(parcel(7, still..still + 1000)).await.unwrap();
    store.flush().await.unwrap();
    assert!(store.stats().message.is_none(), "{:?}", store.stats().message);
    let counts = "select count(*) - count(distinct source_offset) from log";
    assert_eq!(number(&store, counts).await, 0);
    let expected = i64::try_from(still + 1000).unwrap();
    assert_eq!(number(&store, "select count(*) from log").await, expected);
    store.close().await.unwrap();
    error
}

#[tokio::test]
async fn a_disk_that_refuses_stops_appends_and_they_go_on_when_there_is_room() {
    let Some(disk) = SmallDisk::new(12) else { return };
    let error =
        check(|data| StoreOptions { min_free_bytes: Some(0), ..options(data) }, &disk).await;
    assert!(error.message.contains("No space left on device"), "{error}");
}

#[tokio::test]
async fn appends_stop_before_the_reserve_is_used_and_a_flush_may_use_it() {
    let Some(disk) = SmallDisk::new(14) else { return };
    let error =
        check(|data| StoreOptions { min_free_bytes: Some(4 << 20), ..options(data) }, &disk).await;
    assert!(error.message.ends_with("MiB are free, 4 MiB have to stay free"), "{error}");
    assert!(error.hint.is_some());
}
