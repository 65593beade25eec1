//! `/api/edge`: the edge of this process. What changes it needs a login, since whoever is on this host reaches the page.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_agent_core::edge::{Control, WeightChange};

use super::answer::Refusal;
use super::sql::require_json;
use super::{App, Shared};

type Answer = Result<Json<Value>, Refusal>;

/// What may follow `?` of a change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    /// Report what would change, and change nothing.
    #[serde(default)]
    dry_run: bool,
}

fn changes(lines: Vec<String>) -> Json<Value> {
    Json(json!({"changes": lines}))
}

fn control(app: &App) -> Result<&Arc<Control>, Refusal> {
    app.edge.get().ok_or_else(|| {
        Refusal::new(StatusCode::NOT_FOUND, "no edge runs in this weir")
            .hint("edges that send here show in `edge_backend`; `weir edge change` on their hosts changes them")
    })
}

fn may_change(app: &App) -> Result<&Arc<Control>, Refusal> {
    if app.token.is_none() {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "cannot change the edge: no login is set")
            .hint("set `api.token_file`, or use `weir edge change` or `weir edge weight` on the edge's host"));
    }
    control(app)
}

/// `GET /api/edge`; a weir without an edge says so.
pub(crate) async fn state(State(app): State<Shared>) -> Answer {
    if app.edge.get().is_none() {
        return Ok(Json(json!({"is_here": false})));
    }
    let mut state = control(&app)?.state()?;
    state["is_here"] = json!(true);
    state["may_change"] = json!(app.token.is_some());
    Ok(Json(state))
}

/// `GET /api/edge/config`.
pub(crate) async fn config(State(app): State<Shared>) -> Result<String, Refusal> {
    Ok(control(&app)?.config()?)
}

/// `PUT /api/edge/config`.
pub(crate) async fn change(
    State(app): State<Shared>,
    Query(options): Query<Options>,
    text: String,
) -> Answer {
    let is_dry_run = options.dry_run;
    let work = move |control: &Control| control.change_text(&text, is_dry_run);
    Ok(changes(may_change(&app)?.change_apart(is_dry_run, work).await?))
}

/// `POST /api/edge/backend`.
pub(crate) async fn weigh(
    State(app): State<Shared>,
    headers: HeaderMap,
    Json(wish): Json<WeightChange>,
) -> Answer {
    require_json(&headers)?;
    let work = move |control: &Control| control.set_weight(&wish);
    Ok(changes(may_change(&app)?.change_apart(false, work).await?))
}
