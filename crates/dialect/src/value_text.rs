//! Texts of values as PostgreSQL's casts to `text` write them: times, floats, elements of arrays.
//!
//! Floats have the fewest digits that read back as the same float. Above 15 digits (6 of `real`) and
//! below 0.0001 they have an exponent of at least two digits.

use crate::time_text::time_text;
use crate::time_zone::ZoneRule;

/// Text of a time on its own clock, or of an instant in a zone; `None` beyond the years that exist.
pub fn timestamp_text(micros: i64, zone: Option<&ZoneRule>) -> Option<String> {
    let wall = zone.map_or(Some(micros), |zone| zone.wall_time(micros))?;
    let text = time_text(wall, zone, "YYYY-MM-DD HH24:MI:SS.US")?;
    let mut text = text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if zone.is_some() {
        text.push_str(&time_text(wall, zone, "OF")?);
    }
    if time_text(wall, None, "BC")? == "BC" {
        text.push_str(" BC");
    }
    Some(text)
}

/// Text of a `double precision`.
pub fn double_text(value: f64) -> String {
    float_text(value, format!("{value:e}"), 15)
}

/// Text of a `real`.
pub fn real_text(value: f32) -> String {
    float_text(value.into(), format!("{value:e}"), 6)
}

/// `scientific` is the shortest text with an exponent, such as `-1.25e-7`.
fn float_text(value: f64, scientific: String, digits: i32) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if exponent < -4 || exponent >= digits => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        Ok(exponent) => plain(mantissa, exponent),
        Err(_) => scientific,
    }
}

/// A mantissa such as `-1.25` with its point moved by an exponent.
fn plain(mantissa: &str, exponent: i32) -> String {
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent.unsigned_abs() as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits:0<whole$}");
    }
    let (before, after) = digits.split_at(whole);
    format!("{sign}{before}.{after}")
}

/// Places of a `numeric` without a scale, as the engine has it; a product of two has more.
const FREE_PLACES: i8 = 10;
/// Digits of a `numeric` without a precision.
const FREE_DIGITS: u8 = 38;

/// The text of a decimal; a `numeric` without a scale has the places that it needs.
pub fn decimal_text(text: &str, precision: u8, scale: i8) -> &str {
    if precision < FREE_DIGITS || scale < FREE_PLACES || !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}

/// An element in the text of an array, in quotes where it could be read as something else.
pub fn array_element_text(text: &str) -> String {
    let has_special = text.contains(|next: char| "{},\"\\ \t\n\r\x0b\x0c".contains(next));
    if !text.is_empty() && !has_special && !text.eq_ignore_ascii_case("null") {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for next in text.chars() {
        quoted.extend(matches!(next, '"' | '\\').then_some('\\'));
        quoted.push(next);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also apache/datafusion#22247.
    #[test]
    fn floats_have_the_digits_of_postgresql() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.0001234, "0.0001234"),
            (1e-5, "1e-05"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (1e-300, "1e-300"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double_text(value), expected);
        }
        assert_eq!(real_text(100_000.0), "100000");
        assert_eq!(real_text(1e6), "1e+06");
        assert_eq!(real_text(0.1), "0.1");
    }

    #[test]
    fn times_have_a_space_and_no_idle_digits() {
        let kolkata = ZoneRule::parse("Asia/Kolkata").unwrap();
        assert_eq!(timestamp_text(500_000, None).as_deref(), Some("1970-01-01 00:00:00.5"));
        let text = timestamp_text(0, Some(&kolkata));
        assert_eq!(text.as_deref(), Some("1970-01-01 05:30:00+05:30"));
        let text = timestamp_text(-62_167_219_200_000_000, None);
        assert_eq!(text.as_deref(), Some("0001-01-01 00:00:00 BC"));
    }

    #[test]
    fn decimals_without_a_scale_have_no_idle_places() {
        for (text, scale, expected) in [
            ("1.5000000000", 10, "1.5"),
            ("100.0000000000", 10, "100"),
            ("1.50", 2, "1.50"),
            ("100", 0, "100"),
        ] {
            assert_eq!(decimal_text(text, 38, scale), expected);
        }
        assert_eq!(decimal_text("1.5000000000", 12, 10), "1.5000000000");
    }

    #[test]
    fn elements_of_arrays_are_quoted_where_they_have_to_be() {
        for (text, expected) in [
            ("a", "a"),
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("NULL", "\"NULL\""),
            ("q\"", r#""q\"""#),
        ] {
            assert_eq!(array_element_text(text), expected);
        }
    }
}
