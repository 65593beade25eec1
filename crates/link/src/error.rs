//! The error type of this crate.

use std::fmt;

use crate::message::GoodbyeCode;

/// Kind of a [`LinkError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkErrorKind {
    /// No reply from the address. Retrying may help.
    Unreachable,
    /// Authentication of either side failed.
    Identity,
    /// The peer ended the connection for this reason.
    Refused(GoodbyeCode),
    /// The peer violated the protocol.
    Protocol,
    /// The peer did not reply in time.
    Silent,
    /// The connection was lost.
    Cut,
    /// The join token is invalid.
    Token,
    /// A file could not be read or written.
    Storage,
    /// This side is shutting down.
    Closed,
}

/// What failed, why, and what to do about it.
#[derive(Clone, Debug)]
pub struct LinkError {
    /// Kind of failure, for programs.
    pub kind: LinkErrorKind,
    /// What failed, on what, and why.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// TLS alert on an open connection.
    pub(crate) alert: Option<std::sync::Arc<std::io::Error>>,
}

impl LinkError {
    pub(crate) fn new(kind: LinkErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, alert: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self
    }

    pub(crate) fn storage(what: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let text = format!("cannot {what} `{}`: {error}", path.display());
        let made = Self::new(LinkErrorKind::Storage, text);
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                made.hint("run weir as the user who owns the directory")
            }
            _ => made,
        }
    }

    pub(crate) fn cut(error: std::io::Error) -> Self {
        let why = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "the peer is gone".to_owned(),
            _ => error.to_string(),
        };
        let made = Self::new(LinkErrorKind::Cut, format!("the connection was lost: {why}"));
        Self { alert: error.get_ref().is_some().then(|| error.into()), ..made }
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(LinkErrorKind::Protocol, message)
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for LinkError {}
