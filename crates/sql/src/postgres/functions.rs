//! Functions of PostgreSQL's catalog, for its tools. They process few rows, so they evaluate row by
//! row.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_schema::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

use super::catalog::{FUTURE_OID, list_of_texts, oid_of, table_of, type_name};
use super::settings::SETTINGS;

pub(super) type Run = fn(&[ScalarValue]) -> ScalarValue;

/// A variadic function.
struct Function {
    name: &'static str,
    gives: DataType,
    signature: Signature,
    run: Run,
}

/// All functions.
pub(super) fn all() -> Vec<ScalarUDF> {
    telling().into_iter().chain(plain()).collect()
}

/// Functions that look up their arguments.
fn telling() -> Vec<ScalarUDF> {
    vec![
        text("format_type", |of| {
            number(of, 0).map(|oid| type_name(oid).unwrap_or("???".into())).into()
        }),
        text("obj_description", |of| described(of, 0)),
        text("col_description", |of| described(of, number(of, 1).unwrap_or(0))),
        text("pg_get_userbyid", |_| constant("weir")),
        text("pg_encoding_to_char", |_| constant("UTF8")),
        text("current_database", |_| constant("weir")),
        text("current_schema", |_| constant("public")),
        text("version", |_| {
            constant(concat!("PostgreSQL 15.0 (weir ", env!("CARGO_PKG_VERSION"), ")"))
        }),
        text("current_setting", setting),
        text("set_config", |of| words(of, 1).into()),
        text(NAME_OF_CLASS, |of| {
            let oid = number(of, 0);
            oid.map(|oid| table_of(oid).map_or(oid.to_string(), |spec| spec.name.into())).into()
        }),
        function(OID_OF_CLASS, DataType::Int64, |of| {
            words(of, 0).and_then(|name| name.parse().ok().or(oid_of(&name).map(i64::from))).into()
        }),
        function("to_regclass", DataType::Int64, |of| {
            words(of, 0).and_then(|name| oid_of(&name)).map(i64::from).into()
        }),
        flag("pg_table_is_visible", |of| {
            number(of, 0).map(|oid| oid < i64::from(FUTURE_OID)).into()
        }),
        function("current_schemas", list_of_texts(), |of| match of.first() {
            Some(ScalarValue::Boolean(Some(true))) => list(&["pg_catalog", "public"]),
            _ => list(&["public"]),
        }),
        function("parse_ident", list_of_texts(), |of| match words(of, 0) {
            Some(name) => list(&name.replace('"', "").split('.').collect::<Vec<_>>()),
            None => list(&[]),
        }),
    ]
}

pub(super) fn flag(name: &'static str, run: Run) -> ScalarUDF {
    function(name, DataType::Boolean, run)
}

pub(super) fn text(name: &'static str, run: Run) -> ScalarUDF {
    function(name, DataType::Utf8, run)
}

/// Functions with a constant result: everything is readable, and no object has comments or
/// settings.
fn plain() -> Vec<ScalarUDF> {
    vec![
        always("pg_type_is_visible"),
        always("pg_function_is_visible"),
        always("has_schema_privilege"),
        always("has_table_privilege"),
        always("has_any_column_privilege"),
        always("has_column_privilege"),
        always("has_database_privilege"),
        flag("pg_is_in_recovery", |_| Some(false).into()),
        flag("pg_is_other_temp_schema", |_| Some(false).into()),
        function("pg_my_temp_schema", DataType::Int64, |_| Some(0_i64).into()),
        function("pg_backend_pid", DataType::Int32, |_| Some(0_i32).into()),
        size("pg_relation_size"),
        size("pg_table_size"),
        size("pg_total_relation_size"),
        size("pg_indexes_size"),
        size("pg_database_size"),
        nothing("pg_get_expr"),
        nothing("pg_get_constraintdef"),
        nothing("pg_get_indexdef"),
        nothing("pg_get_partkeydef"),
        nothing("pg_get_viewdef"),
        nothing("pg_get_function_result"),
        nothing("pg_get_function_arguments"),
        nothing("pg_tablespace_location"),
        nothing("shobj_description"),
    ]
}

pub(super) fn nothing(name: &'static str) -> ScalarUDF {
    function(name, DataType::Utf8, |_| ScalarValue::Utf8(None))
}

pub(super) fn always(name: &'static str) -> ScalarUDF {
    function(name, DataType::Boolean, |_| Some(true).into())
}

pub(super) fn size(name: &'static str) -> ScalarUDF {
    function(name, DataType::Int64, |_| ScalarValue::Int64(None))
}

/// Function that replaces a `::regclass` cast, by the cast's operand.
pub(super) const NAME_OF_CLASS: &str = "regclass_name";
pub(super) const OID_OF_CLASS: &str = "regclass_oid";

pub(super) fn function(name: &'static str, gives: DataType, run: Run) -> ScalarUDF {
    let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
    let signature = Signature::one_of(any, Volatility::Stable);
    ScalarUDF::from(Function { name, gives, signature, run })
}

pub(super) fn constant(text: &str) -> ScalarValue {
    Some(text).into()
}

pub(super) fn number(of: &[ScalarValue], at: usize) -> Option<i64> {
    match of.get(at)?.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(number) => number,
        _ => None,
    }
}

pub(super) fn words(of: &[ScalarValue], at: usize) -> Option<String> {
    match of.get(at)?.cast_to(&DataType::Utf8).ok()? {
        ScalarValue::Utf8(text) => text,
        _ => None,
    }
}

fn described(of: &[ScalarValue], column: i64) -> ScalarValue {
    doc_of(of, column).map(str::trim).into()
}

fn doc_of(of: &[ScalarValue], column: i64) -> Option<&'static str> {
    let spec = table_of(number(of, 0)?)?;
    if column == 0 {
        return Some(spec.doc);
    }
    Some(spec.columns.get(usize::try_from(column - 1).ok()?)?.doc)
}

fn setting(of: &[ScalarValue]) -> ScalarValue {
    let name = words(of, 0).unwrap_or_default();
    let found = SETTINGS.iter().find(|(own, _)| own.eq_ignore_ascii_case(&name));
    found.map(|(_, value)| *value).into()
}

pub(super) fn list(items: &[&str]) -> ScalarValue {
    let mut lists = ListBuilder::new(StringBuilder::new());
    items.iter().for_each(|item| lists.values().append_value(item));
    lists.append(true);
    ScalarValue::List(Arc::new(lists.finish()))
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Names are unique.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.gives.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let cells = (0..rows).map(|row| {
            let of = columns.iter().map(|column| ScalarValue::try_from_array(column, row));
            Ok((self.run)(&of.collect::<Result<Vec<_>>>()?))
        });
        let cells = cells.collect::<Result<Vec<_>>>()?;
        if is_constant {
            return Ok(cells.into_iter().next().unwrap_or(ScalarValue::Null).into());
        }
        if cells.is_empty() {
            return Ok(ColumnarValue::Array(arrow_array::new_empty_array(&self.gives)));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(cells)?))
    }
}
