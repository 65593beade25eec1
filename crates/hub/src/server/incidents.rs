//! `/api/incidents`, `/api/silences`, `/api/notices`, `/api/oncall`: incidents, and the notices of them.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_tables::{parse_duration, sql_literal};

use super::answer::Refusal;
use super::caller::caller;
use super::{SharedApp, objects};
use crate::cells::parse_time;
use crate::notices::{NoticeTest, SilenceWish};

const MAX_ROWS: usize = 10_000;

/// What may follow `?` of a list.
#[derive(Deserialize)]
pub(crate) struct ListQuery {
    state: Option<String>,
    limit: Option<usize>,
}

/// What may follow `?` of `/api/oncall`.
#[derive(Deserialize)]
pub(crate) struct OnCallQuery {
    rota: Option<String>,
    at: Option<String>,
}

/// The body of an acknowledgement or a closing; the login's user without a name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ByPerson {
    by: Option<String>,
}

/// The body of a silence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SilenceBody {
    rule: String,
    host: Option<String>,
    #[serde(rename = "for")]
    duration: Option<String>,
    reason: String,
    by: Option<String>,
}

/// The body of a test.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestBody {
    receiver: Option<String>,
    person: Option<String>,
}

/// `GET /api/incidents`.
pub(crate) async fn list(
    State(app): State<SharedApp>,
    Query(options): Query<ListQuery>,
) -> Result<Json<Value>, Refusal> {
    let wanted = match options.state.as_deref() {
        None | Some("open") => "state in ('open', 'acked')",
        Some("all") => "true",
        Some(other) => {
            let what = format!("cannot list incidents: unknown state `{other}`");
            return Err(bad(what).hint("open or all"));
        }
    };
    let rows = options.limit.unwrap_or(1000).clamp(1, MAX_ROWS);
    let sql = format!(
        "select * from incident_now where {wanted} order by \
         case when state in ('open', 'acked') then 0 else 1 end, ts desc, incident_id limit {rows}"
    );
    Ok(Json(json!({"incidents": objects(&app.query(&sql, rows).await?)})))
}

/// `GET /api/incidents/{incident_id}`.
pub(crate) async fn one(
    State(app): State<SharedApp>,
    Path(incident_id): Path<String>,
) -> Result<Json<Value>, Refusal> {
    let condition = format!("where incident_id = {}", sql_literal(&incident_id));
    let sql = format!("select * from incident_now {condition}");
    let Some(Value::Object(mut incident)) = objects(&app.query(&sql, 1).await?).pop() else {
        return Err(no_such("show", &incident_id));
    };
    let root = incident.get("root_finding_id").and_then(Value::as_str).unwrap_or_default();
    let root = sql_literal(root);
    let findings = format!(
        "select finding_id, rule, host, class, state, subject, summary, why, fix, started_ts, resolved_ts \
         from finding_now where finding_id = {root} or cause_finding_id = {root} \
         order by started_ts, finding_id limit 200"
    );
    let notices = format!("select * from notice_now {condition} order by ts limit 1000");
    let history = format!("select ts, state, class, change from incident {condition} order by ts");
    for (name, sql) in [("findings", findings), ("notices", notices), ("history", history)] {
        incident.insert(name.into(), objects(&app.query(&sql, 1000).await?).into());
    }
    Ok(Json(incident.into()))
}

/// `POST /api/incidents/{incident_id}/ack`.
pub(crate) async fn ack(
    State(app): State<SharedApp>,
    Path(incident_id): Path<String>,
    Json(body): Json<ByPerson>,
) -> Result<Json<Value>, Refusal> {
    let change = app.notices.acknowledge(&incident_id, &person(body.by)?).await?;
    Ok(Json(json!({"incident_id": incident_id, "change": change})))
}

/// `POST /api/incidents/{incident_id}/resolve`.
pub(crate) async fn resolve(
    State(app): State<SharedApp>,
    Path(incident_id): Path<String>,
    Json(body): Json<ByPerson>,
) -> Result<Json<Value>, Refusal> {
    let change = app.notices.resolve(&incident_id, &person(body.by)?).await?;
    Ok(Json(json!({"incident_id": incident_id, "change": change})))
}

/// `GET /api/silences`.
pub(crate) async fn silences(State(app): State<SharedApp>) -> Result<Json<Value>, Refusal> {
    Ok(Json(json!({"silences": app.notices.silences().await?})))
}

/// `POST /api/silences`.
pub(crate) async fn silence(
    State(app): State<SharedApp>,
    Json(body): Json<SilenceBody>,
) -> Result<Json<Value>, Refusal> {
    let duration = parse_duration(body.duration.as_deref().unwrap_or("2h"))
        .map_err(|why| bad("cannot silence: `for` is not a duration").hint(why.to_string()))?;
    let wish = SilenceWish {
        rule: body.rule,
        host: body.host,
        duration,
        reason: body.reason,
        by: person(body.by)?,
    };
    Ok(Json(app.notices.silence(wish).await?))
}

/// `POST /api/silences/{silence_id}/end`.
pub(crate) async fn end_silence(
    State(app): State<SharedApp>,
    Path(silence_id): Path<String>,
    Json(body): Json<ByPerson>,
) -> Result<Json<Value>, Refusal> {
    app.notices.end_silence(&silence_id, &person(body.by)?).await?;
    Ok(Json(json!({"id": silence_id, "change": "ended"})))
}

/// `GET /api/notices`.
pub(crate) async fn notices(
    State(app): State<SharedApp>,
    Query(options): Query<ListQuery>,
) -> Result<Json<Value>, Refusal> {
    let rows = options.limit.unwrap_or(1000).clamp(1, MAX_ROWS);
    let sql = format!("select * from notice_now order by ts desc, notice_id limit {rows}");
    Ok(Json(json!({"notices": objects(&app.query(&sql, rows).await?)})))
}

/// `GET /api/oncall`.
pub(crate) async fn on_call(
    State(app): State<SharedApp>,
    Query(options): Query<OnCallQuery>,
) -> Result<Json<Value>, Refusal> {
    let at = match options.at.as_deref() {
        None => app.clock.now(),
        Some(text) => parse_time(text).ok_or_else(|| {
            bad(format!("cannot show who is on call: `{text}` is not a time"))
                .hint("write it as 2026-12-24T20:00:00+01:00")
        })?,
    };
    let rotas = app.notices.on_call(options.rota.as_deref(), at)?;
    Ok(Json(json!({"rotas": rotas, "receivers": app.notices.receivers()})))
}

/// `POST /api/notify/test`.
pub(crate) async fn test(
    State(app): State<SharedApp>,
    Json(body): Json<TestBody>,
) -> Result<Json<Value>, Refusal> {
    let wish = match (body.receiver, body.person) {
        (Some(name), None) => NoticeTest::Receiver(name),
        (None, Some(name)) => NoticeTest::Person(name),
        _ => return Err(bad("cannot send a test: name either `receiver` or `person`")),
    };
    Ok(Json(json!({"notices": app.notices.test(&wish).await?})))
}

/// The name in the body, else that of the login.
fn person(by: Option<String>) -> Result<String, Refusal> {
    let name = by.unwrap_or_else(|| caller().to_string());
    let name = name.trim();
    if name.is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control) {
        return Err(bad("`by` must be a name of 1 to 64 letters"));
    }
    Ok(name.to_owned())
}

/// The refusal of an incident that does not exist.
pub(crate) fn no_such(action: &str, incident_id: &str) -> Refusal {
    let what = format!("cannot {action} `{incident_id}`: there is no such incident");
    Refusal::new(StatusCode::NOT_FOUND, what).hint("GET /api/incidents?state=all lists them")
}

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, message)
}
