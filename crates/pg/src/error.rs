//! Errors as PostgreSQL reports them: SQLSTATE (appendix A of its manual), message, hint.

/// An error for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PgError {
    /// SQLSTATE: five characters, of which the first two are the class.
    pub state: &'static str,
    /// What failed, on what, and why.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl PgError {
    /// An error with this SQLSTATE.
    pub fn new(state: &'static str, message: impl Into<String>) -> Self {
        Self { state, message: message.into(), hint: None }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new("08P01", message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new("0A000", message)
    }
}
