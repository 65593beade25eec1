//! One file of the spool: records behind a header, read past damage.
//!
//! Numbers within a file are consecutive, and its name has the first. So where a record is damaged,
//! the next one is found again by its number and checksum, and how many are lost is exact.

use std::fs::File;
use std::io::{Error, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use weir_tables::{Parcel, StreamId};

pub(crate) const MAGIC: &[u8; 8] = b"WSPL\x01\0\0\0";
/// Magic and stream id.
pub(crate) const HEAD_BYTES: u64 = 24;
/// Length, checksum, number.
pub(crate) const RECORD_HEAD_BYTES: usize = 16;
/// Size limit of a record in bytes.
const RECORD_BYTES_MAX: u64 = 64 << 20;
/// Bytes that are searched at a time for the next intact record.
const SEARCH_BYTES: usize = 1 << 20;

/// A parcel of the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Position in the stream.
    pub number: u64,
    /// The encoded parcel; its range is `[number, number + 1)`.
    pub bytes: Vec<u8>,
}

/// A file that was read whole.
pub(crate) struct SegmentScan {
    pub(crate) path: PathBuf,
    /// Stream of its records, or the header's stream where there are none.
    pub(crate) stream: Option<StreamId>,
    /// First number, from the name.
    pub(crate) first: u64,
    /// Number after the last intact record; `first` where there is none.
    pub(crate) end: u64,
    pub(crate) records: u64,
    /// Bytes up to the end of the last intact record.
    pub(crate) bytes: u64,
    /// Records between others that cannot be read.
    pub(crate) lost: u64,
    /// Where the first damage is.
    pub(crate) damaged_at: Option<u64>,
}

/// Reads the records of a file in turn.
pub(crate) struct SegmentReader {
    file: File,
    length: u64,
    /// Offset behind the last record.
    at: u64,
    /// Number of the record that is due.
    due: u64,
}

impl SegmentReader {
    /// Opens a file, whose first record has the number of its name.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { file, length, at: HEAD_BYTES, due: first_number(path).unwrap_or_default() })
    }

    /// The next intact record; `None` where none follows.
    pub(crate) fn next_record(&mut self) -> std::io::Result<Option<Record>> {
        // The last file grows.
        self.length = self.file.metadata()?.len();
        let found = match self.read_at(self.at)? {
            Some(record) => Some((self.at, record)),
            None => self.search()?,
        };
        let Some((at, record)) = found else { return Ok(None) };
        self.at = at + (RECORD_HEAD_BYTES + record.bytes.len()) as u64;
        self.due = record.number + 1;
        Ok(Some(record))
    }

    /// Reads the record at an offset; `None` where none is intact.
    fn read_at(&mut self, at: u64) -> std::io::Result<Option<Record>> {
        let mut head = [0; RECORD_HEAD_BYTES];
        self.file.seek(SeekFrom::Start(at))?;
        if !is_filled(self.file.read_exact(&mut head))? {
            return Ok(None);
        }
        let head = RecordHead::parse(head);
        if !self.is_plausible(&head, at) {
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(head.length).map_err(Error::other)?];
        let is_whole = is_filled(self.file.read_exact(&mut bytes))?
            && checksum(head.number, &bytes) == head.sum;
        Ok(is_whole.then_some(Record { number: head.number, bytes }))
    }

    fn is_plausible(&self, head: &RecordHead, at: u64) -> bool {
        let left = self.length.saturating_sub(at).saturating_sub(RECORD_HEAD_BYTES as u64);
        // Each lost record took its head at least.
        let skipped = at.saturating_sub(self.at) / RECORD_HEAD_BYTES as u64;
        head.length <= left.min(RECORD_BYTES_MAX)
            && (self.due..=self.due.saturating_add(skipped)).contains(&head.number)
    }

    /// Finds the next intact record behind a damaged one.
    fn search(&mut self) -> std::io::Result<Option<(u64, Record)>> {
        let mut from = self.at + 1;
        let mut piece = vec![0; SEARCH_BYTES];
        while from + (RECORD_HEAD_BYTES as u64) <= self.length {
            self.file.seek(SeekFrom::Start(from))?;
            let count = fill(&mut self.file, &mut piece)?;
            for (place, head) in (from..).zip(piece[..count].windows(RECORD_HEAD_BYTES)) {
                let head: [u8; RECORD_HEAD_BYTES] = head.try_into().map_err(Error::other)?;
                if !self.is_plausible(&RecordHead::parse(head), place) {
                    continue;
                }
                if let Some(record) = self.read_at(place)? {
                    return Ok(Some((place, record)));
                }
            }
            from += (count.max(RECORD_HEAD_BYTES) - RECORD_HEAD_BYTES + 1) as u64;
        }
        Ok(None)
    }
}

impl SegmentScan {
    /// Reads a whole file; `None` if its name is no number.
    pub(crate) fn read(path: &Path) -> std::io::Result<Option<Self>> {
        let Some(first) = first_number(path) else { return Ok(None) };
        let mut reader = SegmentReader::open(path)?;
        let header = header_stream(&mut reader.file)?;
        let mut scan = Self {
            path: path.to_owned(),
            stream: header,
            first,
            end: first,
            records: 0,
            bytes: HEAD_BYTES,
            lost: 0,
            damaged_at: header.is_none().then_some(0),
        };
        while let Some(record) = reader.next_record()? {
            scan.add(&record, reader.at);
        }
        if reader.length > scan.bytes.max(HEAD_BYTES) {
            scan.damaged_at.get_or_insert(scan.bytes);
        }
        Ok(Some(scan))
    }

    fn add(&mut self, record: &Record, end: u64) {
        if self.records == 0 {
            self.compare_stream(record);
        }
        if end != self.bytes + (RECORD_HEAD_BYTES + record.bytes.len()) as u64 {
            self.damaged_at.get_or_insert(self.bytes);
        }
        self.lost += record.number.saturating_sub(self.end);
        self.records += 1;
        (self.end, self.bytes) = (record.number + 1, end);
    }

    /// Takes the stream of a record, which has a checksum, where the header has another.
    fn compare_stream(&mut self, record: &Record) {
        let range = Parcel::decode(&record.bytes).ok().and_then(|parcel| parcel.range);
        if let Some(range) = range.filter(|range| Some(range.stream) != self.stream) {
            self.stream = Some(range.stream);
            self.damaged_at = Some(0);
        }
    }
}

struct RecordHead {
    length: u64,
    sum: u32,
    number: u64,
}

impl RecordHead {
    fn parse(head: [u8; RECORD_HEAD_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, number @ ..] = head;
        let length = u64::from(u32::from_le_bytes([a, b, c, d]));
        let sum = u32::from_le_bytes([e, f, g, h]);
        Self { length, sum, number: u64::from_le_bytes(number) }
    }
}

/// Checksum of a record.
pub(crate) fn checksum(number: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// Name of the file whose first record has this number.
pub(crate) fn name_of(first: u64) -> String {
    format!("{first:020}.spool")
}

fn first_number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(".spool")?.parse().ok()
}

/// The stream in the header; `None` if that is damaged.
fn header_stream(file: &mut File) -> std::io::Result<Option<StreamId>> {
    let mut head = [0; 24];
    file.seek(SeekFrom::Start(0))?;
    if !is_filled(file.read_exact(&mut head))? {
        return Ok(None);
    }
    let stream = head.split_first_chunk::<8>().filter(|(magic, _)| *magic == MAGIC);
    let stream = stream.and_then(|(_, stream)| stream.try_into().ok());
    Ok(stream.map(|stream| StreamId(u128::from_le_bytes(stream))))
}

/// Whether a read found as many bytes as it was to fill.
fn is_filled(read: std::io::Result<()>) -> std::io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Fills `bytes` as far as the file reaches.
fn fill(file: &mut File, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut count = 0;
    while count < bytes.len() {
        match file.read(&mut bytes[count..])? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}
