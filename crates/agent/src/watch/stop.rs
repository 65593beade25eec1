//! A stop flag for threads that also wakes sleeping ones.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Set once, never unset; [`StopFlag::nudge`] wakes waiters without it.
#[derive(Debug, Default)]
pub struct StopFlag {
    state: Mutex<StopState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct StopState {
    is_set: bool,
    nudges: u64,
}

impl StopFlag {
    /// Tells everybody to end.
    pub fn set(&self) {
        self.state.lock().is_set = true;
        self.changed.notify_all();
    }

    /// Whether it is time to end.
    pub fn is_set(&self) -> bool {
        self.state.lock().is_set
    }

    /// Ends the waits of [`StopFlag::wait_for_nudge`].
    pub fn nudge(&self) {
        self.state.lock().nudges += 1;
        self.changed.notify_all();
    }

    /// Waits for `span`; `true` when it is time to end.
    pub fn wait(&self, span: Duration) -> bool {
        self.wait_while(span, |_| true)
    }

    /// Waits for `span` or a nudge that came after `seen`; `true` when it is time to end. `seen` is
    /// brought up to date.
    pub fn wait_for_nudge(&self, span: Duration, seen: &mut u64) -> bool {
        let before = *seen;
        let is_set = self.wait_while(span, |state| state.nudges == before);
        *seen = self.state.lock().nudges;
        is_set
    }

    fn wait_while(&self, span: Duration, goes_on: impl Fn(&StopState) -> bool) -> bool {
        let end = Instant::now() + span;
        let mut state = self.state.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if state.is_set || left.is_zero() || !goes_on(&state) {
                return state.is_set;
            }
            self.changed.wait_for(&mut state, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::StopFlag;

    #[test]
    fn waiters_wake_at_stop_and_at_nudges() {
        let stop = Arc::new(StopFlag::default());
        assert!(!stop.wait(Duration::from_millis(1)));
        stop.nudge();
        let mut seen = 0;
        assert!(!stop.wait_for_nudge(Duration::from_secs(60), &mut seen));
        assert_eq!(seen, 1);
        let other = Arc::clone(&stop);
        let waiter = std::thread::spawn(move || other.wait(Duration::from_secs(60)));
        stop.set();
        assert!(waiter.join().expect("no panic"));
        assert!(stop.is_set());
    }
}
