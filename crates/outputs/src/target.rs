//! The trait that every target implements, and the state of a batch while it is being sent.
//!
//! A new target is one file with an implementation of [`Target`] and its `TargetKind`, and one line
//! in `targets.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::batch::{Batch, BatchForm};
use crate::error::Error;

/// An attempt to send a batch.
pub(crate) type SendFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>;

/// A system that rows are copied to.
pub(crate) trait Target: fmt::Debug + Send {
    /// The form of rows that it needs.
    fn form(&self) -> BatchForm;

    /// Sends the pending rows and removes the rows that a response has settled.
    ///
    /// # Errors
    /// Rows are still pending, and why.
    fn send<'a>(&'a mut self, batch: &'a Batch, pending: &'a mut PendingRows) -> SendFuture<'a>;
}

/// A target that is ready to send.
#[derive(Debug)]
pub struct OutputTarget(pub(crate) Box<dyn Target>);

/// Rows of a batch that no response has settled yet, and the outcomes of the others.
#[derive(Debug, Default)]
pub(crate) struct PendingRows {
    /// Numbers of the unsettled rows, ascending.
    pub(crate) rows: Vec<usize>,
    /// Rows that the target accepted now.
    pub(crate) copied: u64,
    /// Rows that the target had already.
    pub(crate) repeats: u64,
    /// Rows that the target will never accept, by reason.
    pub(crate) refused: BTreeMap<String, u64>,
}

/// Distinct reasons in one batch.
const REASONS_MAX: usize = 16;

impl PendingRows {
    /// All rows of a batch.
    pub(crate) fn new(batch: &Batch) -> Self {
        Self { rows: (0..batch.rows.len()).collect(), ..Self::default() }
    }

    /// Counts a row that the target will never accept.
    pub(crate) fn refuse(&mut self, reason: &str) {
        let is_known = self.refused.contains_key(reason) || self.refused.len() < REASONS_MAX;
        *self.refused.entry(if is_known { reason } else { "other" }.to_owned()).or_default() += 1;
    }
}
