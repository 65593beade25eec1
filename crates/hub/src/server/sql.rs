//! `/api/sql`: one query, answered as JSON, CSV, NDJSON, Arrow or Parquet.

use arrow_ipc::writer::StreamWriter;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use weir_store::{QueryResult, parquet_file};
use weir_tables::unit_of;

use super::Shared;
use super::answer::Refusal;
use super::cluster::ARROW;
use crate::cells::{Cells, kind_of, plain, push_csv};

/// Rows of an answer in JSON, which is for pages; files have all rows when nothing else is said.
const DEFAULT_ROWS: usize = 10_000;
const MAX_ROWS: usize = 100_000;

/// Makes the body of an answer; why it cannot, in words.
type Write = fn(&QueryResult) -> Result<Vec<u8>, String>;

/// The body of a POST.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    sql: String,
    limit: Option<usize>,
}

/// What may follow `?`.
#[derive(Deserialize)]
pub(crate) struct Options {
    format: Option<String>,
    q: Option<String>,
    limit: Option<usize>,
}

/// `POST /api/sql`.
pub(crate) async fn post(
    State(app): State<Shared>,
    Query(options): Query<Options>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let example = r#"{"sql": "select 1", "limit": 100}"#;
    let question: Question = read_json(&headers, &body, example)?;
    answer(&app, &question.sql, question.limit, options.format.as_deref()).await
}

/// `GET /api/sql?q=…`.
pub(crate) async fn get(
    State(app): State<Shared>,
    Query(options): Query<Options>,
) -> Result<Response, Refusal> {
    let Some(sql) = &options.q else {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "cannot query: `q` is missing")
            .hint("/api/sql?q=select%201"));
    };
    answer(&app, sql, options.limit, options.format.as_deref()).await
}

/// A body in JSON; the hint shows what it should look like.
pub(super) fn read_json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: &[u8],
    example: &str,
) -> Result<T, Refusal> {
    require_json(headers)?;
    serde_json::from_slice(body).map_err(|error| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("cannot read the body: {error}"))
            .hint(format!("send {example}"))
    })
}

/// Only this type makes a browser ask first whether another site may send it.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let is_json =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(
            |value| value.split(';').next().is_some_and(|v| v.trim() == "application/json"),
        );
    if is_json {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
        .hint("add the header `content-type: application/json`"))
}

async fn answer(
    app: &Shared,
    sql: &str,
    limit: Option<usize>,
    format: Option<&str>,
) -> Result<Response, Refusal> {
    let mut rows = limit.unwrap_or(usize::MAX).max(1);
    let (kind, write): (&str, Write) = match format {
        None | Some("json") => {
            rows = limit.unwrap_or(DEFAULT_ROWS).clamp(1, MAX_ROWS);
            ("application/json", |result| Ok(as_json(result)))
        }
        Some("csv") => ("text/csv; charset=utf-8; header=present", |result| Ok(as_csv(result))),
        Some("ndjson") => ("application/x-ndjson", |result| Ok(as_ndjson(result))),
        Some("arrow") => (ARROW, as_arrow),
        Some("parquet") => ("application/vnd.apache.parquet", as_parquet),
        Some(other) => {
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                format!("cannot answer as `{other}`: unknown format"),
            )
            .hint("json, csv, ndjson, arrow or parquet"));
        }
    };
    let result = app.query(sql, rows).await?;
    let body = tokio::task::spawn_blocking(move || write(&result)).await.map_err(|_| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "cannot write the answer: a cell broke it")
    })?;
    let body = body.map_err(|why| {
        Refusal::new(StatusCode::BAD_REQUEST, why)
            .hint("ask for the column as text: `cast(… as varchar)`")
    })?;
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

fn as_json(result: &QueryResult) -> Vec<u8> {
    let columns: Vec<Value> = result
        .schema
        .fields()
        .iter()
        .map(|field| {
            json!({
                "name": field.name(),
                "kind": kind_of(field.data_type()),
                "unit": unit_of(field.name()),
            })
        })
        .collect();
    let mut out = b"{\"columns\":".to_vec();
    push_json(&mut out, &Value::Array(columns));
    out.extend_from_slice(b",\"rows\":[");
    let mut row_count = 0;
    for batch in &result.batches {
        let cells = Cells::new(batch);
        for row in 0..cells.row_count() {
            if row_count > 0 {
                out.push(b',');
            }
            row_count += 1;
            cells.push_json(row, &mut out);
        }
    }
    let rest = format!(
        "],\"row_count\":{row_count},\"is_truncated\":{},\"elapsed_seconds\":{}}}",
        result.is_truncated,
        result.elapsed.as_secs_f64()
    );
    out.extend_from_slice(rest.as_bytes());
    out
}

fn as_csv(result: &QueryResult) -> Vec<u8> {
    let mut out = Vec::new();
    push_csv(&mut out, result.schema.fields().iter().map(|field| field.name().clone()));
    each_row(result, |cells| push_csv(&mut out, cells.iter().map(plain)));
    out
}

fn as_ndjson(result: &QueryResult) -> Vec<u8> {
    let names: Vec<&String> = result.schema.fields().iter().map(|field| field.name()).collect();
    let mut out = Vec::new();
    each_row(result, |cells| {
        let pairs = names.iter().map(|name| (*name).clone()).zip(cells);
        push_json(&mut out, &Value::Object(pairs.collect()));
        out.push(b'\n');
    });
    out
}

/// An IPC stream, not compressed: every implementation reads it.
fn as_arrow(result: &QueryResult) -> Result<Vec<u8>, String> {
    let write = || {
        let mut writer = StreamWriter::try_new(Vec::new(), &result.schema)?;
        for batch in &result.batches {
            writer.write(batch)?;
        }
        writer.into_inner()
    };
    write().map_err(|error| format!("cannot write Arrow: {error}"))
}

fn as_parquet(result: &QueryResult) -> Result<Vec<u8>, String> {
    parquet_file(&result.schema, &result.batches).map_err(|error| error.message)
}

fn each_row(result: &QueryResult, mut take: impl FnMut(Vec<Value>)) {
    for batch in &result.batches {
        let cells = Cells::new(batch);
        for row in 0..cells.row_count() {
            take(cells.row(row).collect());
        }
    }
}

fn push_json(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("writing to memory does not fail");
}
