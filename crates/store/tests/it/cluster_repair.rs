//! `repair` of a running cluster: readable rows stay, unreadable ones are reported, and every hub
//! sees the same.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_store::{
    ErrorKind, FileRepair, Query, Retention, Store, StoreError, StoreOptions, inspect_cluster,
    repair_cluster, undelete_cluster,
};
use weir_tables::{Batch, Clock as _, Micros, Parcel, Rows, Sysctl, SysctlRows};

use crate::cluster::{COUNT, DISTINCT, Fleet, SUM};
use crate::inspect::text_index_of;
use crate::slow::files;
use crate::tool::{NOON, eventually, number, parcel};

const VALUES: &str = "select count(distinct value) from sysctl";

/// Runs the repair command, as on a separate host.
fn mend(fleet: &Fleet) -> Result<Vec<FileRepair>, StoreError> {
    let (place, manifest) = (fleet.place(), fleet.manifest());
    let clock = Arc::clone(&fleet.clock);
    tokio::task::block_in_place(|| {
        repair_cluster(&fleet.path("elsewhere"), Some(&place), &manifest, &*clock)
    })
}

fn problems(fleet: &Fleet) -> Vec<(String, String)> {
    let (place, manifest) = (fleet.place(), fleet.manifest());
    tokio::task::block_in_place(|| {
        inspect_cluster(&fleet.path("elsewhere"), Some(&place), &manifest, true).unwrap()
    })
    .problems
}

/// 300,000 rows in three row groups.
fn settings() -> Parcel {
    let mut rows = SysctlRows::default();
    for at in 0..300_000_i64 {
        let (ts, value) = (Micros(NOON.0 + at), at.to_string());
        rows.push(&Sysctl { ts, host: "web1", name: "a", value: &value, ..Default::default() });
    }
    let batch = Batch { table: SysctlRows::SPEC, rows: rows.finish() };
    Parcel { range: None, batches: vec![batch] }
}

/// Files of a table below `root`.
fn of(root: &Path, table: &str) -> Vec<String> {
    let names = files(root).into_iter().filter_map(|path| {
        let name = path.strip_prefix(root).unwrap_or(&path);
        name.to_str().map(str::to_owned)
    });
    names.filter(|name| name.starts_with(&format!("data/{table}/"))).collect()
}

fn overwrite(path: &Path, at: u64, count: usize) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&vec![0x5a; count], at).unwrap();
}

fn spoil_index(path: &Path) {
    overwrite(path, text_index_of(&std::fs::read(path).unwrap()), 4);
}

async fn content(store: &Store) -> (i64, i64, i64) {
    (number(store, COUNT).await, number(store, DISTINCT).await, number(store, SUM).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_files_of_a_cluster_are_mended_while_its_hubs_go_on() {
    let test = "damaged_files_of_a_cluster_are_mended_while_its_hubs_go_on";
    let Some(fleet) = Fleet::start(test) else { return };
    let none = mend(&fleet).unwrap_err();
    assert!(none.message.contains("there is no cluster in the schema `weir`"), "{none}");
    let (one, two) = (fleet.hub("one").await, fleet.hub("two").await);
    fleet.meet(&[&one, &two]).await;
    one.append(settings()).await.unwrap();
    for (hub, stream, from, end) in [(&one, 1, 0, 600), (&two, 2, 600, 1000), (&two, 2, 1000, 1300)]
    {
        hub.append(parcel(stream, from..end)).await.unwrap();
        hub.flush().await.unwrap();
    }
    assert!(mend(&fleet).unwrap().is_empty());
    let root = fleet.path("files");
    let (sysctl, logs) = (&of(&root, "sysctl")[0], of(&root, "log"));
    assert_eq!(logs.len(), 3);
    let length = root.join(sysctl).metadata().unwrap().len();
    overwrite(&root.join(sysctl), 2000, 4000);
    std::fs::remove_file(root.join(&logs[1])).unwrap();
    spoil_index(&root.join(&logs[2]));
    assert_eq!(problems(&fleet).len(), 3);
    // A file without an entry stays: its rows may be in a hub's log.
    let stray = root.join(&logs[0]).with_file_name("999.parquet");
    std::fs::copy(root.join(&logs[0]), &stray).unwrap();
    // An unreachable tier is no reason to give up files.
    let mark = std::fs::read(root.join("WEIR")).unwrap();
    std::fs::remove_file(root.join("WEIR")).unwrap();
    let away = mend(&fleet).unwrap_err();
    assert!(away.message.contains("it has no file `WEIR`"), "{away}");
    std::fs::write(root.join("WEIR"), mark).unwrap();

    let mended = mend(&fleet).unwrap();
    assert_eq!(mended.len(), 3, "{mended:?}");
    let one_of = |path: &String| mended.iter().find(|file| file.path == *path).unwrap();
    let torn = one_of(sysctl);
    let lost = torn.rows_lost.unwrap();
    assert!(lost > 0 && lost <= 131_072, "{torn:?}");
    assert_eq!(torn.rows_taken, 300_000 - lost);
    assert_eq!(torn.times, Some((NOON, Micros(NOON.0 + 299_999))));
    let kept = fleet.path("elsewhere").join(torn.kept_at.as_ref().unwrap());
    assert_eq!(kept.metadata().unwrap().len(), length);
    let gone = one_of(&logs[1]);
    assert_eq!((gone.rows_taken, &gone.kept_at), (0, &None), "{gone:?}");
    let rows = gone.rows_lost.unwrap();
    assert!([300, 400, 600].contains(&rows), "{gone:?}");
    let spoilt = one_of(&logs[2]);
    assert_eq!(spoilt.rows_lost, Some(0), "{spoilt:?}");
    assert!(spoilt.why.contains("the checksum differs"), "{spoilt:?}");
    assert!(stray.exists() && problems(&fleet).is_empty());
    assert!(!fleet.path("elsewhere").join("mending").exists());

    let left = (i64::try_from(300_000 - lost).unwrap(), i64::try_from(1300 - rows).unwrap());
    for hub in [&one, &two] {
        eventually(async || {
            hub.query(Query::new(VALUES)).run().await.is_ok()
                && (number(hub, VALUES).await, number(hub, COUNT).await) == left
        })
        .await;
    }
    // No hub sees the repair as a member.
    assert_eq!((one.peers().len(), two.peers().len()), (1, 1));
    assert_eq!(fleet.server.sql("select count(*) from weir.hub").unwrap(), "2");
    two.append(parcel(2, 1300..1500)).await.unwrap();
    two.flush().await.unwrap();
    assert_eq!(number(&two, COUNT).await, left.1 + 200);
    assert!(mend(&fleet).unwrap().is_empty());
}

async fn is_readable(store: &Store) -> bool {
    let distinct = store.query(Query::new(DISTINCT)).run().await;
    distinct.is_ok() && store.query(Query::new(SUM)).run().await.is_ok()
}

fn spoil_one(root: &Path) -> Option<PathBuf> {
    let path = root.join(of(root, "log").pop()?);
    spoil_index(&path);
    Some(path)
}

/// A damaged index does not exclude a file from merges: the merge or the repair comes first, and
/// each row exists once.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_merged_while_it_is_mended_is_there_once() {
    let test = "a_file_that_is_merged_while_it_is_mended_is_there_once";
    let Some(fleet) = Fleet::start(test) else { return };
    let working = StoreOptions {
        maintenance_interval: Duration::from_millis(10),
        small_file_count: 2,
        ..fleet.options("one")
    };
    let one = fleet.open(working).await.unwrap();
    let mut mended = 0;
    for round in 0..30 {
        let from = round * 10;
        one.append(parcel(1, from..from + 10)).await.unwrap();
        one.flush().await.unwrap();
        if spoil_one(&fleet.path("files")).is_none() {
            continue;
        }
        mended += mend(&fleet).unwrap().len();
        let end = i64::try_from(from + 10).unwrap();
        // Until the hub sees the repair, a query of the damaged file ends with an error.
        eventually(async || is_readable(&one).await).await;
        assert_eq!(content(&one).await, (end, end, end * (end - 1) / 2), "round {round}");
    }
    mend(&fleet).unwrap();
    assert!(mended > 0 && problems(&fleet).is_empty());
    one.close().await.unwrap();
    let again = fleet.hub("two").await;
    assert_eq!(content(&again).await, (300, 300, 300 * 299 / 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_repairs_do_not_share_a_directory() {
    let Some(fleet) = Fleet::start("two_repairs_do_not_share_a_directory") else { return };
    let one = fleet.hub("one").await;
    one.append(parcel(1, 0..10)).await.unwrap();
    one.flush().await.unwrap();
    let place = fleet.path("elsewhere").join("mending");
    std::fs::create_dir_all(&place).unwrap();
    let held = std::fs::File::create(place.join("lock")).unwrap();
    held.lock().unwrap();
    assert_eq!(mend(&fleet).unwrap_err().kind, ErrorKind::Locked);
    drop(held);
    assert!(mend(&fleet).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_files_of_a_cluster_come_back_while_a_hub_runs() {
    let test = "expired_files_of_a_cluster_come_back_while_a_hub_runs";
    let Some(fleet) = Fleet::start(test) else { return };
    let keeping = |name, days| {
        let retention = Retention { days, ..Retention::default() };
        let maintenance_interval = Duration::from_millis(20);
        fleet.open(StoreOptions { retention, maintenance_interval, ..fleet.options(name) })
    };
    let one = keeping("one", 30).await.unwrap();
    for rows in [0..600, 600..1000] {
        one.append(parcel(1, rows)).await.unwrap();
        one.flush().await.unwrap();
    }
    let files = files(&fleet.path("files"));
    fleet.clock.set(fleet.clock.now() + Duration::from_secs(31 * 86_400));
    eventually(async || number(&one, COUNT).await == 0).await;
    one.close().await.unwrap();
    let two = keeping("two", 90).await.unwrap();
    assert_eq!(number(&two, COUNT).await, 0);
    let undelete = || {
        let (place, manifest, dir) = (fleet.place(), fleet.manifest(), fleet.path("elsewhere"));
        let restore = || undelete_cluster(&dir, Some(&place), &manifest, &*fleet.clock).unwrap();
        let restored = tokio::task::block_in_place(restore);
        (restored.file_count, restored.missing.len() as u64)
    };
    std::fs::remove_file(&files[0]).unwrap();
    assert_eq!(undelete(), (files.len() as u64 - 1, 1));
    eventually(async || [400, 600].contains(&number(&two, COUNT).await)).await;
    assert_eq!(undelete(), (0, 1), "once");
    assert!(problems(&fleet).is_empty());
}
