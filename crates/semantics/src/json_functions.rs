//! Functions of `json`, `jsonb` and `uuid`, whose values are texts here.
//!
//! The type of a value is in the metadata of its column, from which clients get its OID and
//! comparisons their meaning. A `jsonb` has PostgreSQL's form (see `parse_json`), and so have its parts.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion::common::{DFSchema, Result, exec_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF};
use datafusion::scalar::ScalarValue;
use weir_dialect::{JsonValue, parse_json, uuid_text};

use crate::array_functions::elements;
use crate::row_function::{RowFunction, functions, integer_of, text_of, text_type};

/// Key of a column's metadata with the name of its type.
pub const CLIENT_TYPE: &str = "pg_type";

/// A type that is a text here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectType {
    Json,
    Jsonb,
    Uuid,
}

impl ObjectType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Jsonb => "jsonb",
            Self::Uuid => "uuid",
        }
    }

    /// Type in the metadata of a field.
    pub(crate) fn of_field(field: &Field) -> Option<Self> {
        let name = field.metadata().get(CLIENT_TYPE)?;
        [Self::Json, Self::Jsonb, Self::Uuid].into_iter().find(|kind| kind.name() == name)
    }

    /// Type of an expression; `None` for other types.
    pub(crate) fn of(expr: &Expr, schema: &DFSchema) -> Option<Self> {
        // No operator gives such a type, and fields of a chain cost the cube of its length.
        if matches!(expr, Expr::BinaryExpr(_)) {
            return None;
        }
        let (_, field) = expr.to_field(schema).ok()?;
        Self::of_field(&field)
    }

    /// Type of a function's result from those of its arguments.
    pub(crate) fn of_result(function: &str, args: &[Option<Self>]) -> Option<Self> {
        match function {
            "jsonb_in" => Some(Self::Jsonb),
            "json_in" => Some(Self::Json),
            "uuid_in" => Some(Self::Uuid),
            "json_get" | "json_path" => args.first().copied().flatten(),
            _ => None,
        }
    }
}

/// All functions.
pub(crate) fn all() -> Vec<ScalarUDF> {
    let one = 1..=1;
    let two = 2..=2;
    functions(vec![
        function("json_in", one.clone(), text_type, |args, _| json_in(args)),
        function("jsonb_in", one.clone(), text_type, |args, _| jsonb_in(args)),
        function("uuid_in", one.clone(), text_type, |args, _| uuid_in(args)),
        function("jsonb_key", one.clone(), text_type, |args, _| jsonb_key(args)),
        function("plain_text", one.clone(), text_type, |args, _| {
            Ok(ScalarValue::Utf8(args.first().and_then(text_of)))
        }),
        function("json_get", two.clone(), text_type, |args, _| part(args, JsonPart::Value)),
        function("json_get_text", two.clone(), text_type, |args, _| part(args, JsonPart::Text)),
        function("json_path", two.clone(), text_type, |args, _| at_path(args, JsonPart::Value)),
        function("json_path_text", two.clone(), text_type, |args, _| at_path(args, JsonPart::Text)),
        function("json_has", two.clone(), boolean_type, |args, _| has(args)),
        function("json_has_any", two.clone(), boolean_type, |args, _| has_keys(args, false)),
        function("json_has_all", two, boolean_type, |args, _| has_keys(args, true)),
        function("json_kind", one.clone(), text_type, |args, _| {
            with_json(args, |value| Ok(ScalarValue::from(value.kind_name())))
        }),
        function("json_length", one.clone(), |_| Ok(DataType::Int32), |args, _| length(args)),
        function("json_items", one.clone(), texts_type, |args, _| items(args, JsonPart::Value)),
        function("json_item_texts", one.clone(), texts_type, |args, _| items(args, JsonPart::Text)),
        function("json_keys", one.clone(), texts_type, |args, _| keys(args)),
        function("json_values", one.clone(), texts_type, |args, _| values(args, JsonPart::Value)),
        function("json_value_texts", one, texts_type, |args, _| values(args, JsonPart::Text)),
    ])
}

fn function(
    name: &'static str,
    arity: std::ops::RangeInclusive<usize>,
    result: fn(&[DataType]) -> Result<DataType>,
    run: fn(&[ScalarValue], &ConfigOptions) -> Result<ScalarValue>,
) -> RowFunction {
    RowFunction { name, arity, result, run, takes_null: false }
}

fn boolean_type(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::Boolean)
}

fn texts_type(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))))
}

/// What is taken of a part: its JSON, or the text in it.
#[derive(Clone, Copy)]
enum JsonPart {
    Value,
    Text,
}

impl JsonPart {
    fn of(self, value: &JsonValue<'_>) -> Option<String> {
        match self {
            Self::Value => Some(value.raw.to_owned()),
            Self::Text => value.plain_text().map(str::to_owned),
        }
    }
}

/// Runs `use_value` with the JSON of the first argument.
fn with_json(
    args: &[ScalarValue],
    use_value: impl Fn(&JsonValue<'_>) -> Result<ScalarValue>,
) -> Result<ScalarValue> {
    let text = args.first().and_then(text_of).unwrap_or_default();
    match parse_json(&text) {
        Ok(value) => use_value(&value),
        Err(why) => exec_err!("invalid input for type json: {why}"),
    }
}

fn json_in(args: &[ScalarValue]) -> Result<ScalarValue> {
    let text = args.first().and_then(text_of);
    with_json(args, |_| Ok(ScalarValue::Utf8(text.clone())))
}

fn jsonb_in(args: &[ScalarValue]) -> Result<ScalarValue> {
    with_json(args, |value| match value.canonical() {
        Some(text) => Ok(ScalarValue::Utf8(Some(text))),
        None => exec_err!("invalid input for type jsonb: a number has too many digits"),
    })
}

fn jsonb_key(args: &[ScalarValue]) -> Result<ScalarValue> {
    with_json(args, |value| Ok(ScalarValue::Utf8(value.comparison_key())))
}

fn uuid_in(args: &[ScalarValue]) -> Result<ScalarValue> {
    let text = args.first().and_then(text_of).unwrap_or_default();
    match uuid_text(&text) {
        Some(uuid) => Ok(ScalarValue::Utf8(Some(uuid))),
        None => exec_err!("invalid input for type uuid: `{text}`"),
    }
}

fn part(args: &[ScalarValue], kind: JsonPart) -> Result<ScalarValue> {
    let Some(step) = args.get(1) else { return exec_err!("this takes a key or a number") };
    with_json(args, |value| {
        let found = if step.data_type().is_integer() {
            integer_of(step).and_then(|at| value.item(at))
        } else {
            text_of(step).and_then(|key| value.member(&key))
        };
        Ok(ScalarValue::Utf8(found.and_then(|value| kind.of(value))))
    })
}

/// Texts of an array, also of one that is written as `{a,b}`.
fn texts(value: &ScalarValue) -> Result<Vec<String>> {
    if let Some(text) = value.try_as_str().flatten() {
        let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let Some(inner) = inner.filter(|inner| !inner.contains(['"', '\\', '{'])) else {
            return exec_err!("`{text}` is no array of keys: write it as `array['a', 'b']`");
        };
        let keys = inner.split(',').map(|key| key.trim().to_owned());
        return Ok(if inner.trim().is_empty() { Vec::new() } else { keys.collect() });
    }
    Ok(elements(value)?.iter().filter_map(text_of).collect())
}

fn at_path(args: &[ScalarValue], kind: JsonPart) -> Result<ScalarValue> {
    let path = args.get(1).map_or_else(|| Ok(Vec::new()), texts)?;
    with_json(args, |value| {
        Ok(ScalarValue::Utf8(value.at_path(&path).and_then(|value| kind.of(value))))
    })
}

fn has(args: &[ScalarValue]) -> Result<ScalarValue> {
    let key = args.get(1).and_then(text_of).unwrap_or_default();
    with_json(args, |value| Ok(Some(value.has_key(&key)).into()))
}

fn has_keys(args: &[ScalarValue], needs_all: bool) -> Result<ScalarValue> {
    let keys = args.get(1).map_or_else(|| Ok(Vec::new()), texts)?;
    with_json(args, |value| {
        let mut found = keys.iter().map(|key| value.has_key(key));
        let is_met = if needs_all { found.all(|has| has) } else { found.any(|has| has) };
        Ok(Some(is_met).into())
    })
}

/// Whether one JSON text contains another.
pub(crate) fn contains(sides: [&ScalarValue; 2]) -> Result<ScalarValue> {
    let [whole, part] = sides.map(|side| text_of(side).unwrap_or_default());
    match (parse_json(&whole), parse_json(&part)) {
        (Ok(whole), Ok(part)) => Ok(Some(whole.contains(&part)).into()),
        (Err(why), _) | (_, Err(why)) => exec_err!("invalid input for type json: {why}"),
    }
}

fn length(args: &[ScalarValue]) -> Result<ScalarValue> {
    with_json(args, |value| match value.items() {
        Some(items) => Ok(ScalarValue::Int32(i32::try_from(items.len()).ok())),
        None => exec_err!("a JSON {} has no array length", value.kind_name()),
    })
}

fn list(texts: impl Iterator<Item = Option<String>>) -> ScalarValue {
    let texts: Vec<ScalarValue> = texts.map(ScalarValue::Utf8).collect();
    ScalarValue::List(ScalarValue::new_list(&texts, &DataType::Utf8, true))
}

fn items(args: &[ScalarValue], kind: JsonPart) -> Result<ScalarValue> {
    with_json(args, |value| match value.items() {
        Some(items) => Ok(list(items.iter().map(|item| kind.of(item)))),
        None => exec_err!("a JSON {} has no array elements", value.kind_name()),
    })
}

fn with_object(
    args: &[ScalarValue],
    use_members: impl Fn(Vec<(&str, &JsonValue<'_>)>) -> ScalarValue,
) -> Result<ScalarValue> {
    with_json(args, |value| {
        if !value.is_object() {
            return exec_err!("a JSON {} has no keys", value.kind_name());
        }
        Ok(use_members(value.members()))
    })
}

fn keys(args: &[ScalarValue]) -> Result<ScalarValue> {
    with_object(args, |members| list(members.into_iter().map(|(key, _)| Some(key.to_owned()))))
}

fn values(args: &[ScalarValue], kind: JsonPart) -> Result<ScalarValue> {
    with_object(args, |members| list(members.into_iter().map(|(_, value)| kind.of(value))))
}

/// Refuses to sort JSON: PostgreSQL's order of it differs from the order of its text.
pub(crate) fn refuse_order<T>() -> Result<T> {
    plan_err!("values of `jsonb` have no order here: order by a text of them (`->>`)")
}
