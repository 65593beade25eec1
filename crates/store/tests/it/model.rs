//! Random rows, random filters: the result over memory and files equals a loop over a `Vec`.

use std::ops::Range;

use arbtest::arbitrary::{Result, Unstructured};
use weir_store::{Query, Store};
use weir_tables::{Batch, Micros, Parcel, Request, RequestRows, Rows};

use crate::tool::{NOON, options};

#[derive(Clone, Debug)]
struct Row {
    ts: i64,
    host: &'static str,
    status: Option<i64>,
    /// In eighths of a second, so that sums are exact.
    eighths: Option<u8>,
    path: Option<String>,
}

const HOSTS: [&str; 3] = ["web1", "web2", "Wëb3"];
const HOUR: i64 = 3_600_000_000;

fn rows(u: &mut Unstructured<'_>, count: Range<usize>) -> Result<Vec<Row>> {
    let count = u.int_in_range(count.start..=count.end)?;
    (0..count).map(|_| row(u)).collect()
}

fn row(u: &mut Unstructured<'_>) -> Result<Row> {
    Ok(Row {
        ts: NOON.0 + u.int_in_range(-30..=30)? * HOUR,
        host: u.choose(&HOSTS)?,
        status: if u.ratio(1, 5)? { None } else { Some(u.int_in_range(198..=205)?) },
        eighths: if u.ratio(1, 5)? { None } else { Some(u.int_in_range(0..=9)?) },
        path: if u.ratio(1, 5)? { None } else { Some(format!("/p{}", u.int_in_range(0..=12)?)) },
    })
}

fn batch(rows: &[Row]) -> Batch {
    let mut builder = RequestRows::default();
    for row in rows {
        builder.push(&Request {
            ts: Micros(row.ts),
            host: row.host,
            tier: "proxy",
            http_response_status_code: row.status,
            duration_seconds: row.eighths.map(|eighths| f64::from(eighths) / 8.0),
            url_path: row.path.as_deref(),
            ..Default::default()
        });
    }
    Batch { table: RequestRows::SPEC, rows: builder.finish() }
}

/// A condition as SQL and as a function; SQL's NULL is `None`.
type Filter = (String, Box<dyn Fn(&Row) -> Option<bool>>);

fn filter(u: &mut Unstructured<'_>, depth: usize) -> Result<Filter> {
    let kinds = if depth == 0 { 6 } else { 9 };
    Ok(match u.int_in_range(0..=kinds - 1)? {
        0 => {
            let at = NOON.0 + u.int_in_range(-31..=31)? * HOUR;
            (format!("ts >= timestamp '{}'", Micros(at)), Box::new(move |row| Some(row.ts >= at)))
        }
        1 => {
            let at = NOON.0 + u.int_in_range(-31..=31)? * HOUR;
            (format!("timestamp '{}' > ts", Micros(at)), Box::new(move |row| Some(row.ts < at)))
        }
        2 => {
            let host = *u.choose(&HOSTS)?;
            (format!("host = '{host}'"), Box::new(move |row| Some(row.host == host)))
        }
        3 => {
            let status = u.int_in_range(197..=206)?;
            let sql = format!("http_response_status_code < {status}");
            (sql, Box::new(move |row| row.status.map(|other| other < status)))
        }
        4 => ("url_path is null".into(), Box::new(|row| Some(row.path.is_none()))),
        5 => {
            let end = u.int_in_range(0..=9)?.to_string();
            let sql = format!("url_path like '%{end}'");
            (sql, Box::new(move |row| row.path.as_ref().map(|path| path.ends_with(&end))))
        }
        6 => {
            let (left, right) = (filter(u, depth - 1)?, filter(u, depth - 1)?);
            let sql = format!("({} and {})", left.0, right.0);
            (sql, Box::new(move |row| and(left.1(row), right.1(row))))
        }
        7 => {
            let (left, right) = (filter(u, depth - 1)?, filter(u, depth - 1)?);
            let sql = format!("({} or {})", left.0, right.0);
            (sql, Box::new(move |row| not(and(not(left.1(row)), not(right.1(row))))))
        }
        _ => {
            let inner = filter(u, depth - 1)?;
            (format!("not ({})", inner.0), Box::new(move |row| inner.1(row).map(|is| !is)))
        }
    })
}

fn not(value: Option<bool>) -> Option<bool> {
    value.map(|is| !is)
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

async fn answer(store: &Store, sql: &str) -> String {
    let answer =
        store.query(Query::new(sql)).run().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let text = arrow_cast::pretty::pretty_format_batches(&answer.batches).unwrap().to_string();
    text.lines()
        .nth(3)
        .unwrap_or_default()
        .split_whitespace()
        .filter(|word| *word != "|")
        .collect::<Vec<_>>()
        .join(" ")
}

async fn check(store: &Store, all: &[Row], filter: &Filter) {
    let kept: Vec<&Row> = all.iter().filter(|row| filter.1(row) == Some(true)).collect();
    let count = kept.len();
    let sum: i64 = kept.iter().filter_map(|row| row.status).sum();
    let eighths: u64 = kept.iter().filter_map(|row| row.eighths).map(u64::from).sum();
    let last = kept.iter().map(|row| row.ts).max().map_or_else(|| "0".into(), |ts| ts.to_string());
    let sql = format!(
        "select count(*), coalesce(sum(http_response_status_code), 0),
         cast(coalesce(sum(duration_seconds), 0) * 8 as bigint), coalesce(cast(max(ts) as bigint), 0)
         from request where {}",
        filter.0
    );
    let expected = format!("{count} {sum} {eighths} {last}");
    assert_eq!(answer(store, &sql).await, expected, "{sql}");
    let newest = format!(
        "select cast(ts as bigint) as newest from request where {} order by ts desc limit 1",
        filter.0
    );
    let newest_expected = if count == 0 { String::new() } else { last };
    assert_eq!(answer(store, &newest).await, newest_expected, "{newest}");
}

async fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(options(dir.path())).unwrap();
    let mut all = Vec::new();
    for _ in 0..u.int_in_range(1..=4)? {
        let rows = rows(u, 0..60)?;
        store.append(Parcel { range: None, batches: vec![batch(&rows)] }).await.unwrap();
        all.extend(rows);
        if u.ratio(1, 2)? {
            store.flush().await.unwrap();
        }
    }
    for _ in 0..8 {
        let filter = filter(u, 3)?;
        check(&store, &all, &filter).await;
    }
    Ok(())
}

#[test]
fn answers_are_those_of_a_loop_over_all_rows() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runs = 0;
    arbtest::arbtest(|u| {
        runtime.block_on(run(u))?;
        runs += 1;
        Ok(())
    })
    .budget_ms(4000)
    .size_min(4096)
    .size_max(16 << 10);
    assert!(runs > 0, "no run in the time there is");
}
