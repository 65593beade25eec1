//! Collection errors: what failed, on what, why, and what to do about it.

use std::fmt;
use std::io;
use std::path::Path;

/// Error from reading a host. Displays as two lines, `cannot … : why` and `hint: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectError {
    /// The attempt and the reason: "cannot read `/proc/stat`: permission denied (os error 13)".
    pub message: String,
    /// What to do about it, if anything.
    pub hint: Option<String>,
}

impl CollectError {
    /// Creates the error "cannot `attempt`: `why`".
    pub fn new(attempt: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { message: format!("cannot {attempt}: {}", lower_first(&why.to_string())), hint: None }
    }

    /// Creates the error for a failed read of `path`.
    pub fn reading(path: &Path, why: &io::Error) -> Self {
        let error = Self::new(format_args!("read `{}`", path.display()), why);
        match why.kind() {
            io::ErrorKind::PermissionDenied => error.with_hint("run weir as root"),
            _ => error,
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for CollectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CollectError {}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(char::to_lowercase);
    first.into_iter().flatten().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_lower_case_and_the_hint_stands_on_its_own_line() {
        let why = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(
            CollectError::reading(Path::new("/dev/kmsg"), &why).to_string(),
            "cannot read `/dev/kmsg`: permission denied (os error 13)\nhint: run weir as root"
        );
    }
}
