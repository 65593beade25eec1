//! Errors of the store as failures of a command.

use weir_process::failure::Failure;
use weir_store::StoreError;

/// An error of the store as a command's failure.
pub fn store_failure(error: StoreError) -> Failure {
    Failure::new(error.message).hint(error.hint.unwrap_or_default())
}
