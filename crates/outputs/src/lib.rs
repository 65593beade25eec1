//! Copies rows to other systems: Elasticsearch, Kafka, HTTP, objects in a bucket.
//!
//! An output reads the store's log from a durable position ([`LogReader`]), collects a batch, sends
//! it, and advances the position. A slow or dead target never slows down ingest: the output
//! retries, and when its backlog exceeds the limit it gives up the oldest rows and counts them. A
//! repeat is recognizable, because a row's id is its position in the log.
//!
//! A target is one file and one line in `targets.rs`.

mod batch;
mod elastic;
mod error;
mod http;
mod http_client;
mod json;
mod kafka;
mod objects;
mod output;
mod settings;
mod status;
mod target;
mod targets;

pub use batch::BatchLimits;
pub use error::Error;
pub use output::{LogReader, Output, OutputSettings};
pub use settings::{
    BucketAddress, Credentials, ObjectSink, OpenBucket, PutFuture, SettingError, SettingSource,
    TargetAccess, TargetKind, TargetPlan,
};
pub use status::{OutputFigures, OutputStatus};
pub use target::OutputTarget;
pub use targets::TARGETS;
