//! A writer of numbered lines whose log is rotated in every way that logrotate and people know.
//!
//! What no reader could survive is left out (`docs/formats/stream-identity.md`). A file that is
//! deleted while no agent has it open is gone, so it is deleted once its lines are at the hub. Then
//! there is no part beside the next one by which an agent that starts could tell it from the past,
//! so that one is not rotated before the hub has heard of it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::harness::{SeededRandom, pause, try_rows};

/// A file lives at least this long, so that an agent has met it before it is renamed.
const MIN_LIFE: Duration = Duration::from_secs(3);

pub(super) struct LogWriter {
    log: PathBuf,
    file: File,
    choose: SeededRandom,
    hub: String,
    born: Instant,
    written: u64,
    /// Lines that had to be at the hub before the log was deleted, until the hub has heard of the
    /// next file.
    deleted_at: Option<u64>,
    /// The kind of each rotation, and the line before it.
    rotations: Vec<(&'static str, u64)>,
}

fn open(log: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(log).expect("it can be written")
}

impl LogWriter {
    /// `hub` is queried for lines that have arrived.
    pub(super) fn new(log: &Path, choose: SeededRandom, hub: String) -> Self {
        let (log, file, born) = (log.to_owned(), open(log), Instant::now());
        Self { log, file, choose, hub, born, written: 0, deleted_at: None, rotations: Vec::new() }
    }

    /// Gives how many lines it wrote.
    pub(super) fn write_until(mut self, is_ended: &AtomicBool) -> u64 {
        while !is_ended.load(Ordering::Relaxed) {
            for _ in 0..self.choose.below(40) {
                self.line();
            }
            pause(Duration::from_millis(self.choose.below(10)));
            if self.born.elapsed() > MIN_LIFE && self.choose.below(50) == 0 {
                self.rotate();
                self.line();
                self.born = Instant::now();
            }
        }
        self.line();
        println!("{} lines, rotations: {:?}", self.written, self.rotations);
        self.written
    }

    fn line(&mut self) {
        self.written += 1;
        let line = format!("line {:08} {}\n", self.written, "x".repeat(self.choose.index(200)));
        // Now and then a line arrives in two pieces.
        let at = if self.choose.below(8) == 0 { self.choose.index(line.len()) } else { 0 };
        self.file.write_all(&line.as_bytes()[..at]).expect("there is room");
        if at > 0 && self.choose.below(3) == 0 {
            pause(Duration::from_millis(self.choose.below(20)));
        }
        self.file.write_all(&line.as_bytes()[at..]).expect("there is room");
    }

    fn rotate(&mut self) {
        // A file that is rotated away before the hub has heard of it is the past, which is not read
        // (docs/formats).
        if self.rotations.is_empty() && !self.are_at_the_hub(1) {
            return;
        }
        let way = ["rename", "copytruncate", "gzip", "zstd", "delete"][self.choose.index(5)];
        if self.deleted_at.is_some_and(|at| !self.are_at_the_hub(at + 1)) {
            return;
        }
        self.deleted_at = None;
        let way =
            if way == "delete" && !self.are_at_the_hub(self.written) { "rename" } else { way };
        self.rotations.push((way, self.written));
        if way == "delete" {
            self.deleted_at = Some(self.written);
            std::fs::remove_file(&self.log).expect("it is there");
            self.file = open(&self.log);
            return;
        }
        self.shift();
        let first = self.name(1, "");
        match way {
            "copytruncate" => {
                std::fs::copy(&self.log, &first).expect("there is room");
                self.file.set_len(0).expect("it is ours");
            }
            _ => {
                std::fs::rename(&self.log, &first).expect("it is there");
                // The writer continues in the old file for a moment, as every server does until it
                // reopens.
                self.line();
                self.file = open(&self.log);
            }
        }
        if let "gzip" | "zstd" = way {
            self.pack(way);
        }
    }

    /// As logrotate does: .2 to .3, .1 to .2, each packed or not.
    fn shift(&self) {
        let endings = ["", ".gz", ".zst"];
        let found = |n: u32| endings.into_iter().find(|end| self.name(n, end).exists());
        let last = (1..).find(|n| found(*n).is_none()).expect("numbers do not end");
        for n in (1..last).rev() {
            let end = found(n).expect("it was there");
            std::fs::rename(self.name(n, end), self.name(n + 1, end)).expect("it is there");
        }
    }

    /// Packs the newest part at once, as without `delaycompress`.
    fn pack(&self, way: &str) {
        let mut command = Command::new(way);
        if way == "zstd" {
            command.args(["--rm", "-q"]);
        }
        let packed = command.arg(self.name(1, "")).status();
        assert!(packed.expect("it is installed").success(), "{way}");
    }

    fn name(&self, number: u32, end: &str) -> PathBuf {
        PathBuf::from(format!("{}.{number}{end}", self.log.display()))
    }

    /// Whether this many lines arrive soon.
    fn are_at_the_hub(&self, lines: u64) -> bool {
        let end = Instant::now() + Duration::from_secs(15);
        let sql = "select count(*) from log where body like 'line %'";
        while Instant::now() < end {
            let rows = try_rows(&self.hub, sql).unwrap_or_default();
            if rows.first().is_some_and(|row| row[0].as_u64() >= Some(lines)) {
                return true;
            }
            pause(Duration::from_millis(100));
        }
        false
    }
}
