//! Real files, a hub that keeps lines and positions, and a clock that the test controls.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_tables::{LogFormat, LogSource, Micros, Program, StreamId};

use super::content::Content;
use super::fingerprint::FileIdentity;
use super::*;

/// A hub: accepts a range only at the position of its stream, keeps its rows.
#[derive(Default)]
pub(super) struct TestHub {
    pub(super) positions: HashMap<StreamId, u64>,
    pub(super) lines: Vec<String>,
    pub(super) skipped: u64,
    pub(super) events: Vec<String>,
    pub(super) streams: HashSet<StreamId>,
    pub(super) trace: Vec<String>,
}

impl TestHub {
    /// Takes a chunk, durable at once; `false` when it does not fit the position of the stream.
    pub(super) fn append(&mut self, chunk: &Chunk) -> bool {
        let position = self.positions.get(&chunk.stream).copied();
        let (stream, text) = (chunk.stream.to_string(), String::from_utf8_lossy(&chunk.bytes));
        let first: String = text.chars().take(8).collect();
        let entry =
            format!("    {} {}..{} {first} at {position:?}", &stream[..6], chunk.from, chunk.to);
        self.trace.push(entry);
        if position.is_some_and(|at| at != chunk.from) {
            return false;
        }
        self.positions.insert(chunk.stream, chunk.to);
        assert!(position.is_some() || chunk.is_first, "{chunk:?}");
        self.skipped += chunk.skipped_bytes;
        if !chunk.bytes.is_empty() {
            self.streams.insert(chunk.stream);
        }
        let text = String::from_utf8_lossy(&chunk.bytes);
        let mut from = 0;
        for end in chunk.events.iter().flatten() {
            self.events.push(text[from..*end].to_owned());
            from = *end;
        }
        self.lines.extend(text.split_terminator('\n').map(str::to_owned));
        true
    }
}

pub(super) struct TailBench {
    pub(super) dir: tempfile::TempDir,
    pub(super) options: TailOptions,
    pub(super) sources: Vec<LogSource>,
    pub(super) tailer: Tailer,
    pub(super) hub: TestHub,
    pub(super) now: Micros,
    pub(super) late: Vec<(StreamId, u64)>,
}

impl TailBench {
    pub(super) fn new(pattern: &str, found_in: &str) -> Self {
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
            hub: TestHub::default(),
            now: Micros(1_000_000_000),
            late: Vec::new(),
        };
        bench.restart();
        bench
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Replaces the agent with a new one without memory.
    pub(super) fn restart(&mut self) {
        self.late.clear();
        self.tailer = Tailer::new(self.options.clone());
        self.tailer.set_sources(self.sources.clone());
    }

    pub(super) fn scan(&mut self) {
        for (stream, to) in self.late.drain(..) {
            self.tailer.acknowledge(stream, to);
        }
        for new in self.tailer.scan(self.now) {
            let position = self.hub.positions.get(&new.stream).copied();
            self.tailer.start(new.stream, position);
        }
    }

    /// Scans until every existing file is started.
    pub(super) fn start_files(&mut self) {
        self.scan();
        self.scan();
        while let Some(chunk) = self.tailer.next_registration() {
            assert!(self.hub.append(&chunk));
            self.tailer.acknowledge(chunk.stream, chunk.to);
        }
    }

    /// Advances the clock, half a second at a time; reads and stores everything available.
    pub(super) fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 2 {
            self.now = self.now + Duration::from_millis(500);
            self.scan();
            while let Some(chunk) = self.tailer.read(self.now) {
                if self.hub.append(&chunk) {
                    self.tailer.acknowledge(chunk.stream, chunk.to);
                } else {
                    // The position was queried while the stream was still being read.
                    assert!(chunk.from > 0, "a new stream has the name of another one: {chunk:?}");
                    self.tailer.rewind(chunk.stream, self.hub.positions[&chunk.stream]);
                }
                self.tailer.recycle(chunk.bytes);
            }
        }
    }

    /// Waits until the file system's clock has advanced (it ticks every 4 ms or so): parts of a log
    /// are distinguished by their times of birth and last write, so rotate at most once per tick.
    pub(super) fn tick(&self) {
        let probe = self.path("probe");
        let before = written_ns(&probe);
        while written_ns(&probe) == before {}
    }

    pub(super) fn append(&self, name: &str, text: &str) {
        append(&self.path(name), text);
    }

    pub(super) fn check(&mut self, expected: &[&str]) {
        self.run(2);
        assert_eq!(self.hub.lines, expected);
    }
}

/// Writes a file and returns the time of the write, by the file system's clock.
fn written_ns(path: &Path) -> u64 {
    fs::write(path, "").unwrap();
    FileIdentity::of(&Content::open(path).unwrap()).unwrap().modified_ns
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

pub(super) fn tail() -> TailBench {
    TailBench::new("a.log", "--tail")
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
fn rotated_file_is_read_to_its_end_while_its_writer_continues() {
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
    assert_eq!(bench.tailer.files.values().len(), 1, "the rotated file is closed in the end");
}

#[test]
fn file_that_was_renamed_between_two_agents_is_found_beside_it() {
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
fn any_number_of_unseen_rotations_is_read_and_older_parts_are_not() {
    // Unread; the oldest read in part; compressed.
    for (is_partial, is_packed) in [(false, false), (true, false), (false, true)] {
        let mut bench = tail();
        for past in 0..20 {
            let name = format!("a.log.{}", 90 - past);
            bench.append(&name, &format!("past {past}\n"));
            if is_packed {
                pack(&bench.path(&name));
            }
            bench.tick();
        }
        bench.append("a.log", "0\n");
        bench.check(&["0"]);
        let mut expected: Vec<String> = (0..=60).map(|number| number.to_string()).collect();
        if is_partial {
            bench.append("a.log", "half\n");
            expected.push("half".to_owned());
        }
        for number in 1..=60 {
            bench.tick();
            fs::rename(bench.path("a.log"), bench.path(&format!("a.log.{}", 70 - number))).unwrap();
            bench.append("a.log", &format!("{number}\n"));
        }
        if is_packed {
            for number in 1..60 {
                pack(&bench.path(&format!("a.log.{}", 70 - number)));
            }
        }
        bench.restart();
        bench.run(20);
        bench.restart();
        bench.run(4);
        bench.hub.lines.sort();
        expected.sort();
        assert_eq!(bench.hub.lines, expected, "{is_partial} {is_packed}");
    }
}

/// Compresses like gzip: beside the file, with its time of the last write, then removes it.
pub(super) fn pack(path: &Path) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let packed = File::create(format!("{}.gz", path.display())).unwrap();
    let mut out = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    out.write_all(&fs::read(path).unwrap()).unwrap();
    out.finish().unwrap().set_modified(modified).unwrap();
    fs::remove_file(path).unwrap();
}

#[test]
fn two_rotations_between_two_scans_lose_nothing() {
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
    assert_eq!(bench.hub.streams.len(), 3);
}

#[test]
fn same_first_line_after_a_truncation_is_distinguished_even_after_a_restart() {
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
fn copytruncate_with_unread_lines_continues_in_the_copy() {
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
fn truncation_without_a_copy_reports_the_lost_bytes() {
    let mut bench = tail();
    bench.append("a.log", "one\n");
    bench.check(&["one"]);
    bench.append("a.log", "two\n");
    bench.scan();
    fs::write(bench.path("a.log"), "3\n").unwrap();
    bench.check(&["one", "3"]);
    let events = bench.tailer.take_events();
    let has_gap = events.iter().any(|event| {
        matches!(event, TailEvent::Gap(Gap { from: 4, lost_bytes: 4, is_exact: false, .. }))
    });
    assert!(has_gap, "{events:?}");
    assert_eq!(bench.tailer.status()[0].lost_bytes, 4);
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
    bench.options.line_bytes = 100;
    bench.restart();
    let long = "x".repeat(1000);
    bench.append("a.log", &format!("one\n{long}"));
    bench.check(&["one"]);
    bench.append("a.log", "yy\ntwo\n");
    bench.check(&["one", &long[..100], "two"]);
    assert_eq!(bench.hub.skipped, 903);
}

#[test]
fn hole_that_a_writer_without_append_leaves_is_skipped() {
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
fn discovered_log_is_started_at_its_recent_lines_and_a_named_one_at_its_start() {
    for (found_in, expected) in [("/etc/nginx/nginx.conf:1", 2), ("--tail", 5)] {
        let mut bench = TailBench::new("a.log", found_in);
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
    let mut bench = TailBench::new("*", "--tail");
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
    let mut bench = TailBench::new("current", "--tail");
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
fn reading_stops_when_too_much_is_in_flight_and_continues_after_the_acknowledgement() {
    let mut bench = tail();
    bench.options.chunk_bytes = 8;
    bench.options.line_bytes = 8;
    bench.options.max_in_flight_bytes = 16;
    bench.restart();
    bench.append("a.log", &"1234567\n".repeat(5));
    bench.start_files();
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
    let mut bench = TailBench::new("*.log", "--tail");
    bench.options.chunk_bytes = 8;
    bench.options.line_bytes = 8;
    bench.restart();
    for name in ["a.log", "b.log", "c.log"] {
        bench.append(name, &format!("{name}12\n").repeat(3));
    }
    bench.start_files();
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
fn path_that_is_no_file_has_a_failed_status() {
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
