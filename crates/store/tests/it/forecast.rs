//! Query forecasts: the estimate of what a query will read against what it then reads.

use std::path::Path;
use std::time::Duration;

use weir_store::{Forecast, Query, Store, StoreOptions};
use weir_tables::Parcel;

use crate::bucket::{is_moved, moving, reached, tier};
use crate::s3::{Line, Service};
use crate::text_index::{batch, id};
use crate::tool::{NOON, ask, options};

/// Two row groups and a bit in one file.
const ROWS: u64 = 280_000;

fn options_told(dir: &Path) -> StoreOptions {
    StoreOptions { slow_query: Duration::ZERO, ..options(dir) }
}

async fn fill(store: &Store) {
    store.append(Parcel { range: None, batches: vec![batch(0..ROWS)] }).await.unwrap();
    store.flush().await.unwrap();
}

fn questions() -> Vec<(&'static str, String)> {
    let after = NOON.0 + 270_000 * 1000;
    vec![
        ("needle", format!("select * from request where request_id = '{}'", id(123_456))),
        ("absent", "select * from request where request_id = 'no'".into()),
        ("column", "select sum(http_response_status_code) from request".into()),
        ("all", "select * from request order by url_path limit 3".into()),
        (
            "times",
            format!("select max(url_path) from request where ts > to_timestamp_micros({after})"),
        ),
        ("count", "select count(*) from request".into()),
    ]
}

async fn forecast(store: &Store, sql: &str) -> Forecast {
    store.query(Query::new(sql)).forecast().await.unwrap()
}

#[tokio::test]
async fn what_is_said_is_what_is_read_from_files_here() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options_told(dir.path())).unwrap();
    fill(&store).await;
    for (name, sql) in questions() {
        let said = forecast(&store, &sql).await;
        assert_eq!((said.slow, &said.slow_place), (Default::default(), &None), "{name}");
        store.take_ended_queries();
        assert!(!ask(&store, &sql).await.contains("Bad"), "{name}");
        let read = store.take_ended_queries().0.pop().expect("every query is kept").read_bytes;
        // Besides the pages, planning reads the text index.
        assert!(read <= said.fast.bytes + 64_000, "{name}: {read} of {said:?}");
        // Where conditions match few rows, other columns are read at fewer places than estimated,
        // and intermediate results of a sort limit later reads.
        let least = if ["needle", "all"].contains(&name) { 0 } else { said.fast.bytes / 2 };
        assert!(read >= least, "{name}: {read} of {said:?}");
        let is_all = |part: u64| said.fast.bytes * part >= store.stats().file_bytes;
        match name {
            "all" => assert!(is_all(4) && said.fast.files == 1, "{said:?}"),
            "absent" | "count" => assert_eq!(said, Forecast::default(), "{name}"),
            _ => assert!(!is_all(4) && said.fast.files == 1, "{name}: {said:?}"),
        }
    }
    let wrong = store.query(Query::new("select nothing from request")).forecast().await;
    assert!(wrong.unwrap_err().message.contains("there is no column `nothing`"));
    let late = NOON.0 + 400_000_000_000;
    let none = format!("select * from request where ts > to_timestamp_micros({late})");
    assert_eq!(forecast(&store, &none).await, Forecast::default());
}

#[tokio::test]
async fn explain_ends_with_what_would_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    fill(&store).await;
    for (name, sql) in questions() {
        let said = forecast(&store, &sql).await.to_string();
        for how in ["", "format tree "] {
            let answer = ask(&store, &format!("explain {how}{sql}")).await;
            assert!(answer.contains(&format!("| reads         | {said} ")), "{name}: {answer}");
        }
        let ran = ask(&store, &format!("explain analyze {sql}")).await;
        assert!(!ran.contains("| reads "), "{name}: {ran}");
        let of_program = ask(&store, &format!("explain format pgjson {sql}")).await;
        assert!(of_program.contains("Plan") && !of_program.contains("| reads "), "{of_program}");
    }
}

#[tokio::test]
async fn requests_that_are_said_are_those_that_a_bucket_gets() {
    let Some(service) = Service::start() else { return };
    service.make_bucket("rows").await;
    let line = Line::to(service.port);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    fill(&store).await;
    store.close().await.unwrap();
    let slow = tier(reached(line.port), 1 << 30);
    let store = Store::open(moving(dir.path(), slow.clone())).unwrap();
    is_moved(dir.path()).await;
    assert!(store.stats().slow_file_bytes > 5 << 20, "it went in parts");
    store.close().await.unwrap();
    let store = Store::open(StoreOptions { slow: Some(slow), ..options(dir.path()) }).unwrap();
    let (seen, first) = (line.gets(), store.stats().bucket.unwrap());
    for (name, sql) in questions() {
        let said = forecast(&store, &sql).await;
        assert!(said.slow_usd.is_some() && said.fast.bytes == 0, "{name}: {said:?}");
        let before = store.stats().bucket.unwrap();
        assert!(!ask(&store, &sql).await.contains("Bad"), "{name}");
        let after = store.stats().bucket.unwrap();
        let (hedged, bytes) = (after.hedged - before.hedged, after.bytes - before.bytes);
        // Hedged and repeated requests cannot be forecast.
        let gets = after.gets - before.gets - hedged - (after.failed - before.failed);
        // Adjacent ranges that are not requested together are not coalesced.
        assert!(gets <= said.slow.reads * 2 + 1, "{name}: {gets} of {said:?}");
        if hedged > 0 {
            continue;
        }
        assert!(bytes <= said.slow.bytes + 64_000, "{name}: {bytes} of {said:?}");
        let is_sharp = !["needle", "all"].contains(&name);
        assert!(!is_sharp || gets * 3 >= said.slow.reads, "{name}: {gets} of {said:?}");
        assert!(!is_sharp || bytes * 2 >= said.slow.bytes, "{name}: {bytes} of {said:?}");
        if name == "needle" {
            assert!(gets >= 1 && bytes * 8 < store.stats().slow_file_bytes, "{bytes} {said:?}");
        }
    }
    // The service counts the same requests. Of two hedged ones, one may be cancelled before it
    // arrives.
    let last = store.stats().bucket.unwrap();
    let (seen, counted) = (line.gets() - seen, last.gets - first.gets);
    let spared = last.hedged - first.hedged;
    assert!(seen <= counted && seen + spared >= counted, "{seen} of {counted}, {spared} spared");
    store.close().await.unwrap();
}
