//! How late answers of a route come, so that a long poll is not taken for a hung backend.
//!
//! Silence is a symptom only if an answer was due. The table remembers the slowest answer of each
//! route in the last minutes, for a fixed number of routes; a route without an entry may take as
//! long as the configuration allows. Two routes that share an entry overwrite each other, which
//! makes the edge more patient, never less.
//!
//! ```text
//!   entry:  tag of the route (24 bits) │ slowest answer, ms (24 bits) │ when, in 16 s (16 bits)
//! ```

use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::Method;
use rustc_hash::FxHasher;

use crate::time::{MonoTime, Nanos};

/// Entries of the table, 8 bytes each.
const ENTRIES: usize = 1024;
/// How long the slowest answer counts, in ticks of 16 s: about ten minutes.
const TTL_TICKS: u16 = 38;
const TICK_SECONDS: u64 = 16;
const MILLIS_MAX: u64 = (1 << 24) - 1;
/// Segments of a path that distinguish routes.
const SEGMENTS_MAX: usize = 6;
/// Longer segments are names of single objects.
const SEGMENT_BYTES_MAX: usize = 32;

/// A route: a method and a path without what looks like the name of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct RouteKey(u64);

impl RouteKey {
    pub(crate) fn of(method: &Method, path: &str) -> Self {
        let mut hasher = FxHasher::default();
        hasher.write(method.as_str().as_bytes());
        for segment in path.split('/').skip(1).take(SEGMENTS_MAX) {
            let is_object =
                segment.len() > SEGMENT_BYTES_MAX || segment.bytes().any(|b| b.is_ascii_digit());
            hasher.write(if is_object { b"*" } else { segment.as_bytes() });
            hasher.write_u8(b'/');
        }
        Self(hasher.finish())
    }

    fn entry(self) -> usize {
        (self.0 >> 54) as usize % ENTRIES
    }

    fn tag(self) -> u64 {
        self.0 & 0x00ff_ffff
    }
}

/// The slowest answers of a pool's routes.
#[derive(Debug)]
pub(crate) struct RouteTimes(Box<[AtomicU64]>);

impl Default for RouteTimes {
    fn default() -> Self {
        Self((0..ENTRIES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl RouteTimes {
    /// Records how long an answer of the route took to begin.
    pub(crate) fn record(&self, route: RouteKey, took: Nanos, now: MonoTime) {
        let entry = &self.0[route.entry()];
        let (old, tick) = (entry.load(Relaxed), tick(now));
        let millis = (took.0 / 1_000_000).min(MILLIS_MAX);
        let is_known = old != 0 && old >> 40 == route.tag() && age(old, tick) < TTL_TICKS;
        if !is_known || millis > slowest(old) {
            entry.store(route.tag() << 40 | millis << 16 | u64::from(tick), Relaxed);
        }
    }

    /// The slowest answer of the route in the last minutes; `None` if none is known.
    pub(crate) fn slowest(&self, route: RouteKey, now: MonoTime) -> Option<Nanos> {
        let entry = self.0[route.entry()].load(Relaxed);
        let is_known =
            entry != 0 && entry >> 40 == route.tag() && age(entry, tick(now)) < TTL_TICKS;
        is_known.then(|| Nanos::from_millis(slowest(entry) + 1))
    }
}

fn slowest(entry: u64) -> u64 {
    entry >> 16 & MILLIS_MAX
}

/// The time in ticks, which may wrap; never 0, so that no entry is 0.
fn tick(now: MonoTime) -> u16 {
    let ticks = now.since(MonoTime::NEVER).0 / 1_000_000_000 / TICK_SECONDS;
    u16::try_from(ticks % u64::from(u16::MAX)).unwrap_or(0) + 1
}

fn age(entry: u64, tick: u16) -> u16 {
    let at = u16::try_from(entry & 0xffff).unwrap_or(0);
    tick.wrapping_sub(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> MonoTime {
        MonoTime::NEVER + Nanos::from_secs(seconds)
    }

    fn get(path: &str) -> RouteKey {
        RouteKey::of(&Method::GET, path)
    }

    #[test]
    fn objects_of_one_kind_are_one_route() {
        assert_eq!(get("/carts/17/items"), get("/carts/4711/items"));
        let ids = [
            "/u/3fa85f64-5717-4562-b3fc-2c963f66afa6",
            "/u/abcdefghijklmnopqrstuvwxyzabcdefghijkl",
        ];
        assert_eq!(get(ids[0]), get(ids[1]));
        assert_ne!(get("/poll"), get("/"));
        assert_ne!(get("/poll"), get("/poll/x"));
        assert_ne!(get("/poll"), RouteKey::of(&Method::POST, "/poll"));
    }

    #[test]
    fn the_slowest_answer_counts_for_ten_minutes() {
        let times = RouteTimes::default();
        let poll = get("/poll");
        assert_eq!(times.slowest(poll, at(100)), None);
        times.record(poll, Nanos::from_secs(8), at(100));
        times.record(poll, Nanos::from_millis(3), at(101));
        assert_eq!(times.slowest(poll, at(600)), Some(Nanos::from_millis(8001)));
        assert_eq!(times.slowest(get("/"), at(600)), None);
        assert_eq!(times.slowest(poll, at(800)), None);
        times.record(poll, Nanos::from_millis(3), at(801));
        assert_eq!(times.slowest(poll, at(802)), Some(Nanos::from_millis(4)));
    }
}
