//! A stream on the agent's disk for samples, which cannot be read again. It survives `kill -9` of
//! the agent and an unreachable hub, up to a size limit (`docs/formats/spool.md`).
//!
//! Each record is one parcel with a number; the numbers are the stream's positions. A segment is
//! deleted when the hub has all its records in tables, or, oldest first, when the spool exceeds its
//! limit. A restart skips 2³² numbers: records lost from the end of the file in a power loss may
//! have been sent, and their numbers must not be reused.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use weir_tables::{Batch, Parcel, StreamId, StreamRange};

use crate::error::{LinkError, LinkErrorKind};
use crate::{files, secret};

const MAGIC: &[u8; 8] = b"WSPL\x01\0\0\0";
/// Magic and stream id.
const HEAD_BYTES: u64 = 24;
/// Length, checksum, number.
const RECORD_HEAD_BYTES: usize = 16;
/// Numbers skipped at a restart.
const STRIDE: u64 = 1 << 32;
/// Segments of a full spool, which drops one segment at a time.
const SEGMENTS: u64 = 16;
/// Size limit of a record in bytes.
const RECORD_BYTES_MAX: u64 = 64 << 20;

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
    reading: Option<(u64, File, u64)>,
}

/// A parcel of the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Position in the stream.
    pub number: u64,
    /// The encoded parcel; its range is `[number, number + 1)`.
    pub bytes: Vec<u8>,
}

impl Spool {
    /// Opens the spool of a directory and truncates incomplete records at the end of segments.
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
        };
        let mut is_first = true;
        for name in files::names(dir)?.iter().filter(|name| name.ends_with(".spool")) {
            let path = dir.join(name);
            let scanned = scan(&path).map_err(|error| LinkError::storage("read", &path, &error))?;
            let Some((stream, segment)) = scanned else {
                tracing::warn!("ignoring `{}`: not a spool file of this version", path.display());
                continue;
            };
            if is_first {
                spool.stream = stream;
                is_first = false;
            }
            if stream != spool.stream || segment.records == 0 {
                std::fs::remove_file(&path)
                    .map_err(|error| LinkError::storage("remove", &path, &error))?;
                continue;
            }
            spool.next = spool.next.max(segment.end);
            spool.segments.push_back(segment);
        }
        spool.segments.make_contiguous().sort_by_key(|segment| segment.first);
        if spool.next > 0 {
            spool.next = (spool.next / STRIDE + 1) * STRIDE;
        }
        Ok(spool)
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
        let path = self.dir.join(format!("{:020}.spool", self.next));
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
        if self.reading.as_ref().is_none_or(|(of, _, _)| *of != first) {
            self.reading = Some((first, File::open(path)?, HEAD_BYTES));
        }
        let Some((_, file, at)) = &mut self.reading else { return Ok(None) };
        file.seek(SeekFrom::Start(*at))?;
        let record = read_record(file)?;
        if let Some(record) = &record {
            *at += (RECORD_HEAD_BYTES + record.bytes.len()) as u64;
        }
        Ok(record)
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

fn checksum(number: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// Reads a record; `None` at the end of the file and at an incomplete record.
fn read_record(file: &mut File) -> std::io::Result<Option<Record>> {
    let mut head = [0; RECORD_HEAD_BYTES];
    if let Err(error) = file.read_exact(&mut head) {
        let is_end = error.kind() == std::io::ErrorKind::UnexpectedEof;
        return if is_end { Ok(None) } else { Err(error) };
    }
    let [a, b, c, d, e, f, g, h, number @ ..] = head;
    let (length, sum) =
        (u64::from(u32::from_le_bytes([a, b, c, d])), u32::from_le_bytes([e, f, g, h]));
    let number = u64::from_le_bytes(number);
    let mut bytes = Vec::new();
    if length > RECORD_BYTES_MAX {
        return Ok(None);
    }
    file.take(length).read_to_end(&mut bytes)?;
    let is_complete = bytes.len() as u64 == length && checksum(number, &bytes) == sum;
    Ok(is_complete.then_some(Record { number, bytes }))
}

/// Reads a whole segment and truncates it after the last complete record; `None` if the file is not
/// a segment.
fn scan(path: &Path) -> std::io::Result<Option<(StreamId, Segment)>> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut first_bytes = Vec::new();
    (&mut file).take(HEAD_BYTES).read_to_end(&mut first_bytes)?;
    let Some((magic, stream)) = first_bytes.split_first_chunk::<8>() else { return Ok(None) };
    let Ok(stream) = stream.try_into().map(u128::from_le_bytes) else { return Ok(None) };
    if magic != MAGIC {
        return Ok(None);
    }
    let mut segment =
        Segment { path: path.to_owned(), first: 0, end: 0, records: 0, bytes: HEAD_BYTES };
    while let Some(record) = read_record(&mut file)? {
        if segment.records == 0 {
            segment.first = record.number;
        }
        segment.records += 1;
        segment.end = record.number + 1;
        segment.bytes += (RECORD_HEAD_BYTES + record.bytes.len()) as u64;
    }
    file.set_len(segment.bytes)?;
    Ok(Some((StreamId(stream), segment)))
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
            let mut file = File::open(&path).expect("it is there");
            file.seek(SeekFrom::Start(HEAD_BYTES)).expect("it is long enough");
            let mut at = 24;
            std::iter::from_fn(|| read_record(&mut file).expect("it can be read"))
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
        }
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
