//! Nanoseconds since this process first asked: one monotonic number that atomics can hold.
//!
//! Durations come from here; instants of rows come from the clock that was handed in.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Now, in nanoseconds; never 0, so that 0 can stand for never.
pub(crate) fn now_ns() -> u64 {
    nanos(START.elapsed()) + 1
}

/// A span in nanoseconds.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds from `from` to `to` as seconds.
#[expect(clippy::cast_precision_loss, reason = "spans of requests are far below 2^53 ns")]
pub(crate) fn seconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}
