//! The one error of this crate: what kind, in words, and what to do about it.
//!
//! `kind` says whose fault it is: the sender's (`Behind`, `BadParcel`), the asker's (`BadQuery`, `QueryLimit`), the
//! machine's (`Full`, `Io`, …).

use std::fmt;
use std::path::Path;

/// What kind of failure a [`StoreError`] is; decides the HTTP status and whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The parcel starts behind the stream's position: go back to `expected`. The sender's fault, send other bytes.
    Behind {
        /// Where the next parcel of the stream has to start, at the latest.
        expected: u64,
    },
    /// No room on the disk: send the same parcel again later.
    Full,
    /// More rows wait in memory than may: send the same parcel again soon.
    Busy,
    /// The bytes are not a parcel, or do not fit the tables. Sending again does not help.
    BadParcel,
    /// The SQL is not valid, or not a query. The asker's fault.
    BadQuery,
    /// The query ran into a limit: time or memory. The asker's fault.
    QueryLimit,
    /// Another weir has the directory.
    Locked,
    /// A newer weir has written the directory.
    NewerVersion,
    /// What is on the disk is not what was written.
    Corrupt,
    /// The operating system refused.
    Io,
    /// The store was closed.
    Closed,
    /// Another hub of the cluster has the stream now, or has changed the same files: do it again.
    Moved,
}

/// Why the store did not do what it was asked to.
#[derive(Debug)]
pub struct StoreError {
    /// What kind.
    pub kind: ErrorKind,
    /// What failed, on what, why; lower case, no full stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl StoreError {
    /// An error without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Adds what to do about it.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Bytes that are no parcel, or one that does not fit the tables.
    pub fn bad_parcel(why: impl fmt::Display) -> Self {
        Self::new(ErrorKind::BadParcel, why.to_string())
    }

    /// The store was closed.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the store is closed")
    }

    /// The stream belongs to another hub of the cluster.
    pub fn moved() -> Self {
        Self::new(ErrorKind::Moved, "the stream goes through another hub of the cluster")
            .with_hint("ask where it stands, and send what is missing")
    }

    /// `cannot {what} `{path}`: {why}`; [`ErrorKind::Full`] when the error says that the disk is full.
    pub fn io(what: &str, path: &Path, error: &std::io::Error) -> Self {
        let kind = if is_full(error) { ErrorKind::Full } else { ErrorKind::Io };
        Self::new(kind, format!("cannot {what} `{}`: {error}", path.display()))
    }

    /// The same failure for every parcel of a group.
    pub fn repeat(&self) -> Self {
        Self { kind: self.kind, message: self.message.clone(), hint: self.hint.clone() }
    }
}

/// Whether an I/O error means that there is no room.
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
