//! A relation of PostgreSQL's catalog: its columns, and its rows as record batch.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray, UInt32Array, new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};

use super::relations::{EMPTY, EMPTY_INFORMATION, FILLED, FILLED_INFORMATION};
use super::type_functions::{FIRST_FUNCTION_OID, FUNCTIONS};

/// A relation: its columns as `name:kind=default`, separated by spaces. Kinds: `o` oid, `p` oid of a
/// function by its name, `t` text, `b` boolean, `s` int2, `i` int4, `l` int8, `f` float4, `z`
/// timestamptz, and arrays, which are always NULL: `a` of texts, `v` of int2, `w` of oids. The default
/// is NULL if omitted.
pub(super) struct Relation {
    pub(super) name: &'static str,
    columns: &'static str,
}

/// A row: the columns that differ from their defaults.
pub(super) type Row = Vec<(&'static str, String)>;

pub(super) const fn relation(name: &'static str, columns: &'static str) -> Relation {
    Relation { name, columns }
}

impl Relation {
    /// Names and kinds of the columns.
    fn columns(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.columns.split(' ').map(|column| {
            let (name, rest) = column.split_once(':').unwrap_or((column, "t"));
            (name, rest.split('=').next().unwrap_or(rest))
        })
    }

    /// Builds the relation with these rows.
    pub(super) fn batch(&self, rows: &[Row]) -> Result<RecordBatch, ArrowError> {
        let rows: Vec<HashMap<&str, &str>> = rows
            .iter()
            .map(|row| row.iter().map(|(name, value)| (*name, value.as_str())).collect())
            .collect();
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for column in self.columns.split(' ') {
            let (name, rest) = column.split_once(':').unwrap_or((column, "t"));
            let (kind, default) = match rest.split_once('=') {
                Some((kind, default)) => (kind, Some(default.replace('|', " "))),
                None => (rest, None),
            };
            let cells = rows.iter().map(|row| row.get(name).copied().or(default.as_deref()));
            let array = array(kind, cells);
            fields.push(Field::new(name, array.data_type().clone(), true));
            columns.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
    }
}

fn array<'a>(kind: &str, cells: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    fn parsed<'a, T: std::str::FromStr>(
        cells: impl Iterator<Item = Option<&'a str>>,
    ) -> impl Iterator<Item = Option<T>> {
        cells.map(|cell| cell?.parse().ok())
    }
    match kind {
        "o" => Arc::new(parsed(cells).collect::<UInt32Array>()),
        "p" => Arc::new(cells.map(|cell| cell.map(function_oid)).collect::<UInt32Array>()),
        "s" => Arc::new(parsed(cells).collect::<Int16Array>()),
        "i" => Arc::new(parsed(cells).collect::<Int32Array>()),
        "l" => Arc::new(parsed(cells).collect::<Int64Array>()),
        "f" => Arc::new(parsed(cells).collect::<Float32Array>()),
        "b" => Arc::new(cells.map(|cell| cell.map(|flag| flag == "t")).collect::<BooleanArray>()),
        "z" | "a" | "v" | "w" => new_null_array(&type_of_kind(kind), cells.count()),
        _ => Arc::new(cells.collect::<StringArray>()),
    }
}

/// OID of a function of the catalog by its name; 0 if there is none.
pub(super) fn function_oid(name: &str) -> u32 {
    let plain = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let found = FUNCTIONS.iter().position(|function| *function == plain);
    found.and_then(|at| u32::try_from(at).ok()).map_or(0, |at| FIRST_FUNCTION_OID + at)
}

/// Type of a kind of column.
fn type_of_kind(kind: &str) -> DataType {
    match kind {
        "o" | "p" => DataType::UInt32,
        "s" => DataType::Int16,
        "i" => DataType::Int32,
        "l" => DataType::Int64,
        "f" => DataType::Float32,
        "b" => DataType::Boolean,
        "z" => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        "a" => DataType::new_list(DataType::Utf8, true),
        "v" => DataType::new_list(DataType::Int16, true),
        "w" => DataType::new_list(DataType::UInt32, true),
        _ => DataType::Utf8,
    }
}

/// Columns of a relation by schema and name, such as `pg_catalog.pg_class`.
pub(super) fn columns_of(name: &str) -> Option<Vec<&'static str>> {
    let (schema, name) = name.split_once('.')?;
    let lists = match schema {
        "pg_catalog" => [EMPTY, &FILLED],
        "information_schema" => [EMPTY_INFORMATION, &FILLED_INFORMATION],
        _ => return None,
    };
    let relation = lists.into_iter().flatten().find(|relation| relation.name == name)?;
    Some(relation.columns().map(|(name, _)| name).collect())
}

/// Kinds of all columns by name; a name means the same in each relation.
fn kinds() -> &'static HashMap<&'static str, &'static str> {
    static KINDS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
        let lists = [EMPTY, EMPTY_INFORMATION, &FILLED, &FILLED_INFORMATION];
        let relations = lists.into_iter().flatten();
        relations.flat_map(Relation::columns).collect()
    });
    &KINDS
}

/// Type of a parameter that is compared with a column of this name; `None` for text and for
/// columns that the catalog lacks.
pub(super) fn kind_of_column(name: &str) -> Option<DataType> {
    match type_of_kind(kinds().get(name)?) {
        DataType::UInt32 => Some(DataType::Int64),
        DataType::Utf8 | DataType::List(_) => None,
        other => Some(other),
    }
}

/// What a column of the catalog has, as far as tools write constants of another type beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataTypeKind {
    Boolean,
    Text,
}

/// Kind of a column of this name.
pub(super) fn kind_of_catalog_column(name: &str) -> Option<DataTypeKind> {
    match *kinds().get(name)? {
        "b" => Some(DataTypeKind::Boolean),
        "t" => Some(DataTypeKind::Text),
        _ => None,
    }
}

/// A NULL of the type of a column of this name, in SQL.
pub(super) fn null_of_column(name: &str) -> Option<String> {
    let kind = *kinds().get(name)?;
    Some(match kind {
        "o" | "p" => "arrow_cast(NULL, 'UInt32')".to_owned(),
        kind => format!(
            "CAST(NULL AS {})",
            match kind {
                "s" => "SMALLINT",
                "i" => "INT",
                "l" => "BIGINT",
                "f" => "REAL",
                "b" => "BOOLEAN",
                "z" => "TIMESTAMPTZ",
                "a" => "TEXT[]",
                "v" => "SMALLINT[]",
                "w" => "BIGINT[]",
                _ => "TEXT",
            }
        ),
    })
}

/// Whether a column has OIDs of functions, which are shown as names.
pub(super) fn is_function_column(name: &str) -> bool {
    kinds().get(name) == Some(&"p")
}

/// Name of the function with this OID; `-` for none.
pub(super) fn function_name(oid: i64) -> String {
    let at = oid.checked_sub(i64::from(FIRST_FUNCTION_OID));
    let found = at.and_then(|at| FUNCTIONS.get(usize::try_from(at).ok()?));
    match found {
        Some(name) => (*name).to_owned(),
        None if oid == 0 => "-".to_owned(),
        None => oid.to_string(),
    }
}
