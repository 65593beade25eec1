//! Functions of intervals: length, text, products, parts.

use std::ops::RangeInclusive;

use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::{Result, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::ScalarUDF;
use datafusion::scalar::ScalarValue;
use weir_dialect::{IntervalParts, age, read_interval};

use crate::clock_functions::micros_of;
use crate::row_function::{
    Evaluate, RowFunction, float_of, functions, integer_of, text_of, text_type,
};

/// The type of intervals.
pub(crate) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// Type of lengths in microseconds: a length of many years exceeds 64 bits.
const LENGTH: DataType = DataType::Decimal128(38, 0);

/// All functions.
pub(crate) fn all() -> Vec<ScalarUDF> {
    functions(vec![
        RowFunction {
            name: "interval_length",
            arity: 1..=1,
            result: |_| Ok(LENGTH),
            run: length,
            takes_null: false,
        },
        RowFunction {
            name: "interval_text",
            arity: 1..=1,
            result: text_type,
            run: text,
            takes_null: false,
        },
        RowFunction {
            name: "interval_field",
            arity: 2..=2,
            result: |_| Ok(DataType::Float64),
            run: field,
            takes_null: false,
        },
        RowFunction {
            name: "interval_greatest",
            arity: 1..=64,
            result: interval_type,
            run: greatest,
            takes_null: true,
        },
        RowFunction {
            name: "interval_least",
            arity: 1..=64,
            result: interval_type,
            run: least,
            takes_null: true,
        },
        interval("interval_times", 2..=2, times),
        interval("interval_of", 1..=1, of),
        interval("interval_trunc", 2..=2, trunc),
        interval("justify_hours", 1..=1, |args, _| justified(args, IntervalParts::justify_hours)),
        interval("justify_days", 1..=1, |args, _| justified(args, IntervalParts::justify_days)),
        interval("justify_interval", 1..=1, |args, _| {
            justified(args, IntervalParts::justify_interval)
        }),
        interval("make_interval", 7..=7, make),
        interval("age", 2..=2, age_between),
    ])
}

/// A function of values that are not NULL, with an interval as result.
fn interval(name: &'static str, arity: RangeInclusive<usize>, run: Evaluate) -> RowFunction {
    RowFunction { name, arity, result: interval_type, run, takes_null: false }
}

fn interval_type(_: &[DataType]) -> Result<DataType> {
    Ok(INTERVAL)
}

/// Parts of an interval or of a difference of two times; `None` for NULL and other types.
pub(crate) fn parts_of(value: &ScalarValue) -> Option<IntervalParts> {
    Some(match value {
        ScalarValue::IntervalMonthDayNano(interval) => {
            let interval = (*interval)?;
            IntervalParts {
                months: interval.months,
                days: interval.days,
                micros: interval.nanoseconds / 1000,
            }
        }
        ScalarValue::IntervalYearMonth(months) => {
            IntervalParts { months: (*months)?, ..Default::default() }
        }
        ScalarValue::IntervalDayTime(interval) => {
            let interval = (*interval)?;
            IntervalParts {
                months: 0,
                days: interval.days,
                micros: i64::from(interval.milliseconds) * 1000,
            }
        }
        ScalarValue::DurationSecond(count) => {
            IntervalParts::of_micros((*count)?.checked_mul(1_000_000)?)
        }
        ScalarValue::DurationMillisecond(count) => {
            IntervalParts::of_micros((*count)?.checked_mul(1000)?)
        }
        ScalarValue::DurationMicrosecond(count) => IntervalParts::of_micros((*count)?),
        ScalarValue::DurationNanosecond(count) => IntervalParts::of_micros((*count)? / 1000),
        ScalarValue::Utf8(_) | ScalarValue::LargeUtf8(_) | ScalarValue::Utf8View(_) => {
            read_interval(value.try_as_str().flatten()?)?
        }
        // A time of day is the time since midnight.
        ScalarValue::Time32Second(_)
        | ScalarValue::Time32Millisecond(_)
        | ScalarValue::Time64Microsecond(_)
        | ScalarValue::Time64Nanosecond(_) => {
            match value.cast_to(&DataType::Time64(TimeUnit::Microsecond)).ok()? {
                ScalarValue::Time64Microsecond(micros) => {
                    IntervalParts { micros: micros?, ..Default::default() }
                }
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// Value of an interval.
pub(crate) fn interval_value(parts: IntervalParts) -> Result<ScalarValue> {
    match parts.micros.checked_mul(1000) {
        Some(nanos) => Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(
            parts.months,
            parts.days,
            nanos,
        )))),
        None => exec_err!("an interval of {} exceeds 292 years of hours", parts.text()),
    }
}

fn argument(args: &[ScalarValue], at: usize) -> Result<IntervalParts> {
    match args.get(at).and_then(parts_of) {
        Some(parts) => Ok(parts),
        None => exec_err!(
            "this is no interval: {}",
            args.get(at).map_or_else(String::new, ToString::to_string)
        ),
    }
}

fn length(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    Ok(ScalarValue::Decimal128(Some(argument(args, 0)?.length()), 38, 0))
}

fn text(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    Ok(ScalarValue::Utf8(Some(argument(args, 0)?.text())))
}

fn of(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    interval_value(argument(args, 0)?)
}

fn justified(
    args: &[ScalarValue],
    justify: fn(IntervalParts) -> IntervalParts,
) -> Result<ScalarValue> {
    interval_value(justify(argument(args, 0)?))
}

fn greatest(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let all = args.iter().filter_map(parts_of);
    all.max_by_key(|parts| parts.length())
        .map_or(Ok(ScalarValue::IntervalMonthDayNano(None)), interval_value)
}

fn least(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let all = args.iter().filter_map(parts_of);
    all.min_by_key(|parts| parts.length())
        .map_or(Ok(ScalarValue::IntervalMonthDayNano(None)), interval_value)
}

fn times(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let Some(factor) = args.get(1).and_then(float_of).filter(|factor| factor.is_finite()) else {
        return exec_err!("an interval cannot be multiplied by this or divided by zero");
    };
    interval_value(argument(args, 0)?.times(factor))
}

fn field(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let name = args.first().and_then(text_of).unwrap_or_default();
    let parts = argument(args, 1)?;
    match parts.field(&name) {
        Some(value) => Ok(ScalarValue::Float64(Some(value))),
        None => exec_err!("an interval has no field `{name}`"),
    }
}

fn trunc(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let unit = args.first().and_then(text_of).unwrap_or_default();
    match argument(args, 1)?.trunc(&unit) {
        Some(parts) => interval_value(parts),
        None => exec_err!("an interval cannot be cut to `{unit}`"),
    }
}

fn make(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let whole: Vec<i64> = args.iter().filter_map(integer_of).collect();
    let seconds = args.get(6).and_then(float_of);
    let ([years, months, weeks, days, hours, minutes, ..], Some(seconds)) =
        (whole.as_slice(), seconds)
    else {
        return exec_err!("make_interval takes numbers");
    };
    let (Ok(months), Ok(days)) =
        (i32::try_from(years * 12 + months), i32::try_from(weeks * 7 + days))
    else {
        return exec_err!("an interval exceeds its limits");
    };
    let clock = IntervalParts { micros: 1_000_000, ..Default::default() }.times(seconds).micros;
    interval_value(IntervalParts {
        months,
        days,
        micros: (hours * 60 + minutes) * 60_000_000 + clock,
    })
}

fn age_between(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let times = (args.first().and_then(micros_of), args.get(1).and_then(micros_of));
    let (Some(later), Some(earlier)) = times else { return exec_err!("age takes two times") };
    match age([later, earlier]) {
        Some(parts) => interval_value(parts),
        None => exec_err!("age: a time is beyond the years that exist"),
    }
}

/// Type of timestamps that are instants.
pub(crate) fn instant_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
}

/// Type of timestamps on a wall clock.
pub(crate) const WALL_TIME: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
