//! The system clock: the one place where weir reads the time; the crates below take it as an
//! argument.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_tables::{Clock, Micros};

/// When the monotonic clock was read first.
static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The wall clock of this machine, UTC.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one clock that all the others come from")]
    fn now(&self) -> Micros {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Micros(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        FIRST.elapsed()
    }
}
