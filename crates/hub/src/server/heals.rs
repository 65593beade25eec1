//! `/api/actions` and `/api/heal`: repairs of hosts, and what people decide about them.
//!
//! Who decides has to be a person: the shared login takes any user name, so it may stop repairs and
//! nothing else.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::Value;
use weir_actions::LockRequest;

use super::SharedApp;
use super::answer::Refusal;
use super::guard::{Grant, GrantKind};
use crate::heal::HealAct;

/// The body of a decision; the name counts only on the hub's own host.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionBody {
    by: Option<String>,
}

/// The body of a stop.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopBody {
    by: Option<String>,
    reason: Option<String>,
}

/// The body of a lock.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockBody {
    by: Option<String>,
    #[serde(default)]
    role: String,
    #[serde(default)]
    host: String,
    seconds: i64,
    reason: String,
}

/// The body of a raised step.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RaiseBody {
    by: Option<String>,
    rule: String,
    action: String,
    #[serde(default)]
    role: String,
}

/// `GET /api/actions`.
pub(crate) async fn list(State(app): State<SharedApp>) -> Result<Json<Value>, Refusal> {
    Ok(Json(app.heals.shown().await?))
}

/// `POST /api/actions/{run_id}/approve`.
pub(crate) async fn approve(
    State(app): State<SharedApp>,
    Extension(grant): Extension<Grant>,
    Path(run): Path<String>,
    Json(body): Json<DecisionBody>,
) -> Result<Json<Value>, Refusal> {
    decide(&app, &grant, body.by, HealAct::Approve { run }).await
}

/// `POST /api/actions/{run_id}/refuse`.
pub(crate) async fn refuse(
    State(app): State<SharedApp>,
    Extension(grant): Extension<Grant>,
    Path(run): Path<String>,
    Json(body): Json<DecisionBody>,
) -> Result<Json<Value>, Refusal> {
    decide(&app, &grant, body.by, HealAct::Refuse { run }).await
}

/// `POST /api/actions/{run_id}/undo`.
pub(crate) async fn undo(
    State(app): State<SharedApp>,
    Extension(grant): Extension<Grant>,
    Path(run): Path<String>,
    Json(body): Json<DecisionBody>,
) -> Result<Json<Value>, Refusal> {
    decide(&app, &grant, body.by, HealAct::Undo { run }).await
}

/// `POST /api/heal/stop`: no repair starts from now on.
pub(crate) async fn stop(
    State(app): State<SharedApp>,
    Extension(grant): Extension<Grant>,
    Json(body): Json<StopBody>,
) -> Result<Json<Value>, Refusal> {
    // A stop does no harm, so every login that may change something may stop.
    let by = author(&grant, body.by);
    let reason = body.reason.unwrap_or_default();
    Ok(Json(app.heals.act(HealAct::Stop { reason }, &by).await?))
}

/// `POST /api/heal/start`.
pub(crate) async fn start(
    State(app): State<SharedApp>,
    Extension(grant): Extension<Grant>,
    Json(body): Json<DecisionBody>,
) -> Result<Json<Value>, Refusal> {
    decide(&app, &grant, body.by, HealAct::Start).await
}

/// `POST /api/heal/raise`: a repair may go one step further on a role.
pub(crate) async fn raise(
    State(app): State<SharedApp>,
    Extension(grant): Extension<Grant>,
    Json(body): Json<RaiseBody>,
) -> Result<Json<Value>, Refusal> {
    let RaiseBody { by, rule, action, role } = body;
    decide(&app, &grant, by, HealAct::Raise { rule, action, role }).await
}

/// `GET /api/heal/locks`.
pub(crate) async fn locks(State(app): State<SharedApp>) -> Result<Json<Value>, Refusal> {
    Ok(Json(app.heals.locks().await?))
}

/// `POST /api/heal/locks`: no repair starts on a role or on hosts for a time.
pub(crate) async fn lock(
    State(app): State<SharedApp>,
    Extension(grant): Extension<Grant>,
    Json(body): Json<LockBody>,
) -> Result<Json<Value>, Refusal> {
    let LockBody { by, role, host, seconds, reason } = body;
    let act = HealAct::Lock(LockRequest { role, host, seconds, reason });
    Ok(Json(app.heals.act(act, &author(&grant, by)).await?))
}

/// `POST /api/heal/locks/{lock_id}/end`.
pub(crate) async fn unlock(
    State(app): State<SharedApp>,
    Extension(grant): Extension<Grant>,
    Path(lock): Path<String>,
    Json(body): Json<DecisionBody>,
) -> Result<Json<Value>, Refusal> {
    let by = author(&grant, body.by);
    Ok(Json(app.heals.act(HealAct::Unlock { lock }, &by).await?))
}

/// The author of what does no harm: deployments lock and unlock with a separate login.
fn author(grant: &Grant, by: Option<String>) -> String {
    by.filter(|by| !by.trim().is_empty()).unwrap_or_else(|| grant.name().to_owned())
}

/// Does what a person decides.
async fn decide(
    app: &SharedApp,
    grant: &Grant,
    by: Option<String>,
    act: HealAct,
) -> Result<Json<Value>, Refusal> {
    let by = person(grant, by)?;
    Ok(Json(app.heals.act(act, &by).await?))
}

/// The person that decides: the owner of a personal login, else on the hub's own host a name.
fn person(grant: &Grant, by: Option<String>) -> Result<String, Refusal> {
    match grant.kind() {
        GrantKind::Personal => Ok(grant.name().to_owned()),
        GrantKind::ThisHost => by.filter(|by| !by.trim().is_empty()).ok_or_else(|| {
            Refusal::new(StatusCode::BAD_REQUEST, "cannot decide about repairs without a name")
                .hint("`weir heal … --by NAME`")
        }),
        GrantKind::Shared => {
            let what = format!("the login `{}` is shared: a person has to decide", grant.name());
            Err(Refusal::new(StatusCode::FORBIDDEN, what)
                .hint("use a login of `[[logins]]` with the scope `change`, named after its owner"))
        }
    }
}
