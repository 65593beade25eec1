//! The error type of this crate.

use std::fmt;
use std::path::Path;

/// What cannot be done, on what and why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActError {
    /// What, on what, why.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl ActError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// An error of a file: `what` is a verb, such as `read`.
    pub(crate) fn file(what: &str, path: &Path, why: impl fmt::Display) -> Self {
        Self::new(format!("cannot {what} `{}`: {why}", path.display()))
    }

    /// The error in one line, for a reply.
    pub fn line(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{}{hint}", self.message)
    }
}

impl fmt::Display for ActError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ActError {}
