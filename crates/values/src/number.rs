//! Parses numbers exactly and without allocation; other text is `None`, never zero.

/// Powers of ten that are exact as floats.
const POWERS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// A whole number, with an optional sign.
pub fn integer(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.is_empty() || bytes.len() > 18 || !bytes.iter().all(u8::is_ascii_digit) {
        return text.parse().ok();
    }
    Some(bytes.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

/// A whole number, also with zeros behind a point, as some encoders of JSON write each number.
pub fn whole(text: &str) -> Option<i64> {
    integer(text).or_else(|| {
        let (digits, zeros) = text.split_once('.')?;
        integer(digits).filter(|_| !zeros.is_empty() && zeros.bytes().all(|zero| zero == b'0'))
    })
}

/// A finite number of decimal digits.
///
/// Up to 15 digits, the mantissa and the power of ten are exact, so one division rounds once, like
/// the standard library, which handles longer numbers.
pub fn float(text: &str) -> Option<f64> {
    short_float(text.as_bytes()).or_else(|| {
        let is_decimal = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        text.parse::<f64>().ok().filter(|value| is_decimal && value.is_finite())
    })
}

#[expect(clippy::cast_precision_loss, reason = "15 digits are below 2^53")]
fn short_float(bytes: &[u8]) -> Option<f64> {
    if bytes.is_empty() || bytes.len() > 16 {
        return None;
    }
    let (mut mantissa, mut digit_count, mut point) = (0u64, 0, None);
    for &byte in bytes {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa * 10 + u64::from(byte - b'0');
                digit_count += 1;
            }
            b'.' if point.is_none() => point = Some(digit_count),
            _ => return None,
        }
    }
    if digit_count == 0 || digit_count > 15 {
        return None;
    }
    Some(mantissa as f64 / POWERS[digit_count - point.unwrap_or(digit_count)])
}

/// Seconds: a float that is not negative.
pub fn seconds(text: &str) -> Option<f64> {
    float(text).filter(|value| *value >= 0.0)
}

/// Seconds of a duration with its unit, as Go and many loggers write it: `25.1µs`, `1m2.5s`, `12 ms`.
pub fn span_seconds(text: &str) -> Option<f64> {
    let mut seconds = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|mark: char| !mark.is_ascii_digit() && mark != '.')?;
        let (value, behind) = rest.split_at(digits);
        let behind = behind.strip_prefix(' ').unwrap_or(behind);
        let unit = behind.find(|mark: char| mark.is_ascii_digit()).unwrap_or(behind.len());
        let value = float(value)?;
        // A quotient is rounded once: 9 ms are 0.009 s.
        seconds += match behind[..unit].trim_ascii_end() {
            "ns" => value / 1e9,
            "µs" | "us" | "\u{3bc}s" => value / 1e6,
            "ms" | "msec" | "msecs" => value / 1e3,
            "s" | "sec" => value,
            "m" => value * 60.0,
            "h" => value * 3_600.0,
            _ => return None,
        };
        rest = &behind[unit..];
    }
    (!text.is_empty()).then_some(seconds)
}

/// Normalizes words for true and false.
pub fn boolean(text: &str) -> Option<&'static str> {
    const WORDS: [(&str, [&str; 6]); 2] = [
        ("true", ["true", "yes", "on", "t", "y", "1"]),
        ("false", ["false", "no", "off", "f", "n", "0"]),
    ];
    let found = WORDS.iter().find(|(_, words)| words.iter().any(|w| w.eq_ignore_ascii_case(text)));
    found.map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_need_a_unit() {
        let micros = |text| span_seconds(text).map(|seconds| (seconds * 1e6).round());
        let known = ["25.1µs", "1m2.5s", "12 ms", "0.105s", "3msecs", "1h0m0s"];
        let expected = [25.0, 62_500_000.0, 12_000.0, 105_000.0, 3_000.0, 3_600_000_000.0];
        assert_eq!(known.map(micros), expected.map(Some));
        assert_eq!(["", "12", "1.5 apples", "ms", "-1ms", "1ms2"].map(micros), [None; 6]);
    }

    #[test]
    fn numbers_are_what_the_standard_library_says() {
        arbtest::arbtest(|u| {
            let text = match u.int_in_range(0..=2)? {
                0 => format!("{}", u.arbitrary::<i64>()?),
                1 => format!("{}.{:03}", u.arbitrary::<u32>()?, u.int_in_range(0..=999)?),
                _ => format!("{:e}", u.arbitrary::<f32>()?),
            };
            assert_eq!(integer(&text), text.parse().ok());
            let expected = text.parse::<f64>().ok().filter(|value| value.is_finite());
            assert_eq!(float(&text), expected, "{text}");
            Ok(())
        });
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in ["", "-", ".", "1.2.3", "inf", "nan", "0x1", "12a", " 1"] {
            assert_eq!((integer(text), float(text)), (None, None), "{text}");
        }
        assert_eq!(seconds("-1"), None);
    }
}
