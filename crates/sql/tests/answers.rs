//! Answers of PostgreSQL 15, recorded in `answers/*.tsv`, and those of weir.
//!
//! A line has the SQL, PostgreSQL's answer and a mark: `refused` for what weir refuses, `wrong` for
//! an answer that is known to differ and waits for its repair. Columns of an answer are separated by
//! ` | `, rows by ` ; `; `∅` is NULL, `ERR` an error. Another wrong answer fails the test, and so
//! does a mark that is no longer true.
//!
//! `trackers.tsv` has situations of public reports: apache/datafusion#24985, #24854, #23410, #22067,
//! #24369, #11275, #13779, #13558, #12570, #9804, #19427, #13962, #25175, #1688, #10881, #13211, #6099,
//! #17681, #24246, #621, #12932, #8391, #21246, #25244, #25262, #25296, #23692, #24507, #24894, #25473,
//! #25474, apache/datafusion-sqlparser-rs#2436, MaterializeInc/materialize#37061, risingwavelabs/risingwave#12072,
//! apache/datafusion-comet#2649, dolthub/dolt#5209, duckdb/duckdb#19017.
//!
//! `WEIR_ANSWERS_FROM=port` records the answers again with `psql` from a server on this host whose
//! time zone is UTC and whose collation is C (`initdb --locale=C.UTF-8`); `WEIR_ANSWERS_MARK=1` sets
//! the marks.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::IntervalMonthDayNanoType;
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use tokio::runtime::Runtime;
use weir_datafile::Snapshot;
use weir_dialect::{IntervalParts, array_element_text, double_text, real_text, timestamp_text};
use weir_sql::{EngineOptions, Query, QueryEngine};
use weir_tables::{FixedClock, Micros, Request, RequestRows, Rows};

/// 2026-11-20T12:00:00Z.
const NOON: Micros = Micros(1_795_176_000_000_000);
const NULL: &str = "∅";
const ERROR: &str = "ERR";

/// One recorded answer.
struct RecordedAnswer {
    sql: String,
    answer: String,
    /// What is known of weir's answer.
    mark: AnswerState,
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/answers"))
}

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "tsv")).collect();
    files.sort();
    files
}

fn recorded(path: &PathBuf) -> Vec<RecordedAnswer> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| {
        let mut fields = line.split('\t').map(str::to_owned);
        let (sql, answer) = (fields.next().unwrap(), fields.next().unwrap_or_default());
        RecordedAnswer { sql, answer, mark: AnswerState::of_mark(fields.next().as_deref()) }
    });
    lines.collect()
}

fn write(path: &PathBuf, answers: &[RecordedAnswer]) {
    let lines = answers.iter().map(|one| {
        let mark = one.mark.mark();
        format!("{}\t{}{mark}\n", one.sql, one.answer)
    });
    std::fs::write(path, lines.collect::<String>()).unwrap();
}

fn engine() -> QueryEngine {
    let clock = Arc::new(FixedClock::new(NOON));
    QueryEngine::new(&EngineOptions { query_threads: 2, ..EngineOptions::new(clock) }, None, None)
        .unwrap()
}

async fn ask(engine: &QueryEngine, query: Query) -> Result<String, String> {
    ask_over(engine, Snapshot::new(), query).await
}

async fn ask_over(engine: &QueryEngine, view: Snapshot, query: Query) -> Result<String, String> {
    let stream = engine.stream(view, query).await.map_err(|error| error.to_string())?;
    let result = stream.collect().await.map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for batch in &result.batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| cell(column, row));
            rows.push(cells.collect::<Vec<_>>().join(" | "));
        }
    }
    Ok(rows.join(" ; "))
}

/// A value as PostgreSQL writes it.
fn cell(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) || column.data_type() == &DataType::Null {
        return NULL.into();
    }
    match column.data_type() {
        DataType::Boolean => if column.as_boolean().value(row) { "t" } else { "f" }.into(),
        DataType::Timestamp(_, zone) => {
            let kind = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            let micros = cast(&cast(column, &kind).unwrap(), &DataType::Int64).unwrap();
            let micros = micros.as_primitive::<arrow_array::types::Int64Type>().value(row);
            timestamp_text(micros, None).unwrap()
        }
        DataType::Float64 => {
            double_text(column.as_primitive::<arrow_array::types::Float64Type>().value(row))
        }
        DataType::Float32 => {
            real_text(column.as_primitive::<arrow_array::types::Float32Type>().value(row))
        }
        DataType::Binary => {
            let bytes = column.as_binary::<i32>().value(row).iter();
            format!("\\x{}", bytes.map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        DataType::Time64(_) => {
            let text = ArrayFormatter::try_new(column, &FormatOptions::default()).unwrap();
            let text = text.value(row).to_string();
            if text.contains('.') { text.trim_end_matches('0').to_owned() } else { text }
        }
        DataType::Interval(_) => interval(column, row),
        DataType::Duration(_) => {
            let kind = DataType::Duration(TimeUnit::Microsecond);
            let micros = cast(&cast(column, &kind).unwrap(), &DataType::Int64).unwrap();
            let micros = micros.as_primitive::<arrow_array::types::Int64Type>().value(row);
            IntervalParts::of_micros(micros).text()
        }
        DataType::List(_) => list(&column.as_list::<i32>().value(row)),
        DataType::FixedSizeList(..) => list(&column.as_fixed_size_list().value(row)),
        _ => {
            let options = FormatOptions::default();
            ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string()
        }
    }
}

fn interval(column: &ArrayRef, row: usize) -> String {
    let column = cast(column, &DataType::Interval(IntervalUnit::MonthDayNano)).unwrap();
    let value = column.as_primitive::<IntervalMonthDayNanoType>().value(row);
    IntervalParts { months: value.months, days: value.days, micros: value.nanoseconds / 1000 }
        .text()
}

fn list(items: &ArrayRef) -> String {
    let items = (0..items.len()).map(|at| {
        if items.is_null(at) {
            "NULL".into()
        } else if items.data_type().is_nested() {
            cell(items, at)
        } else {
            array_element_text(&cell(items, at))
        }
    });
    format!("{{{}}}", items.collect::<Vec<_>>().join(","))
}

/// Whether two answers are the same: numbers by value, times without their offset.
fn is_same(right: &str, found: &str) -> bool {
    let (right, found): (Vec<_>, Vec<_>) =
        (right.split(" ; ").collect(), found.split(" ; ").collect());
    right.len() == found.len()
        && right.iter().zip(&found).all(|(right, found)| {
            let (right, found): (Vec<_>, Vec<_>) =
                (right.split(" | ").collect(), found.split(" | ").collect());
            right.len() == found.len()
                && right.iter().zip(&found).all(|(right, found)| is_same_cell(right, found))
        })
}

fn is_same_cell(right: &str, found: &str) -> bool {
    let plain = right.replace("+00 BC", " BC");
    let plain = plain.strip_suffix("+00").unwrap_or(&plain);
    if right == found || plain == found {
        return true;
    }
    match (right.parse::<f64>(), found.parse::<f64>()) {
        (Ok(right), Ok(found)) => (right - found).abs() <= right.abs() * 1e-14 || right == found,
        _ => false,
    }
}

fn record(port: &str) {
    for path in files() {
        let mut answers = recorded(&path);
        for one in &mut answers {
            let output = Command::new("psql")
                .args(["-XqAt", "-h", "127.0.0.1", "-U", "weir", "-d", "postgres", "-p", port])
                .args(["-F", " | ", "-R", " ; ", "-P", "null=∅", "-c", &one.sql])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            one.answer = if output.status.success() {
                text.trim_end_matches('\n').replace('\n', "\\n")
            } else {
                ERROR.to_owned()
            };
        }
        write(&path, &answers);
    }
}

/// How an answer of weir compares with the recorded one.
#[derive(Clone, Copy, PartialEq)]
enum AnswerState {
    Right,
    Refused,
    Wrong,
}

impl AnswerState {
    fn of_mark(mark: Option<&str>) -> Self {
        match mark {
            Some("refused") => Self::Refused,
            Some("wrong") => Self::Wrong,
            _ => Self::Right,
        }
    }

    fn mark(self) -> &'static str {
        match self {
            Self::Right => "",
            Self::Refused => "\trefused",
            Self::Wrong => "\twrong",
        }
    }
}

fn compare(one: &RecordedAnswer, found: &Result<String, String>) -> AnswerState {
    match found {
        Ok(found) if one.answer != ERROR && is_same(&one.answer, found) => AnswerState::Right,
        Ok(_) => AnswerState::Wrong,
        Err(_) if one.answer == ERROR => AnswerState::Right,
        Err(_) => AnswerState::Refused,
    }
}

/// `sum` of a `bigint` is a `numeric` in PostgreSQL, that of an `integer` a `bigint`.
#[test]
fn quotients_of_sums_over_tables_are_fractions() {
    let mut rows = RequestRows::default();
    for (bytes, status) in [(1, 200), (2, 500), (4, 200)] {
        rows.push(&Request {
            ts: NOON,
            response_bytes: Some(bytes),
            http_response_status_code: Some(status),
            ..Default::default()
        });
    }
    let mut view = Snapshot::new();
    view.push(&weir_tables::Batch { table: RequestRows::SPEC, rows: rows.finish() });
    let (runtime, engine) = (Runtime::new().unwrap(), engine());
    for (item, expected) in [
        ("sum(response_bytes) / 2", "3.5"),
        ("1 / sum(response_bytes) * 7", "1"),
        ("8 * sum(response_bytes) / nullif(2 * count(*), 0)", "9.333333333333334"),
        (
            "sum(response_bytes) filter (where response_bytes < 2) / (0 + sum(response_bytes))",
            "0.14285714285714285",
        ),
        ("max(response_bytes) / 3", "1"),
        ("sum(http_response_status_code) / 8", "112.5"),
        ("sum(http_response_status_code::int) / 8", "112"),
        ("sum(case when http_response_status_code = 500 then 1 else 0 end) / count(*)", "0"),
    ] {
        let query = Query::new(&format!("select {item} from request"));
        let answer = runtime.block_on(ask_over(&engine, view.clone(), query)).unwrap();
        assert_eq!(answer, expected, "{item}");
    }
    for (sql, expected) in [
        (
            "select max(share) from (select response_bytes / sum(response_bytes) over () as share from request) t",
            "0.5714285714285714",
        ),
        (
            "select a / b from (select sum(response_bytes) as a, count(*) as b from request) s",
            "2.3333333333333335",
        ),
        (
            "with s as (select ts, sum(response_bytes) as a from request group by ts), \
             t as (select ts, coalesce(a, 0) as b from s) select (t.b - 1) / 4 from t where b / 2 > 3",
            "1.5",
        ),
        (
            "with s as (select sum(response_bytes) as a, count(*) as n from request) \
             select a, n / 2, a / nullif(n, 0), round(a / 2, 0) from s",
            "7 | 1 | 2.3333333333333335 | 4",
        ),
        (
            "with s as (select sum(response_bytes) as a from request), \
             t as (select sum(a) as b from s union all select 0) select max(b) / 2, sum(b) / 2 from t",
            "3.5 | 3.5",
        ),
        (
            "select a / 4 from (select sum(case when response_bytes > 1 then 1 else 0 end) as a from request) s",
            "0",
        ),
        (
            "select a / 2 from (select sum(http_response_status_code::int) as a from request) s where a <> 3",
            "450",
        ),
        (
            "with s as (select case when response_bytes > 1 then 1 else 0 end as n from request), \
             t as (select sum(n) as a from s) select a / 4, (select sum(n) / 4 from s) from t",
            "0 | 0",
        ),
        ("select a / 2 from (select sum(response_bytes)::bigint as a from request) s", "3"),
    ] {
        let answer = runtime.block_on(ask_over(&engine, view.clone(), Query::new(sql))).unwrap();
        assert_eq!(answer, expected, "{sql}");
    }
}

#[test]
fn answers_are_those_of_postgresql_or_errors() {
    if let Ok(port) = std::env::var("WEIR_ANSWERS_FROM") {
        record(&port);
    }
    let may_mark = std::env::var_os("WEIR_ANSWERS_MARK").is_some();
    let (runtime, engine) = (Runtime::new().unwrap(), engine());
    let (mut unexpected, mut count) = (Vec::new(), 0);
    for path in files() {
        let mut answers = recorded(&path);
        for one in answers.iter_mut().filter(|one| !one.sql.is_empty()) {
            let query = Query::new(&one.sql).parameters(&[]);
            let found = runtime.block_on(ask(&engine, query));
            let state = compare(one, &found);
            if state != one.mark {
                let text = format!("{}\n  right {}\n  weir  {found:?}", one.sql, one.answer);
                if may_mark {
                    println!("now{}: {text}", state.mark());
                    one.mark = state;
                } else {
                    unexpected.push(text);
                }
            }
            count += 1;
        }
        if may_mark {
            write(&path, &answers);
        }
    }
    assert!(count >= 2_500, "only {count} answers are recorded");
    let text = unexpected.join("\n");
    assert!(unexpected.is_empty(), "{} of {count} are not as marked:\n{text}", unexpected.len());
}
