//! Keeps rows, answers SQL: write-ahead log, hot rows, Parquet, manifest.

mod adapt;
mod backup;
mod cluster;
mod columns;
mod compaction;
mod condition;
mod copies;
mod copy;
mod copy_positions;
mod directory;
mod explain;
mod far;
mod file_reader;
mod forecast;
mod functions;
mod guard;
mod iceberg;
mod inspect;
mod joins_on_disk;
mod kept_plans;
mod maintenance;
mod manifest;
mod newest_first;
mod objects;
mod options;
mod per_value;
mod postgres;
mod postgres_client;
mod query;
mod recent;
mod repair;
mod retention;
mod segments;
mod shared;
mod slow;
mod stats;
mod store;
mod streams;
mod table_provider;
mod tables;
mod text_index;
mod unordered_groups;
mod wal;
mod writer;

pub use backup::{
    BackedUp, BackupSnapshot, Restored, Verified, backup, backup_cluster, backup_snapshots,
    cluster_hubs, restore, restore_cluster, verify_backup,
};
pub use cluster::{
    ClusterOptions, ManifestOptions, Peer, PeerAsk, PeerFailure, PeerRows, Peers, QueryChannel,
    QueryWorker, query_channel,
};
pub use copies::CopyOptions;
pub use copy::Copy;
pub use forecast::{Forecast, Reading};
pub use guard::{EndedQuery, QueryEnd};
pub use iceberg::IcebergTable;
pub use inspect::{inspect, inspect_cluster};
pub use manifest::Hubs;
pub use objects::{Bucket, BucketOptions, StoredObject};
pub use options::{
    Asker, QueryLimits, ReadPrices, Retention, SlowBucketOptions, SlowOptions, SlowPlace, SlowRule,
    StoreOptions,
};
pub use postgres::Described;
pub use query::QueryResult;
pub use recent::{Recent, RowCondition, row_conditions};
pub use repair::{Mended, repair, repair_cluster};
pub use slow::RangeReader;
pub use stats::{BucketStats, StoreStats};
pub use store::Store;
pub use writer::Appended;

pub use weir_datafile::{
    ErrorKind, Inspection, ParquetFile, StoreError, TableCost, parquet_file, write_parquet,
};
