//! The one error of this crate: what kind, in words, and what to do about it.

use std::fmt;

use crate::message::Code;

/// What kind of failure a [`LinkError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nobody answered at the address. The network's or the other side's fault; trying again may help.
    Unreachable,
    /// The other side is not who it has to be, or does not take us for who we are.
    Identity,
    /// The other side said why it ends the connection.
    Refused(Code),
    /// The other side sent what is not in the protocol.
    Protocol,
    /// The other side did not answer in time.
    Silent,
    /// The connection was cut.
    Cut,
    /// A join token that is none.
    Token,
    /// A file could not be read or written.
    Storage,
    /// This side is ending.
    Closed,
}

/// Why something did not work.
#[derive(Clone, Debug)]
pub struct LinkError {
    /// What kind.
    pub kind: Kind,
    /// What failed, on what, why; lower case, no full stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What TLS said on an open connection.
    pub(crate) alert: Option<std::sync::Arc<std::io::Error>>,
}

impl LinkError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, alert: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self
    }

    pub(crate) fn storage(what: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let text = format!("cannot {what} `{}`: {error}", path.display());
        let made = Self::new(Kind::Storage, text);
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                made.hint("run weir as the user who owns the directory")
            }
            _ => made,
        }
    }

    pub(crate) fn cut(error: std::io::Error) -> Self {
        let why = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "the other side is gone without a word".to_owned(),
            _ => error.to_string(),
        };
        let made = Self::new(Kind::Cut, format!("the connection was cut: {why}"));
        Self { alert: error.get_ref().is_some().then(|| error.into()), ..made }
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(Kind::Protocol, message)
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
