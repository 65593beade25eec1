//! The hostile corpus: what visitors, torn writers and bad clocks put into logs, through every
//! format and pipeline.
//!
//! `WEIR_FUZZ_SECONDS` sets how long each reader of bytes is fed with random lines (2 s without
//! it).

use std::sync::Arc;
use std::time::Duration;

use arbtest::arbitrary::{self, Unstructured};
use regex::bytes::Regex;
use weir_parse::{ParsedRows, ParserFile, Parsers, Pipeline, RowText, StreamName};
use weir_tables::{Batch, LogFormat, LogSource, Program};

use crate::{OBSERVED, expected_offsets, hostile_bytes, row_offsets};

const STREAM: StreamName<'_> = StreamName { path: "/a", host: "web1" };

/// One pipeline for each reader that is not reached by a found format.
const PIPELINES: [&str; 8] = [
    "[parse]\nformat = \"grok\"\npattern = [\"%{COMBINEDAPACHELOG}\", \"%{HAPROXYHTTP}\", \"%{SYSLOGLINE}\"]\n",
    "[parse]\nformat = \"regex\"\nanywhere = true\npattern = '(?<a>\\w+)=(?<b>.*?)[ ,](?<rest>.*)'\n",
    "[parse]\nformat = \"csv\"\n",
    "[parse]\nformat = \"tsv\"\ncolumns = [\"a\", \"b\"]\n",
    "[parse]\nformat = \"w3c\"\n",
    "[parse]\nformat = \"key_value\"\n",
    "[parse]\nformat = \"key_value\"\npair_separator = \",\"\nvalue_separator = \": \"\nkeys = [\"a\"]\n",
    STEPS,
];

/// The one of them whose records can have several lines.
const CSV: usize = 2;

const STEPS: &str = r#"
[parse]
format = "auto"
time_zone = "America/Sao_Paulo"
[[step]]
when = "http_response_status_code >= 200 or body contains 'a' or level exists"
set = { note = "%{url_path} %{body}", ts = "%{d}" }
rename = { a = "program", program = "b", url_path = "duration_seconds" }
convert = { b = "bytes", c = "ms_to_s", status = "integer" }
tag = "x"
redact = ["email", "card", "token", "client_address"]
[[step]]
when = "not (url_query exists)"
route = "log"
[[step]]
when = "url_query exists"
route = "request"
[[step]]
when = "body ends_with 'z'"
reject = "z"
"#;

pub(crate) fn budget_ms() -> u64 {
    let seconds = std::env::var("WEIR_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    u64::try_from(Duration::from_secs(seconds.unwrap_or(2)).as_millis()).expect("some minutes")
}

fn source(format: LogFormat) -> LogSource {
    LogSource { path: "/a".into(), program: Program::Other, format, found_in: "test".into() }
}

fn read(pipeline: &str, bytes: &[u8]) -> Vec<Batch> {
    let parsers = Parsers::built_in();
    let file = ParserFile { origin: "my.toml", text: pipeline };
    let pipeline = parsers.pipeline_of(file).expect("a good pipeline");
    let source = source(LogFormat::Auto);
    let mut parser = parsers.line_parser_with(Some(&pipeline), &source, STREAM);
    let mut out = ParsedRows::default();
    parser.parse(bytes, 1000, OBSERVED, &mut out);
    out.finish()
}

#[test]
fn any_bytes_give_one_row_a_line_in_every_pipeline() {
    let parsers = Parsers::built_in();
    let own = PIPELINES.iter().map(|text| {
        parsers.pipeline_of(ParserFile { origin: "my.toml", text }).expect("a good pipeline")
    });
    let read = own.chain(parsers.pipelines().cloned()).map(Some);
    // Without one, the first line chooses.
    let read: Vec<_> = read.chain([None]).collect();
    arbtest::arbtest(move |u| {
        let bytes = hostile_bytes(u)?;
        for (nr, pipeline) in read.iter().enumerate() {
            let source = source(LogFormat::Auto);
            let mut parser = parsers.line_parser_with(pipeline.as_ref(), &source, STREAM);
            let mut out = ParsedRows::default();
            // In two parts, as chunks come.
            let cut = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            parser.parse(&bytes[..cut], 1000, OBSERVED, &mut out);
            parser.parse(&bytes[cut..], 1000 + cut as u64, OBSERVED, &mut out);
            let offsets = row_offsets(&out.finish());
            let is_csv = |one: &Arc<Pipeline>| one.name() == "postgresql_csv";
            if nr == CSV || pipeline.as_ref().is_some_and(is_csv) {
                is_covered_by_records(&bytes, cut, &offsets);
            } else {
                assert_eq!(offsets, expected_offsets(&bytes), "pipeline {nr}");
            }
        }
        Ok(())
    })
    .budget_ms(budget_ms());
}

/// A line without its own row is inside a record with a quoted value of several lines.
fn is_covered_by_records(bytes: &[u8], cut: usize, offsets: &[i64]) {
    let value = r#"(?:[^",\n][^,\n]*|"(?:[^"]|"")*")?"#;
    let record = Regex::new(&format!(r"^(?:\u{{feff}})?(?-u:(?:{value},)*{value}\s*)$"));
    let record_pattern = record.expect("a good pattern");
    let lines = expected_offsets(bytes);
    assert!(offsets.iter().all(|offset| lines.contains(offset)), "{offsets:?}");
    for line in lines.iter().filter(|line| !offsets.contains(line)) {
        let begin = offsets.iter().rfind(|offset| *offset < line).expect("a row before");
        let end = offsets.iter().find(|offset| *offset > line);
        let [begin, end] = [Some(begin), end].map(|offset| {
            offset.map_or(bytes.len(), |offset| usize::try_from(*offset).expect("small") - 1000)
        });
        let end = if begin < cut { end.min(cut) } else { end };
        let record = &bytes[begin..end];
        assert!(record_pattern.is_match(record), "{}", record.escape_ascii());
    }
}

/// Lines of reports, among them those of each proxy in JSON, of devices and of Windows.
const REPORTS: [&str; 10] = [
    include_str!("crowds.txt"),
    include_str!("devices.txt"),
    include_str!("gateways.txt"),
    include_str!("programs.txt"),
    include_str!("public.txt"),
    include_str!("reports.txt"),
    include_str!("roads.txt"),
    include_str!("shippers.txt"),
    include_str!("strangers.txt"),
    include_str!("trackers.txt"),
];

/// A line of a report with a part of another one in its middle, and random bytes.
fn changed_line(u: &mut Unstructured<'_>, lines: &[&str]) -> arbitrary::Result<Vec<u8>> {
    let [mut line, other] =
        [u.choose(lines)?.as_bytes().to_vec(), u.choose(lines)?.as_bytes().to_vec()];
    for _ in 0..u.int_in_range(0..=3)? {
        let at = u.int_in_range(0..=line.len())?;
        let end = u.int_in_range(at..=line.len())?;
        match u.int_in_range(0..=3)? {
            0 => drop(line.drain(at..end.min(at + 20))),
            1 => line.insert(at, u.arbitrary()?),
            2 => {
                let from = u.int_in_range(0..=other.len())?;
                line.truncate(at);
                line.extend_from_slice(&other[from..]);
            }
            _ => drop(line.splice(at..at, line[at..end].to_vec())),
        }
    }
    line.retain(|byte| *byte != b'\n');
    Ok(line)
}

/// A line as it stands in a log: alone, in an entry of the CRI or of Docker, whole or in pieces, or
/// behind a header of syslog.
fn enveloped(u: &mut Unstructured<'_>, line: &[u8]) -> arbitrary::Result<Vec<u8>> {
    let text = String::from_utf8_lossy(line);
    Ok(match u.int_in_range(0..=6)? {
        0 => [&b"2026-11-20T11:59:59.123456789Z stdout F "[..], line].concat(),
        1 => [&b"2026-11-20T11:59:59.123456789Z stderr P "[..], line].concat(),
        2 => serde_json::json!({"log": text + "\n", "stream": "stdout"}).to_string().into_bytes(),
        3 => serde_json::json!({"log": text, "stream": "stderr"}).to_string().into_bytes(),
        4 => [&b"<34>Nov 20 11:59:59 web1 app[7]: "[..], line].concat(),
        _ => line.to_vec(),
    })
}

/// Each row starts at the offset of a line. Only partial container messages share a row.
#[test]
fn changed_lines_of_reports_are_rows_at_their_offsets() {
    let entries = REPORTS.iter().flat_map(|text| text.split("\n\n").skip(1));
    let lines: Vec<&str> = entries.filter_map(|entry| entry.lines().nth(1)).collect();
    assert!(lines.len() > 300, "{}", lines.len());
    arbtest::arbtest(move |u| {
        let mut bytes = Vec::new();
        for _ in 0..u.int_in_range(1..=6)? {
            let line = changed_line(u, &lines)?;
            bytes.extend(enveloped(u, &line)?);
            bytes.push(b'\n');
        }
        let mut out = ParsedRows::default();
        crate::parser(LogFormat::Auto).parse(&bytes, 1000, OBSERVED, &mut out);
        let (offsets, expected) = (row_offsets(&out.finish()), expected_offsets(&bytes));
        assert!(offsets.is_sorted_by(|one, next| one < next), "{}", bytes.escape_ascii());
        assert!(
            offsets.iter().all(|at| expected.binary_search(at).is_ok()),
            "{}",
            bytes.escape_ascii()
        );
        let has_pieces = bytes.windows(8).any(|part| matches!(part, b"stdout P" | b"stderr P"))
            || has_part(&bytes, b"\"log\"");
        assert!(has_pieces || offsets == expected, "{}", bytes.escape_ascii());
        assert_eq!(offsets.first(), expected.first(), "{}", bytes.escape_ascii());
        Ok(())
    })
    .budget_ms(budget_ms());
}

fn has_part(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn any_text_is_a_pipeline_or_refused_with_its_line() {
    const PARTS: [&str; 24] = [
        "[parse]\n",
        "[match]\n",
        "[[step]]\n",
        "[patterns]\n",
        "format = \"grok\"\n",
        "format = \"csv\"\n",
        "pattern = \"%{IP:a} (?<b>x)\"\n",
        "pattern = [\"%{\", 5]\n",
        "A = \"%{A}\"\n",
        "when = \"a = 1 and\"\n",
        "when = '(((not a) or b in [1,2]'\n",
        "tag = \"t\"\n",
        "set = { a = 1 }\n",
        "drop = 5\n",
        "path = \"*\"\n",
        "time = \"%d\"\n",
        "time_zone = \"x\"\n",
        "columns = [\"a\", \"a\"]\n",
        "\"",
        "\\",
        "= ",
        "{",
        "\n",
        "é",
    ];
    let parsers = Parsers::built_in();
    arbtest::arbtest(move |u| {
        let mut text = String::new();
        for _ in 0..u.int_in_range(0..=12)? {
            text += u.choose(&PARTS)?;
        }
        if let Err(problem) = parsers.pipeline_of(ParserFile { origin: "my.toml", text: &text }) {
            // The end of the text may be a separate line.
            assert!(problem.line <= text.lines().count() + 1, "{problem}\n{text}");
            assert!(problem.to_string().starts_with("cannot use my.toml:"), "{problem}");
        }
        Ok(())
    })
    .budget_ms(budget_ms() / 2);
}

#[test]
fn a_megabyte_in_one_line_is_one_row_in_every_pipeline() {
    for fill in ["a", "a=b ", "\"", ",", "\\", " ", "é", "1.", "{\"a\":"] {
        let line = fill.repeat((1 << 20) / fill.len());
        for pipeline in PIPELINES {
            let rows: usize =
                read(pipeline, line.as_bytes()).iter().map(|b| b.rows.num_rows()).sum();
            assert_eq!(rows, usize::from(!line.trim().is_empty()), "{fill} {pipeline}");
        }
    }
}

/// Events of devices and of Windows with a megabyte of what could be read twice.
#[test]
fn a_megabyte_of_marks_is_one_row_in_time_that_grows_with_it() {
    for (front, fill) in [
        ("CEF:0|a|b|1|2|n|5|", "="),
        ("CEF:0|a|b|1|2|n|5|", "a=b "),
        ("CEF:0|a|b|1|2|n|5|k=", "x"),
        ("CEF:0|", "\\"),
        ("CEF:0|a|b|1|2|n|5|", "aLabel=b a=c "),
        ("LEEF:1.0|a|b|1|2|", "|"),
        ("LEEF:2.0|a|b|1|2|^|", "a=b^"),
        ("<Event><System></System><EventData>", "<Data>"),
        ("<Event><System></System><EventData>", "<Data Name='a'>b</Data>"),
        ("<Event><System></System><UserData>", "<a></"),
        ("<Event><System></System><UserData>", "<a"),
        ("<Event><System><Provider ", "a='b' "),
        ("<Event><System></System><EventData><Data>", "&#x"),
        ("firewall,info ", "->"),
        ("a,info", ","),
    ] {
        let line = format!("{front}{}\n", fill.repeat((1 << 20) / fill.len() - front.len()));
        let mut out = ParsedRows::default();
        crate::parser(LogFormat::Auto).parse(line.as_bytes(), 0, OBSERVED, &mut out);
        assert_eq!(RowText::all(&out.finish()).len(), 1, "{front}{fill}");
    }
}

#[test]
fn invented_keys_cost_one_budget_in_every_format() {
    let pairs: String = (0..60_000).map(|n| format!("key{n}=v{n} ")).collect();
    let rows = RowText::all(&read("[parse]\nformat = \"key_value\"\n", pairs.as_bytes()));
    assert_eq!(rows[0].attrs.len(), 256 + 2);
    assert_eq!(rows[0].get("attrs.weir.more_count"), Some("59744"));
    let lines: String = (0..100_000).map(|n| format!("msg=m key{n}=v\n")).collect();
    let rows = RowText::all(&read("[parse]\nformat = \"key_value\"\n", lines.as_bytes()));
    let own: std::collections::HashSet<&str> =
        rows.iter().flat_map(|row| row.attrs.iter().map(|(key, _)| key.as_str())).collect();
    assert_eq!((rows.len(), own.len()), (100_000, 1_000 + 2));
    let kept = rows.iter().filter(|row| row.get("attrs.weir.more_count") == Some("1")).count();
    assert_eq!(kept, 99_000, "every value beyond the budget is still there");
}

#[test]
fn clocks_and_zones_of_a_fleet_are_read() {
    let read = |zone: &str, line: &str| {
        let text = format!("[parse]\nformat = \"syslog\"\ntime_zone = \"{zone}\"\n");
        let rows = RowText::all(&read(&text, line.as_bytes()));
        (rows[0].get("ts").map(str::to_owned), rows[0].get("repair").map(str::to_owned))
    };
    for (zone, line, ts, repair) in [
        ("UTC", "Nov 20 12:01:30 h a: 90 s ahead", "2026-11-20T12:01:30.000000Z", None),
        ("UTC", "Nov 20 11:58:30 h a: 90 s behind", "2026-11-20T11:58:30.000000Z", None),
        ("Asia/Kolkata", "Nov 20 17:30:00 h a: b", "2026-11-20T12:00:00.000000Z", None),
        ("Pacific/Auckland", "Nov 21 01:00:00 h a: b", "2026-11-20T12:00:00.000000Z", None),
        ("UTC", "Dec 31 23:59:59 h a: b", "2025-12-31T23:59:59.000000Z", None),
        (
            "UTC",
            "<34>1 2036-01-01T00:00:00Z h a - - - b",
            "2026-11-20T12:00:00.000000Z",
            Some("implausible_time"),
        ),
        (
            "UTC",
            "<34>1 1970-01-01T00:00:00Z h a - - - b",
            "2026-11-20T12:00:00.000000Z",
            Some("implausible_time"),
        ),
    ] {
        assert_eq!(read(zone, line), (Some(ts.to_owned()), repair.map(str::to_owned)), "{line}");
    }
}

/// The line of an audit record is a visitor's as well: quotes in quotes nest no calls.
#[test]
fn quotes_of_audit_records_do_not_nest() {
    let [open, close] = ["x='".repeat(100_000), "'".repeat(100_000)];
    let line = format!("type=A msg=audit(1795176000.123:1): {open}{close}\n");
    let mut out = ParsedRows::default();
    crate::parser(LogFormat::Auto).parse(line.as_bytes(), 0, OBSERVED, &mut out);
    assert_eq!(RowText::all(&out.finish()).len(), 1);
}
