//! Decimal places of floats, as of their cast to `numeric`: by 15 significant digits, halves away
//! from 0, so that 1.005 has 1.01 with two places.

/// What happens to further digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalRounding {
    /// The nearest number; of two, the one further from 0.
    Nearest,
    /// Digits are cut off.
    Cut,
}

/// Significant digits of a float.
const DIGITS: i32 = 15;

/// A float with this many decimal places; negative ones round to tens, hundreds and so on.
pub fn to_decimal_places(value: f64, places: i32, rounding: DecimalRounding) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    let text = format!("{value:.14e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return value };
    let digits = mantissa.replace('.', "").parse::<i64>();
    let (Ok(digits), Ok(exponent)) = (digits, exponent.parse::<i32>()) else { return value };
    // The value is `digits` × 10^(exponent - 14).
    let dropped = (DIGITS - 1 - exponent).saturating_sub(places);
    if dropped <= 0 {
        return value;
    }
    if dropped > DIGITS {
        return 0.0;
    }
    let unit = 10_i64.pow(dropped.unsigned_abs());
    let half = match rounding {
        DecimalRounding::Nearest => unit / 2 * digits.signum(),
        DecimalRounding::Cut => 0,
    };
    format!("{}e{}", (digits + half) / unit, -places).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also apache/datafusion#22247.
    #[test]
    fn halves_are_those_of_the_decimal_digits() {
        for (value, places, expected) in [
            (1.005, 2, 1.01),
            (2.675, 2, 2.68),
            (-0.005, 2, -0.01),
            (0.285, 2, 0.29),
            (1234.567, -2, 1200.0),
            (50.0, -2, 100.0),
            (49.0, -2, 0.0),
            (0.004, 2, 0.0),
            (1e-30, 2, 0.0),
            (1.5, 20, 1.5),
            (1e300, 2, 1e300),
        ] {
            assert_eq!(to_decimal_places(value, places, DecimalRounding::Nearest), expected);
        }
        assert_eq!(to_decimal_places(-1.999, 2, DecimalRounding::Cut), -1.99);
        assert_eq!(to_decimal_places(0.29, 2, DecimalRounding::Cut), 0.29);
    }
}
