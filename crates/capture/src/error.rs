//! Errors of opening and reading captures. Bad packets are counted instead ([`crate::skip`]).

use std::fmt;

/// Why a capture cannot be read, with a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    message: String,
    hint: String,
    is_empty: bool,
}

impl WireError {
    /// Creates an error of a message and a hint, which may be empty.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), is_empty: false }
    }

    pub(crate) fn read(name: &str, error: &std::io::Error) -> Self {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path for a typing mistake",
            std::io::ErrorKind::PermissionDenied => {
                "captures made by root are readable by root only: `chmod a+r` the file, or run weir as root"
            }
            _ => "",
        };
        Self::new(format!("cannot read `{name}`: {error}"), hint)
    }

    pub(crate) fn directory(name: &str) -> Self {
        Self::new(
            format!("cannot read `{name}`: it is a directory"),
            "name one capture file; `mergecap -w all.pcapng DIR/*` joins several",
        )
    }

    pub(crate) fn empty(name: &str) -> Self {
        let error = Self::new(
            format!("cannot read `{name}`: it is empty"),
            "tcpdump writes its buffer when it ends, or after each packet with `-U`",
        );
        Self { is_empty: true, ..error }
    }

    pub(crate) fn not_a_capture(name: &str) -> Self {
        Self::new(
            format!("cannot read `{name}`: it is neither pcap nor pcapng nor tcpdump's text"),
            "make one with `tcpdump -i any -s 200 -w FILE tcp`",
        )
    }

    /// A format that other programs read or unpack; `hint` says how.
    pub(crate) fn other_format(name: &str, [format, hint]: [&str; 2]) -> Self {
        Self::new(format!("cannot read `{name}`: it is {format}"), hint)
    }

    /// Whether the input is empty: some callers accept that.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// What failed, on what, and why.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How to fix it; may be empty.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WireError {}
