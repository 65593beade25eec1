//! A stream on the agent's disk for samples, which cannot be read again. It survives `kill -9` of
//! the agent and an unreachable hub, up to a size limit (`docs/formats/spool.md`).
//!
//! Each record is one parcel with a number; the numbers are the stream's positions. A segment is
//! deleted when the hub has all its records in tables, or, oldest first, when the spool exceeds its
//! limit. A restart skips 2³² numbers: records lost from the end of the file in a power loss may
//! have been sent, and their numbers must not be reused.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use weir_tables::{Batch, Parcel, StreamId, StreamRange};

use crate::error::{LinkError, LinkErrorKind};
use crate::spool_segment::{
    HEAD_BYTES, MAGIC, RECORD_HEAD_BYTES, Record, SegmentReader, SegmentScan, checksum, name_of,
};
use crate::{files, secret};

/// Numbers skipped at a restart.
const STRIDE: u64 = 1 << 32;
/// Segments of a full spool, which drops one segment at a time.
const SEGMENTS: u64 = 16;

/// Records on disk, oldest first.
pub struct Spool {
    dir: PathBuf,
    stream: StreamId,
    limit_bytes: u64,
    segments: VecDeque<Segment>,
    /// The last segment, open for writing.
    file: Option<File>,
    next: u64,
    cursor: Cursor,
    /// The hub has accepted all records below.
    accepted: u64,
    damage: Option<SpoolDamage>,
}

/// What was damaged when a spool was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolDamage {
    /// Records that cannot be read, as far as their number is known.
    pub records: u64,
    /// The first damaged file, and the offset in it.
    pub place: String,
}

struct Segment {
    path: PathBuf,
    first: u64,
    /// Number after the last record.
    end: u64,
    records: u64,
    bytes: u64,
}

/// Read position: the next record to send has the lowest number that is at least `number`, at or
/// after this offset in its file.
#[derive(Default)]
struct Cursor {
    number: u64,
    reading: Option<(u64, SegmentReader)>,
}

impl Spool {
    /// Opens the spool of a directory. Records behind a damaged one are kept, see
    /// [`take_damage`](Self::take_damage); what is incomplete at the end of a file is cut off.
    ///
    /// # Errors
    /// [`LinkErrorKind::Storage`].
    pub fn open(dir: &Path, limit_bytes: u64) -> Result<Self, LinkError> {
        files::make_dir(dir)?;
        let mut spool = Self {
            dir: dir.to_owned(),
            stream: StreamId(u128::from_le_bytes(secret::random())),
            limit_bytes,
            segments: VecDeque::new(),
            file: None,
            next: 0,
            cursor: Cursor::default(),
            accepted: 0,
            damage: None,
        };
        let mut scans = Vec::new();
        for name in files::names(dir)?.iter().filter(|name| name.ends_with(".spool")) {
            let path = dir.join(name);
            let scan = SegmentScan::read(&path)
                .map_err(|error| LinkError::storage("read", &path, &error))?;
            match scan {
                Some(scan) => scans.push(scan),
                None => tracing::warn!("ignoring `{}`: its name is no number", path.display()),
            }
        }
        scans.sort_by_key(|scan| scan.first);
        if let Some(stream) = scans.iter().filter(|scan| scan.records > 0).find_map(|it| it.stream)
        {
            spool.stream = stream;
        }
        scans.into_iter().try_for_each(|scan| spool.take_segment(scan))?;
        if spool.next > 0 {
            spool.next = (spool.next / STRIDE + 1) * STRIDE;
        }
        Ok(spool)
    }

    /// Adds a file that was there at the start, and counts what is damaged in it.
    fn take_segment(&mut self, scan: SegmentScan) -> Result<(), LinkError> {
        let SegmentScan { path, first, end, records, bytes, .. } = scan;
        // Numbers continue from one file to the next, but for a restart.
        let gap = match self.segments.back() {
            Some(last) if last.end / STRIDE == first / STRIDE => first.saturating_sub(last.end),
            _ => 0,
        };
        let at = scan.damaged_at.or_else(|| (gap > 0).then_some(0));
        if let Some(at) = at {
            let is_cut = std::fs::metadata(&path).is_ok_and(|meta| meta.len() != bytes);
            let place = || format!("`{}` at byte {at}", path.display());
            let damage =
                self.damage.get_or_insert_with(|| SpoolDamage { records: 0, place: place() });
            damage.records += gap + scan.lost + u64::from(is_cut);
        }
        self.next = self.next.max(end).max(first + u64::from(at.is_some()));
        if scan.stream != Some(self.stream) || records == 0 {
            return std::fs::remove_file(&path)
                .map_err(|error| LinkError::storage("remove", &path, &error));
        }
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(bytes))
            .map_err(|error| LinkError::storage("cut", &path, &error))?;
        self.segments.push_back(Segment { path, first, end, records, bytes });
        Ok(())
    }

    /// What was damaged when the spool was opened, once.
    pub fn take_damage(&mut self) -> Option<SpoolDamage> {
        self.damage.take()
    }

    /// The stream of its records.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Size on disk in bytes.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Number of records that the hub has not accepted yet.
    pub fn waiting(&self) -> u64 {
        self.segments
            .iter()
            .filter(|segment| segment.end > self.accepted)
            .map(|segment| segment.records.min(segment.end - self.accepted.max(segment.first)))
            .sum()
    }

    /// Appends rows as the next record. Returns the number of unaccepted records dropped for it.
    ///
    /// # Errors
    /// [`LinkErrorKind::Storage`]: these rows are not in the spool.
    pub fn push(&mut self, batches: Vec<Batch>) -> Result<u64, LinkError> {
        let number = self.next;
        let range = StreamRange { stream: self.stream, from: number, to: number + 1 };
        let body = Parcel { range: Some(range), batches }.encode(true);
        let length = (RECORD_HEAD_BYTES + body.len()) as u64;
        let segment_bytes = (self.limit_bytes / SEGMENTS).max(1 << 16);
        if self.segments.back().is_none_or(|last| last.bytes + length > segment_bytes) {
            self.file = None;
        }
        let dropped = self.make_room(length);
        if self.file.is_none() {
            self.start_segment()?;
        }
        let (Some(segment), Some(file)) = (self.segments.back_mut(), &mut self.file) else {
            unreachable!("a segment was started");
        };
        let mut record = Vec::with_capacity(RECORD_HEAD_BYTES + body.len());
        record.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
        record.extend_from_slice(&checksum(number, &body).to_le_bytes());
        record.extend_from_slice(&number.to_le_bytes());
        record.extend_from_slice(&body);
        if let Err(error) = file.write_all(&record) {
            // Remove the partial record, or start a new segment.
            let error = LinkError::storage("write", &segment.path, &error);
            if file.set_len(segment.bytes).is_err() {
                self.file = None;
            }
            return Err(error.hint("free some space; samples are dropped until then"));
        }
        segment.bytes += length;
        segment.records += 1;
        segment.end = number + 1;
        self.next = number + 1;
        Ok(dropped)
    }

    fn start_segment(&mut self) -> Result<(), LinkError> {
        let path = self.dir.join(name_of(self.next));
        let file = create_segment(&path, self.stream)
            .map_err(|error| LinkError::storage("make", &path, &error))?;
        self.file = Some(file);
        let (first, end) = (self.next, self.next);
        self.segments.push_back(Segment { path, first, end, records: 0, bytes: HEAD_BYTES });
        Ok(())
    }

    /// Drops the oldest segments until `bytes` more fit. Returns the number of unaccepted records
    /// in them.
    fn make_room(&mut self, bytes: u64) -> u64 {
        let mut dropped = 0;
        while self.bytes() + bytes > self.limit_bytes {
            let Some(oldest) = self.segments.pop_front() else { break };
            if oldest.end > self.accepted {
                let known = self.accepted.saturating_sub(oldest.first);
                dropped += oldest.records.saturating_sub(known);
            }
            if self.segments.is_empty() {
                self.file = None;
            }
            remove(&oldest.path);
        }
        dropped
    }

    /// Deletes segments below `to`, which the hub has in tables.
    pub fn free(&mut self, to: u64) {
        self.accept(to);
        while self.segments.front().is_some_and(|segment| segment.end <= to) {
            let segment = self.segments.pop_front().expect("there is a first");
            if self.segments.is_empty() {
                self.file = None;
            }
            remove(&segment.path);
        }
    }

    /// Notes that records below `to` are durable at the hub.
    pub fn accept(&mut self, to: u64) {
        self.accepted = self.accepted.max(to);
    }

    /// Continues from the hub's position, or from the oldest record if the hub does not know the
    /// stream.
    pub fn seek(&mut self, position: Option<u64>) {
        self.accepted = position.unwrap_or_default();
        self.cursor = Cursor { number: position.unwrap_or_default(), reading: None };
    }

    /// The next record to send; `None` after the last.
    ///
    /// # Errors
    /// [`LinkErrorKind::Storage`] when a record cannot be read. The next call continues after it.
    pub fn next_record(&mut self) -> Result<Option<Record>, LinkError> {
        loop {
            let Some(segment) =
                self.segments.iter().find(|segment| segment.end > self.cursor.number)
            else {
                return Ok(None);
            };
            let (first, end, path) = (segment.first, segment.end, segment.path.clone());
            match self.cursor.read(first, &path) {
                Ok(Some(record)) if record.number < self.cursor.number => {}
                Ok(Some(record)) => {
                    self.cursor.number = record.number + 1;
                    return Ok(Some(record));
                }
                outcome => {
                    (self.cursor.number, self.cursor.reading) = (end, None);
                    if let Err(error) = outcome {
                        return Err(LinkError::storage("read", &path, &error));
                    }
                }
            }
        }
    }
}

impl Cursor {
    /// The next record of the segment whose first number is `first`.
    fn read(&mut self, first: u64, path: &Path) -> std::io::Result<Option<Record>> {
        if self.reading.as_ref().is_none_or(|(of, _)| *of != first) {
            self.reading = Some((first, SegmentReader::open(path)?));
        }
        let Some((_, reader)) = &mut self.reading else { return Ok(None) };
        reader.next_record()
    }
}

/// Encodes a record with its range extended down to `from`: the numbers between were dropped or
/// never assigned.
///
/// # Errors
/// [`LinkErrorKind::Storage`] when the record is invalid.
pub(crate) fn covering(record: &Record, from: u64) -> Result<Vec<u8>, LinkError> {
    let mut parcel = Parcel::decode(&record.bytes).map_err(|error| {
        let text = format!("a record of the spool is damaged: {error}");
        LinkError::new(LinkErrorKind::Storage, text)
    })?;
    if let Some(range) = &mut parcel.range {
        range.from = from.min(range.from);
    }
    Ok(parcel.encode(true))
}

fn create_segment(path: &Path, stream: StreamId) -> std::io::Result<File> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.set_len(0)?;
    file.write_all(&[&MAGIC[..], &stream.0.to_le_bytes()].concat())?;
    Ok(file)
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!("cannot remove `{}`: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use weir_tables::{Log, LogRows, Micros, Rows};

    use super::*;

    fn rows(number: usize) -> Vec<Batch> {
        let mut rows = LogRows::default();
        let body = format!("sample {number} {}", "x".repeat(number % 700));
        rows.push(&Log { ts: Micros(1), host: "web1", body: &body, ..Default::default() });
        vec![Batch { table: LogRows::SPEC, rows: rows.finish() }]
    }

    fn numbers(spool: &mut Spool) -> Vec<u64> {
        std::iter::from_fn(|| spool.next_record().expect("it can be read"))
            .map(|record| record.number)
            .collect()
    }

    #[test]
    fn records_survive_the_agent_and_are_deleted_once_in_tables() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::open(dir.path(), 1 << 20).expect("a spool");
        let stream = spool.stream();
        (0..100).for_each(|n| assert_eq!(spool.push(rows(n)).expect("there is room"), 0));
        spool.seek(None);
        assert_eq!(numbers(&mut spool), (0..100).collect::<Vec<_>>());
        drop(spool); // as after kill -9: nothing is written at the end
        let mut spool = Spool::open(dir.path(), 1 << 20).expect("a spool");
        assert_eq!(spool.stream(), stream);
        spool.push(rows(0)).expect("there is room");
        spool.seek(Some(98));
        assert_eq!(numbers(&mut spool), [98, 99, STRIDE]);
        spool.seek(Some(40));
        spool.free(100);
        assert_eq!(numbers(&mut spool), [STRIDE]);
        spool.free(STRIDE + 1);
        assert_eq!((spool.bytes(), spool.waiting()), (0, 0));
        assert_eq!(files::names(dir.path()).expect("it is there"), [] as [&str; 0]);
    }

    #[test]
    fn a_truncated_record_is_dropped_wherever_it_was_cut() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::open(dir.path(), 1 << 20).expect("a spool");
        (0..3).for_each(|n| assert_eq!(spool.push(rows(n)).expect("there is room"), 0));
        let path = dir.path().join(format!("{:020}.spool", 0));
        let whole = std::fs::read(&path).expect("it is there");
        let ends: Vec<usize> = {
            let mut file = SegmentReader::open(&path).expect("it is there");
            let mut at = 24;
            std::iter::from_fn(|| file.next_record().expect("it can be read"))
                .map(|record| {
                    at += RECORD_HEAD_BYTES + record.bytes.len();
                    at
                })
                .collect()
        };
        for length in (0..whole.len()).step_by(31) {
            std::fs::write(&path, &whole[..length]).expect("there is room");
            let mut spool = Spool::open(dir.path(), 1 << 20).expect("a spool");
            spool.seek(None);
            let kept = ends.iter().filter(|end| **end <= length).count() as u64;
            assert_eq!(numbers(&mut spool), (0..kept).collect::<Vec<_>>(), "{length}");
            let is_cut = length < 24 || (length > 24 && !ends.contains(&length));
            assert_eq!(spool.take_damage().is_some(), is_cut, "{length}");
        }
    }

    /// A spool of three files with 150 records, and the records of each.
    fn filled(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        for round in 0..3 {
            let mut spool = Spool::open(dir, 1 << 20).expect("a spool");
            (0..50).for_each(|n| assert_eq!(spool.push(rows(round * 50 + n)).expect("room"), 0));
        }
        let names = files::names(dir).expect("it is there");
        let paths = names.iter().map(|name| dir.join(name));
        paths.map(|path| (path.clone(), std::fs::read(path).expect("it is there"))).collect()
    }

    fn all_records(dir: &Path) -> (Vec<Record>, StreamId, Option<SpoolDamage>) {
        let mut spool = Spool::open(dir, 1 << 20).expect("a spool");
        spool.seek(None);
        let records = std::iter::from_fn(|| spool.next_record().expect("it can be read"));
        (records.collect(), spool.stream(), spool.take_damage())
    }

    /// A damaged record costs neither those behind it (fluent/fluent-bit#3229) nor the start
    /// (vectordotdev/vector#18130, vectordotdev/vector#17644), and none is lost without a word
    /// (rsyslog/rsyslog#5771).
    #[test]
    fn one_changed_byte_costs_one_record_and_is_reported() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = filled(dir.path());
        assert_eq!(files.len(), 3);
        let (whole, stream, damage) = all_records(dir.path());
        assert_eq!((whole.len(), damage), (150, None));
        for (path, bytes) in &files {
            for at in (0..bytes.len()).step_by(409).chain((0..48).step_by(3)) {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << (at % 8);
                std::fs::write(path, &changed).expect("there is room");
                let (left, found, damage) = all_records(dir.path());
                let what = format!("byte {at} of `{}`", path.display());
                let damage = damage.unwrap_or_else(|| panic!("{what} is noticed"));
                assert_eq!(found, stream, "{what}");
                assert!(left.iter().all(|record| whole.contains(record)), "{what}");
                let lost = u64::from(at >= 24);
                assert_eq!((left.len() as u64, damage.records), (150 - lost, lost), "{what}");
                for (path, bytes) in &files {
                    std::fs::write(path, bytes).expect("there is room");
                }
            }
        }
    }

    #[test]
    fn records_that_are_gone_between_others_are_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::open(dir.path(), 1 << 20).expect("a spool");
        (0..1000).for_each(|n| assert_eq!(spool.push(rows(n)).expect("there is room"), 0));
        drop(spool);
        let names = files::names(dir.path()).expect("it is there");
        assert!(names.len() > 3, "{names:?}");
        std::fs::remove_file(dir.path().join(&names[1])).expect("it is there");
        let (left, _, damage) = all_records(dir.path());
        assert_eq!(damage.expect("it is noticed").records, 1000 - left.len() as u64);
        // A file of which nothing is left.
        std::fs::write(dir.path().join(&names[2]), [0; 500]).expect("there is room");
        let (left, _, damage) = all_records(dir.path());
        assert!(left.iter().is_sorted_by_key(|record| record.number));
        assert!(damage.expect("it is noticed").records >= 1000 - left.len() as u64);
    }

    #[test]
    fn a_full_spool_drops_the_oldest_and_counts_the_unaccepted() {
        let dir = tempfile::tempdir().expect("a directory");
        let limit = 1 << 20;
        let mut spool = Spool::open(dir.path(), limit).expect("a spool");
        let count: usize = 3000;
        let dropped: u64 = (0..count).map(|n| spool.push(rows(n)).expect("there is room")).sum();
        assert!(spool.bytes() <= limit, "{}", spool.bytes());
        spool.seek(None);
        let left = numbers(&mut spool);
        assert!(dropped > 0);
        assert_eq!(left, (dropped..count as u64).collect::<Vec<_>>());
        assert_eq!(spool.waiting(), count as u64 - dropped);
        // Dropping accepted records loses nothing.
        spool.accept(count as u64);
        let after: u64 = (0..100).map(|n| spool.push(rows(n)).expect("there is room")).sum();
        assert_eq!(after, 0);
    }

    #[test]
    fn a_record_can_cover_numbers_before_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spool = Spool::open(dir.path(), 1 << 20).expect("a spool");
        (0..9).for_each(|n| assert_eq!(spool.push(rows(n)).expect("there is room"), 0));
        spool.seek(Some(8));
        let record = spool.next_record().expect("it can be read").expect("the last");
        let parcel = Parcel::decode(&covering(&record, 3).expect("a parcel")).expect("a parcel");
        let range = parcel.range.expect("it has one");
        assert_eq!((range.stream, range.from, range.to), (spool.stream(), 3, 9));
        assert_eq!(parcel.row_count(), 1);
    }
}
