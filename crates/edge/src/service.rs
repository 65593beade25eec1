//! What happens to a request: it is checked, then a beacon, or passed on.

use std::convert::Infallible;
use std::rc::Rc;

use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;

use crate::beacon;
use crate::body::Answer;
use crate::headers;
use crate::proxy::{own_answer, proxy};
use crate::record::Failure;
use crate::serving::{OpenRecord, Serving};

/// Answers one request.
pub(crate) async fn handle(
    serving: Rc<Serving>,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    let (parts, body) = request.into_parts();
    let mut record = serving.begin(&parts);
    let live = serving.worker.live();
    let settings = &live.settings;
    let is_last = serving.requests() >= settings.limits.connection_requests
        || serving.worker.shared.is_ending.load(std::sync::atomic::Ordering::Relaxed);
    let version = parts.version;
    let mut response = if let Err(why) = headers::check(&parts) {
        record.failure = Some(Failure::BadRequest);
        own_answer(record, StatusCode::BAD_REQUEST, why)
    } else if is_beacon(settings.beacon.as_deref(), parts.uri.path()) {
        beacon::answer(&serving, record, &parts, body).await
    } else if length(&parts.headers).is_some_and(|bytes| bytes > settings.limits.body_bytes) {
        record.failure = Some(Failure::BodyTooLarge);
        own_answer(record, StatusCode::PAYLOAD_TOO_LARGE, Failure::BodyTooLarge.as_str())
    } else if live.pool.backends.is_empty() {
        not_found(record)
    } else {
        proxy(Rc::clone(&serving), record, Request::from_parts(parts, body)).await
    };
    if is_last && version != Version::HTTP_2 && response.status() != StatusCode::SWITCHING_PROTOCOLS
    {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// The path itself, and the script beside it.
fn is_beacon(beacon: Option<&str>, path: &str) -> bool {
    beacon.is_some_and(|beacon| {
        path == beacon || path.strip_prefix(beacon).is_some_and(|rest| rest == "/weir.js")
    })
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn not_found(record: OpenRecord) -> Response<Answer> {
    own_answer(record, StatusCode::NOT_FOUND, "there is only a beacon here")
}
