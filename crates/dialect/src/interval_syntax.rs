//! Intervals in syntax: units behind a constant, and calls whose argument is surely an interval.

use sqlparser::ast::{BinaryOperator, DataType, DateTimeField, Expr, Interval, UnaryOperator};

use crate::fragments::{literal, text};
use crate::interval::IntervalParts;
use crate::interval_reading::{BareUnit, read_with_unit};
use crate::refusal::{Result, refuse};
use crate::time_literal::engine_interval;

/// An interval constant in words that the engine reads.
pub(crate) fn rewrite(interval: &mut Interval) -> Result<()> {
    let Some(constant) = literal(&interval.value) else { return Ok(()) };
    let smallest = interval.last_field.as_ref().or(interval.leading_field.as_ref());
    let Some(unit) = smallest.map_or(Some(BareUnit::Second), bare_unit) else { return Ok(()) };
    let text_of_fields = in_fields(constant, interval);
    let Some(parts) = read_with_unit(&text_of_fields, unit) else {
        return refuse!("`{constant}` is no interval: write it as `1 day 2 hours`");
    };
    // Fields cut off what is smaller than the last of them.
    let cut = if smallest.is_some() { cut(parts, unit) } else { parts };
    let new = text(&engine_interval(cut));
    (interval.leading_field, interval.last_field) = (None, None);
    (interval.leading_precision, interval.fractional_seconds_precision) = (None, None);
    *interval.value = new;
    Ok(())
}

/// A constant whose fields say more than its text: `10:20` minutes and seconds, `1 2` days and hours.
fn in_fields(constant: &str, interval: &Interval) -> String {
    let words: Vec<&str> = constant.split_whitespace().collect();
    match (&interval.leading_field, &interval.last_field, words.as_slice()) {
        (Some(DateTimeField::Minute), Some(DateTimeField::Second), [clock])
            if clock.matches(':').count() == 1 =>
        {
            format!("00:{clock}")
        }
        (Some(DateTimeField::Day), Some(DateTimeField::Hour), [days, hours]) => {
            format!("{days} days {hours} hours")
        }
        _ => constant.to_owned(),
    }
}

fn cut(parts: IntervalParts, unit: BareUnit) -> IntervalParts {
    let name = match unit {
        BareUnit::Second => return parts,
        BareUnit::Minute => "minute",
        BareUnit::Hour => "hour",
        BareUnit::Day => "day",
        BareUnit::Month => "month",
        BareUnit::Year => "year",
    };
    parts.trunc(name).unwrap_or(parts)
}

fn bare_unit(field: &DateTimeField) -> Option<BareUnit> {
    Some(match field {
        DateTimeField::Second | DateTimeField::Seconds => BareUnit::Second,
        DateTimeField::Minute | DateTimeField::Minutes => BareUnit::Minute,
        DateTimeField::Hour | DateTimeField::Hours => BareUnit::Hour,
        DateTimeField::Day | DateTimeField::Days => BareUnit::Day,
        DateTimeField::Month | DateTimeField::Months => BareUnit::Month,
        DateTimeField::Year | DateTimeField::Years => BareUnit::Year,
        _ => return None,
    })
}

/// Functions with an interval as result.
const FUNCTIONS: [&str; 6] =
    ["make_interval", "justify_hours", "justify_days", "justify_interval", "age", "interval_times"];

/// Whether an expression is an interval, as far as its syntax shows.
pub(crate) fn is_interval(expr: &Expr) -> bool {
    match expr {
        Expr::Interval(_) => true,
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Interval { .. }),
        Expr::TypedString(constant) => matches!(constant.data_type, DataType::Interval { .. }),
        Expr::Nested(inner) => is_interval(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_interval(expr),
        Expr::BinaryOp { left, op: BinaryOperator::Plus | BinaryOperator::Minus, right } => {
            is_interval(left) && is_interval(right)
        }
        Expr::Function(function) => {
            FUNCTIONS.contains(&function.name.to_string().to_lowercase().as_str())
        }
        _ => false,
    }
}
