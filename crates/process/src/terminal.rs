//! Writing to the person at the terminal: text on stdout, failures on stderr, colour only where it
//! is wanted.
//!
//! A reader that went away (`weir query … | head`) is no failure, so errors of writing are dropped
//! here.

use std::borrow::Cow;
use std::fmt;
use std::io::{IsTerminal, Write};

/// Writes `text` and a line end to stdout, without what would act on a terminal; see [`cleaned`].
pub fn say(text: &str) {
    say_line(&cleaned(text));
}

/// Writes JSON and a line end to stdout; characters that [`cleaned`] replaces are escaped instead.
pub fn say_json(text: &str) {
    say_line(&escaped(text));
}

fn say_line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// `text` with U+FFFD for control characters and for marks that change the direction of text.
/// Line ends and tabs stay, and the colours of [`Paint`]: rows hold text of visitors, which must
/// not move the cursor, set the title or reorder a line.
pub fn cleaned(text: &str) -> Cow<'_, str> {
    replaced(text, |_, out| out.push('\u{fffd}'))
}

/// JSON has such characters only in strings, where `\u` followed by the code means the same.
fn escaped(text: &str) -> Cow<'_, str> {
    replaced(text, |character, out| {
        let _ = fmt::Write::write_fmt(out, format_args!("\\u{:04x}", u32::from(character)));
    })
}

fn replaced(text: &str, replace: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_active) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let colour = COLOURS.iter().find(|colour| rest.starts_with(**colour));
        let length = match (colour, rest.chars().next()) {
            (Some(colour), _) => {
                out.push_str(colour);
                colour.len()
            }
            (None, Some(character)) => {
                replace(character, &mut out);
                character.len_utf8()
            }
            (None, None) => break,
        };
        rest = &rest[length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Whether a terminal acts on a character: C0, DEL and C1 of ECMA-48, and the marks of UAX #9.
fn is_active(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2066}'..='\u{2069}' => true,
        other => other.is_control(),
    }
}

/// What [`TextStyle::paint`] writes; none of them hides text.
const COLOURS: &[&str] = &["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[34m", "\x1b[1;31m", "\x1b[1;33m"];

/// Text that arrives in parts: each as [`cleaned`] has it, without the bytes of a character whose
/// rest is in the next one.
#[derive(Debug, Default)]
pub struct CleanedParts {
    rest: Vec<u8>,
}

impl CleanedParts {
    /// The text up to the end of this part.
    pub fn next(&mut self, part: &[u8]) -> String {
        self.rest.extend_from_slice(part);
        let end = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let text = cleaned(&String::from_utf8_lossy(&self.rest[..end])).into_owned();
        self.rest.drain(..end);
        text
    }
}

/// Writes whole lines to stdout: as they are to a file or a program, as [`cleaned`] to a terminal.
pub fn write_all(text: &[u8]) {
    let out = std::io::stdout();
    let _ = if out.is_terminal() {
        try_write_all(cleaned(&String::from_utf8_lossy(text)).as_bytes())
    } else {
        try_write_all(text)
    };
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
    let _ = writeln!(std::io::stderr().lock(), "{}", cleaned(text));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_visitors_cannot_act_on_a_terminal() {
        for (text, expected) in [
            ("plain, \u{e4}\t\u{2192}\n2", "plain, \u{e4}\t\u{2192}\n2"),
            ("\x1b[2J\x1b[1;1Hall clear", "\u{fffd}[2J\u{fffd}[1;1Hall clear"),
            ("\x1b]0;title\x07", "\u{fffd}]0;title\u{fffd}"),
            ("\u{9b}31m \u{85} \x7f \r\x08", "\u{fffd}31m \u{fffd} \u{fffd} \u{fffd}\u{fffd}"),
            (
                "a\u{202e}b\u{2066}c\u{2069}\u{200f}\u{61c}",
                "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}\u{fffd}",
            ),
            ("\x1b[8mhidden\x1b[0m", "\u{fffd}[8mhidden\x1b[0m"),
            ("\x1b", "\u{fffd}"),
        ] {
            assert_eq!(cleaned(text), expected);
        }
        let painted = TextStyle { code: Some("1;31") }.paint("page");
        assert_eq!(cleaned(&painted), painted);
    }

    #[test]
    fn parts_are_cleaned_wherever_they_end() {
        let text = "=a,\u{9b}2J\x1b]8;;http://x\x07é\u{202e}→\n";
        for at in 0..=text.len() {
            let mut parts = CleanedParts::default();
            let (start, end) = text.as_bytes().split_at(at);
            let shown = parts.next(start) + &parts.next(end);
            assert_eq!(shown, cleaned(text), "{at}");
        }
        assert_eq!(CleanedParts::default().next(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn json_keeps_its_meaning() {
        assert_eq!(escaped("{\"a\":\"\u{9b}x\u{202e}\"}\n"), "{\"a\":\"\\u009bx\\u202e\"}\n");
    }
}
