//! A grok pattern, a NUL byte, then log lines: a pattern is refused, or each line is one row.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{NOW, assert_one_row_per_line, log_source};
use weir_parse::{ParsedRows, ParserFile, Parsers, StreamName};
use weir_tables::LogFormat;

static PARSERS: LazyLock<Parsers> = LazyLock::new(Parsers::built_in);

fuzz_target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|byte| *byte == 0) else { return };
    let (pattern, lines) = (String::from_utf8_lossy(&bytes[..end]), &bytes[end + 1..]);
    let text = format!("[parse]\nformat = \"grok\"\npattern = '''{pattern}'''\n");
    match PARSERS.pipeline_of(ParserFile { origin: "fuzz.toml", text: &text }) {
        Err(problem) => assert!(problem.line <= text.lines().count() + 1, "{problem}\n{text}"),
        Ok(pipeline) => {
            let stream = StreamName { path: "/a", host: "web1" };
            let source = log_source(LogFormat::Auto);
            let mut parser = PARSERS.line_parser_with(Some(&pipeline), &source, stream);
            let mut rows = ParsedRows::default();
            parser.parse(lines, 0, NOW, &mut rows);
            assert_one_row_per_line(&rows.finish(), lines, &text);
        }
    }
});
