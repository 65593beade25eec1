//! A segment of the write-ahead log: records, and other bytes between them. Its parts cover it, each
//! record that is read is one that was written, and a changed bit is damage.
//!
//! Input: one byte (whether it is the log's last segment), then for each piece one byte for its kind
//! (0 other bytes, 1 changes a bit, odd begins a group, even continues it), one for its length or the
//! place, then its bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_datafile::{
    SEGMENT_HEAD_BYTES, SegmentPiece, SegmentPieces, record_head, record_sequence, segment_head,
};

const FIRST: u64 = 1000;

#[derive(Default)]
struct WrittenSegment<'a> {
    bytes: Vec<u8>,
    records: Vec<&'a [u8]>,
    others: usize,
    flips: usize,
}

fn write(script: &[u8]) -> WrittenSegment<'_> {
    let mut written =
        WrittenSegment { bytes: segment_head(FIRST).to_vec(), ..WrittenSegment::default() };
    let mut rest = script;
    while let [kind, length, behind @ ..] = rest {
        let (body, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        match kind {
            0 => {
                written.bytes.extend_from_slice(body);
                written.others += 1;
            }
            1 => {
                let place = body.iter().fold(0, |place, byte| place << 8 | usize::from(*byte));
                let bits = (written.bytes.len() - SEGMENT_HEAD_BYTES) * 8;
                if let Some(bit) = place.checked_rem(bits) {
                    written.bytes[SEGMENT_HEAD_BYTES + bit / 8] ^= 1 << (bit % 8);
                    written.flips += 1;
                }
            }
            kind => {
                let number = FIRST + written.records.len() as u64;
                let begins = kind % 2 == 1 || written.records.is_empty();
                written.bytes.extend(record_head(begins, number, body));
                written.bytes.extend_from_slice(body);
                written.records.push(body);
            }
        }
        rest = behind;
    }
    written
}

fuzz_target!(|bytes: &[u8]| {
    let Some((flags, script)) = bytes.split_first() else { return };
    let (is_last, written) = (flags % 2 == 1, write(script));
    let segment = &written.bytes;
    let mut pieces = SegmentPieces::new(segment, FIRST, is_last);
    let (mut at, mut sequence) = (SEGMENT_HEAD_BYTES, FIRST);
    let (mut count, mut damaged) = (0, 0);
    while let Some(piece) = pieces.next() {
        match piece {
            SegmentPiece::Record { range, parcel } => {
                assert_eq!(range.start, at);
                assert_eq!(record_sequence(segment, at), Some(sequence));
                let index = usize::try_from(sequence - FIRST).expect("inputs are short");
                assert!(
                    written.others > 0 || written.flips > 1 || written.records[index] == parcel
                );
                (at, sequence, count) = (range.end, sequence + 1, count + 1);
            }
            SegmentPiece::Damage { range, records } => {
                assert!(range.start == at && range.end > at, "{range:?} at {at}");
                (at, sequence, damaged) = (range.end, sequence + records, damaged + 1);
            }
            SegmentPiece::Torn { at: torn } => {
                assert!(is_last && torn == at && pieces.next().is_none(), "{torn} at {at}");
                at = segment.len();
            }
        }
        assert_eq!(pieces.next_sequence(), sequence);
    }
    assert_eq!(at, segment.len());
    if written.others == 0 && written.flips <= 1 {
        assert_eq!(count, written.records.len() - written.flips);
        assert_eq!(damaged, written.flips);
    }
});
