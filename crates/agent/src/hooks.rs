//! What a program lends to the agent that this crate does not have: a client of buckets, and the rules' list of settings.
//!
//! `weir` has both; `weir-agent` has neither, which keeps the store and the rules out of it.

use weir_process::failure::Failure;

use crate::trial::journal::IsTryable;
use crate::watch::{BucketOptions, ObjectSource};

/// Opens a bucket; nothing is sent to the service yet.
pub type OpenBucket = fn(&BucketOptions) -> Result<Box<dyn ObjectSource>, Failure>;

/// What a program lends.
#[derive(Clone, Copy, Debug)]
pub struct AgentHooks {
    /// For `[[buckets]]`.
    pub open_bucket: OpenBucket,
    /// For trials of settings that died; without it they are neither reported nor put back.
    pub is_tryable: Option<IsTryable>,
}
