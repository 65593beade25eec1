//! Deleted logs whose lines are not accepted: preserved, closed, and shipped once.

use std::fs;
use std::time::Duration;

use super::content::Content;
use super::tests::{TailBench, tail};
use super::*;

/// A tailer with a deleted log of which the hub has one line and a few hundred wait.
fn waiting((limit_bytes, used_percent): (u64, u64)) -> (TailBench, Vec<String>) {
    let mut bench = tail();
    let dir = bench.path("rests");
    let after = Duration::from_secs(60);
    bench.options.rests = Some(RestOptions { dir, limit_bytes, after, used_percent });
    bench.options.chunk_bytes = 4096;
    bench.options.line_bytes = 4096;
    bench.restart();
    bench.append("a.log", "line first\n");
    bench.check(&["line first"]);
    let mut lines = vec!["line first".to_owned()];
    lines.extend((0..500).map(|n| format!("line {n} {:x}", n * 7_919_u64 * 104_729)));
    bench.append("a.log", &(lines[1..].join("\n") + "\n"));
    fs::remove_file(bench.path("a.log")).unwrap();
    (bench, lines)
}

/// Advances the clock without reading lines.
fn idle(bench: &mut TailBench, seconds: u64) {
    for _ in 0..seconds * 2 {
        bench.now = bench.now + Duration::from_millis(500);
        bench.scan();
    }
}

fn rests(bench: &TailBench) -> usize {
    fs::read_dir(bench.path("rests")).map_or(0, Iterator::count)
}

fn is_closed(bench: &TailBench) -> bool {
    bench.tailer.files.values().all(|file| matches!(file.content, Content::Remnant(_)))
}

#[test]
fn remnant_of_a_deleted_log_is_preserved_and_read_once() {
    for is_restarted in [false, true] {
        let (mut bench, lines) = waiting((1 << 20, 100));
        idle(&mut bench, 50);
        assert!(!is_closed(&bench), "it may still be taken in time");
        idle(&mut bench, 20);
        assert!(is_closed(&bench));
        assert_eq!(rests(&bench), 1);
        if is_restarted {
            bench.restart();
        }
        bench.run(5);
        assert_eq!(bench.hub.lines, lines);
        assert_eq!(bench.hub.skipped, 0);
        assert_eq!(rests(&bench), 0, "what the hub has is removed");
        assert!(bench.tailer.files.values().len() == 0);
    }
}

#[test]
fn remnant_continues_at_the_position_of_the_hub() {
    let (mut bench, lines) = waiting((1 << 20, 100));
    idle(&mut bench, 70);
    bench.scan();
    for _ in 0..2 {
        let chunk = bench.tailer.read(bench.now).unwrap();
        assert!(bench.hub.append(&chunk));
    }
    // Two chunks are at the hub, and the agent dies before the acknowledgement.
    bench.restart();
    bench.run(5);
    assert_eq!(bench.hub.lines, lines);
    assert_eq!(rests(&bench), 0);
}

#[test]
fn lines_that_do_not_fit_on_a_full_disk_are_a_measured_gap() {
    for is_restarted in [false, true] {
        let (mut bench, lines) = waiting((600, 0));
        let size = lines.iter().map(|line| line.len() as u64 + 1).sum::<u64>();
        idle(&mut bench, 70);
        assert!(is_closed(&bench));
        if is_restarted {
            bench.restart();
        }
        bench.run(5);
        let kept = bench.hub.lines.iter().map(|line| line.len() as u64 + 1).sum::<u64>();
        assert_eq!(bench.hub.lines[..], lines[..bench.hub.lines.len()]);
        assert_eq!(kept + bench.hub.skipped, size);
        assert!(bench.hub.skipped > 0);
        assert_eq!(rests(&bench), 0);
    }
}

#[test]
fn file_that_does_not_fit_stays_open_while_the_disk_is_not_full() {
    let (mut bench, lines) = waiting((600, 100));
    idle(&mut bench, 200);
    assert!(!is_closed(&bench));
    assert_eq!(rests(&bench), 0);
    let events = bench.tailer.take_events();
    assert!(events.iter().any(|event| matches!(event, TailEvent::NotKept { .. })), "{events:?}");
    bench.run(60);
    assert_eq!(bench.hub.lines, lines);
}

#[test]
fn new_file_with_the_inode_of_a_preserved_one_is_read() {
    let (mut bench, mut lines) = waiting((1 << 20, 100));
    idle(&mut bench, 70);
    // The file is closed, so its inode is free for the next one.
    bench.append("a.log", "another line\n");
    bench.run(10);
    lines.push("another line".to_owned());
    bench.hub.lines.sort();
    lines.sort();
    assert_eq!(bench.hub.lines, lines);
}
