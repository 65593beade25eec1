//! Connections to backends at rest, of one thread. The contract of keep-alive: the edge closes first.
//!
//! A backend that closes an idle connection while a request is on its way to it answers with nothing. So a connection
//! rests less long than the backend keeps it: as configured, as the backend says (`Keep-Alive: timeout=5`), or as it has
//! shown by closing two connections at the same age, not at the same moment.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::pool::backend::Backend;
use crate::settings::UpstreamSettings;
use crate::upstream::{SharedConnection, Upstream};
use crate::worker::LiveConfig;

/// Connections at rest to one backend; more are closed.
const IDLE_MAX: usize = 512;

/// Connections at rest by backend.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "they are large and come and go boxed")]
pub(crate) struct IdlePool {
    by_backend: FxHashMap<SocketAddr, Vec<Box<Upstream>>>,
    /// Connections with HTTP/2, which others may use while they are in use; the first is filled first.
    shared: FxHashMap<SocketAddr, Vec<Rc<SharedConnection>>>,
    /// Who waits for one of them to be made.
    awaited: FxHashMap<SocketAddr, Rc<PendingConnect>>,
}

/// A connection that is being made and that others wait for.
#[derive(Debug, Default)]
pub(crate) struct PendingConnect {
    pub(crate) made: Notify,
    /// Whether it is made; else it could not be.
    pub(crate) is_good: Cell<bool>,
}

impl IdlePool {
    /// The connection that rested least, or a place on one that is shared, if there is one that can be used.
    pub(crate) fn take(
        &mut self,
        backend: &Arc<Backend>,
        now: u64,
        settings: &UpstreamSettings,
    ) -> Option<Box<Upstream>> {
        if backend.protocol.is_h2() {
            let shared = self.shared.get(&backend.address)?.iter();
            return shared
                .filter(|one| Arc::ptr_eq(&one.backend, backend))
                .filter(|one| one.idle_ns(now).is_none_or(|age| age < backend.idle_ns(settings)))
                .find_map(SharedConnection::upstream);
        }
        let idle = self.by_backend.get_mut(&backend.address)?;
        while let Some(mut upstream) = idle.pop() {
            let age = now.saturating_sub(upstream.idle_since);
            // Another than the backend's own is of a configuration that spoke otherwise with it.
            if age >= backend.idle_ns(settings) || !Arc::ptr_eq(&upstream.backend, backend) {
                continue;
            }
            if upstream.is_usable() {
                return Some(upstream);
            }
            backend.closed_idle(now, age);
        }
        None
    }

    /// Who makes the connection to a backend that others will share: `None` is whoever asks, and others wait.
    pub(crate) fn awaited(&mut self, backend: SocketAddr) -> Option<Rc<PendingConnect>> {
        if let Some(awaited) = self.awaited.get(&backend) {
            return Some(Rc::clone(awaited));
        }
        self.awaited.insert(backend, Rc::default());
        None
    }

    /// It is made, or cannot be.
    pub(crate) fn made(&mut self, backend: SocketAddr) {
        if let Some(awaited) = self.awaited.remove(&backend) {
            awaited.made.notify_waiters();
        }
    }

    /// Others may use the connection as well.
    pub(crate) fn share(&mut self, shared: &Rc<SharedConnection>) {
        if let Some(awaited) = self.awaited.get(&shared.backend.address) {
            awaited.is_good.set(true);
        }
        let all = self.shared.entry(shared.backend.address).or_default();
        if !all.iter().any(|one| Rc::ptr_eq(one, shared)) {
            all.push(Rc::clone(shared));
        }
    }

    /// A request is over and the connection can carry another.
    pub(crate) fn put(&mut self, mut upstream: Box<Upstream>, now: u64) {
        if let Some(shared) = upstream.shared() {
            return self.share(shared);
        }
        upstream.idle_since = now;
        let idle = self.by_backend.entry(upstream.backend.address).or_default();
        if idle.len() < IDLE_MAX {
            idle.push(upstream);
        }
    }

    /// Closes what rested long enough, and lets go of what the backend has closed.
    pub(crate) fn sweep(&mut self, now: u64, live: &LiveConfig) {
        let pool_of = |address| live.backends().find(|(_, backend)| backend.address == address);
        for (address, idle) in &mut self.by_backend {
            // Who is in no pool any more gets no requests.
            let Some((pool, _)) = pool_of(*address) else {
                idle.clear();
                continue;
            };
            let settings = &pool.settings;
            idle.retain_mut(|upstream| {
                let age = now.saturating_sub(upstream.idle_since);
                if age >= upstream.backend.idle_ns(settings) {
                    return false;
                }
                let is_usable = upstream.is_usable();
                if !is_usable {
                    upstream.backend.closed_idle(now, age);
                }
                is_usable
            });
        }
        self.by_backend.retain(|_, idle| !idle.is_empty());
        for (address, all) in &mut self.shared {
            let pool = pool_of(*address).map(|(pool, _)| pool);
            all.retain(|one| {
                let Some(age) = one.idle_ns(now) else { return !one.is_closed() };
                if one.is_closed() {
                    one.backend.closed_idle(now, age);
                }
                let limit = pool.map_or(0, |pool| one.backend.idle_ns(&pool.settings));
                !one.is_closed() && age < limit
            });
        }
        self.shared.retain(|_, all| !all.is_empty());
    }

    /// Closes everything, such as what a stalled backend has.
    pub(crate) fn close(&mut self, backend: SocketAddr) {
        self.by_backend.remove(&backend);
        self.shared.remove(&backend);
    }
}
