//! Plans that read less or group faster return the same rows as all others.

use std::sync::Arc;

use weir_store::{Store, StoreOptions};
use weir_tables::{Batch, Micros, Parcel, Request, RequestRows, Rows};

use crate::tool::{NOON, ask, clock, options};

/// Rows of a file: one row group and a little more.
const ROWS: i64 = 140_000;

fn batch(numbers: std::ops::Range<i64>) -> Batch {
    let mut rows = RequestRows::default();
    for number in numbers {
        let mixed = number.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let path = format!("/{number}");
        rows.push(&Request {
            ts: Micros(NOON.0 + number * 1000),
            host: if mixed % 3 == 0 { "web1" } else { "web2" },
            tier: "proxy",
            url_path: Some(&path),
            // One of 500 rows of the first two files, and every row of the last quarter of the
            // third.
            http_response_status_code: Some(if mixed % 500 == 0 || number > 7 * ROWS / 4 {
                500
            } else {
                200
            }),
            ..Default::default()
        });
    }
    Batch { table: RequestRows::SPEC, rows: rows.finish() }
}

/// Three files, of which the second is written last, read from end to end, and the same rows in
/// memory.
async fn stores(dir: &std::path::Path) -> (Arc<Store>, Arc<Store>) {
    let opened = StoreOptions { column_cache_bytes: 0, ..options(dir) };
    let (filed, memory) = (Store::open(opened).unwrap(), Store::in_memory(clock()));
    for part in [0, 2, 1] {
        let rows = batch(part * ROWS..(part + 1) * ROWS);
        filed.append(Parcel { range: None, batches: vec![rows.clone()] }).await.unwrap();
        filed.flush().await.unwrap();
        memory.append(Parcel { range: None, batches: vec![rows] }).await.unwrap();
    }
    (filed, memory)
}

#[tokio::test]
async fn newest_rows_are_found_from_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let (filed, memory) = stores(dir.path()).await;
    for condition in [
        "true",
        "host = 'web1' and http_response_status_code = 500",
        "http_response_status_code = 200",
        "http_response_status_code = 404",
        "url_path = '/17'",
        "url_path like '%9999%'",
    ] {
        for limit in [1, 100, 3000] {
            for order in ["ts desc", "ts desc, url_path"] {
                let sql = format!(
                    "select ts, host, url_path, http_response_status_code from request where {condition} order by {order} limit {limit}"
                );
                assert_eq!(ask(&filed, &sql).await, ask(&memory, &sql).await, "{sql}");
            }
        }
    }
    let newest = "select * from request where host = 'web1' order by ts desc limit 10";
    let plan = ask(&filed, &format!("explain {newest}")).await;
    assert!(plan.matches(".parquet").count() > 3, "the newest of three files in slices: {plan}");
}

#[tokio::test]
async fn conditions_on_texts_are_asked_per_value() {
    let dir = tempfile::tempdir().unwrap();
    let (filed, memory) = stores(dir.path()).await;
    for condition in [
        "host like '%2'",
        "host <> 'web1' and http_response_status_code = 500",
        "not (tier = 'proxy')",
        "coalesce(program, 'none') = 'none'",
        "program is null and host = 'web2'",
        "program like '%x%' is unknown",
        "upper(host) in ('WEB1', 'WEB3')",
        "host = 'web1' or host = program",
        "host = 'web1' and host <> coalesce(program, '')",
        "url_path like '%99' and host ~ '^web[2-9]'",
        "url_path in (select '/17' union all select '/300000')",
    ] {
        let sql = format!(
            "select count(*), min(ts), max(url_path), max(host) from request where {condition}"
        );
        assert_eq!(ask(&filed, &sql).await, ask(&memory, &sql).await, "{sql}");
    }
    let seen = "select host like '%1' as a, program like '%1' as b, count(*) from request where host like 'web%' and program is null group by 1, 2 order by 1, 2";
    assert_eq!(ask(&filed, seen).await, ask(&memory, seen).await);
}

#[tokio::test]
async fn groups_by_time_and_something_else_are_made_a_batch_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let (filed, memory) = stores(dir.path()).await;
    let inner = "select date_trunc('minute', ts) as minute, http_response_status_code as status, count(*) as n from request group by 1, 2";
    let sql = format!("select * from ({inner}) order by minute, status");
    assert_eq!(ask(&filed, &sql).await, ask(&memory, &sql).await);
    let plan = ask(&filed, &format!("explain {inner}")).await;
    assert!(plan.contains(".parquet") && !plan.contains("PartiallySorted"), "{plan}");
    let in_order = "select ts, count(*) from request group by ts";
    assert!(ask(&filed, &format!("explain {in_order}")).await.contains("ordering_mode=Sorted"));
}
