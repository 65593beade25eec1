//! Cost of following logs: CPU time for one large file, and for a thousand idle files.
//!
//! `cargo run -p weir-collect --example tail_cost [DIRECTORY]`. Writes 1 GB into DIRECTORY
//! (default: the system's temporary one) and removes it. The lines are read from the page cache, so
//! the figure is CPU time without disk.
#![expect(clippy::print_stdout, reason = "a program for a person")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_collect::logs::{TailOptions, Tailer};
use weir_tables::{LogFormat, LogSource, Micros, Program};

const LINE_BYTES: usize = 589;
const LINES: usize = 1_700_000;
const IDLE_FILES: usize = 1000;
const SCANS_PER_SECOND: u32 = 10;

fn main() -> std::io::Result<()> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let dir = parent.join(format!("weir-tail-cost-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let result = large_file(&dir).and_then(|()| idle_files(&dir));
    std::fs::remove_dir_all(&dir)?;
    result
}

fn large_file(dir: &std::path::Path) -> std::io::Result<()> {
    let path = dir.join("large.log");
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    let padding = "x".repeat(LINE_BYTES - 10);
    for line in 0..LINES {
        writeln!(file, "{line:09}{padding}")?;
    }
    file.flush()?;
    let mut tailer = tailer(path);
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let (mut bytes, mut lines, mut now) = (0, 0, Micros(0));
    while lines < LINES {
        now = now + Duration::from_millis(100);
        answer(&mut tailer, now);
        while let Some(chunk) = tailer.read(now) {
            bytes += chunk.bytes.len();
            lines += memchr::memchr_iter(b'\n', &chunk.bytes).count();
            tailer.acknowledge(chunk.stream, chunk.to);
            tailer.recycle(chunk.bytes);
        }
    }
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let millions = lines as f64 / 1e6;
    println!(
        "{lines} lines, {bytes} bytes: {cpu:.3} CPU-s, {wall:.3} s, {:.3} CPU-s per million lines, {:.2} M lines/s",
        cpu / millions,
        millions / wall
    );
    Ok(())
}

fn idle_files(dir: &std::path::Path) -> std::io::Result<()> {
    for number in 0..IDLE_FILES {
        std::fs::write(dir.join(format!("idle{number:04}.log")), format!("first line {number}\n"))?;
    }
    let mut tailer = tailer(dir.join("idle*.log"));
    let mut now = Micros(0);
    let seconds = 60;
    let mut warm = None;
    for scan in 0..(30 + seconds) * SCANS_PER_SECOND {
        if scan == 30 * SCANS_PER_SECOND {
            warm = Some(cpu_seconds());
        }
        now = now + Duration::from_secs(1) / SCANS_PER_SECOND;
        answer(&mut tailer, now);
        while let Some(chunk) = tailer.read(now) {
            tailer.acknowledge(chunk.stream, chunk.to);
        }
    }
    let cpu = cpu_seconds() - warm.unwrap_or_default();
    println!(
        "{} idle files, {SCANS_PER_SECOND} scans a second: {:.3} % of one core",
        tailer.status().len(),
        cpu / f64::from(seconds) * 100.0
    );
    Ok(())
}

fn tailer(path: std::path::PathBuf) -> Tailer {
    let mut tailer = Tailer::new(TailOptions { host: "bench".into(), ..TailOptions::default() });
    tailer.set_sources(vec![LogSource {
        path,
        program: Program::Other,
        format: LogFormat::Auto,
        found_in: "--tail".into(),
    }]);
    tailer
}

/// Scans, and answers that every stream is new.
fn answer(tailer: &mut Tailer, now: Micros) {
    for new in tailer.scan(now) {
        tailer.start(new.stream, None);
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
