//! A snapshot of an edge for operators, and what it has learned for an edge that replaces it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use weir_tables::Micros;

use crate::admin::report::reason;
use crate::client::listener::Listener;
use crate::live::LiveConfig;
use crate::pool::Pool;
use crate::pool::backend::Backend;
use crate::time::MonoTime;
use crate::tls::session_tickets::TicketKey;

/// Snapshot of a listener; totals count since the edge started.
#[derive(Clone, Debug)]
pub struct ListenerState {
    /// The bound address.
    pub address: SocketAddr,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Whether clients use HTTP/2 from the first byte (h2c).
    pub is_h2c: bool,
    /// Idle timeout of client connections.
    pub idle: Duration,
    /// Open connections.
    pub connections: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that produced no request.
    pub refused: u64,
    /// Requests.
    pub requests: u64,
    /// Bytes received; with TLS, the decrypted ones.
    pub received_bytes: u64,
    /// Bytes sent; with TLS, before encryption.
    pub sent_bytes: u64,
}

/// Snapshot of a backend; totals count since the edge started.
#[derive(Clone, Debug)]
pub struct BackendState {
    /// The pool; empty for the default pool.
    pub pool: String,
    /// Address and port.
    pub backend: String,
    /// The zone; empty if not configured.
    pub zone: String,
    /// The protocol: `http`, `https`, `h2` or `h2c`.
    pub protocol: &'static str,
    /// `up`, `slow_start`, `check_failed`, `ejected`, `stalled`, `draining` or
    /// `unresolved`.
    pub state: &'static str,
    /// Why the backend is in this state; `None` when up.
    pub reason: Option<&'static str>,
    /// Failed checks of its newest health response; `None` without any. A backend stays up when
    /// they are about what most of its pool depends on.
    pub failed_checks: Option<String>,
    /// False in panic mode: health is ignored and all backends get requests.
    pub is_believed: bool,
    /// Share of requests relative to the other backends.
    pub weight: u32,
    /// Requests in progress.
    pub in_flight: u32,
    /// Requests of the whole pool that wait for a free slot.
    pub queued: u32,
    /// Open connections, in use and idle.
    pub connections: u32,
    /// Requests sent.
    pub requests: u64,
    /// Requests without a complete response.
    pub failures: u64,
    /// Approximate median time to the first byte, in seconds; `None` before the first response.
    pub latency_seconds: Option<f64>,
    /// After how long the edge closes an idle connection, in seconds.
    pub idle_timeout_seconds: f64,
    /// Bytes received from the backend.
    pub received_bytes: u64,
    /// Bytes sent to the backend.
    pub sent_bytes: u64,
}

/// A certificate that the edge obtains by ACME.
#[derive(Clone, Debug)]
pub struct CertificateState {
    /// The requested names, separated by spaces.
    pub names: String,
    /// The host of the ACME directory.
    pub authority: String,
    /// The file with the certificate and its key.
    pub path: PathBuf,
    /// `valid`, `due`, `ended` or `missing`.
    pub state: &'static str,
    /// Start of validity; `None` if there is no certificate.
    pub not_before: Option<Micros>,
    /// End of validity; `None` if there is no certificate.
    pub not_after: Option<Micros>,
    /// Consecutive failed attempts.
    pub failures: u32,
    /// Why the last attempt failed.
    pub failure: Option<String>,
    /// Time of the next attempt or renewal.
    pub next: Micros,
}

/// Snapshot of an edge.
#[derive(Clone, Debug)]
pub struct EdgeState {
    /// Listeners.
    pub listeners: Vec<ListenerState>,
    /// Backends of all pools.
    pub backends: Vec<BackendState>,
    /// Certificates obtained by ACME.
    pub certificates: Vec<CertificateState>,
}

/// What an edge has learned about a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearntBackend {
    /// Address and port.
    pub backend: String,
    /// Approximate median time to the first byte; zero before the first response.
    pub latency: Duration,
    /// How long the backend keeps idle connections; `None` if not known.
    pub keeps_idle: Option<Duration>,
    /// Open connections.
    pub connections: u32,
}

/// What an edge has learned beyond its configuration. The keys are secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearntState {
    /// Per backend.
    pub backends: Vec<LearntBackend>,
    /// Keys of the session tickets that clients hold, newest first.
    pub ticket_keys: Vec<TicketKey>,
}

pub(crate) fn snapshot(
    live: &LiveConfig,
    listeners: &[Arc<Listener>],
    certificates: Vec<CertificateState>,
) -> EdgeState {
    let now = MonoTime::now();
    EdgeState {
        listeners: listeners.iter().map(|one| listener(one, live)).collect(),
        backends: live.backends().map(|(pool, one)| backend(pool, one, now)).collect(),
        certificates,
    }
}

fn listener(listener: &Listener, live: &LiveConfig) -> ListenerState {
    let (settings, totals) = (&listener.settings, &listener.totals);
    ListenerState {
        address: listener.address,
        is_tls: settings.is_tls,
        is_h2c: settings.is_h2c,
        idle: live.settings.limits.idle_of(settings.address),
        connections: totals.open.load(Relaxed),
        accepted: totals.accepted.load(Relaxed),
        refused: totals.refused.load(Relaxed),
        requests: totals.requests.load(Relaxed),
        received_bytes: totals.received_bytes.load(Relaxed),
        sent_bytes: totals.sent_bytes.load(Relaxed),
    }
}

fn backend(pool: &Pool, backend: &Backend, now: MonoTime) -> BackendState {
    let (state, totals) = (backend.state(now, &pool.settings), &backend.totals);
    BackendState {
        pool: pool.name.clone(),
        backend: backend.name.clone(),
        zone: backend.zone.clone(),
        protocol: backend.protocol.as_str(),
        state: state.as_str(),
        reason: reason(state),
        failed_checks: backend.failed_checks(),
        is_believed: !pool.is_panicking(),
        weight: backend.weight.load(Relaxed),
        in_flight: backend.in_flight(),
        queued: pool.queued(),
        connections: backend.connections.load(Relaxed),
        requests: totals.requests.load(Relaxed),
        failures: totals.failures.load(Relaxed),
        latency_seconds: backend.latency_seconds(),
        idle_timeout_seconds: backend.idle_timeout(&pool.settings).as_seconds(),
        received_bytes: totals.received_bytes.load(Relaxed),
        sent_bytes: totals.sent_bytes.load(Relaxed),
    }
}

pub(crate) fn export_learnt(backend: &Backend) -> LearntBackend {
    LearntBackend {
        backend: backend.name.clone(),
        latency: backend.latency().into(),
        keeps_idle: backend.learnt_idle().map(Duration::from),
        connections: backend.connections.load(Relaxed),
    }
}

/// Applies what another edge has learned about a backend.
pub(crate) fn import_learnt(backend: &Backend, learnt: &LearntBackend) {
    backend.adopt_latency(learnt.latency.into());
    if let Some(span) = learnt.keeps_idle {
        backend.learn_idle_timeout(span.into());
    }
}
