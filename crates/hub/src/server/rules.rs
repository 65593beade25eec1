//! `GET /api/rules`: what is looked for, and how each rule fared; broken rule files are in the list with their error.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use weir_rules::{Rule, RuleError};

use super::Shared;

/// `GET /api/rules`.
pub(crate) async fn list(State(app): State<Shared>) -> Json<Value> {
    let broken = app.judge.broken.iter().map(broken_rule);
    let rules: Vec<Value> =
        broken.chain(app.judge.rules.iter().map(|rule| loaded(&app, rule))).collect();
    Json(json!({"rules": rules}))
}

fn loaded(app: &Shared, rule: &Rule) -> Value {
    let (status, precision) =
        app.judge.with_engine(|engine| (engine.status(&rule.id), engine.precision(&rule.id)));
    json!({
        "id": rule.id,
        "tier": rule.tier,
        "class": rule.class.as_str(),
        "title": rule.title,
        "for_seconds": rule.for_seconds,
        "every_seconds": rule.every_seconds,
        "why": rule.why,
        "look_at": rule.look_at,
        "silent_when": rule.silent_when,
        "fix": rule.fix,
        "source": rule.source,
        "sql": rule.sql,
        "origin": rule.origin,
        "state": status.state.as_str(),
        "open_findings": status.open_findings,
        "last_run_ts": status.last_run_ts.map(|ts| ts.to_string()),
        "last_run_seconds": status.last_run_seconds,
        "error": status.error,
        "judged": precision.map(|precision| precision.judged),
        "real": precision.map(|precision| precision.real),
        "may_page": precision.is_none_or(weir_rules::Precision::may_page),
        "has_threshold": rule.mining.is_some(),
    })
}

/// A rule file that weir goes on without.
fn broken_rule(error: &RuleError) -> Value {
    json!({
        "id": error.origin,
        "tier": "weir",
        "class": "note",
        "title": "this rule file could not be loaded",
        "for_seconds": 0,
        "every_seconds": 0,
        "why": "", "look_at": "", "silent_when": "", "fix": "", "source": "", "sql": "",
        "origin": error.origin,
        "state": "inactive",
        "open_findings": 0,
        "last_run_ts": null,
        "last_run_seconds": null,
        "error": error.to_string(),
        "judged": null,
        "real": null,
        "may_page": true,
        "has_threshold": false,
    })
}
