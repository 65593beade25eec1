//! A token bucket over bytes that limits how fast an agent sends.

use std::time::{Duration, Instant};

/// Bytes per second, with a burst of one second's worth.
#[derive(Debug, Clone)]
pub struct Bandwidth {
    bytes_per_second: u64,
    available: f64,
    filled: Option<Instant>,
}

impl Bandwidth {
    /// Creates a limit; 0 means unlimited.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, available: 0.0, filled: None }
    }

    /// How long `bytes` must wait at `now`.
    #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
    fn reserve(&mut self, bytes: usize, now: Instant) -> Duration {
        let rate = self.bytes_per_second as f64;
        let since = self.filled.replace(now).map_or(1.0, |then| (now - then).as_secs_f64());
        self.available = (self.available + since * rate).min(rate) - bytes as f64;
        Duration::from_secs_f64((-self.available).max(0.0) / rate)
    }

    /// Waits until `bytes` may be sent.
    pub(crate) async fn take(&mut self, bytes: usize) {
        if self.bytes_per_second == 0 {
            return;
        }
        let wait = self.reserve(bytes, Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_wait_and_idle_time_saves_up_one_second() {
        let mut bucket = Bandwidth::new(1000);
        let start = Instant::now();
        assert_eq!(bucket.reserve(1000, start), Duration::ZERO);
        assert_eq!(bucket.reserve(500, start), Duration::from_millis(500));
        assert_eq!(bucket.reserve(500, start), Duration::from_secs(1));
        let later = start + Duration::from_secs(100);
        assert_eq!(bucket.reserve(1000, later), Duration::ZERO);
        assert_eq!(bucket.reserve(1, later), Duration::from_millis(1));
    }
}
