//! Counting and reporting over a real store.

use std::path::Path;
use std::sync::Arc;

use weir_config::Config;
use weir_config::slos::SloSpec;
use weir_store::Store;
use weir_tables::{Batch, FixedClock, Micros, Parcel, Request, RequestRows, Rows};

use super::count::SloCounter;
use super::report::report;

/// 2026-11-27 12:00:00 UTC.
const NOON: i64 = 1_795_780_800;

fn at(second: i64) -> Micros {
    Micros((NOON + second) * 1_000_000)
}

fn slo(block: &str) -> SloSpec {
    let text = format!("[[slos]]\nname = \"shop\"\nobjective = 99\n{block}");
    let mut config = Config::read(Path::new("weir.toml"), &text).expect("a good file");
    config.values.slos.remove(0)
}

/// Requests of one second each: status and path.
async fn serve(store: &Store, from: i64, requests: &[(i64, &str)]) {
    let mut rows = RequestRows::default();
    for (second, (status, path)) in (from..).zip(requests) {
        rows.push(&Request {
            ts: at(second),
            host: "web1",
            tier: "proxy",
            observed_ts: at(second),
            source: "access.log",
            server_address: Some("shop.example.org"),
            url_path: Some(path),
            http_response_status_code: Some(*status),
            duration_seconds: Some(if *path == "/slow" { 2.0 } else { 0.1 }),
            upstream_address: Some("10.0.0.7:8080"),
            ..Request::default()
        });
    }
    let batch = Batch { table: RequestRows::SPEC, rows: rows.finish() };
    store.append(Parcel { range: None, batches: vec![batch] }).await.expect("it takes rows");
}

/// Counts until nothing is due.
async fn count(store: &Store, counter: &mut SloCounter, now: i64) {
    for _ in 0..100 {
        let before = counter.progress();
        let is_past = counter.step(store, at(now)).await.expect("it counts");
        if !is_past && counter.progress() == before {
            return;
        }
    }
    panic!("there is always something due");
}

fn store() -> Arc<Store> {
    Store::in_memory(Arc::new(FixedClock::new(at(0))))
}

#[tokio::test]
async fn failures_of_the_site_are_counted_once_and_late_ones_added() {
    let (store, slo) = (store(), slo("site = \"*.example.org\"\npath = \"/*\"\n"));
    serve(&store, -120, &[(200, "/"), (503, "/"), (499, "/"), (404, "/")]).await;
    let mut counter = SloCounter::new(slo.clone(), "hub", at(0));
    count(&store, &mut counter, 20).await;
    let shown = report(&store, &slo, at(20)).await.expect("it reports");
    assert_eq!((shown["total"].as_u64(), shown["failed"].as_u64()), (Some(4), Some(1)), "{shown}");
    assert_eq!(shown["burn"][0]["failed"], 1, "{shown}");
    assert_eq!(
        shown["certainty"].as_str().map(|text| text.contains("only 4 requests")),
        Some(true)
    );
    // The same again, by another hub and after a restart, counts nothing twice.
    let mut other = SloCounter::new(slo.clone(), "hub2", at(0));
    count(&store, &mut other, 20).await;
    serve(&store, -110, &[(500, "/"), (200, "/")]).await;
    let mut third = SloCounter::new(slo.clone(), "hub3", at(0));
    count(&store, &mut third, 20).await;
    let shown = report(&store, &slo, at(20)).await.expect("it reports");
    assert_eq!((shown["total"].as_u64(), shown["failed"].as_u64()), (Some(6), Some(2)), "{shown}");
    let left = shown["budget_left_ratio"].as_f64().expect("it was counted");
    assert!((left + 32.333).abs() < 0.01, "2 of 6 is 33 times 1 %: {left}");
}

#[tokio::test]
async fn quick_errors_are_no_good_latency_and_no_bad_one() {
    let (store, slo) = (store(), slo("kind = \"latency\"\nbelow = \"500ms\"\n"));
    serve(&store, -120, &[(200, "/"), (503, "/"), (200, "/slow"), (503, "/slow")]).await;
    let mut counter = SloCounter::new(slo.clone(), "hub", at(0));
    count(&store, &mut counter, 20).await;
    let shown = report(&store, &slo, at(20)).await.expect("it reports");
    assert_eq!((shown["total"].as_u64(), shown["failed"].as_u64()), (Some(2), Some(1)), "{shown}");
}

#[tokio::test]
async fn slo_without_a_count_says_so() {
    let (store, slo) = (store(), slo("site = \"other.example.org\"\n"));
    let shown = report(&store, &slo, at(20)).await.expect("it reports");
    assert_eq!(shown["state"], "not_counted");
    assert!(shown["budget_left_ratio"].is_null());
    serve(&store, -120, &[(503, "/")]).await;
    let mut counter = SloCounter::new(slo.clone(), "hub", at(0));
    count(&store, &mut counter, 20).await;
    let shown = report(&store, &slo, at(20)).await.expect("it reports");
    assert_eq!(
        (shown["state"].as_str(), shown["budget_left_ratio"].as_f64()),
        (Some("ok"), Some(1.0))
    );
}
