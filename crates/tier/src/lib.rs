//! Where data files are: below the data directory, or in the cold tier, which is a directory or a bucket.

mod cold_tier;
mod objects;
mod options;
mod stats;

pub use cold_tier::{
    CacheRoom, Done, Job, Mover, Places, RangeReader, RoutedStore, Slow, SlowBucket, file_url,
    to_move,
};
pub use objects::{Bucket, BucketOptions, StoredObject};
pub use options::{ReadPrices, SlowBucketOptions, SlowOptions, SlowPlace, SlowRule};
pub use stats::BucketStats;
