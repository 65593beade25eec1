//! Invalid UTF-8, and the escapes of nginx and Apache.
//!
//! Invalid bytes are written as `\xNN`, so that nothing of the line is lost.

use bumpalo::Bump;
use memchr::memchr;

/// `bytes` as text; invalid bytes become `escape` and two hex digits (`\xff`). True if there were
/// any.
pub(crate) fn lossless<'a>(bytes: &'a [u8], escape: &str, arena: &'a Bump) -> (&'a str, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(_) => (arena.alloc_str(&escaped(bytes, escape)), true),
    }
}

/// The owned form of [`lossless`], for raw text.
pub(crate) fn raw(bytes: &[u8]) -> String {
    escaped(bytes, "\\x")
}

fn escaped(bytes: &[u8], escape: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(text, "{escape}{byte:02X}").expect("writing to a String does not fail");
        }
    }
    text
}

/// The byte of two leading hex digits.
pub(crate) fn hex_byte(bytes: &[u8]) -> Option<u8> {
    let [high, low] = [0, 1].map(|at| char::from(*bytes.get(at)?).to_digit(16));
    u8::try_from(high? * 16 + low?).ok()
}

/// Decodes the escapes of nginx (`\xNN`) and Apache (`\"`, `\\`, `\n`, `\xNN` …) in text formats.
pub(crate) fn unescape<'a>(text: &'a str, arena: &'a Bump) -> &'a str {
    if memchr(b'\\', text.as_bytes()).is_none() {
        return text;
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (byte, length) = unescape_one(&bytes[at..]);
        out.push(byte);
        at += length;
    }
    arena.alloc_str(&raw(&out))
}

fn unescape_one(bytes: &[u8]) -> (u8, usize) {
    match bytes {
        // Control characters stay escaped, so that a TLS handshake on a plaintext port stays
        // visible.
        [b'\\', b'x', rest @ ..] => match hex_byte(rest).filter(|byte| !byte.is_ascii_control()) {
            Some(byte) => (byte, 4),
            None => (b'\\', 1),
        },
        [b'\\', b'n', ..] => (b'\n', 2),
        [b'\\', b't', ..] => (b'\t', 2),
        [b'\\', b'r', ..] => (b'\r', 2),
        [b'\\', quoted @ (b'"' | b'\\'), ..] => (*quoted, 2),
        _ => (bytes[0], 1),
    }
}

/// Splits at the first space; the rest is empty without one.
pub(crate) fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// Splits at the closing quote; `\"` does not close.
pub(crate) fn quoted_end(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let at = from + memchr(b'"', &bytes[from..])?;
        let slash_count = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        if slash_count % 2 == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_bytes_are_escaped() {
        let arena = Bump::new();
        assert_eq!(lossless(b"caf\xc3\xa9", "\\x", &arena), ("café", false));
        assert_eq!(lossless(b"a\xff\xfeb", "\\x", &arena), ("a\\xFF\\xFEb", true));
        assert_eq!(raw(b"\x00\xc3"), "\0\\xC3");
    }

    #[test]
    fn escapes_of_nginx_and_apache_are_decoded() {
        let arena = Bump::new();
        assert_eq!(unescape(r#"a\x22b\"c\\d\te"#, &arena), "a\"b\"c\\d\te");
        assert_eq!(unescape(r"caf\xC3\xA9 \xFF \q \x \x16", &arena), r"café \xFF \q \x \x16");
    }
}
