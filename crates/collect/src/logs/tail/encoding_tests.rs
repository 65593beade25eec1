//! Files whose bytes cannot be cut at every newline: UTF-16, and records of CSV.

use std::fs::OpenOptions;
use std::io::Write;

use super::RecordLogs;
use super::tests::{TailBench, tail};

fn append_utf16(bench: &TailBench, text: &str) {
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut file = OpenOptions::new().append(true).create(true).open(bench.path("a.log")).unwrap();
    file.write_all(&bytes).unwrap();
}

/// Lines without their zero bytes.
fn lines(bench: &TailBench) -> Vec<String> {
    let lines = bench.hub.lines.iter().map(|line| line.replace('\0', ""));
    lines.filter(|line| !line.is_empty()).collect()
}

/// fluent/fluent-bit#9321 and elastic/filebeat#205: a log of SQL Server that grows.
#[test]
fn zero_bytes_of_utf_16_are_no_hole_and_lines_are_given_once() {
    let mut bench = tail();
    append_utf16(&bench, "\u{feff}one\r\ntw");
    bench.run(2);
    assert_eq!(lines(&bench), ["\u{fffd}\u{fffd}one\r"]);
    append_utf16(&bench, "o\r\n");
    bench.run(2);
    bench.restart();
    append_utf16(&bench, "three\r\n");
    bench.run(2);
    assert_eq!(lines(&bench), ["\u{fffd}\u{fffd}one\r", "two\r", "three\r"]);
    assert_eq!((bench.hub.skipped, bench.hub.streams.len()), (0, 1));
}

/// fluent/fluent-bit#3827, fluent/fluentd#680 and logstash-plugins/logstash-filter-csv#75: a trace in
/// a value, written line by line.
#[test]
fn record_of_csv_is_given_whole_and_left_to_its_parser() {
    let mut bench = tail();
    bench.tailer.set_record_logs(RecordLogs::new(|_, path| path.ends_with("a.log")));
    bench.append("a.log", "1,\"\",x\n2,\"java.lang.RuntimeException: no\n");
    bench.run(1);
    assert_eq!(bench.hub.lines, ["1,\"\",x"]);
    bench.append("a.log", "  at a.b(C.java:1)\",x\n3,,x\n");
    bench.run(1);
    let whole =
        ["1,\"\",x", "2,\"java.lang.RuntimeException: no", "  at a.b(C.java:1)\",x", "3,,x"];
    assert_eq!(bench.hub.lines, whole);
    assert!(bench.hub.events.is_empty());
    // A torn record does not wait for ever.
    bench.append("a.log", "4,\"torn\n");
    bench.run(1);
    assert_eq!(bench.hub.lines.len(), 4);
    bench.run(4);
    assert_eq!(bench.hub.lines.len(), 5);
}

#[test]
fn chunk_has_the_time_of_the_last_write() {
    let mut bench = tail();
    bench.append("a.log", "one\n");
    let written = bench.path("a.log").metadata().unwrap().modified().unwrap();
    let written = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
    bench.start_files();
    bench.scan();
    let chunk = bench.tailer.read(bench.now).unwrap();
    assert_eq!(chunk.modified.map(|time| u128::try_from(time.0).unwrap()), Some(written));
}
