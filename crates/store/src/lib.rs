//! Keeps rows, answers SQL: write-ahead log, hot rows, Parquet, manifest.

mod adapt;
mod backup;
mod cluster;
mod compaction;
mod copies;
mod copy;
mod copy_positions;
mod directory;
mod iceberg;
mod inspect;
mod maintenance;
mod manifest;
mod options;
mod postgres_client;
mod recent;
mod repair;
mod retention;
mod segments;
mod shared;
mod slow_tier;
mod stats;
mod store;
mod streams;
mod wal;
mod writer;

pub use backup::{
    BackedUp, BackupSnapshot, Restored, Verified, backup, backup_cluster, backup_snapshots,
    cluster_hubs, restore, restore_cluster, verify_backup,
};
pub use cluster::{ClusterOptions, ManifestOptions};
pub use copies::CopyOptions;
pub use copy::Copy;
pub use iceberg::IcebergTable;
pub use inspect::{inspect, inspect_cluster};
pub use manifest::Hubs;
pub use options::{Retention, StoreOptions};
pub use recent::Recent;
pub use repair::{Mended, repair, repair_cluster};
pub use stats::StoreStats;
pub use store::Store;
pub use writer::Appended;

pub use weir_datafile::{
    ErrorKind, Inspection, ParquetFile, StoreError, TableCost, parquet_file, write_parquet,
};
pub use weir_sql::{
    Asker, Described, EndedQuery, Forecast, Peer, PeerAsk, PeerFailure, PeerRows, Peers,
    QueryChannel, QueryEnd, QueryLimits, QueryResult, QueryWorker, Reading, RowCondition,
    query_channel, row_conditions,
};
pub use weir_tier::{
    Bucket, BucketOptions, BucketStats, RangeReader, ReadPrices, SlowBucketOptions, SlowOptions,
    SlowPlace, SlowRule, StoredObject,
};
