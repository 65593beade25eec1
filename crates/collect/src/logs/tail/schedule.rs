//! Times of the next checks, so that thousands of idle items cost nothing until they are due.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_tables::Micros;

/// A file or path without growth for this long is quiet.
pub(super) const QUIET_AFTER: Duration = Duration::from_secs(10);

/// Keys by due time. A rescheduled key has several entries, so check that the time of a taken one
/// is still current.
#[derive(Debug)]
pub(super) struct Schedule<K>(BTreeMap<Micros, Vec<K>>);

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K> Schedule<K> {
    pub(super) fn add(&mut self, at: Micros, key: K) {
        self.0.entry(at).or_default().push(key);
    }

    /// Takes the due keys with their due times, earliest first.
    pub(super) fn take(&mut self, now: Micros) -> impl Iterator<Item = (Micros, K)> + use<K> {
        let later = self.0.split_off(&Micros(now.0.saturating_add(1)));
        let due = std::mem::replace(&mut self.0, later);
        due.into_iter().flat_map(|(at, keys)| keys.into_iter().map(move |key| (at, key)))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_keys_are_taken_once_in_order() {
        let mut schedule = Schedule::default();
        for (at, key) in [(30, 'c'), (10, 'a'), (20, 'b'), (20, 'd')] {
            schedule.add(Micros(at), key);
        }
        assert_eq!(schedule.take(Micros(9)).count(), 0);
        let due: Vec<_> = schedule.take(Micros(20)).map(|(at, key)| (at.0, key)).collect();
        assert_eq!(due, [(10, 'a'), (20, 'b'), (20, 'd')]);
        assert_eq!(schedule.take(Micros(99)).count(), 1);
    }
}
