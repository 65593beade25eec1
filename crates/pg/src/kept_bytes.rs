//! Bytes that clients make weir keep between messages: prepared statements, and parameters of
//! portals. Bounded per connection and for all connections, since a count alone allows 1,000
//! statements of 4 MiB on each of 100 connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::PgError;

/// Limit of one connection.
const CONNECTION_BYTES_MAX: usize = 16 << 20;
/// Limit of all connections.
const TOTAL_BYTES_MAX: usize = 128 << 20;
/// Share of each statement or portal beside its text or parameters.
const ENTRY_BYTES: usize = 1 << 10;

/// Bytes kept for one connection, and for all.
pub(crate) struct KeptBytes {
    connection: Arc<AtomicUsize>,
    total: Arc<AtomicUsize>,
}

/// Bytes of one statement or portal, returned when it is dropped.
pub(crate) struct KeptShare {
    bytes: usize,
    counters: [Arc<AtomicUsize>; 2],
}

impl KeptBytes {
    /// Counter of a new connection; `total` counts for all.
    pub(crate) fn new(total: &Arc<AtomicUsize>) -> Self {
        Self { connection: Arc::default(), total: Arc::clone(total) }
    }

    /// Takes `bytes` for a statement or portal.
    pub(crate) fn take(&self, bytes: usize) -> Result<KeptShare, PgError> {
        let bytes = bytes.saturating_add(ENTRY_BYTES);
        if !add(&self.connection, bytes, CONNECTION_BYTES_MAX) {
            return Err(full("of this connection", CONNECTION_BYTES_MAX));
        }
        if !add(&self.total, bytes, TOTAL_BYTES_MAX) {
            self.connection.fetch_sub(bytes, Ordering::Relaxed);
            return Err(full("of all connections", TOTAL_BYTES_MAX));
        }
        let counters = [Arc::clone(&self.connection), Arc::clone(&self.total)];
        Ok(KeptShare { bytes, counters })
    }
}

impl Drop for KeptShare {
    fn drop(&mut self) {
        for counter in &self.counters {
            counter.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// Adds `bytes` unless the sum exceeds `max`.
fn add(counter: &AtomicUsize, bytes: usize, max: usize) -> bool {
    let sum = |kept: usize| kept.checked_add(bytes).filter(|sum| *sum <= max);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
}

fn full(whose: &str, max: usize) -> PgError {
    let text = format!("prepared statements and portals {whose} exceed {} MiB", max >> 20);
    PgError::new("53200", text).hint("send `deallocate all`, or prepare fewer statements")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded_and_returned() {
        let total = Arc::default();
        let one = KeptBytes::new(&total);
        let share = one.take(10 << 20).unwrap();
        assert!(one.take(10 << 20).is_err());
        assert!(one.take(usize::MAX).is_err());
        drop(share);
        let mut kept = vec![one.take(10 << 20).unwrap()];
        let others: Vec<KeptBytes> = (0..20).map(|_| KeptBytes::new(&total)).collect();
        kept.extend(others.iter().filter_map(|other| other.take(10 << 20).ok()));
        assert_eq!(kept.len(), 12);
        assert_eq!(others[19].connection.load(Ordering::Relaxed), 0);
        drop(kept);
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }
}
