//! Events of several lines: returned complete and once, over rotations and deaths.

use std::fs;

use super::tests::{TailBench, tail};
use super::*;

fn java() -> TailBench {
    let mut bench = tail();
    restart(&mut bench);
    bench
}

fn restart(bench: &mut TailBench) {
    bench.restart();
    let rule = Multiline::preset("java").unwrap();
    bench.tailer.set_multiline(vec![(bench.path("*.log"), rule)]);
}

fn events(bench: &mut TailBench, seconds: u64) -> Vec<String> {
    let before = bench.hub.events.len();
    bench.run(seconds);
    bench.hub.events.split_off(before)
}

#[test]
fn event_is_given_when_the_next_one_begins_or_after_the_timeout() {
    let mut bench = java();
    bench.append("a.log", "ERROR x\na.b.Exception: y\n\tat a.b(c)\n");
    assert!(events(&mut bench, 1).is_empty());
    bench.append("a.log", "\tat d.e(f)\nINFO next\n");
    assert_eq!(events(&mut bench, 1), ["ERROR x\na.b.Exception: y\n\tat a.b(c)\n\tat d.e(f)\n"]);
    assert_eq!(events(&mut bench, 3), ["INFO next\n"]);
}

#[test]
fn reader_that_dies_in_the_middle_of_an_event_restarts_it() {
    let mut bench = java();
    bench.append("a.log", "INFO start\nERROR x\n\tat a.b(c)\n");
    assert_eq!(events(&mut bench, 1), ["INFO start\n"]);
    restart(&mut bench);
    bench.append("a.log", "\tat d.e(f)\n");
    assert_eq!(events(&mut bench, 5), ["ERROR x\n\tat a.b(c)\n\tat d.e(f)\n"]);
    restart(&mut bench);
    assert!(events(&mut bench, 5).is_empty());
}

#[test]
fn event_at_a_rotation_is_given_once() {
    let mut bench = java();
    bench.append("a.log", "INFO start\nERROR x\n\tat a.b(c)\n");
    bench.run(1);
    fs::rename(bench.path("a.log"), bench.path("a.log.1")).unwrap();
    bench.append("a.log", "INFO next\n");
    restart(&mut bench);
    bench.run(20);
    bench.hub.events.sort();
    assert_eq!(bench.hub.events, ["ERROR x\n\tat a.b(c)\n", "INFO next\n", "INFO start\n"]);
}

#[test]
fn pieces_of_a_containers_message_are_read_together_without_a_rule() {
    let mut bench = tail();
    let time = "2026-11-20T12:00:00.1Z";
    bench.append("a.log", &format!("{time} stdout F first\n"));
    bench.run(1);
    assert_eq!(bench.hub.lines.len(), 1, "a complete message waits for nothing");
    bench.append("a.log", &format!("{time} stdout P b\n{time} stderr F c\n"));
    bench.run(1);
    assert_eq!(bench.hub.lines.len(), 1);
    bench.restart();
    bench.append("a.log", &format!("{time} stdout F d\n{time} stdout F e\n{time} stdout P f\n"));
    bench.run(1);
    assert_eq!(bench.hub.lines.len(), 5);
    // Its end never comes.
    bench.run(5);
    assert_eq!(bench.hub.lines.len(), 6);
}
