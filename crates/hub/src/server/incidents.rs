//! `/api/incidents`, `/api/silences`, `/api/notices`, `/api/oncall`: incidents, and the notices of them.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_tables::{parse_duration, sql_literal};

use super::answer::Refusal;
use super::caller::author;
use super::judgements::{PersonVerdict, judge_incident};
use super::{SharedApp, objects};
use crate::cells::parse_time;
use crate::notices::{NoticeError, NoticeTest, SilenceWish};

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

/// The body of an acknowledgement; the login's user without a name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ByPerson {
    by: Option<String>,
}

/// The body of a closing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveBody {
    by: Option<String>,
    judgement: Option<String>,
    did: Option<String>,
}

/// The body of a judgement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JudgeBody {
    verdict: String,
    action: Option<String>,
    by: Option<String>,
}

/// What may follow `?` of a calendar.
#[derive(Deserialize)]
pub(crate) struct CalendarQuery {
    key: Option<String>,
}

/// The body of an answer by mail.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MailBody {
    /// The whole mail; bytes that are no UTF-8 may be replaced.
    mail: String,
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

/// `POST /api/incidents/{incident_id}/resolve`: with a judgement, one that is over is only judged.
pub(crate) async fn resolve(
    State(app): State<SharedApp>,
    Path(incident_id): Path<String>,
    Json(body): Json<ResolveBody>,
) -> Result<Json<Value>, Refusal> {
    let by = person(body.by)?;
    let said = body.judgement.map(|verdict| PersonVerdict {
        verdict,
        action: body.did.clone(),
        by: Some(by.clone()),
    });
    if said.is_none() && body.did.is_some() {
        let what = "cannot resolve: `did` goes with `judgement`";
        return Err(bad(what).hint("real, not_actionable or wrong"));
    }
    let judged = match &said {
        Some(said) => Some(judge_incident(&app, &incident_id, said).await?),
        None => None,
    };
    let change = match app.notices.resolve(&incident_id, &by).await {
        Ok(change) => change,
        Err(error) if judged.is_none() => return Err(error.into()),
        Err(_) => "it is over already".to_owned(),
    };
    Ok(Json(json!({"incident_id": incident_id, "change": change, "judgement": judged})))
}

/// `POST /api/incidents/{incident_id}/judgement`.
pub(crate) async fn judge(
    State(app): State<SharedApp>,
    Path(incident_id): Path<String>,
    Json(body): Json<JudgeBody>,
) -> Result<Json<Value>, Refusal> {
    let by = Some(person(body.by)?);
    let said = PersonVerdict { verdict: body.verdict, action: body.action, by };
    judge_incident(&app, &incident_id, &said).await.map(Json)
}

/// `GET /api/oncall/{calendar}`: `ROTA.ics?key=…`, without a login.
pub(crate) async fn calendar(
    State(app): State<SharedApp>,
    Path(file): Path<String>,
    Query(options): Query<CalendarQuery>,
) -> Result<Response, Refusal> {
    let (rota, key) = (file.strip_suffix(".ics"), options.key.unwrap_or_default());
    let found = match rota.filter(|_| app.notices.door().admits(&*app.clock)) {
        Some(rota) => app.notices.calendar(rota, &key).await.map_err(NoticeError::from)?,
        None => None,
    };
    let text = found.ok_or_else(|| {
        Refusal::new(StatusCode::NOT_FOUND, "there is no such calendar, or the key is another")
            .hint("`GET /api/oncall` has the address of each rota's calendar")
    })?;
    Ok(([(header::CONTENT_TYPE, "text/calendar; charset=utf-8")], text).into_response())
}

/// `POST /api/notify/reply`: a mail that answers one of weir's.
pub(crate) async fn mail_reply(
    State(app): State<SharedApp>,
    Json(body): Json<MailBody>,
) -> Result<Json<Value>, Refusal> {
    Ok(Json(app.notices.mail_reply(body.mail.into_bytes()).await?))
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
    let mut rotas = app.notices.on_call(options.rota.as_deref(), at)?;
    for rota in &mut rotas {
        let name = rota["rota"].as_str().unwrap_or_default().to_owned();
        rota["calendar"] = match app.notices.calendar_path(&name).await {
            Ok(path) => path.into(),
            Err(_) => Value::Null,
        };
    }
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

/// The owner of a personal login, else the name in the body, else that of the login.
fn person(by: Option<String>) -> Result<String, Refusal> {
    let name = author(by);
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
