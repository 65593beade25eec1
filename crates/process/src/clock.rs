//! The system's clock: the one place where weir asks what time it is; every room below is handed the time.

use std::time::{SystemTime, UNIX_EPOCH};

use weir_tables::{Clock, Micros};

/// The wall clock of this machine, UTC.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one clock that all the others come from")]
    fn now(&self) -> Micros {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Micros(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
    }
}
