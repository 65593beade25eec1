//! How far apart two processors are: the time in which a cache line goes from one to the other and back.
//!
//! It decides what a second thread is worth, and in a virtual machine it changes while it runs: some 60 ns when both
//! processors share a cache, 360 ns when the hypervisor has put them apart.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

/// Round trips of one measurement.
const ROUNDS: u32 = 200_000;
/// A processor that has other work to do answers late: then fewer round trips must do.
const PATIENCE: Duration = Duration::from_secs(2);

/// Stays on this processor from now on.
fn stay_on(cpu: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// Nanoseconds of a round trip between processors 0 and 1; `None` when a thread may not choose them.
pub(crate) fn round_trip_ns() -> Option<f64> {
    let (line, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    let waits = |is_odd: bool| {
        while (line.load(Ordering::Acquire) % 2 == 1) == is_odd {
            if is_over.load(Ordering::Acquire) {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    };
    let ask = || {
        let begin = Instant::now();
        let mut rounds = 0_u32;
        while rounds < ROUNDS && begin.elapsed() < PATIENCE {
            line.fetch_add(1, Ordering::AcqRel);
            if !waits(true) {
                return None;
            }
            rounds += 1;
        }
        Some(begin.elapsed().as_secs_f64() * 1e9 / f64::from(rounds.max(1)))
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_there = stay_on(1).is_ok();
            while is_there && waits(false) {
                line.fetch_add(1, Ordering::AcqRel);
            }
            is_over.store(true, Ordering::Release);
        });
        let asking = scope.spawn(|| {
            let found = if stay_on(0).is_ok() { ask() } else { None };
            is_over.store(true, Ordering::Release);
            found
        });
        asking.join().ok().flatten()
    })
}
