//! The running edge behind one lock: its configuration as it is now, changes to it, and who takes
//! its place.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rustix::net::sockopt::socket_peercred;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use weir_config::{Config, KEYS, Key, Values};
use weir_edge::{BackendSettings, BackendState, CertificateState, Edge, ListenerState};
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_process::service;
use weir_tables::Micros;

use super::{edge_failure, export, handover, settings};

/// A backend's new weight, as the API takes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightChange {
    backend: String,
    weight: u32,
}

/// What changes an edge and tells about it.
pub struct EdgeControl {
    running: Mutex<Option<ControlledEdge>>,
    changing: Mutex<()>,
    replaced: Notify,
    /// Held until this process ends, which its closing tells the weir at the other end.
    successor: Mutex<Option<UnixStream>>,
}

struct ControlledEdge {
    edge: Edge,
    /// The configuration that it runs with.
    values: Values,
}

impl EdgeControl {
    pub(super) fn new(edge: Edge, values: Values) -> Self {
        let running = Mutex::new(Some(ControlledEdge { edge, values }));
        Self {
            running,
            changing: Mutex::default(),
            replaced: Notify::new(),
            successor: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<ControlledEdge>> {
        self.running.lock()
    }

    fn with<T>(
        &self,
        then: impl FnOnce(&mut ControlledEdge) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match &mut *self.lock() {
            Some(inner) => then(inner),
            None => Err(Failure::new("the edge is ending")),
        }
    }

    /// Takes the section `[edge]` of `values`; what changes, one line each. With `is_dry_run`
    /// nothing does.
    pub(super) fn change(&self, values: &Values, is_dry_run: bool) -> Result<Vec<String>, Failure> {
        let _turn = self.turn();
        self.change_to(values, is_dry_run)
    }

    /// Serialises changes, during which names are resolved; reads of the state do not take this
    /// lock.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    fn change_to(&self, values: &Values, is_dry_run: bool) -> Result<Vec<String>, Failure> {
        let new = settings(values)?;
        if is_dry_run {
            weir_edge::check_certificates(&new).map_err(edge_failure)?;
            return Ok(settings(&self.values()?)?.differences(&new));
        }
        self.with(|inner| {
            let lines = inner.edge.change(&new).map_err(edge_failure)?;
            inner.values.edge = values.edge.clone();
            Ok(lines)
        })
    }

    fn values(&self) -> Result<Values, Failure> {
        self.with(|inner| Ok(inner.values.clone()))
    }

    /// Makes a change on a thread that does not serve: files are read and names looked up
    /// meanwhile.
    pub async fn change_apart(
        self: &Arc<Self>,
        is_dry_run: bool,
        work: impl FnOnce(&Self) -> Result<Vec<String>, Failure> + Send + 'static,
    ) -> Result<Vec<String>, Failure> {
        let control = Arc::clone(self);
        let changing = tokio::task::spawn_blocking(move || work(&control)).await;
        let changes = changing.map_err(|_| Failure::new("the change panicked"))??;
        if !changes.is_empty() && !is_dry_run {
            tracing::info!("the edge has changed by request: {}", changes.join("; "));
        }
        Ok(changes)
    }

    /// Takes a configuration that has no other section than `[edge]`.
    pub fn change_text(&self, text: &str, is_dry_run: bool) -> Result<Vec<String>, Failure> {
        let config = Config::read(Path::new("configuration"), text)?;
        if let Some(key) = KEYS
            .iter()
            .filter(|key| key.section != "edge")
            .find(|key: &&Key| config.origin(key) != "default")
        {
            return Err(Failure::new(format!(
                "cannot change `{}.{}` while weir runs",
                key.section, key.name
            ))
            .hint("only keys of `[edge]` can be changed here")
            .code(EXIT_CONFIG));
        }
        let _turn = self.turn();
        let values = Values { edge: config.values.edge, ..self.values()? };
        self.change_to(&values, is_dry_run)
    }

    /// Gives a backend, named by its address or as it is written, another weight; 0 drains it.
    pub fn set_weight(&self, wish: &WeightChange) -> Result<Vec<String>, Failure> {
        let (backend, weight) = (wish.backend.as_str(), wish.weight);
        let _turn = self.turn();
        let mut values = self.values()?;
        let written = self.with(|inner| Ok(inner.edge.backend_name(backend)))?;
        let mut is_found = false;
        for text in &mut values.edge.backends {
            let parsed = BackendSettings::parse(text).map_err(edge_failure)?;
            if parsed.name == backend || Some(&parsed.name) == written.as_ref() {
                *text = with_weight(text, weight);
                is_found = true;
            }
        }
        if !is_found {
            return Err(Failure::new(format!(
                "cannot set the weight of the backend `{backend}`: there is no such backend"
            ))
            .hint("`weir edge show` lists them"));
        }
        self.change_to(&values, false)
    }

    /// The configuration that it runs with, as TOML.
    pub fn config(&self) -> Result<String, Failure> {
        self.with(|inner| Ok(export::config(&inner.values)))
    }

    /// The current state, as JSON.
    pub fn state(&self) -> Result<Value, Failure> {
        self.with(|inner| {
            let state = inner.edge.state();
            Ok(json!({
                "host": inner.values.collect.host,
                "threads": inner.edge.thread_count(),
                "balance": inner.values.edge.balance,
                "beacon": inner.values.edge.beacon,
                "listeners": state.listeners.iter().map(listener).collect::<Vec<_>>(),
                "backends": state.backends.iter().map(backend).collect::<Vec<_>>(),
                "certificates": state.certificates.iter().map(certificate).collect::<Vec<_>>(),
            }))
        })
    }

    /// Configuration and what was learnt, as JSON; it holds secrets.
    pub(super) fn export(&self) -> Result<Value, Failure> {
        self.with(|inner| Ok(export::export(&inner.values, &inner.edge.learnt())))
    }

    /// Takes what another edge exported.
    pub(super) fn apply(&self, export: &Value, is_dry_run: bool) -> Result<Vec<String>, Failure> {
        let (config, learnt) = export::import(export)?;
        let lines = self.change_text(&config, is_dry_run)?;
        if !is_dry_run {
            self.with(|inner| {
                inner.edge.teach(&learnt);
                Ok(())
            })?;
        }
        Ok(lines)
    }

    /// Gives the sockets to the weir at the other end, and then the place, when that one serves.
    pub(super) fn hand_over(&self, stream: UnixStream) -> Result<(), Failure> {
        let parcel = self.with(|inner| {
            let sockets = inner.edge.sockets().map_err(edge_failure)?;
            Ok((export::export(&inner.values, &inner.edge.learnt()), sockets))
        })?;
        handover::give(&stream, &parcel.0, parcel.1)?;
        if let Ok(peer) = socket_peercred(&stream) {
            service::main_process(peer.pid.as_raw_nonzero().get().unsigned_abs());
        }
        tracing::info!("another weir has taken the edge's place: this one ends");
        *self.successor.lock() = Some(stream);
        self.replaced.notify_one();
        Ok(())
    }

    /// Until another weir has taken the place.
    pub(super) async fn replaced(&self) {
        self.replaced.notified().await;
    }

    /// Ends the edge; slowly, when another one serves in its place.
    pub(super) fn end(&self) {
        let Some(inner) = self.lock().take() else { return };
        let has_successor = self.successor.lock().is_some();
        if has_successor { inner.edge.leave() } else { inner.edge.end() }
    }
}

/// A backend as it is written, with another weight: `[POOL=][PROTOCOL://]HOST:PORT*WEIGHT[@ZONE]`.
fn with_weight(text: &str, weight: u32) -> String {
    let (rest, zone) = text.split_at(text.rfind('@').unwrap_or(text.len()));
    let bare = rest.split_once('*').map_or(rest, |(bare, _)| bare).trim();
    format!("{bare}*{weight}{zone}")
}

fn listener(one: &ListenerState) -> Value {
    json!({
        "listener": one.address.to_string(),
        "is_tls": one.is_tls,
        "is_h2c": one.is_h2c,
        "idle_seconds": one.idle.as_secs_f64(),
        "connections": one.connections,
        "accepted_total": one.accepted,
        "refused_total": one.refused,
        "requests_total": one.requests,
        "received_bytes_total": one.received_bytes,
        "sent_bytes_total": one.sent_bytes,
    })
}

fn certificate(one: &CertificateState) -> Value {
    json!({
        "names": one.names,
        "authority": one.authority,
        "path": one.path.display().to_string(),
        "state": one.state,
        "not_before": one.not_before.map(time_text),
        "not_after": one.not_after.map(time_text),
        "failures": one.failures,
        "failure": one.failure,
        "next_attempt_ts": time_text(one.next),
    })
}

fn time_text(micros: Micros) -> String {
    micros.to_string()
}

fn backend(one: &BackendState) -> Value {
    json!({
        "pool": one.pool,
        "backend": one.backend,
        "zone": one.zone,
        "protocol": one.protocol,
        "state": one.state,
        "reason": one.reason,
        "is_believed": one.is_believed,
        "weight": one.weight,
        "in_flight": one.in_flight,
        "queued": one.queued,
        "connections": one.connections,
        "requests_total": one.requests,
        "failures_total": one.failures,
        "latency_seconds": one.latency_seconds,
        "idle_timeout_seconds": one.idle_timeout_seconds,
        "received_bytes_total": one.received_bytes,
        "sent_bytes_total": one.sent_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::with_weight;

    #[test]
    fn a_weight_is_changed_and_nothing_else() {
        for (text, changed) in [
            ("10.0.0.5:80", "10.0.0.5:80*7"),
            ("10.0.0.5:80*3", "10.0.0.5:80*7"),
            ("api=h2://app:80*3@eu-1a", "api=h2://app:80*7@eu-1a"),
            ("[::1]:80@b", "[::1]:80*7@b"),
        ] {
            assert_eq!(with_weight(text, 7), changed);
        }
    }
}
