//! Iceberg table metadata: the schema, the single snapshot, and the name mapping of columns. Keys
//! follow the [format](https://iceberg.apache.org/spec/#table-metadata-fields), version 2.

use serde_json::{Value, json};
use weir_tables::{Column, DataKind, TableSpec};

/// The part of the metadata that changes with each snapshot.
#[derive(Debug)]
pub(super) struct IcebergSnapshot {
    pub(super) id: i64,
    /// Sequence number, which grows with the files of a store.
    pub(super) sequence: i64,
    /// Arrival time of the newest row. DuckDB reads only snapshots older than its transaction, so
    /// the time of the request would be too late.
    pub(super) millis: i64,
    /// Location of the manifest list.
    pub(super) list: String,
    pub(super) files: usize,
    pub(super) row_count: i64,
    pub(super) byte_count: i64,
}

/// A write location that no engine supports.
const NO_WRITING: &str = "read-only://weir";

/// Builds the metadata of a table at `location`; without a snapshot the table has no files.
pub(super) fn metadata(
    table: &TableSpec,
    (location, uuid): (&str, &str),
    snapshot: Option<&IcebergSnapshot>,
) -> Value {
    let millis = snapshot.map_or(0, |snapshot| snapshot.millis);
    let mut metadata = json!({
        "format-version": 2,
        "table-uuid": uuid,
        "location": location,
        "last-sequence-number": snapshot.map_or(0, |snapshot| snapshot.sequence),
        "last-updated-ms": millis,
        "last-column-id": table.columns.iter().map(last_id).max(),
        "current-schema-id": 0,
        "schemas": [schema(table)],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {
            "comment": table.doc.trim(),
            "schema.name-mapping.default": name_mapping(table).to_string(),
            // Spark's vectorized readers do not support all encodings of Parquet.
            "read.parquet.vectorization.enabled": "false",
            // Engines write files before they request the commit, which is rejected. Here the write
            // itself fails, with an error that names the reason.
            "write.data.path": NO_WRITING,
            "write.metadata.path": NO_WRITING,
        },
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
    });
    if let Some(snapshot) = snapshot {
        metadata["current-snapshot-id"] = snapshot.id.into();
        metadata["refs"] = json!({"main": {"snapshot-id": snapshot.id, "type": "branch"}});
        metadata["snapshot-log"] = json!([{"snapshot-id": snapshot.id, "timestamp-ms": millis}]);
        metadata["snapshots"] = json!([{
            "snapshot-id": snapshot.id,
            "sequence-number": snapshot.sequence,
            "timestamp-ms": millis,
            "manifest-list": snapshot.list,
            "schema-id": 0,
            "summary": {
                "operation": "append",
                "total-data-files": snapshot.files.to_string(),
                "total-records": snapshot.row_count.to_string(),
                "total-files-size": snapshot.byte_count.to_string(),
            },
        }]);
    }
    metadata
}

/// The table's columns as an Iceberg schema.
pub(super) fn schema(table: &TableSpec) -> Value {
    let fields: Vec<Value> = table.columns.iter().map(schema_field).collect();
    json!({"type": "struct", "schema-id": 0, "fields": fields})
}

fn schema_field(column: &Column) -> Value {
    json!({
        "id": column.id,
        "name": column.name,
        "required": !column.is_nullable,
        "type": kind(column),
        "doc": column.doc.trim(),
    })
}

fn kind(column: &Column) -> Value {
    match column.kind {
        DataKind::Time => "timestamptz".into(),
        DataKind::Text => "string".into(),
        DataKind::Int => "long".into(),
        DataKind::Float => "double".into(),
        DataKind::Flag => "boolean".into(),
        DataKind::Attrs => {
            let ids = column.map_ids();
            json!({
                "type": "map",
                "key-id": ids.map(|ids| ids.0), "key": "string",
                "value-id": ids.map(|ids| ids.1), "value": "string", "value-required": false,
            })
        }
    }
}

/// Maps column names to field ids: keys and values of maps have no ids in files of old versions.
fn name_mapping(table: &TableSpec) -> Value {
    table.columns.iter().map(mapping_field).collect()
}

fn mapping_field(column: &Column) -> Value {
    let mut field = json!({"field-id": column.id, "names": [column.name]});
    if let Some((key, value)) = column.map_ids() {
        field["fields"] = json!([
            {"field-id": key, "names": ["key"]},
            {"field-id": value, "names": ["value"]},
        ]);
    }
    field
}

fn last_id(column: &Column) -> i32 {
    column.map_ids().map_or(column.id, |ids| ids.1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use weir_tables::TABLES;

    use super::*;

    #[test]
    fn no_number_names_two_columns() {
        for table in TABLES {
            let mut seen = HashSet::new();
            let highest = table.columns.iter().map(|column| column.id).max();
            for column in table.columns {
                assert!(seen.insert(column.id), "{} of {}", column.name, table.name);
                if let Some((key, value)) = column.map_ids() {
                    assert!(Some(key) > highest, "{} of {}", column.name, table.name);
                    assert!(seen.insert(key) && seen.insert(value), "{}", table.name);
                }
            }
            let last = metadata(table, ("", ""), None)["last-column-id"].clone();
            assert_eq!(last, json!(seen.iter().max()));
        }
    }

    #[test]
    fn bounds_are_of_a_column_that_every_table_has() {
        assert!(TABLES.iter().all(|table| table.column("ts").is_some()));
    }
}
