//! Rows about backends and listeners: every ten seconds, and for a backend also when its state
//! changes, its idle timeout is learned, or other checks of its health response fail.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustc_hash::FxHashMap;
use weir_tables::{EdgeBackend, EdgeBackendRows, EdgeListener, EdgeListenerRows, Micros};

use crate::client::listener::{Listener, backlog_limit};
use crate::live::LiveConfig;
use crate::pool::Pool;
use crate::pool::backend::{Backend, HealthState};
use crate::record::take;
use crate::shared::SharedState;
use crate::time::{MonoTime, Nanos};

const INTERVAL: Nanos = Nanos::from_secs(10);

#[derive(Default)]
pub(crate) struct StateReporter {
    /// Each backend, by pool and name, as it was at its last report.
    known: FxHashMap<(String, String), KnownBackend>,
    next: MonoTime,
}

/// What a backend's row is written for at once.
#[derive(PartialEq, Eq)]
struct KnownBackend {
    state: HealthState,
    learnt_idle: Option<Nanos>,
    /// Names of its failed checks; their figures move all the time.
    failed_checks: Vec<String>,
}

impl KnownBackend {
    fn of(backend: &Backend, state: HealthState) -> Self {
        let record = backend.check_record.lock();
        let failed = record.report.failed.iter().map(|check| check.name.clone());
        Self { state, learnt_idle: backend.learnt_idle(), failed_checks: failed.collect() }
    }
}

fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl StateReporter {
    /// Reports changed backends; reports everything at each interval and at the end.
    pub(crate) fn report(
        &mut self,
        now: MonoTime,
        live: &LiveConfig,
        shared: &SharedState,
        is_end: bool,
    ) {
        let is_due = now >= self.next || is_end;
        if is_due {
            self.next = now + INTERVAL;
        }
        let ts = shared.clock.now();
        let mut backends = EdgeBackendRows::default();
        for (pool, backend) in live.backends() {
            let state = backend.state(now, &pool.settings);
            let known = KnownBackend::of(backend, state);
            // Two pools may share an address, and names that do not resolve have none.
            let key = (pool.name.clone(), backend.name.clone());
            let before = self.known.get(&key);
            let state_before = before.map(|known| known.state);
            if state_before != Some(state) {
                log_change(backend, state_before, state);
            }
            if is_due || before != Some(&known) {
                push(&mut backends, ts, &live.settings.host, backend, state, pool);
            }
            self.known.insert(key, known);
        }
        let mut batches = Vec::new();
        take(&mut backends, &mut batches);
        if is_due {
            take(&mut listeners(ts, live, &shared.listeners()), &mut batches);
        }
        if !batches.is_empty() {
            (shared.sink)(batches);
        }
    }
}

fn log_change(backend: &Backend, before: Option<HealthState>, state: HealthState) {
    let name = &backend.name;
    match (before, state) {
        (None, _) | (Some(HealthState::SlowStart), HealthState::Up) => {}
        (_, HealthState::Up | HealthState::SlowStart) => {
            tracing::info!("backend `{name}` is up again")
        }
        _ => tracing::warn!(
            "backend `{name}` gets no requests: {}",
            reason(state).unwrap_or_default()
        ),
    }
}

/// The value of column `reason`.
pub(crate) fn reason(state: HealthState) -> Option<&'static str> {
    match state {
        HealthState::Up => None,
        HealthState::SlowStart => Some("it has recovered and gets its full share step by step"),
        HealthState::CheckFailed => Some("it fails its checks"),
        HealthState::Ejected => Some("consecutive requests to it failed"),
        HealthState::Stalled => Some("it accepts connections but does not respond"),
        HealthState::Draining => Some("its weight is 0"),
        HealthState::Unresolved => Some("its name does not resolve"),
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
        latency_seconds: backend.latency_seconds(),
        idle_timeout_seconds: backend.idle_timeout(&pool.settings).as_seconds(),
        received_bytes_total: int(totals.received_bytes.load(Relaxed)),
        sent_bytes_total: int(totals.sent_bytes.load(Relaxed)),
        failed_checks: backend.failed_checks().as_deref(),
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
