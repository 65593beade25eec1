//! TAI64N labels, `@` and 24 hexadecimal digits, which daemontools and runit prepend to lines.
//!
//! Source: <https://cr.yp.to/libtai/tai64.html>. The label counts TAI seconds from 2^62 + 10, the
//! offset of 1970, which the programs use for every label.

use weir_tables::Micros;

/// 1970 in TAI64: TAI was 10 s ahead then, and the writers keep that offset.
const START: i64 = (1 << 62) + 10;

/// The instant of a label.
pub(crate) fn read(text: &str) -> Option<Micros> {
    let digits = text.strip_prefix('@').filter(|digits| digits.len() == 24)?;
    let seconds = i64::from_str_radix(digits.get(..16)?, 16).ok()?.checked_sub(START)?;
    let nanos = i64::from_str_radix(digits.get(16..)?, 16).ok()?;
    Some(Micros(seconds.checked_mul(1_000_000)?.checked_add(nanos / 1_000)?))
}
