//! Colours of terminals in lines: loggers write them where they take a pipe or a container's output
//! for a terminal.
//!
//! Source: ECMA-48 §8.3.117, "select graphic rendition": `ESC [ 1 ; 31 m`. Only these are removed;
//! other control characters stay, since a visitor may have sent them.

use bumpalo::Bump;
use memchr::memchr;

const ESCAPE: u8 = 0x1b;

/// The line without colours.
pub(crate) fn plain<'a>(line: &'a str, arena: &'a Bump) -> &'a str {
    if memchr(ESCAPE, line.as_bytes()).is_none() {
        return line;
    }
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = memchr(ESCAPE, rest.as_bytes()) {
        let (before, behind) = rest.split_at(at);
        plain.push_str(before);
        let length = colour_length(behind);
        // An escape that is no colour is one character.
        plain.push_str(&behind[..usize::from(length == 0)]);
        rest = &behind[length.max(1)..];
    }
    plain.push_str(rest);
    arena.alloc_str(&plain)
}

/// The length of a colour at the start of a text; 0 without one.
fn colour_length(text: &str) -> usize {
    let Some(inner) = text.strip_prefix("\u{1b}[") else { return 0 };
    let digits =
        inner.bytes().take_while(|byte| byte.is_ascii_digit() || b";:".contains(byte)).count();
    if inner.as_bytes().get(digits) == Some(&b'm') { 3 + digits } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_are_removed() {
        let arena = Bump::new();
        for (line, expected) in [
            ("\u{1b}[31m\u{1b}[1mWARNING: é\u{1b}[0m", "WARNING: é"),
            ("a\u{1b}[38;5;196mb\u{1b}[mc", "abc"),
            ("\u{1b}[2J \u{1b}é \u{1b}[3", "\u{1b}[2J \u{1b}é \u{1b}[3"),
            ("\u{1b}", "\u{1b}"),
            ("plain", "plain"),
        ] {
            assert_eq!(plain(line, &arena), expected);
        }
    }
}
