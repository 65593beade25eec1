//! URL templates: names to numbers, and what was measured for each in each tier.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use rustc_hash::FxHasher;

use crate::histogram::Coarse;
use crate::http::template;

type Map<K, V> = HashMap<K, V, BuildHasherDefault<FxHasher>>;

/// Templates that are told apart; the rest is one.
const URLS_MAX: usize = 4096;
/// Targets whose template is remembered: as many as fit into a core's cache, each at the place that its hash names.
const TARGETS: usize = 4096;

/// Number 0: requests without a readable target, and those of too many templates.
pub(crate) const OTHER: u32 = 0;

/// Templates by number.
pub(crate) struct Urls {
    names: Vec<String>,
    by_name: Map<String, u32>,
    by_target: Box<[(u64, u32)]>,
    scratch: String,
}

impl Default for Urls {
    fn default() -> Self {
        let names = vec!["(other)".to_owned()];
        // An empty target is "other", so a place that holds its hash is right from the beginning.
        let by_target = vec![(hash(b""), OTHER); TARGETS].into();
        Self { names, by_name: Map::default(), by_target, scratch: String::new() }
    }
}

impl Urls {
    /// The number of the template of `path`, whose hash is `hash`.
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

    /// How many templates there are.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }
}

/// The path of a target: what follows it does not show in the template, and is different each time.
pub(crate) fn path(target: &[u8]) -> &[u8] {
    &target[..memchr::memchr2(b'?', b'#', target).unwrap_or(target.len())]
}

/// A hash that holds within one run.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = BuildHasherDefault::<FxHasher>::default().build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// What one tier measured for one template.
#[derive(Debug, Clone, Default)]
pub(crate) struct UrlStats {
    pub(crate) requests: u64,
    pub(crate) errors_5xx: u64,
    pub(crate) think: Coarse,
    pub(crate) total: Coarse,
}
