//! Test helper: reads a written file and compares its text index with its rows.

use std::convert::Infallible;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaData;
use weir_tables::Log;

use crate::data_file::DataFile;
use crate::text_index::{self, IndexBuilder, TextIndex};

/// The file's rows, footer and bytes.
pub(crate) fn read(root: &Path, file: &DataFile) -> (RecordBatch, Arc<ParquetMetaData>, Vec<u8>) {
    let path = root.join(&file.path);
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
    let (footer, schema) = (Arc::clone(reader.metadata()), Arc::clone(reader.schema()));
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    (concat_batches(&schema, &batches).unwrap(), footer, std::fs::read(path).unwrap())
}

/// Asserts that the stored index equals one rebuilt from the rows.
pub(crate) fn check_index(rows: &RecordBatch, footer: &ParquetMetaData, bytes: &[u8]) {
    let metadata = footer.file_metadata().key_value_metadata().unwrap();
    let text = metadata.iter().find(|pair| pair.key == text_index::METADATA_KEY).unwrap();
    let index = TextIndex::from_text(text.value.as_ref().unwrap(), rows.num_rows() as u64);
    let index = index.unwrap();
    let mut builder = IndexBuilder::new(&Log::SPEC).unwrap();
    let mut sheets = Vec::new();
    let mut keep = |sheet: &[u8]| -> Result<u64, Infallible> {
        sheets.push(sheet.to_vec());
        Ok(0)
    };
    for start in (0..rows.num_rows()).step_by(5000) {
        let part = rows.slice(start, 5000.min(rows.num_rows() - start));
        builder.push(&part, &index.group_rows, &mut keep).unwrap();
    }
    builder.finish(&mut keep).unwrap();
    let mut stored: Vec<_> =
        index.sheets().map(|sheet| (sheet.offset, sheet.byte_count())).collect();
    stored.sort_unstable();
    assert_eq!(stored.len(), sheets.len());
    for ((offset, length), sheet) in stored.into_iter().zip(sheets) {
        let start = usize::try_from(offset).unwrap();
        assert_eq!(&bytes[start..][..usize::try_from(length).unwrap()], sheet);
    }
}
