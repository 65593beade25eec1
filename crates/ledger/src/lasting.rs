//! A ledger that continues in memory while its disk is full: a page about the full disk must go out.
//!
//! Documents in memory are lost when the program ends: a notice may be sent again then. They are
//! written as soon as there is space, and [`trouble`](LedgerBackend::trouble) reports that until then.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_tables::Clock;

use crate::backend::{Change, Document, LedgerBackend, LedgerError};
use crate::sqlite::SqliteLedger;

/// How often the disk is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// Bytes of bodies in memory; more is refused.
const MEMORY_BYTES_MAX: usize = 64 << 20;

/// Kind and key.
type Place = (String, String);

/// The ledger of a single hub, which outlasts a full disk.
pub struct LastingLedger {
    disk: SqliteLedger,
    clock: Arc<dyn Clock>,
    /// Documents that the disk has not; `None` for deleted ones.
    memory: BTreeMap<Place, Option<Document>>,
    /// Why the disk takes nothing, and when it was tried last.
    full: Option<(String, Duration)>,
}

impl std::fmt::Debug for LastingLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LastingLedger").field("disk", &self.disk).finish_non_exhaustive()
    }
}

impl LastingLedger {
    /// Opens `actions.sqlite` in `directory`; see [`SqliteLedger::open`].
    ///
    /// # Errors
    /// `Unusable`.
    pub fn open(directory: &Path, clock: Arc<dyn Clock>) -> Result<Self, LedgerError> {
        let disk = SqliteLedger::open(directory, Arc::clone(&clock))?;
        Ok(Self { disk, clock, memory: BTreeMap::new(), full: None })
    }

    /// Writes what is in memory, if the disk was not tried just now; whether all is on the disk.
    fn settle(&mut self) -> Result<bool, LedgerError> {
        let Some((_, tried)) = &self.full else { return Ok(true) };
        let now = self.clock.monotonic();
        if now.saturating_sub(*tried) < RETRY {
            return Ok(false);
        }
        match self.disk.overwrite(&self.memory)? {
            Some(why) => {
                self.full = Some((why, now));
                Ok(false)
            }
            None => {
                self.memory.clear();
                self.full = None;
                Ok(true)
            }
        }
    }

    fn apply_in_memory(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        let bytes = self.memory.values().flatten().map(|document| document.body.len());
        let new = changes.iter().filter_map(|change| change.body.as_ref().map(|(it, _)| it.len()));
        if bytes.chain(new).sum::<usize>() > MEMORY_BYTES_MAX {
            let why = self.trouble().unwrap_or_default();
            return Err(LedgerError::Unusable(format!("{why}; memory for notices is used up")));
        }
        for change in changes {
            let known = self.get(&change.kind, &change.key)?;
            if known.map_or(0, |document| document.version) != change.expected {
                let (kind, key) = (change.kind.clone(), change.key.clone());
                return Err(LedgerError::Conflict { kind, key });
            }
        }
        for Change { kind, key, expected, body } in changes.iter().cloned() {
            let place = (kind.clone(), key.clone());
            let version = expected + 1;
            let document = body.map(|(body, due_us)| Document { kind, key, version, body, due_us });
            self.memory.insert(place, document);
        }
        Ok(())
    }

    /// Documents of the disk with those of memory in their place.
    fn merged(&self, kind: &str, found: Vec<Document>) -> Vec<Document> {
        let kept = found.into_iter().filter(|document| {
            !self.memory.contains_key(&(document.kind.clone(), document.key.clone()))
        });
        let newer = self.memory.values().flatten().filter(|document| document.kind == kind);
        kept.chain(newer.cloned()).collect()
    }
}

impl LedgerBackend for LastingLedger {
    fn apply(&mut self, changes: &[Change]) -> Result<(), LedgerError> {
        if !self.settle()? {
            return self.apply_in_memory(changes);
        }
        let Some(why) = self.disk.apply_if_space(changes)? else { return Ok(()) };
        self.full = Some((why, self.clock.monotonic()));
        self.apply_in_memory(changes)
    }

    fn get(&mut self, kind: &str, key: &str) -> Result<Option<Document>, LedgerError> {
        match self.memory.get(&(kind.to_owned(), key.to_owned())) {
            Some(document) => Ok(document.clone()),
            None => self.disk.get(kind, key),
        }
    }

    fn all(&mut self, kind: &str) -> Result<Vec<Document>, LedgerError> {
        let found = self.disk.all(kind)?;
        let mut all = self.merged(kind, found);
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(all)
    }

    fn due(&mut self, kind: &str, now_us: i64, limit: usize) -> Result<Vec<Document>, LedgerError> {
        self.settle()?;
        let found = self.disk.due(kind, now_us, limit.saturating_add(self.memory.len()))?;
        let mut due = self.merged(kind, found);
        due.retain(|document| document.due_us.is_some_and(|due_us| due_us <= now_us));
        due.sort_by(|a, b| (a.due_us, &a.key).cmp(&(b.due_us, &b.key)));
        due.truncate(limit);
        Ok(due)
    }

    fn prune(&mut self, kind: &str, before_us: i64) -> Result<usize, LedgerError> {
        if self.settle()? { self.disk.prune(kind, before_us) } else { Ok(0) }
    }

    fn trouble(&self) -> Option<String> {
        match &self.full {
            Some((why, _)) => Some(format!("{why}; notices continue in memory")),
            None => self.disk.trouble(),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_tables::{FixedClock, Micros};

    use super::*;

    fn put(key: &str, expected: i64, due_us: Option<i64>) -> Change {
        let body = Some(("x".repeat(9000), due_us));
        Change { kind: "notice".to_owned(), key: key.to_owned(), expected, body }
    }

    fn due_keys(ledger: &mut LastingLedger) -> Vec<String> {
        let due = ledger.due("notice", 10, 10).unwrap();
        due.into_iter().map(|document| document.key).collect()
    }

    #[test]
    fn full_disk_keeps_nothing_from_going_on_and_space_writes_it_all() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(FixedClock::new(Micros(1_000_000)));
        let mut ledger = LastingLedger::open(dir.path(), Arc::clone(&clock) as _).unwrap();
        ledger.apply(&[put("a", 0, Some(1)), put("old", 0, None)]).unwrap();
        ledger.disk.limit_pages(Some(4));
        ledger.apply(&[put("a", 1, Some(5)), put("b", 0, Some(3))]).unwrap();
        let trouble = ledger.trouble().unwrap();
        assert!(trouble.contains("full") && trouble.contains("in memory"), "{trouble}");
        // Versions and deletions count as on the disk.
        assert!(matches!(ledger.apply(&[put("a", 1, None)]), Err(LedgerError::Conflict { .. })));
        ledger.apply(&[put("a", 2, Some(2))]).unwrap();
        ledger.apply(&[Change { body: None, ..put("old", 1, None) }]).unwrap();
        assert_eq!(ledger.get("notice", "old"), Ok(None));
        assert_eq!(due_keys(&mut ledger), ["a", "b"]);
        assert_eq!(ledger.all("notice").unwrap().len(), 2);
        assert_eq!(ledger.prune("notice", i64::MAX), Ok(0));
        // Another program sees the disk only.
        let mut other = SqliteLedger::open(dir.path(), Arc::clone(&clock) as _).unwrap();
        assert_eq!(other.get("notice", "a").unwrap().unwrap().version, 1);
        ledger.disk.limit_pages(None);
        assert!(ledger.trouble().is_some(), "the disk is tried each ten seconds");
        clock.set(Micros(12_000_000));
        assert_eq!(due_keys(&mut ledger), ["a", "b"]);
        assert_eq!(ledger.trouble(), None);
        assert_eq!(other.get("notice", "a").unwrap().unwrap().version, 3);
        assert_eq!(other.get("notice", "old"), Ok(None));
        ledger.apply(&[put("a", 3, None)]).unwrap();
        assert_eq!(other.get("notice", "a").unwrap().unwrap().version, 4);
    }

    #[test]
    fn memory_has_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(FixedClock::new(Micros(1_000_000)));
        let mut ledger = LastingLedger::open(dir.path(), clock as _).unwrap();
        ledger.disk.limit_pages(Some(4));
        let refused = (0..300).find_map(|number| {
            let body = Some(("x".repeat(crate::BODY_BYTES_MAX), None));
            ledger.apply(&[Change { body, ..put(&format!("{number}"), 0, None) }]).err()
        });
        assert!(refused.unwrap().to_string().contains("memory for notices is used up"));
    }
}
