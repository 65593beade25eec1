//! What happened to a request, and the columns that it becomes: no text is made in between.

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::{HeaderValue, Method, Uri, Version};
use rustc_hash::FxHasher;
use weir_tables::{
    Batch, Beacon, BeaconRows, Clock, EdgeRefusal, EdgeRefusalRows, Micros, Request, RequestRows,
    Rows,
};

use crate::client::state::{ClientState, Listener};
use crate::pool::backend::Backend;
use crate::time::{now_ns, seconds};

/// The column `source`, and the program.
const SOURCE: &str = "weir:edge";
/// Addresses that get refusal rows of their own in a second.
const REFUSED_ADDRESSES_MAX: usize = 256;
/// Rows after which they are handed over: few enough that their columns stay in memory that is there already.
const ROWS_MAX: usize = 1024;

/// Why a request failed: the column `failure`.
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

/// A request from its head to its last byte. Times are nanoseconds of [`now_ns`].
#[derive(Debug)]
pub(crate) struct RequestRecord {
    pub(crate) conn: Arc<ClientState>,
    pub(crate) started: u64,
    pub(crate) head: u64,
    pub(crate) received_before: u64,
    pub(crate) sent_before: u64,
    pub(crate) order: u32,
    pub(crate) tls_handshake_ns: Option<u64>,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) server: Option<HeaderValue>,
    pub(crate) user_agent: Option<HeaderValue>,
    pub(crate) referer: Option<HeaderValue>,
    pub(crate) request_id: Option<HeaderValue>,
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) queue_ns: u64,
    pub(crate) upstream: Option<UpstreamRecord>,
    pub(crate) failure: Option<RequestFailure>,
    /// Whether the row must not know who the client is, nor what it said: a beacon has a row of its own.
    pub(crate) is_beacon: bool,
}

impl RequestRecord {
    /// By the request's id, so that other tiers that choose in this way choose the same; what has none is always chosen.
    fn is_chosen(&self, one_of: u32) -> bool {
        let Some(id) = &self.request_id else { return true };
        let mut hasher = FxHasher::default();
        hasher.write(id.as_bytes());
        hasher.finish().is_multiple_of(u64::from(one_of))
    }
}

/// The part of a record that needs a backend.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamRecord {
    pub(crate) backend: Arc<Backend>,
    pub(crate) tries: u32,
    pub(crate) status: Option<u16>,
    /// When connecting to the present one began.
    pub(crate) started: u64,
    pub(crate) connect_ns: u64,
    pub(crate) header_ns: Option<u64>,
    pub(crate) response_ns: Option<u64>,
    /// What earlier tries took.
    pub(crate) before_ns: u64,
}

/// Collects rows and hands them over in batches.
pub(crate) struct RowRecorder {
    host: String,
    clock: Arc<dyn Clock>,
    /// The clock and the monotonic clock at one moment.
    anchor: (Micros, u64),
    requests: RequestRows,
    beacons: BeaconRows,
    refusals: HashMap<(usize, &'static str, Option<String>), RefusalCount>,
    sink: Sink,
}

/// Takes batches of rows; called from every thread of the edge, must not block for long.
pub type Sink = Arc<dyn Fn(Vec<Batch>) + Send + Sync>;

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

/// The name of a `Host` field, whose port is the client's business: `shop.example:8443`, `[::1]:80`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    }
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
        let anchor = (clock.now(), now_ns());
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

    fn at(&self, now: u64) -> Micros {
        Micros(self.anchor.0.0 + int(now.saturating_sub(self.anchor.1) / 1000))
    }

    /// The request is over. One of `one_of` gets a row.
    pub(crate) fn finished(&mut self, record: &RequestRecord, now: u64, one_of: u32) {
        let (conn, is_beacon) = (&record.conn, record.is_beacon);
        conn.listener.totals.requests.fetch_add(1, Relaxed);
        if one_of > 1 && !record.is_chosen(one_of) {
            return;
        }
        let ts = self.at(now);
        let upstream = record.upstream.as_ref();
        let spent = |ns: Option<u64>| ns.map(|ns| seconds(0, ns));
        // Streams of one HTTP/2 connection share its bytes.
        let bytes = |total: &std::sync::atomic::AtomicU64, before: u64| {
            (!conn.is_h2).then(|| int(total.load(Relaxed).saturating_sub(before)))
        };
        self.requests.push(&Request {
            ts,
            host: &self.host,
            tier: "edge",
            observed_ts: ts,
            source: SOURCE,
            program: Some("weir"),
            request_id: text(record.request_id.as_ref()),
            client_address: Some(if is_beacon { conn.network() } else { conn.client_text() }),
            client_port: (!is_beacon).then(|| conn.client.port().into()),
            server_address: text(record.server.as_ref()).map(without_port).or(record.uri.host()),
            server_port: Some(conn.listener.address.port().into()),
            url_scheme: Some(if conn.listener.settings.is_tls { "https" } else { "http" }),
            http_request_method: Some(record.method.as_str()),
            url_path: Some(record.uri.path()),
            url_query: record.uri.query().filter(|_| !is_beacon),
            network_protocol_version: Some(version(record.version)),
            http_response_status_code: Some(record.status.into()).filter(|status| *status > 0),
            request_bytes: bytes(&conn.received, record.received_before),
            response_bytes: bytes(&conn.sent, record.sent_before),
            response_body_bytes: Some(int(record.body_bytes)),
            user_agent_original: text(record.user_agent.as_ref()),
            http_request_header_referer: text(record.referer.as_ref()),
            duration_seconds: Some(seconds(record.started, now)),
            request_read_seconds: Some(seconds(record.started, record.head)),
            queue_seconds: upstream.map(|_| seconds(0, record.queue_ns)),
            upstream_connect_seconds: upstream.map(|one| seconds(0, one.connect_ns)),
            upstream_header_seconds: upstream
                .and_then(|one| spent(one.header_ns.map(|ns| ns + one.before_ns))),
            upstream_response_seconds: upstream
                .and_then(|one| spent(one.response_ns.map(|ns| ns + one.before_ns))),
            upstream_address: upstream.map(|one| one.backend.name.as_str()),
            upstream_status_code: upstream.and_then(|one| one.status).map(i64::from),
            upstream_tries: upstream.map(|one| one.tries.into()),
            connection_requests: Some(record.order.into()),
            failure: record.failure.map(RequestFailure::as_str),
            tls_handshake_seconds: spent(record.tls_handshake_ns),
            sampled_ratio: (one_of > 1).then(|| 1.0 / f64::from(one_of)),
            ..Request::default()
        });
        if self.requests.len() >= ROWS_MAX {
            self.hand_over();
        }
    }

    /// A beacon came; time and host are set here. What it says of a page's request becomes a row of its own.
    pub(crate) fn beacon(&mut self, now: u64, row: &Beacon<'_>) {
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
            self.hand_over();
        }
    }

    /// A connection became no request.
    pub(crate) fn refused(
        &mut self,
        listener: &Arc<Listener>,
        client: &str,
        reason: &'static str,
        (received, sent): (u64, u64),
        detail: Option<String>,
    ) {
        listener.totals.refused.fetch_add(1, Relaxed);
        let ts = self.at(now_ns());
        let is_room = self.refusals.len() < REFUSED_ADDRESSES_MAX;
        let at = Arc::as_ptr(listener).addr();
        let mut key = (at, reason, Some(client.to_owned()));
        if !is_room && !self.refusals.contains_key(&key) {
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

    /// Hands over what there is; sets the clock anew.
    pub(crate) fn hand_over(&mut self) {
        self.anchor = (self.clock.now(), now_ns());
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

/// Adds the rows as a batch, unless there are none.
pub(crate) fn take<R: Rows>(rows: &mut R, batches: &mut Vec<Batch>) {
    if !rows.is_empty() {
        batches.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn names_are_kept_without_ports() {
        let hosts = ["shop.example", "shop.example:8443", "[::1]", "[::1]:80", "10.0.0.1:80", ""];
        let names = hosts.map(without_port);
        assert_eq!(names, ["shop.example", "shop.example", "[::1]", "[::1]", "10.0.0.1", ""]);
    }
}
