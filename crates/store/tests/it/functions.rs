//! SQL functions in whole queries, and the examples that users read.

use weir_store::{QueryLimits, Store};
use weir_tables::{Batch, Micros, Parcel, Request, RequestRows, Rows, TcpStat, TcpStatRows};

use crate::tool::{NOON, ask, clock};

async fn fill(store: &Store, batch: Batch) {
    store.append(Parcel { range: None, batches: vec![batch] }).await.unwrap();
}

#[tokio::test]
async fn examples_of_the_docs_run() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sql.md");
    let text = std::fs::read_to_string(path).unwrap();
    let store = Store::in_memory(clock());
    let examples: Vec<&str> =
        text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 4);
    for sql in examples {
        let answer = store.query(sql, QueryLimits::default()).await;
        assert!(answer.is_ok(), "{sql}\n{}", answer.unwrap_err());
    }
}

#[tokio::test]
async fn gaps_are_filled_as_the_docs_say() {
    let store = Store::in_memory(clock());
    let mut rows = RequestRows::default();
    for minute in [1, 2, 21] {
        let ts = Micros(NOON.0 + minute * 60_000_000);
        rows.push(&Request { ts, duration_seconds: Some(0.5), ..Default::default() });
    }
    fill(&store, Batch { table: RequestRows::SPEC, rows: rows.finish() }).await;
    let text = include_str!("../../../../docs/sql.md");
    let sql = text.split("```sql\n").find(|part| part.starts_with("with step")).unwrap();
    let answer = ask(&store, sql.split("```").next().unwrap()).await;
    let counts: Vec<String> = answer
        .lines()
        .filter(|line| line.contains("2026-11-20"))
        .map(|line| line.split('|').skip(2).map(str::trim).collect::<Vec<_>>().join(" "))
        .collect();
    let expected = ["2 0.5 ", "0  ", "0  ", "0  ", "1 0.5 ", "0  ", "0  "];
    assert_eq!(counts, expected, "{answer}");
}

#[tokio::test]
async fn percentiles_of_groups_and_of_all_rows_agree() {
    let store = Store::in_memory(clock());
    let mut rows = RequestRows::default();
    for number in 0..60_000_u32 {
        let (path, size) = (format!("/p{}", number % 3000), f64::from(number / 3000 + 1));
        let ts = Micros(NOON.0 + i64::from(number));
        let duration_seconds = (number % 7 > 0).then_some(size);
        rows.push(&Request { ts, url_path: Some(&path), duration_seconds, ..Default::default() });
    }
    fill(&store, Batch { table: RequestRows::SPEC, rows: rows.finish() }).await;
    for (sql, expected) in [
        ("select percentile(duration_seconds, 0.52) from request", 11.0),
        ("select percentile(duration_seconds, 1) from request", 20.0),
        (
            "select max(p) from (select percentile(duration_seconds, 0.99) p from request group by url_path)",
            20.0,
        ),
        (
            "select count(p) from (select percentile(http_response_status_code, 0.5) p from request group by url_path)",
            0.0,
        ),
        (
            "select percentile(duration_seconds, 0.5) filter (where duration_seconds <= 3) from request",
            2.0,
        ),
    ] {
        let sql = format!("select cast(x as double) from ({sql}) t(x)");
        let answer = store.query(&sql, QueryLimits::default()).await.unwrap();
        let column = arrow_array::cast::AsArray::as_primitive::<arrow_array::types::Float64Type>(
            answer.batches[0].column(0),
        )
        .clone();
        let found = column.value(0);
        assert!((found - expected).abs() <= expected * 0.011, "{sql}: {found}, not {expected}");
    }
    for (sql, says) in [
        ("select percentile(duration_seconds, 99) from request", "is not between 0 and 1"),
        (
            "select percentile(duration_seconds, duration_seconds) from request",
            "has to be a constant",
        ),
    ] {
        let answer = ask(&store, sql).await;
        assert!(answer.contains(says), "{answer}");
    }
}

#[tokio::test]
async fn counters_that_begin_again_are_counted_on() {
    let store = Store::in_memory(clock());
    let mut rows = TcpStatRows::default();
    for (second, value) in [(3, 4), (0, 10), (1, 15), (2, 3)] {
        let ts = Micros(NOON.0 + second * 1_000_000);
        rows.push(&TcpStat { ts, counter: "ListenOverflows", value, ..Default::default() });
    }
    fill(&store, Batch { table: TcpStatRows::SPEC, rows: rows.finish() }).await;
    let sql = "select counter_increase(ts, value) as increase, counter_rate(ts, value) as rate from tcp_stat";
    let answer = ask(&store, sql).await;
    assert!(answer.contains("| 9.0      | 3.0  |"), "{answer}");
}
