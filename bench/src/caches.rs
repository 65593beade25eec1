//! The distance of two CPUs: the round-trip time of a cache line, and the throughput from one to
//! the other.
//!
//! It limits the gain from a second thread. In a virtual machine it changes at run time: some 60 ns
//! when both CPUs share a cache, 360 ns when the hypervisor has placed them apart.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Round trips per measurement.
const ROUNDS: u32 = 1000;
/// Measurements, of which the shortest counts, since a busy CPU replies late.
const TIMES: u32 = 200;
/// Time limit of all measurements.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pins this thread to a CPU.
fn stay_on(cpu: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// A counter that two threads increment in turns.
#[derive(Default)]
struct PingPong {
    count: AtomicU32,
    is_over: AtomicBool,
}

impl PingPong {
    /// Spins while the count is odd, or even; false when the measurement is over.
    fn wait_while(&self, is_odd: bool) -> bool {
        while (self.count.load(Ordering::Acquire) % 2 == 1) == is_odd {
            if self.is_over.load(Ordering::Acquire) {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }

    /// Nanoseconds of the shortest round trip.
    fn measure(&self) -> Option<f64> {
        let (begin, mut shortest) = (Instant::now(), None);
        for _ in 0..TIMES {
            let round = Instant::now();
            for _ in 0..ROUNDS {
                self.count.fetch_add(1, Ordering::AcqRel);
                if !self.wait_while(true) {
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
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}

/// Nanoseconds of a round trip between CPUs 0 and 1; `None` if a thread may not choose them.
pub(crate) fn round_trip_ns() -> Option<f64> {
    let line = PingPong::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_there = stay_on(1).is_ok();
            while is_there && line.wait_while(false) {
                line.count.fetch_add(1, Ordering::AcqRel);
            }
            line.end();
        });
        let measuring = scope.spawn(|| {
            let found = if stay_on(0).is_ok() { line.measure() } else { None };
            line.end();
            found
        });
        measuring.join().ok().flatten()
    })
}

/// Bytes written at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Buffers of that size.
const PIECES: u32 = 4;
/// Buffers handed from writer to reader in one measurement.
const HAND_OVERS: u32 = 1000;

/// Buffers between a writer and a reader.
struct Handover {
    pieces: [Mutex<Vec<u8>>; PIECES as usize],
    written: AtomicU32,
    read: AtomicU32,
    is_over: AtomicBool,
}

impl Handover {
    /// Spins until `counter` exceeds `at`; false when the measurement is over.
    fn wait_until(&self, counter: &AtomicU32, at: i64) -> bool {
        while i64::from(counter.load(Ordering::Acquire)) <= at {
            if self.is_over.load(Ordering::Acquire) {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }

    fn piece(&self, at: u32) -> MutexGuard<'_, Vec<u8>> {
        self.pieces[(at % PIECES) as usize].lock()
    }

    /// Reads one word of each cache line of each buffer.
    fn run_reader(&self) -> u64 {
        let mut sum = 0_u64;
        let is_there = stay_on(1).is_ok();
        for at in 0..HAND_OVERS {
            if !is_there || !self.wait_until(&self.written, i64::from(at)) {
                break;
            }
            sum += self.piece(at).iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>();
            self.read.store(at + 1, Ordering::Release);
        }
        self.is_over.store(true, Ordering::Release);
        sum
    }

    /// Fills each buffer; gigabytes per second until the reader has all.
    fn run_writer(&self) -> Option<f64> {
        stay_on(0).ok()?;
        let begin = Instant::now();
        for at in 0..HAND_OVERS {
            if !self.wait_until(&self.read, i64::from(at) - i64::from(PIECES)) {
                return None;
            }
            self.piece(at).fill(at.to_le_bytes()[0]);
            self.written.store(at + 1, Ordering::Release);
        }
        self.wait_until(&self.read, i64::from(HAND_OVERS) - 1);
        let bytes = f64::from(HAND_OVERS) * 262_144.0;
        (self.read.load(Ordering::Acquire) == HAND_OVERS)
            .then(|| bytes / begin.elapsed().as_secs_f64() / 1e9)
    }
}

/// Gigabytes per second from CPU 0 to CPU 1; `None` if a thread may not choose them.
pub(crate) fn handed_over_gigabytes() -> Option<f64> {
    let handover = Handover {
        pieces: [(); PIECES as usize].map(|()| Mutex::new(vec![0_u8; PIECE_BYTES])),
        written: AtomicU32::new(0),
        read: AtomicU32::new(0),
        is_over: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| handover.run_reader());
        let found = scope.spawn(|| {
            let found = handover.run_writer();
            handover.is_over.store(true, Ordering::Release);
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
        // There is no result with one CPU, or where threads may not choose theirs.
        assert!(round_trip_ns().is_none_or(|ns| (5.0..1e9).contains(&ns)));
        assert!(handed_over_gigabytes().is_none_or(|gigabytes| gigabytes > 0.001));
    }
}
