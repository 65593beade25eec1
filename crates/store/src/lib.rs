//! Stores rows durably: write-ahead log, memtable, data files, manifest, cluster, backup.
//!
//! ```text
//! weir-store     write path, manifest, maintenance, cluster, backup, repair
//!   weir-sql       queries: plans, columns, limits, PostgreSQL's catalog
//!     weir-tier      where data files are: the data directory, a directory, a bucket
//!       weir-datafile  memtable, Parquet files, text index, checks
//! ```

mod backup;
mod cluster;
mod condition_watch;
mod copies;
mod directory;
mod iceberg;
mod inspect;
mod maintenance;
mod manifest;
mod opening;
mod options;
mod postgres_client;
mod private;
mod repair;
mod stats;
mod store;
mod store_query;
mod undelete;
mod watch;
mod write_path;

pub use backup::{
    BackupCheck, BackupSnapshot, BackupSummary, RestoreSummary, backup, backup_cluster,
    backup_snapshots, cluster_hubs, restore, restore_cluster, verify_backup,
};
pub use cluster::SharedLedger;
pub use condition_watch::ConditionWatch;
pub use copies::{Copy, CopyOptions};
pub use iceberg::IcebergTable;
pub use inspect::{inspect, inspect_cluster};
pub use manifest::Hubs;
pub use options::{ClusterOptions, ManifestOptions, Retention, StoreOptions};
pub use repair::{FileRepair, repair, repair_cluster};
pub use stats::{StoreFault, StoreStats};
pub use store::Store;
pub use store_query::StoreQuery;
pub use undelete::{RestoredFiles, undelete, undelete_cluster};
pub use write_path::Appended;

pub use weir_datafile::{
    ErrorKind, Inspection, ParquetFile, ParquetStream, StoreError, TableCost, parquet_file,
    write_parquet,
};
pub use weir_sql::{
    Asker, Described, EndedQuery, Forecast, Peer, PeerAsk, PeerFailure, PeerRows, Peers, Query,
    QueryChannel, QueryEnd, QueryLimits, QueryResult, QueryStream, QueryWorker, ReadEstimate,
    RowCondition, query_channel, row_conditions,
};
pub use weir_tier::{
    Bucket, BucketOptions, BucketStats, RangeReader, ReadPrices, SlowBucketOptions, SlowOptions,
    SlowPlace, SlowRule, StoredObject,
};
