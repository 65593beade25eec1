//! Trino, Spark and DuckDB themselves against the catalog (docs/iceberg.md): what they count and
//! sum is what weir does, from the first file on, over merging, moving to a slower place and
//! deletion.
//!
//! `cargo xtask test --long` fetches them, more than a gigabyte, and runs this.

#[expect(dead_code, clippy::print_stdout, reason = "most of it is for the tests in `it`")]
#[path = "../it/harness.rs"]
mod harness;

mod engine;
mod hub;

use std::path::Path;

use engine::{Engine, duckdb, spark, trino};
use hub::{BUCKET_KEYS, Bucket, Hub};
use serde_json::json;

/// In weir's words.
const QUERIES: &[&str] = &[
    "select count(*), count(distinct body), sum(cast(attrs['number'] as bigint)) from LOG where source = 'app'",
    "select host, count(*), sum(cast(attrs['number'] as bigint)), max(body) from LOG where source = 'app' group by host order by host",
    "select extract(hour from ts), count(*), min(body) from LOG where source = 'app' group by extract(hour from ts) order by 1",
    "select attrs['half'], count(*) from LOG where source = 'app' group by attrs['half'] order by 1",
    "select count(*) from LOG where source = 'app' and attrs['third'] is null",
    "select count(*) from LOG where source = 'app' and ts >= timestamp '2026-11-21 00:10:00 +00:00'",
    "select count(*) from LOG where source = 'app' and ts < timestamp '2026-11-20 23:20:00 +00:00'",
    "select count(*) from LOG where source = 'app' and ts = timestamp '2026-11-20 23:00:05.006170 +00:00'",
    "select host, ts = timestamp '2026-11-21 00:00:30.002468 +00:00' from LOG where source = 'app' and body = 'line 3630'",
    "select count(*) from LOG where source = 'app' and body >= 'line 5' and host = 'web3'",
    "select count(*) from LOG where source = 'app' and body like '%99'",
    "select count(*) from sysctl",
    // Which engines take from the manifests alone.
    "select count(*) from LOG",
];

/// Asks everything of every engine and both hubs.
fn all_agree(when: &str, engines: &mut [Engine], hubs: &[&Hub]) {
    for hub in hubs {
        for sql in QUERIES {
            let own = hub.rows(&sql.replace("LOG", "log"));
            for engine in &mut *engines {
                let schema = format!("{}.weir", hub.name);
                let asked = sql.replace("LOG", &format!("{schema}.log"));
                let asked = asked.replace("sysctl", &format!("{schema}.sysctl"));
                let asked = engine.words(&asked);
                assert_eq!(engine.rows(&asked), own, "{when}: {}: {asked}", engine.name);
            }
        }
    }
}

/// The catalog's own tables can be read.
fn files_can_be_listed(trino: &mut Engine, spark: &mut Engine, hub: &Hub) {
    let (files, name) = (json!([[hub.files()]]), hub.name);
    for (table, wanted) in [("files", &files), ("entries", &files), ("manifests", &json!([[1]]))] {
        let listed = trino.rows(&format!("select count(*) from {name}.weir.\"log${table}\""));
        assert_eq!(&listed, wanted, "{table}");
        let listed = spark.rows(&format!("select * from {name}.weir.log.{table}"));
        let count = listed.as_array().map(Vec::len);
        assert_eq!(&json!([[count]]), wanted, "{table}");
    }
}

/// A write is refused and leaves nothing.
fn writing_is_refused(engines: &mut [Engine], hub: &Hub) {
    let before = hub.iceberg_files();
    for engine in engines {
        let name = hub.name;
        for sql in [
            format!("insert into {name}.weir.log select * from {name}.weir.log"),
            format!("delete from {name}.weir.log where body = 'line 3'"),
        ] {
            let error = engine.try_rows(&sql).expect_err(engine.name);
            let is_clear = error.contains("read-only://weir") || error.contains("Access Denied");
            assert!(is_clear, "{}: {sql}: {error}", engine.name);
        }
    }
    assert_eq!(hub.iceberg_files(), before);
}

/// Directories, or buckets, that files of a hub are in, as Trino sees them.
fn all_are_at(trino: &mut Engine, hub: &Hub, place: &str) {
    let paths = trino.rows(&format!("select distinct \"$path\" from {}.weir.log", hub.name));
    let paths: Vec<&str> =
        paths.as_array().expect("rows").iter().flat_map(|row| row[0].as_str()).collect();
    assert!(!paths.is_empty() && paths.iter().all(|path| path.starts_with(place)), "{paths:?}");
}

/// Where files move to.
fn slow_place(near: &Hub, far: &Hub, bucket: &Bucket) -> [Vec<(&'static str, String)>; 2] {
    let (user, secret) = BUCKET_KEYS;
    let (slow, password) = (near.path("slow place"), far.path("password"));
    std::fs::create_dir(&slow).expect("it can be made");
    std::fs::write(&password, secret).expect("it can be written");
    let fast = ("WEIR_STORE_FAST_BYTES", "1".to_owned());
    [
        vec![fast.clone(), place(slow.display().to_string())],
        vec![
            fast,
            place("s3://rows/some/weir".to_owned()),
            ("WEIR_STORE_SLOW_ENDPOINT", bucket.url()),
            ("WEIR_STORE_SLOW_REGION", "us-east-1".to_owned()),
            ("WEIR_STORE_SLOW_USER", user.to_owned()),
            ("WEIR_STORE_SLOW_PASSWORD_FILE", password.display().to_string()),
        ],
    ]
}

fn place(place: String) -> (&'static str, String) {
    ("WEIR_STORE_SLOW_PATH", place)
}

fn statistics_are_trusted(dir: &Path) {
    let log = std::fs::read_to_string(dir.join("spark.log")).expect("it was written");
    assert!(!log.contains("CorruptStatistics"), "{log}");
}

#[test]
fn engines_count_and_sum_what_weir_does_over_merging_moving_and_deletion() {
    let dir = tempfile::tempdir().expect("a directory");
    let bucket = Bucket::start(dir.path());
    let (mut near, mut far) = (Hub::start("near", dir.path()), Hub::start("far", dir.path()));
    let both = [&near, &far];
    let mut engines = [
        trino(dir.path(), &both, &bucket),
        spark(dir.path(), &both, &bucket),
        duckdb(&both, &bucket),
    ];
    both.iter().for_each(|hub| hub.post(0..3000));
    all_agree("one file", &mut engines, &both);
    // From one day into the next, in separate files.
    both.iter().for_each(|hub| hub.post(3000..7000));
    all_agree("two days", &mut engines, &both);
    for part in 0..17 {
        both.iter().for_each(|hub| hub.post(7000 + part * 10..7010 + part * 10));
    }
    all_agree("many files", &mut engines, &both);
    both.iter().for_each(|hub| hub.waits_for_fewer_files(10));
    all_agree("merged", &mut engines, &both);
    let [trino, spark, _] = &mut engines;
    files_can_be_listed(trino, spark, &near);
    writing_is_refused(&mut engines, &near);

    let [slow, slower] = slow_place(&near, &far, &bucket);
    near.restart_with(slow);
    far.restart_with(slower);
    let both = [&near, &far];
    both.iter().for_each(|hub| hub.waits_until_files_moved());
    all_agree("moved", &mut engines, &both);
    all_are_at(&mut engines[0], &near, &format!("file://{}/", near.path("slow place").display()));
    all_are_at(&mut engines[0], &far, "s3://rows/some/weir/");
    both.iter().for_each(|hub| hub.post(8000..9000));
    all_agree("in two places", &mut engines, &both);

    for hub in [&mut near, &mut far] {
        let (bytes, _) = hub.file_bytes();
        hub.restart_with(vec![("WEIR_STORE_RETENTION_BYTES", (bytes / 2).to_string())]);
    }
    let both = [&near, &far];
    both.iter().for_each(|hub| hub.waits_for_fewer_rows(8170));
    all_agree("the oldest is deleted", &mut engines, &both);
    statistics_are_trusted(dir.path());
}
