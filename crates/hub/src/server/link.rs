//! `/api/link/*`: where agents' streams stand, and parcels from agents. `200` means durable.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use weir_agent_core::parcel_link::{PARCEL_TYPE, parse_stream};
use weir_tables::StreamId;

use super::SharedApp;
use super::answer::Refusal;
use super::sql::require_json;
use crate::fleet::speakers::check_tables;

/// Streams that one request may ask for.
const MAX_STREAMS: usize = 10_000;

#[derive(Deserialize)]
struct PositionsRequest {
    streams: Vec<String>,
}

/// `POST /api/link/positions`.
pub(crate) async fn positions(
    State(app): State<SharedApp>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    require_json(&headers)?;
    let asked: PositionsRequest = serde_json::from_slice(&body)
        .map_err(|error| bad(format!("cannot read the body: {error}")))?;
    if asked.streams.len() > MAX_STREAMS {
        return Err(bad(format!("cannot answer for more than {MAX_STREAMS} streams at once")));
    }
    let streams: Vec<StreamId> = asked
        .streams
        .iter()
        .map(|text| parse_stream(text).ok_or_else(|| bad(format!("`{text}` is not a stream"))))
        .collect::<Result<_, _>>()?;
    let positions: Map<String, Value> = app
        .store
        .positions_of_all(&streams)
        .await?
        .into_iter()
        .map(|(stream, position)| (stream.to_string(), position.into()))
        .collect();
    Ok(Json(json!({"positions": positions})))
}

fn bad(why: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, why)
}

/// `POST /api/link/parcel`.
pub(crate) async fn parcel(
    State(app): State<SharedApp>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    if headers.get(header::CONTENT_TYPE).is_none_or(|kind| kind != PARCEL_TYPE) {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("the body must be {PARCEL_TYPE}"),
        ));
    }
    let appended = app.store.append_checked(body.to_vec(), check_tables).await?;
    Ok(Json(json!({"rows": appended.rows, "position": appended.position})))
}
