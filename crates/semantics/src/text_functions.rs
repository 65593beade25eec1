//! Functions of texts and numbers that the engine lacks.

use std::cell::RefCell;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array};
use arrow_schema::{DataType, Field};
use datafusion::common::{Result, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use datafusion::scalar::ScalarValue;
use regex::Regex;
use weir_dialect::{
    DecimalRounding, format_text, like_escape, md5_text, quote_identifier, quote_literal,
    rust_regex, similar_regex, to_decimal_places,
};

use crate::bytes_functions::bytes_of;
use crate::row_function::{RowFunction, float_of, functions, integer_of, text_of, text_type};

/// All functions.
pub(crate) fn all() -> Vec<ScalarUDF> {
    let mut all = functions(of_texts());
    all.extend(functions(of_patterns()));
    all.extend(functions(of_numbers()));
    all.push(round_half_even());
    all
}

/// Functions with texts and patterns.
fn of_texts() -> Vec<RowFunction> {
    vec![
        RowFunction::new("md5", 1..=1, text_type, md5),
        RowFunction {
            name: "format",
            arity: 1..=64,
            result: text_type,
            run: format,
            takes_null: true,
        },
        RowFunction::new("quote_ident", 1..=1, text_type, identifier),
        RowFunction::new("quote_literal", 1..=1, text_type, quoted),
        RowFunction {
            name: "quote_nullable",
            arity: 1..=1,
            result: text_type,
            run: quoted,
            takes_null: true,
        },
        RowFunction {
            name: "pg_typeof",
            arity: 1..=1,
            result: text_type,
            run: type_name,
            takes_null: true,
        },
        RowFunction::new("similar_to_escape", 2..=2, text_type, similar),
        RowFunction::new("like_escape", 2..=2, text_type, like),
        RowFunction::new("chr", 1..=1, text_type, chr),
        RowFunction::new("to_hex", 1..=1, text_type, to_hex),
    ]
}

/// Functions whose result is an array of parts of a text.
fn of_patterns() -> Vec<RowFunction> {
    vec![
        RowFunction::new(
            "regexp_all_matches",
            2..=3,
            |_| Ok(list_of(list_of(DataType::Utf8))),
            matches,
        ),
        RowFunction::new("regexp_split_to_array", 2..=2, texts_type, split),
    ]
}

/// Functions with numbers.
fn of_numbers() -> Vec<RowFunction> {
    vec![
        RowFunction::new("width_bucket", 4..=4, integer_type, bucket),
        RowFunction::new("round_to_places", 2..=2, float_type, |args, _| {
            places(args, DecimalRounding::Nearest)
        }),
        RowFunction::new("cut_to_places", 2..=2, float_type, |args, _| {
            places(args, DecimalRounding::Cut)
        }),
        RowFunction::new("div", 2..=2, long_type, quotient),
        RowFunction {
            name: "num_nulls",
            arity: 1..=64,
            result: long_type,
            run: nulls,
            takes_null: true,
        },
        RowFunction {
            name: "num_nonnulls",
            arity: 1..=64,
            result: long_type,
            run: non_nulls,
            takes_null: true,
        },
    ]
}

fn integer_type(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::Int32)
}

fn long_type(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::Int64)
}

fn float_type(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::Float64)
}

fn places(args: &[ScalarValue], rounding: DecimalRounding) -> Result<ScalarValue> {
    let places = args.get(1).and_then(integer_of).and_then(|places| i32::try_from(places).ok());
    match (args.first().and_then(float_of), places) {
        (Some(value), Some(places)) => {
            Ok(ScalarValue::Float64(Some(to_decimal_places(value, places, rounding))))
        }
        _ => exec_err!("this rounds a number to a number of places"),
    }
}

fn chr(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let code = args.first().and_then(integer_of).and_then(|code| u32::try_from(code).ok());
    match code.filter(|code| *code > 0).and_then(char::from_u32) {
        Some(character) => Ok(utf8(character.to_string())),
        None => exec_err!("chr: there is no character with this code"),
    }
}

/// Negative numbers as the bits of their type.
fn to_hex(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    match args.first() {
        Some(ScalarValue::Int32(Some(number))) => Ok(utf8(format!("{number:x}"))),
        Some(other) => match (other, integer_of(other)) {
            (ScalarValue::UInt64(Some(number)), _) => Ok(utf8(format!("{number:x}"))),
            (_, Some(number)) if other.data_type().is_integer() => Ok(utf8(format!("{number:x}"))),
            _ => exec_err!("to_hex takes an integer"),
        },
        None => exec_err!("to_hex takes an integer"),
    }
}

fn texts_type(_: &[DataType]) -> Result<DataType> {
    Ok(list_of(DataType::Utf8))
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// Rounds floats as PostgreSQL does: a half to the even neighbour.
fn round_half_even() -> ScalarUDF {
    let run = |args: &[ColumnarValue]| {
        let [value] = args else { return exec_err!("this rounds one value") };
        let array = value.to_array(1)?;
        let rounded: Float64Array = array.as_primitive::<Float64Type>().unary(f64::round_ties_even);
        let rounded: ArrayRef = Arc::new(rounded);
        Ok(match value {
            ColumnarValue::Scalar(_) => ScalarValue::try_from_array(&rounded, 0)?.into(),
            ColumnarValue::Array(_) => ColumnarValue::Array(rounded),
        })
    };
    let types = vec![DataType::Float64];
    create_udf("round_half_even", types, DataType::Float64, Volatility::Immutable, Arc::new(run))
}

fn utf8(text: String) -> ScalarValue {
    ScalarValue::Utf8(Some(text))
}

fn first_text(args: &[ScalarValue]) -> Option<String> {
    args.first().and_then(text_of)
}

fn md5(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let Some(value) = args.first() else { return exec_err!("md5 takes a text or bytes") };
    Ok(utf8(match bytes_of(value) {
        Some(bytes) => md5_text(bytes),
        None => md5_text(text_of(value).unwrap_or_default().as_bytes()),
    }))
}

fn identifier(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    Ok(utf8(quote_identifier(&first_text(args).unwrap_or_default())))
}

fn quoted(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    Ok(utf8(first_text(args).map_or_else(|| "NULL".into(), |text| quote_literal(&text))))
}

fn format(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let Some((template, rest)) = args.split_first() else {
        return exec_err!("format takes a template");
    };
    let Some(template) = text_of(template) else { return Ok(ScalarValue::Utf8(None)) };
    let rest: Vec<Option<String>> = rest.iter().map(text_of).collect();
    match format_text(&template, &rest) {
        Ok(text) => Ok(utf8(text)),
        Err(why) => exec_err!("{why}"),
    }
}

fn similar(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let pattern = first_text(args).unwrap_or_default();
    let escape = args.get(1).and_then(text_of).and_then(|escape| escape.chars().next());
    match similar_regex(&pattern, escape) {
        Ok(regex) => Ok(utf8(regex)),
        Err(why) => exec_err!("cannot use the pattern `{pattern}`: {why}"),
    }
}

fn like(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let pattern = first_text(args).unwrap_or_default();
    let escape = args.get(1).and_then(text_of).and_then(|escape| escape.chars().next());
    match like_escape(&pattern, escape) {
        Some(pattern) => Ok(utf8(pattern)),
        None => exec_err!("the pattern `{pattern}` ends with its escape character"),
    }
}

thread_local! {
    /// Pattern and regular expression of the last row: nearly always that of the next.
    static LAST_REGEX: RefCell<Option<(String, Regex)>> = const { RefCell::new(None) };
}

fn compiled(pattern: &str) -> Result<Regex> {
    let known = LAST_REGEX.with_borrow(|last| {
        last.as_ref().filter(|(text, _)| text == pattern).map(|(_, regex)| regex.clone())
    });
    if let Some(regex) = known {
        return Ok(regex);
    }
    let translated = match rust_regex(pattern) {
        Ok(translated) => translated,
        Err(why) => return exec_err!("cannot use the pattern `{pattern}`: {why}"),
    };
    match Regex::new(&translated) {
        Ok(regex) => {
            LAST_REGEX.set(Some((pattern.to_owned(), regex.clone())));
            Ok(regex)
        }
        Err(error) => exec_err!("cannot use the pattern `{pattern}`: {error}"),
    }
}

/// Groups of the first match, or with the flag `g` of all; the whole match where there are no groups.
fn matches(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let texts: Vec<String> = args.iter().filter_map(text_of).collect();
    let (text, pattern, flags) = match texts.as_slice() {
        [text, pattern] => (text, pattern, ""),
        [text, pattern, flags] => (text, pattern, flags.as_str()),
        _ => return exec_err!("regexp_matches takes a text, a pattern and flags"),
    };
    if let Some(flag) = flags.chars().find(|flag| !"gi".contains(*flag)) {
        return exec_err!("regexp_matches: the flag `{flag}` is not supported, only `g` and `i`");
    }
    let in_any_case = format!("(?i){pattern}");
    let regex = compiled(if flags.contains('i') { &in_any_case } else { pattern })?;
    let first_group = usize::from(regex.captures_len() > 1);
    let count = if flags.contains('g') { usize::MAX } else { 1 };
    let rows = regex.captures_iter(text).take(count).map(|found| {
        let groups = found
            .iter()
            .skip(first_group)
            .map(|group| ScalarValue::Utf8(group.map(|group| group.as_str().to_owned())));
        let groups: Vec<_> = groups.collect();
        ScalarValue::List(ScalarValue::new_list(&groups, &DataType::Utf8, true))
    });
    let rows: Vec<_> = rows.collect();
    Ok(ScalarValue::List(ScalarValue::new_list(&rows, &list_of(DataType::Utf8), true)))
}

/// Parts between the matches; a match without characters splits only between two characters.
fn split(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let texts: Vec<String> = args.iter().filter_map(text_of).collect();
    let [text, pattern] = texts.as_slice() else {
        return exec_err!("this takes a text and a pattern");
    };
    let (mut parts, mut from) = (Vec::new(), 0);
    for found in compiled(pattern)?.find_iter(text) {
        if found.is_empty() && (found.start() == from || found.end() == text.len()) {
            continue;
        }
        parts.push(ScalarValue::from(&text[from..found.start()]));
        from = found.end();
    }
    parts.push(ScalarValue::from(&text[from..]));
    Ok(ScalarValue::List(ScalarValue::new_list(&parts, &DataType::Utf8, true)))
}

#[expect(clippy::cast_possible_truncation, reason = "between 0 and the number of buckets")]
fn bucket(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let numbers: Vec<f64> = args.iter().filter_map(float_of).collect();
    let [value, low, high, count] = numbers.as_slice() else {
        return exec_err!("width_bucket takes four numbers");
    };
    if *count < 1.0 || low == high || !low.is_finite() || !high.is_finite() || value.is_nan() {
        return exec_err!("width_bucket takes two different finite bounds and at least one bucket");
    }
    let share = (value - low) / (high - low);
    let bucket = if share < 0.0 {
        0.0
    } else if share >= 1.0 {
        count + 1.0
    } else {
        (share * count).floor() + 1.0
    };
    Ok(ScalarValue::Int32(Some(bucket as i32)))
}

/// The whole part of a quotient, of exact decimals.
fn quotient(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let exact = DataType::Decimal128(38, 10);
    let mut numbers = Vec::new();
    for arg in args {
        match arg.cast_to(&exact)? {
            ScalarValue::Decimal128(Some(number), ..) => numbers.push(number),
            _ => return exec_err!("div takes two numbers"),
        }
    }
    match numbers.as_slice() {
        [_, 0] => exec_err!("division by zero"),
        [value, by] => match i64::try_from(value / by) {
            Ok(quotient) => Ok(ScalarValue::Int64(Some(quotient))),
            Err(_) => exec_err!("div: the quotient is no bigint"),
        },
        _ => exec_err!("div takes two numbers"),
    }
}

fn count_of(count: usize) -> ScalarValue {
    ScalarValue::Int64(i64::try_from(count).ok())
}

fn nulls(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    Ok(count_of(args.iter().filter(|arg| arg.is_null()).count()))
}

fn non_nulls(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    Ok(count_of(args.iter().filter(|arg| !arg.is_null()).count()))
}

fn type_name(args: &[ScalarValue], _: &ConfigOptions) -> Result<ScalarValue> {
    let kind = args.first().map_or(DataType::Null, ScalarValue::data_type);
    Ok(utf8(name_of_type(&kind)))
}

/// PostgreSQL's name of a type.
fn name_of_type(kind: &DataType) -> String {
    match kind {
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint",
        DataType::Int32 | DataType::UInt16 => "integer",
        DataType::Int64 | DataType::UInt32 => "bigint",
        DataType::UInt64 | DataType::Decimal128(..) | DataType::Decimal256(..) => "numeric",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            "text"
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time without time zone",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::List(item) | DataType::LargeList(item) => {
            return format!("{}[]", name_of_type(item.data_type()));
        }
        DataType::Null => "unknown",
        _ => "record",
    }
    .to_owned()
}
