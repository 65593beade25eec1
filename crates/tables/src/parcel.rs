//! What travels from a collector to the store: record batches of several tables, and the stretch of a stream they
//! were made of. Encoded form: `docs/formats/parcel.md`.
//!
//! The same bytes go over the wire and into the write-ahead log, so a hub never encodes again.

use std::fmt;
use std::io::Cursor;

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};

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

    /// The encoded form; `compress` packs the column buffers with LZ4.
    pub fn encode(&self, compress: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(4096);
        out.extend_from_slice(MAGIC);
        let range = self.range.unwrap_or(StreamRange { stream: StreamId(0), from: 0, to: 0 });
        out.push(u8::from(self.range.is_some()));
        out.extend_from_slice(&range.stream.0.to_le_bytes());
        out.extend_from_slice(&range.from.to_le_bytes());
        out.extend_from_slice(&range.to.to_le_bytes());
        out.extend_from_slice(&(self.batches.len() as u64).to_le_bytes());
        for batch in &self.batches {
            encode_batch(batch, compress, &mut out);
        }
        out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
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
        if !bytes.starts_with(MAGIC) {
            return Err(DecodeError("does not begin with `WPCL` and version 1".into()));
        }
        let (body, checksum) = bytes.split_last_chunk::<4>().ok_or_else(DecodeError::cut)?;
        if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
            return Err(DecodeError("fails its checksum".into()));
        }
        // Arrow's reader panics on some lies about lengths; the checksum does not keep a hostile sender out.
        std::panic::catch_unwind(|| Self::decode_body(body, is_chosen))
            .unwrap_or_else(|_| Err(DecodeError("holds lengths that are not true".into())))
    }

    fn decode_body(body: &[u8], is_chosen: impl Fn(&str) -> bool) -> Result<Self, DecodeError> {
        let mut rest = Cut(&body[MAGIC.len()..]);
        let has_range = rest.take(1)?[0] == 1;
        let stream = StreamId(u128::from_le_bytes(rest.array()?));
        let (from, to) = (rest.length()?, rest.length()?);
        let count = rest.length()?;
        let mut batches = Vec::new();
        for _ in 0..count {
            decode_batch(&mut rest, &is_chosen, &mut batches)?;
        }
        Ok(Self { range: has_range.then_some(StreamRange { stream, from, to }), batches })
    }
}

/// `WPCL` and the version of the layout.
const MAGIC: &[u8] = b"WPCL\x01";

fn encode_batch(batch: &Batch, compress: bool, out: &mut Vec<u8>) {
    let name = batch.table.name.as_bytes();
    out.push(u8::try_from(name.len()).expect("table names are short"));
    out.extend_from_slice(name);
    let at = out.len();
    out.extend_from_slice(&[0; 8]);
    let compression = compress.then_some(CompressionType::LZ4_FRAME);
    let options =
        IpcWriteOptions::default().try_with_compression(compression).expect("lz4 is compiled in");
    let mut writer = StreamWriter::try_new_with_options(&mut *out, &batch.rows.schema(), options)
        .expect("writing to memory does not fail");
    writer.write(&batch.rows).expect("the batch has the schema of the writer");
    writer.finish().expect("writing to memory does not fail");
    drop(writer);
    let length = (out.len() - at - 8) as u64;
    out[at..at + 8].copy_from_slice(&length.to_le_bytes());
}

fn decode_batch(
    rest: &mut Cut<'_>,
    is_chosen: impl Fn(&str) -> bool,
    batches: &mut Vec<Batch>,
) -> Result<(), DecodeError> {
    let name_length = usize::from(rest.take(1)?[0]);
    let name = String::from_utf8_lossy(rest.take(name_length)?).into_owned();
    let length = usize::try_from(rest.length()?).map_err(|_| DecodeError::cut())?;
    let body = rest.take(length)?;
    if !is_chosen(&name) {
        return Ok(());
    }
    let table = crate::table(&name)
        .ok_or_else(|| DecodeError(format!("names the unknown table `{name}`")))?;
    let describe = |error: arrow_schema::ArrowError| {
        DecodeError(format!("holds a broken batch of `{name}`: {error}"))
    };
    for rows in StreamReader::try_new(Cursor::new(body), None).map_err(describe)? {
        batches.push(Batch { table, rows: rows.map_err(describe)? });
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
        for compress in [false, true] {
            let parcel = parcel();
            let back = Parcel::decode(&parcel.encode(compress)).expect("own bytes");
            assert_eq!(back.range, parcel.range);
            assert_eq!(back.batches[0].table.name, "sysctl");
            assert_eq!(back.batches[0].rows, parcel.batches[0].rows);
        }
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
        let bytes = parcel().encode(false);
        for length in 0..bytes.len() {
            assert!(Parcel::decode(&bytes[..length]).is_err());
        }
        arbtest::arbtest(|u| {
            let mut broken = bytes.clone();
            let at = u.choose_index(broken.len())?;
            broken[at] ^= u.arbitrary::<u8>()?;
            assert_eq!(Parcel::decode(&broken).is_ok(), broken == bytes);
            Ok(())
        });
    }
}
