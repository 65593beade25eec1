//! Finds dictionary-encoded columns of a file and the schema that reads them as dictionaries.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::{Encoding, PageType};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use weir_tables::TableSpec;

/// For each column of `table`, whether the file stores it entirely dictionary-encoded. Empty when
/// the file's columns differ from the table's (written by an earlier version).
pub fn dictionaries(table: &TableSpec, file: &ParquetMetaData) -> Vec<bool> {
    let meta = file.file_metadata();
    let schema = parquet_to_arrow_schema(meta.schema_descr(), meta.key_value_metadata());
    if !schema.is_ok_and(|schema| schema.fields() == table.schema().fields()) {
        return Vec::new();
    }
    let is_dictionary =
        |leaf: usize| file.row_groups().iter().all(|group| is_coded(group.column(leaf)));
    let leaf_of = |name: &str| {
        let leaves = meta.schema_descr().columns();
        leaves.iter().position(|leaf| leaf.path().parts() == [name])
    };
    table.columns.iter().map(|column| leaf_of(column.name).is_some_and(is_dictionary)).collect()
}

/// Whether a column chunk is entirely dictionary-encoded; works on partially read footers.
fn is_coded(column: &ColumnChunkMetaData) -> bool {
    let coded = [Encoding::RLE_DICTIONARY, Encoding::PLAIN_DICTIONARY];
    match (column.page_encoding_stats_mask(), column.page_encoding_stats()) {
        (Some(pages), _) => coded.iter().any(|encoding| pages.is_only(*encoding)),
        (None, Some(pages)) => {
            let mut data = pages
                .iter()
                .filter(|pages| pages.page_type != PageType::DICTIONARY_PAGE)
                .peekable();
            data.peek().is_some() && data.all(|pages| coded.contains(&pages.encoding))
        }
        (None, None) => false,
    }
}

/// The table's schema, with the columns `texts` typed as dictionaries.
pub fn schema_with(table: &TableSpec, texts: &[usize]) -> SchemaRef {
    let schema = table.schema();
    let fields = schema.fields().iter().enumerate().map(|(place, field)| {
        if !texts.contains(&place) {
            return Arc::clone(field);
        }
        let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        Arc::new(Field::clone(field).with_data_type(kind))
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Whether two arrays share the same memory.
pub fn is_same(one: &ArrayRef, other: &ArrayRef) -> bool {
    let (one, other) = (one.as_string::<i32>(), other.as_string::<i32>());
    one.offsets().ptr_eq(other.offsets()) && one.values().as_ptr() == other.values().as_ptr()
}
