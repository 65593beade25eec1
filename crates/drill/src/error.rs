//! Errors of building a testbed, making a fault and cleaning up.

use std::fmt;

/// What failed, on what, why, and what to do about it.
#[derive(Debug)]
pub struct DrillError {
    /// What failed, on what, and why.
    pub message: String,
    /// What to do; may be empty.
    pub hint: String,
}

/// Result of this crate's operations.
pub(crate) type Result<T> = std::result::Result<T, DrillError>;

impl DrillError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: String::new() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Converts a system error; `what` failed, such as "cannot write `/a/b`".
    pub(crate) fn of(what: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::new(format!("{what}: {error}"))
    }
}

impl fmt::Display for DrillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "\nhint: {}", self.hint) }
    }
}

impl std::error::Error for DrillError {}

impl From<std::io::Error> for DrillError {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<rustix::io::Errno> for DrillError {
    fn from(error: rustix::io::Errno) -> Self {
        std::io::Error::from(error).into()
    }
}
