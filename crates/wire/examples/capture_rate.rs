//! Measures how fast a capture, or `tcpdump -tt` text, is read: `cargo run -p weir-wire --example
//! capture_rate FILE [THREADS]`.
//!
//! Five runs; each prints packets per second of wall-clock and of CPU time (all threads), and bytes
//! per second of CPU time.
#![expect(clippy::print_stdout, reason = "a command that prints its figures")]

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_wire::text::{LineReader, TextReader};
use weir_wire::{Capture, CaptureFormat, CaptureInput, Model, ModelOptions};

/// CPU seconds of all threads so far.
fn on_cpu() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(now).unwrap_or_default().as_secs_f64()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a capture is named");
    let threads = args.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let bytes = std::fs::metadata(&path).map_or(0, |meta| meta.len());
    for _ in 0..5 {
        let input = CaptureInput::open(Path::new(&path)).expect("it can be opened");
        let mut model = Model::new(ModelOptions { threads, ..ModelOptions::default() }, None);
        let (begin, cpu) = (Instant::now(), on_cpu());
        if input.format() == CaptureFormat::Text {
            let mut reader = TextReader::new(Box::new(|_| Some(0)), 0, 1);
            let mut lines = LineReader::new(b"", input);
            while reader.feed(&mut lines, &mut model).expect("it can be read").is_some() {}
        } else {
            let mut capture = Capture::new(input).expect("it is a capture");
            while capture.feed(&mut model).expect("it can be read") {}
        }
        let report = model.report();
        let (wall, cpu) = (begin.elapsed().as_secs_f64(), on_cpu() - cpu);
        #[expect(clippy::cast_precision_loss, reason = "counts and sizes are below 2^53")]
        let (packets, bytes) = (report.packets as f64, bytes as f64);
        println!(
            "{packets:.0} packets, {wall:.3} s, {cpu:.3} CPU-s: {:.2} M/s wall, {:.2} M/s CPU, {:.2} GB/s CPU, {}",
            packets / wall / 1e6,
            packets / cpu / 1e6,
            bytes / cpu / 1e9,
            report.verdict.as_str()
        );
    }
}
