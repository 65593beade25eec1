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

fn check(format: &LogFormat, lines: &[ReportedLine<'_>]) {
    check_at(OBSERVED, format, lines);
}

fn check_at(observed: Micros, format: &LogFormat, lines: &[ReportedLine<'_>]) {
    let wrong = wrong_values(observed, format, lines);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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

const CONTAINERS: &[ReportedLine<'static>] = &[(
    "fluent/fluent-bit#4284",
    "2026-11-27T22:18:42.367618061Z stderr F ",
    &[("ts", "2026-11-27T22:18:42.367618Z"), ("body", "-"), ("attrs.stream", "stderr")],
)];

#[test]
fn reported_entries_of_containers_have_their_time_and_text() {
    check(&LogFormat::Auto, CONTAINERS);
}

/// Lines of logs of unknown format, and the time at which they are read. A blank line ends an entry.
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
    ];
    let mut wrong = Vec::new();
    for (text, observed) in files {
        for entry in text.split("\n\n").skip(1) {
            let [report, line, expected] = entry.lines().collect::<Vec<_>>()[..] else {
                panic!("{entry}")
            };
            let pairs: Vec<_> =
                expected.split("; ").filter_map(|pair| pair.split_once(" = ")).collect();
            wrong.extend(wrong_values(observed, &LogFormat::Auto, &[(report, line, &pairs)]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// allinurl/goaccess#2053, #2412 and #2698, elastic/integrations#4128: formats with words and brackets
/// between their values.
#[test]
fn reported_formats_of_nginx_have_their_columns() {
    check(
        &nginx(
            r#"[$time_local] $status - $request_method $scheme $host "$request_uri" [Client $remote_addr] [Length $body_bytes_sent] [Gzip $gzip_ratio] "$http_user_agent" "$http_referer""#,
        ),
        &[(
            "allinurl/goaccess#2053",
            r#"[27/Nov/2026:19:16:29 -0500] 400 - GET http a.example "/config/getuser?index=0" [Client 192.0.2.1] [Length 252] [Gzip -] "Mozilla/5.0 (X11; rv:76.0)" "-""#,
            &[
                ("url_path", "/config/getuser"),
                ("url_query", "index=0"),
                ("client_address", "192.0.2.1"),
                ("server_address", "a.example"),
                ("response_body_bytes", "252"),
            ],
        )],
    );
    check(
        &nginx(
            "[$time_local] $remote_addr - $server_name $host to: $upstream_addr: $request $status upstream_response_time $upstream_response_time msec $msec request_time $request_time",
        ),
        &[(
            "allinurl/goaccess#2412",
            "[27/Nov/2026:15:03:29 +0300] 192.0.2.1 - _ a.example to: 192.0.2.80:8080: GET /x?y=1 HTTP/1.1 200 upstream_response_time 0.012 msec 1795780209.787 request_time 0.013",
            &[
                ("ts", "2026-11-27T11:50:09.787000Z"),
                ("upstream_address", "192.0.2.80:8080"),
                ("url_path", "/x"),
                ("http_response_status_code", "200"),
                ("duration_seconds", "0.013"),
            ],
        )],
    );
    check(
        &nginx(
            r#"$remote_addr - $remote_user [$time_local] [$request_time] [PORT $server_port] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
        ),
        &[(
            "allinurl/goaccess#2698",
            r#"192.0.2.27 - - [27/Nov/2026:00:06:21 +0900] [0.003] [PORT 80] "GET /a_-_-_166.cmfa?sid=H&type=S HTTP/1.1" 200 82695 "-" "VisualOn OSMP+ Player(Linux;Android)""#,
            &[
                ("duration_seconds", "0.003"),
                ("server_port", "80"),
                ("response_body_bytes", "82695"),
            ],
        )],
    );
    check(
        &nginx(
            r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id"#,
        ),
        &[(
            "elastic/integrations#4128",
            r#"2001:db8::36 - - [27/Nov/2026:18:05:41 +0000] "GET /favicon.ico HTTP/2.0" 502 552 "https://a.example/" "Mozilla/5.0" 27 0.000 [a-8080] [] [2001:db8::7]:5000, [2001:db8::8]:5000 0, 0 0.000, 0.001 502, 502 3db7"#,
            &[
                ("client_address", "2001:db8::36"),
                ("upstream_address", "[2001:db8::8]:5000"),
                ("upstream_tries", "2"),
                ("upstream_status_code", "502"),
                ("upstream_response_seconds", "0.001"),
            ],
        )],
    );
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
