//! Why a command ended early: what failed, on what, why, what to do, and the exit code.

use std::fmt;

/// A failure that ends a command; printed as `error: …` and `hint: …` on stderr.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

/// Exit code for a command line that makes no sense (`EX_USAGE` of sysexits.h).
pub const EXIT_USAGE: u8 = 64;
/// Exit code for a configuration that makes no sense (`EX_CONFIG` of sysexits.h).
pub const EXIT_CONFIG: u8 = 78;

impl Failure {
    /// A failure with exit code 1 and no hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 1 }
    }

    /// The same with a line that says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self
    }

    /// The same with another exit code.
    pub fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Message and hint.
    pub fn into_parts(self) -> (String, Option<String>) {
        (self.message, self.hint)
    }

    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// An input/output error as text with the system's number, for `cannot read `x`: …`.
pub fn read_failure(what: &std::path::Path, error: &std::io::Error) -> Failure {
    let failure = Failure::new(format!("cannot read `{}`: {error}", what.display()));
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            failure.hint("run weir as a user who may read it, or change the file's group and mode")
        }
        std::io::ErrorKind::NotFound => failure.hint("check the path for a typing mistake"),
        _ => failure,
    }
}
