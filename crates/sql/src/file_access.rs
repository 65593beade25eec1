//! How queries read the files of a store, and what of a file one scan reads.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::ObjectStore;
use parquet::arrow::arrow_reader::RowSelection;
use weir_datafile::DataFile;
use weir_tier::FileLocations;

use crate::columns::ColumnCache;
use crate::index_probe::BlockCounts;

/// How the files of a store are read.
#[derive(Clone, Debug)]
pub(crate) struct FileAccess {
    pub(crate) places: FileLocations,
    /// Stands for the data directory, so that plans and messages hold short names.
    pub(crate) url: ObjectStoreUrl,
    pub(crate) store: Arc<dyn ObjectStore>,
    /// Keeps footers, which every rule would otherwise read again every few seconds.
    pub(crate) footers: Arc<FileMetadataCache>,
    pub(crate) reader: Arc<dyn ParquetFileReaderFactory>,
    pub(crate) columns: Arc<ColumnCache>,
}

/// A file, or the rows of it that may match.
#[derive(Clone, Debug)]
pub(crate) struct ScanPart {
    pub(crate) file: Arc<DataFile>,
    pub(crate) rows: Option<(RowSelection, BlockCounts)>,
    /// The columns as they are read, where that is not as the table has them.
    pub(crate) schema: Option<SchemaRef>,
}

impl ScanPart {
    pub(crate) fn whole(file: &Arc<DataFile>) -> Self {
        Self { file: Arc::clone(file), rows: None, schema: None }
    }
}
