//! `POST /api/parse`: the rows that lines become, as in `weir parse`. Nothing is stored.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::SharedApp;
use super::answer::Refusal;
use super::sql::read_json;
use crate::explain::LineReader;

/// Lines of one request; explaining one costs some milliseconds.
const MAX_LINES: usize = 50;
/// Bytes of one line.
const MAX_LINE_BYTES: usize = 64 << 10;

/// The body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParseRequest {
    /// Lines, separated by line ends.
    lines: String,
    /// A pipeline file's text, or the name of a pipeline.
    #[serde(default)]
    pipeline: Option<String>,
    /// A grok pattern, instead of a pipeline.
    #[serde(default)]
    pattern: Option<String>,
    /// The path that selects a pipeline.
    #[serde(default)]
    path: Option<String>,
}

/// `POST /api/parse`.
pub(crate) async fn post(
    State(app): State<SharedApp>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let example = r#"{"lines": "…", "pattern": "%{IP:client_address} …"}"#;
    let question: ParseRequest = read_json(&headers, &body, example)?;
    // Patterns are compiled here, so at most as many as queries at a time.
    let _turn = app.turn().await?;
    let of_task = Arc::clone(&app);
    let task = tokio::task::spawn_blocking(move || answer(&of_task, &question));
    task.await.map_err(|_| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "cannot parse: a line broke the parser")
    })?
}

fn answer(app: &SharedApp, question: &ParseRequest) -> Result<Json<Value>, Refusal> {
    let reading = reading(app, question)?;
    let mut parser = reading.parser();
    let pipeline = reading.pipeline.as_deref().filter(|_| question.pattern.is_none());
    let now = app.clock.now();
    let lines = question.lines.lines().filter(|line| !line.trim().is_empty()).take(MAX_LINES);
    let lines: Vec<Value> = lines
        .filter_map(|line| {
            let line = &line[..line.floor_char_boundary(MAX_LINE_BYTES)];
            reading.explain(&mut parser, line, now).map(|found| found.json(line, pipeline))
        })
        .collect();
    let sample: Vec<String> = question.lines.lines().map(str::to_owned).take(MAX_LINES).collect();
    let suggestion = reading.parsers.suggest(&sample).map(
        |found| json!({"pattern": found.pattern, "matched": found.matched, "lines": found.lines}),
    );
    Ok(Json(json!({"lines": lines, "suggestion": suggestion})))
}

fn reading(app: &SharedApp, question: &ParseRequest) -> Result<LineReader, Refusal> {
    let parsers = app.parsers.clone();
    let text = match (&question.pattern, &question.pipeline) {
        (Some(pattern), _) => {
            let pattern = toml::Value::String(pattern.clone());
            Some(format!("[parse]\nformat = \"grok\"\npattern = {pattern}\n"))
        }
        (None, Some(name)) if parsers.get(name).is_some() => None,
        (None, text) => text.clone(),
    };
    let pipeline = match (text, &question.pipeline) {
        (Some(text), _) => Some(
            parsers
                .pipeline_of(weir_parse::ParserFile { origin: "pipeline", text: &text })
                .map_err(|problem| {
                    let message = format!("cannot use line {}: {}", problem.line, problem.message);
                    Refusal::new(StatusCode::BAD_REQUEST, message).hint(problem.hint)
                })?,
        ),
        (None, Some(name)) => parsers.get(name).cloned(),
        (None, None) => None,
    };
    let path = question.path.as_deref().unwrap_or("pasted");
    Ok(LineReader::new(parsers, pipeline, weir_parse::StreamName { path, host: &app.host }))
}
