//! One request to a backend and its answer back: choose, connect or reuse, send, and try elsewhere when that is safe.
//!
//! Safe means that the backend cannot have begun: nothing was sent, or the method may be repeated (RFC 9110 §9.2.2) and
//! there is no body. Retries beyond the budget are not made: a fleet that fails must not be asked twice as much.

pub(crate) mod body;
pub(crate) mod head_copy;
pub(crate) mod headers;
pub(crate) mod relay;
pub(crate) mod tunnel;

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode, request};
use http_body::Body;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use crate::client::proxy_header;
use crate::client::session::{ClientSession, OpenRecord};
use crate::pool::backend::{Backend, WaitGuard};
use crate::pool::{BackendSlot, NoBackend, Pool};
use crate::proxy::body::{BodyOutcome, RequestBody, ResponseBody};
use crate::proxy::head_copy::HeadCopy;
use crate::proxy::relay::{ActiveResponse, ResponseRelay};
use crate::record::{RequestFailure, UpstreamRecord};
use crate::settings::ProxyHeader;
use crate::settings::destination::Protocol;
use crate::time::now_ns;
use crate::upstream::Upstream;
use crate::upstream::response_deadlines::{DeadlineKey, WaitOutcome};
use crate::worker::{LiveConfig, Worker};

/// Most backends that one request is tried at.
const TRIES_MAX: u32 = 3;

/// How often a request in the queue looks for a place by itself.
const QUEUE_LOOK: Duration = Duration::from_millis(100);

/// A request until it has an answer.
pub(crate) struct Exchange {
    serving: Rc<ClientSession>,
    pool: Arc<Pool>,
    live: Rc<LiveConfig>,
    record: OpenRecord,
    /// Taken when it is sent; it comes back when that could not be done.
    parts: Option<request::Parts>,
    /// For a request that may be sent again, from its first try on.
    copy: Option<HeadCopy>,
    body: Option<RequestBody>,
    fate: Rc<BodyOutcome>,
    may_repeat: bool,
    on_upgrade: Option<OnUpgrade>,
    tried: Vec<Arc<Backend>>,
}

/// Why a try gave no answer.
struct AttemptError {
    failure: RequestFailure,
    /// Whether another backend may be asked.
    may_move: bool,
}

impl Exchange {
    /// A request to pass on.
    pub(crate) fn new(
        serving: Rc<ClientSession>,
        pool: Arc<Pool>,
        mut record: OpenRecord,
        request: Request<Incoming>,
    ) -> Self {
        let live = serving.worker.live();
        let (mut parts, body) = request.into_parts();
        let wants_upgrade = headers::wants_upgrade(&parts);
        let on_upgrade = if wants_upgrade { parts.extensions.remove::<OnUpgrade>() } else { None };
        let id = headers::given_request_id(&parts.headers).cloned();
        let id = id.unwrap_or_else(|| serving.worker.new_request_id());
        headers::prepare(&mut parts, &serving.conn, on_upgrade.is_some(), &id);
        record.request_id = Some(id);
        let fate = Rc::<BodyOutcome>::default();
        let has_body = !body.is_end_stream();
        let may_repeat = !has_body && parts.method.is_idempotent() && on_upgrade.is_none();
        let body = if has_body {
            let left = live.settings.limits.body_bytes;
            let (fate, serving) = (Rc::clone(&fate), Rc::clone(&serving));
            RequestBody::Stream { body, left, fate, serving }
        } else {
            RequestBody::Empty
        };
        let (parts, body) = (Some(parts), Some(body));
        Self {
            serving,
            pool,
            live,
            record,
            parts,
            copy: None,
            body,
            fate,
            may_repeat,
            on_upgrade,
            tried: Vec::new(),
        }
    }

    /// The answer is the backend's, or says why there is none.
    pub(crate) async fn run(&mut self) -> Response<ResponseBody> {
        // What came before this took no time to speak of: one look at the clock serves both.
        let mut now = self.record.head;
        loop {
            let (place, found) = match self.find_place(now).await {
                Ok(found) => found,
                Err(failure) => return self.give_up(failure),
            };
            let backend = Arc::clone(&place.backend);
            let miss = match self.attempt(place, found).await {
                Ok(sent) => return self.relay(sent),
                Err(miss) => miss,
            };
            now = now_ns();
            let tries = self.record.upstream.as_ref().map_or(0, |upstream| upstream.tries);
            let is_whole = self.parts.is_some() || self.copy.is_some();
            if !miss.may_move || !is_whole || tries >= TRIES_MAX || !self.pool.may_retry() {
                return self.give_up(miss.failure);
            }
            backend.totals.retries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.tried.push(backend);
        }
    }

    /// A place at a backend, and when it was found; waits in the queue while all are full.
    async fn find_place(&mut self, began: u64) -> Result<(BackendSlot, u64), RequestFailure> {
        let pool = Arc::clone(&self.pool);
        let (mut queued, mut now) = (None, began);
        loop {
            let (random, client) = (self.serving.worker.random(), self.serving.conn.client.ip());
            match pool.choose(now, random, client, &self.tried) {
                Ok(place) => {
                    if queued.is_some() {
                        self.record.queue_ns += now - began;
                    }
                    return Ok((place, now));
                }
                // The only backend there is may be asked again: its connection was old, perhaps.
                Err(NoBackend::None) if !self.tried.is_empty() => self.tried.clear(),
                Err(NoBackend::None) => return Err(RequestFailure::NoBackend),
                Err(NoBackend::Full) => {
                    if queued.is_none() {
                        queued = Some(pool.join_queue().map_err(|_| RequestFailure::QueueFull)?);
                    }
                    let Some(queue) = &queued else { continue };
                    let left =
                        pool.settings.queue_wait.saturating_sub(Duration::from_nanos(now - began));
                    // Looked at again in between: a place of the configuration before this one tells nobody here.
                    let _ = tokio::time::timeout(left.min(QUEUE_LOOK), queue.room()).await;
                    now = now_ns();
                    if left.is_zero() {
                        self.record.queue_ns += now - began;
                        return Err(RequestFailure::QueueTimeout);
                    }
                }
            }
        }
    }

    /// One try at one backend.
    async fn attempt(
        &mut self,
        place: BackendSlot,
        now: u64,
    ) -> Result<ResponseHead, AttemptError> {
        let backend = &place.backend;
        self.begin_try(backend, now);
        let may_rest = self.pool.settings.proxy_header == ProxyHeader::Off;
        let rested = || self.serving.worker.rested(backend, now, &self.pool.settings);
        let reused = if may_rest { rested() } else { None };
        let is_reused = reused.is_some();
        let mut upstream = match reused {
            Some(upstream) => upstream,
            None if backend.protocol.is_h2() && may_rest => self.join(backend, now).await?,
            None => self.connect(backend, now).await?,
        };
        upstream.requests += 1;
        let may_move = self.may_repeat;
        let wait = self.serving.worker.waits.add(backend.address, now, may_move);
        let waiting = WaitGuard::new(backend, now);
        let result = send(&mut upstream, self.message(backend.protocol), &wait).await;
        drop(waiting);
        let now = now_ns();
        match result {
            Ok(response) => {
                backend.answered(now, now.saturating_sub(self.try_started()));
                self.pool.answered();
                wait.touch(now);
                Ok(ResponseHead { response, upstream, place, wait, now })
            }
            Err(lost) => Err(self.judge(lost, backend, is_reused)),
        }
    }

    /// Notes the try in the record.
    fn begin_try(&mut self, backend: &Arc<Backend>, now: u64) {
        let before = self.record.upstream.take();
        self.record.upstream = Some(UpstreamRecord {
            backend: Arc::clone(backend),
            tries: before.as_ref().map_or(0, |one| one.tries) + 1,
            status: None,
            started: now,
            connect_ns: before.as_ref().map_or(0, |one| one.connect_ns),
            header_ns: None,
            response_ns: None,
            before_ns: before.as_ref().map_or(0, |one| one.before_ns + now - one.started),
        });
    }

    fn try_started(&self) -> u64 {
        self.record.upstream.as_ref().map_or(0, |upstream| upstream.started)
    }

    /// A place on a connection that others share. One of those that need it makes it.
    async fn join(
        &mut self,
        backend: &Arc<Backend>,
        began: u64,
    ) -> Result<Box<Upstream>, AttemptError> {
        let worker = Rc::clone(&self.serving.worker);
        while let Some(awaited) = worker.awaited(backend.address) {
            awaited.made.notified().await;
            let now = now_ns();
            if let Some(upstream) = worker.rested(backend, now, &self.pool.settings) {
                if let Some(record) = &mut self.record.upstream {
                    record.connect_ns += now - began;
                }
                return Ok(upstream);
            }
            // Where one could not be made the others try at once, not one after the other.
            if !awaited.is_good.get() {
                return self.connect(backend, now).await.inspect(|made| worker.share(made));
            }
        }
        let _making = ConnectGuard(&worker, backend);
        let upstream = self.connect(backend, began).await?;
        worker.share(&upstream);
        Ok(upstream)
    }

    async fn connect(
        &mut self,
        backend: &Arc<Backend>,
        began: u64,
    ) -> Result<Box<Upstream>, AttemptError> {
        let settings = &self.pool.settings;
        let conn = &self.serving.conn;
        let preface =
            proxy_header::write(settings.proxy_header, conn.client, conn.listener.address);
        let limits = &self.live.settings.limits;
        let result = Upstream::connect(backend, &self.pool, limits, preface).await;
        let now = now_ns();
        if let Some(upstream) = &mut self.record.upstream {
            upstream.connect_ns += now - began;
        }
        result.map_err(|(failure, text)| {
            if backend.failed(now, settings) {
                tracing::warn!("backend `{}` is out: {text}", backend.name);
            }
            AttemptError { failure, may_move: true }
        })
    }

    /// The request to send.
    fn message(&mut self, protocol: Protocol) -> Request<RequestBody> {
        let parts = self.parts.take().or_else(|| self.copy.as_ref().map(HeadCopy::parts));
        let mut parts = parts.expect("a request is sent again when it came back or was copied");
        if self.may_repeat && self.copy.is_none() {
            self.copy = Some(HeadCopy::of(&parts));
        }
        let body = self.body.take().unwrap_or(RequestBody::Empty);
        headers::address(&mut parts, protocol);
        Request::from_parts(parts, body)
    }

    /// What a try that gave no answer means for the backend and for the request.
    fn judge(&mut self, lost: SendError, backend: &Arc<Backend>, is_reused: bool) -> AttemptError {
        let SendError { mut failure, message } = lost;
        let is_unsent = message.is_some();
        if let Some(message) = message
            && self.copy.is_none()
        {
            let (parts, body) = message.into_parts();
            (self.parts, self.body) = (Some(parts), Some(body));
        }
        if let Some(own) = self.fate.failure.get() {
            return AttemptError { failure: own, may_move: false };
        }
        // An old connection that ends says nothing about the backend; nor does a stall twice.
        let is_stale = is_reused && failure == RequestFailure::EmptyAnswer;
        let settings = &self.pool.settings;
        if !is_stale
            && failure != RequestFailure::BackendStalled
            && backend.failed(now_ns(), settings)
        {
            tracing::warn!("backend `{}` is out: {}", backend.name, failure.as_str());
        }
        if is_unsent {
            failure = RequestFailure::EmptyAnswer;
        }
        let is_over =
            matches!(failure, RequestFailure::ResponseTimeout | RequestFailure::InvalidAnswer);
        AttemptError { failure, may_move: is_unsent || self.may_repeat && !is_over }
    }

    /// The edge's own answer.
    fn give_up(&mut self, failure: RequestFailure) -> Response<ResponseBody> {
        self.record.failure = Some(failure);
        own_answer(self.record.take(), status_of(failure), failure.as_str())
    }

    /// The backend's answer.
    fn relay(&mut self, sent: ResponseHead) -> Response<ResponseBody> {
        let ResponseHead { response, upstream, place, wait, now } = sent;
        let (mut parts, body) = response.into_parts();
        let status = parts.status;
        if let Some(upstream) = &mut self.record.upstream {
            upstream.status = Some(status.as_u16());
            upstream.header_ns = Some(now.saturating_sub(upstream.started));
        }
        self.record.status = status.as_u16();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            let (record, serving) = (self.record.take(), Rc::clone(&self.serving));
            return tunnel::switch(
                parts,
                *upstream,
                place,
                record,
                serving,
                self.on_upgrade.take(),
            );
        }
        let timeout = parts.headers.get(headers::KEEP_ALIVE).and_then(headers::keep_alive_timeout);
        if let Some(seconds) = timeout {
            place.backend.learn_idle(seconds.saturating_mul(1_000_000_000));
        }
        headers::strip_hop_by_hop(&mut parts.headers);
        if self.live.settings.beacon.is_some() {
            headers::tell_id(&mut parts.headers, self.record.request_id.as_ref());
        }
        let may_rest = self.pool.settings.proxy_header == ProxyHeader::Off;
        let record = self.record.take();
        let under_way = ActiveResponse { upstream, place, wait, record, may_rest };
        let serving = Rc::clone(&self.serving);
        let mut relay = ResponseRelay { body, under_way: Some(under_way), serving, error: None };
        if relay.is_end_stream() {
            relay.complete();
            return Response::from_parts(parts, ResponseBody::Own(None));
        }
        Response::from_parts(parts, ResponseBody::Relayed(Box::new(relay)))
    }
}

/// Making a connection that others wait for; dropping it ends that.
struct ConnectGuard<'a>(&'a Worker, &'a Backend);

impl Drop for ConnectGuard<'_> {
    fn drop(&mut self) {
        self.0.made(self.1.address);
    }
}

/// An answer's head, and all that its body needs.
struct ResponseHead {
    response: Response<Incoming>,
    upstream: Box<Upstream>,
    place: BackendSlot,
    wait: DeadlineKey,
    now: u64,
}

/// Why there is no answer's head; the request when it was not sent.
struct SendError {
    failure: RequestFailure,
    message: Option<Request<RequestBody>>,
}

/// Sends a request and moves its bytes until the head of the answer is there.
async fn send(
    upstream: &mut Upstream,
    request: Request<RequestBody>,
    wait: &DeadlineKey,
) -> Result<Response<Incoming>, SendError> {
    let mut sending = pin!(upstream.send(request));
    std::future::poll_fn(|cx| {
        let is_over = upstream.drive(cx);
        let lost = |failure| Poll::Ready(Err(SendError { failure, message: None }));
        match sending.as_mut().poll(cx) {
            Poll::Ready(Ok(response)) => Poll::Ready(Ok(response)),
            Poll::Ready(Err(mut error)) => {
                let message = error.take_message();
                let is_invalid = error.error().is_parse() || error.error().is_parse_too_large();
                let failure = if is_invalid {
                    RequestFailure::InvalidAnswer
                } else {
                    RequestFailure::EmptyAnswer
                };
                Poll::Ready(Err(SendError { failure, message }))
            }
            Poll::Pending if is_over => lost(RequestFailure::EmptyAnswer),
            Poll::Pending => match wait.poll(cx) {
                WaitOutcome::Waiting => Poll::Pending,
                WaitOutcome::TimedOut => lost(RequestFailure::ResponseTimeout),
                WaitOutcome::Stalled => lost(RequestFailure::BackendStalled),
            },
        }
    })
    .await
}

fn status_of(failure: RequestFailure) -> StatusCode {
    match failure {
        RequestFailure::NoBackend | RequestFailure::QueueFull | RequestFailure::QueueTimeout => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        RequestFailure::ResponseTimeout | RequestFailure::ConnectTimeout => {
            StatusCode::GATEWAY_TIMEOUT
        }
        RequestFailure::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        RequestFailure::BadRequest | RequestFailure::ClientClosed => StatusCode::BAD_REQUEST,
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// A short text for a person, and the record's end.
pub(crate) fn own_answer(
    record: OpenRecord,
    status: StatusCode,
    why: &str,
) -> Response<ResponseBody> {
    text_answer(record, status, format!("{} {why}\n", status.as_u16()).into())
}

/// A text as it is, and the record's end.
pub(crate) fn text_answer(
    mut record: OpenRecord,
    status: StatusCode,
    text: Bytes,
) -> Response<ResponseBody> {
    record.status = status.as_u16();
    record.body_bytes = text.len() as u64;
    let mut response = Response::new(ResponseBody::Own(Some(text.clone())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    record.finish();
    response
}
