//! What an edge is doing at this moment, and what it has learnt: for people who look, and for an edge that takes its place.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use weir_tables::Micros;

use crate::admin::report::reason;
use crate::client::state::Listener;
use crate::pool::Pool;
use crate::pool::backend::Backend;
use crate::time::{nanos, now_ns, seconds};
use crate::tls::session_tickets::TicketKey;
use crate::worker::LiveConfig;

/// A listener at this moment; totals since the edge began.
#[derive(Clone, Debug)]
pub struct ListenerState {
    /// The address that it really has.
    pub address: SocketAddr,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Whether clients speak HTTP/2 from the first byte.
    pub is_h2c: bool,
    /// After how long an idle connection is closed.
    pub idle: Duration,
    /// Open connections.
    pub connections: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that became no request.
    pub refused: u64,
    /// Requests.
    pub requests: u64,
    /// Bytes received; with TLS what it carried.
    pub received_bytes: u64,
    /// Bytes sent; with TLS what it carried.
    pub sent_bytes: u64,
}

/// A backend at this moment; totals since the edge began.
#[derive(Clone, Debug)]
pub struct BackendState {
    /// The pool that it is in; empty for the one that takes what no route names.
    pub pool: String,
    /// Its address and port.
    pub backend: String,
    /// The zone that it is in; empty when that is not said.
    pub zone: String,
    /// What is spoken there: http, https, h2, h2c.
    pub protocol: &'static str,
    /// `up`, `slow_start`, `check_failed`, `ejected`, `stalled` or `draining`.
    pub state: &'static str,
    /// What led to the state; `None` when up.
    pub reason: Option<&'static str>,
    /// False when so many look ill that all get requests.
    pub is_believed: bool,
    /// Its weight.
    pub weight: u32,
    /// Requests under way.
    pub in_flight: u32,
    /// Requests of the whole pool that wait for a free place.
    pub queued: u32,
    /// Open connections to it, in use and at rest.
    pub connections: u32,
    /// Requests sent to it.
    pub requests: u64,
    /// Those of them that got no whole answer.
    pub failures: u64,
    /// About the median time to the first byte, in seconds; `None` before the first answer.
    pub latency_seconds: Option<f64>,
    /// After how long an idle connection to it is closed, in seconds.
    pub idle_timeout_seconds: f64,
    /// Bytes received from it.
    pub received_bytes: u64,
    /// Bytes sent to it.
    pub sent_bytes: u64,
}

/// A certificate that the edge obtains by itself.
#[derive(Clone, Debug)]
pub struct CertificateState {
    /// The names that it shall be for, parted by spaces.
    pub names: String,
    /// The host of the authority's directory.
    pub authority: String,
    /// The file that holds it and its key.
    pub path: PathBuf,
    /// `valid`, `due`, `ended` or `missing`.
    pub state: &'static str,
    /// When it began; `None` when missing.
    pub not_before: Option<Micros>,
    /// When it ends; `None` when missing.
    pub not_after: Option<Micros>,
    /// Attempts in a row that brought none.
    pub failures: u32,
    /// Why the last of them did not.
    pub failure: Option<String>,
    /// When it is tried or renewed next.
    pub next: Micros,
}

/// An edge at this moment.
#[derive(Clone, Debug)]
pub struct EdgeState {
    /// Where it listens.
    pub listeners: Vec<ListenerState>,
    /// Where requests go.
    pub backends: Vec<BackendState>,
    /// Certificates that it obtains by itself.
    pub certificates: Vec<CertificateState>,
}

/// What an edge has learnt of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearntBackend {
    /// Its address and port.
    pub backend: String,
    /// About the median time to the first byte; zero before the first answer.
    pub latency: Duration,
    /// How long it keeps idle connections, as it said or showed; `None` when not known.
    pub keeps_idle: Option<Duration>,
    /// Open connections to it.
    pub connections: u32,
}

/// What an edge has learnt, that its configuration does not say. The keys in it are secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LearntState {
    /// Of its backends.
    pub backends: Vec<LearntBackend>,
    /// What opens the session tickets that its clients hold, the newest first.
    pub ticket_keys: Vec<TicketKey>,
}

pub(crate) fn state(
    live: &LiveConfig,
    listeners: &[Arc<Listener>],
    certificates: Vec<CertificateState>,
) -> EdgeState {
    let now = now_ns();
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

fn backend(pool: &Pool, backend: &Backend, now: u64) -> BackendState {
    let (state, totals) = (backend.state(now, &pool.settings), &backend.totals);
    BackendState {
        pool: pool.name.clone(),
        backend: backend.name.clone(),
        zone: backend.zone.clone(),
        protocol: backend.protocol.as_str(),
        state: state.as_str(),
        reason: reason(state),
        is_believed: !pool.is_panicking(),
        weight: backend.weight.load(Relaxed),
        in_flight: backend.in_flight(),
        queued: pool.queued(),
        connections: backend.connections.load(Relaxed),
        requests: totals.requests.load(Relaxed),
        failures: totals.failures.load(Relaxed),
        latency_seconds: Some(backend.latency_ns()).filter(|ns| *ns > 0).map(|ns| seconds(0, ns)),
        idle_timeout_seconds: seconds(0, backend.idle_ns(&pool.settings)),
        received_bytes: totals.received_bytes.load(Relaxed),
        sent_bytes: totals.sent_bytes.load(Relaxed),
    }
}

pub(crate) fn learnt_of(backend: &Backend) -> LearntBackend {
    LearntBackend {
        backend: backend.name.clone(),
        latency: Duration::from_nanos(backend.latency_ns()),
        keeps_idle: backend.learnt_idle_ns().map(Duration::from_nanos),
        connections: backend.connections.load(Relaxed),
    }
}

/// Tells a backend what another edge knows of it; it needs no slow start then.
pub(crate) fn teach(backend: &Backend, learnt: &LearntBackend) {
    backend.know(nanos(learnt.latency));
    if let Some(span) = learnt.keeps_idle {
        backend.learn_idle(nanos(span));
    }
}
