//! Logs of containers in CRI's format and Docker's `json-file`: pieces of a message are one row at
//! the first piece, whatever lies between them. The first byte selects the runtime; each line has
//! a byte in front that selects its stream, and whether it is a piece or no runtime's line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{NOW, log_source, row_offsets};
use weir_parse::{LineParser, ParsedRows, StreamName};
use weir_tables::{ContainerPiece, ContainerStream, LogFormat};

const STREAM: StreamName<'_> = StreamName { path: "/a", host: "web1" };

fuzz_target!(|bytes: &[u8]| {
    let [runtime, lines @ ..] = bytes else { return };
    let log = container_log(runtime % 2 == 0, lines);
    let mut parser = LineParser::new(&log_source(LogFormat::Auto), STREAM);
    let mut rows = ParsedRows::default();
    // Only the start of a file shows that it is UTF-16.
    parser.parse(&log, 1, NOW, &mut rows);
    assert_eq!(row_offsets(&rows.finish()), first_pieces(&log));
});

/// The log that the runtime writes.
fn container_log(is_cri: bool, lines: &[u8]) -> Vec<u8> {
    let mut log = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let Some((kind, text)) = line.split_first() else { continue };
        // A file that is UTF-16 has other lines.
        if text.contains(&0) {
            continue;
        }
        let stream = if kind & 1 == 0 { "stdout" } else { "stderr" };
        let is_partial = kind & 2 == 2;
        if kind & 12 == 12 {
            log.extend_from_slice(text);
        } else if is_cri {
            let mark = if is_partial { "P" } else { "F" };
            log.extend_from_slice(format!("2026-11-20T12:00:00.1Z {stream} {mark} ").as_bytes());
            log.extend_from_slice(text);
        } else {
            log.extend_from_slice(br#"{"log":""#);
            log.extend_from_slice(text);
            let end = if is_partial { "" } else { "\\n" };
            let time = "2026-11-20T12:00:00.1Z";
            let behind = format!(r#"{end}","stream":"{stream}","time":"{time}"}}"#);
            log.extend_from_slice(behind.as_bytes());
        }
        log.push(b'\n');
    }
    log
}

/// Offsets of the lines that begin a message. A line that is not in the runtime's format is a message.
fn first_pieces(log: &[u8]) -> Vec<i64> {
    let (mut at, mut firsts) = (1, Vec::new());
    let mut is_open = [false; 2];
    let mut is_joined = None;
    for line in log.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let piece = ContainerPiece::of(text.strip_suffix(b"\r").unwrap_or(text));
        let is_log = *is_joined.get_or_insert(piece.is_some());
        let mut is_first = !text.trim_ascii().is_empty();
        if let Some(piece) = piece.filter(|_| is_log) {
            let open = &mut is_open[usize::from(piece.stream == ContainerStream::Stderr)];
            is_first &= !*open;
            *open = piece.is_partial;
        }
        if is_first {
            firsts.push(i64::try_from(at).expect("inputs are short"));
        }
        at += line.len();
    }
    firsts
}
