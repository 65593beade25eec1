//! URL templates: interns names and collects the measurements of each per tier.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use rustc_hash::FxHasher;

use super::slice::SLOW_US;
use crate::histogram::CoarseHistogram;
use crate::http::template;

type Map<K, V> = HashMap<K, V, BuildHasherDefault<FxHasher>>;

/// Templates told apart; all others share one.
const URLS_MAX: usize = 4096;
/// Targets with a cached template, direct-mapped by hash: as many as fit into a core's cache.
const TARGETS: usize = 4096;

/// Template 0: requests without a readable target, and those beyond the limit.
pub(crate) const OTHER: u32 = 0;

pub(crate) struct UrlTable {
    names: Vec<String>,
    by_name: Map<String, u32>,
    by_target: Box<[(u64, u32)]>,
    scratch: String,
}

impl Default for UrlTable {
    fn default() -> Self {
        let names = vec!["(other)".to_owned()];
        // An empty target is "other", so its cache slot is valid from the start.
        let by_target = vec![(hash(b""), OTHER); TARGETS].into();
        Self { names, by_name: Map::default(), by_target, scratch: String::new() }
    }
}

impl UrlTable {
    /// Number of the template of `path`, whose hash is `hash`.
    pub(crate) fn number(&mut self, path: &[u8], hash: u64) -> u32 {
        let place = usize::try_from(hash >> 48).unwrap_or(0) % TARGETS;
        let (known, number) = self.by_target[place];
        if known == hash {
            return number;
        }
        if path.is_empty() {
            return OTHER;
        }
        template(path, &mut self.scratch);
        let number = match self.by_name.get(&self.scratch) {
            Some(number) => *number,
            None if self.names.len() == URLS_MAX => OTHER,
            None => {
                let number = u32::try_from(self.names.len()).expect("there are few");
                self.names.push(self.scratch.clone());
                self.by_name.insert(self.scratch.clone(), number);
                number
            }
        };
        self.by_target[place] = (hash, number);
        number
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }
}

/// The path of a target: the rest differs per request and is not in the template.
pub(crate) fn path(target: &[u8]) -> &[u8] {
    &target[..memchr::memchr2(b'?', b'#', target).unwrap_or(target.len())]
}

/// A hash that is stable within one run.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = BuildHasherDefault::<FxHasher>::default().build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

#[derive(Debug, Clone, Default)]
pub(crate) struct UrlStats {
    pub(crate) requests: u64,
    /// Requests without a response after a long wait.
    pub(crate) given_up: u64,
    pub(crate) errors_5xx: u64,
    /// Responses that come while something happens.
    pub(crate) streams: u64,
    /// First requests of connections, and the slow ones among them.
    pub(crate) first: [u64; 2],
    /// Later requests, and the slow ones among them.
    pub(crate) later: [u64; 2],
    pub(crate) think: CoarseHistogram,
    pub(crate) total: CoarseHistogram,
}

impl UrlStats {
    /// Adds a request without a response: it would have taken longer than that.
    pub(crate) fn give_up(&mut self, waited_us: u64, is_first: bool) {
        self.requests += 1;
        self.given_up += 1;
        self.add_think(waited_us, is_first);
    }

    pub(crate) fn add_think(&mut self, think_us: u64, is_first: bool) {
        let place = if is_first { &mut self.first } else { &mut self.later };
        *place = [place[0] + 1, place[1] + u64::from(think_us >= SLOW_US)];
        self.think.add(think_us);
    }
}
