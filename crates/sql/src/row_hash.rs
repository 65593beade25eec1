//! Hashes of whole rows, to find equal ones.

use arrow_array::RecordBatch;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use weir_datafile::{ErrorKind, StoreError};

/// 128-bit hash of each row.
///
/// # Errors
/// `Io`: a column has a type that cannot be hashed.
pub fn row_hashes(rows: &RecordBatch) -> Result<Vec<u128>, StoreError> {
    let half = |seed| {
        let mut buffer = vec![0; rows.num_rows()];
        let state = RandomState::with_seed(seed);
        create_hashes(rows.columns(), &state, &mut buffer).map_err(|error| failed(&error))?;
        Ok::<_, StoreError>(buffer)
    };
    let (high, low) = (half(1)?, half(2)?);
    Ok(high
        .into_iter()
        .zip(low)
        .map(|(high, low)| u128::from(high) << 64 | u128::from(low))
        .collect())
}

fn failed(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::new(ErrorKind::Io, format!("cannot compare rows: {error}"))
}
