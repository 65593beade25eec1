//! Which edge request an upstream request belongs to: the same id in a header, else the same method and target while
//! the edge request waits for its answer.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

/// Open requests by what they ask for.
#[derive(Default)]
pub(crate) struct Pairs {
    open: HashMap<u64, Vec<Open>, BuildHasherDefault<FxHasher>>,
    count: usize,
}

/// A request without an answer, a candidate to be a parent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) shard: u8,
    pub(crate) slot: u32,
    pub(crate) number: u64,
    pub(crate) tier: u16,
    pub(crate) server: u128,
    pub(crate) is_taken: bool,
}

/// Requests that are remembered at once; more are not paired.
const OPEN_MAX: usize = 200_000;
/// Requests for the same thing at the same time that are looked through.
const ALIKE_MAX: usize = 1024;

impl Pairs {
    /// A request is open from now on.
    pub(crate) fn open(&mut self, key: u64, open: Open) {
        if self.count < OPEN_MAX {
            let alike = self.open.entry(key).or_default();
            if alike.len() < ALIKE_MAX {
                alike.push(open);
                self.count += 1;
            }
        }
    }

    pub(crate) fn close(&mut self, key: u64, number: u64) {
        let Some(alike) = self.open.get_mut(&key) else { return };
        if let Some(at) = alike.iter().position(|open| open.number == number) {
            alike.remove(at);
            self.count -= 1;
        }
        if alike.is_empty() {
            self.open.remove(&key);
        }
    }

    /// The oldest open request for `key` of another tier that no upstream request belongs to yet, else the newest:
    /// then it is a second try. `client` is who asks the upstream: the parent's server.
    pub(crate) fn parent(&mut self, key: u64, tier: u16, client: u128) -> Option<Open> {
        let alike = self.open.get_mut(&key)?;
        let fits = |open: &Open| open.tier != tier && open.server == client;
        let at = alike
            .iter()
            .position(|open| fits(open) && !open.is_taken)
            .or_else(|| alike.iter().rposition(fits))?;
        alike[at].is_taken = true;
        Some(alike[at])
    }
}
