//! Salvages a file that is not part of a table: reads what is readable, and appends the rows that
//! exist nowhere else.
//!
//! Rows are compared by a 128-bit hash over all their columns, as a multiset: a row that occurs
//! twice in the file and once in the table is appended once.

use std::collections::HashMap;
use std::path::Path;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use tokio::runtime::Runtime;
use weir_datafile::{ErrorKind, StoreError, read_undamaged, table_index, timestamps};
use weir_sql::row_hashes;
use weir_tables::{Batch, Micros, Parcel, TableSpec};

use crate::store::Store;

/// The result of salvaging one file.
pub(super) struct SalvageReport {
    pub(super) table: Option<&'static TableSpec>,
    /// Rows that were appended.
    pub(super) taken: u64,
    /// Rows that are already in the table.
    pub(super) known: u64,
    /// Time range of the rows that were read.
    pub(super) times: Option<(Micros, Micros)>,
    /// Reason why the rest could not be read.
    pub(super) broken: Option<String>,
}

type RowCounts = HashMap<u128, u64>;

/// Appends the readable rows of the file at `path` that the table does not have.
///
/// # Errors
/// When the table cannot be read or rows cannot be appended.
pub(super) fn salvage(
    store: &Store,
    runtime: &Runtime,
    dir: &Path,
    path: &str,
) -> Result<SalvageReport, StoreError> {
    let table = path.split('/').nth(1).and_then(weir_tables::table);
    let mut salvaged = SalvageReport { table, taken: 0, known: 0, times: None, broken: None };
    let Some(table) = table else {
        salvaged.broken = Some("is of a table that this weir does not know".to_owned());
        return Ok(salvaged);
    };
    let full = dir.join(path);
    let mut counts = RowCounts::new();
    let mut times = (i64::MAX, i64::MIN);
    salvaged.broken = read_undamaged(&full, table, |rows| {
        row_hashes(rows)?.into_iter().for_each(|hash| *counts.entry(hash).or_default() += 1);
        times = timestamps(rows).iter().fold(times, |(min, max), ts| (min.min(*ts), max.max(*ts)));
        Ok(())
    })?;
    if counts.is_empty() {
        return Ok(salvaged);
    }
    salvaged.times = Some((Micros(times.0), Micros(times.1)));
    let all: u64 = counts.values().sum();
    take_away_known(store, table, times, &mut counts)?;
    let missing: u64 = counts.values().sum();
    salvaged.known = all - missing;
    if missing > 0 {
        read_undamaged(&full, table, |rows| {
            let rows = still_missing(rows, &mut counts)?;
            salvaged.taken += rows.num_rows() as u64;
            append(store, runtime, Batch { table, rows })
        })?;
    }
    Ok(salvaged)
}

/// Subtracts the table's rows, in memory and in files, from `counts`.
fn take_away_known(
    store: &Store,
    table: &'static TableSpec,
    (min_ts, max_ts): (i64, i64),
    counts: &mut RowCounts,
) -> Result<(), StoreError> {
    let view = store.shared.view();
    let view = &view.tables[table_index(table)];
    let mut take_away = |rows: &RecordBatch| {
        for hash in row_hashes(rows)? {
            if let Some(count) = counts.get_mut(&hash) {
                *count = count.saturating_sub(1);
            }
        }
        Ok(())
    };
    let is_near = |min: i64, max: i64| min <= max_ts && max >= min_ts;
    for batch in view.hot.iter().chain(&*view.frozen) {
        if is_near(batch.min_ts, batch.max_ts) {
            take_away(&batch.rows)?;
        }
    }
    let near = view.files.iter().filter(|file| is_near(file.min_ts, file.max_ts));
    for file in near {
        store.engine.read_sorted(table, std::slice::from_ref(file), &mut take_away)?;
    }
    Ok(())
}

fn still_missing(rows: &RecordBatch, counts: &mut RowCounts) -> Result<RecordBatch, StoreError> {
    let keep: BooleanArray = row_hashes(rows)?
        .into_iter()
        .map(|hash| {
            let Some(count) = counts.get_mut(&hash).filter(|count| **count > 0) else {
                return false;
            };
            *count -= 1;
            true
        })
        .map(Some)
        .collect();
    filter_record_batch(rows, &keep).map_err(|error| failed(&error))
}

fn append(store: &Store, runtime: &Runtime, batch: Batch) -> Result<(), StoreError> {
    if batch.rows.num_rows() == 0 {
        return Ok(());
    }
    loop {
        let parcel = Parcel { range: None, batches: vec![batch.clone()] };
        match runtime.block_on(store.append(parcel)) {
            Err(error) if error.kind == ErrorKind::Busy => runtime.block_on(store.flush())?,
            outcome => return outcome.map(drop),
        }
    }
}

fn failed(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::new(ErrorKind::Io, format!("cannot compare rows: {error}"))
}
