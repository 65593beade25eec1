//! Refusals: errors that say who could not read a file, and what to do about it.

use std::fmt;
use std::io;

#[derive(Debug)]
struct RefusalError {
    why: String,
    hint: &'static str,
}

impl fmt::Display for RefusalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for RefusalError {}

const LET_READ: &str = "let that account read the file, or name the file itself with `--tail`";

pub(crate) fn refused(why: impl Into<String>, hint: &'static str) -> io::Error {
    io::Error::other(RefusalError { why: why.into(), hint })
}

/// Explains a lack of rights, or a link that leaves its root; other errors stay as they are.
pub(crate) fn because(error: io::Error, why: &str) -> io::Error {
    let codes = [rustix::io::Errno::ACCESS, rustix::io::Errno::PERM, rustix::io::Errno::LOOP];
    let is_refusal = codes.iter().any(|code| error.raw_os_error() == Some(code.raw_os_error()));
    if is_refusal { refused(why, LET_READ) } else { error }
}

/// What to do about an error of this crate; `None` for other errors.
pub fn hint_of(error: &io::Error) -> Option<&'static str> {
    Some(error.get_ref()?.downcast_ref::<RefusalError>()?.hint)
}
