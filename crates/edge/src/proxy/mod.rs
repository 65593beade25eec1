//! Proxies one request: choose a backend, connect or reuse, send, and retry elsewhere if that is
//! safe.
//!
//! A retry is safe if the backend cannot have begun: nothing was sent, or the method is safe (RFC
//! 9110 §9.2.1) and there is no body. Retries have a budget: a fleet that fails must not receive
//! twice the load.
//!
//! ```text
//!   find_slot ──► attempt ──► response head ──► relay (body) ──► row
//!       ▲            └─ AttemptError: may move, budget left? ─ no ─► own response ──► row
//!       └───────────────────── yes ───────┘
//! ```

pub(crate) mod continue_gate;
pub(crate) mod head_copy;
pub(crate) mod headers;
pub(crate) mod host_name;
pub(crate) mod own_response;
pub(crate) mod relay;
pub(crate) mod request_body;
pub(crate) mod response_body;
pub(crate) mod tunnel;

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Version, request};
use http_body::Body;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use crate::client::proxy_header;
use crate::client::session::{ClientSession, OpenRecord};
use crate::live::LiveConfig;
use crate::pool::backend::Backend;
use crate::pool::route_times::RouteKey;
use crate::pool::{BackendSlot, NoBackend, Pool};
use crate::proxy::continue_gate::ContinueGate;
use crate::proxy::head_copy::HeadCopy;
use crate::proxy::headers::ForwardedRequest;
use crate::proxy::own_response::own_response;
use crate::proxy::relay::{ActiveResponse, ResponseRelay};
use crate::proxy::request_body::{BodyOutcome, RequestBody, set_body_wanted};
use crate::proxy::response_body::ResponseBody;
use crate::record::{RequestFailure, UpstreamRecord};
use crate::settings::ProxyHeader;
use crate::time::{MonoTime, Nanos};
use crate::upstream::Upstream;
use crate::upstream::response_deadlines::{DeadlineKey, ResponseWait, WaitOutcome};
use crate::worker::Worker;

/// Backends that one request is tried at, at most.
const TRIES_MAX: u32 = 3;
/// How often a queued request checks for a free slot without a notification.
const QUEUE_POLL: Duration = Duration::from_millis(100);

/// A request until its response head has arrived.
pub(crate) struct Exchange {
    session: Rc<ClientSession>,
    pool: Arc<Pool>,
    live: Rc<LiveConfig>,
    record: OpenRecord,
    /// Taken when the request is sent; returned when sending fails.
    parts: Option<request::Parts>,
    /// A copy of the head if the request may be repeated, made at the first attempt.
    copy: Option<HeadCopy>,
    body: Option<RequestBody>,
    body_outcome: Rc<BodyOutcome>,
    has_body: bool,
    /// Holds the body back until the backend sends 100.
    gate: Option<Arc<ContinueGate>>,
    may_repeat: bool,
    on_upgrade: Option<OnUpgrade>,
    /// Whether this is a WebSocket over HTTP/2.
    is_connect: bool,
    route: RouteKey,
    tried: Vec<Arc<Backend>>,
    /// Whether the next attempt opens a connection, because a pooled one was stale.
    needs_fresh: bool,
}

/// Why an attempt produced no response head.
struct AttemptError {
    failure: RequestFailure,
    /// Whether another backend may be tried.
    may_move: bool,
}

impl Exchange {
    pub(crate) fn new(
        session: Rc<ClientSession>,
        pool: Arc<Pool>,
        mut record: OpenRecord,
        request: Request<Incoming>,
    ) -> Self {
        let live = session.worker.live();
        let (mut parts, body) = request.into_parts();
        let is_connect = headers::is_websocket_connect(&parts);
        if is_connect {
            headers::translate_connect(&mut parts, tunnel::websocket_key(&session.worker));
        }
        // What a backend reads behind a body that is not over is neither a request nor a message.
        let wants_upgrade =
            is_connect || (headers::wants_websocket(&parts) && body.is_end_stream());
        let on_upgrade = if wants_upgrade { parts.extensions.remove::<OnUpgrade>() } else { None };
        let id = headers::given_request_id(&parts.headers).cloned();
        let id = id.unwrap_or_else(|| session.worker.new_request_id());
        let has_body = !body.is_end_stream();
        let gate = continue_gate::of(&mut parts, has_body);
        let request = ForwardedRequest {
            conn: &session.conn,
            client: record.client.as_deref(),
            is_websocket: on_upgrade.is_some(),
            request_id: &id,
        };
        headers::prepare(&mut parts, request);
        record.request_id = Some(id);
        let body_outcome = Rc::<BodyOutcome>::default();
        let body = if has_body {
            let left = live.settings.limits.body_bytes;
            let end = body_end(&parts.headers, record.head, pool.body_time);
            let (outcome, conn) = (Rc::clone(&body_outcome), Arc::clone(&session.conn));
            let (stream, gate) = (record.stream.clone(), gate.clone());
            RequestBody::Stream { body, left, end, outcome, conn, stream, gate }
        } else {
            RequestBody::Empty
        };
        Self {
            route: RouteKey::of(&parts.method, parts.uri.path()),
            may_repeat: !has_body && parts.method.is_safe() && on_upgrade.is_none(),
            session,
            pool,
            live,
            record,
            parts: Some(parts),
            copy: None,
            body: Some(body),
            body_outcome,
            has_body,
            gate,
            on_upgrade,
            is_connect,
            tried: Vec::new(),
            needs_fresh: false,
        }
    }

    /// Returns the backend's response, or the edge's own if there is none.
    pub(crate) async fn run(&mut self) -> Response<ResponseBody> {
        // Preparing the request takes next to no time: reuse the clock reading of its head.
        let mut now = self.record.head;
        loop {
            let (slot, found) = match self.find_slot(now).await {
                Ok(found) => found,
                Err(failure) => return self.give_up(failure),
            };
            let backend = Arc::clone(&slot.backend);
            let error = match self.attempt(slot, found).await {
                Ok(head) => return self.relay(head),
                Err(error) => error,
            };
            now = MonoTime::now();
            let tries = self.record.upstream.as_ref().map_or(0, |upstream| upstream.tries);
            let is_whole = self.parts.is_some() || self.copy.is_some();
            if !error.may_move || !is_whole || tries >= TRIES_MAX || !self.pool.take_retry() {
                return self.give_up(error.failure);
            }
            backend.totals.retries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.tried.push(backend);
        }
    }

    /// Whether the edge will close the client's connection because a response that is no success came
    /// before the end of the request's body (RFC 9112 §9.3). Streams in both directions go on.
    pub(crate) fn breaks_upload(&self, status: StatusCode) -> bool {
        let is_stream = status.is_success() || status.is_informational();
        !is_stream && !self.session.conn.is_h2 && self.session.conn.is_body_left()
    }

    /// Finds a slot at a backend, queueing while all are full; returns it with the current time.
    async fn find_slot(
        &mut self,
        started: MonoTime,
    ) -> Result<(BackendSlot, MonoTime), RequestFailure> {
        let pool = Arc::clone(&self.pool);
        let (mut queued, mut now) = (None, started);
        loop {
            let client = match &self.record.client {
                None => self.session.conn.client.ip(),
                Some(client) => client.address,
            };
            let random = self.session.worker.random();
            match pool.choose(now, random, client, &self.tried) {
                Ok(slot) => {
                    if queued.is_some() {
                        self.record.queue += now.since(started);
                    }
                    return Ok((slot, now));
                }
                // The only backend may be tried again: perhaps its connection was stale.
                Err(NoBackend::None) if !self.tried.is_empty() => self.tried.clear(),
                Err(NoBackend::None) => return Err(RequestFailure::NoBackend),
                Err(NoBackend::Full) => {
                    if queued.is_none() {
                        let entry = pool.join_queue().map_err(|_| RequestFailure::QueueFull)?;
                        queued = Some(entry);
                    }
                    let Some(queue) = &queued else { continue };
                    let waited = Duration::from(now.since(started));
                    let left = pool.settings.queue_wait.saturating_sub(waited);
                    // Poll as well: slots of the previous configuration's pool notify nothing here.
                    let _ = tokio::time::timeout(left.min(QUEUE_POLL), queue.notified()).await;
                    now = MonoTime::now();
                    if left.is_zero() {
                        self.record.queue += now.since(started);
                        return Err(RequestFailure::QueueTimeout);
                    }
                }
            }
        }
    }

    async fn attempt(
        &mut self,
        slot: BackendSlot,
        now: MonoTime,
    ) -> Result<ResponseHead, AttemptError> {
        let backend = &slot.backend;
        self.begin_try(backend, now);
        let is_reusable = self.pool.settings.proxy_header == ProxyHeader::Off;
        let needs_fresh = std::mem::take(&mut self.needs_fresh) && !backend.protocol.is_h2();
        let reused = if is_reusable && !needs_fresh {
            let idle = self.session.worker.take_idle(backend, now, &self.pool.settings);
            idle.filter(|idle| idle.takes_many_fields || !self.pool.has_many_fields())
        } else {
            None
        };
        let idle_for = reused.as_ref().map(|idle| now.since(idle.idle_since));
        let mut upstream = match reused {
            Some(upstream) => upstream,
            None if backend.protocol.is_h2() && is_reusable => {
                self.connect_shared(backend, now).await?
            }
            None => self.connect(backend, now).await?,
        };
        upstream.requests += 1;
        let allowance = self.pool.allowance(backend, self.route, now);
        let body = self.has_body.then(|| Rc::clone(&self.body_outcome));
        let wait = ResponseWait { may_move: self.may_repeat, allowance, body };
        let deadline = self.session.worker.deadlines.add(backend, now, wait);
        let message = self.message(backend);
        let result = send(&mut upstream, message, &deadline, self.gate.as_deref()).await;
        let now = MonoTime::now();
        match result {
            Ok(response) => {
                if let Some(age) = idle_for.filter(|_| self.may_repeat && ends_idling(&response)) {
                    backend.record_idle_close(now, age);
                    self.needs_fresh = true;
                    return Err(AttemptError {
                        failure: RequestFailure::EmptyAnswer,
                        may_move: true,
                    });
                }
                self.pool.record_response(backend, self.route, now, deadline.waited(now));
                deadline.extend(now);
                Ok(ResponseHead { response, upstream, slot, deadline, now })
            }
            Err(error) => {
                if error.failure == RequestFailure::ResponseTimeout {
                    upstream.retire();
                }
                Err(self.assess(error, backend, idle_for.is_some()))
            }
        }
    }

    /// Notes the attempt in the record.
    fn begin_try(&mut self, backend: &Arc<Backend>, now: MonoTime) {
        let before = self.record.upstream.take();
        let before = before.as_ref();
        self.record.upstream = Some(UpstreamRecord {
            backend: Arc::clone(backend),
            tries: before.map_or(0, |one| one.tries) + 1,
            status: None,
            started: now,
            connect: before.map_or(Nanos::ZERO, |one| one.connect),
            header: None,
            response: None,
            before: before.map_or(Nanos::ZERO, |one| one.before + now.since(one.started)),
        });
    }

    /// A stream on a shared connection. One of the requests that need it opens it.
    async fn connect_shared(
        &mut self,
        backend: &Arc<Backend>,
        started: MonoTime,
    ) -> Result<Box<Upstream>, AttemptError> {
        let worker = Rc::clone(&self.session.worker);
        while let Some(pending) = worker.pending_connect(backend.address) {
            pending.done.notified().await;
            let now = MonoTime::now();
            if let Some(upstream) = worker.take_idle(backend, now, &self.pool.settings) {
                self.add_connect_time(now.since(started));
                return Ok(upstream);
            }
            // If it could not be opened, all others try at once rather than one after the other.
            if !pending.has_succeeded.get() {
                return self.connect(backend, now).await.inspect(|made| worker.share(made));
            }
        }
        let _guard = ConnectGuard(&worker, backend);
        let upstream = self.connect(backend, started).await?;
        worker.share(&upstream);
        Ok(upstream)
    }

    fn add_connect_time(&mut self, span: Nanos) {
        if let Some(upstream) = &mut self.record.upstream {
            upstream.connect += span;
        }
    }

    async fn connect(
        &mut self,
        backend: &Arc<Backend>,
        started: MonoTime,
    ) -> Result<Box<Upstream>, AttemptError> {
        let settings = &self.pool.settings;
        let conn = &self.session.conn;
        let preface = proxy_header::write(settings.proxy_header, conn.client, conn.server);
        let limits = &self.live.settings.limits;
        let result = Upstream::connect(backend, &self.pool, limits, preface).await;
        let now = MonoTime::now();
        self.add_connect_time(now.since(started));
        result.map_err(|(failure, text)| {
            if backend.record_failure(now, &self.pool.settings) {
                tracing::warn!("backend `{}` ejected: {text}", backend.name);
            }
            AttemptError { failure, may_move: true }
        })
    }

    /// Takes the request to send.
    fn message(&mut self, backend: &Backend) -> Request<RequestBody> {
        let parts = self.parts.take().or_else(|| self.copy.as_ref().map(HeadCopy::parts));
        let mut parts = parts.expect("a request is repeated only if it was returned or copied");
        // A backend with HTTP/2 may say that it has not begun, whatever the method.
        let may_refuse = backend.protocol.is_h2() && !self.has_body && self.on_upgrade.is_none();
        if (self.may_repeat || may_refuse) && self.copy.is_none() {
            self.copy = Some(HeadCopy::of(&parts));
        }
        let body = self.body.take().unwrap_or(RequestBody::Empty);
        headers::set_target(&mut parts, backend);
        if !backend.protocol.is_h2() {
            headers::announce_body(&mut parts, self.has_body);
        }
        let mut request = Request::from_parts(parts, body);
        let (client, version) = (&self.session.conn, self.record.version);
        continue_gate::forward_interim(&mut request, client, version, self.gate.as_ref());
        request
    }

    /// Decides what a failed attempt means for the backend and for the request.
    fn assess(
        &mut self,
        error: SendError,
        backend: &Arc<Backend>,
        is_reused: bool,
    ) -> AttemptError {
        let SendError { mut failure, message, cause } = error;
        let is_unsent = message.is_some();
        if let Some(message) = message
            && self.copy.is_none()
        {
            let (parts, body) = message.into_parts();
            (self.parts, self.body) = (Some(parts), Some(body));
        }
        if let Some(own) = self.body_outcome.failure.get() {
            return AttemptError { failure: own, may_move: false };
        }
        match cause {
            SendErrorCause::NotBegun => return AttemptError { failure, may_move: true },
            SendErrorCause::ManyFields => {
                self.pool.note_many_fields();
                return AttemptError { failure, may_move: self.may_repeat };
            }
            SendErrorCause::Other => {}
        }
        // A stale connection says nothing about the backend, and a stall was already counted.
        let is_stale = is_reused && failure == RequestFailure::EmptyAnswer;
        self.needs_fresh |= is_stale;
        let is_counted = failure == RequestFailure::BackendStalled;
        let settings = &self.pool.settings;
        if !is_stale && !is_counted && backend.record_failure(MonoTime::now(), settings) {
            tracing::warn!("backend `{}` ejected: {}", backend.name, failure.as_str());
        }
        if is_unsent {
            failure = RequestFailure::EmptyAnswer;
        }
        let is_final =
            matches!(failure, RequestFailure::ResponseTimeout | RequestFailure::InvalidAnswer);
        AttemptError { failure, may_move: is_unsent || self.may_repeat && !is_final }
    }

    /// Responds with the edge's own text.
    fn give_up(&mut self, failure: RequestFailure) -> Response<ResponseBody> {
        self.record.failure = Some(failure);
        self.session.conn.settle_interim();
        own_response(self.record.take(), status_of(failure), failure.as_str())
    }

    /// Responds with the backend's response.
    fn relay(&mut self, head: ResponseHead) -> Response<ResponseBody> {
        let ResponseHead { response, upstream, slot, deadline, now } = head;
        let (mut parts, body) = response.into_parts();
        let status = parts.status;
        self.session.conn.settle_interim();
        if let Some(upstream) = &mut self.record.upstream {
            upstream.status = Some(status.as_u16());
            upstream.header = Some(now.since(upstream.started));
        }
        self.record.status = status.as_u16();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            let (record, session) = (self.record.take(), Rc::clone(&self.session));
            let on_upgrade = self.on_upgrade.take();
            return tunnel::switch(parts, *upstream, slot, record, session, on_upgrade);
        }
        if self.is_connect && status.is_success() {
            // Success would open the tunnel, which the backend has not done.
            return self.give_up(RequestFailure::InvalidAnswer);
        }
        if !headers::has_known_coding(&parts.headers) {
            // The client would get the coded bytes as the content.
            return self.give_up(RequestFailure::InvalidAnswer);
        }
        // The version is of this hop (RFC 9110 §6.2).
        parts.version = Version::HTTP_11;
        let timeout = parts.headers.get(headers::KEEP_ALIVE).and_then(headers::keep_alive_timeout);
        if let Some(seconds) = timeout {
            slot.backend.learn_idle_timeout(Nanos::from_secs(seconds));
        }
        headers::unify_length(&mut parts.headers);
        headers::strip_hop_by_hop(&mut parts.headers);
        if self.live.settings.beacon.is_some() {
            headers::add_server_timing(&mut parts.headers, self.record.request_id.as_ref());
        }
        let is_reusable = self.pool.settings.proxy_header == ProxyHeader::Off;
        let record = self.record.take();
        let stream = record.stream.clone();
        let request_body = self.has_body.then(|| Rc::clone(&self.body_outcome));
        if self.has_body {
            self.body_outcome.is_answered.set(true);
            set_body_wanted(&self.session.conn, stream.as_deref(), false);
        }
        if headers::is_stream(&parts.headers) {
            deadline.allow_silence(self.live.settings.limits.tunnel_idle.into());
        }
        let active =
            ActiveResponse { upstream, slot, deadline, record, is_reusable, body: request_body };
        let session = Rc::clone(&self.session);
        let (active, rest) = (Some(active), Bytes::new());
        let mut relay = ResponseRelay { body, active, session, error: None, stream, rest };
        if relay.is_end_stream() {
            relay.complete();
            return Response::from_parts(parts, ResponseBody::Own(None));
        }
        Response::from_parts(parts, ResponseBody::Relayed(Box::new(relay)))
    }
}

/// When the time for a body is over; never for none, and for streams of messages: they may go on
/// before the first response.
fn body_end(headers: &HeaderMap, began: MonoTime, time: Nanos) -> MonoTime {
    let has_limit = time > Nanos::ZERO && !headers::is_grpc(headers);
    if has_limit { began + time } else { MonoTime::END }
}

/// Marks a connect that other requests wait for as finished when dropped.
struct ConnectGuard<'a>(&'a Worker, &'a Backend);

impl Drop for ConnectGuard<'_> {
    fn drop(&mut self) {
        self.0.finish_connect(self.1.address);
    }
}

/// A response head with everything that its body needs.
struct ResponseHead {
    response: Response<Incoming>,
    upstream: Box<Upstream>,
    slot: BackendSlot,
    deadline: DeadlineKey,
    now: MonoTime,
}

/// Why sending produced no response head, with the request if it was not sent.
struct SendError {
    failure: RequestFailure,
    message: Option<Request<RequestBody>>,
    cause: SendErrorCause,
}

/// What another attempt should know.
#[derive(Clone, Copy)]
enum SendErrorCause {
    /// The backend has not begun with the request, and says so (RFC 9113 §8.7).
    NotBegun,
    /// The response may have more fields than this connection reads.
    ManyFields,
    Other,
}

impl SendErrorCause {
    fn of(error: &hyper::Error, upstream: &Upstream) -> Self {
        if let Some(shared) = upstream.shared()
            && is_refusal(error)
        {
            shared.drain();
            return Self::NotBegun;
        }
        let is_new = error.is_parse_too_large() && !upstream.takes_many_fields;
        if is_new { Self::ManyFields } else { Self::Other }
    }
}

/// Whether h2 has ended a stream because its head breaks the rules of HTTP, such as one with another length
/// than its content (RFC 9113 §8.1.1).
fn is_malformed(error: &hyper::Error) -> bool {
    h2_error(error).is_some_and(|error| error.is_library() && error.is_reset())
}

fn h2_error(error: &hyper::Error) -> Option<&h2::Error> {
    std::error::Error::source(error).and_then(|source| source.downcast_ref())
}

/// Whether a stream was refused, or is behind the last one that a connection serves before it closes.
fn is_refusal(error: &hyper::Error) -> bool {
    let Some(error) = h2_error(error).filter(|error| error.is_remote()) else { return false };
    match error.reason() {
        Some(h2::Reason::REFUSED_STREAM) => error.is_reset(),
        Some(h2::Reason::NO_ERROR) => error.is_go_away(),
        _ => false,
    }
}

/// Whether a response ends a connection that was idle for too long, rather than answering the request
/// that crossed it (RFC 9110 §15.5.9).
fn ends_idling(response: &Response<Incoming>) -> bool {
    response.status() == StatusCode::REQUEST_TIMEOUT
        && (headers::says_close(response.headers()) || response.version() == Version::HTTP_10)
}

/// Sends a request and drives the connection until the response head has arrived.
async fn send(
    upstream: &mut Upstream,
    request: Request<RequestBody>,
    deadline: &DeadlineKey,
    gate: Option<&ContinueGate>,
) -> Result<Response<Incoming>, SendError> {
    let mut sending = pin!(upstream.send(request));
    // Made at its first poll, which only a request with a gate needs.
    let mut patience = pin!(async { tokio::time::sleep(continue_gate::PATIENCE).await });
    std::future::poll_fn(|cx| {
        if let Some(gate) = gate.filter(|gate| !gate.is_open())
            && patience.as_mut().poll(cx).is_ready()
        {
            gate.open();
        }
        let is_over = upstream.drive(cx);
        let failure = match sending.as_mut().poll(cx) {
            Poll::Ready(Ok(response)) => return Poll::Ready(Ok(response)),
            Poll::Ready(Err(mut error)) => {
                let message = error.take_message();
                let is_invalid = error.error().is_parse()
                    || error.error().is_parse_too_large()
                    || is_malformed(error.error());
                let failure = if is_invalid {
                    RequestFailure::InvalidAnswer
                } else {
                    RequestFailure::EmptyAnswer
                };
                let cause = SendErrorCause::of(error.error(), upstream);
                return Poll::Ready(Err(SendError { failure, message, cause }));
            }
            Poll::Pending if is_over => RequestFailure::EmptyAnswer,
            Poll::Pending => match deadline.poll(cx) {
                WaitOutcome::Waiting => return Poll::Pending,
                WaitOutcome::TimedOut => RequestFailure::ResponseTimeout,
                WaitOutcome::Stalled => RequestFailure::BackendStalled,
            },
        };
        let cause = SendErrorCause::Other;
        Poll::Ready(Err(SendError { failure, message: None, cause }))
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
        RequestFailure::ClientSlow => StatusCode::REQUEST_TIMEOUT,
        RequestFailure::BadRequest | RequestFailure::ClientClosed => StatusCode::BAD_REQUEST,
        _ => StatusCode::BAD_GATEWAY,
    }
}
