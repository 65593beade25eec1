//! Writing to the person at the terminal: text on stdout, failures on stderr, colour only where it
//! is wanted.
//!
//! A reader that went away (`weir query … | head`) is no failure, so errors of writing are dropped
//! here.

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

/// Writes `text` as it is to stdout, and reports a failure.
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
        self.in_style("1").paint(text)
    }

    /// `text` in grey.
    pub fn dim(self, text: &str) -> String {
        self.in_style("2").paint(text)
    }

    /// The colour of a finding's class: page red, mail yellow, note blue.
    pub fn of_class(self, class: &str) -> TextStyle {
        match class {
            "page" => self.in_style("1;31"),
            "mail" => self.in_style("1;33"),
            _ => self.in_style("34"),
        }
    }

    fn in_style(self, code: &'static str) -> TextStyle {
        TextStyle { code: self.is_on.then_some(code) }
    }
}

/// Colour and weight of a text, by the codes of ECMA-48.
#[derive(Clone, Copy, Debug)]
pub struct TextStyle {
    /// `None` leaves the text as it is.
    code: Option<&'static str>,
}

impl TextStyle {
    /// `text` in this style.
    pub fn paint(self, text: &str) -> String {
        match self.code {
            Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
            None => text.to_owned(),
        }
    }
}
