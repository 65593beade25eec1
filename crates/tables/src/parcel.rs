//! What travels from a collector to the store: record batches of several tables, and the stretch of a stream they
//! were made of. Encoded form: `docs/formats/parcel.md`.
//!
//! The same bytes go over the wire and into the write-ahead log, so a hub never encodes again.

use std::cell::RefCell;
use std::fmt;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;

mod ipc;

use crate::TableSpec;

/// Identity of something that can be read again from a position: a file, a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u128);

impl StreamId {
    /// The first 52 bits: the column `stream` of tables. As a number it costs less than text, and it is exact in JSON.
    pub fn short(self) -> i64 {
        i64::try_from(self.0 >> 76).expect("52 bits are left")
    }
}

/// 32 hex digits.
impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The stretch `[from, to)` of a stream, in the stream's own unit (bytes for files).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRange {
    /// Which stream.
    pub stream: StreamId,
    /// First position that the rows cover.
    pub from: u64,
    /// First position that they do not cover.
    pub to: u64,
}

/// Rows of one table, in the table's schema.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The table.
    pub table: &'static TableSpec,
    /// The rows; the schema is `table.schema()`.
    pub rows: RecordBatch,
}

/// Rows that become durable together with the position of the stream they came from, or not at all.
#[derive(Clone, Debug, Default)]
pub struct Parcel {
    /// The stretch of a stream that the rows were made of; `None` for what cannot be read again.
    pub range: Option<StreamRange>,
    /// Rows by table. A table may occur more than once.
    pub batches: Vec<Batch>,
}

impl Parcel {
    /// Rows of all batches together.
    pub fn row_count(&self) -> usize {
        self.batches.iter().map(|batch| batch.rows.num_rows()).sum()
    }

    /// The encoded form, version 2; `compress` packs it with LZ4. Columns without a value are left out.
    pub fn encode(&self, compress: bool) -> Vec<u8> {
        SCRATCH.with_borrow_mut(|Scratch { content, packed }| {
            content.clear();
            for batch in &self.batches {
                encode_batch(batch, content);
            }
            let mut out = self.head(2, if compress { PACKED } else { 0 });
            out.extend_from_slice(&(content.len() as u64).to_le_bytes());
            if compress {
                packed.resize(lz4_flex::block::get_maximum_output_size(content.len()), 0);
                let length = lz4_flex::block::compress_into(content, packed)
                    .expect("there is room for what cannot be packed");
                out.reserve_exact(length + 4);
                out.extend_from_slice(&packed[..length]);
            } else {
                // So that the content begins at a multiple of 8.
                out.reserve_exact(2 + content.len() + 4);
                out.extend_from_slice(&[0; 2]);
                out.extend_from_slice(content);
            }
            content.truncate(SCRATCH_BYTES_MAX);
            content.shrink_to(SCRATCH_BYTES_MAX);
            packed.truncate(SCRATCH_BYTES_MAX);
            packed.shrink_to(SCRATCH_BYTES_MAX);
            sealed(out)
        })
    }

    /// The encoded form that receivers without version 2 read.
    pub fn encode_version_1(&self) -> Vec<u8> {
        let mut out = self.head(1, 0);
        for batch in &self.batches {
            push_name(batch, &mut out);
            let at = out.len();
            out.extend_from_slice(&[0; 8]);
            ipc::push_stream(batch, &mut out);
            let length = (out.len() - at - 8) as u64;
            out[at..at + 8].copy_from_slice(&length.to_le_bytes());
        }
        sealed(out)
    }

    fn head(&self, version: u8, flags: u8) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES);
        out.extend_from_slice(MAGIC);
        out.push(version);
        let range = self.range.unwrap_or(StreamRange { stream: StreamId(0), from: 0, to: 0 });
        out.push(flags | if self.range.is_some() { HAS_RANGE } else { 0 });
        out.extend_from_slice(&range.stream.0.to_le_bytes());
        out.extend_from_slice(&range.from.to_le_bytes());
        out.extend_from_slice(&range.to.to_le_bytes());
        out.extend_from_slice(&(self.batches.len() as u64).to_le_bytes());
        out
    }

    /// Reads what [`Parcel::encode`] wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not a parcel of this version, are cut off or damaged, or name an
    /// unknown table.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_chosen(bytes, |_| true)
    }

    /// Reads the rows of one table and passes over all others.
    ///
    /// # Errors
    /// As [`Parcel::decode`], except that nothing is said about batches of other tables.
    pub fn decode_table(bytes: &[u8], table: &TableSpec) -> Result<Self, DecodeError> {
        Self::decode_chosen(bytes, |name| name == table.name)
    }

    fn decode_chosen(
        bytes: &[u8],
        is_chosen: impl Fn(&str) -> bool + std::panic::UnwindSafe,
    ) -> Result<Self, DecodeError> {
        let version = bytes.strip_prefix(MAGIC).and_then(|rest| rest.first().copied());
        let Some(version @ 1..=2) = version else {
            return Err(DecodeError("does not begin with `WPCL` and version 1 or 2".into()));
        };
        let (body, checksum) = bytes.split_last_chunk::<4>().ok_or_else(DecodeError::cut)?;
        if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
            return Err(DecodeError("fails its checksum".into()));
        }
        // Arrow's reader panics on some lies about lengths; the checksum does not keep a hostile sender out.
        std::panic::catch_unwind(|| Self::decode_body(body, version, is_chosen))
            .unwrap_or_else(|_| Err(DecodeError("holds lengths that are not true".into())))
    }

    fn decode_body(
        body: &[u8],
        version: u8,
        is_chosen: impl Fn(&str) -> bool,
    ) -> Result<Self, DecodeError> {
        let mut rest = Cut(&body[MAGIC.len() + 1..]);
        let flags = rest.take(1)?[0];
        let stream = StreamId(u128::from_le_bytes(rest.array()?));
        let (from, to) = (rest.length()?, rest.length()?);
        let count = rest.length()?;
        let mut batches = Vec::new();
        if version == 1 {
            let content = Buffer::from(rest.0);
            decode_batches(&content, count, 1, is_chosen, &mut batches)?;
        } else {
            let content = Buffer::from_vec(unpacked(&mut rest, flags)?);
            decode_batches(&content, count, ALIGNMENT, is_chosen, &mut batches)?;
        }
        let range = (flags & HAS_RANGE != 0).then_some(StreamRange { stream, from, to });
        Ok(Self { range, batches })
    }
}

/// What a thread encodes with; kept, because a parcel comes many times a second.
#[derive(Default)]
struct Scratch {
    content: Vec<u8>,
    packed: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// More than this is given back after a large parcel.
const SCRATCH_BYTES_MAX: usize = 512 << 10;

/// Up to the content of version 2.
const HEAD_BYTES: usize = 54;

/// What every parcel begins with; the version follows.
const MAGIC: &[u8] = b"WPCL";

/// Flags of the head.
const HAS_RANGE: u8 = 1;
const PACKED: u8 = 2;

/// In version 2 Arrow's streams begin at multiples of this, so that columns are used where they lie.
const ALIGNMENT: usize = 8;

/// More than this no parcel has, packed or not.
const CONTENT_BYTES_MAX: u64 = 256 << 20;

/// LZ4 cannot pack better than this: a length that is announced has to be paid for.
const PACKED_RATIO_MAX: u64 = 255;

fn sealed(mut out: Vec<u8>) -> Vec<u8> {
    out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
    out
}

fn push_name(batch: &Batch, out: &mut Vec<u8>) {
    let name = batch.table.name.as_bytes();
    out.push(u8::try_from(name.len()).expect("table names are short"));
    out.extend_from_slice(name);
}

fn encode_batch(batch: &Batch, out: &mut Vec<u8>) {
    push_name(batch, out);
    let at = out.len();
    out.extend_from_slice(&[0; 8]);
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    let start = out.len();
    ipc::push_filled(batch, out);
    let length = (out.len() - start) as u64;
    out[at..at + 8].copy_from_slice(&length.to_le_bytes());
}

/// The content of a parcel of version 2.
fn unpacked(rest: &mut Cut<'_>, flags: u8) -> Result<Vec<u8>, DecodeError> {
    let length = rest.length()?;
    if flags & PACKED == 0 {
        rest.take(2)?;
        let is_whole = rest.0.len() as u64 == length;
        return if is_whole { Ok(rest.0.to_vec()) } else { Err(DecodeError::cut()) };
    }
    if length > CONTENT_BYTES_MAX.min(rest.0.len() as u64 * PACKED_RATIO_MAX) {
        return Err(DecodeError("announces more content than it can hold".into()));
    }
    let length = usize::try_from(length).map_err(|_| DecodeError::cut())?;
    lz4_flex::block::decompress(rest.0, length)
        .map_err(|error| DecodeError(format!("is packed wrongly: {error}")))
}

fn decode_batches(
    content: &Buffer,
    count: u64,
    alignment: usize,
    is_chosen: impl Fn(&str) -> bool,
    batches: &mut Vec<Batch>,
) -> Result<(), DecodeError> {
    let mut rest = Cut(content);
    for _ in 0..count {
        let name_length = usize::from(rest.take(1)?[0]);
        let name = String::from_utf8_lossy(rest.take(name_length)?).into_owned();
        let length = usize::try_from(rest.length()?).map_err(|_| DecodeError::cut())?;
        let at = content.len() - rest.0.len();
        rest.take(at.next_multiple_of(alignment) - at)?;
        let start = content.len() - rest.0.len();
        rest.take(length)?;
        if !is_chosen(&name) {
            continue;
        }
        let table = crate::table(&name)
            .ok_or_else(|| DecodeError(format!("names the unknown table `{name}`")))?;
        let describe = |error| DecodeError(format!("holds a broken batch of `{name}`: {error}"));
        let stream = content.slice_with_length(start, length);
        for rows in ipc::read_stream(table, &stream).map_err(describe)? {
            batches.push(Batch { table, rows });
        }
    }
    Ok(())
}

/// Why bytes are not a parcel; reads after "the parcel".
#[derive(Debug, PartialEq, Eq)]
pub struct DecodeError(pub String);

impl DecodeError {
    fn cut() -> Self {
        Self("ends before its content does".into())
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the parcel {}", self.0)
    }
}

impl std::error::Error for DecodeError {}

struct Cut<'a>(&'a [u8]);

impl<'a> Cut<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        if length > self.0.len() {
            return Err(DecodeError::cut());
        }
        let (head, tail) = self.0.split_at(length);
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.take(N)?.try_into().expect("take gives N bytes"))
    }

    fn length(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Micros, Rows, Sysctl, SysctlRows};

    fn parcel() -> Parcel {
        let mut rows = SysctlRows::default();
        rows.push(&Sysctl {
            ts: Micros(5),
            host: "web1",
            name: "net.core.somaxconn",
            value: "4096",
            ..Default::default()
        });
        let batch = Batch { table: SysctlRows::SPEC, rows: rows.finish() };
        let range = StreamRange { stream: StreamId(7), from: 10, to: 20 };
        Parcel { range: Some(range), batches: vec![batch] }
    }

    #[test]
    fn encoded_parcel_decodes_to_itself() {
        let parcel = parcel();
        for bytes in [parcel.encode(false), parcel.encode(true), parcel.encode_version_1()] {
            let back = Parcel::decode(&bytes).expect("own bytes");
            assert_eq!(back.range, parcel.range);
            assert_eq!(back.batches[0].table.name, "sysctl");
            assert_eq!(back.batches[0].rows, parcel.batches[0].rows);
        }
    }

    #[test]
    fn what_is_packed_cannot_announce_more_than_it_holds() {
        let mut bytes = parcel().encode(true);
        bytes[46..54].copy_from_slice(&(200_u64 << 20).to_le_bytes());
        bytes.truncate(bytes.len() - 4);
        let error = Parcel::decode(&sealed(bytes)).expect_err("a lie");
        assert_eq!(error.0, "announces more content than it can hold");
    }

    #[test]
    fn one_table_is_read_without_the_others() {
        let bytes = parcel().encode(true);
        assert_eq!(
            Parcel::decode_table(&bytes, SysctlRows::SPEC).expect("own bytes").row_count(),
            1
        );
        let other = Parcel::decode_table(&bytes, &crate::Log::SPEC).expect("own bytes");
        assert_eq!((other.row_count(), other.range), (0, parcel().range));
    }

    #[test]
    fn cut_or_changed_bytes_are_an_error_and_never_a_panic() {
        for bytes in [parcel().encode(false), parcel().encode(true), parcel().encode_version_1()] {
            cut_and_change(&bytes);
        }
    }

    fn cut_and_change(bytes: &[u8]) {
        for length in 0..bytes.len() {
            assert!(Parcel::decode(&bytes[..length]).is_err());
        }
        arbtest::arbtest(|u| {
            let mut broken = bytes.to_vec();
            let at = u.choose_index(broken.len())?;
            broken[at] ^= u.arbitrary::<u8>()?;
            assert_eq!(Parcel::decode(&broken).is_ok(), broken == bytes);
            // As somebody would who knows the checksum.
            broken.truncate(broken.len() - 4);
            drop(Parcel::decode(&sealed(broken)));
            Ok(())
        });
    }
}
