//! URL templates: names to numbers, and what was measured for each in each tier.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use rustc_hash::FxHasher;

use crate::histogram::Coarse;
use crate::http::template;

type Map<K, V> = HashMap<K, V, BuildHasherDefault<FxHasher>>;

/// Templates that are told apart; the rest is one.
const URLS_MAX: usize = 4096;
/// Targets whose template is remembered.
const TARGETS_MAX: usize = 65_536;

/// Number 0: requests without a readable target, and those of too many templates.
pub(crate) const OTHER: u32 = 0;

/// Templates by number.
pub(crate) struct Urls {
    names: Vec<String>,
    by_name: Map<String, u32>,
    by_target: Map<u64, u32>,
    scratch: String,
}

impl Default for Urls {
    fn default() -> Self {
        let names = vec!["(other)".to_owned()];
        let (by_name, by_target) = (Map::default(), Map::default());
        Self { names, by_name, by_target, scratch: String::new() }
    }
}

impl Urls {
    /// The number of the template of `target`.
    pub(crate) fn number(&mut self, target: &[u8]) -> u32 {
        let hash = hash(target);
        if let Some(number) = self.by_target.get(&hash) {
            return *number;
        }
        if target.is_empty() {
            return OTHER;
        }
        template(target, &mut self.scratch);
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
        if self.by_target.len() >= TARGETS_MAX {
            self.by_target.clear();
        }
        self.by_target.insert(hash, number);
        number
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }
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
