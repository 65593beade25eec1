//! Real files in real directories, a hub that keeps lines and positions, and a clock that the test moves.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_tables::{LogFormat, LogSource, Micros, Program, StreamId};

use super::*;

/// What a hub does: takes a range only where the stream stands, keeps its rows.
#[derive(Default)]
struct Hub {
    positions: HashMap<StreamId, u64>,
    lines: Vec<String>,
    skipped: u64,
}

impl Hub {
    /// Takes a chunk, durable at once; `false` when it does not fit where the stream stands.
    fn append(&mut self, chunk: &Chunk) -> bool {
        let stands = self.positions.get(&chunk.stream).copied();
        if stands.is_some_and(|at| at != chunk.from) {
            return false;
        }
        self.positions.insert(chunk.stream, chunk.to);
        self.skipped += chunk.skipped_bytes;
        let text = String::from_utf8_lossy(&chunk.bytes);
        self.lines.extend(text.split_terminator('\n').map(str::to_owned));
        true
    }
}

struct Bench {
    dir: tempfile::TempDir,
    options: TailOptions,
    sources: Vec<LogSource>,
    tailer: Tailer,
    hub: Hub,
    now: Micros,
    /// Acknowledgements that are still on their way.
    late: Vec<(StreamId, u64)>,
}

impl Bench {
    fn new(pattern: &str, found_in: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = TailOptions { host: "web1".into(), ..TailOptions::default() };
        let source = LogSource {
            path: dir.path().join(pattern),
            program: Program::Other,
            format: LogFormat::Auto,
            found_in: found_in.into(),
        };
        let mut bench = Self {
            dir,
            tailer: Tailer::new(options.clone()),
            options,
            sources: vec![source],
            hub: Hub::default(),
            now: Micros(1_000_000_000),
            late: Vec::new(),
        };
        bench.restart();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A new agent without memory.
    fn restart(&mut self) {
        self.late.clear();
        self.tailer = Tailer::new(self.options.clone());
        self.tailer.set_sources(self.sources.clone());
    }

    fn scan(&mut self) {
        for (stream, to) in self.late.drain(..) {
            self.tailer.acknowledge(stream, to);
        }
        for new in self.tailer.scan(self.now) {
            let position = self.hub.positions.get(&new.stream).copied();
            self.tailer.start(new.stream, position);
        }
    }

    /// Seconds go by, half a second at a time, everything that can be read is read and stored.
    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 2 {
            self.now = self.now + Duration::from_millis(500);
            self.scan();
            while let Some(chunk) = self.tailer.read(self.now) {
                assert!(self.hub.append(&chunk), "{chunk:?} does not fit");
                self.tailer.acknowledge(chunk.stream, chunk.to);
                self.tailer.recycle(chunk.bytes);
            }
        }
    }

    /// Passes when the file system's clock has moved on (it ticks every 4 ms or so): parts of a log are told apart by
    /// when they were born and written, and nobody rotates twice within a tick.
    fn tick(&self) {
        let probe = self.path("probe");
        let stamp = || {
            fs::write(&probe, "").unwrap();
            Place::of(&fs::metadata(&probe).unwrap()).modified_ns
        };
        let before = stamp();
        while stamp() == before {}
    }

    fn append(&self, name: &str, text: &str) {
        append(&self.path(name), text);
    }

    fn check(&mut self, expected: &[&str]) {
        self.run(2);
        assert_eq!(self.hub.lines, expected);
    }
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn tail() -> Bench {
    Bench::new("a.log", "--tail")
}

#[test]
fn lines_are_given_once_as_the_file_grows() {
    let mut bench = tail();
    bench.append("a.log", "one\ntwo\n");
    bench.check(&["one", "two"]);
    bench.append("a.log", "three\n");
    bench.check(&["one", "two", "three"]);
    bench.restart();
    bench.append("a.log", "four\n");
    bench.check(&["one", "two", "three", "four"]);
}

#[test]
fn half_line_is_given_when_its_newline_comes() {
    let mut bench = tail();
    bench.append("a.log", "hal");
    bench.check(&[]);
    bench.append("a.log", "f\nnext ha");
    bench.check(&["half"]);
    bench.run(20);
    bench.append("a.log", "lf\n");
    bench.check(&["half", "next half"]);
}

#[test]
fn half_line_at_rotation_is_read_once() {
    for is_restarted in [false, true] {
        let mut bench = tail();
        bench.append("a.log", "one\nhalf");
        bench.check(&["one"]);
        fs::rename(bench.path("a.log"), bench.path("a.log.1")).unwrap();
        bench.append("a.log", "new\n");
        if is_restarted {
            bench.restart();
        }
        bench.run(2);
        assert!(!bench.hub.lines.contains(&"half".to_owned()));
        bench.run(8);
        bench.hub.lines.sort();
        assert_eq!(bench.hub.lines, ["half", "new", "one"]);
    }
}

#[test]
fn rotated_file_is_read_to_its_end_while_its_writer_goes_on() {
    let mut bench = tail();
    bench.append("a.log", "one\n");
    bench.check(&["one"]);
    let mut writer = OpenOptions::new().append(true).open(bench.path("a.log")).unwrap();
    fs::rename(bench.path("a.log"), bench.path("elsewhere")).unwrap();
    writer.write_all(b"two\n").unwrap();
    bench.append("a.log", "new\n");
    bench.run(60);
    writer.write_all(b"three\n").unwrap();
    bench.run(2);
    bench.hub.lines.sort();
    assert_eq!(bench.hub.lines, ["new", "one", "three", "two"]);
    bench.run(400);
    assert_eq!(bench.tailer.files.len(), 1, "the rotated file is closed in the end");
}

#[test]
fn file_that_was_renamed_while_nobody_looked_is_found_beside_it() {
    let mut bench = tail();
    bench.append("a.log", "one\n");
    bench.check(&["one"]);
    bench.append("a.log", "two\n");
    fs::rename(bench.path("a.log"), bench.path("a.log.2")).unwrap();
    bench.append("a.log", "three\n");
    fs::rename(bench.path("a.log"), bench.path("a.log.1")).unwrap();
    bench.append("a.log", "four\n");
    bench.restart();
    bench.check(&["one", "two", "three", "four"]);
    bench.restart();
    bench.check(&["one", "two", "three", "four"]);
}

#[test]
fn two_rotations_between_two_looks_lose_nothing() {
    let mut bench = tail();
    bench.append("a.log", "one\n");
    bench.check(&["one"]);
    fs::rename(bench.path("a.log"), bench.path("a.log.2")).unwrap();
    bench.append("a.log", "two\n");
    fs::rename(bench.path("a.log"), bench.path("a.log.1")).unwrap();
    bench.append("a.log", "three\n");
    bench.run(2);
    bench.hub.lines.sort();
    assert_eq!(bench.hub.lines, ["one", "three", "two"]);
}

#[test]
fn truncated_file_begins_a_new_stream() {
    let mut bench = tail();
    bench.append("a.log", "one\ntwo\n");
    bench.check(&["one", "two"]);
    fs::write(bench.path("a.log"), "3\n").unwrap();
    bench.check(&["one", "two", "3"]);
    fs::write(bench.path("a.log"), "a longer line than all of before\n").unwrap();
    bench.check(&["one", "two", "3", "a longer line than all of before"]);
    assert_eq!(bench.hub.positions.len(), 3);
}

#[test]
fn same_first_line_after_a_truncation_is_told_apart_even_after_a_restart() {
    let mut bench = tail();
    bench.append("a.log", "starting\none\n");
    bench.check(&["starting", "one"]);
    fs::write(bench.path("a.log"), "starting\n").unwrap();
    bench.check(&["starting", "one", "starting"]);
    bench.restart();
    bench.append("a.log", "two\n");
    bench.check(&["starting", "one", "starting", "two"]);
    fs::write(bench.path("a.log"), "starting\n").unwrap();
    bench.restart();
    bench.run(2);
    bench.check(&["starting", "one", "starting", "two", "starting"]);
}

#[test]
fn copytruncate_with_unread_lines_goes_on_in_the_copy() {
    for is_restarted in [false, true] {
        let mut bench = tail();
        bench.append("a.log", "one\n");
        bench.check(&["one"]);
        bench.append("a.log", "two\nthree\n");
        fs::copy(bench.path("a.log"), bench.path("a.log.1")).unwrap();
        OpenOptions::new().write(true).truncate(true).open(bench.path("a.log")).unwrap();
        bench.append("a.log", "four\n");
        if is_restarted {
            bench.restart();
        }
        bench.run(2);
        bench.hub.lines.sort();
        assert_eq!(bench.hub.lines, ["four", "one", "three", "two"]);
        let truncated = bench.tailer.take_events();
        assert_eq!(truncated.is_empty(), is_restarted, "{truncated:?}");
        bench.restart();
        bench.run(2);
        assert_eq!(bench.hub.lines.len(), 4);
    }
}

#[test]
fn truncation_without_a_copy_says_how_much_is_lost() {
    let mut bench = tail();
    bench.append("a.log", "one\n");
    bench.check(&["one"]);
    bench.append("a.log", "two\n");
    bench.scan();
    fs::write(bench.path("a.log"), "3\n").unwrap();
    bench.check(&["one", "3"]);
    let events = bench.tailer.take_events();
    let lost = |event: &TailEvent| {
        matches!(event, TailEvent::Truncated { lost_bytes: 4, is_copy_found: false, .. })
    };
    assert!(events.iter().any(lost), "{events:?}");
}

#[test]
fn deleted_file_is_read_to_its_end_and_a_new_one_is_another() {
    let mut bench = tail();
    for round in 0..5 {
        bench.append("a.log", &format!("{round}\n"));
        bench.run(1);
        bench.append("a.log", &format!("{round} end\n"));
        fs::remove_file(bench.path("a.log")).unwrap();
        if round % 2 == 1 {
            bench.restart();
            bench.hub.lines.push(format!("{round} end"));
        }
    }
    bench.run(2);
    bench.hub.lines.sort();
    let expected: Vec<String> =
        (0..5).flat_map(|round| [format!("{round}"), format!("{round} end")]).collect();
    assert_eq!(bench.hub.lines, expected);
}

#[test]
fn overlong_line_is_cut_and_counted_and_the_next_line_is_whole() {
    let mut bench = tail();
    bench.options.chunk_bytes = 100;
    bench.restart();
    let long = "x".repeat(1000);
    bench.append("a.log", &format!("one\n{long}"));
    bench.check(&["one"]);
    bench.append("a.log", "yy\ntwo\n");
    bench.check(&["one", &long[..100], "two"]);
    assert_eq!(bench.hub.skipped, 903);
}

#[test]
fn hole_that_a_writer_without_append_leaves_is_passed_over() {
    let mut bench = tail();
    let file = File::create(bench.path("a.log")).unwrap();
    file.write_all_at(b"one\ntwo\n", 0).unwrap();
    bench.check(&["one", "two"]);
    file.set_len(0).unwrap();
    file.write_all_at(b"three\n", 3_000_000).unwrap();
    bench.check(&["one", "two", "three"]);
    assert_eq!(bench.hub.skipped, 3_000_000);
    bench.restart();
    file.write_all_at(b"four\n", 3_000_006).unwrap();
    bench.check(&["one", "two", "three", "four"]);
}

#[test]
fn found_log_is_begun_at_its_recent_lines_and_a_named_one_at_its_start() {
    for (found_in, expected) in [("/etc/nginx/nginx.conf:1", 2), ("--tail", 5)] {
        let mut bench = Bench::new("a.log", found_in);
        bench.options.first_contact = ReadFrom::Recent(9);
        for line in ["aaa\n", "bbb\n", "ccc\n", "ddd\n", "eee\n"] {
            bench.append("a.log", line);
        }
        bench.append("a.log.1", "old\n");
        bench.restart();
        bench.run(2);
        assert_eq!(bench.hub.lines.len(), expected, "{:?}", bench.hub.lines);
        fs::rename(bench.path("a.log"), bench.path("a.log.1")).unwrap();
        bench.append("a.log", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        bench.restart();
        bench.run(2);
        assert_eq!(bench.hub.lines.len(), expected + 9, "a rotation is no first contact");
    }
}

#[test]
fn glob_takes_new_files_and_not_their_rotated_parts() {
    let mut bench = Bench::new("*", "--tail");
    bench.append("a.log", "a\n");
    bench.append("b.log", "b\n");
    bench.run(3);
    bench.append("c.log", "c\n");
    bench.run(3);
    bench.hub.lines.sort();
    assert_eq!(bench.hub.lines, ["a", "b", "c"]);
    fs::copy(bench.path("a.log"), bench.path("a.log.1")).unwrap();
    fs::rename(bench.path("b.log"), bench.path("b.log.1")).unwrap();
    bench.run(5);
    assert_eq!(bench.hub.lines, ["a", "b", "c"]);
}

#[test]
fn symlink_that_moves_is_a_rotation() {
    let mut bench = Bench::new("current", "--tail");
    bench.append("day1", "one\n");
    std::os::unix::fs::symlink("day1", bench.path("current")).unwrap();
    bench.check(&["one"]);
    bench.append("day1", "two\n");
    bench.append("day2", "three\n");
    fs::remove_file(bench.path("current")).unwrap();
    std::os::unix::fs::symlink("day2", bench.path("current")).unwrap();
    bench.run(2);
    bench.hub.lines.sort();
    assert_eq!(bench.hub.lines, ["one", "three", "two"]);
}

#[test]
fn reading_stops_when_too_much_is_in_flight_and_goes_on_after_the_acknowledgement() {
    let mut bench = tail();
    bench.options.chunk_bytes = 8;
    bench.options.max_in_flight_bytes = 16;
    bench.restart();
    bench.append("a.log", &"1234567\n".repeat(5));
    bench.scan();
    bench.scan();
    let first = bench.tailer.read(bench.now).unwrap();
    bench.tailer.read(bench.now).unwrap();
    assert!(bench.tailer.read(bench.now).is_none());
    bench.tailer.acknowledge(first.stream, first.to);
    assert_eq!(bench.tailer.read(bench.now).unwrap().from, 16);
    bench.tailer.rewind(first.stream, 8);
    assert_eq!(bench.tailer.in_flight_bytes(), 0);
    assert_eq!(bench.tailer.read(bench.now).unwrap().from, 8);
}

#[test]
fn streams_are_read_in_turn() {
    let mut bench = Bench::new("*.log", "--tail");
    bench.options.chunk_bytes = 8;
    bench.restart();
    for name in ["a.log", "b.log", "c.log"] {
        bench.append(name, &format!("{name}12\n").repeat(3));
    }
    bench.scan();
    bench.scan();
    let mut order = Vec::new();
    while let Some(chunk) = bench.tailer.read(bench.now) {
        order.push(chunk.stream);
    }
    assert_eq!(order.len(), 9);
    for turn in order.chunks(3) {
        assert!(turn[0] != turn[1] && turn[1] != turn[2] && turn[0] != turn[2]);
    }
}

#[test]
fn path_that_is_no_file_has_a_status_that_says_so() {
    let mut bench = tail();
    fs::create_dir(bench.path("a.log")).unwrap();
    bench.run(1);
    let status = bench.tailer.status();
    assert_eq!(status[0].state, StreamState::Failed);
    assert!(status[0].error.as_ref().unwrap().contains("it is not a regular file"));
    fs::remove_dir(bench.path("a.log")).unwrap();
    bench.append("a.log", "one\n");
    bench.run(40);
    assert_eq!(bench.hub.lines, ["one"]);
    assert_eq!(bench.tailer.status()[0].lag_bytes, 0);
}

/// A writer that rotates in every way, an agent that dies at any moment, a hub that sometimes does not answer.
struct Torture<'a, 'b> {
    random: &'a mut arbtest::arbitrary::Unstructured<'b>,
    bench: Bench,
    /// The log, kept open by its writer.
    writer: File,
    /// The log before the last rename, still open.
    old_writer: Option<File>,
    next_line: u32,
    next_part: u32,
    /// One log is rotated in one way.
    is_copied: bool,
    trace: Vec<&'static str>,
}

type Step = arbtest::arbitrary::Result<()>;

impl Torture<'_, '_> {
    fn line(&mut self) -> arbtest::arbitrary::Result<String> {
        let number = self.next_line;
        self.next_line += 1;
        Ok(format!("{number:08}{}\n", "-".repeat(self.random.int_in_range(0..=40)?)))
    }

    fn write(&mut self) -> Step {
        for _ in 0..self.random.int_in_range(1..=30)? {
            let line = self.line()?;
            self.writer.write_all(line.as_bytes()).unwrap();
        }
        Ok(())
    }

    fn half(&mut self) -> Step {
        let line = self.line()?;
        let (first, second) = line.split_at(self.random.int_in_range(1..=8)?);
        self.writer.write_all(first.as_bytes()).unwrap();
        self.poll(1)?;
        self.writer.write_all(second.as_bytes()).unwrap();
        Ok(())
    }

    fn part(&mut self) -> PathBuf {
        self.bench.tick();
        self.next_part += 1;
        self.bench.path(&format!("a.log.{}", self.next_part))
    }

    fn rotate(&mut self) -> Step {
        if self.is_copied { self.copytruncate() } else { self.rename() }
    }

    fn rename(&mut self) -> Step {
        let part = self.part();
        fs::rename(self.bench.path("a.log"), part).unwrap();
        let new = open(&self.bench.path("a.log"));
        self.old_writer = Some(std::mem::replace(&mut self.writer, new));
        self.write()
    }

    /// A worker that has not reopened its log.
    fn late(&mut self) -> Step {
        let line = self.line()?;
        let writer = self.old_writer.as_mut().unwrap_or(&mut self.writer);
        writer.write_all(line.as_bytes()).unwrap();
        Ok(())
    }

    fn copytruncate(&mut self) -> Step {
        let part = self.part();
        fs::copy(self.bench.path("a.log"), part).unwrap();
        if self.random.ratio(1, 3)? {
            self.poll(1)?;
        }
        self.writer.set_len(0).unwrap();
        self.write()
    }

    /// What is deleted unread is gone for an agent that dies, so all is read before; and what comes next must be met
    /// before it is rotated, because nothing is left beside it that the hub knows.
    fn delete(&mut self) -> Step {
        self.bench.run(12);
        fs::remove_file(self.bench.path("a.log")).unwrap();
        self.old_writer = None;
        self.writer = open(&self.bench.path("a.log"));
        self.write()?;
        self.bench.run(4);
        Ok(())
    }

    fn poll(&mut self, seconds: u64) -> Step {
        for _ in 0..seconds * 2 {
            self.bench.now = self.bench.now + Duration::from_millis(500);
            self.bench.scan();
            for _ in 0..self.random.int_in_range(0..=5)? {
                let Some(chunk) = self.bench.tailer.read(self.bench.now) else { break };
                let stands = self.bench.hub.positions.get(&chunk.stream).copied();
                if self.random.ratio(1, 8)? {
                    // Lost on the way: the agent asks where the stream stands.
                    self.bench.tailer.rewind(chunk.stream, stands.unwrap_or(chunk.from));
                } else if !self.bench.hub.append(&chunk) {
                    self.bench.tailer.rewind(chunk.stream, stands.expect("refused"));
                } else if self.random.ratio(3, 4)? {
                    self.bench.tailer.acknowledge(chunk.stream, chunk.to);
                } else {
                    self.bench.late.push((chunk.stream, chunk.to));
                }
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Step {
        type Action = fn(&mut Torture<'_, '_>) -> Step;
        let actions: [(&str, Action); 10] = [
            ("write", |t| t.write()),
            ("half", |t| t.half()),
            ("rotate", |t| t.rotate()),
            ("rotate", |t| t.rotate()),
            ("late", |t| t.late()),
            ("poll", |t| t.poll(2)),
            ("poll", |t| t.poll(2)),
            ("write", |t| t.write()),
            ("delete", |t| t.delete()),
            ("restart", |t| {
                t.bench.restart();
                Ok(())
            }),
        ];
        let (name, action) = *self.random.choose(&actions)?;
        self.trace.push(name);
        action(self)
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(path).unwrap()
}

#[test]
fn every_line_is_stored_once_through_rotations_and_deaths() {
    arbtest::arbtest(|random| {
        let mut bench = tail();
        bench.options.chunk_bytes = 256;
        bench.options.keep_rotated = Duration::from_secs(1_000_000);
        bench.restart();
        let writer = open(&bench.path("a.log"));
        let is_copied = random.arbitrary()?;
        let (next_line, next_part, trace, old_writer) = (0, 0, Vec::new(), None);
        let mut torture =
            Torture { random, bench, writer, old_writer, next_line, next_part, is_copied, trace };
        torture.write()?;
        torture.bench.run(2);
        for _ in 0..torture.random.int_in_range(5..=25)? {
            torture.step()?;
        }
        torture.bench.restart();
        torture.bench.run(20);
        let lines = &torture.bench.hub.lines;
        let mut numbers: Vec<u32> = lines.iter().map(|line| line[..8].parse().unwrap()).collect();
        numbers.sort_unstable();
        let expected: Vec<u32> = (0..torture.next_line).collect();
        assert!(numbers == expected, "{}\n{:?}", difference(&numbers, &expected), torture.trace);
        Ok(())
    })
    .size_min(2_000)
    .budget_ms(4_000);
}

fn difference(found: &[u32], expected: &[u32]) -> String {
    let missing: Vec<&u32> = expected.iter().filter(|number| !found.contains(number)).collect();
    let twice: Vec<&[u32]> = found.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    format!("missing {missing:?}, twice {twice:?}")
}
