//! `to_char` of numbers: patterns of `9`, `0`, `.`, `,`, `D`, `G` and `FM`.
//!
//! A `9` without a digit is a space, a `0` and what follows it a zero. The sign precedes the first
//! digit and takes one position. A number with too many digits is shown as `#`.

use crate::decimal_places::{DecimalRounding, to_decimal_places};

/// Floats are exact up to here.
const LARGEST: f64 = 1e15;

#[derive(Clone, Copy, PartialEq)]
enum NumberPart {
    Digit,
    Zero,
    Comma,
}

/// How the digits of a number are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// A `numeric`, or a constant: by its decimal digits, halves away from 0.
    Decimal,
    /// A `double precision`: by its exact binary value.
    Float,
}

/// A pattern's parts before and behind its point.
struct NumberPattern {
    whole: Vec<NumberPart>,
    decimals: Vec<NumberPart>,
    has_point: bool,
    is_filled: bool,
}

/// Text of a number by a pattern; `None` for other patterns, and for numbers that floats have not.
pub fn number_text(value: f64, kind: NumberKind, pattern: &str) -> Option<String> {
    let pattern = parse(pattern)?;
    if value.is_nan() || value.abs() >= LARGEST {
        return None;
    }
    let places = pattern.decimals.len();
    let rounded = match kind {
        NumberKind::Decimal => {
            to_decimal_places(value, i32::try_from(places).ok()?, DecimalRounding::Nearest)
        }
        NumberKind::Float => format!("{value:.places$}").parse().ok()?,
    };
    let text = format!("{:.places$}", rounded.abs());
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let whole = if whole == "0" && places > 0 { "" } else { whole };
    let (blanks, digits) = pattern.whole_text(whole);
    let sign = match (rounded < 0.0, pattern.is_filled) {
        (true, _) => "-",
        (false, true) => " ",
        (false, false) => "",
    };
    let point = if pattern.has_point { "." } else { "" };
    let is_overflow = digits.contains('#');
    // Nothing but a point has a zero before it.
    let is_bare = digits.is_empty() && !is_overflow && pattern.decimal_text(decimals).is_empty();
    let digits = if is_bare && pattern.has_point { "0".into() } else { digits };
    let decimals = if is_overflow { "#".repeat(places) } else { pattern.decimal_text(decimals) };
    let blanks = if pattern.is_filled { " ".repeat(blanks) } else { String::new() };
    Some(format!("{blanks}{sign}{digits}{point}{decimals}"))
}

fn parse(pattern: &str) -> Option<NumberPattern> {
    let upper = pattern.to_ascii_uppercase();
    let (is_filled, rest) = match upper.strip_prefix("FM") {
        Some(rest) => (false, rest),
        None => (true, upper.as_str()),
    };
    let mut parsed =
        NumberPattern { whole: Vec::new(), decimals: Vec::new(), has_point: false, is_filled };
    for next in rest.chars() {
        let part = match next {
            '9' => NumberPart::Digit,
            '0' => NumberPart::Zero,
            ',' | 'G' if !parsed.has_point => NumberPart::Comma,
            '.' | 'D' if !parsed.has_point => {
                parsed.has_point = true;
                continue;
            }
            _ => return None,
        };
        let side = if parsed.has_point { &mut parsed.decimals } else { &mut parsed.whole };
        side.push(part);
    }
    (!parsed.whole.is_empty()).then_some(parsed)
}

impl NumberPattern {
    /// Number of blanks before the first digit, and the digits with their commas.
    fn whole_text(&self, digits: &str) -> (usize, String) {
        let places = self.whole.iter().filter(|part| **part != NumberPart::Comma).count();
        let Some(missing) = places.checked_sub(digits.len()) else {
            let full = self.whole.iter().map(|part| match part {
                NumberPart::Comma => ',',
                NumberPart::Digit | NumberPart::Zero => '#',
            });
            return (0, full.collect());
        };
        let (mut blanks, mut text, mut place, mut is_zero) = (0, String::new(), 0, false);
        let mut digits = digits.chars();
        for part in &self.whole {
            is_zero |= *part == NumberPart::Zero;
            let next = match part {
                NumberPart::Comma if text.is_empty() => None,
                NumberPart::Comma => Some(','),
                _ if place >= missing => digits.next(),
                _ => is_zero.then_some('0'),
            };
            place += usize::from(*part != NumberPart::Comma);
            match next {
                Some(next) => text.push(next),
                None => blanks += 1,
            }
        }
        (blanks, text)
    }

    /// Decimals; without fill, zeros at the end are left out as far as the pattern has `9`.
    fn decimal_text(&self, digits: &str) -> String {
        if self.is_filled {
            return digits.to_owned();
        }
        let kept = self.decimals.iter().rposition(|part| *part == NumberPart::Zero);
        let kept = kept.map_or(0, |at| at + 1);
        let end = digits.trim_end_matches('0').len().max(kept);
        digits.get(..end).unwrap_or(digits).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_postgresql_writes_them() {
        for (value, pattern, expected) in [
            (125.0, "999", " 125"),
            (125.0, "99999", "   125"),
            (-125.0, "999", "-125"),
            (1234.5, "9,999.99", " 1,234.50"),
            (0.1, "0.99", " 0.10"),
            (0.1, "9.99", "  .10"),
            (-0.5, "9.99", " -.50"),
            (12.0, "0000", " 0012"),
            (1485.0, "FM9,999", "1,485"),
            (485.0, "9,999", "   485"),
            (4.14159, "FM990.00", "4.14"),
            (3.1, "FM9.99", "3.1"),
            (0.0, "999", "   0"),
            (1234.0, "999", " ###"),
            (-1.0, "99", " -1"),
            (0.0, "FM999.99", "0."),
            (1.005, "FM990.00", "1.01"),
        ] {
            assert_eq!(
                number_text(value, NumberKind::Decimal, pattern).as_deref(),
                Some(expected),
                "{pattern}"
            );
        }
        let float = number_text(1.005, NumberKind::Float, "FM990.00");
        assert_eq!(float.as_deref(), Some("1.00"));
        assert_eq!(number_text(1.0, NumberKind::Decimal, "RN"), None);
    }
}
