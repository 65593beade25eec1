//! Behaviour of file systems and writers besides appending: shrinking sizes, reserved space, holes.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::content::Content;
use super::tests::{TailBench, pack, tail};
use super::*;

fn gaps(bench: &mut TailBench) -> Vec<Gap> {
    let events = bench.tailer.take_events().into_iter();
    events
        .filter_map(|event| match event {
            TailEvent::Gap(gap) => Some(gap),
            _ => None,
        })
        .collect()
}

fn open(bench: &TailBench) -> File {
    OpenOptions::new().write(true).read(true).open(bench.path("a.log")).unwrap()
}

#[test]
fn size_that_goes_back_for_a_moment_is_no_truncation() {
    let mut bench = tail();
    bench.append("a.log", "one\ntwo\n");
    bench.check(&["one", "two"]);
    let file = open(&bench);
    let written = fs::metadata(bench.path("a.log")).unwrap().modified().unwrap();
    for size in [4, 0] {
        file.set_len(size).unwrap();
        file.set_modified(written - Duration::from_secs(2)).unwrap();
        bench.run(5);
        file.write_all_at(b"one\ntwo\n", 0).unwrap();
        file.set_modified(written).unwrap();
        bench.run(2);
    }
    bench.append("a.log", "three\n");
    bench.check(&["one", "two", "three"]);
    assert_eq!(bench.hub.streams.len(), 1);
    assert_eq!(gaps(&mut bench), []);
}

#[test]
fn size_that_stays_back_is_a_truncation_in_the_end() {
    let mut bench = tail();
    bench.append("a.log", "one\ntwo\n");
    bench.check(&["one", "two"]);
    let file = open(&bench);
    file.set_len(4).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    bench.run(59);
    assert_eq!(bench.hub.lines.len(), 2);
    bench.run(5);
    assert_eq!(bench.hub.lines, ["one", "two", "one"]);
}

#[test]
fn content_that_grew_beyond_the_position_behind_the_same_first_line_is_distinguished() {
    let mut bench = tail();
    bench.append("a.log", "starting\none\n");
    bench.check(&["starting", "one"]);
    fs::write(bench.path("a.log"), "starting\ntwo\nthree\n").unwrap();
    bench.check(&["starting", "one", "starting", "two", "three"]);
}

#[test]
fn time_of_writing_in_the_past_changes_nothing() {
    let mut bench = tail();
    bench.append("a.log", "one\n");
    open(&bench).set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(9)).unwrap();
    bench.check(&["one"]);
    bench.append("a.log", "two\n");
    open(&bench).set_modified(SystemTime::UNIX_EPOCH).unwrap();
    bench.check(&["one", "two"]);
    bench.restart();
    bench.check(&["one", "two"]);
}

#[test]
fn reserved_space_is_read_as_it_is_filled() {
    let mut bench = tail();
    let file = File::create(bench.path("a.log")).unwrap();
    file.set_len(1 << 20).unwrap();
    bench.check(&[]);
    assert!(bench.hub.streams.is_empty(), "it has no first line yet");
    file.write_all_at(b"one\n", 0).unwrap();
    bench.check(&["one"]);
    file.write_all_at(b"two\nthr", 4).unwrap();
    bench.check(&["one", "two"]);
    file.write_all_at(b"ee\n", 11).unwrap();
    bench.check(&["one", "two", "three"]);
    file.set_len(14).unwrap();
    bench.append("a.log", "four\n");
    bench.run(2);
    assert_eq!(bench.hub.lines, ["one", "two", "three", "four"]);
}

#[test]
fn hole_between_two_lines_is_skipped_and_reported() {
    let mut bench = tail();
    let file = File::create(bench.path("a.log")).unwrap();
    file.write_all_at(b"one\n", 0).unwrap();
    file.write_all_at(b"two\nwith\0nul\n", 4096).unwrap();
    bench.check(&["one", "two", "with\0nul"]);
    assert_eq!(bench.hub.skipped, 4092);
    assert_eq!(bench.tailer.status()[0].lost_bytes, 0);
}

#[test]
fn bytes_that_are_not_text_arrive_unchanged() {
    let mut bench = tail();
    let mut file = File::create(bench.path("a.log")).unwrap();
    file.write_all(b"crlf\r\n\xff\xfe\n\r\n").unwrap();
    bench.start_files();
    let chunk = bench.tailer.read(bench.now).unwrap();
    assert_eq!(chunk.bytes, b"crlf\r\n\xff\xfe\n\r\n");
    assert_eq!(chunk.gap(), None);
}

#[test]
fn rest_of_an_overlong_line_is_a_gap() {
    let mut bench = tail();
    bench.options.chunk_bytes = 100;
    bench.options.line_bytes = 100;
    bench.restart();
    bench.append("a.log", &format!("{}\ntwo\n", "x".repeat(150)));
    bench.start_files();
    let gap = bench.tailer.read(bench.now).unwrap().gap().unwrap();
    assert_eq!((gap.from, gap.to, gap.lost_bytes), (100, Some(151), 51));
    assert_eq!((gap.reason, gap.is_exact), (GapReason::TooLong, true));
    assert_eq!(bench.tailer.status()[0].lost_bytes, 51);
}

#[test]
fn copytruncate_that_loses_lines_written_after_the_copy_reports_the_lost_bytes() {
    let mut bench = tail();
    bench.append("a.log", "one\n");
    bench.check(&["one"]);
    bench.append("a.log", "two\n");
    fs::copy(bench.path("a.log"), bench.path("a.log.1")).unwrap();
    bench.append("a.log", "between\n");
    bench.scan();
    open(&bench).set_len(0).unwrap();
    bench.append("a.log", "new\n");
    bench.check(&["one", "two", "new"]);
    let gaps = gaps(&mut bench);
    assert_eq!(gaps.len(), 1);
    assert_eq!((gaps[0].from, gaps[0].to, gaps[0].lost_bytes), (8, None, 8));
    assert_eq!(gaps[0].reason, GapReason::Truncated);
}

#[test]
fn file_that_cannot_be_read_is_opened_again() {
    let mut bench = tail();
    bench.append("a.log", "one\n");
    bench.check(&["one"]);
    let directory = File::open(bench.dir.path()).unwrap();
    let key = bench.tailer.files.first_key();
    bench.tailer.files.get_mut(key).unwrap().content = Content::Plain(directory);
    bench.append("a.log", "two\n");
    bench.run(10);
    assert_eq!(bench.hub.lines, ["one", "two"]);
    assert_eq!(bench.tailer.status()[0].error, None);
}

#[test]
fn file_that_its_server_forgot_is_a_gap() {
    let mut bench = tail();
    bench.append("a.log", "one\n");
    bench.check(&["one"]);
    bench.append("a.log", "two\n");
    bench.scan();
    fs::remove_file(bench.path("a.log")).unwrap();
    let key = bench.tailer.files.first_key();
    bench.tailer.reopen(key, &std::io::Error::from_raw_os_error(116), bench.now);
    let gaps = gaps(&mut bench);
    assert_eq!((gaps[0].from, gaps[0].lost_bytes, gaps[0].reason), (4, 4, GapReason::Gone));
    bench.append("a.log", "three\n");
    bench.check(&["one", "three"]);
}

#[test]
fn deleted_file_has_a_status_and_is_closed_when_it_is_read() {
    let mut bench = tail();
    bench.append("a.log", "one\n");
    bench.check(&["one"]);
    fs::remove_file(bench.path("a.log")).unwrap();
    bench.run(2);
    let status = &bench.tailer.status()[0];
    assert_eq!((status.state, status.modified.is_some()), (StreamState::Deleted, true));
    bench.run(60);
    assert!(bench.tailer.files.values().len() == 0);
}

#[test]
fn identity_stays_while_a_file_grows_through_the_size_of_its_head() {
    let mut bench = tail();
    bench.append("a.log", &"x".repeat(100));
    bench.check(&[]);
    bench.restart();
    bench.append("a.log", &"y".repeat(155));
    bench.run(2);
    assert!(bench.hub.streams.is_empty());
    bench.append("a.log", &"z".repeat(300));
    bench.run(2);
    bench.restart();
    bench.append("a.log", "end\ntwo\n");
    bench.run(2);
    bench.restart();
    bench.append("a.log", "three\n");
    bench.run(2);
    assert_eq!(bench.hub.streams.len(), 1);
    assert_eq!(bench.hub.lines[1..], ["two", "three"]);
}

#[test]
fn change_of_an_idle_file_is_seen_at_the_next_check() {
    let mut bench = TailBench::new("*.log", "--tail");
    bench.append("a.log", "one\n");
    bench.append("b.log", "two\n");
    bench.run(20);
    assert!(bench.tailer.files.values().all(|file| file.observed.is_watched));
    bench.append("a.log", "three\n");
    bench.run(1);
    assert_eq!(bench.hub.lines.last().unwrap(), "three");
    bench.run(20);
    fs::rename(bench.path("a.log"), bench.path("a.log.1")).unwrap();
    bench.append("a.log", "four\n");
    bench.append("c.log", "five\n");
    bench.run(4);
    bench.hub.lines.sort();
    assert_eq!(bench.hub.lines, ["five", "four", "one", "three", "two"]);
    let rotated = bench.tailer.status().into_iter().filter(|s| s.state == StreamState::Rotated);
    assert_eq!(rotated.count(), 1);
}

/// Older parts beside a log that was discovered, not named.
fn past(backfill: Option<Duration>) -> TailBench {
    let mut bench = TailBench::new("a.log", "/etc/nginx/nginx.conf:1");
    bench.append("a.log.2", "one\ntwo\n");
    bench.tick();
    bench.append("a.log.1", "three\n");
    bench.tick();
    bench.append("a.log", "four\n");
    let modified = fs::metadata(bench.path("a.log")).unwrap().mtime();
    bench.now = Micros(modified * 1_000_000);
    bench.options.backfill = backfill;
    bench.restart();
    bench
}

#[test]
fn backfill_is_read_if_wanted_oldest_first_and_once() {
    past(None).check(&["four"]);
    let mut bench = past(Some(Duration::from_secs(3600)));
    bench.check(&["four", "one", "two", "three"]);
    bench.restart();
    bench.append("a.log", "five\n");
    bench.check(&["four", "one", "two", "three", "five"]);
}

#[test]
fn backfill_does_not_starve_followed_files() {
    let mut bench = past(Some(Duration::from_secs(3600)));
    bench.options.chunk_bytes = 16;
    bench.options.line_bytes = 16;
    bench.restart();
    bench.append("a.log.2", &"old line 123456\n".repeat(50));
    bench.append("a.log", &"new line 123456\n".repeat(50));
    bench.start_files();
    let mut order = Vec::new();
    while let Some(chunk) = bench.tailer.read(bench.now) {
        assert!(bench.hub.append(&chunk));
        bench.tailer.acknowledge(chunk.stream, chunk.to);
        order.push(chunk.bytes.starts_with(b"new"));
    }
    let last_new = order.iter().rposition(|is_new| *is_new).unwrap();
    let old = order[..last_new].iter().filter(|is_new| !**is_new).count();
    assert!(old > 0 && old <= last_new / 8 + 3, "{old} of {last_new}");
    assert_eq!(bench.hub.lines.len(), 104);
}

/// Renames `a.log.1` to `a.log.2` and so on; then the log, which may be compressed.
fn rotate(dir: &Path, next_line: &str, is_packed: bool) {
    let last = (1..).find(|number| part(dir, *number).is_none()).unwrap();
    for number in (1..last).rev() {
        let (name, end) = part(dir, number).unwrap();
        fs::rename(dir.join(name), dir.join(format!("a.log.{}{end}", number + 1))).unwrap();
    }
    fs::rename(dir.join("a.log"), dir.join("a.log.1")).unwrap();
    fs::write(dir.join("a.log"), next_line).unwrap();
    if is_packed {
        pack(&dir.join("a.log.1"));
    }
}

fn part(dir: &Path, number: u32) -> Option<(String, &'static str)> {
    let mut parts = ["", ".gz"].into_iter().map(|end| (format!("a.log.{number}{end}"), end));
    parts.find(|(name, _)| dir.join(name).exists())
}

#[test]
fn parts_that_are_renamed_during_the_search_are_found() {
    let mut bench = tail();
    bench.append("a.log", "0\n");
    bench.check(&["0"]);
    let dir = bench.dir.path().to_owned();
    let rotating = std::thread::spawn(move || {
        for number in 1..=120_u64 {
            rotate(&dir, &format!("{number}\n"), number % 3 == 0);
            // Parts are distinguished by a clock that ticks every 4 ms.
            std::thread::park_timeout(Duration::from_millis(9));
        }
    });
    while !rotating.is_finished() {
        bench.restart();
        bench.run(1);
    }
    rotating.join().unwrap();
    bench.restart();
    bench.run(200);
    let mut lines: Vec<u64> = bench.hub.lines.iter().map(|line| line.parse().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..=120).collect::<Vec<u64>>());
}
