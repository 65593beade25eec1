//! Record batches as Arrow IPC streams, and back.
//!
//! A stream starts with its schema, which is nearly always the same for one table: it is encoded
//! once and decoded once, and only compared after that.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, StreamWriter,
    write_message,
};
use arrow_ipc::{CompressionType, Message, MetadataVersion, root_as_message};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use parking_lot::RwLock;

use crate::{TableSpec, is_null_column};

use super::budget::{DecodeBudget, check_schema};
use super::{ALIGNMENT, Batch};

/// End-of-stream marker.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Cached schemas; beyond that, the cache is cleared.
const SCHEMAS_MAX: usize = 512;
/// Longest schema message that is cached.
const SCHEMA_BYTES_MAX: usize = 32 << 10;
/// Longest schema message that is read.
const SCHEMA_BYTES_READ: usize = 1 << 20;

/// Appends the batch with all of its columns, each buffer compressed separately.
pub(super) fn push_stream(batch: &Batch, out: &mut Vec<u8>) {
    let options = IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::LZ4_FRAME))
        .expect("lz4 is compiled in");
    let mut writer = StreamWriter::try_new_with_options(out, &batch.rows.schema(), options)
        .expect("writing to memory does not fail");
    writer.write(&batch.rows).expect("the batch has the schema of the writer");
    writer.finish().expect("writing to memory does not fail");
}

/// Appends the columns of the batch that hold a value or are not nullable.
pub(super) fn push_filled(batch: &Batch, out: &mut Vec<u8>) {
    let kept = filled(&batch.rows);
    let rows = batch.rows.project(&kept).expect("the columns are there");
    let options =
        IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5).expect("a multiple of 8");
    out.extend_from_slice(&schema_message(batch, rows.schema_ref(), kept, &options));
    let mut tracker = DictionaryTracker::new(false);
    let (_, encoded) = IpcDataGenerator::default()
        .encode(&rows, &mut tracker, &options, &mut IpcWriteContext::default())
        .expect("tables have no dictionaries");
    write_message(&mut *out, encoded, &options).expect("writing to memory does not fail");
    out.extend_from_slice(&END);
}

/// Indices of the columns that are not all NULL.
fn filled(rows: &RecordBatch) -> Vec<usize> {
    let schema = rows.schema_ref();
    let is_filled =
        |&at: &usize| !schema.field(at).is_nullable() || !is_null_column(rows.column(at));
    (0..rows.num_columns()).filter(is_filled).collect()
}

/// Schema message for the kept columns; cached when the batch has the table's own schema.
fn schema_message(
    batch: &Batch,
    schema: &Schema,
    kept: Vec<usize>,
    options: &IpcWriteOptions,
) -> Arc<[u8]> {
    type MessageKey = (&'static str, Vec<usize>);
    static MESSAGES: LazyLock<RwLock<HashMap<MessageKey, Arc<[u8]>>>> =
        LazyLock::new(RwLock::default);
    if !Arc::ptr_eq(batch.rows.schema_ref(), &batch.table.schema()) {
        return new_schema_message(schema, options);
    }
    let key = (batch.table.name, kept);
    let known = MESSAGES.read().get(&key).cloned();
    known.unwrap_or_else(|| {
        let message = new_schema_message(schema, options);
        remember(&MESSAGES, key, &message);
        message
    })
}

/// Omits metadata, because receivers find columns by name.
fn new_schema_message(schema: &Schema, options: &IpcWriteOptions) -> Arc<[u8]> {
    let fields = schema.fields().iter().map(|field| without_metadata(field));
    let plain = Schema::new(fields.collect::<Vec<_>>());
    let mut tracker = DictionaryTracker::new(false);
    let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
        &plain,
        &mut tracker,
        options,
    );
    let mut bytes = Vec::new();
    write_message(&mut bytes, encoded, options).expect("writing to memory does not fail");
    bytes.into()
}

fn without_metadata(field: &Field) -> Field {
    Field::new(field.name(), field.data_type().clone(), field.is_nullable())
}

fn remember<K: std::hash::Hash + Eq, V: Clone>(known: &RwLock<HashMap<K, V>>, key: K, value: &V) {
    let mut known = known.write();
    if known.len() >= SCHEMAS_MAX {
        known.clear();
    }
    known.insert(key, value.clone());
}

/// Decodes a stream in the schema of its table; aligned, uncompressed columns borrow from `stream`.
///
/// # Errors
/// When the bytes are not an Arrow IPC stream of the table's rows.
pub(super) fn read_stream(
    table: &TableSpec,
    stream: &Buffer,
    budget: &mut DecodeBudget,
) -> Result<Vec<RecordBatch>, ArrowError> {
    let (front, mut rest) = split_message(stream)?.ok_or_else(|| bad("it has no schema"))?;
    let schema = read_schema(&front)?;
    let known = known_columns(table, &schema)?;
    let mut batches = Vec::new();
    while let Some((front, behind)) = split_message(&rest)? {
        let message = read_message(&front)?;
        let batch =
            message.header_as_record_batch().ok_or_else(|| bad("it is not a record batch"))?;
        let length = usize::try_from(message.bodyLength()).unwrap_or(usize::MAX);
        if length > behind.len() {
            return Err(bad("it is truncated"));
        }
        let body = behind.slice_with_length(0, length);
        budget.take_buffers(batch, &body)?;
        budget.take_missing(table, &schema, batch.length())?;
        let (none, version) = (HashMap::new(), message.version());
        let schema = Arc::clone(&schema);
        let rows = read_record_batch(&body, batch, schema, &none, Some(&known), &version)?;
        batches.push(table.fit(&rows)?);
        rest = behind.slice(length);
    }
    Ok(batches)
}

fn read_schema(front: &Buffer) -> Result<SchemaRef, ArrowError> {
    static SCHEMAS: LazyLock<RwLock<HashMap<Vec<u8>, SchemaRef>>> = LazyLock::new(RwLock::default);
    let known = SCHEMAS.read().get(front.as_slice()).cloned();
    if let Some(schema) = known {
        return Ok(schema);
    }
    if front.len() > SCHEMA_BYTES_READ {
        return Err(bad("its schema is longer than 1 MiB"));
    }
    let message = read_message(front)?;
    let schema = message.header_as_schema().ok_or_else(|| bad("it has no schema"))?;
    check_schema(schema)?;
    let schema = Arc::new(fb_to_schema(schema));
    if front.len() <= SCHEMA_BYTES_MAX {
        remember(&SCHEMAS, front.to_vec(), &schema);
    }
    Ok(schema)
}

/// Positions of the table's columns in the sender's schema; others are skipped unread.
fn known_columns(table: &TableSpec, schema: &Schema) -> Result<Vec<usize>, ArrowError> {
    let own = table.schema();
    let mut known = Vec::new();
    for field in own.fields() {
        let Some((at, sent)) = schema.fields().find(field.name()) else { continue };
        if sent.data_type() != field.data_type() {
            return Err(bad(&format!(
                "its column `{}` is {}, not {}",
                field.name(),
                sent.data_type(),
                field.data_type()
            )));
        }
        known.push(at);
    }
    Ok(known)
}

fn read_message(front: &Buffer) -> Result<Message<'_>, ArrowError> {
    root_as_message(&front[8..]).map_err(|error| bad(&error.to_string()))
}

/// Splits off a message's length and metadata; `None` at the end of the stream.
fn split_message(stream: &Buffer) -> Result<Option<(Buffer, Buffer)>, ArrowError> {
    let Some(head) = stream.first_chunk::<8>() else { return Err(bad("it is truncated")) };
    if *head == END {
        return Ok(None);
    }
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    let end = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(8);
    if head[..4] != END[..4] || end > stream.len() {
        return Err(bad("it holds false lengths"));
    }
    Ok(Some((stream.slice_with_length(0, end), stream.slice(end))))
}

pub(super) fn bad(text: &str) -> ArrowError {
    ArrowError::IpcError(text.to_owned())
}
