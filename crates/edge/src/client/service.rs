//! What happens to a request: it is checked, then a beacon, or passed on.
//!
//! What can be answered at once is answered without a future of its own: hyper moves each future into its place, and one
//! that could wait for a backend is large.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;

use crate::beacon;
use crate::client::session::{ClientSession, OpenRecord};
use crate::proxy::body::ResponseBody;
use crate::proxy::headers;
use crate::proxy::{Exchange, own_answer, text_answer};
use crate::record::RequestFailure;
use crate::worker::LiveConfig;

/// An answer that is there, or under way.
pub(crate) enum ResponseFuture {
    /// `None` once it was taken.
    Now(Option<Response<ResponseBody>>),
    Later(Pin<Box<dyn Future<Output = Response<ResponseBody>>>>),
}

impl Future for ResponseFuture {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(response) => {
                Poll::Ready(Ok(response.take().expect("a future that is ready is polled once")))
            }
            Self::Later(response) => response.as_mut().poll(cx).map(Ok),
        }
    }
}

/// Answers one request.
pub(crate) fn handle(serving: &Rc<ClientSession>, request: Request<Incoming>) -> ResponseFuture {
    let (parts, body) = request.into_parts();
    let record = serving.begin(&parts);
    let live = serving.worker.live();
    let is_last = serving.requests() >= live.settings.limits.connection_requests
        || serving.worker.shared.is_ending.load(Relaxed);
    let closes = is_last && parts.version != Version::HTTP_2;
    let now = |response| ResponseFuture::Now(Some(finished(response, closes)));
    if let Err((failure, status, why)) = check(&parts, &live) {
        return now(refuse(record, failure, status, why));
    }
    if let Some(proof) = serving.worker.shared.acme.challenges.http(parts.uri.path()) {
        return now(text_answer(record, StatusCode::OK, proof.into()));
    }
    if is_beacon(live.settings.beacon.as_deref(), parts.uri.path()) {
        if parts.method != Method::POST {
            return now(beacon::answer(serving, record, parts));
        }
        let serving = Rc::clone(serving);
        let answer = async move {
            finished(beacon::answer_post(&serving, record, parts, body).await, closes)
        };
        return ResponseFuture::Later(Box::pin(answer));
    }
    let Some(pool) = live.pool(&parts).map(Arc::clone) else {
        return now(own_answer(record, StatusCode::NOT_FOUND, "no backend is for this"));
    };
    let request = Request::from_parts(parts, body);
    let mut exchange = Exchange::new(Rc::clone(serving), pool, record, request);
    ResponseFuture::Later(Box::pin(async move { finished(exchange.run().await, closes) }))
}

/// Why a request is refused: the row's reason, the status, and what the client is told.
type RejectedRequest = (RequestFailure, StatusCode, &'static str);

fn check(parts: &http::request::Parts, live: &LiveConfig) -> Result<(), RejectedRequest> {
    headers::check(parts)
        .map_err(|why| (RequestFailure::BadRequest, StatusCode::BAD_REQUEST, why))?;
    let is_beacon = is_beacon(live.settings.beacon.as_deref(), parts.uri.path());
    let limit = live.settings.limits.body_bytes;
    if !is_beacon && length(&parts.headers).is_some_and(|bytes| bytes > limit) {
        let failure = RequestFailure::BodyTooLarge;
        return Err((failure, StatusCode::PAYLOAD_TOO_LARGE, failure.as_str()));
    }
    Ok(())
}

fn refuse(
    mut record: OpenRecord,
    failure: RequestFailure,
    status: StatusCode,
    why: &str,
) -> Response<ResponseBody> {
    record.failure = Some(failure);
    own_answer(record, status, why)
}

/// The last answer of a connection says so.
fn finished(mut response: Response<ResponseBody>, closes: bool) -> Response<ResponseBody> {
    if closes && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The path itself, and the script beside it.
fn is_beacon(beacon: Option<&str>, path: &str) -> bool {
    beacon.is_some_and(|beacon| {
        path.strip_prefix(beacon).is_some_and(|rest| rest.is_empty() || rest == "/weir.js")
    })
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
