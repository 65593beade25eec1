//! Read quotas: bytes that each user has read from files within the last hour. Without them, many
//! queries of one user could cause the disk load or bucket cost that a single query may not.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

/// Above this number of users, users without reads in the last hour are dropped.
const KNOWN_MAX: usize = 1000;
const HOUR_MINUTES: u64 = 60;

/// Quotas by user.
#[derive(Debug)]
pub(crate) struct ReadQuotas {
    /// Bytes that one user may read within an hour; 0 means no limit.
    limit_bytes: u64,
    started: Instant,
    known: Mutex<HashMap<String, Arc<ReadQuota>>>,
}

/// Quota of one user.
#[derive(Debug)]
pub(crate) struct ReadQuota {
    pub(crate) user: String,
    pub(crate) limit_bytes: u64,
    started: Instant,
    /// Minutes since the start with reads, and their bytes.
    minutes: Mutex<VecDeque<(u64, u64)>>,
}

impl ReadQuotas {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, started: Instant::now(), known: Mutex::default() }
    }

    /// Quota of `user`; `None` without a limit.
    pub(crate) fn of(&self, user: &str) -> Option<Arc<ReadQuota>> {
        if self.limit_bytes == 0 {
            return None;
        }
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            let minute = minute_since(self.started);
            known.retain(|_, reader| Arc::strong_count(reader) > 1 || reader.sum(minute) > 0);
        }
        let reader = known.entry(user.to_owned()).or_insert_with(|| {
            Arc::new(ReadQuota {
                user: user.to_owned(),
                limit_bytes: self.limit_bytes,
                started: self.started,
                minutes: Mutex::default(),
            })
        });
        Some(Arc::clone(reader))
    }
}

impl ReadQuota {
    /// Counts bytes about to be read. Returns false and counts nothing when that exceeds the quota:
    /// a refused query that is retried must not extend the wait.
    pub(crate) fn add(&self, bytes: u64) -> bool {
        self.add_in(minute_since(self.started), bytes)
    }

    fn add_in(&self, minute: u64, bytes: u64) -> bool {
        let mut minutes = self.minutes.lock();
        if sum(&mut minutes, minute).saturating_add(bytes) > self.limit_bytes {
            return false;
        }
        match minutes.back_mut() {
            Some((at, sum)) if *at >= minute => *sum += bytes,
            _ => minutes.push_back((minute, bytes)),
        }
        true
    }

    fn sum(&self, minute: u64) -> u64 {
        sum(&mut self.minutes.lock(), minute)
    }
}

/// Bytes of the hour before the end of `minute`; drops older minutes.
fn sum(minutes: &mut VecDeque<(u64, u64)>, minute: u64) -> u64 {
    while minutes.front().is_some_and(|(at, _)| at + HOUR_MINUTES <= minute) {
        minutes.pop_front();
    }
    minutes.iter().map(|(_, bytes)| bytes).sum()
}

fn minute_since(started: Instant) -> u64 {
    started.elapsed().as_secs() / 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_hour_moves_on_and_is_his_own() {
        let readers = ReadQuotas::new(100);
        let (mine, other) = (readers.of("me").unwrap(), readers.of("10.0.0.7").unwrap());
        assert!(mine.add(60) && readers.of("me").unwrap().add(40) && !mine.add(1));
        assert!(other.add(100));
        assert!(!mine.add_in(59, 1) && mine.sum(59) == 100);
        assert!(mine.add_in(60, 5) && mine.add_in(118, 1));
        assert_eq!((mine.sum(118), mine.sum(119), mine.sum(120)), (6, 6, 1));
        assert!(ReadQuotas::new(0).of("me").is_none());
    }
}
