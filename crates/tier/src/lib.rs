//! Locations of data files: the data directory, or the cold tier in a directory or a bucket.

mod cold_tier;
mod objects;
mod options;
mod stats;

pub use cold_tier::{
    BucketTier, CacheSpace, ColdTier, FileLocations, MoverJob, MoverReport, RangeReader, TierMover,
    TieredStore, file_url, to_move,
};
pub use objects::{Bucket, BucketOptions, StoredObject};
pub use options::{ReadPrices, SlowBucketOptions, SlowOptions, SlowPlace, SlowRule};
pub use stats::BucketStats;
