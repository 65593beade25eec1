//! The crate's single error type: kind, message, hint.
//!
//! The kind tells who has to act: the sender (`Behind`, `BadParcel`), the client (`BadQuery`,
//! `QueryLimit`) or the operator (`Full`, `Io`, …).

use std::fmt;
use std::path::Path;

/// Kind of a [`StoreError`]; determines the HTTP status and whether to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The parcel starts behind the stream's position. The sender must resume at `expected`.
    Behind {
        /// Highest start position accepted for the next parcel of the stream.
        expected: u64,
    },
    /// The disk is full: send the same parcel later.
    Full,
    /// The memtable limit is reached: send the same parcel soon.
    Busy,
    /// The bytes are not a parcel, or do not match the tables. Retrying does not help.
    BadParcel,
    /// The SQL is invalid or not a query. A client error.
    BadQuery,
    /// The query exceeded its time or memory limit. A client error.
    QueryLimit,
    /// Another weir process has locked the directory.
    Locked,
    /// A newer version of weir wrote the directory.
    NewerVersion,
    /// Data on disk differs from what was written.
    Corrupt,
    /// The operating system returned an error.
    Io,
    /// The store is closed.
    Closed,
    /// Another hub of the cluster owns the stream or changed the same files: retry.
    Moved,
}

/// Why a store operation failed.
#[derive(Debug)]
pub struct StoreError {
    /// Error kind.
    pub kind: ErrorKind,
    /// What failed, on what, and why; lower case, no full stop.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl StoreError {
    /// An error without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Adds a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Invalid parcel bytes, or a parcel that does not match the tables.
    pub fn bad_parcel(why: impl fmt::Display) -> Self {
        Self::new(ErrorKind::BadParcel, why.to_string())
    }

    /// The store is closed.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the store is closed")
    }

    /// The stream belongs to another hub of the cluster.
    pub fn moved() -> Self {
        Self::new(ErrorKind::Moved, "the stream goes through another hub of the cluster")
            .with_hint("request its position, and send what is missing")
    }

    /// `cannot {what} `{path}`: {why}`, with [`ErrorKind::Full`] if the disk is full.
    pub fn io(what: &str, path: &Path, error: &std::io::Error) -> Self {
        let kind = if is_full(error) { ErrorKind::Full } else { ErrorKind::Io };
        Self::new(kind, format!("cannot {what} `{}`: {error}", path.display()))
    }

    /// Copies the error, for each parcel of a group commit.
    pub fn repeat(&self) -> Self {
        Self { kind: self.kind, message: self.message.clone(), hint: self.hint.clone() }
    }
}

/// Whether an I/O error means that the disk is full.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as Io;
    matches!(error.kind(), Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge)
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for StoreError {}
