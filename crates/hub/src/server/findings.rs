//! `/api/findings`: the newest state of every finding, and one finding with its history.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use weir_rules::Row;
use weir_tables::{Micros, sql_literal};

use super::answer::Refusal;
use super::{SharedApp, objects};
use crate::cells::parse_time;

const MAX_FINDINGS: usize = 10_000;

/// What may follow `?`.
#[derive(Deserialize)]
pub(crate) struct FindingsQuery {
    state: Option<String>,
    since: Option<String>,
    limit: Option<usize>,
}

/// `GET /api/findings`.
pub(crate) async fn list(
    State(app): State<SharedApp>,
    Query(options): Query<FindingsQuery>,
) -> Result<Json<Value>, Refusal> {
    let mut wanted = match options.state.as_deref() {
        None | Some("open") => "state <> 'resolved'".to_owned(),
        Some("all") => "true".to_owned(),
        Some(other) => {
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                format!("cannot list findings: unknown state `{other}`"),
            )
            .hint("open or all"));
        }
    };
    if let Some(since) = &options.since {
        wanted += &format!(" and ts >= to_timestamp({})", sql_literal(since));
    }
    let rows = options.limit.unwrap_or(1000).clamp(1, MAX_FINDINGS);
    let sql = format!(
        "select {COLUMNS} from {} where newest_rank = 1 and {wanted} order by \
         case state when 'resolved' then 1 else 0 end, ts desc, finding_id limit {rows}",
        ranked("")
    );
    let findings = objects(&app.query(&sql, rows).await?);
    let verdict = app.judge.with_engine(|engine| weir_rules::headline(engine.open()));
    Ok(Json(json!({"findings": findings, "verdict": verdict})))
}

const COLUMNS: &str = "finding_id, rule, tier, class, state, host, subject, summary, why, fix, \
    started_ts, fired_ts, resolved_ts, ts, cause_finding_id, cause_rule";

/// `finding` with `newest_rank`, 1 at the row that holds.
fn ranked(condition: &str) -> String {
    format!(
        "(select *, row_number() over (partition by finding_id order by ts desc, \
         case state when 'resolved' then 2 when 'firing' then 1 else 0 end desc) as newest_rank \
         from finding {condition})"
    )
}

/// `GET /api/findings/{finding_id}`.
pub(crate) async fn one(
    State(app): State<SharedApp>,
    Path(finding_id): Path<String>,
) -> Result<Json<Value>, Refusal> {
    let condition = format!("where finding_id = {}", sql_literal(&finding_id));
    let sql = format!(
        "select {COLUMNS}, key, evidence from {} where newest_rank = 1",
        ranked(&condition)
    );
    let mut found = objects(&app.query(&sql, 1).await?);
    let Some(Value::Object(mut finding)) = found.pop() else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            format!("cannot show `{finding_id}`: there is no such finding"),
        )
        .hint("GET /api/findings?state=all lists them"));
    };
    let history = format!(
        "select ts, state from finding {condition} order by ts, \
         case state when 'resolved' then 2 when 'firing' then 1 else 0 end"
    );
    let history = changes(objects(&app.query(&history, 1000).await?));
    finding.insert("history".into(), history.into());
    parse_in_place(&mut finding, "evidence");
    parse_in_place(&mut finding, "key");
    add_rule(&app, &mut finding);
    let judged = format!(
        "select ts, verdict, user_name, action from judgement {condition} order by ts desc limit 1"
    );
    let judgement = objects(&app.query(&judged, 1).await?).pop();
    finding.insert("judgement".into(), judgement.unwrap_or_default());
    Ok(Json(finding.into()))
}

/// Rows that only renew the evidence are left out.
fn changes(mut rows: Vec<Value>) -> Vec<Value> {
    rows.dedup_by(|next, before| next["state"] == before["state"]);
    rows
}

fn parse_in_place(finding: &mut Map<String, Value>, name: &str) {
    let text = finding.get(name).and_then(Value::as_str).unwrap_or_default();
    let value = serde_json::from_str(text).unwrap_or_else(|_| json!([]));
    finding.insert(name.into(), value);
}

/// Adds the rule's texts, and its queries with this finding's times.
fn add_rule(app: &SharedApp, finding: &mut Map<String, Value>) {
    let id = finding.get("rule").and_then(Value::as_str).unwrap_or_default();
    let Some(rule) = app.judge.rules.get(id).cloned() else {
        for name in ["look_at", "silent_when", "source", "sql", "chart"] {
            finding.insert(name.into(), Value::Null);
        }
        return;
    };
    let at = time_of(finding, "resolved_ts").or(time_of(finding, "ts")).unwrap_or_default();
    let evidence: Vec<Row> = finding
        .get("evidence")
        .and_then(Value::as_array)
        .map(|rows| rows.iter().filter_map(Row::from_json).collect())
        .unwrap_or_default();
    let chart = rule.chart.as_ref().and_then(|chart| {
        let sql = rule.chart_sql_at(at, &evidence)?;
        Some(json!({"sql": sql, "title": chart.title, "unit": chart.unit}))
    });
    finding.insert("look_at".into(), rule.look_at_of(&evidence).into());
    finding.insert("silent_when".into(), rule.silent_when.clone().into());
    finding.insert("source".into(), rule.source.clone().into());
    finding.insert("sql".into(), rule.sql_at(at).into());
    finding.insert("chart".into(), chart.into());
}

fn time_of(finding: &Map<String, Value>, name: &str) -> Option<Micros> {
    parse_time(finding.get(name)?.as_str()?)
}
