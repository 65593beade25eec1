//! A person's judgement of whether a finding or an incident was right, and what was done.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_tables::{Batch, Judgement, JudgementRows, Parcel, Rows, sql_literal};

use super::answer::Refusal;
use super::caller::author;
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

/// What a person said about a finding or an incident.
#[derive(Clone, Debug)]
pub(crate) struct PersonVerdict {
    /// `real`, `not_actionable` or `wrong`.
    pub(crate) verdict: String,
    /// The action that was taken.
    pub(crate) action: Option<String>,
    /// The person; the login's user without one.
    pub(crate) by: Option<String>,
}

impl PersonVerdict {
    /// Whether the verdict is one of the three, in either spelling.
    pub(crate) fn parse(word: &str) -> Option<&'static str> {
        let word = word.replace('-', "_");
        VERDICTS.into_iter().find(|known| *known == word)
    }
}

/// `POST /api/findings/{finding_id}/judgement`: the answer is what is now known of the rule.
pub(crate) async fn judge(
    State(app): State<SharedApp>,
    Path(finding_id): Path<String>,
    Json(said): Json<JudgementRequest>,
) -> Result<Json<Value>, Refusal> {
    let JudgementRequest { verdict, action } = said;
    judge_finding(&app, &finding_id, &PersonVerdict { verdict, action, by: None }).await.map(Json)
}

/// Keeps a judgement of an incident: it is that of its root finding.
pub(crate) async fn judge_incident(
    app: &SharedApp,
    incident_id: &str,
    said: &PersonVerdict,
) -> Result<Value, Refusal> {
    let sql = format!(
        "select root_finding_id from incident_now where incident_id = {}",
        sql_literal(incident_id)
    );
    let found = objects(&app.query(&sql, 1).await?).pop();
    let root = found.as_ref().and_then(|row| row["root_finding_id"].as_str());
    let Some(root) = root.filter(|root| !root.is_empty()) else {
        return Err(super::incidents::no_such("judge", incident_id));
    };
    judge_finding(app, root, said).await
}

/// Keeps a judgement; what is now known of the rule.
async fn judge_finding(
    app: &SharedApp,
    finding_id: &str,
    said: &PersonVerdict,
) -> Result<Value, Refusal> {
    let Some(verdict) = PersonVerdict::parse(&said.verdict) else {
        return Err(bad(format!(
            "cannot judge `{finding_id}`: unknown verdict `{}`",
            said.verdict
        ))
        .hint("real, not_actionable or wrong"));
    };
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
        sql_literal(finding_id)
    );
    let Some(finding) = objects(&app.query(&sql, 1).await?).pop() else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            format!("cannot judge `{finding_id}`: there is no such finding"),
        )
        .hint("GET /api/findings?state=all lists them"));
    };
    let text = |name: &str| finding[name].as_str().unwrap_or_default();
    let user_name = author(said.by.clone());
    let mut rows = JudgementRows::default();
    rows.push(&Judgement {
        ts: app.clock.now(),
        host: text("host"),
        finding_id,
        rule: text("rule"),
        class: text("class"),
        verdict,
        user_name: &user_name,
        action,
    });
    let batch = Batch { table: JudgementRows::SPEC, rows: rows.finish() };
    app.store.append(Parcel { range: None, batches: vec![batch] }).await?;
    precision::learn(&app.judge, &app.store, app.clock.now()).await;
    let of_rule = app.judge.with_engine(|engine| engine.precision(text("rule")));
    Ok(json!({
        "finding_id": finding_id,
        "rule": text("rule"),
        "verdict": verdict,
        "judged": of_rule.map(|precision| precision.judged),
        "real": of_rule.map(|precision| precision.real),
        "may_page": of_rule.is_none_or(weir_rules::Precision::may_page),
    }))
}

fn bad(message: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, message)
}
