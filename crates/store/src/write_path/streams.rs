//! Positions of streams, and admission of parcels: makes repeated sends idempotent.
//!
//! ```text
//!           position P
//!  ──────────────┼──────────────►
//!  [from, to)    │                 to ≤ P: duplicate, acknowledged, not stored
//!          [from,│  to)            rows below P are cut off, the rest is stored
//!                │[from, to)       from = P (or the stream is new): stored
//!                │    [from, to)   from > P: refused, go back to P
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use weir_datafile::{ErrorKind, StoreError};
use weir_tables::{Batch, Parcel, StreamId, StreamRange};

/// The admission decision for a parcel.
#[derive(Debug)]
pub(crate) enum Admission {
    /// All rows are already stored.
    Duplicate {
        /// Position of the stream.
        position: u64,
    },
    /// Store the parcel unchanged.
    Whole,
    /// Store this remainder instead.
    Trimmed(Parcel),
}

/// Compares `parcel` with the stream's position, `None` for an unknown stream.
///
/// # Errors
/// `Behind` when rows between the position and the parcel are missing, or when the parcel overlaps
/// the position and has rows without an offset to cut by; `BadParcel` when the range is invalid.
pub(crate) fn judge(parcel: &Parcel, position: Option<u64>) -> Result<Admission, StoreError> {
    let Some(range) = parcel.range else { return Ok(Admission::Whole) };
    if range.from > range.to || i64::try_from(range.to).is_err() {
        let text = format!("the parcel's range {}..{} is not one", range.from, range.to);
        return Err(StoreError::bad_parcel(text));
    }
    match position {
        Some(position) if range.to <= position => Ok(Admission::Duplicate { position }),
        Some(position) if range.from < position => trim(parcel, range, position),
        Some(position) if range.from > position => Err(behind(range, position)),
        _ => Ok(Admission::Whole),
    }
}

fn behind(StreamRange { stream, from, .. }: StreamRange, expected: u64) -> StoreError {
    let text =
        format!("cannot take stream `{stream}` from {from}: the store has it up to {expected}");
    StoreError::new(ErrorKind::Behind { expected }, text)
}

fn trim(parcel: &Parcel, range: StreamRange, position: u64) -> Result<Admission, StoreError> {
    let batches: Option<Vec<Batch>> =
        parcel.batches.iter().map(|batch| trim_batch(batch, position)).collect();
    let batches = batches.ok_or_else(|| behind(range, position))?;
    let range = StreamRange { from: position, ..range };
    Ok(Admission::Trimmed(Parcel { range: Some(range), batches }))
}

/// Rows at and after `position`; `None` when a row has no offset.
fn trim_batch(batch: &Batch, position: u64) -> Option<Batch> {
    let offsets = batch.rows.column_by_name("source_offset")?.as_primitive_opt::<Int64Type>()?;
    if offsets.null_count() > 0 {
        return None;
    }
    let position = i64::try_from(position).unwrap_or(i64::MAX);
    let keep: BooleanArray =
        offsets.values().iter().map(|offset| Some(*offset >= position)).collect();
    let rows: RecordBatch = filter_record_batch(&batch.rows, &keep).expect("as long as the rows");
    Some(Batch { table: batch.table, rows })
}

/// Positions of all streams: durable ones, and those staged by the group that is being written.
#[derive(Debug, Default)]
pub(crate) struct StreamPositions {
    durable: HashMap<StreamId, u64>,
    pending: HashMap<StreamId, u64>,
    /// Positions in files, never beyond the durable ones.
    filed: HashMap<StreamId, u64>,
    /// Streams that this hub owns; cluster only.
    owned: Option<HashSet<StreamId>>,
}

impl StreamPositions {
    /// Makes the positions; with `owned`, the hub admits only these streams.
    pub(crate) fn new(durable: HashMap<StreamId, u64>, owned: Option<HashSet<StreamId>>) -> Self {
        Self { filed: durable.clone(), durable, pending: HashMap::new(), owned }
    }

    /// Whether this hub may admit rows of the stream.
    pub(crate) fn owns(&self, stream: StreamId) -> bool {
        self.owned.as_ref().is_none_or(|owned| owned.contains(&stream))
    }

    /// Adds streams to this hub, at their positions in files.
    pub(crate) fn own(&mut self, streams: &[(StreamId, u64)]) {
        let Some(owned) = &mut self.owned else { return };
        for (stream, position) in streams {
            if owned.insert(*stream) {
                self.durable.insert(*stream, *position);
                self.filed.insert(*stream, *position);
            }
        }
    }

    /// Removes streams that another hub took over. Returns whether any durable position was beyond
    /// the position in files.
    pub(crate) fn disown(&mut self, streams: &HashSet<StreamId>) -> bool {
        let Some(owned) = &mut self.owned else { return false };
        let mut is_more = false;
        for stream in streams {
            owned.remove(stream);
            is_more |= self.durable.remove(stream) != self.filed.remove(stream);
        }
        is_more
    }

    /// Position against which the next parcel of the group is checked.
    pub(crate) fn next(&self, stream: StreamId) -> Option<u64> {
        self.pending.get(&stream).or_else(|| self.durable.get(&stream)).copied()
    }

    /// Stages `range` as part of the group.
    pub(crate) fn stage(&mut self, range: StreamRange) {
        self.pending.insert(range.stream, range.to);
    }

    /// Makes the staged positions durable.
    pub(crate) fn commit(&mut self) {
        self.durable.extend(self.pending.drain());
    }

    /// Discards the staged positions after a failed write.
    pub(crate) fn roll_back(&mut self) {
        self.pending.clear();
    }

    /// Durable position of a stream.
    pub(crate) fn durable(&self, stream: StreamId) -> Option<u64> {
        self.durable.get(&stream).copied()
    }

    /// Position of a stream in files.
    pub(crate) fn filed(&self, stream: StreamId) -> Option<u64> {
        self.filed.get(&stream).copied()
    }

    /// Advances positions in files after a flush.
    pub(crate) fn file(&mut self, positions: &[(StreamId, u64)]) {
        self.filed.extend(positions.iter().copied());
    }

    /// All durable positions, for the manifest.
    pub(crate) fn all(&self) -> Arc<[(StreamId, u64)]> {
        self.durable.iter().map(|(stream, position)| (*stream, *position)).collect()
    }
}
