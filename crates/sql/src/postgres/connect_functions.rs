//! Functions that drivers, pools and tools call when they connect, release a connection, or read the
//! catalog.

use arrow_schema::{DataType, TimeUnit};
use datafusion::logical_expr::ScalarUDF;
use datafusion::scalar::ScalarValue;

use super::catalog::{TYPES, namespace_oid, table_of};
use super::functions::{always, constant, flag, function, nothing, number, size, text, words};
use super::relation::{function_name, function_oid};

/// Function that shows a column of OIDs of functions by their names.
pub(super) const NAME_OF_FUNCTION: &str = "regproc_name";

/// All of them.
pub(super) fn all() -> Vec<ScalarUDF> {
    let all = lookups().into_iter().chain(locks()).chain(definitions());
    all.chain(clocks_and_transactions()).collect()
}

/// Functions that look up a name; NULL for an unknown one.
fn lookups() -> Vec<ScalarUDF> {
    vec![
        text(NAME_OF_FUNCTION, |of| number(of, 0).map(function_name).into()),
        function("to_regtype", DataType::Int64, |of| {
            words(of, 0).and_then(|name| type_oid(&name)).map(i64::from).into()
        }),
        function("to_regproc", DataType::Int64, |of| words(of, 0).and_then(known_function).into()),
        function("to_regprocedure", DataType::Int64, |of| {
            let name = words(of, 0).map(|name| name.split('(').next().unwrap_or("").to_owned());
            name.and_then(known_function).into()
        }),
        function("to_regnamespace", DataType::Int64, |of| {
            words(of, 0).and_then(|name| namespace_oid(&name)).map(i64::from).into()
        }),
        function("to_regrole", DataType::Int64, |of| {
            words(of, 0).filter(|name| name == "weir").map(|_| 10_i64).into()
        }),
        text("pg_typeof", |of| of.first().map(type_of_value).into()),
        function("array_upper", DataType::Int64, |of| bound(of, ArrayEnd::Upper)),
        function("array_lower", DataType::Int64, |of| bound(of, ArrayEnd::Lower)),
        function("pg_char_to_encoding", DataType::Int32, |of| {
            let name = words(of, 0).unwrap_or_default().to_lowercase().replace('-', "");
            Some(if name == "utf8" { 6_i32 } else { -1 }).into()
        }),
        text("quote_nullable", |of| {
            let quoted = words(of, 0).map(|text| format!("'{}'", text.replace('\'', "''")));
            Some(quoted.unwrap_or("NULL".to_owned())).into()
        }),
    ]
}

/// Advisory locks are never granted: rows are read-only, so there is nothing to protect.
fn locks() -> Vec<ScalarUDF> {
    let refused = [
        "pg_try_advisory_lock",
        "pg_try_advisory_lock_shared",
        "pg_try_advisory_xact_lock",
        "pg_try_advisory_xact_lock_shared",
        "pg_advisory_unlock",
        "pg_advisory_unlock_shared",
    ];
    let refused = refused.map(|name| flag(name, |_| Some(false).into()));
    // A function of type void returns an empty text.
    let nothing_held = text("pg_advisory_unlock_all", |_| constant(""));
    refused.into_iter().chain([nothing_held]).collect()
}

/// Functions about objects that weir does not have, and facts that are the same for each.
fn definitions() -> Vec<ScalarUDF> {
    let absent = [
        "pg_get_function_identity_arguments",
        "pg_get_function_arg_default",
        "pg_get_functiondef",
        "pg_get_function_sqlbody",
        "pg_get_ruledef",
        "pg_get_triggerdef",
        "pg_get_statisticsobjdef",
        "pg_get_statisticsobjdef_columns",
        "pg_get_serial_sequence",
        "pg_get_partition_constraintdef",
        "pg_get_replica_identity_index",
        "pg_describe_object",
        "pg_last_wal_receive_lsn",
        "pg_last_wal_replay_lsn",
        "pg_current_wal_lsn",
        "inet_server_addr",
        "inet_client_addr",
        "pg_tablespace_databases",
        "pg_get_statisticsobjdef_expressions",
        "txid_current_if_assigned",
    ];
    let visible = [
        "pg_operator_is_visible",
        "pg_opclass_is_visible",
        "pg_opfamily_is_visible",
        "pg_collation_is_visible",
        "pg_conversion_is_visible",
        "pg_statistics_obj_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
        "has_foreign_data_wrapper_privilege",
        "has_parameter_privilege",
        "has_server_privilege",
        "has_function_privilege",
        "has_sequence_privilege",
        "has_type_privilege",
        "has_language_privilege",
        "has_tablespace_privilege",
        "pg_has_role",
        // Done by the session, which refuses a number that is none.
        "pg_cancel_backend",
    ];
    let sizes = ["pg_tablespace_size", "pg_stat_get_numscans", "pg_stat_get_live_tuples"];
    let no = ["pg_relation_is_publishable", "pg_is_wal_replay_paused", "pg_column_is_updatable"];
    let mut all: Vec<ScalarUDF> = absent.into_iter().map(nothing).collect();
    all.extend(visible.into_iter().map(always));
    all.extend(sizes.into_iter().map(size));
    all.extend(no.into_iter().map(|name| flag(name, |_| Some(false).into())));
    all.push(function("pg_relation_is_updatable", DataType::Int32, |_| Some(0_i32).into()));
    all.push(function("inet_server_port", DataType::Int32, |_| ScalarValue::Int32(None)));
    all.push(function("inet_client_port", DataType::Int32, |_| ScalarValue::Int32(None)));
    all.push(text("pg_size_pretty", |of| number(of, 0).map(size_text).into()));
    all.push(text("pg_relation_filenode", |_| ScalarValue::Utf8(None)));
    all.push(text("pg_get_viewdef", |of| {
        let name = number(of, 0).and_then(table_of).map(|spec| spec.name);
        name.and_then(weir_tables::view).map(|view| view.sql).into()
    }));
    all
}

/// Times of the server, which weir does not tell, and transactions, of which it has none: each query is
/// of the first.
fn clocks_and_transactions() -> Vec<ScalarUDF> {
    let clocks = ["pg_postmaster_start_time", "pg_conf_load_time", "pg_last_xact_replay_timestamp"];
    let clocks = clocks.map(|name| {
        let kind = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
        function(name, kind, |_| ScalarValue::TimestampMicrosecond(None, Some("+00:00".into())))
    });
    let transactions = ["txid_current", "pg_current_xact_id"];
    let first = transactions.map(|name| function(name, DataType::Int64, |_| Some(1_i64).into()));
    clocks.into_iter().chain(first).collect()
}

/// A number of bytes with the unit in which it has at most five digits.
fn size_text(bytes: i64) -> String {
    if bytes.unsigned_abs() < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    // One more bit than the unit has, for rounding.
    let (mut halves, mut units) = (bytes / 512, ["kB", "MB", "GB", "TB"].into_iter());
    let unit = units.find(|_| {
        let is_small = halves.unsigned_abs() < 20 * 1024 - 1;
        halves = if is_small { halves } else { halves / 1024 };
        is_small
    });
    format!("{} {}", (halves + halves.signum()) / 2, unit.unwrap_or("PB"))
}

/// OID of a type by its name in either notation.
pub(super) fn type_oid(name: &str) -> Option<u32> {
    let lower = name.to_lowercase().replace('"', "");
    let plain = lower.strip_prefix("pg_catalog.").unwrap_or(&lower);
    let (plain, is_array) = match plain.strip_suffix("[]") {
        Some(item) => (item, true),
        None => (plain, false),
    };
    let plain = match plain {
        "int" => "int4",
        "decimal" => "numeric",
        "timestamp with time zone" => "timestamptz",
        "varchar" => "varchar",
        other => other,
    };
    let found = TYPES.iter().find(|(_, own, sql, ..)| *own == plain || *sql == plain);
    if let Some((oid, .., array)) = found {
        return Some(if is_array { *array } else { *oid }).filter(|oid| *oid > 0);
    }
    let item = plain.strip_prefix('_')?;
    let found = TYPES.iter().find(|(_, own, ..)| *own == item);
    found.map(|(.., array)| *array).filter(|oid| *oid > 0)
}

fn known_function(name: String) -> Option<i64> {
    Some(function_oid(&name)).filter(|oid| *oid > 0).map(i64::from)
}

/// Name of a value's type.
fn type_of_value(value: &ScalarValue) -> String {
    let data_type = value.data_type();
    let name = match &data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint",
        DataType::Int32 | DataType::UInt16 => "integer",
        DataType::Int64 => "bigint",
        DataType::UInt32 => "oid",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea",
        DataType::Map(..) | DataType::Struct(_) => "json",
        kind if kind.is_numeric() => "numeric",
        DataType::List(item) | DataType::LargeList(item) => {
            let item = ScalarValue::try_from(item.data_type()).map(|item| type_of_value(&item));
            return format!("{}[]", item.unwrap_or("text".to_owned()));
        }
        _ => "text",
    };
    name.to_owned()
}

#[derive(Clone, Copy)]
enum ArrayEnd {
    Lower,
    Upper,
}

/// First or last index of an array in its first dimension; NULL for an empty one.
fn bound(of: &[ScalarValue], end: ArrayEnd) -> ScalarValue {
    let length = match of.first() {
        Some(ScalarValue::List(list)) if number(of, 1) == Some(1) => list.value_length(0),
        _ => 0,
    };
    let is_null = of.first().is_none_or(ScalarValue::is_null) || length == 0;
    let bound = match end {
        ArrayEnd::Lower => 1,
        ArrayEnd::Upper => length,
    };
    // As `int8`, which series take.
    ScalarValue::Int64((!is_null).then_some(i64::from(bound)))
}

#[cfg(test)]
mod tests {
    use super::{size_text, type_oid};

    #[test]
    fn sizes_have_a_unit() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (-10_240, "-10 kB"),
            (1_048_576, "1024 kB"),
            (20_000_000, "19 MB"),
            (123_456_789_012, "115 GB"),
            (i64::MAX, "8192 PB"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
    }

    #[test]
    fn types_are_found_by_each_of_their_names() {
        for (name, oid) in [
            ("int8", Some(20)),
            ("bigint", Some(20)),
            ("pg_catalog.int4", Some(23)),
            ("_text", Some(1009)),
            ("text[]", Some(1009)),
            ("timestamp with time zone", Some(1184)),
            ("\"uuid\"", Some(2950)),
            ("hstore", None),
            ("public.geometry", None),
        ] {
            assert_eq!(type_oid(name), oid, "{name}");
        }
    }
}
