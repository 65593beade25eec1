//! `kill -9` at random moments while a generator writes numbered lines and rotates: afterwards
//! every line is there once.
//!
//! `WEIR_ROUNDS` sets how often it is killed (20), `WEIR_SEED` replays the generator's and the
//! killer's choices.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::harness::{SeededRandom, Weir, pause, quiet, serve, try_rows, wait_for};

/// A file lives at least this long, so that weir has met it before it is renamed.
const MIN_LIFE: Duration = Duration::from_secs(3);

/// Writes numbered lines until told to stop; gives how many it wrote.
pub(super) fn generate(log: &Path, is_ended: &AtomicBool, mut choose: SeededRandom) -> u64 {
    let open =
        || OpenOptions::new().create(true).append(true).open(log).expect("it can be written");
    let mut file: File = open();
    let mut born = Instant::now();
    let (mut written, mut rotations) = (0_u64, 0);
    while !is_ended.load(Ordering::Relaxed) {
        for _ in 0..choose.below(40) {
            written += 1;
            let line = format!("line {written:08} {}\n", "x".repeat(choose.index(200)));
            // Now and then a line arrives in two pieces.
            let at = if choose.below(8) == 0 { choose.index(line.len()) } else { 0 };
            file.write_all(&line.as_bytes()[..at]).expect("there is room");
            if at > 0 && choose.below(3) == 0 {
                pause(Duration::from_millis(choose.below(20)));
            }
            file.write_all(&line.as_bytes()[at..]).expect("there is room");
        }
        pause(Duration::from_millis(choose.below(10)));
        if born.elapsed() > MIN_LIFE && choose.below(50) == 0 {
            rotations += 1;
            rotate(log);
            // The writer continues in the old file for a moment, as every server does until it
            // reopens.
            written += 1;
            writeln!(file, "line {written:08} after the rename").expect("there is room");
            file = open();
            born = Instant::now();
        }
    }
    println!("{written} lines, {rotations} rotations");
    written
}

/// As logrotate does: .2 to .3, .1 to .2, the file to .1.
fn rotate(log: &Path) {
    let last = (1..).find(|n| !part_name(log, *n).exists()).expect("numbers do not end");
    for n in (1..last).rev() {
        std::fs::rename(part_name(log, n), part_name(log, n + 1)).expect("it is there");
    }
    std::fs::rename(log, part_name(log, 1)).expect("it is there");
}

fn part_name(log: &Path, n: u32) -> PathBuf {
    PathBuf::from(format!("{}.{n}", log.display()))
}

#[test]
fn every_line_is_there_once_after_kill_9_at_random_moments() {
    let rounds: u64 = std::env::var("WEIR_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("numbered.log");
    std::fs::write(&log, "").expect("it can be written");
    let mut choose = SeededRandom::new();
    let is_ended = Arc::new(AtomicBool::new(false));
    let generator = {
        let (log, is_ended) = (log.clone(), Arc::clone(&is_ended));
        let own = SeededRandom::new_from(choose.below(u64::MAX));
        std::thread::spawn(move || generate(&log, &is_ended, own))
    };
    for _ in 0..rounds {
        let weir = start_up(dir.path(), &log);
        pause(Duration::from_millis(choose.below(1500)));
        weir.kill();
    }
    is_ended.store(true, Ordering::Relaxed);
    let written = generator.join().expect("the generator does not fail");
    let weir = start_up(dir.path(), &log);
    let sql = "select count(*), count(distinct split_part(body, ' ', 2)), \
        min(split_part(body, ' ', 2)), max(split_part(body, ' ', 2)) from log where body like 'line %'";
    let distinct = wait_for("every line", Duration::from_secs(60), || {
        let rows = try_rows(&weir.url, sql).ok()?;
        let count = rows[0][0].as_u64()?;
        (count >= written).then(|| rows[0].clone())
    });
    assert_eq!(distinct[0], written, "rows: none twice");
    assert_eq!(distinct[1], written, "different rows: none lost");
    assert_eq!(distinct[2], "00000001");
    assert_eq!(distinct[3], format!("{written:08}"));
    assert_eq!(weir.terminate(), Some(0));
}

fn start_up(dir: &Path, log: &Path) -> Weir {
    let mut command = serve("up", &dir.join("data"));
    command.arg("--tail").arg(log).args(["--log-level", "warn"]);
    // Small limits, so that flushes to files happen between kills.
    command.env("WEIR_STORE_FLUSH_SECONDS", "1");
    quiet(&mut command);
    Weir::start(command)
}
