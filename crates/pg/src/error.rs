//! Why something was not done, as PostgreSQL says it: a class by SQLSTATE (appendix A of its manual), words, a hint.

/// An error for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Five characters; the first two are the class.
    pub state: &'static str,
    /// What failed, on what, why.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Refusal {
    /// An error of this SQLSTATE.
    pub fn new(state: &'static str, message: impl Into<String>) -> Self {
        Self { state, message: message.into(), hint: None }
    }

    /// The same with what to do.
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
