//! When each of many things is to be looked at next, so that thousands that rest cost nothing until
//! they are due.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use weir_tables::Micros;

use super::idle::TRUST;
use super::{Live, Tailer, Watched};

const PATH_EVERY: Duration = Duration::from_millis(500);
const QUIET_PATH_EVERY: Duration = Duration::from_secs(2);
const QUIET_FILE_EVERY: Duration = Duration::from_secs(1);
/// What did not grow for so long is quiet.
pub(super) const QUIET_AFTER: Duration = Duration::from_secs(10);

/// Keys by the time that they are due. Who takes one asks whether that time is still the right one:
/// a key that was put off or brought forward stands in several places.
#[derive(Debug)]
pub(super) struct Agenda<K>(BTreeMap<Micros, Vec<K>>);

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K> Agenda<K> {
    pub(super) fn add(&mut self, at: Micros, key: K) {
        self.0.entry(at).or_default().push(key);
    }

    /// What is due, with the time that it was due at, the earliest first.
    pub(super) fn take(&mut self, now: Micros) -> impl Iterator<Item = (Micros, K)> + use<K> {
        let later = self.0.split_off(&Micros(now.0.saturating_add(1)));
        let due = std::mem::replace(&mut self.0, later);
        due.into_iter().flat_map(|(at, keys)| keys.into_iter().map(move |key| (at, key)))
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Tailer {
    /// When the file is looked at next, by when it grew.
    pub(super) fn plan_file(&mut self, key: u64, now: Micros) {
        let Some(file) = self.files.get_mut(&key) else { return };
        let is_busy = now < file.seen.grown_at + QUIET_AFTER || file.seen.keeping.is_under_way();
        let every = if is_busy {
            Duration::ZERO
        } else if file.seen.is_watched && file.seen.shrunk_since.is_none() {
            TRUST
        } else {
            QUIET_FILE_EVERY
        };
        file.seen.due_at = now + every;
        self.files_due.add(file.seen.due_at, key);
    }

    /// Makes a file due now.
    pub(super) fn hasten_file(&mut self, key: u64, now: Micros) {
        if let Some(file) = self.files.get_mut(&key) {
            file.seen.due_at = now;
            self.files_due.add(now, key);
        }
    }

    /// Makes a path due now.
    pub(super) fn hasten_path(&mut self, path: &Path, now: Micros) {
        if let Some(watched) = self.paths.get_mut(path) {
            watched.looked_at = None;
            watched.due_at = now;
            self.paths_due.add(now, watched.at.clone());
        }
    }

    /// The clock was set back: times that were planned mean nothing.
    pub(super) fn hasten_all(&mut self, now: Micros) {
        self.files_due.clear();
        self.paths_due.clear();
        for (key, file) in &mut self.files {
            file.seen.due_at = now;
            self.files_due.add(now, *key);
        }
        for watched in self.paths.values_mut() {
            watched.due_at = now;
            self.paths_due.add(now, watched.at.clone());
        }
    }

    /// When the path is looked at next. What leads where it led is left alone as long as no name in
    /// its directory changes.
    pub(super) fn plan_path(&mut self, path: &Path, watched: &mut Watched, now: Micros) {
        let directory = path.parent().unwrap_or(path);
        let is_settled = !watched.is_link && watched.retry_at.is_none();
        let is_left_alone = is_settled
            && match &watched.live {
                Live::Following(_) | Live::Resolving(_) => {
                    self.directories.is_quiet(directory, now)
                }
                Live::Waiting(content, _) if now >= watched.entered_at + QUIET_AFTER => {
                    self.directories.is_quiet(directory, now) && {
                        let key = self.next_waiting;
                        self.next_waiting += 1;
                        watched.waiting = Some(key);
                        self.waiting_paths.insert(key, watched.at.clone());
                        // What came between the look and the watch would not be told.
                        self.waiting.add(key, content.file())
                            && content.metadata().is_ok_and(|m| m.len() == watched.waiting_size)
                    }
                }
                _ => false,
            };
        let is_quiet = match &watched.live {
            Live::Following(key) => {
                self.files.get(key).is_some_and(|file| now >= file.seen.grown_at + QUIET_AFTER)
            }
            _ => false,
        };
        let is_young = now < watched.entered_at + QUIET_AFTER;
        watched.due_at = match (&watched.live, watched.retry_at) {
            _ if watched.looked_at.is_none() => now,
            _ if is_left_alone => now + TRUST,
            (_, Some(at)) => at,
            (Live::Waiting(..), None) if is_young => now,
            _ if is_quiet => now + QUIET_PATH_EVERY,
            _ => now + PATH_EVERY,
        };
        self.paths_due.add(watched.due_at, watched.at.clone());
    }

    /// Ends the watch for the first line of what is at the path.
    pub(super) fn unwatch(&mut self, watched: &mut Watched) {
        if let Some(key) = watched.waiting.take() {
            self.waiting.remove(key);
            self.waiting_paths.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_given_once_in_its_order() {
        let mut agenda = Agenda::default();
        for (at, key) in [(30, 'c'), (10, 'a'), (20, 'b'), (20, 'd')] {
            agenda.add(Micros(at), key);
        }
        assert_eq!(agenda.take(Micros(9)).count(), 0);
        let due: Vec<_> = agenda.take(Micros(20)).map(|(at, key)| (at.0, key)).collect();
        assert_eq!(due, [(10, 'a'), (20, 'b'), (20, 'd')]);
        assert_eq!(agenda.take(Micros(99)).count(), 1);
    }
}
