//! A standalone Parquet file of one table for exports: rows in input order, with no declared sort
//! order.

use std::io::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use weir_tables::{Batch, Column, TableSpec};

use crate::error::{ErrorKind, StoreError};

/// Rows per row group, buffered in memory until written.
const ROW_GROUP_ROWS: usize = 128 << 10;

/// Writer name in the format that parquet-mr parses; otherwise Java readers ignore text statistics.
pub(crate) const CREATED_BY: &str = concat!("weir version ", env!("CARGO_PKG_VERSION"));

/// An unfinished Parquet file.
pub struct ParquetFile<W: Write + Send>(ArrowWriter<W>);

impl<W: Write + Send> ParquetFile<W> {
    /// Starts an empty file.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn new(out: W, table: &TableSpec) -> Result<Self, StoreError> {
        let level = ZstdLevel::try_new(3).expect("3 is a level");
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_created_by(CREATED_BY.to_owned())
            .build();
        writer(out, table, properties).map(Self).map_err(|error| failure(&error))
    }

    /// Appends rows of the table.
    ///
    /// # Errors
    /// The rows cannot be written.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), StoreError> {
        self.0.write(rows).map_err(|error| failure(&error))
    }

    /// Writes buffered rows and the footer.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn finish(self) -> Result<W, StoreError> {
        self.0.into_inner().map_err(|error| failure(&error))
    }
}

/// Encodes rows of one table as a Parquet file in memory.
///
/// # Errors
/// The batches do not belong to `table`.
pub fn write_parquet(table: &TableSpec, batches: &[Batch]) -> Result<Vec<u8>, StoreError> {
    let mut file = ParquetFile::new(Vec::new(), table)?;
    for batch in batches {
        file.write(&batch.rows)?;
    }
    file.finish()
}

/// Encodes rows of one schema as a Parquet file in memory.
///
/// # Errors
/// `Io` if Parquet cannot represent a column.
pub fn parquet_file(schema: &SchemaRef, rows: &[RecordBatch]) -> Result<Vec<u8>, StoreError> {
    let mut stream = ParquetStream::new(schema)?;
    for batch in rows {
        stream.writer.write(batch).map_err(|error| unwritten(&error))?;
    }
    stream.finish()
}

/// Writes rows of any schema as a Parquet file, in portions.
pub struct ParquetStream {
    writer: ArrowWriter<Vec<u8>>,
}

impl ParquetStream {
    /// Begins a file.
    ///
    /// # Errors
    /// `Io`: Parquet has no type for a column.
    pub fn new(schema: &SchemaRef) -> Result<Self, StoreError> {
        let level = ZstdLevel::try_new(3).expect("3 is a level");
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(CREATED_BY.to_owned())
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(schema), Some(properties));
        Ok(Self { writer: writer.map_err(|error| unwritten(&error))? })
    }

    /// Adds rows, and returns the part of the file that is complete.
    ///
    /// # Errors
    /// `Io`: the rows cannot be written as Parquet.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<Vec<u8>, StoreError> {
        self.writer.write(rows).map_err(|error| unwritten(&error))?;
        if self.writer.in_progress_size() >= PORTION_BYTES {
            self.writer.flush().map_err(|error| unwritten(&error))?;
        }
        // The writer counts its offsets itself.
        Ok(std::mem::take(self.writer.inner_mut()))
    }

    /// Returns the rest of the file.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn finish(self) -> Result<Vec<u8>, StoreError> {
        self.writer.into_inner().map_err(|error| unwritten(&error))
    }
}

/// Rows that [`ParquetStream`] holds, encoded, before it ends a row group.
const PORTION_BYTES: usize = 8 << 20;

fn unwritten(error: &ParquetError) -> StoreError {
    StoreError::new(ErrorKind::Io, format!("cannot write Parquet: {error}"))
}

/// A Parquet writer of the table's rows. The file also stores field ids for map keys and values,
/// which other engines expect; in memory they would only make two Arrow types of one.
pub(crate) fn writer<W: Write + Send>(
    out: W,
    table: &TableSpec,
    properties: WriterProperties,
) -> Result<ArrowWriter<W>, ParquetError> {
    let schema = table.schema();
    let fields = table.columns.iter().zip(schema.fields());
    let fields: Vec<Field> = fields.map(|(column, field)| with_map_ids(column, field)).collect();
    let described = ArrowSchemaConverter::new().convert(&Schema::new(fields))?;
    let options =
        ArrowWriterOptions::new().with_properties(properties).with_parquet_schema(described);
    ArrowWriter::try_new_with_options(out, schema, options)
}

fn with_map_ids(column: &Column, field: &Field) -> Field {
    let (Some((key, value)), DataType::Map(entries, is_sorted)) =
        (column.map_ids(), field.data_type())
    else {
        return field.clone();
    };
    let DataType::Struct(pair) = entries.data_type() else { return field.clone() };
    let numbered = pair.iter().zip([key, value]).map(|(field, id)| {
        let metadata = [(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())];
        field.as_ref().clone().with_metadata(metadata.into())
    });
    let entries = entries.as_ref().clone().with_data_type(DataType::Struct(numbered.collect()));
    field.clone().with_data_type(DataType::Map(Arc::new(entries), *is_sorted))
}

fn failure(error: &ParquetError) -> StoreError {
    StoreError::new(ErrorKind::Io, format!("cannot write a Parquet file: {error}"))
}

#[cfg(test)]
mod tests {
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use weir_tables::{Batch, Micros, Rows, Sysctl, SysctlRows, TcpConn, TcpConnRows};

    use super::{RecordBatch, parquet_file, write_parquet};

    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut rows = TcpConnRows::default();
        for number in 0..3 {
            rows.push(&TcpConn { connection_number: number, host: "web1", ..TcpConn::default() });
        }
        let batch = Batch { table: TcpConnRows::SPEC, rows: rows.finish() };
        let bytes = write_parquet(TcpConnRows::SPEC, std::slice::from_ref(&batch)).expect("memory");
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("tcp_conn.parquet");
        std::fs::write(&path, bytes).expect("a directory of our own");
        let file = std::fs::File::open(path).expect("it was written");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
        let read: Vec<_> =
            reader.build().expect("readable").map(|rows| rows.expect("readable")).collect();
        assert_eq!(read, [batch.rows]);
    }

    #[test]
    fn rows_of_several_batches_are_one_file_of_parquet() {
        let batches = [sysctl_batch(&["a", "b"]), sysctl_batch(&["c"])];
        let bytes = parquet_file(&batches[0].schema(), &batches).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 3);
        let name = Sysctl::SPEC.columns.iter().position(|column| column.name == "name").unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        let names: Vec<String> =
            rows.map(|row| row.unwrap().get_string(name).unwrap().clone()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(!parquet_file(&batches[0].schema(), &[]).unwrap().is_empty());
    }

    fn sysctl_batch(names: &[&str]) -> RecordBatch {
        let mut rows = SysctlRows::default();
        for name in names {
            rows.push(&Sysctl { ts: Micros(7), name, ..Default::default() });
        }
        rows.finish()
    }
}
