//! What weir may cost its host, and its own edge: priority of threads, of disk requests, and processor time.
//!
//! Source: setpriority(2), getrlimit(2), sched(7). Priorities hold for the calling thread and those that it starts, so
//! they are set before the first thread, and only count when others want the processor or the disk; the share of
//! processor time counts always, and needs no cgroup and no right.

use std::time::{Duration, Instant};

use rustix::process::Resource;
use rustix::time::{ClockId, clock_gettime};

use crate::scheduling::{self, Waking};

/// Lowers the priority of this thread and of those that it will start; a word in the log where the system refuses.
pub fn lower(nice: u64, is_idle_io: bool) {
    let nice = i32::try_from(nice.min(19)).unwrap_or(19);
    if let Err(error) = rustix::process::nice(nice) {
        tracing::warn!("cannot lower the agent's priority by {nice}: {error}");
    }
    if is_idle_io && let Err(error) = scheduling::set_idle_io() {
        tracing::warn!("cannot make the agent's disk requests wait for others: {error}");
    }
}

/// Beside an edge: this thread, and those that it will start, wait when they wake while a thread that serves runs.
pub fn let_edge_run() {
    set_waking(Waking::Waits);
}

/// Runs `start`, whose threads serve visitors and wait for nobody. This thread waits again afterwards, as [`let_edge_run`] says.
pub fn as_edge<T>(start: impl FnOnce() -> T) -> T {
    set_waking(Waking::Interrupts);
    let started = start();
    let_edge_run();
    started
}

fn set_waking(waking: Waking) {
    if let Err(error) = scheduling::set_waking(waking) {
        tracing::warn!(
            "cannot set how threads beside the edge are scheduled: {error}; answers may wait for them"
        );
    }
}

/// Lets the process open as many files as its hard limit says: each log that is followed is an open file, and the usual
/// soft limit of 1,024 is for programs that use select(2).
pub fn raise_open_files() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = rustix::process::setrlimit(Resource::Nofile, limit) {
            tracing::warn!("cannot raise the limit of open files: {error}");
        }
    }
}

/// Up to this much of its share may be saved up and spent at once.
const BURST: Duration = Duration::from_secs(1);
/// One pause is at most this long, so that ending does not wait for it.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A bucket of processor time, filled by the wall clock.
#[derive(Debug)]
pub struct CpuShare {
    /// Of one processor; 0 sets no limit.
    percent: u64,
    available_seconds: f64,
    seen: Option<(Instant, Duration)>,
}

impl CpuShare {
    /// A share of one processor; 0 sets no limit.
    pub fn new(percent: u64) -> Self {
        Self { percent, available_seconds: 0.0, seen: None }
    }

    /// How long to pause now that the process has used `used` at `now`.
    #[expect(clippy::cast_precision_loss, reason = "a percentage")]
    fn pause_at(&mut self, now: Instant, used: Duration) -> Duration {
        if self.percent == 0 {
            return Duration::ZERO;
        }
        let share = self.percent as f64 / 100.0;
        let (then, used_then) = self.seen.replace((now, used)).unwrap_or((now, used));
        let gained = (now - then).as_secs_f64() * share;
        let spent = used.saturating_sub(used_then).as_secs_f64();
        self.available_seconds =
            (self.available_seconds + gained).min(BURST.as_secs_f64() * share) - spent;
        Duration::from_secs_f64((-self.available_seconds / share).max(0.0)).min(PAUSE_MAX)
    }

    /// Waits until this process has its share again.
    #[expect(clippy::disallowed_methods, reason = "giving time away is the purpose")]
    pub fn keep(&mut self) {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let used = Duration::new(
            u64::try_from(time.tv_sec).unwrap_or_default(),
            u32::try_from(time.tv_nsec).unwrap_or_default(),
        );
        let pause = self.pause_at(Instant::now(), used);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_used_more_than_its_share_pauses_until_it_has_it_again() {
        let mut share = CpuShare::new(50);
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(share.pause_at(start, Duration::ZERO), Duration::ZERO);
        // Half a second of processor time in one second is its share.
        assert_eq!(share.pause_at(start + second, second / 2), Duration::ZERO);
        // 200 ms without time going by cost 400 ms.
        let pause = share.pause_at(start + second, second / 2 + Duration::from_millis(200));
        assert!((pause.as_secs_f64() - 0.4).abs() < 1e-6, "{pause:?}");
        // A long rest saves up one second's share and no more.
        let rested = start + 100 * second;
        assert_eq!(share.pause_at(rested, second), Duration::ZERO);
        assert_eq!(share.pause_at(rested, second + Duration::from_secs(9)), PAUSE_MAX);
        assert_eq!(CpuShare::new(0).pause_at(rested, 100 * second), Duration::ZERO);
    }
}
