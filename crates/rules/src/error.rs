//! Errors of rule and test files: a place, a reason and, where there is one, a hint.

use std::fmt;

/// The text of a rule or test file, and its name for errors.
#[derive(Clone, Copy, Debug)]
pub struct SourceFile<'a> {
    /// The file, or `built in`.
    pub origin: &'a str,
    /// The text.
    pub text: &'a str,
}

/// A rule or test file that cannot be used. The fault is the author's; other files are not
/// affected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The file, or `built in`.
    pub origin: String,
    /// The line, from 1.
    pub line: usize,
    /// The fault.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
}

impl RuleError {
    pub(crate) fn new(origin: &str, line: usize, message: impl Into<String>) -> Self {
        Self { origin: origin.to_owned(), line, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use `{}:{}`: {}", self.origin, self.line, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for RuleError {}
