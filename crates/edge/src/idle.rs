//! Connections to backends at rest, of one thread. The contract of keep-alive: the edge closes first.
//!
//! A backend that closes an idle connection while a request is on its way to it answers with nothing. So a connection
//! rests less long than the backend keeps it: as configured, as the backend says (`Keep-Alive: timeout=5`), or as it has
//! shown by closing two connections in a row at the same age.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustc_hash::FxHashMap;

use crate::backend::Backend;
use crate::settings::UpstreamSettings;
use crate::upstream::Upstream;
use crate::worker::Live;

/// Connections at rest to one backend; more are closed.
const IDLE_MAX: usize = 512;
/// A backend that closes earlier has restarted, or is full; that teaches nothing.
const LEARNT_MIN_NS: u64 = 500_000_000;

/// Connections at rest by backend.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "they are large and come and go boxed")]
pub(crate) struct IdlePool {
    by_backend: FxHashMap<SocketAddr, Vec<Box<Upstream>>>,
    /// The age at which a backend last closed one.
    closed_at_age: Cell<(Option<SocketAddr>, u64)>,
}

impl IdlePool {
    /// The connection that rested least, if there is one that can be used.
    pub(crate) fn take(
        &mut self,
        backend: &Arc<Backend>,
        now: u64,
        settings: &UpstreamSettings,
    ) -> Option<Box<Upstream>> {
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
            note_closed(&self.closed_at_age, &upstream, age);
        }
        None
    }

    /// A request is over and the connection can carry another.
    pub(crate) fn put(&mut self, mut upstream: Box<Upstream>, now: u64) {
        upstream.idle_since = now;
        let idle = self.by_backend.entry(upstream.backend.address).or_default();
        if idle.len() < IDLE_MAX {
            idle.push(upstream);
        }
    }

    /// Closes what rested long enough, and lets go of what the backend has closed.
    pub(crate) fn sweep(&mut self, now: u64, live: &Live) {
        let pool_of = |address| live.backends().find(|(_, backend)| backend.address == address);
        let closed_at_age = &self.closed_at_age;
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
                    note_closed(closed_at_age, upstream, age);
                }
                is_usable
            });
        }
        self.by_backend.retain(|_, idle| !idle.is_empty());
    }

    /// Closes everything, such as what a stalled backend has.
    pub(crate) fn close(&mut self, backend: SocketAddr) {
        self.by_backend.remove(&backend);
    }
}

/// The backend closed first.
fn note_closed(last: &Cell<(Option<SocketAddr>, u64)>, upstream: &Upstream, age: u64) {
    let backend = &upstream.backend;
    backend.totals.idle_closed.fetch_add(1, Relaxed);
    let (address, before) = last.replace((Some(backend.address), age));
    let is_alike = before.abs_diff(age) < age / 5;
    if address == Some(backend.address) && is_alike && age >= LEARNT_MIN_NS {
        backend.learn_idle(age.min(before));
    }
}
