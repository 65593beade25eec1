//! Errors of starting and changing an edge: what failed, on what, why, and what to do.

use std::fmt;

/// An error with a hint; always something that the user can fix.
#[derive(Debug)]
pub struct EdgeError {
    /// What failed, on what, why.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl EdgeError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for EdgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for EdgeError {}
