//! What was decided and sent, kept with versions so that it happens once.

mod backend;
mod checks;
#[cfg(test)]
mod damage_tests;
mod lasting;
mod sqlite;

pub use backend::{Change, Document, LedgerBackend, LedgerError};
pub use lasting::LastingLedger;
pub use sqlite::{BODY_BYTES_MAX, SqliteLedger};
