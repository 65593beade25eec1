//! A template of Apache or nginx, a NUL byte, and lines: each line is exactly one row, and a line
//! reads the same alone. The first byte selects the program and nginx's escape mode.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{NOW, assert_one_row_per_line, log_source};
use weir_parse::{LineParser, ParsedRows, RowText, StreamName};
use weir_tables::{JsonEscape, LogFormat};

const STREAM: StreamName<'_> = StreamName { path: "/a", host: "web1" };

fuzz_target!(|bytes: &[u8]| {
    let [program, bytes @ ..] = bytes else { return };
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (Some(template), Some(lines)) = (parts.next(), parts.next()) else { return };
    let Ok(template) = std::str::from_utf8(template).map(str::to_owned) else { return };
    let format = match program % 4 {
        0 => LogFormat::ApacheTemplate { template },
        1 => LogFormat::NginxTemplate { template, escape: JsonEscape::Default },
        2 => LogFormat::NginxTemplate { template, escape: JsonEscape::Json },
        _ => LogFormat::NginxTemplate { template, escape: JsonEscape::None },
    };
    let mut parser = LineParser::new(&log_source(format), STREAM);
    // A file that is UTF-16 has other lines.
    if matches!(lines, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) || lines.contains(&0) {
        return;
    }
    let mut together = ParsedRows::default();
    parser.parse(lines, 0, NOW, &mut together);
    let rows = together.finish();
    assert_one_row_per_line(&rows, lines, parser.format_name());
    let tables: Vec<&str> = RowText::all(&rows).into_iter().map(|row| row.table).collect();
    let mut alone = Vec::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let mut row = ParsedRows::default();
        parser.parse(line, 1, NOW, &mut row);
        alone.extend(RowText::all(&row.finish()).into_iter().map(|row| row.table));
    }
    assert_eq!(tables, alone, "tables of the lines together, and one by one");
});
