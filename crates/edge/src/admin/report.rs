//! Rows about backends and listeners: every ten seconds, and a backend's when its state changes or its time-out is learnt.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustc_hash::FxHashMap;
use weir_tables::{EdgeBackend, EdgeBackendRows, EdgeListener, EdgeListenerRows, Micros};

use crate::client::listen::backlog_limit;
use crate::client::state::Listener;
use crate::pool::Pool;
use crate::pool::backend::{Backend, HealthState};
use crate::record::take;
use crate::time::seconds;
use crate::worker::{LiveConfig, SharedState};

const EVERY_NS: u64 = 10_000_000_000;

/// What was last reported.
#[derive(Default)]
pub(crate) struct StateReporter {
    /// The state, and after how long the backend closes idle connections, as far as that was known.
    known: FxHashMap<SocketAddr, (HealthState, Option<u64>)>,
    next: u64,
}

fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl StateReporter {
    /// Reports what has changed, and everything when it is time, or the edge ends.
    pub(crate) fn look(&mut self, now: u64, live: &LiveConfig, shared: &SharedState, is_end: bool) {
        let is_time = now >= self.next || is_end;
        if is_time {
            self.next = now + EVERY_NS;
        }
        let ts = shared.clock.now();
        let mut backends = EdgeBackendRows::default();
        for (pool, backend) in live.backends() {
            let state = backend.state(now, &pool.settings);
            let now_known = (state, backend.learnt_idle_ns());
            let before = self.known.insert(backend.address, now_known);
            let state_before = before.map(|(state, _)| state);
            if state_before != Some(state) {
                tell(backend, state_before, state);
            }
            if is_time || before != Some(now_known) {
                push(&mut backends, ts, &live.settings.host, backend, state, pool);
            }
        }
        let mut batches = Vec::new();
        take(&mut backends, &mut batches);
        if is_time {
            take(&mut listeners(ts, live, &shared.listeners()), &mut batches);
        }
        if !batches.is_empty() {
            (shared.sink)(batches);
        }
    }
}

fn tell(backend: &Backend, before: Option<HealthState>, state: HealthState) {
    let name = &backend.name;
    match (before, state) {
        (None, _) | (Some(HealthState::SlowStart), HealthState::Up) => {}
        (_, HealthState::Up | HealthState::SlowStart) => tracing::info!("backend `{name}` is back"),
        _ => tracing::warn!("backend `{name}` is out: {}", reason(state).unwrap_or_default()),
    }
}

pub(crate) fn reason(state: HealthState) -> Option<&'static str> {
    match state {
        HealthState::Up => None,
        HealthState::SlowStart => Some("it has just come back"),
        HealthState::CheckFailed => Some("it fails its checks"),
        HealthState::Ejected => Some("requests to it failed in a row"),
        HealthState::Stalled => Some("it accepts connections and answers nothing"),
        HealthState::Draining => Some("its weight is 0"),
    }
}

fn push(
    rows: &mut EdgeBackendRows,
    ts: Micros,
    host: &str,
    backend: &Backend,
    state: HealthState,
    pool: &Pool,
) {
    let totals = &backend.totals;
    rows.push(&EdgeBackend {
        ts,
        host,
        backend: &backend.name,
        pool: Some(pool.name.as_str()).filter(|name| !name.is_empty()),
        state: state.as_str(),
        reason: reason(state),
        is_believed: !pool.is_panicking(),
        weight: backend.weight.load(Relaxed).into(),
        in_flight: backend.in_flight().into(),
        queued: pool.queued().into(),
        requests_total: int(totals.requests.load(Relaxed)),
        failures_total: int(totals.failures.load(Relaxed)),
        retries_total: int(totals.retries.load(Relaxed)),
        idle_closed_total: int(totals.idle_closed.load(Relaxed)),
        idle_repeated_total: Some(int(totals.idle_repeated.load(Relaxed))),
        latency_seconds: Some(backend.latency_ns()).filter(|ns| *ns > 0).map(|ns| seconds(0, ns)),
        idle_timeout_seconds: seconds(0, backend.idle_ns(&pool.settings)),
        received_bytes_total: int(totals.received_bytes.load(Relaxed)),
        sent_bytes_total: int(totals.sent_bytes.load(Relaxed)),
    });
}

fn listeners(ts: Micros, live: &LiveConfig, listeners: &[Arc<Listener>]) -> EdgeListenerRows {
    let mut rows = EdgeListenerRows::default();
    let backlog_limit = backlog_limit().map(i64::from);
    for listener in listeners {
        rows.push(&EdgeListener {
            ts,
            host: &live.settings.host,
            listener: &listener.name,
            is_tls: listener.settings.is_tls,
            connections: int(listener.totals.open.load(Relaxed)),
            accepted_total: int(listener.totals.accepted.load(Relaxed)),
            refused_total: int(listener.totals.refused.load(Relaxed)),
            requests_total: int(listener.totals.requests.load(Relaxed)),
            received_bytes_total: int(listener.totals.received_bytes.load(Relaxed)),
            sent_bytes_total: int(listener.totals.sent_bytes.load(Relaxed)),
            backlog: listener.settings.backlog.into(),
            backlog_limit,
        });
    }
    rows
}
