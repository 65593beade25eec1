//! Writing to the person at the terminal: text on stdout, failures on stderr, colour only where it is wanted.
//!
//! A reader that went away (`weir query … | head`) is no failure, so errors of writing are dropped here.

use std::io::{IsTerminal, Write};

/// Writes `text` and a line end to stdout.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Writes `text` as it is to stdout.
pub fn write_all(text: &[u8]) {
    let _ = try_write_all(text);
}

/// The same, for what must be whole.
///
/// # Errors
/// As the system has them; a reader that went away is one.
pub fn try_write_all(text: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

/// Writes `text` and a line end to stderr.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// How to paint text: not at all, or with the terminal's own colours.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    is_on: bool,
}

impl Paint {
    /// Colour when stdout is a terminal and `NO_COLOR` is not set (<https://no-color.org>).
    pub fn for_stdout() -> Self {
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { is_on: is_wanted && std::io::stdout().is_terminal() }
    }

    /// No colour.
    pub fn off() -> Self {
        Self { is_on: false }
    }

    /// `text` in bold.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// `text` in grey.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// `text` in the colour of a finding's class: page red, mail yellow, note blue.
    pub fn class(self, class: &str, text: &str) -> String {
        match class {
            "page" => self.wrap("1;31", text),
            "mail" => self.wrap("1;33", text),
            _ => self.wrap("34", text),
        }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
