//! Random reads and writes of 4 KiB with direct I/O, until it is killed: a database's work on a disk.
//!
//! `random_io DEVICE BYTES WRITE_PERCENT THREADS`, over the device's first BYTES. Each thread has one operation in flight
//! and pauses 0 to 30 ms between two.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Duration;

use rustix::fs::OFlags;

const BLOCK_BYTES: u64 = 4096;
const PAUSE_MICROSECONDS: u64 = 30_000;

/// Direct I/O needs aligned memory.
#[repr(align(4096))]
struct AlignedBlock([u8; 4096]);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().ok_or("usage: random_io DEVICE BYTES WRITE_PERCENT THREADS");
    let (path, bytes) = (next()?, next()?.parse::<u64>()?);
    let (percent, threads) = (next()?.parse::<u64>()?, next()?.parse::<u64>()?);
    let direct = i32::try_from(OFlags::DIRECT.bits())?;
    let device = OpenOptions::new().read(true).write(true).custom_flags(direct).open(path)?;
    let area = RandomArea { device: &device, blocks: bytes / BLOCK_BYTES, percent };
    std::thread::scope(|scope| {
        let works: Vec<_> = (0..threads).map(|seed| scope.spawn(move || area.work(seed))).collect();
        works.into_iter().try_for_each(|work| work.join().expect("it does not panic"))
    })?;
    Ok(())
}

/// Blocks of a device, and the share of operations that write.
#[derive(Clone, Copy)]
struct RandomArea<'a> {
    device: &'a File,
    blocks: u64,
    percent: u64,
}

impl RandomArea<'_> {
    /// Ends with the first error.
    #[expect(clippy::disallowed_methods, reason = "paces the generator")]
    fn work(&self, seed: u64) -> std::io::Result<()> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut block = AlignedBlock([1; 4096]);
        loop {
            let offset = random.u64(..self.blocks) * BLOCK_BYTES;
            if random.u64(..100) < self.percent {
                self.device.write_all_at(&block.0, offset)?;
            } else {
                self.device.read_exact_at(&mut block.0, offset)?;
            }
            std::thread::sleep(Duration::from_micros(random.u64(..PAUSE_MICROSECONDS)));
        }
    }
}
