//! How fast a capture is read: `cargo run -p weir-wire --example capture_rate FILE [THREADS]`.
//!
//! Five readings; each prints packets a second of wall clock and of processor time (of all threads), and bytes of the
//! file a second of processor time.
#![expect(clippy::print_stdout, reason = "a command that prints its figures")]

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_wire::{Capture, Input, Model, Options};

/// Seconds on the processor so far, of all threads.
fn on_cpu() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(now).unwrap_or_default().as_secs_f64()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a capture is named");
    let threads = args.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    for _ in 0..5 {
        let input = Input::open(Path::new(&path)).expect("it can be opened");
        let mut capture = Capture::new(input).expect("it is a capture");
        let mut model = Model::new(Options { threads, ..Options::default() }, None);
        let (begin, cpu) = (Instant::now(), on_cpu());
        while capture.feed(&mut model).expect("it can be read") {}
        let report = model.report();
        let (wall, cpu) = (begin.elapsed().as_secs_f64(), on_cpu() - cpu);
        #[expect(clippy::cast_precision_loss, reason = "counts and sizes are below 2^53")]
        let (packets, bytes) = (report.packets as f64, capture.progress().0 as f64);
        println!(
            "{packets:.0} packets, {wall:.2} s, {cpu:.2} CPU-s: {:.2} M/s wall, {:.2} M/s CPU, {:.2} GB/s CPU, {}",
            packets / wall / 1e6,
            packets / cpu / 1e6,
            bytes / cpu / 1e9,
            report.verdict.as_str()
        );
    }
}
