//! Backups of clusters: a restore returns what was there, as a cluster or as a single hub, whatever
//! the hubs do meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_store::{
    BackupSummary, ErrorKind, RestoreSummary, Store, StoreError, StoreOptions, backup,
    backup_cluster, cluster_hubs, inspect_cluster, restore, restore_cluster, verify_backup,
};
use weir_tables::{Micros, StreamId};

use crate::cluster::{COUNT, DISTINCT, Fleet, SUM, file_count, kill};
use crate::slow::files;
use crate::tool::{NOON, eventually, number, options, parcel};

fn save(fleet: &Fleet, copy: &Path) -> Result<BackupSummary, StoreError> {
    let (place, manifest) = (fleet.place(), fleet.manifest());
    tokio::task::block_in_place(|| backup_cluster(Some(&place), &manifest, copy, NOON, None))
}

fn bring(fleet: &Fleet, copy: &Path, at: Option<&str>) -> Result<RestoreSummary, StoreError> {
    let (place, manifest) = (fleet.place(), fleet.manifest());
    let is_shared = |path: &str| path.starts_with("link/agents/");
    tokio::task::block_in_place(|| {
        restore_cluster(copy, at, Some(&place), &manifest, &is_shared, NOON)
    })
}

/// Every file matches the manifest, and none is orphaned.
fn sane(fleet: &Fleet) {
    let (place, manifest) = (fleet.place(), fleet.manifest());
    let found = tokio::task::block_in_place(|| {
        inspect_cluster(&fleet.path("none"), Some(&place), &manifest, true).unwrap()
    });
    assert_eq!((found.problems, found.unknown_files), (vec![], vec![]));
}

/// Row count, distinct rows, and their sum.
async fn content(store: &Store) -> (i64, i64, i64) {
    (number(store, COUNT).await, number(store, DISTINCT).await, number(store, SUM).await)
}

fn first(end: i64) -> (i64, i64, i64) {
    (end, end, end * (end - 1) / 2)
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_of_a_cluster_becomes_a_new_cluster_or_a_hub_alone() {
    let test = "backup_of_a_cluster_becomes_a_new_cluster_or_a_hub_alone";
    let Some(mut fleet) = Fleet::start(test) else { return };
    let copy = fleet.dir.path().join("copy");
    let none = save(&fleet, &copy).unwrap_err();
    assert!(none.message.contains("there is no cluster in the schema `weir`"), "{none}");
    let (one, two) = (fleet.hub("one").await, fleet.hub("two").await);
    fleet.meet(&[&one, &two]).await;
    one.append(parcel(1, 0..100)).await.unwrap();
    two.append(parcel(2, 100..250)).await.unwrap();
    let shared = ("link/agents/web1".to_owned(), b"key".to_vec());
    assert!(one.share_file(shared.0.clone(), None, Some(shared.1.clone())).await.unwrap());
    one.share_file("other".into(), None, Some(b"x".to_vec())).await.unwrap();
    one.flush().await.unwrap();
    two.flush().await.unwrap();
    let early = save(&fleet, &copy).unwrap();
    assert_eq!((early.file_count, early.new_files), (4, 4));
    two.append(parcel(2, 250..300)).await.unwrap();
    two.flush().await.unwrap();
    let late = save(&fleet, &copy).unwrap();
    assert_eq!((late.file_count, late.new_files), (5, 1));
    assert_eq!(tokio::task::block_in_place(|| verify_backup(&copy)).unwrap().problems, [""; 0]);
    let hubs = tokio::task::block_in_place(|| cluster_hubs(&fleet.manifest())).unwrap();
    assert_eq!((hubs.there.len(), hubs.gone.len()), (2, 0));
    // Refuses to overwrite existing data, in PostgreSQL or in the shared place.
    let told = bring(&fleet, &copy, None).unwrap_err();
    assert!(told.message.contains("there is one in `weir`"), "{told}");
    let used = fleet.place();
    let mut elsewhere = fleet.manifest();
    elsewhere.schema = "elsewhere".into();
    let told = tokio::task::block_in_place(|| {
        restore_cluster(&copy, None, Some(&used), &elsewhere, &|_| true, NOON).unwrap_err()
    });
    assert!(told.message.contains("it has files of another weir"), "{told}");

    for (schema, at, end) in [("early", Some(early.snapshot.as_str()), 250), ("late", None, 300)] {
        fleet.schema = schema.into();
        fleet.near = Arc::default();
        bring(&fleet, &copy, at).unwrap();
        sane(&fleet);
        let hub = fleet.hub("one").await;
        assert_eq!(content(&hub).await, first(end));
        assert_eq!(hub.shared_files().await.unwrap().unwrap(), std::slice::from_ref(&shared));
        // An agent resumes from there, and file numbers of the new hub do not collide.
        let stream = StreamId(2);
        hub.claim(&[stream]).await.unwrap();
        assert_eq!(hub.positions(&[stream]), [(stream, end.cast_unsigned())]);
        hub.append(parcel(2, end.cast_unsigned()..400)).await.unwrap();
        hub.flush().await.unwrap();
        assert_eq!(content(&hub).await, first(400));
        sane(&fleet);
        hub.close().await.unwrap();
    }
    assert_eq!(content(&one).await, first(300));

    let alone = fleet.dir.path().join("alone");
    restore(&copy, None, &alone).unwrap();
    let store = Store::open(options(&alone)).unwrap();
    assert_eq!(content(&store).await, first(300));
    assert_eq!(std::fs::read(alone.join(&shared.0)).unwrap(), shared.1);
    store.append(parcel(2, 300..500)).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    // And from a single hub to a cluster.
    let copy = fleet.dir.path().join("second");
    backup(&alone, None, &copy, NOON, None).unwrap();
    fleet.schema = "grown".into();
    fleet.near = Arc::default();
    bring(&fleet, &copy, None).unwrap();
    let hub = fleet.hub("one").await;
    assert_eq!(content(&hub).await, first(500));
    hub.append(parcel(3, 500..600)).await.unwrap();
    hub.flush().await.unwrap();
    assert_eq!(content(&hub).await, first(600));
    sane(&fleet);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_a_backup_reads_stay_while_they_are_merged_away() {
    let test = "files_that_a_backup_reads_stay_while_they_are_merged_away";
    let Some(fleet) = Fleet::start(test) else { return };
    let working = StoreOptions {
        maintenance_interval: Duration::from_millis(10),
        small_file_count: 3,
        ..fleet.options("one")
    };
    let one = fleet.open(working).await.unwrap();
    eventually(async || one.is_leader()).await;
    let over = |seconds: i64| fleet.clock.set(Micros(NOON.0 + seconds * 1_000_000));
    let live = "select count(*) from weir.data_file where end_snapshot is null";
    let hold = "insert into weir.lease values
         ('hold test', 0, (extract(epoch from clock_timestamp()) * 1000000)::bigint + 3000000)";
    fleet.server.sql(hold);
    for part in 0..4 {
        one.append(parcel(1, part * 10..part * 10 + 10)).await.unwrap();
        one.flush().await.unwrap();
    }
    eventually(async || fleet.server.sql(live).is_some_and(|count| count != "4")).await;
    over(100);
    // Many rounds of deletion.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(files(&fleet.path("files")).len() >= 4, "somebody may read them");
    // A hold that is not renewed expires.
    eventually(async || fleet.server.sql(live) == Some(file_count(&fleet))).await;

    let copy = fleet.dir.path().join("copy");
    let is_over = AtomicBool::new(false);
    let churn = async {
        let (mut end, mut time) = (40, 100);
        while !is_over.load(Ordering::Relaxed) {
            one.append(parcel(1, end..end + 10)).await.unwrap();
            one.flush().await.unwrap();
            (end, time) = (end + 10, time + 61);
            over(time);
        }
    };
    let saves = async {
        for _ in 0..8 {
            save(&fleet, &copy).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(churn, saves);
    let found = tokio::task::block_in_place(|| verify_backup(&copy)).unwrap();
    assert_eq!((found.snapshots, found.problems), (8, vec![]));
    let holds = "select count(*) from weir.lease where name like 'hold %'";
    assert_eq!(fleet.server.sql(holds).unwrap(), "0", "it ends with the backup");
    let alone = fleet.dir.path().join("alone");
    restore(&copy, None, &alone).unwrap();
    let store = Store::open(options(&alone)).unwrap();
    let rows = number(&store, COUNT).await;
    assert!(rows > 40);
    assert_eq!(content(&store).await, first(rows));
    assert_eq!(store.positions(&[StreamId(1)])[0].1, rows.cast_unsigned());
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_that_did_not_end_keeps_hubs_out_and_goes_on() {
    let test = "restore_that_did_not_end_keeps_hubs_out_and_goes_on";
    let Some(mut fleet) = Fleet::start(test) else { return };
    let copy = fleet.dir.path().join("copy");
    let one = fleet.hub("one").await;
    for part in 0..3 {
        one.append(parcel(1, part * 10..part * 10 + 10)).await.unwrap();
        one.flush().await.unwrap();
    }
    save(&fleet, &copy).unwrap();
    kill(one).await;
    let mut objects = Vec::new();
    for group in std::fs::read_dir(copy.join("objects")).unwrap() {
        let group = std::fs::read_dir(group.unwrap().path()).unwrap();
        objects.extend(group.map(|object| object.unwrap().path()));
    }
    let whole = std::fs::read(&objects[1]).unwrap();
    std::fs::write(&objects[1], &whole[1..]).unwrap();
    fleet.schema = "new".into();
    let told = bring(&fleet, &copy, None).unwrap_err();
    assert_eq!(told.kind, ErrorKind::Corrupt, "{told}");
    assert!(told.to_string().contains("restore another with `--at`"), "{told}");
    let told = fleet.open(fleet.options("one")).await.err().unwrap();
    assert!(told.message.contains("a restore into it did not finish"), "{told}");
    std::fs::write(&objects[1], whole).unwrap();
    // A leftover of another snapshot's restore.
    let left = fleet.path("files/data/log/2026-11-20/000000000009.parquet");
    std::fs::create_dir_all(left.parent().unwrap()).unwrap();
    std::fs::write(&left, "x").unwrap();
    bring(&fleet, &copy, None).unwrap();
    sane(&fleet);
    let one = fleet.hub("one").await;
    assert_eq!(content(&one).await, first(30));
}
