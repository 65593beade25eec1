//! A hub that stores nothing and counts the rows it was given.

use std::sync::atomic::{AtomicUsize, Ordering};

use weir_intake::{Hub, KeepFuture, LineGroup, ParsedLines};
use weir_tables::{Batch, Micros};

use crate::NOW;

/// Counts rows, except those about the intake itself.
#[derive(Debug, Default)]
pub struct CountingHub {
    rows: AtomicUsize,
}

impl CountingHub {
    /// Rows kept and lines parsed so far.
    pub fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }
}

impl Hub for CountingHub {
    fn now(&self) -> Micros {
        NOW
    }

    fn host(&self) -> &str {
        "hub"
    }

    fn parse(&self, lines: &LineGroup, _observed: Micros) -> ParsedLines {
        let count = lines.bytes.iter().filter(|byte| **byte == b'\n').count();
        self.rows.fetch_add(count, Ordering::Relaxed);
        ParsedLines::default()
    }

    fn clean(&self, batch: Batch) -> Batch {
        batch
    }

    fn keep(&self, batches: Vec<Batch>) -> KeepFuture<'_> {
        let rows = batches.iter().filter(|batch| batch.table.name != "intake_batch");
        let count = rows.map(|batch| batch.rows.num_rows()).sum();
        self.rows.fetch_add(count, Ordering::Relaxed);
        Box::pin(async { Ok(()) })
    }
}
