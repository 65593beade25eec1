//! SQL functions in complete queries, and the examples in the documentation.

use weir_store::{Query, Store};
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
        let answer = store.query(Query::new(sql)).run().await;
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
        let answer = store.query(Query::new(&sql)).run().await.unwrap();
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

/// Inserts rows whose path `/pN` occurs `N + 1` times for each N below `paths`, shuffled over many
/// parcels; every third row has no path.
async fn fill_paths(store: &Store, paths: u32) {
    let of_paths = (0..paths).flat_map(|path| (0..=path).map(move |_| Some(path)));
    let mut all: Vec<Option<u32>> = of_paths.flat_map(|path| [path, path, None]).collect();
    // A step coprime to the length visits each index once.
    let count = all.len();
    all = (0..count).map(|place| all[place * 7919 % count]).collect();
    for (part, some) in all.chunks(20_000).enumerate() {
        let mut rows = RequestRows::default();
        for (row, path) in (0_i64..).zip(some) {
            let text = path.map(|path| format!("/p{path}"));
            let ts = Micros(NOON.0 + i64::try_from(part).unwrap() * 1_000_000 + row);
            let http_response_status_code = path.map(|path| if path % 2 > 0 { 200 } else { 404 });
            rows.push(&Request {
                ts,
                host: if row % 2 > 0 { "web1" } else { "web2" },
                url_path: text.as_deref(),
                http_response_status_code,
                ..Default::default()
            });
        }
        fill(store, Batch { table: RequestRows::SPEC, rows: rows.finish() }).await;
    }
}

#[tokio::test]
async fn top_k_counts_exactly_what_it_can_hold() {
    let store = Store::in_memory(clock());
    fill_paths(&store, 300).await;
    for (sql, expected) in [
        ("select top_k(url_path, 3) from request", r#"{"/p299":600,"/p298":598,"/p297":596}"#),
        (
            "select top_k(url_path, 1) filter (where url_path like '/p1_') from request",
            r#"{"/p19":40}"#,
        ),
        // As many odd as even values, each of which occurs once more.
        ("select top_k(http_response_status_code, 5) from request", r#"{"200":45300,"404":45000}"#),
        (
            "select count(t) as n from (select top_k(url_path, 2) t from request where url_path is null)",
            "| 0 |",
        ),
        (
            "select count(t) from (select top_k(url_path, 2) t from request group by url_path)",
            "300",
        ),
        (
            "select count(*) from (select url_path p, top_k(url_path, 1) t, count(*) n from request group by 1) where t = '{\"' || p || '\":' || n || '}'",
            "300",
        ),
    ] {
        let answer = ask(&store, sql).await;
        assert!(answer.contains(expected), "{sql}\n{answer}");
    }
    let grouped = ask(&store, "select top_k(url_path, 9) from request group by host").await;
    for host in ["web1", "web2"] {
        let sql = format!("select top_k(url_path, 9) from request where host = '{host}'");
        let alone = ask(&store, &sql).await;
        let alone = alone.lines().find(|line| line.contains("/p")).unwrap();
        assert!(grouped.contains(alone), "{alone}\n{grouped}");
    }
}

#[tokio::test]
async fn top_k_of_more_values_than_it_holds_is_near_and_misses_no_frequent_one() {
    let store = Store::in_memory(clock());
    fill_paths(&store, 400).await;
    // 60,000 values that occur once each, before and after the frequent ones.
    let mut rows = RequestRows::default();
    for number in 0..60_000_i64 {
        let path = format!("/once/{number}");
        let ts = Micros(NOON.0 + (number % 2) * 60_000_000 + number);
        rows.push(&Request { ts, host: "web1", url_path: Some(&path), ..Default::default() });
    }
    fill(&store, Batch { table: RequestRows::SPEC, rows: rows.finish() }).await;
    let exact = "select url_path, count(*) as n from request where url_path like '/p%' group by 1";
    let found = ask(&store, "select top_k(url_path, 1024) as t from request").await;
    let found = found.split('|').nth(3).unwrap().trim();
    let found: std::collections::HashMap<String, u64> = serde_json::from_str(found).unwrap();
    let rows = 400 * 401 + 60_000;
    let mut frequent = 0;
    for line in ask(&store, exact).await.lines().filter(|line| line.contains("/p")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (path, count): (&str, u64) = (cells[1], cells[2].parse().unwrap());
        let said = found.get(path).copied().unwrap_or(0);
        assert!(said <= count && count - said <= rows / 1024, "{path}: {said}, not {count}");
        frequent += usize::from(count > rows / 1024);
    }
    assert_eq!(frequent, 293, "paths that cannot be missed");
}

#[tokio::test]
async fn top_k_says_what_it_wants() {
    let store = Store::in_memory(clock());
    for (sql, says) in [
        ("select top_k(url_path, 0) from request", "0 values requested, not between 1 and 1024"),
        ("select top_k(url_path, 1025) from request", "not between 1 and 1024"),
        (
            "select top_k(url_path, length(url_path)) from request",
            "has to be a constant, such as 10",
        ),
        ("select top_k(url_path, null) from request", "is not a number of values"),
        ("select top_k(url_path) from request", "a number of values: top_k(url_path, 10)"),
        ("select top(url_path, 3) from request", "the function is `top_k(value, 10)`"),
        ("select top_k(distinct url_path, 3) from request", "top_k takes no `distinct`"),
    ] {
        let answer = ask(&store, sql).await;
        assert!(answer.contains(says), "{sql}\n{answer}");
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
