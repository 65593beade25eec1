//! `POST /api/sql/forecast`: what a query will read, in files, bytes, requests and money, before it
//! runs.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_store::{Forecast, Query, ReadEstimate};

use super::SharedApp;
use super::answer::Refusal;
use super::sql::read_json;

/// The body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForecastRequest {
    sql: String,
}

/// `POST /api/sql/forecast`.
pub(crate) async fn post(
    State(app): State<SharedApp>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    let example = r#"{"sql": "select count(*) from request"}"#;
    let request: ForecastRequest = read_json(&headers, &body, example)?;
    let _turn = app.turn().await?;
    let query = Query::new(&request.sql).limits(app.query_limits);
    let forecast = app.store.query(query).forecast().await?;
    Ok(Json(told(&forecast)))
}

fn told(forecast: &Forecast) -> Value {
    let mut tiers = vec![place("fast", None, &forecast.fast, None)];
    if let Some(at) = &forecast.slow_place {
        tiers.push(place("slow", Some(at), &forecast.slow, forecast.slow_usd));
    }
    json!({"text": forecast.to_string(), "tiers": tiers})
}

fn place(name: &str, at: Option<&str>, reading: &ReadEstimate, usd: Option<f64>) -> Value {
    json!({
        "tier": name, "place": at,
        "files": reading.files, "bytes": reading.bytes, "reads": reading.reads, "usd": usd,
    })
}
