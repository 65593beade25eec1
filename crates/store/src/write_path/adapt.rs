//! Adapts a batch to its table's current schema, so that parcels of an older agent and old log
//! records fit, and adds the stream to each row of a log: the parcel holds it once for all rows.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use weir_datafile::StoreError;
use weir_tables::{Batch, Parcel, StreamId, is_null_column};

/// Fits rows to the schema of their table ([`weir_tables::TableSpec::fit`]), and adds the stream to
/// those of a log.
///
/// # Errors
/// `BadParcel` when a column that cannot be NULL is missing or a column has another type.
pub(crate) fn adapt(parcel: Parcel) -> Result<Parcel, StoreError> {
    let stream = parcel.range.map(|range| range.stream);
    let adapted = parcel.batches.into_iter().map(|batch| adapt_batch(batch, stream));
    Ok(Parcel { range: parcel.range, batches: adapted.collect::<Result<_, _>>()? })
}

fn adapt_batch(batch: Batch, stream: Option<StreamId>) -> Result<Batch, StoreError> {
    let Batch { table, mut rows } = batch;
    let fail =
        |error| StoreError::bad_parcel(format!("cannot take rows of `{}`: {error}", table.name));
    if rows.schema() != table.schema() {
        rows = table.fit(&rows).map_err(fail)?;
    }
    let is_of_log = table.column("source_offset").is_some();
    if let Some(stream) = stream.filter(|_| is_of_log)
        && let Ok(at) = rows.schema().index_of("stream")
        && is_null_column(rows.column(at))
    {
        let (schema, mut columns, count) = rows.into_parts();
        columns[at] = Arc::new(Int64Array::from_value(stream.short(), count));
        rows = RecordBatch::try_new(schema, columns).map_err(fail)?;
    }
    Ok(Batch { table, rows })
}
