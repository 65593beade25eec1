//! Parcels: record batches on their path from a collector to the store, with the range of the
//! stream that they were made of. Encoded form: `docs/formats/parcel.md`.
//!
//! The same bytes go over the network and into the write-ahead log, so a hub never encodes again.

use std::cell::RefCell;
use std::fmt;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;

mod budget;
mod ipc;

use crate::{TableSpec, is_null_column};
use budget::{DECODED_BYTES_MAX, DecodeBudget, null_bits};

/// Identity of something that can be read again from a position: a file, a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u128);

impl StreamId {
    /// The first 52 bits: the column `stream` of tables. Cheaper than text, and exact in JSON.
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

/// The range `[from, to)` of a stream, in the stream's own unit (bytes for files).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamRange {
    /// The stream.
    pub stream: StreamId,
    /// First position covered by the rows.
    pub from: u64,
    /// First position after the rows.
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

/// Rows that become durable together with the position of their stream, or not at all.
#[derive(Clone, Debug, Default)]
pub struct Parcel {
    /// The range of a stream that the rows were made of; `None` if it cannot be read again.
    pub range: Option<StreamRange>,
    /// Rows by table. A table may occur more than once.
    pub batches: Vec<Batch>,
}

impl Parcel {
    /// Rows of all batches together.
    pub fn row_count(&self) -> usize {
        self.batches.iter().map(|batch| batch.rows.num_rows()).sum()
    }

    /// Bytes that the columns without a value take once the parcel is decoded; its encoded form
    /// leaves them out.
    pub fn null_bytes(&self) -> u64 {
        let of_batch = |batch: &Batch| {
            let columns = batch.rows.columns().iter().zip(batch.table.columns);
            let null = columns.filter(|(array, _)| is_null_column(array));
            let bits: u64 = null.map(|(_, column)| null_bits(column.kind)).sum();
            batch.rows.num_rows() as u64 * bits / 8
        };
        self.batches.iter().map(of_batch).sum()
    }

    /// Encodes as version 2, LZ4-compressed with `compress`. Columns without a value are left out.
    pub fn encode(&self, compress: bool) -> Vec<u8> {
        BUFFERS.with_borrow_mut(|EncodeBuffers { content, packed }| {
            content.clear();
            for batch in &self.batches {
                encode_batch(batch, content);
            }
            let mut out = self.head(2, compress);
            out.extend_from_slice(&(content.len() as u64).to_le_bytes());
            if compress {
                packed.resize(lz4_flex::block::get_maximum_output_size(content.len()), 0);
                let length = lz4_flex::block::compress_into(content, packed)
                    .expect("the buffer holds incompressible content too");
                out.reserve_exact(length + 4);
                out.extend_from_slice(&packed[..length]);
            } else {
                // Align the content to 8 bytes.
                out.reserve_exact(2 + content.len() + 4);
                out.extend_from_slice(&[0; 2]);
                out.extend_from_slice(content);
            }
            content.truncate(BUFFER_BYTES_MAX);
            content.shrink_to(BUFFER_BYTES_MAX);
            packed.truncate(BUFFER_BYTES_MAX);
            packed.shrink_to(BUFFER_BYTES_MAX);
            with_checksum(out)
        })
    }

    /// Encodes for receivers that do not support version 2.
    pub fn encode_version_1(&self) -> Vec<u8> {
        let mut out = self.head(1, false);
        for batch in &self.batches {
            push_name(batch, &mut out);
            let at = out.len();
            out.extend_from_slice(&[0; 8]);
            ipc::push_stream(batch, &mut out);
            let length = (out.len() - at - 8) as u64;
            out[at..at + 8].copy_from_slice(&length.to_le_bytes());
        }
        with_checksum(out)
    }

    fn head(&self, version: u8, is_packed: bool) -> Vec<u8> {
        let flags = if is_packed { PACKED } else { 0 };
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

    /// Decodes the output of [`Parcel::encode`].
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not a parcel of a known version, are truncated or
    /// damaged, or name an unknown table.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_measured(bytes).map(|(parcel, _)| parcel)
    }

    /// Decodes like [`Parcel::decode`], and also returns the bytes of memory that the rows take.
    ///
    /// # Errors
    /// As [`Parcel::decode`].
    pub fn decode_measured(bytes: &[u8]) -> Result<(Self, u64), DecodeError> {
        Self::decode_chosen(bytes, |_| true)
    }

    /// Length of the content that the head of a parcel announces, uncompressed; 0 for what is no
    /// parcel.
    pub fn announced_bytes(bytes: &[u8]) -> u64 {
        let is_new = bytes.strip_prefix(MAGIC).is_some_and(|rest| rest.first() == Some(&2));
        let length = bytes.get(HEAD_BYTES - 8..).and_then(|rest| rest.first_chunk::<8>());
        let length = length.filter(|_| is_new).map_or(0, |length| u64::from_le_bytes(*length));
        length.max(bytes.len() as u64).min(DECODED_BYTES_MAX)
    }

    /// Decodes the rows of one table and skips all others.
    ///
    /// # Errors
    /// As [`Parcel::decode`], but batches of other tables are not checked.
    pub fn decode_table(bytes: &[u8], table: &TableSpec) -> Result<Self, DecodeError> {
        Self::decode_chosen(bytes, |name| name == table.name).map(|(parcel, _)| parcel)
    }

    fn decode_chosen(
        bytes: &[u8],
        is_chosen: impl Fn(&str) -> bool + std::panic::UnwindSafe,
    ) -> Result<(Self, u64), DecodeError> {
        let version = bytes.strip_prefix(MAGIC).and_then(|rest| rest.first().copied());
        let Some(version @ 1..=2) = version else {
            return Err(DecodeError("does not start with `WPCL` and version 1 or 2".into()));
        };
        let (body, checksum) = bytes.split_last_chunk::<4>().ok_or_else(DecodeError::truncated)?;
        if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
            return Err(DecodeError("fails its checksum".into()));
        }
        // Arrow's reader panics on some false lengths, and a hostile sender can forge the checksum.
        std::panic::catch_unwind(|| Self::decode_body(body, version, is_chosen))
            .unwrap_or_else(|_| Err(DecodeError("holds false lengths".into())))
    }

    fn decode_body(
        body: &[u8],
        version: u8,
        is_chosen: impl Fn(&str) -> bool,
    ) -> Result<(Self, u64), DecodeError> {
        let mut rest = ByteReader(&body[MAGIC.len() + 1..]);
        let flags = rest.take(1)?[0];
        let stream = StreamId(u128::from_le_bytes(rest.array()?));
        let (from, to) = (rest.length()?, rest.length()?);
        let count = rest.length()?;
        let mut decoded = DecodedBatches::default();
        if version == 1 {
            let content = Buffer::from(rest.0);
            decode_batches(&content, count, 1, is_chosen, &mut decoded)?;
        } else {
            let content = Buffer::from_vec(unpack(&mut rest, flags)?);
            decode_batches(&content, count, ALIGNMENT, is_chosen, &mut decoded)?;
        }
        let range = (flags & HAS_RANGE != 0).then_some(StreamRange { stream, from, to });
        Ok((Self { range, batches: decoded.batches }, decoded.budget.taken()))
    }
}

/// Encoding buffers of a thread, reused because parcels are frequent.
#[derive(Default)]
struct EncodeBuffers {
    content: Vec<u8>,
    packed: Vec<u8>,
}

thread_local! {
    static BUFFERS: RefCell<EncodeBuffers> = RefCell::default();
}

/// Bytes of each buffer that are kept after a large parcel.
const BUFFER_BYTES_MAX: usize = 512 << 10;

/// Bytes before the content of version 2.
const HEAD_BYTES: usize = 54;

/// Magic number of a parcel, followed by the version.
const MAGIC: &[u8] = b"WPCL";

/// Flags of the head.
const HAS_RANGE: u8 = 1;
const PACKED: u8 = 2;

/// Alignment of Arrow streams in version 2, so that columns are read without a copy.
const ALIGNMENT: usize = 8;

/// Largest content of a parcel, uncompressed.
const CONTENT_BYTES_MAX: u64 = 256 << 20;

/// LZ4's best compression ratio: an announced length above it is false.
const PACKED_RATIO_MAX: u64 = 255;

fn with_checksum(mut out: Vec<u8>) -> Vec<u8> {
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

/// What was decoded of a parcel, and the memory left for the rest.
#[derive(Default)]
struct DecodedBatches {
    batches: Vec<Batch>,
    budget: DecodeBudget,
}

/// Content of a version 2 parcel, uncompressed.
fn unpack(rest: &mut ByteReader<'_>, flags: u8) -> Result<Vec<u8>, DecodeError> {
    let length = rest.length()?;
    if flags & PACKED == 0 {
        rest.take(2)?;
        let is_whole = rest.0.len() as u64 == length;
        return if is_whole { Ok(rest.0.to_vec()) } else { Err(DecodeError::truncated()) };
    }
    if length > CONTENT_BYTES_MAX.min(rest.0.len() as u64 * PACKED_RATIO_MAX) {
        return Err(DecodeError("announces more content than it can hold".into()));
    }
    let length = usize::try_from(length).map_err(|_| DecodeError::truncated())?;
    lz4_flex::block::decompress(rest.0, length)
        .map_err(|error| DecodeError(format!("cannot be decompressed: {error}")))
}

fn decode_batches(
    content: &Buffer,
    count: u64,
    alignment: usize,
    is_chosen: impl Fn(&str) -> bool,
    decoded: &mut DecodedBatches,
) -> Result<(), DecodeError> {
    let mut rest = ByteReader(content);
    for _ in 0..count {
        let name_length = usize::from(rest.take(1)?[0]);
        let name = String::from_utf8_lossy(rest.take(name_length)?).into_owned();
        let length = usize::try_from(rest.length()?).map_err(|_| DecodeError::truncated())?;
        let at = content.len() - rest.0.len();
        rest.take(at.next_multiple_of(alignment) - at)?;
        let start = content.len() - rest.0.len();
        rest.take(length)?;
        if !is_chosen(&name) {
            continue;
        }
        let table = crate::table(&name)
            .ok_or_else(|| DecodeError(format!("names the unknown table `{name}`")))?;
        let stream = content.slice_with_length(start, length);
        let batches = ipc::read_stream(table, &stream, &mut decoded.budget).map_err(|error| {
            DecodeError(format!("holds a malformed batch of `{name}`: {error}"))
        })?;
        decoded.batches.extend(batches.into_iter().map(|rows| Batch { table, rows }));
    }
    Ok(())
}

/// Why bytes are not a valid parcel; the text follows "the parcel".
#[derive(Debug, PartialEq, Eq)]
pub struct DecodeError(pub String);

impl DecodeError {
    fn truncated() -> Self {
        Self("is truncated".into())
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the parcel {}", self.0)
    }
}

impl std::error::Error for DecodeError {}

struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        if length > self.0.len() {
            return Err(DecodeError::truncated());
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
    fn compressed_content_cannot_announce_more_than_it_holds() {
        let mut bytes = parcel().encode(true);
        bytes[46..54].copy_from_slice(&(200_u64 << 20).to_le_bytes());
        bytes.truncate(bytes.len() - 4);
        let error = Parcel::decode(&with_checksum(bytes)).expect_err("a false length");
        assert_eq!(error.0, "announces more content than it can hold");
    }

    /// A parcel of one batch with these columns of `rows` zeros or single letters.
    fn zeros(table: &'static TableSpec, names: &[&str], rows: usize) -> Parcel {
        use arrow_array::types::{Float64Type, TimestampMicrosecondType};
        use arrow_array::{ArrayRef, PrimitiveArray, StringArray};
        use arrow_schema::{DataType, Schema};
        let schema = table.schema();
        let mut fields = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        for name in names {
            let field = schema.field_with_name(name).expect("a column").clone();
            columns.push(match field.data_type() {
                DataType::Utf8 => std::sync::Arc::new(StringArray::from_iter_values(
                    std::iter::repeat_n("", rows),
                )),
                DataType::Float64 => {
                    std::sync::Arc::new(PrimitiveArray::<Float64Type>::from_value(0.0, rows))
                }
                other => std::sync::Arc::new(
                    PrimitiveArray::<TimestampMicrosecondType>::from_value(0, rows)
                        .with_data_type(other.clone()),
                ),
            });
            fields.push(field);
        }
        let rows = RecordBatch::try_new(Schema::new(fields).into(), columns).expect("one length");
        Parcel { range: None, batches: vec![Batch { table, rows }] }
    }

    const SERVER: [&str; 5] = ["ts", "host", "system", "server_address", "duration_seconds"];

    #[test]
    fn null_columns_that_a_parcel_leaves_out_count_before_they_are_made() {
        let table = crate::table("db_server").expect("a table");
        let bomb = zeros(table, &SERVER, 5_000_000).encode(true);
        assert!(bomb.len() < 2 << 20, "{} bytes", bomb.len());
        let error = Parcel::decode(&bomb).expect_err("rows times columns");
        assert!(error.0.ends_with("the parcel needs more than 256 MiB of memory"), "{error}");
        let (parcel, bytes) = Parcel::decode_measured(&zeros(table, &SERVER, 100_000).encode(true))
            .expect("an ordinary size");
        assert_eq!(parcel.row_count(), 100_000);
        assert!(bytes > parcel.null_bytes() && bytes < 64 << 20, "{bytes}");
    }

    #[test]
    fn batches_without_columns_that_are_needed_cannot_announce_rows() {
        use arrow_array::RecordBatchOptions;
        use arrow_schema::Schema;
        for count in [usize::MAX >> 1, 1 << 40, 10_000_000] {
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            let rows = RecordBatch::try_new_with_options(Schema::empty().into(), vec![], &options);
            let batch = Batch { table: SysctlRows::SPEC, rows: rows.expect("no columns") };
            let bytes = Parcel { range: None, batches: vec![batch] }.encode(true);
            assert!(bytes.len() < 1024);
            Parcel::decode(&bytes).expect_err("NULLs for nothing");
        }
    }

    #[test]
    fn many_batches_and_columns_that_share_a_buffer_count_each() {
        let one = zeros(SysctlRows::SPEC, &["ts", "host", "name", "value"], 0);
        let batches = vec![one.batches[0].clone(); 300_000];
        let bytes = Parcel { range: None, batches }.encode(true);
        assert!(bytes.len() < 4 << 20, "{} bytes", bytes.len());
        let error = Parcel::decode(&bytes).expect_err("arrays take memory without rows");
        assert!(error.0.contains("more than 256 MiB"), "{error}");
    }

    #[test]
    fn column_of_another_type_is_refused_by_name() {
        use arrow_array::{ArrayRef, Int64Array};
        let value: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![1]));
        let rows = RecordBatch::try_from_iter([("value", value)]).expect("a batch");
        let batch = Batch { table: SysctlRows::SPEC, rows };
        let bytes = Parcel { range: None, batches: vec![batch] }.encode(true);
        let error = Parcel::decode(&bytes).expect_err("`value` is text");
        assert!(error.0.ends_with("its column `value` is Int64, not Utf8"), "{error}");
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
    fn truncated_or_changed_bytes_are_an_error_and_never_a_panic() {
        for bytes in [parcel().encode(false), parcel().encode(true), parcel().encode_version_1()] {
            check_corruption(&bytes);
        }
    }

    fn check_corruption(bytes: &[u8]) {
        for length in 0..bytes.len() {
            assert!(Parcel::decode(&bytes[..length]).is_err());
        }
        arbtest::arbtest(|u| {
            let mut broken = bytes.to_vec();
            let at = u.choose_index(broken.len())?;
            broken[at] ^= u.arbitrary::<u8>()?;
            assert_eq!(Parcel::decode(&broken).is_ok(), broken == bytes);
            // A hostile sender computes the right checksum.
            broken.truncate(broken.len() - 4);
            drop(Parcel::decode(&with_checksum(broken)));
            Ok(())
        });
    }
}
