//! Iceberg manifests and manifest lists: Avro files that name the data files of a snapshot. Fields
//! and their ids follow the [format](https://iceberg.apache.org/spec/#manifests), version 2.

use std::collections::BTreeMap;

use apache_avro::schema::{Schema, UnionSchema};
use apache_avro::types::Value;
use apache_avro::{Codec, DeflateSettings, Writer};
use serde_json::json;

/// A data file as a manifest entry.
#[derive(Debug)]
pub(super) struct ManifestEntry {
    /// URI with its scheme: `file:///…`, `s3://…`.
    pub(super) location: String,
    /// Sequence number, which grows with the files of a store.
    pub(super) sequence: i64,
    pub(super) row_count: i64,
    pub(super) byte_count: i64,
    /// Arrival time of the last row.
    pub(super) millis: i64,
    /// Field id of `ts` and its bounds.
    pub(super) ts: (i32, i64, i64),
}

/// Manifest properties besides the entries.
#[derive(Debug)]
pub(super) struct FileBounds {
    pub(super) snapshot: i64,
    /// Table schema as JSON.
    pub(super) schema: String,
}

/// Encodes an Avro file of entries, all of them added in the snapshot.
///
/// # Errors
/// Errors of the Avro writer, which writes to memory.
pub(super) fn manifest(
    about: &FileBounds,
    entries: &[ManifestEntry],
) -> apache_avro::AvroResult<Vec<u8>> {
    let schema = entry_schema()?;
    let mut writer = Writer::with_codec(&schema, Vec::new(), codec())?;
    let texts = [
        ("schema", about.schema.as_str()),
        ("schema-id", "0"),
        ("partition-spec", "[]"),
        ("partition-spec-id", "0"),
        ("format-version", "2"),
        ("content", "data"),
    ];
    for (name, text) in texts {
        writer.add_user_metadata(name.to_owned(), text)?;
    }
    for entry in entries {
        writer.append_value(entry.value(about.snapshot))?;
    }
    writer.into_inner()
}

/// Encodes the manifest list of a snapshot with one manifest of `length` bytes at `location`.
///
/// # Errors
/// As [`manifest`].
pub(super) fn manifest_list(
    snapshot: i64,
    (location, length): (&str, usize),
    entries: &[ManifestEntry],
) -> apache_avro::AvroResult<Vec<u8>> {
    let schema = list_schema()?;
    let mut writer = Writer::with_codec(&schema, Vec::new(), codec())?;
    let sequences = || entries.iter().map(|entry| entry.sequence);
    let newest = sequences().max().unwrap_or_default();
    let texts = [
        ("snapshot-id", snapshot.to_string()),
        ("parent-snapshot-id", "null".to_owned()),
        ("sequence-number", newest.to_string()),
        ("format-version", "2".to_owned()),
    ];
    for (name, text) in texts {
        writer.add_user_metadata(name.to_owned(), text)?;
    }
    let fields = [
        ("manifest_path", Value::String(location.to_owned())),
        ("manifest_length", Value::Long(i64::try_from(length).unwrap_or(i64::MAX))),
        ("partition_spec_id", Value::Int(0)),
        ("content", Value::Int(0)),
        ("sequence_number", Value::Long(newest)),
        ("min_sequence_number", Value::Long(sequences().min().unwrap_or_default())),
        ("added_snapshot_id", Value::Long(snapshot)),
        ("added_files_count", int(entries.len())),
        ("existing_files_count", Value::Int(0)),
        ("deleted_files_count", Value::Int(0)),
        ("added_rows_count", Value::Long(entries.iter().map(|entry| entry.row_count).sum())),
        ("existing_rows_count", Value::Long(0)),
        ("deleted_rows_count", Value::Long(0)),
        // Optional, but Trino and Spark cannot show a list without it.
        ("partitions", some(Value::Array(Vec::new()))),
    ];
    writer.append_value(record(fields))?;
    writer.into_inner()
}

fn int(value: usize) -> Value {
    Value::Int(i32::try_from(value).unwrap_or(i32::MAX))
}

impl ManifestEntry {
    fn value(&self, snapshot: i64) -> Value {
        let (id, min, max) = self.ts;
        let bound = |value: i64| {
            let bound =
                [("key", Value::Int(id)), ("value", Value::Bytes(value.to_le_bytes().to_vec()))];
            some(Value::Array(vec![record(bound)]))
        };
        let file = [
            ("content", Value::Int(0)),
            ("file_path", Value::String(self.location.clone())),
            ("file_format", Value::String("PARQUET".to_owned())),
            ("partition", Value::Record(Vec::new())),
            ("record_count", Value::Long(self.row_count)),
            ("file_size_in_bytes", Value::Long(self.byte_count)),
            ("lower_bounds", bound(min)),
            ("upper_bounds", bound(max)),
            // Id of the unsorted order. Optional, but Trino cannot show entries without it.
            ("sort_order_id", some(Value::Int(0))),
        ];
        record([
            ("status", Value::Int(1)),
            ("snapshot_id", some(Value::Long(snapshot))),
            ("sequence_number", some(Value::Long(self.sequence))),
            ("file_sequence_number", some(Value::Long(self.sequence))),
            ("data_file", record(file)),
        ])
    }
}

fn record<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Record(fields.map(|(name, value)| (name.to_owned(), value)).into())
}

/// Wraps a value as the second branch of a nullable union.
fn some(value: Value) -> Value {
    Value::Union(1, Box::new(value))
}

fn codec() -> Codec {
    Codec::Deflate(DeflateSettings::default())
}

fn entry_schema() -> apache_avro::AvroResult<Schema> {
    let mut file = Schema::parse(&json!({"type": "record", "name": "r2", "fields": [
        {"name": "content", "type": "int", "field-id": 134},
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "file_format", "type": "string", "field-id": 101},
        {"name": "partition", "type": {"type": "record", "name": "r102", "fields": []}, "field-id": 102},
        {"name": "record_count", "type": "long", "field-id": 103},
        {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
        {"name": "lower_bounds", "type": "null", "field-id": 125},
        {"name": "upper_bounds", "type": "null", "field-id": 128},
        {"name": "sort_order_id", "type": ["null", "int"], "field-id": 140},
    ]}))?;
    for (name, key) in [("lower_bounds", 126), ("upper_bounds", 129)] {
        // Avro encodes maps with other than string keys as arrays of pairs.
        let pair = json!({"type": "record", "name": format!("k{key}_v{}", key + 1), "fields": [
            {"name": "key", "type": "int", "field-id": key},
            {"name": "value", "type": "bytes", "field-id": key + 1},
        ]});
        set(&mut file, name, array(&pair, ("logicalType", json!("map")))?);
    }
    let mut entry = Schema::parse(&json!({"type": "record", "name": "manifest_entry", "fields": [
        {"name": "status", "type": "int", "field-id": 0},
        {"name": "snapshot_id", "type": ["null", "long"], "field-id": 1},
        {"name": "sequence_number", "type": ["null", "long"], "field-id": 3},
        {"name": "file_sequence_number", "type": ["null", "long"], "field-id": 4},
        {"name": "data_file", "type": "null", "field-id": 2},
    ]}))?;
    set(&mut entry, "data_file", file);
    Ok(entry)
}

fn list_schema() -> apache_avro::AvroResult<Schema> {
    let fields = [
        ("manifest_path", "string", 500),
        ("manifest_length", "long", 501),
        ("partition_spec_id", "int", 502),
        ("content", "int", 517),
        ("sequence_number", "long", 515),
        ("min_sequence_number", "long", 516),
        ("added_snapshot_id", "long", 503),
        ("added_files_count", "int", 504),
        ("existing_files_count", "int", 505),
        ("deleted_files_count", "int", 506),
        ("added_rows_count", "long", 512),
        ("existing_rows_count", "long", 513),
        ("deleted_rows_count", "long", 514),
        ("partitions", "null", 507),
    ];
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, kind, id)| json!({"name": name, "type": kind, "field-id": id}))
        .collect();
    let list = json!({"type": "record", "name": "manifest_file", "fields": fields});
    let mut list = Schema::parse(&list)?;
    let summary = json!({"type": "record", "name": "r508", "fields": [
        {"name": "contains_null", "type": "boolean", "field-id": 509},
        {"name": "contains_nan", "type": ["null", "boolean"], "field-id": 518},
        {"name": "lower_bound", "type": ["null", "bytes"], "field-id": 510},
        {"name": "upper_bound", "type": ["null", "bytes"], "field-id": 511},
    ]});
    set(&mut list, "partitions", array(&summary, ("element-id", json!(508)))?);
    Ok(list)
}

/// A nullable array with an attribute that the schema parser would drop.
fn array(
    items: &serde_json::Value,
    (mark, value): (&str, serde_json::Value),
) -> apache_avro::AvroResult<Schema> {
    let marks = BTreeMap::from([(mark.to_owned(), value)]);
    let array = Schema::array(Schema::parse(items)?).attributes(marks).build();
    Ok(Schema::Union(UnionSchema::new(vec![Schema::Null, array])?))
}

/// Sets the type of a record's field.
fn set(record: &mut Schema, name: &str, schema: Schema) {
    if let Schema::Record(record) = record
        && let Some(field) = record.fields.iter_mut().find(|field| field.name == name)
    {
        field.schema = schema;
    }
}
