//! `GET /api/slos`: budget left and burn rates of every SLO.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::SharedApp;
use super::answer::Refusal;
use crate::slos::report;

/// `GET /api/slos`.
pub(crate) async fn list(State(app): State<SharedApp>) -> Result<Json<Value>, Refusal> {
    let mut slos = Vec::new();
    for slo in &app.slos {
        let _turn = app.turn().await?;
        slos.push(report(&app.store, slo, app.clock.now()).await?);
    }
    Ok(Json(json!({ "slos": slos })))
}
