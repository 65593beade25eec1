//! `POST /api/wire`: a capture, understood as `weir wire` does it. Nothing is stored unless
//! `keep=true` asks for it.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use weir_process::time_args::parse_width;
use weir_tables::{Parcel, StreamId, StreamRange};
use weir_wire::RowOrigin;

use super::SharedApp;
use super::answer::Refusal;
use crate::wire::{UploadRequest, fingerprint, upload};

/// The type of the body: one that a page of another site cannot send without asking first.
const CAPTURE_TYPE: &str = "application/octet-stream";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaptureQuery {
    /// The file's name, for messages and for the column `source`.
    #[serde(default)]
    name: Option<String>,
    /// Width of a slice: 100ms, 1s.
    #[serde(default)]
    slice: Option<String>,
    /// Whether its rows are kept.
    #[serde(default)]
    keep: bool,
}

/// `POST /api/wire?name=web.pcap&slice=1s&keep=false`.
pub(crate) async fn post(
    State(app): State<SharedApp>,
    Query(asked): Query<CaptureQuery>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Refusal> {
    if headers.get(header::CONTENT_TYPE).is_none_or(|kind| kind != CAPTURE_TYPE) {
        let message = format!("the body must be {CAPTURE_TYPE}");
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let slice = asked.slice.as_deref().unwrap_or("1s");
    let slice_ns = parse_width(slice).map_err(|why| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("cannot use slice `{slice}`: {why}"))
    })?;
    let name = asked.name.unwrap_or_else(|| "capture".to_owned());
    let name: String = name.chars().filter(|c| !c.is_control()).take(200).collect();
    let keep_as = asked.keep.then(|| RowOrigin {
        host: app.host.clone(),
        source: name.clone(),
        observed: app.clock.now(),
    });
    let limit = app.query_limits.timeout.min(Duration::from_secs(60));
    // Reading keeps a core busy, so at most as many as queries at a time.
    let turn = app.turn().await?;
    let question = UploadRequest { name, slice_ns, limit, keep_as };
    let work = tokio::task::spawn_blocking(move || {
        // The same capture, cut into the same slices, is the same stream: kept twice, it is there
        // once.
        let half = |seed| u128::from(fingerprint(&body, seed + slice_ns.cast_unsigned()));
        let stream = if question.keep_as.is_some() { half(1) << 64 | half(2) } else { 0 };
        (StreamId(stream), upload(body, question))
    });
    let (stream, found) = work.await.map_err(|_| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "a packet broke the reader")
    })?;
    drop(turn);
    let answer = found.map_err(|failure| {
        let (message, hint) = failure.into_parts();
        let refusal = Refusal::new(StatusCode::BAD_REQUEST, message);
        hint.into_iter().fold(refusal, Refusal::hint)
    })?;
    let mut object = answer.object;
    let mut kept = 0;
    for (from, batches) in (0_u64..).zip(answer.parcels) {
        let range = Some(StreamRange { stream, from, to: from + 1 });
        kept += app.store.append(Parcel { range, batches }).await?.rows;
    }
    object["kept_rows"] = kept.into();
    Ok(Json(object))
}
