//! Functions that make JSON of values of any type.

use std::fmt;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use datafusion::scalar::ScalarValue;
use weir_dialect::quote_json;

use crate::json_functions::{CLIENT_TYPE, ObjectType};
use crate::value_text::text;

/// What a function makes of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum JsonShape {
    /// `json_object_of(key, value, …)`.
    Object,
    /// `json_row_of(key, value, …)`, without spaces as `row_to_json` has it.
    Row,
    /// `json_array_of(value, …)`.
    Array,
    /// `json_of(value)`, NULL for NULL.
    Value,
    /// `json_item(value)`: text of an item.
    Item,
    /// `json_member(key, value)`: text of a member.
    Member,
}

impl JsonShape {
    const ALL: [Self; 6] =
        [Self::Object, Self::Row, Self::Array, Self::Value, Self::Item, Self::Member];

    fn name(self) -> &'static str {
        match self {
            Self::Object => "json_object_of",
            Self::Row => "json_row_of",
            Self::Array => "json_array_of",
            Self::Value => "json_of",
            Self::Item => "json_item",
            Self::Member => "json_member",
        }
    }

    /// Whether clients see the result as `json`; it is a part of one otherwise.
    fn is_whole(self) -> bool {
        matches!(self, Self::Object | Self::Row | Self::Array | Self::Value)
    }

    fn has_keys(self) -> bool {
        matches!(self, Self::Object | Self::Row | Self::Member)
    }

    fn of(self, row: &[JsonCell]) -> Result<Option<String>> {
        Ok(match (self, row) {
            (Self::Object, members) => {
                let members: Vec<_> = members
                    .chunks_exact(2)
                    .map(|pair| member(pair, " : "))
                    .collect::<Result<_>>()?;
                Some(format!("{{{}}}", members.join(", ")))
            }
            (Self::Row, members) => {
                let members: Vec<_> =
                    members.chunks_exact(2).map(|pair| member(pair, ":")).collect::<Result<_>>()?;
                Some(format!("{{{}}}", members.join(",")))
            }
            (Self::Array, items) => {
                let items: Vec<_> = items.iter().map(JsonCell::item).collect();
                Some(format!("[{}]", items.join(", ")))
            }
            (Self::Value, [value]) => value.json.clone(),
            (Self::Item, [value]) => Some(value.item().to_owned()),
            (Self::Member, pair @ [_, _]) => Some(member(pair, " : ")?),
            (shape, _) => return exec_err!("{} takes another number of values", shape.name()),
        })
    }
}

/// A value as a key, where the function has keys, and its JSON; `None` for NULL.
struct JsonCell {
    text: Option<String>,
    json: Option<String>,
}

impl JsonCell {
    fn item(&self) -> &str {
        self.json.as_deref().unwrap_or("null")
    }
}

fn member(pair: &[JsonCell], colon: &str) -> Result<String> {
    match pair {
        [JsonCell { text: Some(key), .. }, value] => {
            Ok(format!("{}{colon}{}", quote_json(key), value.item()))
        }
        _ => exec_err!("a key of a JSON object is null"),
    }
}

/// All functions.
pub(crate) fn all() -> Vec<ScalarUDF> {
    let any = || vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
    let build = |shape| {
        let signature = Signature::one_of(any(), Volatility::Stable);
        ScalarUDF::from(JsonBuilder { shape, signature })
    };
    JsonShape::ALL.into_iter().map(build).collect()
}

#[derive(PartialEq, Eq, Hash)]
struct JsonBuilder {
    shape: JsonShape,
    signature: Signature,
}

impl fmt::Debug for JsonBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shape.name())
    }
}

impl ScalarUDFImpl for JsonBuilder {
    fn name(&self) -> &str {
        self.shape.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = Field::new(self.name(), DataType::Utf8, true);
        let kind = (CLIENT_TYPE.to_owned(), ObjectType::Json.name().to_owned());
        let metadata = self.shape.is_whole().then_some(kind).into_iter().collect();
        Ok(Arc::new(field.with_metadata(metadata)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = &args.config_options;
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let columns: Vec<ArrayRef> = args
            .args
            .iter()
            .map(|arg| match arg {
                ColumnarValue::Array(array) => Ok(Arc::clone(array)),
                ColumnarValue::Scalar(value) => value.to_array_of_size(rows),
            })
            .collect::<Result<_>>()?;
        let mut cells = Vec::with_capacity(rows);
        for at in 0..rows {
            let row = columns.iter().zip(&args.arg_fields).map(|(column, field)| {
                let value = ScalarValue::try_from_array(column, at)?;
                let is_json = matches!(
                    ObjectType::of_field(field),
                    Some(ObjectType::Json | ObjectType::Jsonb)
                );
                let has_text = is_json || self.shape.has_keys();
                let text = if has_text { text(&value, options)? } else { None };
                let json = if is_json { text.clone() } else { json_of(&value, options)? };
                Ok(JsonCell { text, json })
            });
            cells.push(self.shape.of(&row.collect::<Result<Vec<_>>>()?)?);
        }
        if is_constant {
            return Ok(ScalarValue::Utf8(cells.into_iter().next().flatten()).into());
        }
        Ok(ColumnarValue::Array(Arc::new(arrow_array::StringArray::from(cells))))
    }
}

/// JSON of a value as `to_json` has it; `None` for NULL.
fn json_of(value: &ScalarValue, options: &ConfigOptions) -> Result<Option<String>> {
    if value.is_null() {
        return Ok(None);
    }
    Ok(Some(match value {
        ScalarValue::Boolean(Some(flag)) => flag.to_string(),
        ScalarValue::Dictionary(_, value) => return json_of(value, options),
        ScalarValue::List(list) => items(&list.value(0), options)?,
        ScalarValue::LargeList(list) => items(&list.value(0), options)?,
        ScalarValue::FixedSizeList(list) => items(&list.value(0), options)?,
        ScalarValue::Struct(row) => {
            let fields = row.fields().iter().zip(row.columns());
            let members = fields.map(|(field, column)| {
                Ok(format!("{}:{}", quote_json(field.name()), item(column, 0, options)?))
            });
            format!("{{{}}}", members.collect::<Result<Vec<_>>>()?.join(","))
        }
        ScalarValue::Map(map) => {
            let entries = map.value(0);
            let (keys, values) = (entries.column(0), entries.column(1));
            let members = (0..entries.len()).map(|at| {
                let key = text(&ScalarValue::try_from_array(keys, at)?, options)?;
                let key = quote_json(&key.unwrap_or_default());
                Ok(format!("{key}:{}", item(values, at, options)?))
            });
            format!("{{{}}}", members.collect::<Result<Vec<_>>>()?.join(","))
        }
        other => {
            let plain = text(other, options)?.unwrap_or_default();
            let kind = other.data_type();
            if kind.is_numeric() && plain.parse::<f64>().is_ok_and(f64::is_finite) {
                plain
            } else if matches!(kind, DataType::Timestamp(..)) {
                quote_json(&with_letters(&plain))
            } else {
                quote_json(&plain)
            }
        }
    }))
}

fn items(array: &ArrayRef, options: &ConfigOptions) -> Result<String> {
    let items = (0..array.len()).map(|at| item(array, at, options));
    Ok(format!("[{}]", items.collect::<Result<Vec<_>>>()?.join(",")))
}

fn item(array: &ArrayRef, at: usize, options: &ConfigOptions) -> Result<String> {
    let value = ScalarValue::try_from_array(array, at)?;
    Ok(json_of(&value, options)?.unwrap_or_else(|| "null".to_owned()))
}

/// `2026-01-02 03:04:05+00` as ISO 8601 has it, with `T` and whole minutes of the zone.
fn with_letters(time: &str) -> String {
    let time = time.replacen(' ', "T", 1);
    let hours = time.rsplit(['+', '-']).next().unwrap_or_default();
    let is_short = time.contains('T') && hours.len() == 2 && time.len() > "2026-01-02T03:04".len();
    if is_short { format!("{time}:00") } else { time }
}
