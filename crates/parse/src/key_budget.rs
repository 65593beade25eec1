//! How many distinct names of attributes one stream may bring.
//!
//! Data that others control can invent names without end; a store that makes a column or an index of each dies of it.
//! Names above the budget are kept with their values in one attribute (`weir.more`), counted, and reported.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Distinct names of one source, when nothing else is configured.
pub const DEFAULT_KEY_BUDGET: usize = 1_000;

/// The names that one stream has used.
#[derive(Debug, Default)]
pub(crate) struct KeyBudget {
    limit: usize,
    /// Hashes with a secret of this process: nobody can choose names that collide.
    known: HashSet<u64>,
    hasher: RandomState,
    /// Admitted names, each at its [`place`]: lines of one program bring the same names again and again, and comparing
    /// bytes is far cheaper than a hash that nobody can foresee.
    recent: Vec<Box<str>>,
    over_count: u64,
    examples: Vec<String>,
}

/// What went over the budget since the last report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReport {
    /// The budget.
    pub limit: usize,
    /// Values whose name was over it.
    pub over_count: u64,
    /// Some of the names, shortened.
    pub examples: Vec<String>,
}

/// Names that are compared before they are hashed.
const RECENT: usize = 128;
/// Names of a report.
const EXAMPLES: usize = 3;
/// Characters of a name in a report.
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

    /// Whether a name may have an attribute of its own.
    #[inline]
    pub(crate) fn admits(&mut self, name: &str) -> bool {
        let place = place(name);
        if self.recent.get(place).is_some_and(|known| **known == *name && !name.is_empty()) {
            return true;
        }
        let is_admitted = self.admits_anew(name);
        if is_admitted && let Some(known) = self.recent.get_mut(place) {
            *known = name.into();
        }
        is_admitted
    }

    fn admits_anew(&mut self, name: &str) -> bool {
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

    /// What went over since the last call; `None` when nothing did.
    pub(crate) fn take_report(&mut self) -> Option<KeyReport> {
        let over_count = std::mem::take(&mut self.over_count);
        let examples = std::mem::take(&mut self.examples);
        (over_count > 0).then_some(KeyReport { limit: self.limit, over_count, examples })
    }
}

/// Where a name is kept among the recent ones; two names at one place only cost time.
#[inline]
fn place(name: &str) -> usize {
    let bytes = name.as_bytes();
    let byte = |at: usize| bytes.get(at).map_or(0, |byte| usize::from(*byte));
    let (first, middle, last) = (byte(0), byte(bytes.len() / 2), byte(bytes.len().wrapping_sub(1)));
    (bytes.len() ^ first.wrapping_mul(7) ^ middle.wrapping_mul(31) ^ last.wrapping_mul(113))
        % RECENT
}
