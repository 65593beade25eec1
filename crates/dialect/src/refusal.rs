//! The error of this crate: SQL that is not supported, with what to write instead.

use std::fmt;

/// Why a statement is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxRefusal {
    text: String,
}

pub(crate) type Result<T> = std::result::Result<T, SyntaxRefusal>;

impl SyntaxRefusal {
    pub(crate) fn new(text: String) -> Self {
        Self { text }
    }
}

impl fmt::Display for SyntaxRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for SyntaxRefusal {}

/// Returns a refusal with this text.
macro_rules! refuse {
    ($($text:tt)*) => {
        Err(crate::refusal::SyntaxRefusal::new(format!($($text)*)))
    };
}

pub(crate) use refuse;
