//! A cold tier in a bucket, against a real service that is killed and paused, behind a proxy that
//! cuts, delays and answers 503.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_store::{
    BucketOptions, SlowBucketOptions, SlowOptions, SlowPlace, SlowRule, Store, StoreOptions,
    inspect,
};
use weir_tables::Parcel;

use crate::s3::{Line, Mode, Service, keys};
use crate::slow::files;
use crate::text_index::{batch, id};
use crate::tool::{ask, number, options, parcel, within};

pub(crate) fn reached(port: u16) -> BucketOptions {
    BucketOptions {
        bucket: "rows".into(),
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        region: Some("us-east-1".into()),
        keys: Some(keys()),
        authority: None,
        timeout: Duration::from_secs(20),
    }
}

pub(crate) fn tier(bucket: BucketOptions, cache_bytes: u64) -> SlowOptions {
    let options = SlowBucketOptions {
        prefix: "some/weir".to_owned(),
        requests: 8,
        cache_bytes,
        ..SlowBucketOptions::new(bucket)
    };
    SlowOptions::new(SlowPlace::Bucket(Box::new(options)))
}

pub(crate) fn moving(dir: &Path, slow: SlowOptions) -> StoreOptions {
    let rule = SlowRule { after: Duration::ZERO, ..SlowRule::default() };
    StoreOptions {
        maintenance_interval: Duration::from_millis(20),
        gc_grace: Duration::ZERO,
        slow: Some(SlowOptions { rule, ..slow }),
        ..options(dir)
    }
}

async fn fill(dir: &Path) -> Vec<String> {
    let store = Store::open(options(dir)).unwrap();
    for part in 0..3 {
        let rows = batch(part * 10_000..part * 10_000 + 10_000);
        store.append(Parcel { range: None, batches: vec![rows] }).await.unwrap();
        store.flush().await.unwrap();
    }
    let mut answers = Vec::new();
    for sql in questions() {
        answers.push(ask(&store, &sql).await);
    }
    store.close().await.unwrap();
    answers
}

fn questions() -> Vec<String> {
    vec![
        format!("select * from request where request_id = '{}'", id(23_456)),
        "select ts, url_path from request where search('stretch7 -museum') order by ts".into(),
        "select ts, url_path from request order by ts desc limit 100".into(),
        "select date_trunc('minute', ts) as at, http_response_status_code, count(*) from request group by 1, 2 order by 1, 2".into(),
        "select url_path, count(*) from request where upper(url_path) like '%CART%' group by 1 order by 2 desc, 1 limit 20".into(),
    ]
}

async fn compare(store: &Store, answers: &[String]) {
    for (sql, answer) in questions().iter().zip(answers) {
        assert_eq!(&ask(store, sql).await, answer, "{sql}");
    }
}

/// Reads every row once where it is stored, and checks that no file is orphaned.
fn check_all(dir: &Path, port: u16, rows: u64) {
    let found = inspect(dir, Some(&tier(reached(port), 0)), true).unwrap();
    assert_eq!((found.problems, found.unknown_files), (vec![], vec![]));
    assert_eq!(found.tables["request"].row_count, rows);
}

pub(crate) async fn is_moved(dir: &Path) {
    within(120, async || files(dir).is_empty()).await;
}

#[tokio::test]
async fn files_in_a_bucket_give_the_same_answers_with_their_indexes_here_and_without() {
    let Some(service) = Service::start() else { return };
    service.make_bucket("rows").await;
    let dir = tempfile::tempdir().unwrap();
    let answers = fill(dir.path()).await;
    let line = Line::to(service.port);
    let slow = || tier(reached(line.port), 1 << 30);
    let store = Store::open(moving(dir.path(), slow())).unwrap();
    is_moved(dir.path()).await;
    assert_eq!((store.stats().slow_file_count, store.stats().message), (3, None));
    compare(&store, &answers).await;
    let cache = dir.path().join("cache/slow");
    // A file still being written has another name.
    let is_whole =
        |entry: &std::fs::DirEntry| entry.path().extension().is_none_or(|end| end != "new");
    let entries =
        || std::fs::read_dir(&cache).into_iter().flatten().flatten().filter(is_whole).count();
    assert_eq!(entries(), 3);
    store.close().await.unwrap();

    // A truncated cache entry is discarded, a missing one is fetched again, and results stay the
    // same.
    for entry in std::fs::read_dir(&cache).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    }
    let store = Store::open(moving(dir.path(), slow())).unwrap();
    compare(&store, &answers).await;
    std::fs::remove_dir_all(&cache).unwrap();
    compare(&store, &answers).await;
    within(60, async || entries() == 3).await;
    store.close().await.unwrap();

    // The cache alone shows that an id is absent, without a request to the service.
    let store = Store::open(StoreOptions { slow: Some(slow()), ..options(dir.path()) }).unwrap();
    // The check of the bucket's owner does not count: it reads no file.
    let gets = || store.stats().bucket.unwrap().gets;
    let before = gets();
    assert_eq!(number(&store, "select count(*) from request where request_id = 'no'").await, 0);
    assert_eq!(gets() - before, 0);
    store.close().await.unwrap();

    let none = tier(reached(line.port), 0);
    let store = Store::open(StoreOptions { slow: Some(none), ..options(dir.path()) }).unwrap();
    compare(&store, &answers).await;
    store.close().await.unwrap();
    check_all(dir.path(), service.port, 30_000);
}

#[tokio::test]
async fn service_that_is_killed_and_stopped_in_the_middle_loses_nothing() {
    let Some(mut service) = Service::start() else { return };
    service.make_bucket("rows").await;
    let line = Line::to(service.port);
    let dir = tempfile::tempdir().unwrap();
    let answers = fill(dir.path()).await;
    line.set(Mode::Slow);
    let store = Store::open(moving(dir.path(), tier(reached(line.port), 1 << 30))).unwrap();
    within(60, async || line.requests() > 4).await;
    service.kill();
    store.append(parcel(1, 0..100)).await.unwrap();
    store.flush().await.unwrap();
    assert_eq!(number(&store, "select count(*) from request").await, 30_000);
    service.start_again().await;
    is_moved(dir.path()).await;
    compare(&store, &answers).await;

    // Queries run while the service is paused, which resumes before their timeout.
    let asked: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { ask(&store, &questions()[4]).await })
        })
        .collect();
    service.stop();
    tokio::time::sleep(Duration::from_secs(1)).await;
    service.go_on();
    for asked in asked {
        assert_eq!(asked.await.unwrap(), answers[4], "stopped for a moment only");
    }
    service.stop();
    let told = ask(&store, "select max(url_path) from request").await;
    assert!(told.contains("s3://rows/some/weir") && told.contains("is the service up"), "{told}");
    store.append(parcel(1, 100..200)).await.unwrap();
    service.go_on();
    compare(&store, &answers).await;
    assert_eq!(number(&store, "select sum(source_offset) from log").await, 199 * 100);
    store.close().await.unwrap();
    check_all(dir.path(), service.port, 30_000);
}

#[tokio::test]
async fn service_that_is_busy_shaky_or_cut_off_in_the_middle_loses_nothing() {
    let Some(service) = Service::start() else { return };
    service.make_bucket("rows").await;
    let line = Line::to(service.port);
    let dir = tempfile::tempdir().unwrap();
    let answers = fill(dir.path()).await;
    line.set(Mode::Shaky);
    let store = Store::open(moving(dir.path(), tier(reached(line.port), 1 << 30))).unwrap();
    within(60, async || line.requests() > 8).await;
    line.set(Mode::Cut);
    line.set(Mode::Shaky);
    is_moved(dir.path()).await;
    compare(&store, &answers).await;
    let asked: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { ask(&store, &questions()[4]).await })
        })
        .collect();
    line.set(Mode::Busy);
    tokio::time::sleep(Duration::from_millis(300)).await;
    line.set(Mode::Pass);
    for asked in asked {
        assert_eq!(asked.await.unwrap(), answers[4], "busy for a moment only");
    }
    line.set(Mode::Busy);
    let told = ask(&store, "select max(url_path) from request").await;
    assert!(told.contains("s3://rows/some/weir") && told.contains("SlowDown"), "{told}");
    assert!(!told.contains(&keys().1), "{told}");
    line.set(Mode::Pass);
    compare(&store, &answers).await;
    store.close().await.unwrap();
    check_all(dir.path(), service.port, 30_000);
}

#[tokio::test]
async fn wrong_keys_and_a_missing_bucket_are_said_and_files_stay() {
    let Some(service) = Service::start() else { return };
    service.make_bucket("rows").await;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = Store::open(options(&data)).unwrap();
    store.append(parcel(1, 0..100)).await.unwrap();
    store.close().await.unwrap();
    let wrong = [("nobody", "hushhushhush"), (&keys().0, "hushhushhush")];
    for (user, secret) in wrong {
        let keys = Some((user.to_owned(), secret.to_owned()));
        let wrong = BucketOptions { keys, ..reached(service.port) };
        let store = Store::open(moving(&data, tier(wrong, 0))).unwrap();
        within(60, async || store.stats().message.is_some()).await;
        let told = store.stats().message.unwrap();
        assert!(
            told.contains("s3://rows/some/weir") && told.contains("the keys are refused"),
            "{told}"
        );
        assert!(!told.contains("hushhushhush"), "{told}");
        assert_eq!(number(&store, "select sum(source_offset) from log").await, 99 * 50);
        store.close().await.unwrap();
    }
    let missing = BucketOptions { bucket: "nowhere".into(), ..reached(service.port) };
    let store = Store::open(moving(&data, tier(missing, 0))).unwrap();
    within(60, async || store.stats().message.is_some()).await;
    let told = store.stats().message.unwrap();
    assert!(told.contains("there is no bucket `nowhere`"), "{told}");
    assert_eq!((files(&data).len(), store.stats().slow_file_count), (1, 0));
    store.close().await.unwrap();
}
