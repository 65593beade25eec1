//! What can be asked of an edge and told to it over HTTP: on its control socket all of it, on the page's port what holds no
//! secrets (`docs/api.md`).

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Control;
use crate::failure::Failure;
use crate::server::Refusal;

/// Bodies on the control socket: what was exported of many backends.
const BODY_BYTES_MAX: usize = 16 << 20;

/// What may follow `?` of a change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    /// Tell what would change, and change nothing.
    #[serde(default)]
    dry_run: bool,
}

/// The body of a change of a weight.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Weight {
    backend: String,
    weight: u32,
}

type Answer = Result<Json<Value>, Refusal>;

pub(super) fn router(control: Arc<Control>) -> Router {
    Router::new()
        .route("/api/edge", get(async |State(control): State<Arc<Control>>| state(&control)))
        .route("/api/edge/config", get(config_here).put(change_here))
        .route("/api/edge/backend", post(weigh_here))
        .route("/api/edge/export", get(export))
        .route("/api/edge/apply", post(apply))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(control)
}

/// Files are read and names looked up: not on a thread that serves.
async fn apart(
    control: &Arc<Control>,
    is_dry_run: bool,
    then: impl FnOnce(&Control) -> Result<Vec<String>, Failure> + Send + 'static,
) -> Answer {
    let control = Arc::clone(control);
    let changing = tokio::task::spawn_blocking(move || then(&control)).await;
    let changes = changing.map_err(|_| Failure::new("the change panicked"))??;
    if !changes.is_empty() && !is_dry_run {
        tracing::info!("the edge was asked for a change:\n{}", changes.join("\n"));
    }
    Ok(Json(json!({"changes": changes})))
}

/// `GET /api/edge`.
pub(crate) fn state(control: &Control) -> Answer {
    Ok(Json(control.state()?))
}

/// `GET /api/edge/config`: TOML.
pub(crate) fn config(control: &Control) -> Result<String, Refusal> {
    Ok(control.config()?)
}

/// `PUT /api/edge/config`.
pub(crate) async fn change(control: &Arc<Control>, options: &Options, text: String) -> Answer {
    let is_dry_run = options.dry_run;
    apart(control, is_dry_run, move |control| control.change_text(&text, is_dry_run)).await
}

/// `POST /api/edge/backend`.
pub(crate) async fn weigh(control: &Arc<Control>, asked: Weight) -> Answer {
    apart(control, false, move |control| control.set_weight(&asked.backend, asked.weight)).await
}

async fn config_here(State(control): State<Arc<Control>>) -> Result<String, Refusal> {
    config(&control)
}

async fn change_here(
    State(control): State<Arc<Control>>,
    Query(options): Query<Options>,
    text: String,
) -> Answer {
    change(&control, &options, text).await
}

async fn weigh_here(State(control): State<Arc<Control>>, Json(asked): Json<Weight>) -> Answer {
    weigh(&control, asked).await
}

async fn export(State(control): State<Arc<Control>>) -> Answer {
    Ok(Json(control.export()?))
}

async fn apply(
    State(control): State<Arc<Control>>,
    Query(options): Query<Options>,
    Json(export): Json<Value>,
) -> Answer {
    let is_dry_run = options.dry_run;
    apart(&control, is_dry_run, move |control| control.apply(&export, is_dry_run)).await
}
