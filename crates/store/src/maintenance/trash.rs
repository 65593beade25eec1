//! When files that left the tables are deleted: replaced ones after the grace period of readers,
//! expired ones after a day in which `weir store undelete` restores them. Space comes first: the
//! oldest expired files go when the disk or `total_bytes` runs out.

use std::collections::HashSet;
use std::time::Duration;

use weir_datafile::{Tier, space};
use weir_tables::Micros;

use super::{Maintenance, RetiredFile};
use crate::opening::default_reserve;

/// Limits of one round of deletion.
pub(crate) struct DeletionRule {
    grace: Duration,
    restorable: Duration,
    /// The wall clock.
    now: Micros,
    /// The time by which restorable files grow old.
    trusted: Micros,
    /// Restorable files whose space is needed.
    evicted: HashSet<i64>,
}

impl DeletionRule {
    /// Whether the file is deleted now.
    pub(crate) fn is_due(&self, retired: &RetiredFile) -> bool {
        let is_read =
            retired.file.as_ref().is_some_and(|file| std::sync::Arc::strong_count(file) > 1);
        let is_old = if retired.is_restorable {
            self.evicted.contains(&retired.id) || retired.since + self.restorable <= self.trusted
        } else {
            true
        };
        !is_read && is_old && retired.since + self.grace <= self.now
    }
}

/// Restorable files to delete early, oldest first, until `over` bytes are free.
fn evicted<'a>(retired: impl Iterator<Item = &'a RetiredFile>, over: u64) -> HashSet<i64> {
    let mut waiting: Vec<&RetiredFile> = retired.filter(|file| file.is_restorable).collect();
    waiting.sort_by_key(|file| (file.since, file.id));
    let mut freed = 0;
    let mut evicted = HashSet::new();
    for file in waiting {
        if freed >= over {
            break;
        }
        freed += file.byte_count;
        evicted.insert(file.id);
    }
    evicted
}

impl Maintenance {
    pub(crate) fn deletion_rule(&self) -> DeletionRule {
        let reading = self.reading();
        let trusted = self.clock.at(reading.monotonic).min(reading.wall);
        let restorable = self.options.retention.restorable;
        let waiting: u64 = self.restorable().map(|file| file.byte_count).sum();
        let evicted = if waiting == 0 { HashSet::new() } else { self.evicted(waiting) };
        DeletionRule {
            grace: self.options.gc_grace,
            restorable,
            now: reading.wall,
            trusted,
            evicted,
        }
    }

    fn restorable(&self) -> impl Iterator<Item = &RetiredFile> {
        self.retired.iter().filter(|file| file.is_restorable)
    }

    fn evicted(&self, waiting: u64) -> HashSet<i64> {
        let view = self.shared.view();
        let files = view.tables.iter().flat_map(|table| table.files.iter());
        let live: u64 = files.map(|file| file.byte_count).sum();
        let over = (live + waiting).saturating_sub(self.options.retention.total_bytes);
        let dir = &self.options.dir;
        let min_free =
            self.options.min_free_bytes.unwrap_or_else(|| default_reserve(dir)).saturating_mul(2);
        let lacking = space(dir).map_or(0, |(free, _)| min_free.saturating_sub(free));
        let local = self.restorable().filter(|file| file.tier == Tier::Local);
        let mut evicted_ids = evicted(self.restorable(), over);
        evicted_ids.extend(evicted(local, lacking));
        evicted_ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn retired(id: i64, is_restorable: bool, hour: u32) -> RetiredFile {
        RetiredFile {
            id,
            path: String::new(),
            tier: Tier::Local,
            since: Micros(0) + HOUR * hour,
            byte_count: 10,
            is_restorable,
            file: None,
        }
    }

    fn due(rule: &DeletionRule, files: &[RetiredFile]) -> Vec<i64> {
        files.iter().filter(|file| rule.is_due(file)).map(|file| file.id).collect()
    }

    #[test]
    fn expired_files_stay_for_a_day_that_really_passed_and_merged_ones_for_the_grace() {
        let files = [retired(1, true, 0), retired(2, false, 0), retired(3, true, 20)];
        let rule = |wall: u32, trusted: u32| DeletionRule {
            grace: HOUR,
            restorable: 24 * HOUR,
            now: Micros(0) + HOUR * wall,
            trusted: Micros(0) + HOUR * trusted,
            evicted: HashSet::new(),
        };
        assert_eq!(due(&rule(0, 0), &files), [] as [i64; 0]);
        assert_eq!(due(&rule(1000, 23), &files), [2], "the clock jumped");
        assert_eq!(due(&rule(24, 24), &files), [1, 2]);
        let evicted = [3].into();
        assert_eq!(due(&DeletionRule { evicted, ..rule(23, 23) }, &files), [2, 3]);
    }

    #[test]
    fn oldest_expired_files_go_first_when_space_is_needed() {
        let files =
            [retired(1, true, 5), retired(2, false, 0), retired(3, true, 2), retired(4, true, 9)];
        assert_eq!(evicted(files.iter(), 0), HashSet::new());
        assert_eq!(evicted(files.iter(), 10), [3].into());
        assert_eq!(evicted(files.iter(), 11), [3, 1].into());
        assert_eq!(evicted(files.iter(), 1000), [3, 1, 4].into());
    }
}
