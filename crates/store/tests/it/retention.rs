//! Clocks that jump, and expired files that come back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use weir_store::{ErrorKind, Retention, Store, StoreOptions, undelete};
use weir_tables::{Clock, Micros};

use crate::disk::walk;
use crate::tool::{NOON, eventually, number, parcel};

const HOUR: i64 = 3_600_000_000;
const DAY: i64 = 24 * HOUR;

/// A machine whose wall clock and running time are set separately, in µs.
struct MachineClock {
    wall: AtomicI64,
    running: AtomicI64,
}

impl MachineClock {
    fn new() -> Arc<Self> {
        Arc::new(Self { wall: AtomicI64::new(NOON.0), running: AtomicI64::new(0) })
    }

    fn pass(&self, micros: i64) {
        self.wall.fetch_add(micros, Ordering::SeqCst);
        self.running.fetch_add(micros, Ordering::SeqCst);
    }

    fn jump(&self, micros: i64) {
        self.wall.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Micros {
        Micros(self.wall.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.running.load(Ordering::SeqCst).cast_unsigned())
    }
}

fn settings(dir: &Path, clock: &Arc<MachineClock>) -> StoreOptions {
    StoreOptions {
        gc_grace: Duration::ZERO,
        maintenance_interval: Duration::from_millis(1),
        future: Duration::MAX,
        ..StoreOptions::new(dir, Arc::clone(clock) as Arc<_>)
    }
}

async fn rows(store: &Store) -> i64 {
    number(store, "select count(*) from log").await
}

async fn filled(dir: &Path, clock: &Arc<MachineClock>) -> Arc<Store> {
    let store = Store::open(settings(dir, clock)).unwrap();
    store.append(parcel(1, 0..50)).await.unwrap();
    store.flush().await.unwrap();
    store
}

#[tokio::test]
async fn clock_that_jumps_40_days_deletes_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let clock = MachineClock::new();
    let store = filled(dir.path(), &clock).await;
    clock.pass(DAY);
    clock.jump(40 * DAY);
    eventually(async || store.stats().message.is_some()).await;
    let message = store.stats().message.unwrap();
    assert!(message.contains("40 d 0 h ahead") && message.contains("1 files"), "{message}");
    assert_eq!(rows(&store).await, 50);
    // Rows that arrive meanwhile do not make the jump credible at the next start.
    store.append(parcel(1, 50..60)).await.unwrap();
    store.flush().await.unwrap();
    store.close().await.unwrap();
    let store = Store::open(settings(dir.path(), &clock)).unwrap();
    eventually(async || store.stats().message.is_some()).await;
    assert_eq!(rows(&store).await, 60);
    clock.jump(-40 * DAY);
    eventually(async || store.stats().message.is_none()).await;
    assert_eq!(rows(&store).await, 60);
    store.close().await.unwrap();
}

#[tokio::test]
async fn rows_that_arrive_while_the_clock_is_behind_do_not_expire_when_it_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let clock = MachineClock::new();
    let store = filled(dir.path(), &clock).await;
    clock.jump(-400 * DAY);
    store.append(parcel(1, 50..60)).await.unwrap();
    store.flush().await.unwrap();
    clock.jump(400 * DAY);
    clock.pass(DAY);
    until_run(dir.path(), &clock).await;
    assert_eq!(rows(&store).await, 60);
    assert_eq!(store.stats().message, None);
    store.close().await.unwrap();
    clock.pass(HOUR);
    let store = Store::open(settings(dir.path(), &clock)).unwrap();
    until_run(dir.path(), &clock).await;
    assert_eq!(rows(&store).await, 60);
    store.close().await.unwrap();
}

#[tokio::test]
async fn hub_that_was_off_for_40_days_waits_a_day_and_what_expires_can_be_restored() {
    let dir = tempfile::tempdir().unwrap();
    let clock = MachineClock::new();
    filled(dir.path(), &clock).await.close().await.unwrap();
    clock.jump(40 * DAY);
    let store = Store::open(settings(dir.path(), &clock)).unwrap();
    eventually(async || store.stats().message.is_some()).await;
    assert_eq!(rows(&store).await, 50);
    clock.pass(25 * HOUR);
    eventually(async || store.stats().file_count == 0).await;
    assert_eq!(rows(&store).await, 0);
    let refused = undelete(&settings(dir.path(), &clock)).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Locked);
    store.close().await.unwrap();

    let longer = Retention { days: 90, ..Retention::default() };
    let longer = StoreOptions { retention: longer, ..settings(dir.path(), &clock) };
    let restored = undelete(&longer).unwrap();
    assert_eq!((restored.file_count, restored.missing.len()), (1, 0));
    assert_eq!(undelete(&longer).unwrap().file_count, 0, "once");
    let store = Store::open(longer).unwrap();
    assert_eq!(rows(&store).await, 50);
    store.append(parcel(1, 50..60)).await.unwrap();
    store.flush().await.unwrap();
    assert_eq!(rows(&store).await, 60);
    store.close().await.unwrap();
}

#[tokio::test]
async fn expired_file_is_gone_after_a_day_and_is_named_when_it_was_deleted_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let clock = MachineClock::new();
    let store = filled(dir.path(), &clock).await;
    let files = || weir_files(dir.path());
    clock.pass(31 * DAY);
    eventually(async || store.stats().file_count == 0).await;
    assert_eq!(files().len(), 1);
    clock.pass(DAY);
    eventually(async || files().is_empty()).await;
    store.append(parcel(1, 50..60)).await.unwrap();
    store.flush().await.unwrap();
    clock.pass(31 * DAY);
    eventually(async || store.stats().file_count == 0).await;
    store.close().await.unwrap();
    for file in files() {
        std::fs::remove_file(file).unwrap();
    }
    let restored = undelete(&settings(dir.path(), &clock)).unwrap();
    assert_eq!((restored.file_count, restored.missing.len()), (0, 1));
}

#[tokio::test]
async fn size_limit_takes_what_can_be_restored_first() {
    let dir = tempfile::tempdir().unwrap();
    let clock = MachineClock::new();
    let retention = Retention { total_bytes: 1, ..Retention::default() };
    let tight = StoreOptions { retention, ..settings(dir.path(), &clock) };
    let store = Store::open(tight).unwrap();
    store.append(parcel(1, 0..50)).await.unwrap();
    store.flush().await.unwrap();
    eventually(async || weir_files(dir.path()).is_empty()).await;
    assert_eq!(rows(&store).await, 0);
    store.close().await.unwrap();
}

/// Waits until the retention ran at the present time.
async fn until_run(dir: &Path, clock: &MachineClock) {
    let now = clock.now().0.to_string();
    let path = dir.join("retention-clock");
    eventually(async || std::fs::read_to_string(&path).is_ok_and(|text| text.starts_with(&now)))
        .await;
}

fn weir_files(dir: &Path) -> Vec<String> {
    walk(dir).into_iter().filter(|path| path.ends_with(".parquet")).collect()
}
