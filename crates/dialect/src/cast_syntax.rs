//! Casts to types with a length, and texts of times and intervals that the engine does not read.

use sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, CharacterLength, DataType, ExactNumberInfo, Expr,
    Interval, UnaryOperator, Value,
};
use sqlparser::parser::Parser;

use crate::fragments::{call, literal, nested, number, text};
use crate::operator_syntax::cast;
use crate::postgres_syntax::PostgresSyntax;
use crate::refusal::{Result, refuse};
use crate::time_literal::{full_interval, full_timestamp};
use crate::{constant_syntax, interval_syntax, json_syntax};

/// Rewrites a cast, a typed constant or an interval.
pub(crate) fn rewrite(expr: &mut Expr) -> Result<()> {
    if let Expr::Cast { data_type, .. } = expr {
        unquote(data_type);
    }
    if let Some(new) = json_syntax::rewrite_cast(expr) {
        *expr = new;
        return Ok(());
    }
    match expr {
        Expr::Cast { expr: value, data_type: DataType::Date, .. } if named_day(value).is_some() => {
            named_day(value).into_iter().for_each(|new| *expr = new);
        }
        Expr::Cast { expr: value, data_type: DataType::Array(_), .. } => {
            if let Some(constant) = literal(value) {
                **value = array_of(constant)?;
            }
        }
        Expr::Cast {
            expr: value, data_type: DataType::Numeric(_) | DataType::Decimal(_), ..
        } if exact_digits(value).is_some() => {
            exact_digits(value).into_iter().for_each(|digits| **value = text(&digits));
        }
        Expr::Cast { data_type: DataType::Bytea, .. } => *expr = bytes(expr)?,
        Expr::Cast { data_type: DataType::Timestamp(Some(_), _), .. } => round_time(expr),
        // `extract` is a `numeric` in PostgreSQL, whose halves are rounded away from zero.
        Expr::Cast { expr: field, data_type, .. } if is_integer(data_type) && is_field(field) => {
            let whole = DataType::Numeric(ExactNumberInfo::PrecisionAndScale(20, 0));
            **field = cast(field, whole);
        }
        Expr::Cast { expr: bits, data_type, .. } if is_integer(data_type) => {
            if let Some(masked) = low_bits(bits) {
                **bits = masked;
            }
        }
        Expr::Cast { expr: value, data_type: DataType::Text, .. }
            if constant_syntax::text_of_number(value).is_some() =>
        {
            constant_syntax::text_of_number(value).into_iter().for_each(|new| **value = new);
        }
        Expr::Cast { expr: value, data_type, .. } => {
            if matches!(data_type, DataType::CharacterVarying(None) | DataType::CharVarying(None)) {
                *data_type = DataType::Varchar(None);
            }
            rewrite_text(value, data_type);
            if let Some(length) = length(data_type)? {
                *data_type = DataType::Varchar(None);
                let length = number(i64::try_from(length).unwrap_or(i64::MAX));
                *expr = call("left", vec![expr.clone(), length]);
            }
        }
        Expr::TypedString(constant) => {
            if let Value::SingleQuotedString(value) = &mut constant.value.value {
                let new = match constant.data_type {
                    DataType::Timestamp(..) | DataType::Datetime(_) => full_timestamp(value),
                    DataType::Interval { .. } => full_interval(value),
                    _ => None,
                };
                new.into_iter().for_each(|new| *value = new);
            }
        }
        Expr::Interval(interval) => interval_syntax::rewrite(interval)?,
        _ => {}
    }
    Ok(())
}

fn is_field(expr: &Expr) -> bool {
    match expr {
        Expr::Extract { .. } => true,
        Expr::Nested(inner) => is_field(inner),
        _ => false,
    }
}

/// A cast to a time of fewer places of seconds rounds.
fn round_time(expr: &mut Expr) {
    let Expr::Cast { expr: value, data_type, .. } = expr else { return };
    rewrite_text(value, data_type);
    let DataType::Timestamp(places, _) = data_type else { return };
    if let Some(half) = places.take().and_then(half_of_place) {
        *expr = rounded(expr, half);
    }
}

/// Half of the last place of seconds, in microseconds; `None` if all are kept.
fn half_of_place(places: u64) -> Option<u64> {
    let places = u32::try_from(places).unwrap_or(u32::MAX);
    (places < 6).then(|| 10_u64.pow(6 - places) / 2)
}

/// A time rounded to twice the given microseconds.
fn rounded(time: &Expr, half: u64) -> Expr {
    let span = |count: u64| {
        let value = Box::new(text(&format!("{count} microseconds")));
        Expr::Interval(Interval {
            value,
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        })
    };
    let (left, right) = (Box::new(time.clone()), Box::new(span(half)));
    let later = Expr::BinaryOp { left, op: BinaryOperator::Plus, right };
    call("date_bin", vec![span(2 * half), later])
}

fn rewrite_text(value: &mut Expr, kind: &DataType) {
    let new = match kind {
        DataType::Timestamp(..) | DataType::Datetime(_) => literal(value).and_then(full_timestamp),
        DataType::Interval { .. } => literal(value).and_then(full_interval),
        _ => None,
    };
    new.into_iter().for_each(|new| *value = text(&new));
}

/// `'today'`, `'yesterday'` and `'tomorrow'` as a date.
fn named_day(value: &Expr) -> Option<Expr> {
    let days = match literal(value)?.trim().to_lowercase().as_str() {
        "today" => 0,
        "yesterday" => -1,
        "tomorrow" => 1,
        _ => return None,
    };
    let today = Box::new(call("current_date", Vec::new()));
    let days = Box::new(number(days));
    Some(nested(Expr::BinaryOp { left: today, op: BinaryOperator::Plus, right: days }))
}

/// The array of a constant such as `{1,NULL,3}`.
fn array_of(constant: &str) -> Result<Expr> {
    let inner = constant.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let Some(inner) = inner.filter(|inner| !inner.contains(['"', '\\', '{'])) else {
        return refuse!("cannot read the array `{constant}`: write it as `array[…]`");
    };
    let items = inner.split(',').map(str::trim).filter(|_| !inner.trim().is_empty());
    let elem = items.map(|item| {
        if item.eq_ignore_ascii_case("null") { Expr::Value(Value::Null.into()) } else { text(item) }
    });
    Ok(Expr::Array(Array { elem: elem.collect(), named: true }))
}

/// Replaces `"int4"` by the type, as clients quote names of types; `"char"` is another one than `char`.
fn unquote(kind: &mut DataType) {
    match kind {
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => unquote(item),
        DataType::Custom(name, arguments) if arguments.is_empty() => {
            let [part] = name.0.as_slice() else { return };
            let Some(ident) = part.as_ident() else { return };
            if ident.quote_style.is_none() || ident.value == "char" {
                return;
            }
            let parsed = Parser::new(&PostgresSyntax)
                .try_with_sql(&ident.value)
                .and_then(|mut parser| parser.parse_data_type());
            parsed.into_iter().for_each(|parsed| *kind = parsed);
        }
        _ => {}
    }
}

/// The text of a number constant, which as a float would lose digits.
fn exact_digits(value: &Expr) -> Option<String> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) if !digits.contains(['e', 'E']) => Some(digits.clone()),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => exact_digits(expr)
            .filter(|digits| !digits.starts_with('-'))
            .map(|digits| format!("-{digits}")),
        Expr::Nested(inner) => exact_digits(inner),
        _ => None,
    }
}

fn is_integer(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Int(None)
            | DataType::Int4(None)
            | DataType::Integer(None)
            | DataType::BigInt(None)
            | DataType::Int8(None)
    )
}

/// The number `x::bit(8)` without bit strings, which the engine lacks: its lowest eight bits.
fn low_bits(bits: &Expr) -> Option<Expr> {
    let (value, length) = match bits {
        Expr::Nested(inner) => return low_bits(inner),
        Expr::Cast { expr, data_type: DataType::Bit(Some(length)), .. } => (expr, length),
        _ => return None,
    };
    // The next bit is the sign of an int4.
    let mask = (1..=31).contains(length).then(|| number((1 << length) - 1))?;
    let (left, op) = (value.clone(), BinaryOperator::BitwiseAnd);
    Some(nested(Expr::BinaryOp { left, op, right: Box::new(mask) }))
}

/// Bytes of a text: pairs of hexadecimal digits behind `\x`, or plain characters.
fn bytes(expr: &Expr) -> Result<Expr> {
    let Expr::Cast { expr: value, .. } = expr else { return Ok(expr.clone()) };
    match literal(value) {
        Some(constant) => match constant.strip_prefix("\\x") {
            Some(digits) => Ok(call("decode", vec![text(digits), text("hex")])),
            None if constant.contains('\\') => {
                refuse!("escapes in a constant of `bytea` are not supported: use `\\x…`")
            }
            None => Ok(expr.clone()),
        },
        None => Ok(expr.clone()),
    }
}

/// Length to which a cast cuts its text.
fn length(kind: &DataType) -> Result<Option<u64>> {
    match kind {
        DataType::Varchar(Some(length))
        | DataType::CharacterVarying(Some(length))
        | DataType::CharVarying(Some(length)) => Ok(match length {
            CharacterLength::IntegerLength { length, .. } => Some(*length),
            CharacterLength::Max => None,
        }),
        DataType::Char(_) | DataType::Character(_) => {
            refuse!("`{kind}` is not supported: its values are padded; use `varchar` or `text`")
        }
        _ => Ok(None),
    }
}
