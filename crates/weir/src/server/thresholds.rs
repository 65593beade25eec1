//! `GET /api/thresholds`: what the thresholds of rules should be by their own past.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::answer::Refusal;
use crate::thresholds::report::Report;

/// What may follow `?`.
#[derive(Deserialize)]
pub(crate) struct Options {
    rule: Option<String>,
    per_week: Option<f64>,
}

/// `GET /api/thresholds`.
pub(crate) async fn list(
    State(app): State<Shared>,
    Query(options): Query<Options>,
) -> Result<Json<Value>, Refusal> {
    let bad = |message: String| Refusal::new(StatusCode::BAD_REQUEST, message);
    if let Some(per_week) = options.per_week.filter(|number| !(0.0..=1e6).contains(number)) {
        return Err(bad(format!("cannot mine thresholds: {per_week} findings a week are asked"))
            .hint("per_week is how many false findings of a rule are accepted, such as 0.25"));
    }
    let is_asked = |id: &str| options.rule.as_deref().is_none_or(|rule| rule == id);
    let mut reports = Vec::new();
    for rule in app.judge.rules.iter().filter(|rule| is_asked(&rule.id)) {
        let Some(mining) = &rule.mining else { continue };
        let _turn = app.turn().await?;
        let now = app.clock.now();
        reports.push(Report::of(&app.store, rule, mining, options.per_week, now).await?.json());
    }
    match options.rule {
        Some(rule) if reports.is_empty() => {
            Err(bad(format!("cannot mine `{rule}`: there is no such rule with a threshold"))
                .hint("GET /api/thresholds lists those that have one"))
        }
        _ => Ok(Json(json!({"thresholds": reports}))),
    }
}
