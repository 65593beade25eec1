//! Bodies of requests, read as they come: memory is taken by chunk, not by `Content-Length`.
//!
//! A sender that announces much and sends little holds little. Who holds more than
//! [`FREE_BYTES`] must go on at [`MINIMUM_BYTES`] for each [`RATE_WINDOW`].

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::time::Instant;

use crate::memory::MemoryHold;
use crate::response::Refusal;

/// How long a body may take to arrive.
const WITHIN: Duration = Duration::from_secs(60);
/// How long a request waits for memory before it is refused.
pub(crate) const MEMORY_PATIENCE: Duration = Duration::from_millis(500);
/// An unfinished body or frame of this length may arrive at any speed.
pub(crate) const FREE_BYTES: usize = 64 << 10;
/// Bytes of a longer one that must arrive in each window.
const MINIMUM_BYTES: usize = 10 << 10;
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// A body that arrives in chunks.
pub trait BodySource: Send {
    /// The next chunk; `None` at the end, and the reason when the connection broke.
    fn next(&mut self) -> impl Future<Output = Option<Result<Bytes, String>>> + Send;
}

/// Whether bytes keep coming.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinimumRate {
    window_end: Instant,
    bytes: usize,
}

impl MinimumRate {
    pub(crate) fn new(now: Instant) -> Self {
        Self { window_end: now + RATE_WINDOW, bytes: 0 }
    }

    /// When to check again if nothing comes.
    pub(crate) fn check_at(&self) -> Instant {
        self.window_end
    }

    /// Adds what came; `false` when a window has ended and too little came within it.
    pub(crate) fn is_kept(&mut self, bytes: usize, now: Instant) -> bool {
        self.bytes += bytes;
        if now < self.window_end {
            return true;
        }
        let is_kept = self.bytes >= MINIMUM_BYTES;
        *self = Self::new(now);
        is_kept
    }
}

/// Reads a whole body into memory that `hold` takes.
pub(crate) async fn read_body(
    mut body: impl BodySource,
    limit: usize,
    hold: &MemoryHold,
) -> Result<Bytes, Refusal> {
    let end = Instant::now() + WITHIN;
    let (mut bytes, mut rate) = (Vec::new(), MinimumRate::new(Instant::now()));
    loop {
        let chunk = match tokio::time::timeout_at(rate.check_at().min(end), body.next()).await {
            Ok(None) => return Ok(bytes.into()),
            Ok(Some(Err(why))) => return Err(broken(&why)),
            Ok(Some(Ok(chunk))) => chunk,
            Err(_) => Bytes::new(),
        };
        let now = Instant::now();
        if now >= end {
            return Err(broken(&format!("it took more than {} s", WITHIN.as_secs())));
        }
        if !rate.is_kept(chunk.len(), now) && bytes.len() > FREE_BYTES {
            return Err(broken("it arrives too slowly"));
        }
        if bytes.len() + chunk.len() > limit {
            return Err(too_large(limit));
        }
        if !hold.grow(chunk.len(), MEMORY_PATIENCE).await {
            return Err(no_memory());
        }
        bytes.extend_from_slice(&chunk);
    }
}

fn broken(why: &str) -> Refusal {
    let message = format!("cannot read the body: {why}");
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "body_broken", message)
}

/// The refusal of a body over the limit.
pub(crate) fn too_large(limit: usize) -> Refusal {
    let message = format!("the body is larger than {limit} bytes");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
        .hint("send smaller batches, or raise `intake.body_bytes`")
}

/// The refusal while others use the memory.
pub(crate) fn no_memory() -> Refusal {
    let message = "too many bytes are in flight";
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "no_room", message)
        .hint("retry in a second, or raise `intake.in_flight_bytes`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_with_too_little_is_noticed() {
        let start = Instant::now();
        let mut rate = MinimumRate::new(start);
        assert!(rate.is_kept(1, start));
        assert!(rate.is_kept(MINIMUM_BYTES - 1, start + RATE_WINDOW));
        assert!(rate.is_kept(100_000, start + RATE_WINDOW), "it counts for the window it came in");
        assert!(rate.is_kept(0, start + RATE_WINDOW * 2));
        assert!(!rate.is_kept(MINIMUM_BYTES - 1, start + RATE_WINDOW * 3));
    }
}
