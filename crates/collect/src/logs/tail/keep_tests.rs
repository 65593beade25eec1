//! Deleted logs whose rest nobody takes: kept, closed, shipped once, and what does not fit is a
//! gap.

use std::fs;
use std::time::Duration;

use super::content::Content;
use super::tests::{Bench, tail};
use super::*;

/// A tailer that keeps rests, with a log of which the hub has one line and a few hundred wait.
fn waiting(limit_bytes: u64, used_percent: u64) -> (Bench, Vec<String>) {
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

/// Time goes by and nobody takes lines.
fn idle(bench: &mut Bench, seconds: u64) {
    for _ in 0..seconds * 2 {
        bench.now = bench.now + Duration::from_millis(500);
        bench.scan();
    }
}

fn rests(bench: &Bench) -> usize {
    fs::read_dir(bench.path("rests")).map_or(0, Iterator::count)
}

fn is_closed(bench: &Bench) -> bool {
    bench.tailer.files.values().all(|file| matches!(file.content, Content::Kept(_)))
}

#[test]
fn rest_of_a_deleted_log_is_kept_and_read_once() {
    for is_restarted in [false, true] {
        let (mut bench, lines) = waiting(1 << 20, 100);
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
        assert!(bench.tailer.files.is_empty());
    }
}

#[test]
fn rest_goes_on_where_the_hub_stands() {
    let (mut bench, lines) = waiting(1 << 20, 100);
    idle(&mut bench, 70);
    bench.scan();
    for _ in 0..2 {
        let chunk = bench.tailer.read(bench.now).unwrap();
        assert!(bench.hub.append(&chunk));
    }
    // Two chunks are at the hub, and the agent dies before it hears of it.
    bench.restart();
    bench.run(5);
    assert_eq!(bench.hub.lines, lines);
    assert_eq!(rests(&bench), 0);
}

#[test]
fn what_has_no_room_on_a_full_disk_is_a_measured_gap() {
    for is_restarted in [false, true] {
        let (mut bench, lines) = waiting(600, 0);
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
fn what_has_no_room_is_held_while_the_disk_is_not_full() {
    let (mut bench, lines) = waiting(600, 100);
    idle(&mut bench, 200);
    assert!(!is_closed(&bench));
    assert_eq!(rests(&bench), 0);
    let events = bench.tailer.take_events();
    assert!(events.iter().any(|event| matches!(event, TailEvent::NotKept { .. })), "{events:?}");
    bench.run(60);
    assert_eq!(bench.hub.lines, lines);
}

#[test]
fn new_file_with_the_inode_of_a_kept_one_is_read() {
    let (mut bench, mut lines) = waiting(1 << 20, 100);
    idle(&mut bench, 70);
    // Closed, so its inode is free for the next one.
    bench.append("a.log", "another line\n");
    bench.run(10);
    lines.push("another line".to_owned());
    bench.hub.lines.sort();
    lines.sort();
    assert_eq!(bench.hub.lines, lines);
}
