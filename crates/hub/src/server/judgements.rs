//! `POST /api/findings/{finding_id}/judgement`: a person's judgement of whether a finding was
//! right.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_tables::{Batch, Judgement, JudgementRows, Parcel, Rows, sql_literal};

use super::answer::Refusal;
use super::caller::caller;
use super::{SharedApp, objects};
use crate::precision;

const VERDICTS: [&str; 3] = ["real", "not_actionable", "wrong"];
/// Longest text of what was done.
const MAX_ACTION_CHARS: usize = 500;

/// The body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JudgementRequest {
    verdict: String,
    action: Option<String>,
}

/// Keeps the judgement; the answer is what is now known of the rule.
pub(crate) async fn judge(
    State(app): State<SharedApp>,
    Path(finding_id): Path<String>,
    Json(said): Json<JudgementRequest>,
) -> Result<Json<Value>, Refusal> {
    if !VERDICTS.contains(&said.verdict.as_str()) {
        return Err(bad(format!(
            "cannot judge `{finding_id}`: unknown verdict `{}`",
            said.verdict
        ))
        .hint("real, not_actionable or wrong"));
    }
    let action = said.action.as_deref().map(str::trim).filter(|action| !action.is_empty());
    if action.is_some_and(|action| action.chars().count() > MAX_ACTION_CHARS) {
        return Err(bad(format!(
            "cannot judge `{finding_id}`: `action` is longer than {MAX_ACTION_CHARS} letters"
        ))
        .hint("a few words, always the same ones for the same thing"));
    }
    let sql = format!(
        "select rule, host, coalesce(own_class, class) as class from finding \
         where finding_id = {} order by ts desc limit 1",
        sql_literal(&finding_id)
    );
    let Some(finding) = objects(&app.query(&sql, 1).await?).pop() else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            format!("cannot judge `{finding_id}`: there is no such finding"),
        )
        .hint("GET /api/findings?state=all lists them"));
    };
    let text = |name: &str| finding[name].as_str().unwrap_or_default();
    let mut rows = JudgementRows::default();
    rows.push(&Judgement {
        ts: app.clock.now(),
        host: text("host"),
        finding_id: &finding_id,
        rule: text("rule"),
        class: text("class"),
        verdict: &said.verdict,
        user_name: &caller(),
        action,
    });
    let batch = Batch { table: JudgementRows::SPEC, rows: rows.finish() };
    app.store.append(Parcel { range: None, batches: vec![batch] }).await?;
    precision::learn(&app.judge, &app.store, app.clock.now()).await;
    let of_rule = app.judge.with_engine(|engine| engine.precision(text("rule")));
    Ok(Json(json!({
        "finding_id": finding_id,
        "rule": text("rule"),
        "verdict": said.verdict,
        "judged": of_rule.map(|precision| precision.judged),
        "real": of_rule.map(|precision| precision.real),
        "may_page": of_rule.is_none_or(weir_rules::Precision::may_page),
    })))
}

fn bad(message: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, message)
}
