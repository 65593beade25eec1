//! A segment of the write-ahead log as bytes: its head, its records, and what is left of it behind
//! damage. Layout: `docs/formats/wal.md`.
//!
//! Only the last group of the last segment can be torn, because a group is written after the previous
//! one was synced. Invalid bytes are therefore torn when no later group follows and they look like the
//! beginning of a write; otherwise they were acknowledged and changed later.

use std::ops::Range;

/// `WWAL`, version 1, then the sequence number of the first record.
const MAGIC: &[u8; 8] = b"WWAL\x01\0\0\0";
/// Length of a segment's head.
pub const SEGMENT_HEAD_BYTES: usize = 16;
/// Length of a record's head.
pub const RECORD_HEAD_BYTES: usize = 16;
/// Maximum length of an encoded parcel.
pub const RECORD_BYTES_MAX: usize = 256 << 20;
/// Flag in a record's length: the record begins a group.
const BEGINS_GROUP: u32 = 1 << 31;
/// A record after damage has a number this close.
const NEAR: u64 = 1 << 20;
/// A run of zeros this long is a page that did not reach the disk.
const ZEROS: usize = 512;
/// Bytes of a segment that are summed up to find records behind damage. Rows are bytes of strangers,
/// who can write heads of long records into them.
const SEARCH_BYTES_MAX: usize = 4 << 30;

/// Head of a segment whose first record has this number.
pub fn segment_head(first_sequence: u64) -> [u8; SEGMENT_HEAD_BYTES] {
    let mut head = [0; SEGMENT_HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..].copy_from_slice(&first_sequence.to_le_bytes());
    head
}

/// Number of a segment's first record, as its head says; `None` without a valid head.
pub fn first_sequence(segment: &[u8]) -> Option<u64> {
    let (head, _) = segment.split_first_chunk::<SEGMENT_HEAD_BYTES>()?;
    head.starts_with(MAGIC).then(|| u64::from_le_bytes(head[8..].try_into().expect("8 bytes")))
}

/// Head of a record.
pub fn record_head(begins_group: bool, sequence: u64, bytes: &[u8]) -> [u8; RECORD_HEAD_BYTES] {
    let flag = if begins_group { BEGINS_GROUP } else { 0 };
    let length = u32::try_from(bytes.len()).expect("parcels are below RECORD_BYTES_MAX") | flag;
    let mut head = [0; RECORD_HEAD_BYTES];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..8].copy_from_slice(&checksum(length, sequence, bytes).to_le_bytes());
    head[8..].copy_from_slice(&sequence.to_le_bytes());
    head
}

/// Length of the parcel after a record's head; the caller must verify the record with
/// [`checked_parcel`].
pub fn record_length(head: &[u8; RECORD_HEAD_BYTES]) -> usize {
    let length = u32::from_le_bytes(head[..4].try_into().expect("4 bytes"));
    (length & !BEGINS_GROUP) as usize
}

/// The parcel of a single record, if the record is intact and has this sequence number.
pub fn checked_parcel(record: &[u8], sequence: u64) -> Option<&[u8]> {
    record_at(record, 0, |found| found == sequence).map(|found| found.parcel)
}

/// Sequence number of the record at `at`, if it is intact.
pub fn record_sequence(segment: &[u8], at: usize) -> Option<u64> {
    record_at(segment, at, |_| true).map(|record| record.sequence)
}

fn checksum(length: u32, sequence: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(&sequence.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// An intact record of a segment.
struct LogRecord<'a> {
    begins_group: bool,
    sequence: u64,
    parcel: &'a [u8],
    /// Offset after it.
    end: usize,
}

/// The record at `at`, if it is intact and `is_expected` accepts its sequence number.
fn record_at(
    segment: &[u8],
    at: usize,
    is_expected: impl Fn(u64) -> bool,
) -> Option<LogRecord<'_>> {
    let head: &[u8; RECORD_HEAD_BYTES] = segment.get(at..)?.first_chunk()?;
    let sequence = u64::from_le_bytes(head[8..].try_into().ok()?);
    let start = at + RECORD_HEAD_BYTES;
    let end = start.checked_add(record_length(head))?;
    let parcel = segment.get(start..end)?;
    let length = u32::from_le_bytes(head[..4].try_into().ok()?);
    // The number first: it costs less than the checksum of what may be the rest of the segment.
    if !is_expected(sequence) || head[4..8] != checksum(length, sequence, parcel).to_le_bytes() {
        return None;
    }
    Some(LogRecord { begins_group: length & BEGINS_GROUP != 0, sequence, parcel, end })
}

/// A part of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentPiece<'a> {
    /// An intact record.
    Record {
        /// Its bytes with its head.
        range: Range<usize>,
        /// What it holds.
        parcel: &'a [u8],
    },
    /// Bytes that were acknowledged and changed later.
    Damage {
        /// Which.
        range: Range<usize>,
        /// Records that are lost, as far as their numbers tell.
        records: u64,
    },
    /// The beginning of a write that was not acknowledged, up to the end of the segment.
    Torn {
        /// Its first byte.
        at: usize,
    },
}

/// The parts of a segment behind its head, in order and without gaps.
#[derive(Debug)]
pub struct SegmentPieces<'a> {
    segment: &'a [u8],
    at: usize,
    next_sequence: u64,
    /// Whether it is the last of the log, whose end may be torn.
    is_last: bool,
    /// Bytes that searches may still sum up.
    search_bytes: usize,
}

impl<'a> SegmentPieces<'a> {
    /// The parts of a segment whose first record has the number `first_sequence`.
    pub fn new(segment: &'a [u8], first_sequence: u64, is_last: bool) -> Self {
        let (at, search_bytes) = (SEGMENT_HEAD_BYTES, SEARCH_BYTES_MAX);
        Self { segment, at, next_sequence: first_sequence, is_last, search_bytes }
    }

    /// Number of the record after the last part.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Offset of the first intact record that may follow, if there is one.
    pub fn find_intact(&mut self) -> Option<usize> {
        self.next_intact().map(|(at, _)| at)
    }

    /// Offset and number of the next intact record after the damaged one. The length of the damaged
    /// record is tried first, because a parcel may contain bytes that look like a record; a wrong
    /// length may lead past the next record.
    fn next_intact(&mut self) -> Option<(usize, u64)> {
        let head = self.segment.get(self.at..).and_then(|rest| rest.first_chunk());
        let behind = head.map(|head| self.at + RECORD_HEAD_BYTES + record_length(head));
        let expected = self.next_sequence;
        let is_next = move |sequence: u64| sequence.checked_sub(expected) == Some(1);
        let is_near = move |sequence| sequence >= expected && sequence - expected < NEAR;
        let found = self.first_record(behind.into_iter(), is_next, |_| true);
        let places = self.at + 1..self.segment.len();
        let found = found.or_else(|| self.first_record(places, is_near, |_| true))?;
        Some((found.0, found.1.sequence))
    }

    /// Whether an intact record that begins a group follows: if so, the bytes at the present place
    /// were synced once.
    fn has_later_group(&mut self) -> bool {
        let expected = self.next_sequence;
        let is_later = move |sequence| sequence > expected && sequence - expected < NEAR;
        let places = self.at + 1..self.segment.len();
        // What could not be searched is kept as damage: that is counted.
        self.first_record(places, is_later, |record| record.begins_group).is_some()
            || self.search_bytes == 0
    }

    fn first_record(
        &mut self,
        places: impl Iterator<Item = usize>,
        is_expected: impl Fn(u64) -> bool,
        is_right: impl Fn(&LogRecord<'a>) -> bool,
    ) -> Option<(usize, LogRecord<'a>)> {
        for at in places {
            let head = self.segment.get(at..).and_then(|rest| rest.first_chunk());
            let sequence = head.map(|head: &[u8; RECORD_HEAD_BYTES]| {
                u64::from_le_bytes(head[8..].try_into().expect("8 bytes"))
            });
            if !sequence.is_some_and(&is_expected) {
                continue;
            }
            let length = head.map_or(0, record_length).min(self.segment.len() - at);
            let Some(left) = self.search_bytes.checked_sub(length) else {
                self.search_bytes = 0;
                return None;
            };
            self.search_bytes = left;
            if let Some(record) = record_at(self.segment, at, &is_expected).filter(&is_right) {
                return Some((at, record));
            }
        }
        None
    }

    /// Whether the invalid record, behind which no later group follows, was whole once: it has the
    /// length that it states, or records of the same group follow, and none of its pages is missing.
    fn is_changed(&mut self) -> bool {
        let found = self.next_intact();
        let bytes = &self.segment[self.at..found.map_or(self.segment.len(), |(end, _)| end)];
        let head = bytes.first_chunk::<RECORD_HEAD_BYTES>();
        let fits = head.is_some_and(|head| RECORD_HEAD_BYTES + record_length(head) <= bytes.len());
        let is_whole = found.is_some() || fits || self.is_whole_but_length();
        let has_gap = bytes.split(|byte| *byte != 0).any(|zeros| zeros.len() >= ZEROS);
        is_whole && !has_gap && bytes.iter().any(|byte| *byte != 0)
    }

    /// Whether the bytes up to the end are the expected record but for its length.
    fn is_whole_but_length(&self) -> bool {
        let rest = &self.segment[self.at..];
        let Some((head, bytes)) = rest.split_first_chunk::<RECORD_HEAD_BYTES>() else {
            return false;
        };
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX) & !BEGINS_GROUP;
        let sum_of = |flag: u32| checksum(length | flag, self.next_sequence, bytes).to_le_bytes();
        [0, BEGINS_GROUP].into_iter().any(|flag| head[4..8] == sum_of(flag))
    }
}

impl<'a> Iterator for SegmentPieces<'a> {
    type Item = SegmentPiece<'a>;

    fn next(&mut self) -> Option<SegmentPiece<'a>> {
        let (segment, at, expected) = (self.segment, self.at, self.next_sequence);
        if at >= segment.len() {
            return None;
        }
        if let Some(record) = record_at(segment, at, |sequence| sequence == expected) {
            (self.at, self.next_sequence) = (record.end, expected.saturating_add(1));
            return Some(SegmentPiece::Record { range: at..record.end, parcel: record.parcel });
        }
        if self.is_last && !self.has_later_group() && !self.is_changed() {
            self.at = segment.len();
            return Some(SegmentPiece::Torn { at });
        }
        // Behind the last record of the log there is no number that tells how many are lost.
        let end = (segment.len(), expected.saturating_add(u64::from(self.is_last)));
        (self.at, self.next_sequence) = self.next_intact().unwrap_or(end);
        Some(SegmentPiece::Damage { range: at..self.at, records: self.next_sequence - expected })
    }
}

/// The first problem of a segment whose first record should have the number `next`, and the number of
/// the record after its last one.
pub fn check_segment(
    segment: &[u8],
    next: Option<u64>,
    is_last: bool,
) -> (Result<(), String>, Option<u64>) {
    let Some(first) = first_sequence(segment) else {
        // A segment that was only created.
        let is_new = is_last && segment.len() <= SEGMENT_HEAD_BYTES;
        let outcome = if is_new { Ok(()) } else { Err("has a damaged head".to_owned()) };
        return (outcome, None);
    };
    let outcome = match next {
        Some(next) if next != first => {
            Err(format!("begins with record {first}, but record {next} was expected"))
        }
        _ => Ok(()),
    };
    let mut pieces = SegmentPieces::new(segment, first, is_last);
    let damage = pieces.find_map(|piece| match piece {
        SegmentPiece::Damage { range, .. } => Some(range.start),
        SegmentPiece::Record { .. } | SegmentPiece::Torn { .. } => None,
    });
    match damage {
        Some(at) => (outcome.and(Err(format!("has a damaged record at byte {at}"))), None),
        None => (outcome, Some(pieces.next_sequence())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of one group each, from number 5 on.
    fn segment(parcels: &[&[u8]]) -> Vec<u8> {
        let mut segment = segment_head(5).to_vec();
        for (sequence, parcel) in (5..).zip(parcels) {
            segment.extend(record_head(true, sequence, parcel));
            segment.extend_from_slice(parcel);
        }
        segment
    }

    #[test]
    fn pieces_cover_the_segment_and_damage_is_counted() {
        let mut bytes = segment(&[b"first", b"second", b"third"]);
        bytes[16 + 16 + 5 + 16] ^= 1;
        let mut pieces = SegmentPieces::new(&bytes, first_sequence(&bytes).unwrap(), true);
        let all: Vec<SegmentPiece<'_>> = pieces.by_ref().collect();
        let record = |start: usize, parcel: &'static [u8]| SegmentPiece::Record {
            range: start..start + 16 + parcel.len(),
            parcel,
        };
        let damage = SegmentPiece::Damage { range: 37..59, records: 1 };
        assert_eq!(all, [record(16, b"first"), damage, record(59, b"third")]);
        assert_eq!(pieces.next_sequence(), 8);
    }

    #[test]
    fn changed_length_that_leads_to_a_later_record_loses_one_record() {
        let mut bytes = segment(&[&[7; 16], b"0123456789abcdef", &[9; 16]]);
        // 16 becomes 48: behind that the third record begins.
        bytes[16] ^= 32;
        let mut pieces = SegmentPieces::new(&bytes, 5, true);
        assert_eq!(pieces.next(), Some(SegmentPiece::Damage { range: 16..48, records: 1 }));
        assert_eq!(pieces.count(), 2);
    }

    #[test]
    fn group_whose_pages_did_not_reach_the_disk_is_torn() {
        let whole = segment(&[b"first", b"second"]);
        let zeros = [&whole[..], &[0; 4096]].concat();
        let mut group = [&whole[..], &record_head(true, 7, &[7; 5000]), &[7; 5000]].concat();
        group[2048..4096].fill(0);
        for bytes in [zeros, group] {
            let last = SegmentPieces::new(&bytes, 5, true).last();
            assert_eq!(last, Some(SegmentPiece::Torn { at: whole.len() }));
        }
    }

    #[test]
    fn rows_that_look_like_long_records_do_not_delay_the_search() {
        let mut parcel = Vec::new();
        let length = 40_000_u32.to_le_bytes();
        while parcel.len() < 80_000 {
            // Length, sum and a number that is expected.
            parcel.extend([&length[..], &[0; 4], &6_u64.to_le_bytes()].concat());
        }
        let mut bytes = segment(&[&parcel, b"second"]);
        bytes[16] ^= 1;
        let mut pieces = SegmentPieces::new(&bytes, 5, false);
        pieces.search_bytes = 100_000;
        let damage = SegmentPiece::Damage { range: 16..bytes.len(), records: 0 };
        assert_eq!(pieces.by_ref().collect::<Vec<_>>(), std::slice::from_ref(&damage));
        let mut pieces = SegmentPieces::new(&bytes, 5, true);
        pieces.search_bytes = 100_000;
        let damage = SegmentPiece::Damage { range: 16..bytes.len(), records: 1 };
        assert_eq!(pieces.collect::<Vec<_>>(), [damage]);
    }
}
