//! Functions of times: zones, patterns, fields.

use arrow_schema::{DataType, TimeUnit};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::ScalarUDF;
use datafusion::scalar::ScalarValue;
use weir_dialect::{
    NumberKind, ZoneRule, interval_text, number_text, read_time, time_field, time_text,
    trunc_instant, trunc_wall, wall_time_of,
};

use crate::interval_functions::{WALL_TIME, instant_type, parts_of};
use crate::row_function::{RowFunction, float_of, functions, integer_of, text_of, text_type};

/// All functions.
pub(crate) fn all() -> Vec<ScalarUDF> {
    functions(vec![
        RowFunction::new("timezone", 2..=2, other_clock, in_zone),
        RowFunction::new("local_time", 1..=1, |_| Ok(WALL_TIME), local_time),
        RowFunction::new("time_to_char", 2..=2, text_type, to_char),
        RowFunction::new("value_to_char", 2..=2, text_type, to_char),
        RowFunction::new("read_timestamp", 2..=2, |_| Ok(instant_type()), read_timestamp),
        RowFunction::new("read_date", 2..=2, |_| Ok(DataType::Date32), read_date),
        RowFunction::new("clock_field", 2..=2, |_| Ok(DataType::Float64), clock_field),
        RowFunction::new("make_timestamp", 6..=6, |_| Ok(WALL_TIME), make_timestamp),
        RowFunction::new("make_timestamptz", 6..=7, |_| Ok(instant_type()), make_timestamptz),
        RowFunction::new("trunc_in_zone", 3..=3, |_| Ok(instant_type()), trunc_in_zone),
        RowFunction::new("trunc_in_session", 2..=2, |_| Ok(instant_type()), trunc_in_session),
        RowFunction::new("trunc_by_calendar", 2..=2, cut_type, trunc_by_calendar),
        RowFunction::new("constant_to_char", 2..=2, text_type, constant_to_char),
        RowFunction::new(
            "isfinite",
            1..=1,
            |_| Ok(DataType::Boolean),
            |_, _| Ok(Some(true).into()),
        ),
    ])
}

/// Whether times of this type are instants.
pub(crate) fn is_instant(kind: &DataType) -> bool {
    matches!(kind, DataType::Timestamp(_, Some(_)))
}

/// Wall times for instants and texts, instants for wall times.
fn other_clock(types: &[DataType]) -> Result<DataType> {
    match types.get(1) {
        Some(DataType::Timestamp(_, None)) => Ok(instant_type()),
        Some(
            DataType::Timestamp(_, Some(_)) | DataType::Date32 | DataType::Date64 | DataType::Null,
        ) => Ok(WALL_TIME),
        Some(DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => Ok(WALL_TIME),
        _ => plan_err!("`at time zone` takes a time"),
    }
}

/// Microseconds of a time, on its own clock; `None` for NULL and for what is no time.
pub(crate) fn micros_of(value: &ScalarValue) -> Option<i64> {
    let zone = match value.data_type() {
        DataType::Timestamp(_, zone) => zone,
        DataType::Date32 | DataType::Date64 => None,
        DataType::Time32(_) | DataType::Time64(_) => {
            return match value.cast_to(&DataType::Time64(TimeUnit::Microsecond)) {
                Ok(ScalarValue::Time64Microsecond(micros)) => micros,
                _ => None,
            };
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some("+00:00".into()),
        _ => return None,
    };
    match value.cast_to(&DataType::Timestamp(TimeUnit::Microsecond, zone)) {
        Ok(ScalarValue::TimestampMicrosecond(micros, _)) => micros,
        _ => None,
    }
}

/// Zone of the session.
pub(crate) fn session_zone(options: &ConfigOptions) -> Result<ZoneRule> {
    let name = options.execution.time_zone.as_deref().unwrap_or("UTC");
    // The engine's offsets are east of Greenwich, those in names of zones west.
    let swapped: String = name
        .chars()
        .map(|next| match next {
            '+' => '-',
            '-' => '+',
            other => other,
        })
        .collect();
    let name = if name.starts_with(['+', '-']) { swapped.as_str() } else { name };
    zone_rule(name)
}

fn zone_rule(name: &str) -> Result<ZoneRule> {
    match ZoneRule::parse(name) {
        Some(zone) => Ok(zone),
        None => exec_err!("there is no time zone `{name}`"),
    }
}

/// Zone of a name or of an interval from Greenwich.
fn zone_of(value: &ScalarValue) -> Result<ZoneRule> {
    if let Some(name) = value.try_as_str().flatten() {
        return zone_rule(name);
    }
    let seconds = parts_of(value).and_then(|parts| i32::try_from(parts.length() / 1_000_000).ok());
    match seconds.and_then(ZoneRule::at_offset) {
        Some(zone) => Ok(zone),
        None => exec_err!("{value} is no time zone"),
    }
}

fn in_range(micros: Option<i64>) -> Result<i64> {
    match micros {
        Some(micros) => Ok(micros),
        None => exec_err!("a time is beyond the years that exist"),
    }
}

fn time(value: &ScalarValue) -> Result<i64> {
    match micros_of(value) {
        Some(micros) => Ok(micros),
        None => exec_err!("this is no time: {value}"),
    }
}

fn wall(micros: i64) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(Some(micros), None)
}

fn instant(micros: i64) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(Some(micros), Some("+00:00".into()))
}

fn in_zone(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    let [zone, value] = args else { return exec_err!("timezone takes a zone and a time") };
    let (zone, micros) = (zone_of(zone)?, time(value)?);
    Ok(match value.data_type() {
        DataType::Timestamp(_, None) => instant(in_range(zone.instant(micros))?),
        // A date is midnight of the session's zone.
        DataType::Date32 | DataType::Date64 => {
            let micros = in_range(session_zone(options)?.instant(micros))?;
            wall(in_range(zone.wall_time(micros))?)
        }
        _ => wall(in_range(zone.wall_time(micros))?),
    })
}

fn local_time(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    let micros = args.first().map_or_else(|| exec_err!("local_time takes a time"), time)?;
    Ok(wall(in_range(session_zone(options)?.wall_time(micros))?))
}

fn number_to_char(value: &ScalarValue, kind: NumberKind, pattern: &str) -> Result<ScalarValue> {
    match float_of(value).and_then(|number| number_text(number, kind, pattern)) {
        Some(text) => Ok(ScalarValue::Utf8(Some(text))),
        None => exec_err!("to_char: {value} has no text by the pattern `{pattern}`"),
    }
}

/// A constant with a point is a `numeric`.
fn constant_to_char(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let [value, pattern] = args else { return exec_err!("to_char takes a value and a pattern") };
    number_to_char(value, NumberKind::Decimal, &text_of(pattern).unwrap_or_default())
}

fn unit_and_time(args: &[ScalarValue]) -> Result<(String, i64)> {
    match (args.first().and_then(text_of), args.get(1).and_then(micros_of)) {
        (Some(unit), Some(micros)) => Ok((unit, micros)),
        _ => exec_err!("date_trunc takes a unit and a time"),
    }
}

fn cut(micros: Option<i64>, unit: &str) -> Result<i64> {
    match micros {
        Some(micros) => Ok(micros),
        None => exec_err!("date_trunc has no unit `{unit}` for this time"),
    }
}

fn trunc_in_zone(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    let (unit, micros) = unit_and_time(args)?;
    let zone = args.get(2).map_or_else(|| session_zone(options), zone_of)?;
    let is_wall = args.get(1).is_some_and(|time| !is_instant(&time.data_type()));
    let micros = if is_wall { in_range(session_zone(options)?.instant(micros))? } else { micros };
    Ok(instant(cut(trunc_instant(micros, &zone, &unit), &unit)?))
}

fn trunc_in_session(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    let (unit, micros) = unit_and_time(args)?;
    Ok(instant(cut(trunc_instant(micros, &session_zone(options)?, &unit), &unit)?))
}

/// Instants for instants, else wall times.
fn cut_type(types: &[DataType]) -> Result<DataType> {
    Ok(if types.get(1).is_some_and(is_instant) { instant_type() } else { WALL_TIME })
}

fn trunc_by_calendar(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    if args.get(1).is_some_and(|time| is_instant(&time.data_type())) {
        return trunc_in_session(args, options);
    }
    let (unit, micros) = unit_and_time(args)?;
    Ok(wall(cut(trunc_wall(micros, &unit), &unit)?))
}

fn to_char(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    let [value, pattern] = args else { return exec_err!("to_char takes a value and a pattern") };
    let pattern = text_of(pattern).unwrap_or_default();
    if value.data_type().is_numeric() {
        let is_float = value.data_type().is_floating();
        let kind = if is_float { NumberKind::Float } else { NumberKind::Decimal };
        return number_to_char(value, kind, &pattern);
    }
    if pattern.is_empty() {
        return Ok(ScalarValue::Utf8(None));
    }
    let text = match parts_of(value).filter(|_| !matches!(value, ScalarValue::Utf8(_))) {
        Some(parts) => interval_text(parts, &pattern),
        None => {
            let micros = time(value)?;
            let zone = is_instant(&value.data_type()).then(|| session_zone(options)).transpose()?;
            let wall = match &zone {
                Some(zone) => in_range(zone.wall_time(micros))?,
                None => micros,
            };
            time_text(wall, zone.as_ref(), &pattern)
        }
    };
    match text {
        Some(text) => Ok(ScalarValue::Utf8(Some(text))),
        None => exec_err!("{value} has no text by the pattern `{pattern}`"),
    }
}

fn read(args: &[ScalarValue]) -> Result<weir_dialect::TimeReading> {
    let texts: Vec<String> = args.iter().filter_map(text_of).collect();
    let [text, pattern] = texts.as_slice() else {
        return exec_err!("this takes a text and a pattern");
    };
    match read_time(text, pattern) {
        Ok(reading) => Ok(reading),
        Err(why) => exec_err!("cannot read `{text}` by the pattern `{pattern}`: {why}"),
    }
}

fn read_timestamp(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    let reading = read(args)?;
    let zone = match reading.offset {
        Some(offset) => ZoneRule::at_offset(offset),
        None => Some(session_zone(options)?),
    };
    Ok(instant(in_range(zone.and_then(|zone| zone.instant(reading.wall)))?))
}

fn read_date(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    wall(read(args)?.wall).cast_to(&DataType::Date32)
}

fn clock_field(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    let [field, value] = args else { return exec_err!("extract takes a field and a time") };
    let field = text_of(field).unwrap_or_default();
    let micros = time(value)?;
    let zone = is_instant(&value.data_type()).then(|| session_zone(options)).transpose()?;
    match time_field(micros, zone.as_ref(), &field) {
        Some(value) => Ok(ScalarValue::Float64(Some(value))),
        None => exec_err!("a time has no field `{field}`"),
    }
}

fn wall_of(args: &[ScalarValue]) -> Result<i64> {
    let whole: Option<Vec<i64>> = args.iter().take(5).map(integer_of).collect();
    let seconds = args.get(5).and_then(float_of);
    let micros = match (whole.as_deref(), seconds) {
        (Some([year, month, day, hour, minute]), Some(seconds)) => {
            wall_time_of([*year, *month, *day, *hour, *minute], seconds)
        }
        _ => None,
    };
    match micros {
        Some(micros) => Ok(micros),
        None => exec_err!("there is no such time"),
    }
}

fn make_timestamp(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    Ok(wall(wall_of(args)?))
}

fn make_timestamptz(args: &[ScalarValue], options: &ConfigOptions) -> Result<ScalarValue> {
    let zone = args.get(6).map_or_else(|| session_zone(options), zone_of)?;
    Ok(instant(in_range(zone.instant(wall_of(args)?))?))
}
