//! Where data files are: below the data directory, or in the cold tier, which is a directory or a bucket.

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
