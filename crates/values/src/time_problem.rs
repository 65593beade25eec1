//! Why a user's time zone or time format cannot be used.

use std::fmt;

/// A zone or a format that cannot be used; printed with `hint: …` behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeProblem {
    /// The problem.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl TimeProblem {
    pub(crate) fn new(message: String, hint: &str) -> Self {
        Self { message, hint: hint.to_owned() }
    }
}

impl fmt::Display for TimeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", self.message, self.hint)
    }
}

impl std::error::Error for TimeProblem {}
