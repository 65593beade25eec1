//! Records of requests, and the rows they become, without intermediate text.

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::{HeaderValue, Method, Uri, Version};
use rustc_hash::FxHasher;
use weir_tables::{
    Batch, Beacon, BeaconRows, Clock, EdgeRefusal, EdgeRefusalRows, Micros, Request, RequestRows,
    Rows,
};

use crate::client::forwarded::ForwardedClient;
use crate::client::listener::Listener;
use crate::client::state::ClientState;
use crate::pool::backend::Backend;
use crate::proxy::host_name::name_of;
use crate::time::{MonoTime, Nanos};

/// The value of column `source`.
const SOURCE: &str = "weir:edge";
/// Addresses per delivery that get their own refusal rows; the others share one.
const REFUSED_ADDRESSES_MAX: usize = 256;
/// Rows per delivery: few enough that their columns fit into memory that is already mapped.
const ROWS_MAX: usize = 1024;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestFailure {
    ConnectRefused,
    ConnectTimeout,
    ConnectTls,
    NoBackend,
    QueueFull,
    QueueTimeout,
    ResponseTimeout,
    BackendStalled,
    EmptyAnswer,
    InvalidAnswer,
    AnswerCut,
    ClientClosed,
    ClientSlow,
    BodyTooLarge,
    BadRequest,
}

impl RequestFailure {
    /// The value of column `failure`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ConnectRefused => "connect_refused",
            Self::ConnectTimeout => "connect_timeout",
            Self::ConnectTls => "connect_tls",
            Self::NoBackend => "no_backend",
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
            Self::ResponseTimeout => "response_timeout",
            Self::BackendStalled => "backend_stalled",
            Self::EmptyAnswer => "empty_answer",
            Self::InvalidAnswer => "invalid_answer",
            Self::AnswerCut => "answer_cut",
            Self::ClientClosed => "client_closed",
            Self::ClientSlow => "client_slow",
            Self::BodyTooLarge => "body_too_large",
            Self::BadRequest => "bad_request",
        }
    }
}

/// A request from its head to the last byte of its response.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    pub(crate) conn: Arc<ClientState>,
    /// The client that a trusted proxy names.
    pub(crate) client: Option<Box<ForwardedClient>>,
    /// When the first byte of the head was read.
    pub(crate) started: MonoTime,
    /// When the last byte of the head was read.
    pub(crate) head: MonoTime,
    /// Bytes received on the connection before this request.
    pub(crate) received_before: u64,
    /// Bytes sent on the connection before this request.
    pub(crate) sent_before: u64,
    /// The number of the request on its connection, from 1.
    pub(crate) order: u32,
    pub(crate) tls_handshake: Option<Nanos>,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) server: Option<HeaderValue>,
    pub(crate) user_agent: Option<HeaderValue>,
    pub(crate) referer: Option<HeaderValue>,
    pub(crate) request_id: Option<HeaderValue>,
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) queue: Nanos,
    pub(crate) upstream: Option<UpstreamRecord>,
    pub(crate) failure: Option<RequestFailure>,
    /// Whether the row must not identify the client or contain the query: a beacon has its own row.
    pub(crate) is_beacon: bool,
}

impl RequestRecord {
    /// The scheme of the client's request.
    fn scheme(&self) -> &'static str {
        let named = self.client.as_ref().and_then(|client| client.scheme);
        named.unwrap_or(if self.conn.listener.settings.is_tls { "https" } else { "http" })
    }

    /// The network of the client, for rows that must not identify it.
    pub(crate) fn network(&self) -> &str {
        self.client.as_ref().map_or_else(|| self.conn.network(), |client| client.network())
    }

    /// Samples by request id, so that other tiers can sample the same requests; a request without
    /// an id is always sampled.
    fn is_sampled(&self, one_of: u32) -> bool {
        let Some(id) = &self.request_id else { return true };
        let mut hasher = FxHasher::default();
        hasher.write(id.as_bytes());
        hasher.finish().is_multiple_of(u64::from(one_of))
    }
}

/// The part of a record about the backend.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamRecord {
    pub(crate) backend: Arc<Backend>,
    pub(crate) tries: u32,
    pub(crate) status: Option<u16>,
    /// When the current attempt began.
    pub(crate) started: MonoTime,
    /// Time spent connecting, over all attempts.
    pub(crate) connect: Nanos,
    /// Time to the response head, in the current attempt.
    pub(crate) header: Option<Nanos>,
    /// Time to the end of the response, in the current attempt.
    pub(crate) response: Option<Nanos>,
    /// Time spent in earlier attempts.
    pub(crate) before: Nanos,
}

/// Collects rows and delivers them in batches.
pub(crate) struct RowRecorder {
    host: String,
    clock: Arc<dyn Clock>,
    /// Both clocks at one moment, to convert monotonic time into timestamps.
    anchor: (Micros, MonoTime),
    requests: RequestRows,
    beacons: BeaconRows,
    refusals: HashMap<(usize, &'static str, Option<String>), RefusalCount>,
    sink: Sink,
}

/// Receives batches of rows. Every thread of the edge calls it, so it must not block for long.
pub type Sink = Arc<dyn Fn(Vec<Batch>) + Send + Sync>;

/// A connection that produced no request.
pub(crate) struct ConnectionRefusal<'a> {
    pub(crate) client: &'a str,
    /// The value of column `reason`.
    pub(crate) reason: &'static str,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) detail: Option<String>,
}

/// Refusals with the same listener, reason and client.
struct RefusalCount {
    listener: Arc<Listener>,
    ts: Micros,
    connections: i64,
    received: u64,
    sent: u64,
    detail: Option<String>,
}

fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value.and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
}

/// Bytes counted since `before`; `None` for HTTP/2, whose streams share the connection's bytes.
fn bytes_since(conn: &ClientState, total: &AtomicU64, before: u64) -> Option<i64> {
    (!conn.is_h2).then(|| int(total.load(Relaxed).saturating_sub(before)))
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    }
}

impl RowRecorder {
    pub(crate) fn new(host: String, clock: Arc<dyn Clock>, sink: Sink) -> Self {
        let anchor = (clock.now(), MonoTime::now());
        Self {
            host,
            clock,
            anchor,
            requests: RequestRows::default(),
            beacons: BeaconRows::default(),
            refusals: HashMap::new(),
            sink,
        }
    }

    fn at(&self, now: MonoTime) -> Micros {
        Micros(self.anchor.0.0 + int(now.since(self.anchor.1).0 / 1000))
    }

    /// Records a finished request; one in `one_of` gets a row.
    pub(crate) fn record_request(&mut self, record: &RequestRecord, now: MonoTime, one_of: u32) {
        let (conn, is_beacon) = (&record.conn, record.is_beacon);
        conn.listener.totals.requests.fetch_add(1, Relaxed);
        if one_of > 1 && !record.is_sampled(one_of) {
            return;
        }
        let ts = self.at(now);
        let upstream = record.upstream.as_ref();
        // Behind a proxy, the port is the proxy's.
        let client = match &record.client {
            None => (conn.client_text(), Some(conn.client.port())),
            Some(client) => (client.text.as_str(), None),
        };
        self.requests.push(&Request {
            ts,
            host: &self.host,
            tier: "edge",
            observed_ts: ts,
            source: SOURCE,
            program: Some("weir"),
            request_id: text(record.request_id.as_ref()),
            client_address: Some(if is_beacon { record.network() } else { client.0 }),
            client_port: client.1.filter(|_| !is_beacon).map(i64::from),
            server_address: text(record.server.as_ref()).map(name_of).or(record.uri.host()),
            server_port: Some(conn.listener.address.port().into()),
            url_scheme: Some(record.scheme()),
            http_request_method: Some(record.method.as_str()),
            url_path: Some(record.uri.path()),
            url_query: record.uri.query().filter(|_| !is_beacon),
            network_protocol_version: Some(version(record.version)),
            http_response_status_code: Some(record.status.into()).filter(|status| *status > 0),
            request_bytes: bytes_since(conn, &conn.received, record.received_before),
            response_bytes: bytes_since(conn, &conn.sent, record.sent_before),
            response_body_bytes: Some(int(record.body_bytes)),
            user_agent_original: text(record.user_agent.as_ref()),
            http_request_header_referer: text(record.referer.as_ref()),
            duration_seconds: Some(now.since(record.started).as_seconds()),
            request_read_seconds: Some(record.head.since(record.started).as_seconds()),
            queue_seconds: upstream.map(|_| record.queue.as_seconds()),
            upstream_connect_seconds: upstream.map(|one| one.connect.as_seconds()),
            upstream_header_seconds: upstream
                .and_then(|one| Some((one.header? + one.before).as_seconds())),
            upstream_response_seconds: upstream
                .and_then(|one| Some((one.response? + one.before).as_seconds())),
            upstream_address: upstream.map(|one| one.backend.name.as_str()),
            upstream_status_code: upstream.and_then(|one| one.status).map(i64::from),
            upstream_tries: upstream.map(|one| one.tries.into()),
            connection_requests: Some(record.order.into()),
            failure: record.failure.map(RequestFailure::as_str),
            tls_handshake_seconds: record.tls_handshake.map(Nanos::as_seconds),
            sampled_ratio: (one_of > 1).then(|| 1.0 / f64::from(one_of)),
            ..Request::default()
        });
        if self.requests.len() >= ROWS_MAX {
            self.flush();
        }
    }

    /// Records a beacon; fills in time and host. A page load also becomes a row of `request`.
    pub(crate) fn record_beacon(&mut self, now: MonoTime, row: &Beacon<'_>) {
        let ts = self.at(now);
        self.beacons.push(&Beacon { ts, host: &self.host, ..*row });
        if row.kind == "load" && row.response_seconds.is_some() {
            self.requests.push(&Request {
                ts,
                host: &self.host,
                tier: "client",
                observed_ts: ts,
                source: "weir.js",
                request_id: row.request_id,
                client_address: Some(row.client_address),
                server_address: row.site,
                url_path: row.page,
                user_agent_original: row.user_agent_original,
                duration_seconds: row.response_seconds,
                upstream_connect_seconds: row.connect_seconds,
                upstream_header_seconds: row.first_byte_seconds,
                ..Request::default()
            });
        }
        if self.beacons.len() >= ROWS_MAX {
            self.flush();
        }
    }

    /// Records a connection that produced no request.
    pub(crate) fn record_refusal(
        &mut self,
        listener: &Arc<Listener>,
        refusal: ConnectionRefusal<'_>,
    ) {
        let ConnectionRefusal { client, reason, received, sent, detail } = refusal;
        listener.totals.refused.fetch_add(1, Relaxed);
        let ts = self.at(MonoTime::now());
        let has_space = self.refusals.len() < REFUSED_ADDRESSES_MAX;
        let at = Arc::as_ptr(listener).addr();
        let mut key = (at, reason, Some(client.to_owned()));
        if !has_space && !self.refusals.contains_key(&key) {
            key.2 = None;
        }
        let refused = self.refusals.entry(key).or_insert_with(|| RefusalCount {
            listener: Arc::clone(listener),
            ts,
            connections: 0,
            received: 0,
            sent: 0,
            detail,
        });
        refused.connections += 1;
        refused.received += received;
        refused.sent += sent;
    }

    /// Delivers all rows and synchronizes the clocks.
    pub(crate) fn flush(&mut self) {
        self.anchor = (self.clock.now(), MonoTime::now());
        let mut batches = Vec::new();
        take(&mut self.requests, &mut batches);
        take(&mut self.beacons, &mut batches);
        take(&mut self.refusal_rows(), &mut batches);
        if !batches.is_empty() {
            (self.sink)(batches);
        }
    }

    fn refusal_rows(&mut self) -> EdgeRefusalRows {
        let mut rows = EdgeRefusalRows::default();
        for ((_, reason, client), refused) in self.refusals.drain() {
            rows.push(&EdgeRefusal {
                ts: refused.ts,
                host: &self.host,
                listener: &refused.listener.name,
                reason,
                client_address: client.as_deref(),
                connections: refused.connections,
                received_bytes: int(refused.received),
                sent_bytes: int(refused.sent),
                detail: refused.detail.as_deref(),
            });
        }
        rows
    }
}

/// Moves rows into a batch, if there are any.
pub(crate) fn take<R: Rows>(rows: &mut R, batches: &mut Vec<Batch>) {
    if !rows.is_empty() {
        batches.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}
