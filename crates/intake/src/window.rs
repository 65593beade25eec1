//! Identities of recently stored items, to recognize repeats.
//!
//! ```text
//!  claim ──new──► pending ──commit──► kept ──(window is over, or too many)──► forgotten
//!                    └──release (not kept)──► forgotten
//! ```

use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use siphasher::sip::SipHasher13;
use weir_tables::Micros;

/// Most identities that are remembered; the oldest is forgotten. 48 bytes each.
pub const MAX_KNOWN: usize = 500_000;

/// A hash that identifies a row or batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity(pub(crate) u64);

impl Identity {
    /// Hashes parts in order. The hash is stable across runs, because `intake_batch` stores it.
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = SipHasher13::new();
        for part in parts {
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        Self(hasher.finish())
    }
}

/// State of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Seen for the first time; claimed until commit or release.
    New,
    /// Stored before.
    Known,
    /// Claimed by another request that is still being stored.
    Pending,
}

#[derive(Debug, Default)]
struct WindowInner {
    is_kept: HashMap<Identity, bool>,
    order: VecDeque<(Micros, Identity)>,
}

/// The identities of one hub.
#[derive(Debug)]
pub(crate) struct Window {
    inner: Mutex<WindowInner>,
    span: Duration,
}

impl Window {
    pub(crate) fn new(span: Duration) -> Self {
        Self { inner: Mutex::default(), span }
    }

    fn inner(&self) -> MutexGuard<'_, WindowInner> {
        self.inner.lock()
    }

    fn claim(&self, id: Identity) -> Claim {
        let mut inner = self.inner();
        match inner.is_kept.get(&id) {
            Some(true) => Claim::Known,
            Some(false) => Claim::Pending,
            None => {
                inner.is_kept.insert(id, false);
                Claim::New
            }
        }
    }

    /// Marks identities as stored at `now`, and forgets expired ones.
    pub(crate) fn commit(&self, ids: impl Iterator<Item = Identity>, now: Micros) {
        let mut inner = self.inner();
        for id in ids {
            if inner.is_kept.insert(id, true) != Some(true) {
                inner.order.push_back((now, id));
            }
        }
        while let Some((at, id)) = inner.order.front().copied() {
            if inner.order.len() <= MAX_KNOWN && now <= at + self.span {
                break;
            }
            inner.order.pop_front();
            inner.is_kept.remove(&id);
        }
    }

    fn release(&self, ids: &[Identity]) {
        let mut inner = self.inner();
        for id in ids {
            if inner.is_kept.get(id) == Some(&false) {
                inner.is_kept.remove(id);
            }
        }
    }
}

/// Identities claimed by one request; released when dropped without a commit.
#[derive(Debug)]
pub(crate) struct ClaimSet {
    window: Arc<Window>,
    ids: Vec<Identity>,
}

impl ClaimSet {
    pub(crate) fn new(window: Arc<Window>) -> Self {
        Self { window, ids: Vec::new() }
    }

    pub(crate) fn claim(&mut self, id: Identity) -> Claim {
        let claim = self.window.claim(id);
        if claim == Claim::New {
            self.ids.push(id);
            return Claim::New;
        }
        // A repeat within one request is known, because the first one is stored with the rest.
        if claim == Claim::Pending && self.ids.contains(&id) { Claim::Known } else { claim }
    }

    pub(crate) fn ids(&self) -> &[Identity] {
        &self.ids
    }

    pub(crate) fn commit(&mut self, now: Micros) {
        self.window.commit(self.ids.drain(..), now);
    }
}

impl Drop for ClaimSet {
    fn drop(&mut self) {
        self.window.release(&self.ids);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Identity {
        Identity::of(&[text.as_bytes()])
    }

    #[test]
    fn identity_is_known_after_the_commit_until_it_expires() {
        let window = Arc::new(Window::new(Duration::from_secs(10)));
        let mut first = ClaimSet::new(Arc::clone(&window));
        assert_eq!(first.claim(id("a")), Claim::New);
        assert_eq!(first.claim(id("a")), Claim::Known, "twice in one request");
        let mut second = ClaimSet::new(Arc::clone(&window));
        assert_eq!(second.claim(id("a")), Claim::Pending);
        first.commit(Micros(0));
        assert_eq!(second.claim(id("a")), Claim::Known);
        window.commit(std::iter::empty(), Micros(10_000_001));
        assert_eq!(second.claim(id("a")), Claim::New);
    }

    #[test]
    fn request_that_was_not_stored_leaves_nothing_behind() {
        let window = Arc::new(Window::new(Duration::from_secs(10)));
        let mut first = ClaimSet::new(Arc::clone(&window));
        assert_eq!(first.claim(id("a")), Claim::New);
        drop(first);
        assert_eq!(ClaimSet::new(window).claim(id("a")), Claim::New);
    }

    #[test]
    fn memory_is_limited() {
        let window = Window::new(Duration::from_secs(1_000_000));
        window.commit((0..MAX_KNOWN as u64 + 10).map(Identity), Micros(0));
        assert_eq!(window.inner().is_kept.len(), MAX_KNOWN);
        assert_eq!(window.claim(Identity(9)), Claim::New);
        assert_eq!(window.claim(Identity(10)), Claim::Known);
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(Identity::of(&[b"ab", b"c"]), Identity::of(&[b"a", b"bc"]));
    }
}
