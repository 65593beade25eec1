//! Types as SQL writes them: PostgreSQL's own name, OID, and the engine's type of a parameter that is
//! cast to it.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType};

use super::catalog::TYPES;

/// PostgreSQL's name of a type, such as `int8` for `BIGINT`; that of the items for an array.
pub(super) fn internal_name(data_type: &SqlType) -> String {
    if let SqlType::Array(
        ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item),
    ) = data_type
    {
        return internal_name(item);
    }
    let text = without_arguments(&data_type.to_string().to_lowercase().replace('"', ""));
    let plain = text.rsplit('.').next().unwrap_or(&text);
    let name = match plain {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "real" => "float4",
        "double precision" | "double" | "float" => "float8",
        "boolean" => "bool",
        "decimal" | "dec" => "numeric",
        "character varying" | "char varying" => "varchar",
        "char" | "character" => "bpchar",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        "time without time zone" => "time",
        "time with time zone" => "timetz",
        other if other.starts_with("interval") => "interval",
        other => other,
    };
    name.to_owned()
}

/// Removes `(20, 3)` from a type.
fn without_arguments(text: &str) -> String {
    match (text.find('('), text.rfind(')')) {
        (Some(open), Some(close)) if open < close => {
            let (before, after) = (text[..open].trim(), text[close + 1..].trim());
            if after.is_empty() { before.to_owned() } else { format!("{before} {after}") }
        }
        _ => text.trim().to_owned(),
    }
}

/// OID and engine type of a parameter that is cast to a type; `None` for types that clients send as
/// text.
pub(super) fn parameter_type(data_type: &SqlType) -> Option<(u32, DataType)> {
    let name = internal_name(data_type);
    let item = engine_type(&name)?;
    let (oid, .., array) = TYPES.iter().find(|kind| kind.1 == name)?;
    Some(if matches!(data_type, SqlType::Array(_)) {
        (*array, DataType::new_list(item, true))
    } else {
        (*oid, item)
    })
}

/// The engine's type of a PostgreSQL type.
pub(super) fn engine_type(name: &str) -> Option<DataType> {
    Some(match name {
        "bool" => DataType::Boolean,
        "bytea" => DataType::Binary,
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "int8" | "oid" => DataType::Int64,
        "text" | "varchar" | "bpchar" | "name" | "char" | "json" | "jsonb" | "uuid" => {
            DataType::Utf8
        }
        "float4" => DataType::Float32,
        "float8" => DataType::Float64,
        "date" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        "interval" => DataType::Interval(IntervalUnit::MonthDayNano),
        "numeric" => DataType::Decimal128(38, 10),
        _ => return None,
    })
}

/// Type to which the engine can cast a NULL, in its own notation.
pub(super) fn null_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "bool" => "BOOLEAN",
        "bytea" => "BYTEA",
        "int2" => "SMALLINT",
        "int4" => "INT",
        "int8" => "BIGINT",
        "float4" => "REAL",
        "float8" => "DOUBLE PRECISION",
        "date" => "DATE",
        "timestamp" => "TIMESTAMP",
        "timestamptz" => "TIMESTAMPTZ",
        "numeric" => "NUMERIC",
        "text" | "varchar" | "bpchar" | "name" | "char" | "regclass" | "regtype" | "regproc"
        | "json" | "jsonb" | "uuid" => "TEXT",
        _ => return None,
    })
}
