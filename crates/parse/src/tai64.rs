//! TAI64N labels, `@` and 24 hexadecimal digits, as daemontools and runit put in front of lines.
//!
//! Source: <https://cr.yp.to/libtai/tai64.html>. The label counts TAI seconds; since 2017 these are 37 ahead of UTC, and
//! as all readers of logs do, that number is taken for every label. The writers start at 2^62 + 10.

use weir_tables::Micros;

/// TAI was 10 s ahead in 1970, and that is what the programs that write labels add.
const START: i64 = (1 << 62) + 10;

/// The instant of a label.
pub(crate) fn read(text: &str) -> Option<Micros> {
    let digits = text.strip_prefix('@').filter(|digits| digits.len() == 24)?;
    let seconds = i64::from_str_radix(digits.get(..16)?, 16).ok()?.checked_sub(START)?;
    let nanos = i64::from_str_radix(digits.get(16..)?, 16).ok()?;
    Some(Micros(seconds.checked_mul(1_000_000)?.checked_add(nanos / 1_000)?))
}
