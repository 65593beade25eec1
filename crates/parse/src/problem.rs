//! Problems of a user's pipeline, pattern or condition: position, problem, and what to do.

use std::fmt;

use weir_values::TimeProblem;

/// A file of the user: a pipeline, patterns or tests.
#[derive(Clone, Copy, Debug)]
pub struct ParserFile<'a> {
    /// The path, or what messages name instead.
    pub origin: &'a str,
    /// The content.
    pub text: &'a str,
}

/// Why a file of the user cannot be used; printed as `cannot use FILE:LINE: …` and `hint: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParserProblem {
    /// The file, or `built in`, or the flag that it came from.
    pub origin: String,
    /// The line in the file, from 1.
    pub line: usize,
    /// The problem.
    pub message: String,
    /// What to do; empty when it is obvious.
    pub hint: String,
}

impl ParserProblem {
    /// A problem without a position, which [`ParserProblem::at`] adds.
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { origin: String::new(), line: 1, message: message.into(), hint: hint.into() }
    }

    /// Adds the position.
    pub(crate) fn at(mut self, origin: &str, line: usize) -> Self {
        origin.clone_into(&mut self.origin);
        self.line = line;
        self
    }
}

impl From<TimeProblem> for ParserProblem {
    fn from(problem: TimeProblem) -> Self {
        Self::new(problem.message, problem.hint)
    }
}

impl fmt::Display for ParserProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use {}:{}: {}", self.origin, self.line, self.message)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "\nhint: {}", self.hint) }
    }
}

impl std::error::Error for ParserProblem {}

/// The line that holds the byte at `offset`, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// `did you mean …?` for the nearest of `known`, else all of them or `otherwise`.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    match weir_tables::nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => otherwise.to_owned(),
    }
}
