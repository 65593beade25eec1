//! Lines of JSON as proxies, load balancers and applications write them, alone and in the envelopes
//! of CRI and syslog: each line is exactly one row.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{NOW, assert_one_row_per_line, log_source};
use weir_parse::{LineParser, ParsedRows, StreamName};
use weir_tables::{Batch, LogFormat};

const STREAM: StreamName<'_> = StreamName { path: "/a", host: "web1" };
const ENVELOPES: [&str; 3] = [
    "",
    "2026-11-20T12:00:00.123456789Z stdout F ",
    "<134>1 2026-11-20T12:00:00.123Z web1 proxy 1 - - ",
];

fuzz_target!(|bytes: &[u8]| {
    // A file that is UTF-16 has other lines.
    if matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) || bytes.contains(&0) {
        return;
    }
    for format in [LogFormat::Json, LogFormat::Journal] {
        let (batches, name) = parse(format, bytes);
        assert_one_row_per_line(&batches, bytes, name);
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        if line.trim_ascii().is_empty() || line.contains(&b'\r') {
            continue;
        }
        for front in ENVELOPES {
            let line = [front.as_bytes(), line, b"\n"].concat();
            let (batches, name) = parse(LogFormat::Auto, &line);
            assert_one_row_per_line(&batches, &line, name);
        }
    }
});

fn parse(format: LogFormat, bytes: &[u8]) -> (Vec<Batch>, &'static str) {
    let mut parser = LineParser::new(&log_source(format), STREAM);
    let mut rows = ParsedRows::default();
    parser.parse(bytes, 0, NOW, &mut rows);
    (rows.finish(), parser.format_name())
}
