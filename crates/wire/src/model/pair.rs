//! Pairs an upstream request with the edge request it was made for: by the same request id, else by
//! method and target while the edge request waits for its response.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

/// Open requests by pairing key.
#[derive(Default)]
pub(crate) struct RequestPairs {
    open: HashMap<u64, Vec<OpenRequest>, BuildHasherDefault<FxHasher>>,
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

/// Requests remembered at once; further ones are not paired.
const OPEN_MAX: usize = 200_000;
/// Candidates with one key that are searched.
const CANDIDATES_MAX: usize = 1024;

impl RequestPairs {
    /// Adds an open request.
    pub(crate) fn open(&mut self, key: u64, open: OpenRequest) {
        if self.count < OPEN_MAX {
            let candidates = self.open.entry(key).or_default();
            if candidates.len() < CANDIDATES_MAX {
                candidates.push(open);
                self.count += 1;
            }
        }
    }

    pub(crate) fn close(&mut self, key: u64, number: u64) {
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
    pub(crate) fn parent(&mut self, key: u64, tier: u16, client: u128) -> Option<OpenRequest> {
        let candidates = self.open.get_mut(&key)?;
        let fits = |open: &OpenRequest| open.tier != tier && open.server == client;
        let at = candidates
            .iter()
            .position(|open| fits(open) && !open.is_taken)
            .or_else(|| candidates.iter().rposition(fits))?;
        candidates[at].is_taken = true;
        Some(candidates[at])
    }
}
