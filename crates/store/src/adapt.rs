//! Brings a batch to the schema its table has today, so that parcels of an older agent and old log records fit.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use weir_tables::{Batch, Parcel};

use crate::error::StoreError;

/// Columns are found by name: order does not matter, columns unknown here are dropped, missing ones become NULL.
///
/// # Errors
/// `BadParcel` when a column that cannot be NULL is missing or a column has another type.
pub(crate) fn adapt(parcel: Parcel) -> Result<Parcel, StoreError> {
    let batches = parcel.batches.into_iter().map(adapt_batch).collect::<Result<_, _>>()?;
    Ok(Parcel { range: parcel.range, batches })
}

fn adapt_batch(batch: Batch) -> Result<Batch, StoreError> {
    let schema = batch.table.schema();
    if batch.rows.schema() == schema {
        return Ok(batch);
    }
    let rows = &batch.rows;
    let columns: Vec<ArrayRef> = schema
        .fields()
        .iter()
        .map(|field| match rows.column_by_name(field.name()) {
            Some(column) => Arc::clone(column),
            None => new_null_array(field.data_type(), rows.num_rows()),
        })
        .collect();
    let rows = RecordBatch::try_new(schema, columns).map_err(|error| {
        StoreError::bad_parcel(format!("cannot take rows of `{}`: {error}", batch.table.name))
    })?;
    Ok(Batch { table: batch.table, rows })
}
