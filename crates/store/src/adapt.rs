//! Brings a batch to the schema its table has today, so that parcels of an older agent and old log records fit, and
//! says in each row of a log which stream it came from: the parcel knows it once for all of its rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use weir_tables::{Batch, Parcel, StreamId, is_null_column, null_column};

use crate::error::StoreError;

/// Columns are found by name: order does not matter, columns unknown here are dropped, missing ones become NULL.
///
/// # Errors
/// `BadParcel` when a column that cannot be NULL is missing or a column has another type.
pub(crate) fn adapt(parcel: Parcel) -> Result<Parcel, StoreError> {
    let stream = parcel.range.map(|range| range.stream);
    let adapted = parcel.batches.into_iter().map(|batch| adapt_batch(batch, stream));
    Ok(Parcel { range: parcel.range, batches: adapted.collect::<Result<_, _>>()? })
}

fn adapt_batch(batch: Batch, stream: Option<StreamId>) -> Result<Batch, StoreError> {
    let schema = batch.table.schema();
    let stream = stream.filter(|_| schema.index_of("source_offset").is_ok());
    if batch.rows.schema() == schema && stream.is_none() {
        return Ok(batch);
    }
    let rows = &batch.rows;
    let columns: Vec<ArrayRef> = schema
        .fields()
        .iter()
        .map(|field| match (rows.column_by_name(field.name()), stream) {
            (column, Some(stream)) if field.name() == "stream" && is_open(column) => {
                Arc::new(Int64Array::from_value(stream.short(), rows.num_rows()))
            }
            (Some(column), _) => Arc::clone(column),
            (None, _) => null_column(field.data_type(), rows.num_rows()),
        })
        .collect();
    let rows = RecordBatch::try_new(schema, columns).map_err(|error| {
        StoreError::bad_parcel(format!("cannot take rows of `{}`: {error}", batch.table.name))
    })?;
    Ok(Batch { table: batch.table, rows })
}

/// Whether no row of the column says anything yet.
fn is_open(column: Option<&ArrayRef>) -> bool {
    column.is_none_or(|column| is_null_column(column))
}
