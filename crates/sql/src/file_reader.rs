//! Readers of data files: footers are cached, and the blocks skipped by the text index are counted
//! in the plan's metrics.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::parquet::{
    CachedParquetFileReaderFactory, ParquetFileReaderFactory,
};
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use weir_datafile::{DataFile, FOOTER_BYTES_HINT};

use crate::index_probe::BlockCounts;
use crate::limits::QueryUsage;

/// Reads a file's footer with its page index, through the cache `footers`.
///
/// # Errors
/// When the file cannot be read.
pub(crate) async fn read_footer(
    meta: &ObjectMeta,
    store: &dyn ObjectStore,
    footers: &Arc<FileMetadataCache>,
) -> Result<Arc<ParquetMetaData>> {
    DFParquetMetadata::new(store, meta)
        .with_file_metadata_cache(Some(Arc::clone(footers)))
        .with_metadata_size_hint(Some(FOOTER_BYTES_HINT))
        .with_page_index_policy(Some(PageIndexPolicy::Optional))
        .fetch_metadata()
        .await
}

/// Reader factory; `explain analyze` shows its counts beside Parquet's own.
#[derive(Debug)]
pub(crate) struct CountingReaders(CachedParquetFileReaderFactory);

impl CountingReaders {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, footers: Arc<FileMetadataCache>) -> Self {
        Self(CachedParquetFileReaderFactory::new(store, footers))
    }
}

impl ParquetFileReaderFactory for CountingReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        footer_bytes: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        if let Some(data_file) = file.extension::<Arc<DataFile>>() {
            QueryUsage::note_opened(data_file);
        }
        if let Some(counts) = file.extension::<BlockCounts>() {
            let add = |name, count| MetricBuilder::new(metrics).counter(name, partition).add(count);
            counts.counted.call_once(|| {
                add("text_index_blocks_kept", counts.kept);
                add("text_index_blocks_left_out", counts.left_out);
            });
        }
        self.0.create_reader(partition, file, footer_bytes, metrics)
    }
}
