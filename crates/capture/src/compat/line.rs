//! One line of `tcpdump -tttt` as the old tool read it: time, sender and receiver.
//!
//! Only `YYYY-MM-DD HH:MM:SS.uuuuuu IP SRC > DST:` at the start of the line counts. IPv6 (`IP6`)
//! does not match, nor does `-i any` text of tcpdump 4.99 and later, which has `eth0  In  IP`.

use crate::text::{LocalMinute, MINUTE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TcpdumpLine<'a> {
    /// `YYYY-MM-DD HH:MM`.
    pub(super) minute: &'a [u8; MINUTE],
    /// `SS.uuuuuu`: seconds of the minute, and the digits after them.
    pub(super) seconds: u64,
    pub(super) fraction: u64,
    /// Number of digits of the fraction: 6, or 9 with `--nano`.
    pub(super) digits: usize,
    /// Address, a dot, port.
    pub(super) from: &'a [u8],
    /// Address, a dot, port.
    pub(super) to: &'a [u8],
}

/// Maximum digits of a fraction in tcpdump's output.
const DIGITS_MAX: usize = 9;

/// Parses a line without its line end.
pub(super) fn read(line: &[u8]) -> Option<TcpdumpLine<'_>> {
    let (minute, rest) = line.split_first_chunk::<MINUTE>()?;
    let (seconds, rest) = rest.split_first_chunk::<4>()?;
    let [b':', tens, ones, b'.'] = seconds else { return None };
    let seconds = digit(*tens)? * 10 + digit(*ones)?;
    let (mut fraction, mut digits) = (0, 0);
    while let Some(digit) = rest.get(digits).and_then(|byte| digit(*byte)) {
        fraction = fraction * 10 + digit;
        digits += 1;
        if digits > DIGITS_MAX {
            return None;
        }
    }
    if digits == 0 {
        return None;
    }
    let rest = rest[digits..].strip_prefix(b" IP ")?;
    let (from, rest) = rest.split_at(memchr::memchr(b' ', rest)?);
    let rest = rest.strip_prefix(b" > ")?;
    let word = &rest[..memchr::memchr(b' ', rest).unwrap_or(rest.len())];
    let to = &word[..memchr::memrchr(b':', word)?];
    let is_right = LocalMinute::is_shape(minute) && !from.is_empty() && !to.is_empty();
    is_right.then_some(TcpdumpLine { minute, seconds, fraction, digits, from, to })
}

fn digit(byte: u8) -> Option<u64> {
    byte.is_ascii_digit().then(|| u64::from(byte - b'0'))
}

/// The port, by number or name: what follows the last dot.
pub(super) fn port(endpoint: &[u8]) -> &[u8] {
    memchr::memrchr(b'.', endpoint).map_or(endpoint, |dot| &endpoint[dot + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"2011-04-04 18:57:43.820001 IP 10.0.0.1.56737 > 10.10.10.10.3306: tcp 40";

    #[test]
    fn time_and_both_ends_are_read() {
        let line = read(LINE).expect("a line of tcpdump");
        assert_eq!(line.minute, b"2011-04-04 18:57");
        assert_eq!((line.seconds, line.fraction, line.digits), (43, 820_001, 6));
        assert_eq!(line.from, b"10.0.0.1.56737");
        assert_eq!(line.to, b"10.10.10.10.3306");
        assert_eq!(port(line.to), b"3306");
    }

    #[test]
    fn names_and_flags_are_fine() {
        let text = b"2011-04-04 18:57:43.820001 IP web-1.example.com.41412 > shop.http: Flags [P.], seq 1:9";
        let line = read(text).expect("a line of tcpdump");
        assert_eq!((line.from, line.to), (&b"web-1.example.com.41412"[..], &b"shop.http"[..]));
    }

    #[test]
    fn what_the_old_tool_passed_over_is_passed_over() {
        for text in [
            &b"2011-04-04 18:57:43.820001 IP6 ::1.80 > ::1.999: tcp 1"[..],
            b"2026-04-04 18:57:43.820001 eth0  In  IP 10.0.0.1.1 > 10.0.0.2.80: tcp 1",
            b"18:57:43.820001 IP 10.0.0.1.1 > 10.0.0.2.80: tcp 1",
            b" 2011-04-04 18:57:43.820001 IP 10.0.0.1.1 > 10.0.0.2.80: tcp 1",
            b"2011-04-04 18:57:43 IP 10.0.0.1.1 > 10.0.0.2.80: tcp 1",
            b"2011-04-04 18:57:43.820001 IP 10.0.0.1.1 < 10.0.0.2.80: tcp 1",
            b"2011-04-04 18:57:43.820001 IP 10.0.0.1.1 > 10.0.0.2.80 tcp 1",
            b"2011-04-04 18:57:43.820001 IP  > : tcp 1",
            b"\t0x0000:  4500 003c",
            b"",
        ] {
            assert_eq!(read(text), None, "{}", String::from_utf8_lossy(text));
        }
        for end in 0..LINE.len() {
            let _ = read(&LINE[..end]);
        }
    }
}
