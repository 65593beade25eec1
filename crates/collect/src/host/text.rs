//! Lines, fields and numbers of the kernel's text files; works on bytes without allocating.
//!
//! Numbers in `/proc` are unsigned 64 bit as often as signed, and some files print -1 for "none":
//! both are accepted, unsigned ones saturate at `i64::MAX`.

use std::borrow::Cow;

/// Non-empty lines without their line feeds.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}

/// Fields between runs of blanks and tabs.
pub(crate) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ' || byte == b'\t').filter(|field| !field.is_empty())
}

pub(crate) fn int(field: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match field {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    }
    Some(if is_negative { -value } else { value })
}

pub(crate) fn hex(field: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(field).ok()?;
    i64::from_str_radix(text, 16).ok()
}

pub(crate) fn float(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The first number of the line whose first field is `key`, as in `/proc/meminfo` or `memory.stat`.
pub(crate) fn value_of(bytes: &[u8], key: &str) -> Option<i64> {
    lines(bytes).find_map(|line| {
        let mut fields = fields(line);
        let name = fields.next()?;
        let name = name.strip_suffix(b":").unwrap_or(name);
        if name == key.as_bytes() { int(fields.next()?) } else { None }
    })
}

/// Trimmed text; invalid UTF-8 is replaced.
pub(crate) fn trimmed(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_kernel_are_read() {
        assert_eq!(int(b"42"), Some(42));
        assert_eq!(int(b"-1"), Some(-1));
        assert_eq!(int(b"18446744073709551615"), Some(i64::MAX));
        assert_eq!(hex(b"0000ffff"), Some(65535));
        assert_eq!(float(b"0.47"), Some(0.47));
    }

    #[test]
    fn text_that_is_no_number_is_none() {
        for field in [&b""[..], b"-", b"4x", b"max", b"\xff"] {
            assert_eq!(int(field), None);
        }
        assert_eq!(hex(b"xyz"), None);
        assert_eq!(float(b"avg"), None);
    }

    #[test]
    fn value_is_found_by_its_name_with_and_without_colon() {
        assert_eq!(value_of(b"MemTotal:   10 kB\nMemFree: 5 kB\n", "MemFree"), Some(5));
        assert_eq!(value_of(b"cache 1\noom_kill 3", "oom_kill"), Some(3));
        assert_eq!(value_of(b"cache 1\n", "oom_kill"), None);
    }
}
