//! `/api/edge`: the edge of this process.

use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_agent_core::edge::{EdgeControl, WeightChange};

use super::answer::Refusal;
use super::guard::Grant;
use super::sql::require_json;
use super::{App, SharedApp};

type JsonAnswer = Result<Json<Value>, Refusal>;

/// What may follow `?` of a change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeOptions {
    /// Report what would change, and change nothing.
    #[serde(default)]
    dry_run: bool,
}

fn changes(lines: Vec<String>) -> Json<Value> {
    Json(json!({"changes": lines}))
}

fn control(app: &App) -> Result<&Arc<EdgeControl>, Refusal> {
    app.edge.get().ok_or_else(|| {
        Refusal::new(StatusCode::NOT_FOUND, "no edge runs in this weir")
            .hint("edges that send here show in `edge_backend`; `weir edge change` on their hosts changes them")
    })
}

/// `GET /api/edge`; without an edge `is_here` is false.
pub(crate) async fn state(
    State(app): State<SharedApp>,
    Extension(grant): Extension<Grant>,
) -> JsonAnswer {
    if app.edge.get().is_none() {
        return Ok(Json(json!({"is_here": false})));
    }
    let mut state = control(&app)?.state()?;
    state["is_here"] = json!(true);
    state["may_change"] = json!(grant.may_change);
    Ok(Json(state))
}

/// `GET /api/edge/config`.
pub(crate) async fn config(State(app): State<SharedApp>) -> Result<String, Refusal> {
    Ok(control(&app)?.config()?)
}

/// `PUT /api/edge/config`.
pub(crate) async fn change(
    State(app): State<SharedApp>,
    Query(options): Query<ChangeOptions>,
    text: String,
) -> JsonAnswer {
    let is_dry_run = options.dry_run;
    Ok(changes(
        control(&app)?
            .change_apart(is_dry_run, move |control: &EdgeControl| {
                control.change_text(&text, is_dry_run)
            })
            .await?,
    ))
}

/// `POST /api/edge/backend`.
pub(crate) async fn weigh(
    State(app): State<SharedApp>,
    headers: HeaderMap,
    Json(wish): Json<WeightChange>,
) -> JsonAnswer {
    require_json(&headers)?;
    Ok(changes(
        control(&app)?
            .change_apart(false, move |control: &EdgeControl| control.set_weight(&wish))
            .await?,
    ))
}
