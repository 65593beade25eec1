//! `GET /api/thresholds`: what the thresholds of rules should be by their own past; `POST
//! /api/thresholds/{rule}`: a person's yes to one of them.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::SharedApp;
use super::answer::Refusal;
use crate::thresholds::report::ThresholdReport;
use crate::thresholds::write_value;

/// What may follow `?`.
#[derive(Deserialize)]
pub(crate) struct ThresholdsQuery {
    rule: Option<String>,
    per_week: Option<f64>,
}

/// `GET /api/thresholds`.
pub(crate) async fn list(
    State(app): State<SharedApp>,
    Query(options): Query<ThresholdsQuery>,
) -> Result<Json<Value>, Refusal> {
    if let Some(per_week) = options.per_week.filter(|number| !(0.0..=1e6).contains(number)) {
        return Err(bad_request(format!("cannot mine thresholds: `per_week` is {per_week}"))
            .hint("per_week is how many false findings of a rule are accepted, such as 0.25"));
    }
    let is_asked = |id: &str| options.rule.as_deref().is_none_or(|rule| rule == id);
    let mut reports = Vec::new();
    for rule in app.judge.rules.iter().filter(|rule| is_asked(&rule.id)) {
        let Some(mining) = &rule.mining else { continue };
        let _turn = app.turn().await?;
        let now = app.clock.now();
        reports.push(
            ThresholdReport::of(&app.store, rule, mining, options.per_week, now).await?.json(),
        );
    }
    match options.rule {
        Some(rule) if reports.is_empty() => Err(bad_request(format!(
            "cannot mine `{rule}`: there is no such rule with a threshold"
        ))
        .hint("GET /api/thresholds lists the rules with one")),
        _ => Ok(Json(json!({"thresholds": reports}))),
    }
}

fn bad_request(message: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, message)
}

/// The body of a yes: the value in force and the one that was shown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcceptRequest {
    value: f64,
    proposed: f64,
}

/// Writes the copy of the rule; it is in force after the next start.
pub(crate) async fn accept(
    State(app): State<SharedApp>,
    Path(id): Path<String>,
    Json(yes): Json<AcceptRequest>,
) -> Result<Json<Value>, Refusal> {
    let fail = |status, why: &str| {
        Refusal::new(status, format!("cannot change the threshold of `{id}`: {why}"))
    };
    let bad = |why: &str| fail(StatusCode::BAD_REQUEST, why);
    let rule = app.judge.rules.get(&id);
    let Some((rule, mining)) = rule.and_then(|rule| Some((rule, rule.mining.as_ref()?))) else {
        return Err(fail(StatusCode::NOT_FOUND, "there is no such rule with a threshold")
            .hint("GET /api/thresholds lists the rules with one"));
    };
    if mining.value != Some(yes.value) {
        return Err(bad("another value is in force than the one that was shown")
            .hint("read the proposal again"));
    }
    if !yes.proposed.is_finite() {
        return Err(bad("`proposed` is no number"));
    }
    let Some(dir) = &app.rules_dir else {
        return Err(bad("weir has no directory of rules to write it to")
            .hint("set `rules.dir`, such as /etc/weir/rules, and start weir again"));
    };
    let path = write_value(rule, yes.proposed, dir)?;
    tracing::info!(rule = id, by = &*super::caller::caller(), "wrote {}", path.display());
    Ok(Json(json!({"rule": id, "value": yes.proposed, "file": path.display().to_string()})))
}
