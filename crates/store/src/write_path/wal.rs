//! The write-ahead log: acknowledged rows that are not flushed yet. Layout: `docs/formats/wal.md`.
//!
//! Segments `wal/NNNNNNNNNN.wal` hold records; a group of records is one write and one sync. The torn
//! end of the last segment is cut off, after a copy. Other invalid bytes were acknowledged and
//! changed later ([`SegmentPieces`] tells them apart): they are set aside and counted (see
//! [`crate::write_path::damage`]), and the start continues with the records after them.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_datafile::{
    ErrorKind, SEGMENT_HEAD_BYTES, SegmentPiece, SegmentPieces, StoreError, first_sequence,
    record_head, record_sequence, segment_head, sync_dir,
};

use crate::write_path::damage::LogDamage;
use crate::write_path::segments::{DurableEnd, LogSegment, SegmentStart, Segments};

/// The log, open for appending.
#[derive(Debug)]
pub(crate) struct Wal {
    dir: PathBuf,
    file: File,
    number: u64,
    /// Offset at which the last durable group ends.
    length: u64,
    /// Bytes after `length` may be the remainder of a failed group.
    is_dirty: bool,
    /// Lengths of older segments that are still needed.
    older: BTreeMap<u64, u64>,
    next_sequence: u64,
    segment_bytes_max: u64,
    /// Error of a failed sync: the content of the disk is unknown, so no later write can be
    /// acknowledged.
    broken: Option<String>,
    /// Tracks every segment; removes flushed ones that no copy needs.
    segments: Arc<Segments>,
    /// What was unreadable when the log was opened.
    pub(crate) damage: LogDamage,
}

/// What a log is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalOptions {
    /// All rows of segments below this are flushed.
    pub(crate) floor: u64,
    pub(crate) segment_bytes_max: u64,
}

impl Wal {
    /// Replays segments from the floor on, passes each record to `replay` in order, and opens the
    /// log at its end.
    ///
    /// Records that are damaged, or that `replay` refuses, are set aside and counted.
    ///
    /// # Errors
    /// `Io`, `Full`.
    pub(crate) fn open(
        dir: &Path,
        WalOptions { floor, segment_bytes_max }: WalOptions,
        segments: Arc<Segments>,
        mut replay: impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let mut older = BTreeMap::new();
        let mut next_sequence = 0;
        let mut damage = LogDamage::default();
        let mut numbers = list(dir)?;
        // A failed roll leaves a file without a record; the log then continued in the previous
        // segment, which may be torn.
        while let Some(number) = numbers.pop_if(|number| is_headless(&path_of(dir, *number))) {
            remove(&path_of(dir, number))?;
        }
        for &number in &numbers {
            let path = path_of(dir, number);
            if number < floor {
                let (first_sequence, length) = measure(&path)?;
                segments.add(number, LogSegment { first_sequence, bytes: length });
                // Copies read on from it: the numbers behind it must continue.
                if numbers.iter().rfind(|number| **number < floor) == Some(&number) {
                    next_sequence = end_sequence(&path, first_sequence)?;
                }
                continue;
            }
            let is_last = Some(&number) == numbers.last();
            let mut records = SegmentReplay { next_sequence, replay: &mut replay, damage };
            let segment = records.run(&path, is_last)?;
            (next_sequence, damage) = (records.next_sequence, records.damage);
            segments.add(number, segment);
            older.insert(number, segment.bytes);
        }
        // Reuse the last segment: a start must not need free disk space.
        let (number, length, file) = match older.pop_last() {
            Some((number, length)) => (number, length, reopen(&path_of(dir, number), length)?),
            None => {
                let number = numbers.last().copied().unwrap_or(0).max(floor);
                let (first_sequence, bytes) = (next_sequence, SEGMENT_HEAD_BYTES as u64);
                let file = create(dir, SegmentStart { segment: number, first_sequence })?;
                segments.add(number, LogSegment { first_sequence, bytes });
                (number, bytes, file)
            }
        };
        segments.grow(number, DurableEnd { bytes: length, sequence: next_sequence });
        segments.release(floor);
        let mut wal = Self {
            dir: dir.to_owned(),
            file,
            number,
            length,
            is_dirty: false,
            older,
            next_sequence,
            segment_bytes_max,
            broken: None,
            segments,
            damage,
        };
        // New records are kept apart from damage, so that the next flush gets rid of it. On a full
        // disk they follow it.
        if !wal.damage.is_none() {
            drop(wal.roll());
        }
        Ok(wal)
    }

    /// Appends records durably, all or none.
    ///
    /// # Errors
    /// `Full` when the disk is full: nothing was written, and a retry is possible. `Io` when the
    /// disk failed: every later call fails.
    pub(crate) fn write_group<'a>(
        &mut self,
        records: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), StoreError> {
        self.ready()?;
        let mut sequence = self.next_sequence;
        let mut group = Vec::new();
        for record in records {
            group.push((record_head(group.is_empty(), sequence, record), record));
            sequence += 1;
        }
        if group.is_empty() {
            return Ok(());
        }
        let slices = group.iter().flat_map(|(head, record)| [&head[..], record]);
        let mut slices: Vec<IoSlice<'_>> = slices.map(IoSlice::new).collect();
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if let Err(error) = write_all(&mut self.file, &mut slices) {
            self.undo();
            return Err(StoreError::io("write", &self.path(), &error));
        }
        if let Err(error) = self.file.sync_data() {
            let failure = StoreError::io("sync", &self.path(), &error);
            self.undo();
            if failure.kind != ErrorKind::Full {
                self.broken = Some(failure.message.clone());
            }
            return Err(failure);
        }
        self.length += length as u64;
        self.next_sequence = sequence;
        self.segments.grow(self.number, DurableEnd { bytes: self.length, sequence });
        Ok(())
    }

    fn ready(&mut self) -> Result<(), StoreError> {
        if let Some(why) = &self.broken {
            let hint = "check the disk (`dmesg`), then restart weir: it reads back what is durable";
            return Err(StoreError::new(ErrorKind::Io, why.clone()).with_hint(hint));
        }
        if self.is_dirty {
            self.undo();
        }
        if self.is_dirty {
            let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(StoreError::io("cut", &self.path(), &error));
        }
        if self.length >= self.segment_bytes_max {
            self.roll()?;
        }
        Ok(())
    }

    /// Truncates the remainder of a failed write.
    fn undo(&mut self) {
        let cut = self.file.set_len(self.length);
        let cut = cut.and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
        self.is_dirty = cut.is_err();
    }

    /// Starts a new segment and returns its number. Every earlier record is in a lower one.
    ///
    /// # Errors
    /// `Full`, `Io`; the old segment stays in use.
    pub(crate) fn roll(&mut self) -> Result<u64, StoreError> {
        if self.length == SEGMENT_HEAD_BYTES as u64 && !self.is_dirty {
            return Ok(self.number);
        }
        let (segment, bytes) = (self.number + 1, SEGMENT_HEAD_BYTES as u64);
        let first_sequence = self.next_sequence;
        let file = create(&self.dir, SegmentStart { segment, first_sequence })?;
        self.older.insert(self.number, self.length);
        self.segments.add(segment, LogSegment { first_sequence, bytes });
        self.file = file;
        self.number = segment;
        self.length = bytes;
        self.is_dirty = false;
        Ok(self.number)
    }

    /// Passes each record of the closed segments in `range` to `replay`, in order.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn read(
        &self,
        range: Range<u64>,
        mut replay: impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let damage = LogDamage::default();
        let mut records = SegmentReplay { next_sequence: 0, replay: &mut replay, damage };
        for number in self.older.range(range).map(|(number, _)| number) {
            records.run(&path_of(&self.dir, *number), false)?;
        }
        Ok(())
    }

    /// Number of the open segment.
    pub(crate) fn segment(&self) -> u64 {
        self.number
    }

    /// Marks segments below `floor` as flushed; they are removed once no copy needs them.
    pub(crate) fn release(&mut self, floor: u64) {
        self.older = self.older.split_off(&floor);
        self.segments.release(floor);
    }

    /// Bytes of all segments with unflushed rows.
    pub(crate) fn byte_count(&self) -> u64 {
        self.older.values().sum::<u64>() + self.length
    }

    /// Whether the log holds records.
    pub(crate) fn has_records(&self) -> bool {
        self.byte_count() > (self.older.len() as u64 + 1) * SEGMENT_HEAD_BYTES as u64
    }

    fn path(&self) -> PathBuf {
        path_of(&self.dir, self.number)
    }
}

/// Path of segment `number`.
pub(crate) fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}.wal"))
}

/// The first segment in `dir` at or above `floor`.
pub(crate) fn first_from(dir: &Path, floor: u64) -> Result<Option<u64>, StoreError> {
    Ok(list(dir)?.into_iter().find(|number| *number >= floor))
}

/// Numbers of the segments in `dir`, ascending.
pub(crate) fn list(dir: &Path) -> Result<Vec<u64>, StoreError> {
    let entries = std::fs::read_dir(dir).map_err(|error| StoreError::io("list", dir, &error))?;
    let mut numbers: Vec<u64> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".wal")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn create(dir: &Path, start: SegmentStart) -> Result<File, StoreError> {
    let path = path_of(dir, start.segment);
    let file = create_segment(&path, start.first_sequence)
        .map_err(|error| StoreError::io("write", &path, &error))?;
    sync_dir(dir)?;
    Ok(file)
}

fn create_segment(path: &Path, first_sequence: u64) -> std::io::Result<File> {
    // A failed roll may have left the file; it holds no record.
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(&segment_head(first_sequence))?;
    file.sync_all()?;
    Ok(file)
}

fn reopen(path: &Path, length: u64) -> Result<File, StoreError> {
    open_at(path, length).map_err(|error| StoreError::io("open", path, &error))
}

fn open_at(path: &Path, length: u64) -> std::io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.seek(SeekFrom::Start(length))?;
    Ok(file)
}

/// First sequence number and length of a closed segment; `u64::MAX` without a header.
fn measure(path: &Path) -> Result<(u64, u64), StoreError> {
    read_measures(path).map_err(|error| StoreError::io("read", path, &error))
}

fn read_measures(path: &Path) -> std::io::Result<(u64, u64)> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut head = Vec::with_capacity(SEGMENT_HEAD_BYTES);
    file.take(SEGMENT_HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok((first_sequence(&head).unwrap_or(u64::MAX), length))
}

/// Number of the record after a closed segment; 0 when it is unknown.
fn end_sequence(path: &Path, first_sequence: u64) -> Result<u64, StoreError> {
    let segment = std::fs::read(path).map_err(|error| StoreError::io("read", path, &error))?;
    let mut pieces = SegmentPieces::new(&segment, first_sequence, false);
    let is_whole = pieces.all(|piece| matches!(piece, SegmentPiece::Record { .. }));
    Ok(if is_whole && first_sequence != u64::MAX { pieces.next_sequence() } else { 0 })
}

fn remove(path: &Path) -> Result<(), StoreError> {
    std::fs::remove_file(path).map_err(|error| StoreError::io("remove", path, &error))
}

/// Writes all slices with vectored I/O.
fn write_all(file: &mut File, mut slices: &mut [IoSlice<'_>]) -> std::io::Result<()> {
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a segment has no complete header: the name is created before the header is durable.
fn is_headless(path: &Path) -> bool {
    let length = std::fs::metadata(path).map_or(u64::MAX, |meta| meta.len());
    length <= SEGMENT_HEAD_BYTES as u64
        && std::fs::read(path).is_ok_and(|bytes| first_sequence(&bytes).is_none())
}

/// Replays segments in order.
struct SegmentReplay<'a, F> {
    /// Number of the next record; 0 before the first segment.
    next_sequence: u64,
    replay: &'a mut F,
    damage: LogDamage,
}

impl<F: FnMut(&[u8]) -> Result<(), StoreError>> SegmentReplay<'_, F> {
    /// Replays a segment; truncates a torn end of the last one.
    fn run(&mut self, path: &Path, is_last: bool) -> Result<LogSegment, StoreError> {
        let segment = std::fs::read(path).map_err(|error| StoreError::io("read", path, &error))?;
        let whole = LogSegment { first_sequence: self.next_sequence, bytes: segment.len() as u64 };
        let Some(first_sequence) = self.first_sequence(path, &segment) else { return Ok(whole) };
        if self.next_sequence != 0 && first_sequence > self.next_sequence {
            self.damage.gap(path, first_sequence - self.next_sequence);
        }
        self.next_sequence = first_sequence;
        let mut pieces = SegmentPieces::new(&segment, first_sequence, is_last);
        while let Some(piece) = pieces.next() {
            match piece {
                SegmentPiece::Record { range, parcel } => {
                    if let Err(error) = (self.replay)(parcel) {
                        let (at, why) = (range.start, &error.message);
                        self.damage.set_aside(path, at, &segment[range], 1, why);
                    }
                }
                SegmentPiece::Damage { range, records } => {
                    let (at, why) = (range.start, "the bytes were changed after writing");
                    self.damage.set_aside(path, at, &segment[range], records, why);
                }
                SegmentPiece::Torn { at } => {
                    self.damage.keep_torn(path, at, &segment[at..]);
                    self.next_sequence = pieces.next_sequence();
                    return cut(path, at as u64).map(|bytes| LogSegment { first_sequence, bytes });
                }
            }
        }
        self.next_sequence = pieces.next_sequence();
        Ok(LogSegment { first_sequence, bytes: segment.len() as u64 })
    }

    /// Number of the segment's first record; `None` when nothing in it can be used, which is set
    /// aside. The record has a checksum and the head has none, so the record decides.
    fn first_sequence(&mut self, path: &Path, segment: &[u8]) -> Option<u64> {
        let head = first_sequence(segment);
        let is_late = |sequence: u64| sequence >= self.next_sequence;
        let first = record_sequence(segment, SEGMENT_HEAD_BYTES).filter(|first| is_late(*first));
        let known = first.or(head.filter(|head| is_late(*head)));
        let next = self.next_sequence;
        if known.is_some() && known == head {
            return known;
        }
        let is_followed = || SegmentPieces::new(segment, next, false).find_intact().is_some();
        let found = known.or_else(|| is_followed().then_some(next));
        let end = if found.is_some() { SEGMENT_HEAD_BYTES } else { segment.len() };
        let why = "the head of the segment was changed after writing";
        self.damage.set_aside(path, 0, &segment[..end.min(segment.len())], 0, why);
        found
    }
}

fn cut(path: &Path, length: u64) -> Result<u64, StoreError> {
    truncate(path, length).map_err(|error| StoreError::io("cut", path, &error))?;
    tracing::info!(path = %path.display(), length, "cut off a write that was never acknowledged");
    Ok(length)
}

fn truncate(path: &Path, length: u64) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(length)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path) -> Result<(Wal, Vec<Vec<u8>>), StoreError> {
        let mut seen = Vec::new();
        let segments = Arc::new(Segments::new(dir.to_owned(), BTreeMap::new()));
        let options = WalOptions { floor: 0, segment_bytes_max: 1 << 20 };
        let wal = Wal::open(dir, options, segments, |bytes| {
            seen.push(bytes.to_vec());
            Ok(())
        })?;
        Ok((wal, seen))
    }

    /// A log with the groups [a, b] and [c], and the bytes of its segment.
    fn written() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = open(dir.path()).unwrap();
        wal.write_group([&b"first"[..], b"second"].into_iter()).unwrap();
        wal.write_group([&b"third"[..]].into_iter()).unwrap();
        let path = wal.path();
        let bytes = std::fs::read(&path).unwrap();
        (dir, path, bytes)
    }

    #[test]
    fn records_come_back_in_order_over_several_segments() {
        let dir = tempfile::tempdir().unwrap();
        let (mut wal, _) = open(dir.path()).unwrap();
        for number in 0..10_u8 {
            wal.write_group([&[number][..]].into_iter()).unwrap();
            if number % 3 == 0 {
                wal.roll().unwrap();
            }
        }
        drop(wal);
        let (_, seen) = open(dir.path()).unwrap();
        assert_eq!(seen, (0..10_u8).map(|number| vec![number]).collect::<Vec<_>>());
    }

    #[test]
    fn log_cut_at_any_byte_gives_the_whole_records_before_it() {
        let (dir, path, bytes) = written();
        let ends = [16 + 16 + 5, 16 + 2 * 16 + 11, bytes.len()];
        for length in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let (_, seen) = open(dir.path()).unwrap();
            assert_eq!(
                seen.len(),
                ends.iter().filter(|end| length >= **end).count(),
                "cut at {length}"
            );
            let (_, again) = open(dir.path()).unwrap();
            assert_eq!(again, seen, "a second start sees the same");
        }
    }

    #[test]
    fn changed_byte_of_any_record_is_set_aside_and_counted() {
        let (dir, path, bytes) = written();
        let last_group = bytes.len() - 16 - 5;
        for at in SEGMENT_HEAD_BYTES..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x40;
            std::fs::write(&path, &broken).unwrap();
            let (wal, seen) = open(dir.path()).unwrap();
            assert_eq!((wal.damage.records, seen.len()), (1, 2), "byte {at}");
            let last: &[u8] = if at < last_group { b"third" } else { b"second" };
            assert_eq!(seen.last().unwrap(), last, "byte {at}");
            assert_eq!(wal.next_sequence, 3, "byte {at}");
            let message = wal.damage.message().unwrap();
            assert!(message.contains("0000000000.wal` at byte"), "{message}");
            assert_eq!(std::fs::read(&path).unwrap(), broken, "what is damaged is not made worse");
            drop(wal);
            remove(&path_of(dir.path(), 1)).unwrap();
        }
    }

    #[test]
    fn torn_group_is_cut_and_kept_beside_the_log() {
        let (dir, path, bytes) = written();
        let head = record_head(true, 3, &[7; 100]);
        let torn = [&bytes[..], &head, &[7; 24]].concat();
        std::fs::write(&path, &torn).unwrap();
        let (wal, seen) = open(dir.path()).unwrap();
        assert_eq!((seen.len(), wal.damage.is_none()), (3, true));
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let kept = path.with_extension(format!("{}.torn", bytes.len()));
        assert_eq!(std::fs::read(kept).unwrap(), torn[bytes.len()..]);
    }

    #[test]
    fn changed_byte_in_a_segment_head_loses_no_record_behind_it() {
        for at in 0..SEGMENT_HEAD_BYTES {
            let (dir, path, bytes) = written();
            let mut broken = bytes.clone();
            broken[at] ^= 0x40;
            std::fs::write(&path, &broken).unwrap();
            let (wal, seen) = open(dir.path()).unwrap();
            assert_eq!(seen.len(), 3, "byte {at}");
            assert!(!wal.damage.is_none() && wal.damage.records == 0, "byte {at}");
        }
    }

    #[test]
    fn segment_that_is_missing_or_empty_in_the_middle_is_counted() {
        for content in [None, Some(0), Some(20)] {
            let dir = tempfile::tempdir().unwrap();
            let (mut wal, _) = open(dir.path()).unwrap();
            for number in 1..4_u8 {
                wal.write_group([&[number][..]].into_iter()).unwrap();
                wal.roll().unwrap();
            }
            drop(wal);
            let path = path_of(dir.path(), 1);
            let bytes = std::fs::read(&path).unwrap();
            match content {
                None => remove(&path).unwrap(),
                Some(length) => std::fs::write(&path, &bytes[..length]).unwrap(),
            }
            let (wal, seen) = open(dir.path()).unwrap();
            assert_eq!(seen, [[1], [3]], "{content:?}");
            assert_eq!(wal.damage.records, 1, "{content:?}");
        }
    }

    #[test]
    fn record_that_no_reader_can_use_is_set_aside_once() {
        let (dir, path, bytes) = written();
        let segments = Arc::new(Segments::new(dir.path().to_owned(), BTreeMap::new()));
        let options = WalOptions { floor: 0, segment_bytes_max: 1 << 20 };
        let mut seen = 0;
        let wal = Wal::open(dir.path(), options, segments, |record| {
            seen += 1;
            let error = StoreError::bad_parcel("the parcel needs too much memory");
            if record == b"second" { Err(error) } else { Ok(()) }
        });
        let wal = wal.unwrap();
        assert_eq!((seen, wal.damage.records), (3, 1));
        let kept = std::fs::read(dir.path().join("0000000000.37.damaged")).unwrap();
        assert_eq!(kept, bytes[37..37 + 16 + 6]);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn segment_that_was_only_named_is_begun_again() {
        let (dir, ..) = written();
        for head in [&b""[..], b"WWAL", &[0; 16]] {
            std::fs::write(path_of(dir.path(), 1), head).unwrap();
            for _ in 0..2 {
                let (mut wal, seen) = open(dir.path()).unwrap();
                assert_eq!(seen.len(), 3);
                assert_eq!(list(dir.path()).unwrap(), [0]);
                assert_eq!(wal.next_sequence, 3);
                drop(wal.write_group(std::iter::empty()));
            }
        }
    }

    #[test]
    fn segment_before_one_that_was_only_named_may_be_torn() {
        let (dir, path, bytes) = written();
        for head in [&b""[..], b"WWAL"] {
            std::fs::write(&path, &bytes[..bytes.len() - 2]).unwrap();
            std::fs::write(path_of(dir.path(), 1), head).unwrap();
            assert_eq!(open(dir.path()).unwrap().1.len(), 2);
            assert_eq!(list(dir.path()).unwrap(), [0]);
        }
    }

    #[test]
    fn released_segments_are_gone_and_the_sequence_goes_on() {
        let (dir, ..) = written();
        let (mut wal, _) = open(dir.path()).unwrap();
        wal.write_group([&b"fourth"[..]].into_iter()).unwrap();
        let floor = wal.roll().unwrap();
        wal.release(floor);
        assert_eq!(list(dir.path()).unwrap(), [floor]);
        assert!(!wal.has_records());
        assert_eq!(wal.next_sequence, 4);
    }
}
