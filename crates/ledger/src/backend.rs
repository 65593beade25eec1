//! The trait of a place that keeps documents: SQLite beside a single hub's data, PostgreSQL in a
//! cluster.

use std::fmt;

/// A document as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// `incident`, `notice`, `silence`.
    pub kind: String,
    /// Identity within its kind.
    pub key: String,
    /// Counts the document's changes, from 1.
    pub version: i64,
    /// JSON.
    pub body: String,
    /// When something has to be done about it, microseconds since 1970; `None` when nothing has.
    pub due_us: Option<i64>,
}

/// One change, made only if the document still has the expected version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The document's kind.
    pub kind: String,
    /// Its key.
    pub key: String,
    /// The version that is replaced; 0 when there must be none yet.
    pub expected: i64,
    /// The new body and the time it is due; `None` deletes the document.
    pub body: Option<(String, Option<i64>)>,
}

/// Why the ledger could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerError {
    /// A document has another version than expected; nothing was changed.
    Conflict {
        /// Its kind.
        kind: String,
        /// Its key.
        key: String,
    },
    /// The place cannot be read or written: what, on what, why.
    Unusable(String),
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { kind, key } => {
                write!(f, "{kind} `{key}` was changed by another hub in the meantime")
            }
            Self::Unusable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for LedgerError {}

/// A place that keeps documents. Calls block: not for threads of an async runtime.
pub trait LedgerBackend: Send {
    /// Makes all changes, or none.
    ///
    /// # Errors
    /// `Conflict` if one document has another version; `Unusable`.
    fn apply(&mut self, changes: &[Change]) -> Result<(), LedgerError>;

    /// One document.
    ///
    /// # Errors
    /// `Unusable`.
    fn get(&mut self, kind: &str, key: &str) -> Result<Option<Document>, LedgerError>;

    /// Every document of a kind, by key.
    ///
    /// # Errors
    /// `Unusable`.
    fn all(&mut self, kind: &str) -> Result<Vec<Document>, LedgerError>;

    /// The documents of a kind that are due at `now_us`, earliest first.
    ///
    /// # Errors
    /// `Unusable`.
    fn due(&mut self, kind: &str, now_us: i64, limit: usize) -> Result<Vec<Document>, LedgerError>;

    /// Deletes documents of a kind with nothing left to do (`due_us` is `None`) whose last change
    /// was before `before_us`; the number of deleted documents. A place for tests may keep all.
    ///
    /// # Errors
    /// `Unusable`.
    fn prune(&mut self, kind: &str, before_us: i64) -> Result<usize, LedgerError> {
        let _ = (kind, before_us);
        Ok(0)
    }

    /// Why documents are in memory only now; `None` while all are kept.
    fn trouble(&self) -> Option<String> {
        None
    }
}
