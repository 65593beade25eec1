//! Iceberg metadata as engines read it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use apache_avro::Reader;
use apache_avro::types::Value;
use weir_store::{IcebergTable, SlowOptions, SlowPlace, SlowRule, Store, StoreOptions};
use weir_tables::{FixedClock, Micros, Parcel};

use crate::bucket::{is_moved, moving, reached, tier};
use crate::cluster::Fleet;
use crate::s3::Service;
use crate::text_index::batch;
use crate::tool::{NOON, options, within};

async fn fill(store: &Store, numbers: std::ops::Range<u64>) {
    store.append(Parcel { range: None, batches: vec![batch(numbers)] }).await.unwrap();
    store.flush().await.unwrap();
}

async fn table(store: &Store, name: &str) -> Arc<IcebergTable> {
    store.iceberg_table(weir_tables::table(name).unwrap()).await.unwrap()
}

fn here(location: &str) -> PathBuf {
    PathBuf::from(location.strip_prefix("file://").unwrap())
}

/// Reads the records of an Avro file.
fn records(location: &str) -> Vec<Vec<(String, Value)>> {
    let file = std::fs::read(here(location)).unwrap();
    let values = Reader::new(&file[..]).unwrap();
    values
        .map(|value| match value.unwrap() {
            Value::Record(fields) => fields,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn field<'a>(record: &'a [(String, Value)], name: &str) -> &'a Value {
    let found = &record.iter().find(|(key, _)| key == name).unwrap().1;
    if let Value::Union(_, found) = found { found } else { found }
}

fn text(record: &[(String, Value)], name: &str) -> String {
    let Value::String(text) = field(record, name) else { panic!("{name}") };
    text.clone()
}

fn long(record: &[(String, Value)], name: &str) -> i64 {
    let Value::Long(number) = field(record, name) else { panic!("{name}") };
    *number
}

fn bound(file: &[(String, Value)], name: &str) -> i64 {
    let Value::Array(pairs) = field(file, name) else { panic!("{name}") };
    let [Value::Record(pair)] = &pairs[..] else { panic!("{pairs:?}") };
    let Value::Bytes(bytes) = field(pair, "value") else { panic!("{pair:?}") };
    i64::from_le_bytes(bytes[..].try_into().unwrap())
}

/// Data files of a table's snapshot, each as (location, rows, bytes, oldest, newest).
fn files(table: &IcebergTable) -> Vec<(String, i64, i64, i64, i64)> {
    let told = std::fs::read_to_string(here(&table.metadata_location)).unwrap();
    assert_eq!(told, table.metadata.to_string());
    let snapshot = &table.metadata["snapshots"][0];
    assert_eq!(table.metadata["current-snapshot-id"], snapshot["snapshot-id"]);
    let [list] = &records(snapshot["manifest-list"].as_str().unwrap())[..] else { panic!() };
    let manifest = text(list, "manifest_path");
    let length = std::fs::metadata(here(&manifest)).unwrap().len();
    assert_eq!(long(list, "manifest_length"), i64::try_from(length).unwrap());
    let entries = records(&manifest);
    let files: Vec<_> = entries
        .iter()
        .map(|entry| {
            let Value::Record(file) = field(entry, "data_file") else { panic!() };
            let (rows, bytes) = (long(file, "record_count"), long(file, "file_size_in_bytes"));
            let bounds = ["lower_bounds", "upper_bounds"].map(|name| bound(file, name));
            (text(file, "file_path"), rows, bytes, bounds[0], bounds[1])
        })
        .collect();
    let rows: i64 = files.iter().map(|file| file.1).sum();
    assert_eq!(snapshot["summary"]["total-records"], rows.to_string());
    assert_eq!(long(list, "added_rows_count"), rows);
    files
}

#[tokio::test]
async fn snapshot_has_the_files_of_the_moment_with_their_rows_and_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    let none = table(&store, "request").await;
    assert_eq!(none.metadata["snapshots"], serde_json::json!([]));
    assert!(none.metadata.get("current-snapshot-id").is_none());
    fill(&store, 0..1000).await;
    let first = table(&store, "request").await;
    assert!(Arc::ptr_eq(&first, &table(&store, "request").await), "nothing has changed");
    fill(&store, 1000..1500).await;
    let second = table(&store, "request").await;
    let [one, other] = &files(&second)[..] else { panic!("two flushes are two files") };
    assert_eq!((one.1, other.1), (1000, 500));
    assert_eq!((one.3, one.4), (NOON.0, NOON.0 + 999_000));
    assert_eq!((other.3, other.4), (NOON.0 + 1_000_000, NOON.0 + 1_499_000));
    for (location, _, bytes, ..) in files(&second) {
        let length = std::fs::metadata(here(&location)).unwrap().len();
        assert_eq!(i64::try_from(length).unwrap(), bytes);
    }
    let columns = weir_tables::table("request").unwrap().columns.len();
    assert_eq!(second.metadata["schemas"][0]["fields"].as_array().unwrap().len(), columns);
    // A reader of the older snapshot can continue.
    assert_eq!(files(&first).len(), 1);
    assert_ne!(first.metadata["current-snapshot-id"], second.metadata["current-snapshot-id"]);
    assert_eq!(first.metadata["table-uuid"], second.metadata["table-uuid"]);
    store.close().await.unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    let again = table(&store, "request").await;
    assert_eq!(again.metadata_location, second.metadata_location);
    assert_eq!(files(&again), files(&second));
}

#[tokio::test]
async fn snapshot_is_of_the_time_at_which_its_newest_row_came_in() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(FixedClock::new(NOON));
    let options = StoreOptions { clock: Arc::clone(&clock) as _, ..options(dir.path()) };
    let store = Store::open(options).unwrap();
    fill(&store, 0..10).await;
    // To an engine whose transaction began earlier, a snapshot of now is in the future.
    clock.set(Micros(NOON.0 + 60_000_000));
    let metadata = &table(&store, "request").await.metadata;
    for time in [
        &metadata["last-updated-ms"],
        &metadata["snapshots"][0]["timestamp-ms"],
        &metadata["snapshot-log"][0]["timestamp-ms"],
    ] {
        assert_eq!(*time, NOON.0 / 1000);
    }
}

#[tokio::test]
async fn older_answers_go_after_the_time_that_readers_have() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { gc_grace: Duration::ZERO, ..options(dir.path()) };
    let store = Store::open(options).unwrap();
    fill(&store, 0..10).await;
    let first = table(&store, "request").await;
    fill(&store, 10..20).await;
    let second = table(&store, "request").await;
    assert!(!here(&first.metadata_location).exists());
    assert_eq!(files(&second).iter().map(|file| file.1).sum::<i64>(), 20);
    let left = std::fs::read_dir(dir.path().join("iceberg/request")).unwrap().count();
    assert_eq!(left, 3, "metadata, list, manifest");
}

#[tokio::test]
async fn answer_that_was_given_a_moment_ago_stays_however_old_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    fill(&store, 0..10).await;
    let first = table(&store, "request").await;
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for file in std::fs::read_dir(dir.path().join("iceberg/request")).unwrap() {
        let file = std::fs::File::options().append(true).open(file.unwrap().path()).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    fill(&store, 10..20).await;
    table(&store, "request").await;
    assert_eq!(files(&first).len(), 1);
}

#[tokio::test]
async fn files_of_a_slow_tier_are_named_where_they_are() {
    let (dir, slow) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rule = SlowRule { after: Duration::ZERO, ..SlowRule::default() };
    let place = SlowPlace::Directory(slow.path().to_owned());
    let options = StoreOptions {
        maintenance_interval: Duration::from_millis(20),
        slow: Some(SlowOptions { rule, ..SlowOptions::new(place) }),
        ..options(dir.path())
    };
    let store = Store::open(options).unwrap();
    fill(&store, 0..1000).await;
    let is_there = |location: &str| here(location).starts_with(slow.path());
    within(60, async || files(&*table(&store, "request").await).iter().all(|one| is_there(&one.0)))
        .await;
    let [one] = &files(&*table(&store, "request").await)[..] else { panic!() };
    assert!(here(&one.0).is_file() && one.1 == 1000, "{one:?}");
}

#[tokio::test]
async fn files_of_a_bucket_are_named_there() {
    let Some(service) = Service::start() else { return };
    service.make_bucket("rows").await;
    let dir = tempfile::tempdir().unwrap();
    let slow = tier(reached(service.port), 0);
    let store = Store::open(moving(dir.path(), slow.clone())).unwrap();
    fill(&store, 0..1000).await;
    is_moved(dir.path()).await;
    let [one] = &files(&*table(&store, "request").await)[..] else { panic!() };
    assert!(one.0.starts_with("s3://rows/some/weir/data/request/"), "{one:?}");
    assert!(Path::new(&one.0).extension().is_some_and(|end| end == "parquet"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_hub_of_several_writes_its_metadata_where_all_have_their_files() {
    let test = "each_hub_of_several_writes_its_metadata_where_all_have_their_files";
    let Some(fleet) = Fleet::start(test) else { return };
    let (one, two) = (fleet.hub("one").await, fleet.hub("two").await);
    fleet.meet(&[&one, &two]).await;
    fill(&one, 0..1000).await;
    fill(&two, 1000..1500).await;
    let shared = fleet.path("files/iceberg/request");
    let mut found = Vec::new();
    for hub in [&one, &two] {
        within(20, async || files(&*table(hub, "request").await).len() == 2).await;
        let made = table(hub, "request").await;
        assert!(here(&made.metadata_location).starts_with(&shared), "{made:?}");
        let rows: i64 = files(&made).iter().map(|file| file.1).sum();
        assert_eq!(rows, 1500);
        assert!(files(&made).iter().all(|file| here(&file.0).starts_with(fleet.path("files"))));
        found.push(made);
    }
    let [first, second] = &found[..] else { panic!() };
    assert_ne!(first.metadata_location, second.metadata_location);
    for key in ["table-uuid", "location"] {
        assert_eq!(first.metadata[key], second.metadata[key]);
    }
    // Each store deletes only its own files.
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fill(&one, 1500..1600).await;
    let later = table(&one, "request").await;
    for file in std::fs::read_dir(fleet.path("one/iceberg/request")).unwrap() {
        let file = std::fs::File::options().append(true).open(file.unwrap().path()).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    fill(&one, 1600..1700).await;
    let last = table(&one, "request").await;
    assert!(!here(&first.metadata_location).exists());
    for (table, rows) in [(second, 1500), (&later, 1600), (&last, 1700)] {
        assert_eq!(files(table).iter().map(|file| file.1).sum::<i64>(), rows);
    }
}
