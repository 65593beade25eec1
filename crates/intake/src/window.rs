//! Identities of what was kept lately: what is sent again is recognised.
//!
//! ```text
//!  claim ──new──► pending ──commit──► kept ──(window is over, or too many)──► forgotten
//!                    └──release (not kept)──► forgotten
//! ```

use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use siphasher::sip::SipHasher13;
use weir_tables::Micros;

/// Identities that are remembered at most; the oldest is forgotten. 48 bytes each.
pub const MAX_KNOWN: usize = 500_000;

/// A hash of what tells a row or batch apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity(pub(crate) u64);

impl Identity {
    /// Of parts in their order. The hash is the same in every run, as it is kept in `intake_batch`.
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = SipHasher13::new();
        for part in parts {
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        Self(hasher.finish())
    }
}

/// What is known of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Seen for the first time; the caller's until it commits or releases.
    New,
    /// Was kept.
    Known,
    /// Another request with it is not through yet.
    Pending,
}

#[derive(Debug, Default)]
struct Inner {
    is_kept: HashMap<Identity, bool>,
    order: VecDeque<(Micros, Identity)>,
}

/// The identities of one hub.
#[derive(Debug)]
pub(crate) struct Window {
    inner: Mutex<Inner>,
    span: Duration,
}

impl Window {
    pub(crate) fn new(span: Duration) -> Self {
        Self { inner: Mutex::default(), span }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Notes identities as kept at `now`, and forgets those whose time is over.
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

/// Identities that one request has claimed; released when it is dropped without a commit.
#[derive(Debug)]
pub(crate) struct Claims {
    window: Arc<Window>,
    ids: Vec<Identity>,
}

impl Claims {
    pub(crate) fn new(window: Arc<Window>) -> Self {
        Self { window, ids: Vec::new() }
    }

    pub(crate) fn claim(&mut self, id: Identity) -> Claim {
        let claim = self.window.claim(id);
        if claim == Claim::New {
            self.ids.push(id);
            return Claim::New;
        }
        // Twice in one request: the first is kept together with the rest, so the second is known.
        if claim == Claim::Pending && self.ids.contains(&id) { Claim::Known } else { claim }
    }

    pub(crate) fn ids(&self) -> &[Identity] {
        &self.ids
    }

    pub(crate) fn commit(&mut self, now: Micros) {
        self.window.commit(self.ids.drain(..), now);
    }
}

impl Drop for Claims {
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
    fn identity_is_known_after_the_commit_and_until_its_time_is_over() {
        let window = Arc::new(Window::new(Duration::from_secs(10)));
        let mut first = Claims::new(Arc::clone(&window));
        assert_eq!(first.claim(id("a")), Claim::New);
        assert_eq!(first.claim(id("a")), Claim::Known, "twice in one request");
        let mut second = Claims::new(Arc::clone(&window));
        assert_eq!(second.claim(id("a")), Claim::Pending);
        first.commit(Micros(0));
        assert_eq!(second.claim(id("a")), Claim::Known);
        window.commit(std::iter::empty(), Micros(10_000_001));
        assert_eq!(second.claim(id("a")), Claim::New);
    }

    #[test]
    fn request_that_was_not_kept_leaves_nothing_behind() {
        let window = Arc::new(Window::new(Duration::from_secs(10)));
        let mut first = Claims::new(Arc::clone(&window));
        assert_eq!(first.claim(id("a")), Claim::New);
        drop(first);
        assert_eq!(Claims::new(window).claim(id("a")), Claim::New);
    }

    #[test]
    fn memory_is_bounded() {
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
