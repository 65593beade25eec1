//! Errors of acts of people: acknowledge, resolve, silence.

use std::fmt;

/// What cannot be done, on what and why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeskError {
    /// What, on what, why.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl DeskError {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

impl fmt::Display for DeskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DeskError {}
