//! `GET /api/slos`: budget left, burn rates and open findings of every SLO.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use weir_rules::OpenFinding;
use weir_tables::Micros;

use super::SharedApp;
use super::answer::Refusal;
use crate::slos::report;

/// The rule of burning budgets.
const RULE: &str = "slo.burning";

/// `GET /api/slos`.
pub(crate) async fn list(State(app): State<SharedApp>) -> Result<Json<Value>, Refusal> {
    let mut slos = Vec::new();
    for slo in &app.slos {
        let _turn = app.turn().await?;
        let now = app.clock.now();
        let mut shown = report(&app.store, slo, now).await?;
        let open = app.judge.with_engine(|engine| findings(engine.open(), &slo.name, now));
        shown["findings"] = open.into();
        slos.push(shown);
    }
    Ok(Json(json!({ "slos": slos })))
}

/// Open findings about an SLO, one for each pace.
fn findings<'a>(open: impl Iterator<Item = &'a OpenFinding>, slo: &str, now: Micros) -> Vec<Value> {
    let of_slo = open.filter(|found| found.rule == RULE && is_about(found, slo));
    let shown = of_slo.map(|found| {
        let row = found.row(now);
        json!({
            "finding_id": row.finding_id,
            "state": row.state,
            "class": row.class,
            "summary": row.summary,
            "started_ts": found.started_ts.to_string(),
            "cause_finding_id": row.cause_finding_id,
            "cause_rule": row.cause_rule,
        })
    });
    shown.collect()
}

fn is_about(found: &OpenFinding, slo: &str) -> bool {
    let key: Value = serde_json::from_str(&found.key).unwrap_or_default();
    key["slo"] == slo
}
