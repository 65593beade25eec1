//! `pg_catalog` and `information_schema`: weir's tables as PostgreSQL's tools expect them.
//!
//! Source: PostgreSQL's manual, chapters "System Catalogs" and "The Information Schema". OIDs of
//! types are PostgreSQL's own. OIDs of tables are derived from their index in the list, so they are
//! stable only within one process.

use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use datafusion::datasource::MemTable;
use weir_tables::{Column, DataKind, TABLES, TableSpec, VIEWS};

use super::relation::{Relation, Row};
use super::relations::{EMPTY, EMPTY_INFORMATION, FILLED, FILLED_INFORMATION};
use super::settings::SETTINGS;
use super::type_functions::{
    FIRST_FUNCTION_OID, FUNCTION_KEYWORDS, FUNCTIONS, FunctionPurpose, KEYWORDS, function_of,
};

/// Name of the database.
const CATALOG: &str = "weir";
/// OID of the first table of `public`; those of `future` start at [`FUTURE_OID`].
pub(super) const PUBLIC_OID: u32 = 16_384;
pub(super) const FUTURE_OID: u32 = 32_768;
/// OIDs of `pg_catalog`'s relations start here.
const CATALOG_OID: u32 = 12_000;
/// PostgreSQL's own OID of `pg_class`.
const CLASS_OID: u32 = 1259;

/// Name, OID, and OID of the namespace's first relation.
const NAMESPACES: [(&str, u32, u32); 4] = [
    ("public", 2200, PUBLIC_OID),
    ("future", 2201, FUTURE_OID),
    ("pg_catalog", 11, CATALOG_OID),
    ("information_schema", 13_000, 13_001),
];

/// OID, name, SQL name, bytes, category, OID of its array type.
type BaseType = (u32, &'static str, &'static str, i16, &'static str, u32);

/// Types of columns, results and parameters, and those that tools look for.
pub(super) const TYPES: [BaseType; 43] = [
    (16, "bool", "boolean", 1, "B", 1000),
    (17, "bytea", "bytea", -1, "U", 1001),
    (18, "char", "\"char\"", 1, "Z", 1002),
    (19, "name", "name", 64, "S", 1003),
    (20, "int8", "bigint", 8, "N", 1016),
    (21, "int2", "smallint", 2, "N", 1005),
    (22, "int2vector", "int2vector", -1, "A", 1006),
    (23, "int4", "integer", 4, "N", 1007),
    (24, "regproc", "regproc", 4, "N", 1008),
    (25, "text", "text", -1, "S", 1009),
    (26, "oid", "oid", 4, "N", 1028),
    (28, "xid", "xid", 4, "U", 1011),
    (30, "oidvector", "oidvector", -1, "A", 1013),
    (114, "json", "json", -1, "U", 199),
    (700, "float4", "real", 4, "N", 1021),
    (701, "float8", "double precision", 8, "N", 1022),
    (705, "unknown", "unknown", -2, "X", 0),
    (1042, "bpchar", "character", -1, "S", 1014),
    (1043, "varchar", "character varying", -1, "S", 1015),
    (1082, "date", "date", 4, "D", 1182),
    (1083, "time", "time without time zone", 8, "D", 1183),
    (1114, "timestamp", "timestamp without time zone", 8, "D", 1115),
    (1184, "timestamptz", "timestamp with time zone", 8, "D", 1185),
    (1186, "interval", "interval", 16, "T", 1187),
    (1700, "numeric", "numeric", -1, "N", 1231),
    (2205, "regclass", "regclass", 4, "N", 2210),
    (2206, "regtype", "regtype", 4, "N", 2211),
    (2249, "record", "record", -1, "P", 2287),
    (2275, "cstring", "cstring", -2, "P", 1263),
    (2278, "void", "void", 4, "P", 0),
    (2277, "anyarray", "anyarray", -1, "P", 0),
    (2950, "uuid", "uuid", 16, "U", 2951),
    // No column has these; drivers look for them when they list their own types.
    (142, "xml", "xml", -1, "U", 143),
    (650, "cidr", "cidr", -1, "I", 651),
    (790, "money", "money", 8, "N", 791),
    (829, "macaddr", "macaddr", 6, "U", 1040),
    (869, "inet", "inet", -1, "I", 1041),
    (1266, "timetz", "time with time zone", 12, "D", 1270),
    (1560, "bit", "bit", -1, "V", 1561),
    (1562, "varbit", "bit varying", -1, "V", 1563),
    (3614, "tsvector", "tsvector", -1, "U", 3643),
    (2279, "trigger", "trigger", 4, "P", 0),
    (3802, "jsonb", "jsonb", -1, "U", 3807),
];

/// A namespace of relations, created once.
pub(super) type Namespace = Arc<dyn SchemaProvider>;

/// The schemas `pg_catalog` and `information_schema`.
pub(super) fn namespaces() -> [(&'static str, Namespace); 2] {
    static MADE: LazyLock<[Namespace; 2]> = LazyLock::new(|| {
        [namespace(&catalog(), EMPTY), namespace(&filled(FILLED_INFORMATION), EMPTY_INFORMATION)]
    });
    [("pg_catalog", Arc::clone(&MADE[0])), ("information_schema", Arc::clone(&MADE[1]))]
}

fn namespace(filled: &[(Relation, Vec<Row>)], empty: &[Relation]) -> Namespace {
    let schema = MemorySchemaProvider::new();
    let filled = filled.iter().map(|(relation, rows)| (relation, rows.as_slice()));
    let empty = empty.iter().map(|relation| (relation, &[][..]));
    for (relation, rows) in filled.chain(empty) {
        let batch: RecordBatch = relation.batch(rows).expect("columns have the length of the rows");
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("one schema");
        schema.register_table(relation.name.into(), Arc::new(table)).expect("names differ");
    }
    Arc::new(schema)
}

/// Whether an unqualified name refers to a relation of `pg_catalog`.
pub(super) fn is_catalog(name: &str) -> bool {
    name.starts_with("pg_") && namespaces()[0].1.table_exist(name)
}

/// Whether the parts of a name refer to a relation of `pg_catalog`.
pub(super) fn is_catalog_relation(parts: &[String]) -> bool {
    match parts {
        [name] => is_catalog(name),
        [schema, name] => schema == "pg_catalog" && is_catalog(name),
        [catalog, rest @ ..] => catalog == CATALOG && rest.len() == 2 && is_catalog_relation(rest),
        [] => false,
    }
}

/// Whether the parts of a name refer to a relation that never has rows.
pub(super) fn is_empty_relation(parts: &[String]) -> bool {
    match parts {
        [name] => is_one_of(EMPTY, name),
        [schema, name] if schema == "pg_catalog" => is_one_of(EMPTY, name),
        [schema, name] if schema == "information_schema" => is_one_of(EMPTY_INFORMATION, name),
        [catalog, rest @ ..] if catalog == CATALOG && rest.len() == 2 => is_empty_relation(rest),
        _ => false,
    }
}

fn is_one_of(relations: &[Relation], name: &str) -> bool {
    relations.iter().any(|relation| relation.name == name)
}

/// weir's tables and views with OID and namespace; the views are in `public`, after the tables.
fn tables() -> impl Iterator<Item = (u32, &'static str, u32, &'static TableSpec)> {
    NAMESPACES[..2].iter().flat_map(|(name, namespace, first)| {
        let views = if *name == "public" { VIEWS } else { &[] };
        let specs = TABLES.iter().copied().chain(views.iter().map(|view| &view.table));
        (*first..).zip(specs).map(move |(oid, spec)| (oid, *name, *namespace, spec))
    })
}

fn is_view(spec: &TableSpec) -> bool {
    weir_tables::view(spec.name).is_some()
}

/// OID of a table by its name, as `regclass` resolves it.
pub(super) fn oid_of(name: &str) -> Option<u32> {
    let plain = name.replace('"', "");
    let plain = plain.strip_prefix("weir.").unwrap_or(&plain);
    let (schema, name) = plain.split_once('.').unwrap_or(("public", plain));
    if name == "pg_class" {
        return Some(CLASS_OID);
    }
    let known = [EMPTY, &FILLED].into_iter().flatten();
    let catalog = (CATALOG_OID..).zip(known).find(|(_, relation)| relation.name == name);
    tables()
        .find(|(_, own, _, spec)| *own == schema && spec.name == name)
        .map(|(oid, ..)| oid)
        .or(catalog.map(|(oid, _)| oid))
}

/// OID of a schema by its name.
pub(super) fn namespace_oid(name: &str) -> Option<u32> {
    NAMESPACES.iter().find(|(own, ..)| *own == name).map(|(_, oid, _)| *oid)
}

/// Table with this OID.
pub(super) fn table_of(oid: i64) -> Option<&'static TableSpec> {
    tables().find(|(own, ..)| i64::from(*own) == oid).map(|(.., spec)| spec)
}

/// Name of a type, as `format_type` returns it.
pub(super) fn type_name(oid: i64) -> Option<String> {
    if oid == 0 {
        return Some("-".to_owned());
    }
    TYPES.iter().find_map(|(own, _, sql, _, _, array)| match oid {
        _ if oid == i64::from(*own) => Some((*sql).to_owned()),
        _ if oid == i64::from(*array) => Some(format!("{sql}[]")),
        _ => None,
    })
}

fn catalog() -> Vec<(Relation, Vec<Row>)> {
    filled(FILLED)
}

/// Relations with their rows.
fn filled<const N: usize>(relations: [Relation; N]) -> Vec<(Relation, Vec<Row>)> {
    let with_rows = relations.into_iter().map(|relation| {
        let rows = rows_of(&relation);
        (relation, rows)
    });
    with_rows.collect()
}

fn rows_of(relation: &Relation) -> Vec<Row> {
    match relation.name {
        "pg_attribute" => attributes(),
        "pg_class" => classes(),
        "pg_description" => descriptions(),
        "pg_namespace" => NAMESPACES
            .iter()
            .map(|(name, oid, _)| vec![("oid", oid.to_string()), ("nspname", (*name).to_owned())])
            .collect(),
        "pg_tables" => tables()
            .filter(|(.., spec)| !is_view(spec))
            .map(|(_, schema, _, spec)| {
                vec![("schemaname", schema.to_owned()), ("tablename", spec.name.to_owned())]
            })
            .collect(),
        "pg_settings" => SETTINGS
            .iter()
            .map(|(name, value)| {
                vec![("name", (*name).to_owned()), ("setting", (*value).to_owned())]
            })
            .collect(),
        "pg_type" => types(),
        "pg_proc" => functions(),
        "pg_get_keywords" => keywords(),
        "pg_stat_user_tables"
        | "pg_stat_all_tables"
        | "pg_statio_user_tables"
        | "pg_statio_all_tables" => statistics(),
        "tables" => information_tables(),
        "columns" => columns().map(information_column).collect(),
        "schemata" => {
            NAMESPACES.iter().map(|(name, ..)| vec![("schema_name", (*name).to_owned())]).collect()
        }
        "views" => views()
            .map(|(name, sql)| vec![("table_name", name), ("view_definition", sql)])
            .collect(),
        "pg_views" => {
            views().map(|(name, sql)| vec![("viewname", name), ("definition", sql)]).collect()
        }
        _ => vec![Row::new()],
    }
}

/// Names and queries of the views.
fn views() -> impl Iterator<Item = (String, String)> {
    VIEWS.iter().map(|view| (view.table.name.to_owned(), view.sql.to_owned()))
}

fn classes() -> Vec<Row> {
    let weir = tables().map(|(oid, _, namespace, spec)| {
        vec![
            ("oid", oid.to_string()),
            ("relname", spec.name.to_owned()),
            ("relnamespace", namespace.to_string()),
            ("relkind", if is_view(spec) { "v" } else { "r" }.to_owned()),
            ("relnatts", spec.columns.len().to_string()),
        ]
    });
    let known = (CATALOG_OID..).zip([EMPTY, &FILLED].into_iter().flatten());
    let own = known.map(|(oid, relation)| {
        let oid = if relation.name == "pg_class" { CLASS_OID } else { oid };
        vec![
            ("oid", oid.to_string()),
            ("relname", relation.name.to_owned()),
            ("relnamespace", "11".to_owned()),
        ]
    });
    weir.chain(own).collect()
}

fn columns() -> impl Iterator<Item = (u32, &'static str, &'static str, usize, &'static Column)> {
    tables().flat_map(|(oid, schema, _, spec)| {
        let columns = (1..).zip(spec.columns);
        columns.map(move |(number, column)| (oid, schema, spec.name, number, column))
    })
}

/// Wire type of a column.
fn type_of(column: &Column) -> &'static BaseType {
    let oid = match column.kind {
        DataKind::Time => 1184,
        DataKind::Text => 25,
        DataKind::Int => 20,
        DataKind::Float => 701,
        DataKind::Flag => 16,
        DataKind::Attrs => 114,
    };
    TYPES.iter().find(|kind| kind.0 == oid).expect("all of them are in the list")
}

fn attributes() -> Vec<Row> {
    columns().map(attribute).collect()
}

fn attribute((oid, _, _, number, column): (u32, &str, &str, usize, &Column)) -> Row {
    let (kind, _, _, bytes, ..) = type_of(column);
    vec![
        ("attrelid", oid.to_string()),
        ("attname", column.name.to_owned()),
        ("atttypid", kind.to_string()),
        ("attlen", bytes.to_string()),
        ("attnum", number.to_string()),
        ("attstorage", if *bytes < 0 { "x" } else { "p" }.to_owned()),
        ("attnotnull", if column.is_nullable { "f" } else { "t" }.to_owned()),
    ]
}

fn descriptions() -> Vec<Row> {
    let of_tables = tables().map(|(oid, _, _, spec)| description(oid, 0, spec.doc));
    of_tables
        .chain(columns().map(|(oid, _, _, at, column)| description(oid, at, column.doc)))
        .collect()
}

fn description(oid: u32, number: usize, doc: &str) -> Row {
    vec![
        ("objoid", oid.to_string()),
        ("objsubid", number.to_string()),
        ("description", doc.trim().to_owned()),
    ]
}

fn types() -> Vec<Row> {
    TYPES.iter().flat_map(type_and_array).collect()
}

fn type_and_array((oid, name, _, bytes, category, array): &BaseType) -> Vec<Row> {
    let mut own = type_row(*oid, name, *bytes, category);
    own.extend(type_functions(name));
    own.push(("typarray", array.to_string()));
    // Items of these can be subscripted.
    match *name {
        "int2vector" => own.push(("typelem", "21".to_owned())),
        "oidvector" => own.push(("typelem", "26".to_owned())),
        _ => {}
    }
    if *array == 0 {
        return vec![own];
    }
    let mut list = type_row(*array, &format!("_{name}"), -1, "A");
    list.extend(type_functions("array"));
    list.push(("typelem", oid.to_string()));
    vec![own, list]
}

fn type_functions(name: &str) -> [(&'static str, String); 4] {
    [
        ("typinput", FunctionPurpose::Input),
        ("typoutput", FunctionPurpose::Output),
        ("typreceive", FunctionPurpose::Receive),
        ("typsend", FunctionPurpose::Send),
    ]
    .map(|(column, purpose)| (column, function_of(name, purpose)))
}

fn type_row(oid: u32, name: &str, bytes: i16, category: &str) -> Row {
    vec![
        ("oid", oid.to_string()),
        ("typlen", bytes.to_string()),
        ("typbyval", if (1..=8).contains(&bytes) { "t" } else { "f" }.to_owned()),
        ("typcategory", category.to_owned()),
        ("typtype", if matches!(category, "P" | "X") { "p" } else { "b" }.to_owned()),
        ("typname", name.to_owned()),
    ]
}

fn information_tables() -> Vec<Row> {
    let rows = tables().map(|(_, schema, _, spec)| {
        let kind = if is_view(spec) { "VIEW" } else { "BASE TABLE" };
        vec![
            ("table_schema", schema.to_owned()),
            ("table_name", spec.name.to_owned()),
            ("table_type", kind.to_owned()),
        ]
    });
    rows.collect()
}

fn information_column(
    (_, schema, table, number, column): (u32, &str, &str, usize, &Column),
) -> Row {
    let (_, name, sql, ..) = type_of(column);
    let mut row = vec![
        ("table_schema", schema.to_owned()),
        ("table_name", table.to_owned()),
        ("column_name", column.name.to_owned()),
        ("ordinal_position", number.to_string()),
        ("is_nullable", if column.is_nullable { "YES" } else { "NO" }.to_owned()),
        ("data_type", (*sql).to_owned()),
        ("udt_name", (*name).to_owned()),
        ("dtd_identifier", number.to_string()),
    ];
    let precision: &[(&'static str, &str)] = match column.kind {
        DataKind::Int => {
            &[("numeric_precision", "64"), ("numeric_precision_radix", "2"), ("numeric_scale", "0")]
        }
        DataKind::Float => &[("numeric_precision", "53"), ("numeric_precision_radix", "2")],
        DataKind::Time => &[("datetime_precision", "6")],
        DataKind::Text => &[("character_octet_length", "1073741824")],
        _ => &[],
    };
    row.extend(precision.iter().map(|(name, value)| (*name, (*value).to_owned())));
    row
}

/// The functions that convert types.
fn functions() -> Vec<Row> {
    let rows = (FIRST_FUNCTION_OID..).zip(FUNCTIONS).map(|(oid, name)| {
        vec![
            ("oid", oid.to_string()),
            ("proname", (*name).to_owned()),
            ("prosrc", (*name).to_owned()),
        ]
    });
    rows.collect()
}

fn keywords() -> Vec<Row> {
    let reserved = KEYWORDS.split(' ').map(|word| (word, "R", "reserved"));
    let functions = FUNCTION_KEYWORDS
        .split(' ')
        .map(|word| (word, "T", "reserved (can be function or type name)"));
    let rows = reserved.chain(functions).map(|(word, code, description)| {
        vec![
            ("word", word.to_owned()),
            ("catcode", code.to_owned()),
            ("barelabel", "t".to_owned()),
            ("catdesc", description.to_owned()),
        ]
    });
    rows.collect()
}

/// Statistics of the tables, which are not counted here.
fn statistics() -> Vec<Row> {
    let own = tables().filter(|(.., spec)| !is_view(spec));
    let rows = own.map(|(oid, schema, _, spec)| {
        vec![
            ("relid", oid.to_string()),
            ("schemaname", schema.to_owned()),
            ("relname", spec.name.to_owned()),
        ]
    });
    rows.collect()
}

/// Result type of the catalog functions that return lists of names.
pub(super) fn list_of_texts() -> DataType {
    DataType::new_list(DataType::Utf8, true)
}
