//! Pairs an upstream request with the edge request it was made for: by the same request id, else by
//! method and target while the edge request waits for its response.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

/// Hash of a request id, or of a method and target.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PairKey(pub(crate) u64);

#[derive(Default)]
pub(crate) struct RequestPairs {
    open: HashMap<PairKey, Vec<OpenRequest>, BuildHasherDefault<FxHasher>>,
    count: usize,
}

/// A request without a response: a candidate parent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenRequest {
    pub(crate) shard: u8,
    pub(crate) slot: u32,
    pub(crate) number: u64,
    pub(crate) tier: u16,
    pub(crate) server: u128,
    pub(crate) is_taken: bool,
}

impl OpenRequest {
    /// Whether it may be the parent of a request in `tier` from `client`.
    fn fits(&self, tier: u16, client: u128) -> bool {
        self.tier != tier && self.server == client
    }
}

/// Requests remembered at once; further ones are not paired.
const OPEN_MAX: usize = 200_000;
/// Candidates with one key that are searched.
const CANDIDATES_MAX: usize = 1024;

impl RequestPairs {
    pub(crate) fn open(&mut self, key: PairKey, open: OpenRequest) {
        if self.count < OPEN_MAX {
            let candidates = self.open.entry(key).or_default();
            if candidates.len() < CANDIDATES_MAX {
                candidates.push(open);
                self.count += 1;
            }
        }
    }

    pub(crate) fn close(&mut self, key: PairKey, number: u64) {
        let Some(candidates) = self.open.get_mut(&key) else { return };
        if let Some(at) = candidates.iter().position(|open| open.number == number) {
            candidates.remove(at);
            self.count -= 1;
        }
        if candidates.is_empty() {
            self.open.remove(&key);
        }
    }

    /// The oldest open request with `key` in another tier that has no upstream request yet, else
    /// the newest (a retry). `client` is the upstream's client, that is the parent's server.
    pub(crate) fn parent(&mut self, key: PairKey, tier: u16, client: u128) -> Option<OpenRequest> {
        let candidates = self.open.get_mut(&key)?;
        let at = candidates
            .iter()
            .position(|open| open.fits(tier, client) && !open.is_taken)
            .or_else(|| candidates.iter().rposition(|open| open.fits(tier, client)))?;
        candidates[at].is_taken = true;
        Some(candidates[at])
    }
}
