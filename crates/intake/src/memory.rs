//! Memory of what is in flight: taken as bytes arrive or are decompressed, given back at the end.
//!
//! ```text
//!  chunk of a body ──► grow ──► decompress 64 KiB ──► grow ──► … ──► stored ──► drop: all is free
//! ```
//!
//! No sender and no protocol can take everything: an address has at most a half of the pool for one
//! protocol and three quarters in all, a protocol three quarters. The surprising thing: a hold that
//! is the only one of its kind may exceed that share, or a body of the largest size could never
//! pass a small pool.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::counts::BatchOrigin;

/// Memory for the bytes of all senders.
#[derive(Debug)]
pub(crate) struct MemoryPool {
    limit: usize,
    used: Mutex<HashMap<ShareKey, usize>>,
    freed: Notify,
}

/// Whose bytes are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ShareKey {
    All,
    Protocol(&'static str),
    Peer(IpAddr),
    Origin(BatchOrigin),
}

impl ShareKey {
    /// The sums that bytes of one origin belong to.
    fn of(origin: BatchOrigin) -> impl Iterator<Item = Self> {
        let of_peer = origin.peer.into_iter();
        let of_peer = of_peer.flat_map(move |peer| [Self::Peer(peer), Self::Origin(origin)]);
        [Self::All, Self::Protocol(origin.protocol)].into_iter().chain(of_peer)
    }

    fn limit(self, pool: usize) -> usize {
        match self {
            Self::All => pool,
            Self::Protocol(_) | Self::Peer(_) => pool / 4 * 3,
            Self::Origin(_) => pool / 2,
        }
    }
}

impl MemoryPool {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: Mutex::default(), freed: Notify::new() })
    }

    /// A hold of no bytes yet.
    pub(crate) fn hold(self: &Arc<Self>, origin: BatchOrigin) -> MemoryHold {
        let pool = Arc::clone(self);
        MemoryHold(Arc::new(HeldBytes { pool, origin, bytes: Mutex::new(0) }))
    }

    /// Bytes that one hold may take at once, however small the pool is.
    pub(crate) fn capped(&self, bytes: usize) -> usize {
        bytes.min(self.limit / 2).max(1)
    }
}

/// Bytes of one request, connection or batch. Clones share them; the last one gives them back.
#[derive(Clone, Debug)]
pub(crate) struct MemoryHold(Arc<HeldBytes>);

#[derive(Debug)]
struct HeldBytes {
    pool: Arc<MemoryPool>,
    origin: BatchOrigin,
    bytes: Mutex<usize>,
}

impl MemoryHold {
    pub(crate) fn bytes(&self) -> usize {
        *self.0.bytes.lock()
    }

    /// Takes more bytes, if they are free.
    pub(crate) fn try_grow(&self, more: usize) -> bool {
        let HeldBytes { pool, origin, bytes } = &*self.0;
        let (mut own, mut used) = (bytes.lock(), pool.used.lock());
        let fits = ShareKey::of(*origin).all(|key| {
            let sum = used.get(&key).copied().unwrap_or(0);
            sum + more <= key.limit(pool.limit) || sum == *own
        });
        if fits && more > 0 {
            ShareKey::of(*origin).for_each(|key| *used.entry(key).or_default() += more);
            *own += more;
        }
        fits
    }

    /// Waits until more bytes are free.
    pub(crate) async fn grow_eventually(&self, more: usize) {
        loop {
            let mut freed = std::pin::pin!(self.0.pool.freed.notified());
            freed.as_mut().enable();
            if self.try_grow(more) {
                return;
            }
            freed.await;
        }
    }

    /// Waits until bytes are returned to the pool.
    pub(crate) async fn freed(&self) {
        self.0.pool.freed.notified().await;
    }

    /// Waits for more bytes; `false` when they are not free in time.
    pub(crate) async fn grow(&self, more: usize, within: Duration) -> bool {
        self.try_grow(more)
            || tokio::time::timeout(within, self.grow_eventually(more)).await.is_ok()
    }

    /// Gives back what exceeds `bytes`.
    pub(crate) fn shrink_to(&self, bytes: usize) {
        let mut own = self.0.bytes.lock();
        let less = own.saturating_sub(bytes);
        *own -= less;
        self.0.give_back(less);
    }
}

impl HeldBytes {
    fn give_back(&self, less: usize) {
        if less == 0 {
            return;
        }
        let mut used = self.pool.used.lock();
        for key in ShareKey::of(self.origin) {
            if let Some(sum) = used.get_mut(&key) {
                *sum = sum.saturating_sub(less);
                if *sum == 0 {
                    used.remove(&key);
                }
            }
        }
        drop(used);
        self.pool.freed.notify_waiters();
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        self.give_back(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(protocol: &'static str, peer: u8) -> BatchOrigin {
        BatchOrigin { protocol, peer: Some([192, 0, 2, peer].into()) }
    }

    #[test]
    fn nobody_takes_everything_and_all_is_given_back() {
        let pool = MemoryPool::new(800);
        let [first, second] = [1, 1].map(|peer| pool.hold(origin("jsonl", peer)));
        assert!(first.try_grow(300) && second.try_grow(100));
        assert!(!second.try_grow(1), "an address has a half for one protocol");
        let other = pool.hold(origin("otlp_http", 1));
        assert!(other.try_grow(200));
        assert!(!other.try_grow(1), "and three quarters in all");
        let third = pool.hold(origin("jsonl", 2));
        assert!(third.try_grow(200));
        assert!(!pool.hold(origin("jsonl", 3)).try_grow(1), "a protocol has three quarters");
        assert!(!pool.hold(origin("fluent", 2)).try_grow(1), "all is used");
        second.shrink_to(40);
        assert!(pool.hold(origin("fluent", 2)).try_grow(60));
        let clone = first.clone();
        drop((first, second, other, third));
        assert_eq!(pool.used.lock()[&ShareKey::All], 300, "a clone keeps it");
        drop(clone);
        assert!(pool.used.lock().is_empty());
    }

    #[test]
    fn a_hold_that_is_alone_may_exceed_a_small_pool() {
        let pool = MemoryPool::new(100);
        let hold = pool.hold(origin("fluent", 1));
        assert!(hold.try_grow(60) && hold.try_grow(1000));
        assert!(!pool.hold(origin("syslog_tcp", 2)).try_grow(1));
        assert_eq!(hold.bytes(), 1060);
    }

    #[test]
    fn who_waits_gets_what_is_given_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("threads").block_on(async {
            let pool = MemoryPool::new(100);
            let (first, second) = (pool.hold(origin("a", 1)), pool.hold(origin("b", 2)));
            assert!(first.try_grow(80));
            assert!(!second.grow(50, Duration::from_millis(1)).await);
            let waits = tokio::spawn(async move { second.grow_eventually(50).await });
            tokio::task::yield_now().await;
            drop(first);
            waits.await.expect("it ends");
        });
    }
}
