//! PostgreSQL's binary `numeric`: base-10,000 digits, with the weight of the first and the decimal
//! scale.
//!
//! ```text
//! digits: i16 | weight: i16 | sign: u16 | scale: u16 | digit: i16 …
//!
//! 12345.6 has 3 digits: 1 2345 6000, weight 1, scale 1
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StringArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use weir_dialect::decimal_text;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
/// Limit of a weight or scale that is read, in groups and digits: no decimal of the engine has as
/// many.
const PLACES_MAX: u16 = 400;

/// Texts of a column of decimals.
pub(crate) fn texts(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let texts = cast(column, &DataType::Utf8)?;
    let DataType::Decimal128(precision, scale) = *column.data_type() else { return Ok(texts) };
    let texts = texts.as_string::<i32>().iter();
    let texts = texts.map(|text| text.map(|text| decimal_text(text, precision, scale)));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// Appends a decimal number such as `-12345.6`.
pub(crate) fn push(out: &mut Vec<u8>, text: &str) {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (NEGATIVE, rest),
        None => (0, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let missing = (4 - whole.len() % 4) % 4;
    let digits = format!("{}{whole}{fraction}", "0".repeat(missing));
    let mut groups: Vec<i16> =
        digits.as_bytes().chunks(4).map(|chunk| group(chunk).unwrap_or(0)).collect();
    let before_point = (whole.len() + missing) / 4;
    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let weight = i16::try_from(before_point).unwrap_or(0) - i16::try_from(leading).unwrap_or(0) - 1;
    let is_zero = groups.is_empty();
    let count = i16::try_from(groups.len()).unwrap_or(0);
    let scale = u16::try_from(fraction.len()).unwrap_or(0);
    out.extend_from_slice(&count.to_be_bytes());
    out.extend_from_slice(&if is_zero { 0 } else { weight }.to_be_bytes());
    out.extend_from_slice(&if is_zero { 0 } else { sign }.to_be_bytes());
    out.extend_from_slice(&scale.to_be_bytes());
    for group in groups {
        out.extend_from_slice(&group.to_be_bytes());
    }
}

/// Reads a decimal number as text; `None` for bytes that are no finite number.
pub(crate) fn read(bytes: &[u8]) -> Option<String> {
    let (words, rest) = bytes.as_chunks::<2>();
    let words: Vec<u16> = words.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
    let [count, weight, sign, scale, groups @ ..] = words.as_slice() else { return None };
    let weight = i16::from_be_bytes(weight.to_be_bytes());
    let is_sane = rest.is_empty()
        && groups.len() == usize::from(*count)
        && groups.iter().all(|group| *group < 10_000)
        && weight.unsigned_abs() <= PLACES_MAX
        && *scale <= PLACES_MAX;
    if *sign == NAN || !is_sane {
        return if *sign == NAN && groups.is_empty() { Some("NaN".into()) } else { None };
    }
    let mut whole = String::new();
    let mut fraction = String::new();
    let places = (-i32::from(*scale) - 3) / 4;
    for place in (places..=i32::from(weight).max(0)).rev() {
        let at = usize::try_from(i32::from(weight) - place).ok();
        let group = at.and_then(|at| groups.get(at)).copied().unwrap_or(0);
        let part = if place >= 0 { &mut whole } else { &mut fraction };
        part.push_str(&format!("{group:04}"));
    }
    fraction.truncate(usize::from(*scale));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let sign = if *sign == NEGATIVE { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}"))
}

/// Parses up to four digits, padded with zeros on the right.
fn group(digits: &[u8]) -> Option<i16> {
    let number: i16 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(number * 10_i16.pow(u32::try_from(4 - digits.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::{push, read};

    fn check(text: &str, expected: &[i16]) {
        let mut out = Vec::new();
        push(&mut out, text);
        let words: Vec<i16> =
            out.chunks(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]])).collect();
        assert_eq!(words, expected, "{text}");
        assert_eq!(read(&out).as_deref(), Some(text));
    }

    #[test]
    fn bytes_that_are_no_number_are_refused() {
        assert_eq!(read(&[0, 0, 0, 0, 0xc0, 0, 0, 0]).as_deref(), Some("NaN"));
        for wrong in [&[][..], &[0, 1, 0, 0, 0, 0, 0, 0], &[0, 0, 0x7f, 0xff, 0, 0, 0, 0], &[0; 9]]
        {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        arbtest::arbtest(|bytes| {
            let wire: Vec<u8> = bytes.arbitrary()?;
            let _ = read(&wire);
            Ok(())
        });
    }

    #[test]
    fn numbers_are_split_into_groups_around_the_point() {
        check("12345.6", &[3, 1, 0, 1, 1, 2345, 6000]);
        check("-1", &[1, 0, 0x4000, 0, 1]);
        check("0", &[0, 0, 0, 0]);
        check("0.00", &[0, 0, 0, 2]);
        check("0.0005", &[1, -1, 0, 4, 5]);
        check("0.00000005", &[1, -2, 0, 8, 5]);
        check("10000", &[1, 1, 0, 0, 1]);
        check("18446744073709551615", &[5, 4, 0, 0, 1844, 6744, 737, 955, 1615]);
    }
}
