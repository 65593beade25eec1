//! What was decided and sent, kept with versions so that it happens once.

mod backend;
mod lasting;
mod sqlite;

pub use backend::{Change, Document, LedgerBackend, LedgerError};
pub use lasting::LastingLedger;
pub use sqlite::{BODY_BYTES_MAX, SqliteLedger};
