//! Handles a request: checks it, then takes it as a beacon or proxies it.
//!
//! Responses that need no waiting bypass the boxed future: hyper moves each future into place, and
//! one that can wait for a backend is large.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;

use crate::beacon;
use crate::client::h2_stream::StreamState;
use crate::client::session::{ClientSession, OpenRecord};
use crate::client::state::SweepVerdict;
use crate::live::LiveConfig;
use crate::proxy::Exchange;
use crate::proxy::headers;
use crate::proxy::own_response::{own_response, text_response};
use crate::proxy::response_body::ResponseBody;
use crate::record::RequestFailure;

pub(crate) enum ResponseFuture {
    /// `None` after the response was taken.
    Ready(Option<Response<ResponseBody>>),
    Pending(Pin<Box<dyn Future<Output = Response<ResponseBody>>>>),
}

impl Future for ResponseFuture {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Ready(response) => {
                Poll::Ready(Ok(response.take().expect("a ready future is polled once")))
            }
            Self::Pending(response) => response.as_mut().poll(cx).map(Ok),
        }
    }
}

/// `stream` is the request's stream in HTTP/2.
pub(crate) fn handle(
    session: &Rc<ClientSession>,
    request: Request<Incoming>,
    stream: Option<Rc<StreamState>>,
) -> ResponseFuture {
    let (mut parts, body) = request.into_parts();
    if session.conn.take_whole_server() {
        headers::set_whole_server(&mut parts);
    }
    session.conn.set_body_left(!body.is_end_stream());
    let record = session.begin(&parts, stream);
    let live = session.worker.live();
    let is_last = session.requests() >= live.settings.limits.connection_requests
        || session.worker.shared.is_ending.load(Relaxed);
    let closes = is_last && parts.version != Version::HTTP_2;
    if session.conn.is_h2 && session.requests() == live.settings.limits.connection_requests {
        session.conn.set_verdict(SweepVerdict::Close);
    }
    if let Err(rejected) = check(&parts, session, &live) {
        // Whatever sent it may mean the rest of the connection in another way, too.
        return ready(reject(record, rejected), parts.version != Version::HTTP_2);
    }
    // hyper would skip a body that nothing reads, with whatever its trailers hide.
    let closes_unread = closes || parts.version != Version::HTTP_2 && session.conn.is_body_left();
    if let Some(proof) = session.worker.shared.challenges.http(parts.uri.path()) {
        return ready(text_response(record, StatusCode::OK, proof.into()), closes_unread);
    }
    if is_beacon(live.settings.beacon.as_deref(), parts.uri.path()) {
        if parts.method != Method::POST {
            return ready(beacon::answer(session, record, parts), closes_unread);
        }
        let session = Rc::clone(session);
        let response = async move {
            let response = beacon::answer_post(&session, record, parts, body).await;
            finished(response, closes || session.conn.is_last())
        };
        return ResponseFuture::Pending(Box::pin(response));
    }
    if headers::is_for_edge(&parts) {
        return ready(answer_for_edge(record, &parts.method), closes_unread);
    }
    let Some(pool) = live.pool(&parts).map(Arc::clone) else {
        let response =
            own_response(record, StatusCode::NOT_FOUND, "no backend for this host and path");
        return ready(response, closes_unread);
    };
    let request = Request::from_parts(parts, body);
    let mut exchange = Exchange::new(Rc::clone(session), pool, record, request);
    ResponseFuture::Pending(Box::pin(async move {
        let response = exchange.run().await;
        let closes = closes || exchange.breaks_upload(response.status());
        finished(response, closes)
    }))
}

/// Answers a request with `Max-Forwards: 0`. TRACE is refused: a reflected request may hold secrets.
fn answer_for_edge(record: OpenRecord, method: &Method) -> Response<ResponseBody> {
    if *method == Method::TRACE {
        return own_response(record, StatusCode::NOT_IMPLEMENTED, "TRACE is not supported");
    }
    text_response(record, StatusCode::OK, Bytes::new())
}

fn ready(response: Response<ResponseBody>, closes: bool) -> ResponseFuture {
    ResponseFuture::Ready(Some(finished(response, closes)))
}

/// Why a request is rejected.
struct RejectedRequest {
    failure: RequestFailure,
    status: StatusCode,
    /// The text that the client receives.
    why: &'static str,
}

fn check(
    parts: &http::request::Parts,
    session: &ClientSession,
    live: &LiveConfig,
) -> Result<(), RejectedRequest> {
    headers::check(parts, &session.conn).map_err(|why| RejectedRequest {
        failure: RequestFailure::BadRequest,
        status: StatusCode::BAD_REQUEST,
        why,
    })?;
    let is_beacon = is_beacon(live.settings.beacon.as_deref(), parts.uri.path());
    if session.conn.is_h2 && headers::count_fields(parts) > live.settings.limits.headers {
        let failure = RequestFailure::BadRequest;
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Err(RejectedRequest { failure, status, why: "too many header fields" });
    }
    let limit = live.settings.limits.body_bytes;
    if !is_beacon && content_length(&parts.headers).is_some_and(|bytes| bytes > limit) {
        let failure = RequestFailure::BodyTooLarge;
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        return Err(RejectedRequest { failure, status, why: failure.as_str() });
    }
    Ok(())
}

fn reject(mut record: OpenRecord, rejected: RejectedRequest) -> Response<ResponseBody> {
    record.failure = Some(rejected.failure);
    own_response(record, rejected.status, rejected.why)
}

/// Announces the end of the connection in its last response.
fn finished(mut response: Response<ResponseBody>, closes: bool) -> Response<ResponseBody> {
    if closes && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether a request is for the beacon path or the script below it.
fn is_beacon(beacon: Option<&str>, path: &str) -> bool {
    beacon.is_some_and(|beacon| {
        path.strip_prefix(beacon).is_some_and(|rest| rest.is_empty() || rest == "/weir.js")
    })
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
