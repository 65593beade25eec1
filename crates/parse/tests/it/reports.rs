//! Further situations from public reports about other shippers and parsers, by kind. Names, addresses
//! and dates are replaced.

use weir_parse::{ParsedRows, RowText};
use weir_tables::{LogFormat, Micros};

use crate::{nginx, parser};

/// 2026-11-27T23:00:00Z.
const OBSERVED: Micros = Micros(1_795_820_400_000_000);

/// A report, its line, and what the row has: `table`, columns and `attrs.NAME`; `-` is none.
type ReportedLine<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

fn rows(observed: Micros, format: &LogFormat, bytes: &[u8]) -> Vec<RowText> {
    let mut out = ParsedRows::default();
    parser(format.clone()).parse(bytes, 0, observed, &mut out);
    RowText::all(&out.finish())
}

/// Values that differ, each with its report and row.
fn wrong_values(observed: Micros, format: &LogFormat, lines: &[ReportedLine<'_>]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (report, line, expected) in lines {
        let rows = rows(observed, format, format!("{line}\n").as_bytes());
        assert_eq!(rows.len(), 1, "{report}: {line}");
        for (name, value) in *expected {
            let found = if *name == "table" { Some(rows[0].table) } else { rows[0].get(name) };
            let found = found.unwrap_or("-");
            if found != *value {
                wrong.push(format!("{report}: {name} = {found}, not {value}, of {:?}", rows[0]));
            }
        }
    }
    wrong
}

/// Lines of logs, and the time at which they are read. A blank line ends an entry. Its format is
/// unknown unless a template is in front of its line.
#[test]
fn reported_lines_have_their_columns() {
    let files = [
        (include_str!("public.txt"), crate::OBSERVED),
        (include_str!("reports.txt"), OBSERVED),
        (include_str!("gateways.txt"), OBSERVED),
        (include_str!("strangers.txt"), OBSERVED),
        (include_str!("programs.txt"), OBSERVED),
        (include_str!("crowds.txt"), OBSERVED),
        (include_str!("devices.txt"), OBSERVED),
        (include_str!("trackers.txt"), OBSERVED),
        (include_str!("roads.txt"), OBSERVED),
        (include_str!("shippers.txt"), OBSERVED),
        (include_str!("templates.txt"), OBSERVED),
        (include_str!("senders.txt"), OBSERVED),
        (include_str!("brokers.txt"), OBSERVED),
        (include_str!("clouds.txt"), OBSERVED),
    ];
    let mut wrong = Vec::new();
    for (text, observed) in files {
        for entry in text.split("\n\n").skip(1) {
            let (report, template, line, expected) = match entry.lines().collect::<Vec<_>>()[..] {
                [report, line, expected] => (report, "", line, expected),
                [report, template, line, expected] => (report, template, line, expected),
                _ => panic!("{entry}"),
            };
            let format = match template.split_once(' ') {
                Some(("apache", text)) => LogFormat::ApacheTemplate { template: text.into() },
                Some((_, text)) => nginx(text),
                None => LogFormat::Auto,
            };
            let pairs: Vec<_> =
                expected.split("; ").filter_map(|pair| pair.split_once(" = ")).collect();
            wrong.extend(wrong_values(observed, &format, &[(report, line, &pairs)]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// fluent/fluent-bit#1161 and elastic/kibana#36442 (`\r` at the end), elastic/beats#32925 and
/// elastic/beats#49259 (`\r` within a line, as progress bars write it).
#[test]
fn carriage_returns_end_no_row_and_are_in_none() {
    let bytes = b"WARN first\r\nlevel=info msg=\"second\" n=1\r\n10%\r20%\rdone\r\n\r\nlast\r";
    let found = rows(OBSERVED, &LogFormat::Auto, bytes);
    let bodies: Vec<_> = found.iter().map(|row| row.get("body").unwrap_or("-")).collect();
    assert_eq!(bodies, ["WARN first", "second", "10%\r20%\rdone", "last"]);
}

/// containerd/containerd#4813: a container's last line without a newline stays a piece.
#[test]
fn last_piece_of_a_container_is_a_row() {
    let bytes = b"2026-11-27T15:32:38.994574754Z stdout P Hello from init container!\n";
    let found = rows(OBSERVED, &LogFormat::Auto, bytes);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].get("body"), Some("Hello from init container!"));
}

/// `journalctl -o export` of systemd 252: fields with a newline have their length in front.
#[test]
fn entries_of_the_export_format_of_the_journal_are_rows() {
    let first =
        b"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1795812600123456\n_BOOT_ID=b\nPRIORITY=3\n\
        SYSLOG_IDENTIFIER=app\n_PID=7\nMESSAGE\n\x0b\0\0\0\0\0\0\0one\n\ntwo=\xff\xff\n_UID=0\n\n";
    let second = b"__CURSOR=s=1;i=3\n__REALTIME_TIMESTAMP=1795812601000000\n_COMM=nginx\n\
        MESSAGE=192.0.2.1 - - [27/Nov/2026:20:50:01 +0000] \"GET /a HTTP/1.1\" 200 5\n\n";
    let bytes = [&first[..], second].concat();
    let mut out = ParsedRows::default();
    let ends = [first.len(), bytes.len()];
    parser(LogFormat::Auto).parse_events(&bytes, &ends, 0, OBSERVED, &mut out);
    let rows = RowText::all(&out.finish());
    let values = |row: usize| {
        ["ts", "program", "severity", "body", "url_path", "attrs._UID"]
            .map(|name| rows[row].get(name))
    };
    let ts = Some("2026-11-27T20:50:00.123456Z");
    let body = Some("one\n\ntwo=\\xFF\\xFF");
    assert_eq!(values(0), [ts, Some("app"), Some("error"), body, None, Some("0")]);
    let ts = Some("2026-11-27T20:50:01.000000Z");
    assert_eq!(values(1), [ts, Some("nginx"), None, None, Some("/a"), None]);
}

/// `journalctl -o verbose` of systemd 252: a value's further lines are indented to its first.
#[test]
fn verbose_entries_of_the_journal_are_rows() {
    let first = "Fri 2026-11-27 21:50:00.123456 CET [s=a;i=1;b=c;m=1;t=2;x=3]\n    PRIORITY=3\n    \
        SYSLOG_IDENTIFIER=app\n    MESSAGE=one\n            two=2\n    _PID=7\n    _UID=0\n";
    let second = "Fri 2026-11-27 21:50:01.000000 CET [s=a;i=2;b=c;m=1;t=2;x=3]\n    _COMM=nginx\n    \
        MESSAGE=192.0.2.1 - - [27/Nov/2026:20:50:01 +0000] \"GET /a HTTP/1.1\" 200 5\n";
    let bytes = [first, second].concat();
    let mut out = ParsedRows::default();
    let ends = [first.len(), bytes.len()];
    parser(LogFormat::Auto).parse_events(bytes.as_bytes(), &ends, 0, OBSERVED, &mut out);
    let rows = RowText::all(&out.finish());
    let values = |row: usize| {
        ["ts", "program", "severity", "process_id", "body", "url_path", "attrs._UID"]
            .map(|name| rows[row].get(name))
    };
    let body = Some("one\n            two=2");
    let ts = Some("2026-11-27T20:50:00.123456Z");
    assert_eq!(values(0), [ts, Some("app"), Some("error"), Some("7"), body, None, Some("0")]);
    let ts = Some("2026-11-27T20:50:01.000000Z");
    assert_eq!(values(1), [ts, Some("nginx"), None, None, None, Some("/a"), None]);
}

/// `varnishlog` of Varnish 7.1: a transaction is one row and no request, whatever its headers hold.
#[test]
fn transactions_of_varnishlog_are_rows() {
    let text = "*   << Request  >> 32770\n-   Begin          req 32769 rxreq\n\
        -   Timestamp      Start: 1795812600.123456 0.000000 0.000000\n\
        -   ReqHeader      X: 192.0.2.1 - - [27/Nov/2026:20:50:01 +0000] \"GET /a HTTP/1.1\" 200 5\n";
    let mut out = ParsedRows::default();
    let ends = [text.len()];
    parser(LogFormat::Auto).parse_events(text.as_bytes(), &ends, 0, OBSERVED, &mut out);
    let rows = RowText::all(&out.finish());
    assert_eq!((rows.len(), rows[0].table), (1, "log"));
    assert_eq!(rows[0].get("ts"), Some("2026-11-27T20:50:00.123456Z"));
    assert_eq!(
        (rows[0].get("program"), rows[0].get("body")),
        (Some("varnishd"), Some(text.trim_end()))
    );
}
