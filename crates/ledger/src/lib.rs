//! What was decided and sent, kept with versions so that it happens once.

mod backend;
mod sqlite;

pub use backend::{Change, Document, LedgerBackend, LedgerError};
pub use sqlite::{BODY_BYTES_MAX, SqliteLedger};
