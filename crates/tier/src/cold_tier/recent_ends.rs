//! Ends of files that were read from a bucket for their checksums: footer and indexes are in them, so
//! the query's next reads send no extra request.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;

/// Bytes of all ends together; the oldest goes first.
const BYTES_MAX: usize = 8 << 20;

/// The last ends of files, all of them compared with their checksums.
#[derive(Default)]
pub(super) struct RecentEnds(Mutex<VecDeque<FileEnd>>);

struct FileEnd {
    path: String,
    /// Offset in the file.
    start: u64,
    bytes: Bytes,
}

impl fmt::Debug for RecentEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentEnds").finish_non_exhaustive()
    }
}

impl RecentEnds {
    /// Keeps the last bytes of a file of this length.
    pub(super) fn keep(&self, path: &str, length: u64, bytes: Bytes) {
        let start = length.saturating_sub(bytes.len() as u64);
        let mut ends = self.lock();
        ends.retain(|end| end.path != path);
        ends.push_back(FileEnd { path: path.to_owned(), start, bytes });
        let mut left = ends.iter().map(|end| end.bytes.len()).sum::<usize>();
        while left > BYTES_MAX {
            left -= ends.pop_front().map_or(left, |end| end.bytes.len());
        }
    }

    /// A range of a file, if its end is kept and has all of it.
    pub(super) fn read(&self, path: &str, range: &Range<u64>) -> Option<Bytes> {
        let ends = self.lock();
        let end = ends.iter().find(|end| end.path == path)?;
        let from = usize::try_from(range.start.checked_sub(end.start)?).ok()?;
        let to = usize::try_from(range.end.checked_sub(end.start)?).ok()?;
        (from <= to && to <= end.bytes.len()).then(|| end.bytes.slice(from..to))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<FileEnd>> {
        self.0.lock().expect("no thread panics while it holds the lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_ends_are_kept_within_their_limit() {
        let ends = RecentEnds::default();
        ends.keep("a", 100, Bytes::from_static(b"0123456789"));
        assert_eq!(ends.read("a", &(92..95)).as_deref(), Some(&b"234"[..]));
        assert_eq!(ends.read("a", &(90..100)).map(|bytes| bytes.len()), Some(10));
        for outside in [89..95, 92..101] {
            assert_eq!(ends.read("a", &outside), None);
        }
        assert_eq!(ends.read("b", &(92..95)), None);
        ends.keep("a", 100, Bytes::from_static(b"abc"));
        assert_eq!(ends.read("a", &(97..100)).as_deref(), Some(&b"abc"[..]));
        ends.keep("big", 9 << 20, vec![0; BYTES_MAX].into());
        assert!(
            ends.read("a", &(97..100)).is_none() && ends.read("big", &(9 << 20..9 << 20)).is_some()
        );
        ends.keep("bigger", 9 << 20, vec![0; BYTES_MAX + 1].into());
        assert!(ends.lock().is_empty());
    }
}
