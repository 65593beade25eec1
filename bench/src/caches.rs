//! How far apart two processors are: the time in which a cache line goes from one to the other and back, and how much one
//! hands over to the other.
//!
//! It decides what a second thread is worth, and in a virtual machine it changes while it runs: some 60 ns when both
//! processors share a cache, 360 ns when the hypervisor has put them apart.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

/// Round trips of one measurement, and how many measurements there are: a processor that has other work to do answers
/// late, so the shortest counts.
const ROUNDS: u32 = 1000;
const TIMES: u32 = 200;
/// Then fewer must do.
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
        let (begin, mut shortest) = (Instant::now(), None);
        for _ in 0..TIMES {
            let round = Instant::now();
            for _ in 0..ROUNDS {
                line.fetch_add(1, Ordering::AcqRel);
                if !waits(true) {
                    return None;
                }
            }
            let spent = round.elapsed();
            shortest = Some(shortest.map_or(spent, |least: Duration| least.min(spent)));
            if begin.elapsed() > PATIENCE {
                break;
            }
        }
        shortest.map(|spent| spent.as_secs_f64() * 1e9 / f64::from(ROUNDS))
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

/// Bytes that are written at once, how many such pieces there are, and how often one is handed over.
const PIECE_BYTES: usize = 256 << 10;
const PIECES: u32 = 4;
const HAND_OVERS: u32 = 1000;

/// Gigabytes a second that processor 0 writes and processor 1 reads, one word of each cache line; `None` as above.
pub(crate) fn handed_over_gigabytes() -> Option<f64> {
    let pieces = [(); PIECES as usize].map(|()| Mutex::new(vec![0_u8; PIECE_BYTES]));
    let (written, read) = (AtomicU32::new(0), AtomicU32::new(0));
    let is_over = AtomicBool::new(false);
    let wait = |until: &dyn Fn() -> bool| {
        while !until() {
            if is_over.load(Ordering::Acquire) {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    };
    let piece =
        |at: u32| pieces[(at % PIECES) as usize].lock().unwrap_or_else(PoisonError::into_inner);
    let reader = || {
        let mut sum = 0_u64;
        let is_there = stay_on(1).is_ok();
        for at in 0..HAND_OVERS {
            if !is_there || !wait(&|| written.load(Ordering::Acquire) > at) {
                break;
            }
            sum += piece(at).iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>();
            read.store(at + 1, Ordering::Release);
        }
        is_over.store(true, Ordering::Release);
        sum
    };
    let writer = || {
        stay_on(0).ok()?;
        let begin = Instant::now();
        for at in 0..HAND_OVERS {
            let has_room = || read.load(Ordering::Acquire) + PIECES > at;
            if !wait(&has_room) {
                return None;
            }
            piece(at).fill(at.to_le_bytes()[0]);
            written.store(at + 1, Ordering::Release);
        }
        wait(&|| read.load(Ordering::Acquire) == HAND_OVERS);
        let bytes = f64::from(HAND_OVERS) * 262_144.0;
        (read.load(Ordering::Acquire) == HAND_OVERS)
            .then(|| bytes / begin.elapsed().as_secs_f64() / 1e9)
    };
    std::thread::scope(|scope| {
        let reading = scope.spawn(reader);
        let found = scope.spawn(|| {
            let found = writer();
            is_over.store(true, Ordering::Release);
            found
        });
        std::hint::black_box(reading.join().ok());
        found.join().ok().flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::{handed_over_gigabytes, round_trip_ns};

    #[test]
    fn a_round_trip_takes_longer_than_a_cache_and_ends() {
        // With one processor, or where threads may not choose theirs, there is none.
        let is_plausible = |ns: f64| (5.0..1e9).contains(&ns);
        assert!(round_trip_ns().is_none_or(is_plausible));
        assert!(handed_over_gigabytes().is_none_or(|gigabytes| gigabytes > 0.001));
    }
}
