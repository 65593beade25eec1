//! `/api/sql`: one query, answered as JSON, CSV, NDJSON, Arrow or Parquet.

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::SharedApp;
use super::answer::Refusal;
use super::row_encoder::AnswerFormat;
use super::sql_body::respond;

/// Default number of rows in JSON, which is for pages; files have all rows by default.
const DEFAULT_ROWS: usize = 10_000;
const MAX_ROWS: usize = 100_000;

/// The body of a POST.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SqlRequest {
    sql: String,
    limit: Option<usize>,
}

/// What may follow `?`.
#[derive(Deserialize)]
pub(crate) struct SqlOptions {
    format: Option<String>,
    q: Option<String>,
    limit: Option<usize>,
}

/// `POST /api/sql`.
pub(crate) async fn post(
    State(app): State<SharedApp>,
    Query(options): Query<SqlOptions>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let example = r#"{"sql": "select 1", "limit": 100}"#;
    let request: SqlRequest = read_json(&headers, &body, example)?;
    answer(&app, &request.sql, request.limit, options.format.as_deref()).await
}

/// `GET /api/sql?q=…`.
pub(crate) async fn get(
    State(app): State<SharedApp>,
    Query(options): Query<SqlOptions>,
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
    app: &SharedApp,
    sql: &str,
    limit: Option<usize>,
    format: Option<&str>,
) -> Result<Response, Refusal> {
    let Some(format) = AnswerFormat::of(format) else {
        let other = format.unwrap_or_default();
        let message = format!("cannot answer as `{other}`: unknown format");
        return Err(Refusal::new(StatusCode::BAD_REQUEST, message)
            .hint("json, csv, ndjson, arrow or parquet"));
    };
    let rows = match format {
        AnswerFormat::Json => limit.unwrap_or(DEFAULT_ROWS).clamp(1, MAX_ROWS),
        _ => limit.unwrap_or(usize::MAX).max(1),
    };
    respond(app, app.stream(sql, rows).await?, format).await
}
