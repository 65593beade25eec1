//! Copies chosen rows to other systems, so that nobody is locked in: Elasticsearch, Kafka, HTTP, objects in a bucket.
//!
//! An output reads the store's log from a durable position ([`Source`]), gathers a batch, sends it, and moves the position.
//! A target that is slow or dead never slows down ingest: the output tries again and again, and when too much waits it gives
//! up the oldest rows and counts them. A repeat is recognisable: a row's place in the log is its name.

mod batch;
mod client;
mod elastic;
mod http;
mod json;
mod kafka;
mod objects;
mod output;
mod status;
mod target;

pub use client::{Auth, Endpoint};
pub use elastic::Elastic;
pub use http::Http;
pub use kafka::{Kafka, KafkaOptions, Mechanism};
pub use objects::{Format, Objects, Put, Sink};
pub use output::{Limits, Output, Settings, Source};
pub use status::{Figures, Status};
pub use target::Target;
