//! Limits the distinct attribute names of a stream.
//!
//! Untrusted data can contain unlimited names, which overload a store that makes a column or an
//! index of each. Names over the limit are kept with their values in one attribute (`weir.more`),
//! counted, and reported.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Default limit of distinct names per stream.
pub const DEFAULT_KEY_BUDGET: usize = 1_000;

/// Names used by one stream.
#[derive(Debug, Default)]
pub(crate) struct KeyBudget {
    limit: usize,
    /// Hashes keyed with a secret of this process, so that names cannot be chosen to collide.
    known: HashSet<u64>,
    hasher: RandomState,
    /// Admitted names, each at its [`slot`]: lines of one program repeat the same names, and
    /// comparing bytes is far cheaper than a keyed hash.
    recent: Vec<Box<str>>,
    over_count: u64,
    examples: Vec<String>,
}

/// Names over the limit since the last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReport {
    /// The limit.
    pub limit: usize,
    /// Values whose name was over the limit.
    pub over_count: u64,
    /// Some of the names, shortened.
    pub examples: Vec<String>,
}

/// Recent names that are compared before hashing.
const RECENT: usize = 128;
/// Names in a report.
const EXAMPLES: usize = 3;
/// Longest name in a report, in characters.
const EXAMPLE_CHARS: usize = 64;

impl KeyBudget {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            known: HashSet::new(),
            hasher: RandomState::new(),
            recent: vec![Box::default(); RECENT],
            over_count: 0,
            examples: Vec::new(),
        }
    }

    /// Whether a name may become an attribute.
    #[inline]
    pub(crate) fn admits(&mut self, name: &str) -> bool {
        let slot = slot(name);
        if self.recent.get(slot).is_some_and(|known| **known == *name && !name.is_empty()) {
            return true;
        }
        let is_admitted = self.admits_hashed(name);
        if is_admitted && let Some(known) = self.recent.get_mut(slot) {
            *known = name.into();
        }
        is_admitted
    }

    fn admits_hashed(&mut self, name: &str) -> bool {
        let hash = self.hasher.hash_one(name);
        if self.known.contains(&hash) {
            return true;
        }
        if self.known.len() < self.limit {
            return self.known.insert(hash);
        }
        self.over_count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(name.chars().take(EXAMPLE_CHARS).collect());
        }
        false
    }

    /// Names over the limit since the last call; `None` without any.
    pub(crate) fn take_report(&mut self) -> Option<KeyReport> {
        let over_count = std::mem::take(&mut self.over_count);
        let examples = std::mem::take(&mut self.examples);
        (over_count > 0).then_some(KeyReport { limit: self.limit, over_count, examples })
    }
}

/// Slot of a name among the recent ones; collisions only cost time.
#[inline]
fn slot(name: &str) -> usize {
    let bytes = name.as_bytes();
    let byte = |at: usize| bytes.get(at).map_or(0, |byte| usize::from(*byte));
    let (first, middle, last) = (byte(0), byte(bytes.len() / 2), byte(bytes.len().wrapping_sub(1)));
    (bytes.len() ^ first.wrapping_mul(7) ^ middle.wrapping_mul(31) ^ last.wrapping_mul(113))
        % RECENT
}
