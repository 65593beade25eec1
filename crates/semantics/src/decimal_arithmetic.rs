//! Sums, differences and products of decimals that fail beyond 38 digits.
//!
//! The engine's have as many places as both factors together, and a number whose digits exceed the
//! type is shown without its last ones: `12345.678 * 12345.678` was a tenth of its value.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, Datum, Decimal128Array};
use arrow_buffer::i256;
use arrow_schema::{ArrowError, DataType};
use datafusion::scalar::ScalarValue;

/// Most places of a product, so that 18 digits before the point remain.
pub(crate) const PLACES_MAX: i8 = 20;
/// Digits of a decimal.
const DIGITS_MAX: u8 = 38;

type Result<T> = std::result::Result<T, ArrowError>;

pub(crate) fn out_of_range() -> ArrowError {
    ArrowError::ComputeError(format!(
        "value out of range: numbers have at most {DIGITS_MAX} digits; cast to double precision"
    ))
}

/// Products of a type, halves away from 0.
///
/// # Errors
/// A product has more digits than the type, or is not 0 and has none left.
pub(crate) fn product(
    left: &dyn Datum,
    right: &dyn Datum,
    (digits, scale): (u8, i8),
) -> Result<ArrayRef> {
    let sides = [left.get(), right.get()];
    let mut places = 0;
    for (side, _) in sides {
        let DataType::Decimal128(_, own) = side.data_type() else { return Err(out_of_range()) };
        places += i32::from(*own);
    }
    let cut = u32::try_from(places - i32::from(scale)).unwrap_or(0);
    let divisor = i256::from_i128(10).checked_pow(cut).ok_or_else(out_of_range)?;
    let len = sides.iter().filter(|(_, is_scalar)| !is_scalar).map(|(side, _)| side.len()).max();
    let rows = (0..len.unwrap_or(1)).map(|at| {
        let numbers = sides.map(|(side, is_scalar)| {
            let (side, at) =
                (side.as_primitive::<Decimal128Type>(), if is_scalar { 0 } else { at });
            side.is_valid(at).then(|| i256::from_i128(side.value(at)))
        });
        match numbers {
            [Some(one), Some(other)] => rounded(one.wrapping_mul(other), divisor).map(Some),
            _ => Ok(None),
        }
    });
    let products = rows.collect::<Result<Decimal128Array>>()?;
    of_type(&products, (digits, scale))
}

/// Numbers as what their operator was planned to give: the engine's sums have a digit more.
///
/// # Errors
/// A number has more digits than the type.
pub(crate) fn of_type(numbers: &Decimal128Array, (digits, scale): (u8, i8)) -> Result<ArrayRef> {
    numbers.validate_decimal_precision(digits).map_err(|_| out_of_range())?;
    Ok(Arc::new(numbers.clone().with_precision_and_scale(digits, scale)?))
}

/// A constant with the digits that it is written with; `None` for one with more than 38.
pub(crate) fn constant(number: f64) -> Option<ScalarValue> {
    let text = number.to_string();
    let (whole, places) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{whole}{places}").parse().ok()?;
    let scale = i8::try_from(places.len()).ok()?;
    let fits = i128::abs(digits) < 10_i128.pow(u32::from(DIGITS_MAX));
    (fits && scale <= PLACES_MAX).then_some(ScalarValue::Decimal128(
        Some(digits),
        DIGITS_MAX,
        scale,
    ))
}

/// A quotient, halves away from 0.
fn rounded(number: i256, divisor: i256) -> Result<i128> {
    let half = divisor.wrapping_div(i256::from_i128(2));
    let half = if number < i256::ZERO { half.wrapping_neg() } else { half };
    let number_left = number.wrapping_add(half).wrapping_div(divisor);
    if number_left == i256::ZERO && number != i256::ZERO {
        return Err(out_of_range());
    }
    let limit = 10_i128.pow(u32::from(DIGITS_MAX));
    let fits = number_left.to_i128().filter(|number| number.abs() < limit);
    fits.ok_or_else(out_of_range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimals(numbers: &[i128], scale: i8) -> Decimal128Array {
        let numbers = Decimal128Array::from(numbers.to_vec());
        numbers.with_precision_and_scale(DIGITS_MAX, scale).unwrap()
    }

    #[test]
    fn products_keep_their_value_or_fail() {
        let text = |left: i128, left_scale, right: i128, right_scale, scale| {
            product(
                &decimals(&[left], left_scale),
                &decimals(&[right], right_scale),
                (DIGITS_MAX, scale),
            )
            .map(|product| product.as_primitive::<Decimal128Type>().value_as_string(0))
            .ok()
        };
        assert_eq!(text(12_345_678, 3, -12_345_678, 3, 6).as_deref(), Some("-152415765.279684"));
        // 0.5 × 0.1 with one place.
        assert_eq!(text(5, 1, 1, 1, 1).as_deref(), Some("0.1"));
        assert_eq!(text(-5, 1, 1, 1, 1).as_deref(), Some("-0.1"));
        assert_eq!(text(4, 1, 1, 1, 1), None);
        let digits = 10_i128.pow(37);
        assert_eq!(text(digits, 0, 10, 0, 0), None);
        assert_eq!(text(digits, 30, 99, 1, 20).as_deref(), Some("99000000.00000000000000000000"));
    }

    #[test]
    fn constants_keep_their_digits() {
        let text = |number: f64| constant(number).map(|constant| constant.to_string());
        assert_eq!(text(-152_415_765.279_684).as_deref(), Some("-152415765.279684"));
        assert_eq!(text(1e20).as_deref(), Some("100000000000000000000"));
        assert_eq!((text(1e40), text(f64::NAN), text(1e-30)), (None, None, None));
    }

    #[test]
    fn sums_have_the_digits_of_their_type_or_fail() {
        let sum = Decimal128Array::from(vec![10_i128.pow(22) - 1]);
        let kind = of_type(&sum, (22, 0)).map(|sum| sum.data_type().clone());
        assert_eq!(kind.ok(), Some(DataType::Decimal128(22, 0)));
        assert!(of_type(&sum, (21, 0)).is_err());
    }
}
