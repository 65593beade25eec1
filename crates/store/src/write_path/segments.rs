//! Segments of the write-ahead log: which exist, how far the log is durable, and which copies still
//! need them.
//!
//! ```text
//!   0007.wal   0008.wal   0009.wal   0010.wal
//! ├──────────┼──────────┼──────────┼─────▌ end: next sequence number
//!      ▲                     ▲ floor: everything below is flushed
//!      └ a copy is here: 0007 and 0008 stay for it until it has passed them
//! ```
//!
//! The writer reports what it made durable. Copies wait for it here, and report the sequence number
//! from which they need the log.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use weir_datafile::SEGMENT_HEAD_BYTES;

use crate::write_path::wal::path_of;

/// Shared by the log, which extends it, and by copies, which read it.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    dir: PathBuf,
    state: Mutex<SegmentState>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct SegmentState {
    /// Segments by number; the last one is open for writing.
    segments: BTreeMap<u64, LogSegment>,
    /// All rows of segments below this are flushed.
    floor: u64,
    /// Sequence number after the last durable record.
    end: u64,
    /// Lowest sequence number that each copy needs, by name.
    needs: BTreeMap<String, u64>,
}

/// A segment's first sequence number and size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSegment {
    pub(crate) first_sequence: u64,
    pub(crate) bytes: u64,
}

/// End of the durable records of the open segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DurableEnd {
    /// Offset in the segment.
    pub(crate) bytes: u64,
    /// Sequence number of the next record.
    pub(crate) sequence: u64,
}

/// A byte of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentOffset {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

/// Location of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentStart {
    /// The segment that holds the record, or will hold it.
    pub(crate) segment: u64,
    /// The first record of that segment.
    pub(crate) first_sequence: u64,
}

const NO_PANIC: &str = "no thread panics while it holds the lock";

impl Segments {
    /// Tracks the log in `dir`; `needs` are the lowest sequence numbers that copies need.
    pub(crate) fn new(dir: PathBuf, needs: BTreeMap<String, u64>) -> Self {
        let state = SegmentState { needs, ..SegmentState::default() };
        Self { dir, state: Mutex::new(state), grown: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, SegmentState> {
        self.state.lock().expect(NO_PANIC)
    }

    /// Adds a segment.
    pub(crate) fn add(&self, number: u64, segment: LogSegment) {
        self.state().segments.insert(number, segment);
    }

    /// Segment `number` is durable up to `end`.
    pub(crate) fn grow(&self, number: u64, end: DurableEnd) {
        let mut state = self.state();
        if let Some(segment) = state.segments.get_mut(&number) {
            segment.bytes = end.bytes;
        }
        state.end = end.sequence;
        drop(state);
        self.grown.notify_all();
    }

    /// Marks all segments below `floor` as flushed.
    pub(crate) fn release(&self, floor: u64) {
        let mut state = self.state();
        state.floor = state.floor.max(floor);
        self.trim(&mut state);
    }

    /// Sets the lowest sequence number that a copy needs; removes segments that only it needed.
    pub(crate) fn need(&self, name: &str, sequence: u64) {
        let mut state = self.state();
        state.needs.insert(name.to_owned(), sequence);
        self.trim(&mut state);
    }

    /// Removes flushed segments that no copy needs; the next start retries failed removals.
    fn trim(&self, state: &mut SegmentState) {
        let needed = state.needs.values().copied().min().unwrap_or(u64::MAX);
        while let Some((number, next)) = state.first_two() {
            if number >= state.floor || next.first_sequence > needed {
                return;
            }
            if let Err(error) = std::fs::remove_file(path_of(&self.dir, number)) {
                tracing::warn!(number, %error, "cannot remove a segment of the write-ahead log");
            }
            state.segments.remove(&number);
        }
    }

    /// Sequence number after the last durable record.
    pub(crate) fn end(&self) -> u64 {
        self.state().end
    }

    /// Waits at most `patience` for a durable record `sequence`; returns whether there is one.
    pub(crate) fn wait(&self, sequence: u64, patience: Duration) -> bool {
        let state = self.state();
        let waited = self.grown.wait_timeout_while(state, patience, |state| state.end <= sequence);
        waited.expect(NO_PANIC).0.end > sequence
    }

    /// Locates record `sequence`, or the first existing record after it.
    pub(crate) fn place(&self, sequence: u64) -> Option<SegmentStart> {
        let state = self.state();
        let before = state.segments.iter().rev().find(|(_, one)| one.first_sequence <= sequence);
        let found = before.or_else(|| state.segments.first_key_value());
        found.map(|(number, one)| SegmentStart {
            segment: *number,
            first_sequence: one.first_sequence,
        })
    }

    /// Locates the segment after `number`.
    pub(crate) fn after(&self, number: u64) -> Option<SegmentStart> {
        let state = self.state();
        let next = state.segments.range(number + 1..).next();
        next.map(|(number, one)| SegmentStart {
            segment: *number,
            first_sequence: one.first_sequence,
        })
    }

    /// Bytes of records after `place`.
    pub(crate) fn bytes_behind(&self, place: SegmentOffset) -> u64 {
        let state = self.state();
        let SegmentOffset { segment: number, offset } = place;
        let own = state.segments.get(&number).map_or(0, |one| one.bytes.saturating_sub(offset));
        let later = state.segments.range(number + 1..).map(|(_, one)| one.bytes);
        own + later.map(|bytes| bytes.saturating_sub(SEGMENT_HEAD_BYTES as u64)).sum::<u64>()
    }

    /// Whether a copy at `sequence` retains flushed segments.
    pub(crate) fn is_held_from(&self, sequence: u64) -> bool {
        let place = self.place(sequence);
        place.is_some_and(|place| place.segment < self.state().floor)
    }
}

impl SegmentState {
    /// The number of the first segment, and the second segment; `None` with fewer than two.
    fn first_two(&self) -> Option<(u64, LogSegment)> {
        let mut segments = self.segments.iter();
        let (number, _) = segments.next()?;
        segments.next().map(|(_, next)| (*number, *next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_stay_for_the_slowest_copy_and_for_what_is_in_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let needs = [("slow".to_owned(), 5), ("fast".to_owned(), 25)].into();
        let segments = Segments::new(dir.path().to_owned(), needs);
        for number in 0..4 {
            std::fs::write(path_of(dir.path(), number), "x").unwrap();
            segments.add(number, LogSegment { first_sequence: number * 10, bytes: 100 });
        }
        let there = || -> Vec<u64> {
            (0..4).filter(|number| path_of(dir.path(), *number).exists()).collect()
        };
        segments.release(2);
        assert_eq!(there(), [0, 1, 2, 3]);
        assert!(
            segments.is_held_from(5) && !segments.is_held_from(25),
            "segments 0 and 1 are held"
        );
        segments.need("slow", 10);
        assert_eq!(there(), [1, 2, 3], "record 10 begins segment 1");
        segments.need("slow", 39);
        assert_eq!(there(), [2, 3], "segment 2 is in no file yet");
        segments.release(3);
        assert_eq!(there(), [2, 3], "`fast` is in it");
        segments.need("fast", 30);
        assert_eq!(there(), [3]);
        assert_eq!(segments.place(7).map(|place| place.segment), Some(3), "what there still is");
        assert_eq!(segments.bytes_behind(SegmentOffset { segment: 3, offset: 40 }), 60);
    }

    #[test]
    fn waiting_ends_with_the_record_or_with_the_patience() {
        let segments = Segments::new(PathBuf::new(), BTreeMap::new());
        segments.add(0, LogSegment { first_sequence: 0, bytes: 16 });
        assert!(!segments.wait(0, Duration::from_millis(1)));
        segments.grow(0, DurableEnd { bytes: 50, sequence: 1 });
        assert!(segments.wait(0, Duration::from_secs(60)));
        assert!(!segments.wait(1, Duration::ZERO));
    }
}
