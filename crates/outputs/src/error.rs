//! Errors of outputs: a message, an optional hint, and the error that caused it.
//!
//! `Display` prints the message alone; [`Error::one_line`] prints the whole chain, as logs, the API
//! and `output_run` show it.

use std::error::Error as StdError;
use std::fmt;

/// Longest text of one error in [`Error::one_line`]: some clients print whole requests.
const TEXT_CHARS_MAX: usize = 300;

/// Why an output cannot be set up, or why rows were not sent.
#[derive(Debug)]
pub struct Error {
    message: String,
    /// What to do about it; empty when unknown.
    hint: &'static str,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error without a cause.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: "", source: None }
    }

    /// An error with its cause.
    pub fn caused_by(
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self { source: Some(source.into()), ..Self::new(message) }
    }

    /// Adds what to do about it.
    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    /// This error as the cause of `message`; the hint moves along.
    pub(crate) fn context(mut self, message: String) -> Self {
        let hint = std::mem::take(&mut self.hint);
        Self::caused_by(message, self).with_hint(hint)
    }

    /// The message, all causes that add something to it, and the hint, in one line.
    pub fn one_line(&self) -> String {
        let mut text = shortened(&self.message);
        let mut cause = self.source();
        while let Some(inner) = cause {
            let inner_text = shortened(&inner.to_string());
            if !text.contains(&inner_text) {
                text = format!("{text}: {inner_text}");
            }
            cause = inner.source();
        }
        if self.hint.is_empty() { text } else { format!("{text}; {}", self.hint) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// Text with single spaces and a limited length.
pub(crate) fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_has_each_cause_once_and_the_hint_last() {
        let refused = std::io::Error::other("connection\nrefused");
        let inner = Error::caused_by("cannot connect", refused).with_hint("check `url`");
        let outer = inner.context("cannot use Kafka at `a:9092`".to_owned());
        assert_eq!(
            outer.one_line(),
            "cannot use Kafka at `a:9092`: cannot connect: connection refused; check `url`"
        );
        assert_eq!(outer.to_string(), "cannot use Kafka at `a:9092`");
        assert_eq!(outer.source().map(ToString::to_string).as_deref(), Some("cannot connect"));
        let repeated = Error::caused_by("read failed: no such file", Error::new("no such file"));
        assert_eq!(repeated.one_line(), "read failed: no such file");
        assert_eq!(Error::new("x".repeat(1000)).one_line().len(), TEXT_CHARS_MAX);
    }
}
