//! A writer that rotates in every way, a reader that dies at any moment, a hub that loses and
//! delays: every numbered line arrives once.
//!
//! Real files in a real directory; all randomness comes from one seed. `WEIR_SEED` replays one run,
//! `WEIR_ROUNDS` sets the number of runs (40). Files that no reader could know, because they vanish
//! before one sees them, are excluded.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::tests::{TailBench, tail};

struct TestRandom(fastrand::Rng);

impl TestRandom {
    fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    fn one_in(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogShape {
    /// A file whose lines are all different.
    Plain,
    /// A file whose first line is always the same.
    SameStart,
    /// A symbolic link to a file with a number in its name.
    Link,
}

struct SimulatedWriter {
    chance: TestRandom,
    bench: TailBench,
    shape: LogShape,
    /// The only kind of rotation, if any.
    only: Option<&'static str>,
    /// Whether workers write to a renamed part, as they may where parts are not compressed at once.
    has_late: bool,
    writer: File,
    offset: Option<u64>,
    /// File before the last rename, unless it was compressed or removed.
    old_writer: Option<File>,
    next_line: u32,
    next_part: u32,
}

impl SimulatedWriter {
    fn new(seed: u64) -> Self {
        let mut chance = TestRandom(fastrand::Rng::with_seed(seed));
        let mut bench = tail();
        bench.options.chunk_bytes = 256;
        bench.options.line_bytes = 256;
        bench.options.keep_rotated = Duration::from_secs(1_000_000);
        bench.restart();
        let shape = [LogShape::Plain, LogShape::Plain, LogShape::Link]
            [usize::try_from(chance.below(3)).unwrap()];
        let only =
            [Some("rename"), Some("copytruncate"), None][usize::try_from(chance.below(3)).unwrap()];
        let has_late = chance.one_in(2);
        let mut world = Self {
            chance,
            writer: File::create(bench.path("probe")).unwrap(),
            bench,
            shape,
            only,
            has_late,
            offset: None,
            old_writer: None,
            next_line: 0,
            next_part: 0,
        };
        world.bench.hub.trace.push(format!("{shape:?} {only:?}"));
        world.create();
        world.write();
        world.bench.run(2);
        world
    }

    fn log(&self) -> PathBuf {
        self.bench.path("a.log")
    }

    /// Creates a new file at the log's path, or behind its link.
    fn create(&mut self) {
        let mut path = self.log();
        if self.shape == LogShape::Link {
            self.next_part += 1;
            path = self.bench.path(&format!("day-{}.txt", self.next_part));
        }
        self.writer = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        self.offset = None;
        if self.shape == LogShape::Link {
            let link = self.bench.path("link");
            symlink(&path, &link).unwrap();
            fs::rename(link, self.log()).unwrap();
        } else if self.chance.one_in(3) {
            self.writer = OpenOptions::new().write(true).open(&path).unwrap();
            self.offset = Some(self.writer.metadata().unwrap().len());
        }
        if self.shape == LogShape::SameStart {
            self.put(b"# starting\n");
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        match &mut self.offset {
            None => self.writer.write_all(bytes).unwrap(),
            Some(offset) => {
                self.writer.write_all_at(bytes, *offset).unwrap();
                *offset += bytes.len() as u64;
            }
        }
    }

    fn line(&mut self) -> Vec<u8> {
        let number = self.next_line;
        self.next_line += 1;
        let filler = "-".repeat(usize::try_from(self.chance.below(41)).unwrap());
        format!("{number:08}{filler}\n").into_bytes()
    }

    fn write(&mut self) {
        for _ in 0..=self.chance.below(30) {
            let line = self.line();
            self.put(&line);
        }
    }

    fn half(&mut self) {
        let line = self.line();
        let (first, second) = line.split_at(1 + usize::try_from(self.chance.below(8)).unwrap());
        self.put(first);
        self.poll(1);
        self.put(second);
    }

    /// Parts of one log are distinguished by their times of birth and last write, so rotate at most
    /// once per tick of the file system's clock.
    fn part(&mut self) -> PathBuf {
        self.bench.tick();
        self.next_part += 1;
        self.bench.path(&format!("a.log.{}", self.next_part))
    }

    fn rename(&mut self) {
        if self.shape == LogShape::Link {
            self.bench.tick();
        } else {
            let part = self.part();
            fs::rename(self.log(), part).unwrap();
            if self.chance.one_in(4) {
                self.poll(1);
            }
        }
        let old = self.writer.try_clone().unwrap();
        self.old_writer = self.offset.is_none().then_some(old);
        self.create();
        self.write();
    }

    /// Writes as a worker that has not reopened its log. It makes an older part look newer than a
    /// compressed one that no agent saw, or than a copy, so it is not used with those.
    fn late(&mut self) {
        let line = self.line();
        match &mut self.old_writer {
            Some(writer) if self.only.is_some() && self.has_late => {
                writer.write_all(&line).unwrap()
            }
            _ => self.put(&line),
        }
    }

    fn copytruncate(&mut self) {
        if self.shape == LogShape::Link {
            return self.rename();
        }
        let part = self.part();
        fs::copy(self.log(), &part).unwrap();
        if self.chance.one_in(3) {
            self.poll(1);
        }
        self.writer.set_len(0).unwrap();
        if self.chance.one_in(3) {
            self.pack(&part);
        }
        if self.shape == LogShape::SameStart && self.offset.is_none() {
            self.put(b"# starting\n");
        }
        self.write();
    }

    /// Compresses like gzip: beside the file, with its time of the last write, then removes it.
    fn pack(&mut self, part: &Path) {
        let text = fs::read(part).unwrap();
        let modified = fs::metadata(part).unwrap().modified().unwrap();
        let is_gzip = self.chance.one_in(2);
        let packed =
            PathBuf::from(format!("{}.{}", part.display(), if is_gzip { "gz" } else { "zst" }));
        let file = File::create(&packed).unwrap();
        if is_gzip {
            let mut out = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            out.write_all(&text).unwrap();
            out.finish().unwrap();
        } else {
            zstd::stream::copy_encode(&text[..], file, 1).unwrap();
        }
        File::options().write(true).open(&packed).unwrap().set_modified(modified).unwrap();
        if self.chance.one_in(3) {
            self.poll(1);
        }
        fs::remove_file(part).unwrap();
    }

    fn parts(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.bench.dir.path()).unwrap().flatten();
        let target = self.log().canonicalize().unwrap();
        let paths = entries.map(|entry| entry.path());
        let parts = paths.filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            (name.starts_with("a.log.") || name.starts_with("day-")) && *path != target
        });
        let mut parts: Vec<PathBuf> = parts.collect();
        parts.sort();
        parts
    }

    fn pack_one(&mut self) {
        if self.has_late {
            return;
        }
        let parts = self.parts();
        let plain: Vec<&PathBuf> = parts
            .iter()
            .filter(|path| {
                !path.to_str().unwrap().ends_with("gz") && !path.to_str().unwrap().ends_with("zst")
            })
            .collect();
        if !plain.is_empty() {
            self.old_writer = None;
            let at = usize::try_from(self.chance.below(plain.len() as u64)).unwrap();
            self.pack(&plain[at].clone());
        }
    }

    /// Removes old parts once all of them is stored.
    fn clean(&mut self) {
        self.bench.run(12);
        for part in self.parts() {
            fs::remove_file(part).unwrap();
        }
        self.old_writer = None;
    }

    /// Deletes the log. Unread lines of a deleted file are lost to an agent that dies, so
    /// everything is read before; and the next file must be seen before it is rotated, because no
    /// part that the hub knows is left beside it.
    fn delete(&mut self) {
        self.bench.run(12);
        fs::remove_file(self.log()).unwrap();
        self.old_writer = None;
        self.create();
        self.write();
        self.bench.run(4);
    }

    fn restart(&mut self) {
        self.bench.restart();
    }

    fn poll_some(&mut self) {
        self.poll(2);
    }

    fn poll(&mut self, seconds: u64) {
        for _ in 0..seconds * 2 {
            self.bench.now = self.bench.now + Duration::from_millis(500);
            self.bench.scan();
            for _ in 0..self.chance.below(6) {
                let Some(chunk) = self.bench.tailer.read(self.bench.now) else { break };
                let position = self.bench.hub.positions.get(&chunk.stream).copied();
                let mut outcome = "stored";
                if self.chance.one_in(8) {
                    // Lost in transit: the agent asks for the position of the stream.
                    outcome = "lost";
                    self.bench.tailer.rewind(chunk.stream, position.unwrap_or(chunk.from));
                } else if !self.bench.hub.append(&chunk) {
                    outcome = "refused";
                    self.bench.tailer.rewind(chunk.stream, position.expect("refused"));
                } else if self.chance.below(4) > 0 {
                    self.bench.tailer.acknowledge(chunk.stream, chunk.to);
                } else {
                    outcome = "stored, late";
                    self.bench.late.push((chunk.stream, chunk.to));
                }
                self.bench.hub.trace.push(format!("      {outcome}"));
            }
        }
    }

    fn step(&mut self) {
        type Action = fn(&mut SimulatedWriter);
        let actions: [(&str, Action); 14] = [
            ("write", SimulatedWriter::write),
            ("write", SimulatedWriter::write),
            ("half", SimulatedWriter::half),
            ("rename", SimulatedWriter::rename),
            ("rename", SimulatedWriter::rename),
            ("copytruncate", SimulatedWriter::copytruncate),
            ("copytruncate", SimulatedWriter::copytruncate),
            ("late", SimulatedWriter::late),
            ("poll", SimulatedWriter::poll_some),
            ("poll", SimulatedWriter::poll_some),
            ("pack", SimulatedWriter::pack_one),
            ("clean", SimulatedWriter::clean),
            ("delete", SimulatedWriter::delete),
            ("restart", SimulatedWriter::restart),
        ];
        let (name, action) = actions[usize::try_from(self.chance.below(14)).unwrap()];
        self.bench.hub.trace.push(format!("{name}, line {}", self.next_line));
        match (self.only, name) {
            (Some("copytruncate"), "rename") => self.copytruncate(),
            (Some("rename"), "copytruncate") => self.rename(),
            _ => action(self),
        }
    }

    /// Describes missing and duplicate lines, if any.
    fn difference(&self) -> Option<String> {
        let mut found: BTreeMap<u32, u32> = (0..self.next_line).map(|number| (number, 0)).collect();
        for line in self.bench.hub.lines.iter().filter(|line| !line.starts_with('#')) {
            match line.get(..8).and_then(|number| number.parse().ok()) {
                Some(number) => *found.entry(number).or_default() += 1,
                None => return Some(format!("`{line}` is no line")),
            }
        }
        let (mut missing, mut twice) = (Vec::new(), Vec::new());
        for (number, count) in found {
            match count {
                0 => missing.push(number),
                1 => {}
                _ => twice.push(number),
            }
        }
        (!missing.is_empty() || !twice.is_empty())
            .then(|| format!("missing {missing:?}, twice {twice:?}"))
    }
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn every_line_is_stored_once_through_rotations_and_deaths() {
    let given = number_of("WEIR_SEED");
    let rounds = if given.is_some() { 1 } else { number_of("WEIR_ROUNDS").unwrap_or(40) };
    let mut failures = Vec::new();
    for _ in 0..rounds {
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0)) | 1;
        failures.extend(course(seed).err());
    }
    failures.sort_by_key(|failure| (failure.contains("SameStart"), failure.len()));
    assert!(failures.is_empty(), "{} of {rounds} courses; {}", failures.len(), failures[0]);
}

/// Runs one simulation; returns what went wrong, and the steps that led to it.
fn course(seed: u64) -> Result<(), String> {
    let mut world = SimulatedWriter::new(seed);
    // In every fourth run, more parts than are opened at first.
    let most = if world.chance.one_in(4) { 40 } else { 8 };
    for _ in 0..5 + world.chance.below(3 * most) {
        world.step();
        if world.parts().len() as u64 > most {
            world.clean();
        }
    }
    world.bench.hub.trace.push("the end".to_owned());
    world.bench.restart();
    world.bench.run(20);
    let Some(difference) = world.difference() else { return Ok(()) };
    let names: Vec<String> = fs::read_dir(world.bench.dir.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    Err(format!(
        "seed: WEIR_SEED={seed}\n{difference}\n{names:?}\n{}",
        world.bench.hub.trace.join("\n")
    ))
}
