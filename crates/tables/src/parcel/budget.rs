//! Memory that a parcel may take once it is decoded, charged before anything is allocated.
//!
//! A few bytes can announce gigabytes: LZ4 packs zeros 255 times, columns may share one buffer, a
//! column that is left out becomes NULLs, and an empty batch still has an array for each column.

use arrow_buffer::Buffer;
use arrow_ipc::RecordBatch;
use arrow_schema::{ArrowError, Schema};

use super::ipc::bad;
use super::{CONTENT_BYTES_MAX, PACKED_RATIO_MAX};
use crate::{DataKind, TableSpec};

/// Most bytes of a decoded parcel, with the NULL columns that it leaves out.
pub(super) const DECODED_BYTES_MAX: u64 = 256 << 20;
/// Most rows of one batch.
const ROWS_MAX: i64 = 16 << 20;
/// Bytes charged for each column of each batch: the array, its buffers and their counts.
const COLUMN_BYTES: u64 = 256;
/// Most bytes of a schema's names and metadata, and of its fields.
const SCHEMA_BYTES: usize = 1 << 20;
/// Bytes charged for each field of a schema.
const FIELD_BYTES: usize = 256;
/// Nesting of a schema's fields; a map has 2.
const DEPTH_MAX: usize = 8;

/// Bytes that a parcel may still take.
#[derive(Debug)]
pub(super) struct DecodeBudget {
    left: u64,
}

impl Default for DecodeBudget {
    fn default() -> Self {
        Self { left: DECODED_BYTES_MAX }
    }
}

impl DecodeBudget {
    fn take(&mut self, bytes: u64) -> Result<(), ArrowError> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            let limit = DECODED_BYTES_MAX >> 20;
            bad(&format!("the parcel needs more than {limit} MiB of memory"))
        })?;
        Ok(())
    }

    /// Bytes taken so far.
    pub(super) fn taken(&self) -> u64 {
        DECODED_BYTES_MAX - self.left
    }

    /// Charges each buffer with its unpacked length. Buffers may overlap in the body, but not once
    /// they are copied.
    pub(super) fn take_buffers(
        &mut self,
        batch: RecordBatch<'_>,
        body: &Buffer,
    ) -> Result<(), ArrowError> {
        let is_packed = batch.compression().is_some();
        for buffer in batch.buffers().into_iter().flatten() {
            let mut length = u64::try_from(buffer.length()).unwrap_or_default();
            if is_packed {
                let at = usize::try_from(buffer.offset()).unwrap_or(usize::MAX);
                let head = body.get(at..).and_then(|rest| rest.first_chunk::<8>());
                // −1 marks a buffer that is not compressed.
                let unpacked = head.map_or(-1, |head| i64::from_le_bytes(*head));
                let unpacked = u64::try_from(unpacked).unwrap_or(length);
                if unpacked > CONTENT_BYTES_MAX.min(length.saturating_mul(PACKED_RATIO_MAX)) {
                    return Err(bad("a column announces more content than it can hold"));
                }
                length = length.max(unpacked);
            }
            self.take(length)?;
        }
        Ok(())
    }

    /// Charges a batch's columns, and the NULLs of those that `schema` leaves out.
    pub(super) fn take_missing(
        &mut self,
        table: &TableSpec,
        schema: &Schema,
        rows: i64,
    ) -> Result<(), ArrowError> {
        if !(0..=ROWS_MAX).contains(&rows) {
            return Err(bad(&format!(
                "a batch announces {rows} rows; at most {ROWS_MAX} are read"
            )));
        }
        let rows = rows.unsigned_abs();
        let is_missing = |name: &str| schema.fields().find(name).is_none();
        let missing = table.columns.iter().filter(|column| is_missing(column.name));
        let bits: u64 = missing.map(|column| null_bits(column.kind)).sum();
        self.take(table.columns.len() as u64 * COLUMN_BYTES + rows * bits / 8)
    }
}

/// Bits of a NULL in a column of this kind, with its mark.
pub(super) fn null_bits(kind: DataKind) -> u64 {
    match kind {
        DataKind::Time | DataKind::Int | DataKind::Float => 65,
        DataKind::Text | DataKind::Attrs => 33,
        DataKind::Flag => 2,
    }
}

/// Refuses a schema that is larger in memory than its message lets expect: fields can share names
/// and children.
pub(super) fn check_schema(schema: arrow_ipc::Schema<'_>) -> Result<(), ArrowError> {
    let mut left = SCHEMA_BYTES;
    charge_metadata(schema.custom_metadata().into_iter().flatten(), &mut left)?;
    for field in schema.fields().into_iter().flatten() {
        charge_field(field, 0, &mut left)?;
    }
    Ok(())
}

fn charge_field(
    field: arrow_ipc::Field<'_>,
    depth: usize,
    left: &mut usize,
) -> Result<(), ArrowError> {
    if depth > DEPTH_MAX {
        return Err(bad("its schema is nested too deep"));
    }
    charge(FIELD_BYTES + field.name().map_or(0, str::len), left)?;
    charge_metadata(field.custom_metadata().into_iter().flatten(), left)?;
    for child in field.children().into_iter().flatten() {
        charge_field(child, depth + 1, left)?;
    }
    Ok(())
}

fn charge_metadata<'a>(
    pairs: impl Iterator<Item = arrow_ipc::KeyValue<'a>>,
    left: &mut usize,
) -> Result<(), ArrowError> {
    for pair in pairs {
        let bytes = pair.key().map_or(0, str::len) + pair.value().map_or(0, str::len);
        charge(FIELD_BYTES + bytes, left)?;
    }
    Ok(())
}

fn charge(bytes: usize, left: &mut usize) -> Result<(), ArrowError> {
    *left = left.checked_sub(bytes).ok_or_else(|| bad("its schema needs more than 1 MiB"))?;
    Ok(())
}
