//! Numbers as Perl reads and prints them: `%.6f` and `%s` of an IEEE double, and the number at the
//! start of a word.
//!
//! C's `printf` rounds the exact binary value, and a tie goes to the even digit (IEEE 754 §5.12);
//! Perl's `%s` is `%.15g` (perlnumber). Fixed-point printing uses integers because it dominates
//! stage 1; the tests compare it with the standard library and with Perl itself.

use std::io::Write;

/// Powers of ten that a double holds exactly.
const TENS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// Integers up to this are exact in a double.
const WHOLE_MAX: u64 = 1 << 53;

/// Width and decimals of `%WIDTH.DECIMALSf`.
#[derive(Clone, Copy)]
pub(super) struct FixedFormat {
    pub(super) width: usize,
    pub(super) decimals: usize,
}

/// `%.6f`.
pub(super) const SIX_DECIMALS: FixedFormat = FixedFormat { width: 0, decimals: 6 };

/// Appends `value` as `%WIDTH.DECIMALSf`.
pub(super) fn push_fixed(out: &mut Vec<u8>, value: f64, format: FixedFormat) {
    let FixedFormat { width, decimals } = format;
    let Some(scaled) = scaled(value.abs(), decimals) else {
        // Over 2^53, or not a number: rare enough for the slow path.
        let _infallible = write!(out, "{value:width$.decimals$}");
        return;
    };
    let mut digits = [b'0'; 40];
    let mut at = digits.len();
    let mut rest = scaled;
    while rest > 0 || digits.len() - at <= decimals {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
    }
    let (whole, part) = digits[at..].split_at(digits.len() - at - decimals);
    let is_negative = value.is_sign_negative();
    let length = usize::from(is_negative) + whole.len() + 1 + decimals;
    out.resize(out.len() + width.saturating_sub(length), b' ');
    if is_negative {
        out.push(b'-');
    }
    out.extend_from_slice(whole);
    out.push(b'.');
    out.extend_from_slice(part);
}

/// `value * 10^decimals`, rounded once, ties to even; `None` when it is too large.
fn scaled(value: f64, decimals: usize) -> Option<u64> {
    let bits = value.to_bits();
    let exponent = i32::try_from(bits >> 52).expect("eleven bits, the sign is off");
    let fraction = bits & ((1 << 52) - 1);
    // value = mantissa * 2^-shift
    let (mantissa, shift) =
        if exponent == 0 { (fraction, 1074) } else { (fraction | 1 << 52, 1075 - exponent) };
    if shift < 0 || decimals > 6 {
        return None;
    }
    let product = u128::from(mantissa) * 10_u128.pow(u32::try_from(decimals).ok()?);
    match shift {
        0 => u64::try_from(product).ok(),
        // The product has at most 73 bits: less than a half.
        101.. => Some(0),
        _ => {
            let half = 1_u128 << (shift - 1);
            let (quotient, remainder) = (product >> shift, product & (2 * half - 1));
            let is_up = remainder > half || (remainder == half && quotient % 2 == 1);
            u64::try_from(quotient + u128::from(is_up)).ok()
        }
    }
}

/// Appends `value` as `%s`: the shortest of 15 significant digits.
pub(super) fn push_plain(out: &mut Vec<u8>, value: f64) {
    let scientific = format!("{value:.14e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        out.extend_from_slice(scientific.as_bytes());
        return;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 {
        out.push(b'0');
    } else if (-4..15).contains(&exponent) {
        let decimals = usize::try_from(14 - exponent).unwrap_or(0);
        let fixed = format!("{value:.decimals$}");
        out.extend_from_slice(without_zeros(&fixed).as_bytes());
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _infallible = write!(out, "{}e{sign}{:02}", without_zeros(digits), exponent.abs());
    }
}

/// Removes trailing zeros of a fraction.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Rounds a value to six decimals: the old tool calculates with what it prints.
pub(super) fn at_six_decimals(value: f64) -> f64 {
    let Some(scaled) = scaled(value.abs(), 6).filter(|scaled| *scaled <= WHOLE_MAX) else {
        return format!("{value:.6}").parse().unwrap_or(value);
    };
    // Both are exact, so the quotient is the double nearest to the decimal number, as if its text
    // were parsed.
    (scaled as f64 / 1e6).copysign(value)
}

/// Parses a decimal number such as `1301957863.820001`.
pub(super) fn parse(word: &[u8]) -> Option<f64> {
    let (is_negative, digits) = match word {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, word),
    };
    let (mut number, mut count, mut decimals) = (0_u64, 0, None);
    for byte in digits {
        match byte {
            b'0'..=b'9' if count < 18 => {
                number = number * 10 + u64::from(byte - b'0');
                count += 1;
                decimals = decimals.map(|decimals| decimals + 1);
            }
            b'.' if decimals.is_none() => decimals = Some(0),
            _ => return parse_slowly(word),
        }
    }
    if count == 0 {
        return None;
    }
    if number > WHOLE_MAX || decimals.unwrap_or(0) >= TENS.len() {
        return parse_slowly(word);
    }
    let value = number as f64 / TENS[decimals.unwrap_or(0)];
    Some(if is_negative { -value } else { value })
}

/// Parses words with too many digits or an exponent.
fn parse_slowly(word: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(value: f64, [width, decimals]: [usize; 2]) -> String {
        let mut out = Vec::new();
        push_fixed(&mut out, value, FixedFormat { width, decimals });
        String::from_utf8(out).expect("digits")
    }

    fn plain(value: f64) -> String {
        let mut out = Vec::new();
        push_plain(&mut out, value);
        String::from_utf8(out).expect("digits")
    }

    #[test]
    fn fixed_point_rounds_the_exact_value_and_ties_to_even() {
        // 1/128 and 3/128 have seven decimals, so their sixth is a tie.
        assert_eq!(fixed(0.007_812_5, [0, 6]), "0.007812");
        assert_eq!(fixed(0.023_437_5, [0, 6]), "0.023438");
        assert_eq!(fixed(0.125, [5, 2]), " 0.12");
        assert_eq!(fixed(-1e-9, [9, 6]), "-0.000000");
        assert_eq!(fixed(-0.0, [0, 6]), "-0.000000");
        assert_eq!(fixed(1_301_957_863.820_001, [0, 6]), "1301957863.820001");
        assert_eq!(fixed(1e300, [0, 2]).len(), 304);
        assert_eq!(fixed(0.000_168, [9, 6]), " 0.000168");
        assert_eq!(fixed(f64::MIN_POSITIVE, [0, 6]), "0.000000");
    }

    #[test]
    fn fixed_point_is_what_the_standard_library_prints() {
        arbtest::arbtest(|u| {
            let value = match u.int_in_range(0..=3)? {
                0 => f64::from_bits(u.arbitrary()?),
                1 => {
                    u.int_in_range(-4_000_000_000_000_000_i64..=4_000_000_000_000_000)? as f64 / 1e6
                }
                2 => f64::from(u.arbitrary::<i32>()?) / 128.0,
                _ => f64::from(u.arbitrary::<i32>()?) / 1e9,
            };
            if value.is_nan() {
                return Ok(());
            }
            for (width, decimals) in [(0, 6), (9, 6), (5, 2), (9, 3)] {
                assert_eq!(fixed(value, [width, decimals]), format!("{value:width$.decimals$}"));
            }
            assert_eq!(
                at_six_decimals(value).to_bits(),
                format!("{value:.6}").parse::<f64>().expect("a number").to_bits()
            );
            Ok(())
        });
    }

    #[test]
    fn plain_numbers_have_fifteen_digits() {
        let shown: Vec<String> = [
            1_301_957_863.0,
            13_019_578_638.0 * 0.1,
            0.0,
            -0.5,
            1e15,
            1e-5,
            1e-4,
            123_456.25,
            -3.0,
        ]
        .into_iter()
        .map(plain)
        .collect();
        let perl = [
            "1301957863",
            "1301957863.8",
            "0",
            "-0.5",
            "1e+15",
            "1e-05",
            "0.0001",
            "123456.25",
            "-3",
        ];
        assert_eq!(shown, perl);
    }

    #[test]
    fn words_are_read_to_the_nearest_double() {
        arbtest::arbtest(|u| {
            let (whole, digits) = (u.arbitrary::<u32>()?, u.int_in_range(0..=12_usize)?);
            let part: u64 = u.int_in_range(0..=999_999_999_999)?;
            let text = format!("{whole}.{:.digits$}", format!("{part:012}"));
            let expected: f64 = text.parse().expect("a number");
            assert_eq!(
                parse(text.as_bytes()).map(f64::to_bits),
                Some(expected.to_bits()),
                "{text}"
            );
            Ok(())
        });
        assert_eq!(parse(b"-0.5"), Some(-0.5));
        assert_eq!(parse(b"1e3"), Some(1000.0));
        for none in [&b""[..], b"-", b".", b"abc", b"1.2.3", b"inf", b"nan", b"0x10"] {
            assert_eq!(parse(none), None, "{}", String::from_utf8_lossy(none));
        }
    }
}
