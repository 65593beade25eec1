//! A thread's pool of idle connections to backends, under the keep-alive contract: the edge closes
//! first.
//!
//! If a backend closes an idle connection while a request is in transit, the response is empty.
//! Connections are therefore pooled for less time than the backend keeps them: as configured, as
//! the backend announces (`Keep-Alive: timeout=5`), or as it has shown by closing two connections
//! at the same age at different times.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::live::LiveConfig;
use crate::pool::Pool;
use crate::pool::backend::Backend;
use crate::settings::UpstreamSettings;
use crate::time::MonoTime;
use crate::upstream::{SharedConnection, Upstream};

/// Idle connections to one backend; more are closed.
const IDLE_MAX: usize = 512;

#[derive(Default)]
#[expect(clippy::vec_box, reason = "they are large and come and go boxed")]
pub(crate) struct IdlePool {
    by_backend: FxHashMap<SocketAddr, Vec<Box<Upstream>>>,
    /// HTTP/2 connections, which several requests use at once; the first is filled first.
    shared: FxHashMap<SocketAddr, Vec<Rc<SharedConnection>>>,
    /// Shared connections being opened, which requests wait for.
    pending: FxHashMap<SocketAddr, Rc<PendingConnect>>,
}

/// A shared connection that is being opened while other requests wait for it.
#[derive(Debug, Default)]
pub(crate) struct PendingConnect {
    pub(crate) done: Notify,
    pub(crate) has_succeeded: Cell<bool>,
}

impl IdlePool {
    /// The connection that was idle for the shortest time, or a stream on a shared one.
    pub(crate) fn take(
        &mut self,
        backend: &Arc<Backend>,
        now: MonoTime,
        settings: &UpstreamSettings,
    ) -> Option<Box<Upstream>> {
        let idle_timeout = backend.idle_timeout(settings);
        if backend.protocol.is_h2() {
            let shared = self.shared.get(&backend.address)?.iter();
            return shared
                .filter(|one| Arc::ptr_eq(&one.backend, backend))
                .filter(|one| one.idle_time(now).is_none_or(|age| age < idle_timeout))
                .find_map(SharedConnection::upstream);
        }
        let idle = self.by_backend.get_mut(&backend.address)?;
        while let Some(mut upstream) = idle.pop() {
            let age = now.since(upstream.idle_since);
            // A different `Backend` belongs to an earlier configuration, with another protocol.
            if age >= idle_timeout || !Arc::ptr_eq(&upstream.backend, backend) {
                continue;
            }
            if upstream.is_usable_after(age) {
                return Some(upstream);
            }
            backend.record_idle_close(now, age);
        }
        None
    }

    /// The pending connect to wait for; `None` makes the caller the one that connects.
    pub(crate) fn pending_connect(&mut self, backend: SocketAddr) -> Option<Rc<PendingConnect>> {
        if let Some(pending) = self.pending.get(&backend) {
            return Some(Rc::clone(pending));
        }
        self.pending.insert(backend, Rc::default());
        None
    }

    /// Wakes the requests that wait for a connect, whether or not it succeeded.
    pub(crate) fn finish_connect(&mut self, backend: SocketAddr) {
        if let Some(pending) = self.pending.remove(&backend) {
            pending.done.notify_waiters();
        }
    }

    /// Makes an HTTP/2 connection available to other requests.
    pub(crate) fn share(&mut self, shared: &Rc<SharedConnection>) {
        if let Some(pending) = self.pending.get(&shared.backend.address) {
            pending.has_succeeded.set(true);
        }
        let all = self.shared.entry(shared.backend.address).or_default();
        if !shared.is_draining() && !all.iter().any(|one| Rc::ptr_eq(one, shared)) {
            all.push(Rc::clone(shared));
        }
    }

    /// Pools a connection whose request is complete.
    pub(crate) fn put(&mut self, mut upstream: Box<Upstream>, now: MonoTime) {
        if let Some(shared) = upstream.shared() {
            return self.share(shared);
        }
        upstream.idle_since = now;
        let idle = self.by_backend.entry(upstream.backend.address).or_default();
        if idle.len() < IDLE_MAX {
            idle.push(upstream);
        }
    }

    /// Closes connections that were idle for too long and drops the ones that the backend closed.
    pub(crate) fn sweep(&mut self, now: MonoTime, live: &LiveConfig) {
        for (address, idle) in &mut self.by_backend {
            // A backend that is in no pool any more gets no requests.
            let Some(pool) = pool_of(live, *address) else {
                idle.clear();
                continue;
            };
            let settings = &pool.settings;
            idle.retain_mut(|upstream| {
                let age = now.since(upstream.idle_since);
                if age >= upstream.backend.idle_timeout(settings) {
                    return false;
                }
                let is_usable = upstream.is_usable();
                if !is_usable {
                    upstream.backend.record_idle_close(now, age);
                }
                is_usable
            });
        }
        self.by_backend.retain(|_, idle| !idle.is_empty());
        for (address, all) in &mut self.shared {
            let pool = pool_of(live, *address);
            all.retain(|one| {
                if one.is_draining() {
                    return false;
                }
                let Some(age) = one.idle_time(now) else { return !one.is_closed() };
                if one.is_closed() {
                    one.backend.record_idle_close(now, age);
                }
                let settings = pool.map(|pool| &pool.settings);
                !one.is_closed()
                    && settings.is_some_and(|settings| age < one.backend.idle_timeout(settings))
            });
        }
        self.shared.retain(|_, all| !all.is_empty());
    }

    /// Closes all connections to a backend, for instance when it has stalled.
    pub(crate) fn close(&mut self, backend: SocketAddr) {
        self.by_backend.remove(&backend);
        self.shared.remove(&backend);
    }
}

fn pool_of(live: &LiveConfig, address: SocketAddr) -> Option<&Arc<Pool>> {
    live.backends().find(|(_, backend)| backend.address == address).map(|(pool, _)| pool)
}
