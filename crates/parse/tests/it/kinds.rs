//! Kinds of trouble that public reports have in common: encodings, times, addresses, strictness.
//! Each case names its report; addresses, names and dates are replaced.

use weir_parse::{LineParser, ParsedRows, ParserFile, Parsers, RowText, StreamName, Zone};
use weir_tables::{LogFormat, LogSource, Micros, Program};

use crate::nginx;

/// 2026-11-20T12:00:00Z.
const NOON: Micros = Micros(1_795_176_000_000_000);
const STREAM: StreamName<'static> = StreamName { path: "/var/log/a.log", host: "web1" };

fn source(format: LogFormat) -> LogSource {
    let (path, found_in) = ("/var/log/a.log".into(), "test".into());
    LogSource { path, program: Program::Other, format, found_in }
}

fn parser(format: LogFormat) -> LineParser {
    LineParser::new(&source(format), STREAM)
}

fn rows(parser: &mut LineParser, bytes: &[u8], (offset, now): (u64, Micros)) -> Vec<RowText> {
    let mut out = ParsedRows::default();
    parser.parse(bytes, offset, now, &mut out);
    RowText::all(&out.finish())
}

fn column(rows: &[RowText], name: &str) -> Vec<String> {
    rows.iter().map(|row| row.get(name).unwrap_or("-").to_owned()).collect()
}

/// Rows of a pipeline.
fn pipeline_rows(text: &str, bytes: &[u8]) -> Vec<RowText> {
    let parsers = Parsers::built_in();
    let file = ParserFile { origin: "my.toml", text };
    let pipeline = parsers.pipeline_of(file).unwrap_or_else(|problem| panic!("{problem}"));
    let source = source(LogFormat::Auto);
    let mut parser = parsers.line_parser_with(Some(&pipeline), &source, STREAM);
    rows(&mut parser, bytes, (0, NOON))
}

fn utf16(text: &str, is_little: bool) -> Vec<u8> {
    let units = text.encode_utf16();
    units.flat_map(|unit| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() }).collect()
}

/// elastic/filebeat#205, elastic/beats#2500, fluent/fluent-bit#9321 and
/// logstash-plugins/logstash-input-file#226: the mark is only at the start of the file, and letters
/// such as `上` have a byte of a newline.
#[test]
fn utf_16_is_read_from_every_offset() {
    for is_little in [true, false] {
        let file = utf16(
            "\u{feff}2026-11-20 11:00:00 上海 ü\r\n2026-11-20 11:00:01 二上\r\n2026-11-20 11:00:02 c",
            is_little,
        );
        let expected =
            ["2026-11-20 11:00:00 上海 ü", "2026-11-20 11:00:01 二上", "2026-11-20 11:00:02 c"];
        let all = rows(&mut parser(LogFormat::Auto), &file, (0, NOON));
        assert_eq!(column(&all, "body"), expected);
        assert_eq!(column(&all, "ts")[1], "2026-11-20T11:00:01.000000Z");
        let second = 2 + 2 * "2026-11-20 11:00:00 上海 ü\r\n".encode_utf16().count();
        assert_eq!(all[1].source_offset, i64::try_from(second).ok());
        // A reader of bytes may have stopped between the two bytes of the newline.
        for start in [second, second - 1] {
            let mut behind = parser(LogFormat::Auto);
            behind.set_head(&file[..64]);
            let offset = u64::try_from(start).expect("small");
            let rest = rows(&mut behind, &file[start..], (offset, NOON));
            assert_eq!(column(&rest, "body"), expected[1..]);
        }
    }
}

/// fluent/fluent-bit#3256 and elastic/beats#1349, with the header of a file of CSV read again behind
/// it.
#[test]
fn mark_at_the_start_of_a_file_is_no_part_of_a_name_or_a_value() {
    let text = "[match]\npath = [\"*\"]\n[parse]\nformat = \"csv\"\n";
    let parsers = Parsers::built_in();
    let pipeline = parsers.pipeline_of(ParserFile { origin: "my.toml", text }).expect("right");
    let source = source(LogFormat::Auto);
    for is_header_read in [true, false] {
        let mut parser = parsers.line_parser_with(Some(&pipeline), &source, STREAM);
        let lines: &[u8] = if is_header_read {
            "\u{feff}order,message\n17,paid\n".as_bytes()
        } else {
            parser.set_header("\u{feff}order,message\n");
            b"17,paid\n"
        };
        let found = rows(&mut parser, lines, (0, NOON));
        let paid = found.last().expect("a row");
        assert_eq!((paid.get("attrs.order"), paid.get("body")), (Some("17"), Some("paid")));
    }
}

/// fluent/fluent-bit#5035, fluent/fluent-bit#2142 and grafana/loki#2251: lines in Latin-1 and
/// Windows-1252 among lines in UTF-8.
#[test]
fn western_text_is_read_where_a_pipeline_names_it_and_never_lost() {
    let bytes = b"Estagi\xe1rio visualizou \x96 5 \x80\nna\xc3\xafve\n";
    let named = pipeline_rows("[parse]\nencoding = \"windows-1252\"\n", bytes);
    assert_eq!(column(&named, "body"), ["Estagiário visualizou – 5 €", "naïve"]);
    assert_eq!(column(&named, "repair"), ["-", "-"]);
    let unnamed = rows(&mut parser(LogFormat::Auto), bytes, (0, NOON));
    assert_eq!(column(&unnamed, "body"), [r"Estagi\xE1rio visualizou \x96 5 \x80", "naïve"]);
    assert_eq!(column(&unnamed, "repair")[0], "invalid_utf8");
    let problem = Parsers::built_in()
        .pipeline_of(ParserFile { origin: "my.toml", text: "[parse]\nencoding = \"ebcdic\"\n" });
    let problem = problem.expect_err("an unknown encoding").to_string();
    assert!(problem.contains("`ebcdic` is not an encoding"), "{problem}");
}

/// pauloremoli/logana#11, Textualize/toolong#12 and ClusterLabs/crmsh#1295: a file of an earlier year
/// has the year of its last write; rsyslog/rsyslog#4765 and elastic/beats#15442: the turn of a year.
#[test]
fn years_are_near_the_last_write_of_the_file() {
    for (line, written, ts) in [
        ("Nov 27 09:00:00 web1 app: x\n", None, "2025-11-27T09:00:00.000000Z"),
        ("Mar 20 01:08:03 web1 app: x\n", None, "2026-03-20T01:08:03.000000Z"),
        (
            "Mar 20 01:08:03 web1 app: x\n",
            Some("2024-03-27T00:00:00Z"),
            "2024-03-20T01:08:03.000000Z",
        ),
        (
            "Dec 31 23:59:59 web1 app: x\n",
            Some("2024-01-01T00:00:10Z"),
            "2023-12-31T23:59:59.000000Z",
        ),
        (
            "Jan  1 00:00:09 web1 app: x\n",
            Some("2024-01-01T00:00:10Z"),
            "2024-01-01T00:00:09.000000Z",
        ),
        (
            "Feb 29 10:00:00 web1 app: x\n",
            Some("2024-03-01T00:00:00Z"),
            "2024-02-29T10:00:00.000000Z",
        ),
        // A clock that was never set, and a file from the future, say nothing.
        (
            "Mar 20 01:08:03 web1 app: x\n",
            Some("1970-01-01T00:00:00Z"),
            "2026-03-20T01:08:03.000000Z",
        ),
        (
            "Mar 20 01:08:03 web1 app: x\n",
            Some("2031-01-01T00:00:00Z"),
            "2026-03-20T01:08:03.000000Z",
        ),
    ] {
        let mut parser = parser(LogFormat::Auto);
        parser.set_last_write(written.map(micros));
        let found = rows(&mut parser, line.as_bytes(), (0, NOON));
        assert_eq!(column(&found, "ts"), [ts], "{line}{written:?}");
    }
}

fn micros(text: &str) -> Micros {
    Micros(text.parse::<jiff::Timestamp>().expect("a time").as_microsecond())
}

/// elastic/logstash#8505 (an hour that does not exist), fluent/fluentd#839 and
/// logstash-plugins/logstash-input-jdbc#121 (an hour that occurs twice): followed lines of the second
/// pass are not an hour early.
#[test]
fn hours_at_the_change_of_the_clock_are_read() {
    let berlin = Zone::parse("Europe/Berlin").expect("a zone");
    for (clock, now, ts) in [
        // In spring 02:00 is 03:00.
        ("2026-03-29 01:59:59", "2026-03-29T01:00:00Z", "2026-03-29T00:59:59.000000Z"),
        ("2026-03-29 02:30:00", "2026-03-29T01:30:01Z", "2026-03-29T01:30:00.000000Z"),
        ("2026-03-29 03:00:00", "2026-03-29T01:00:01Z", "2026-03-29T01:00:00.000000Z"),
        // In autumn 03:00 is 02:00.
        ("2026-10-25 02:30:00", "2026-10-25T00:30:01Z", "2026-10-25T00:30:00.000000Z"),
        ("2026-10-25 02:30:00", "2026-10-25T01:30:01Z", "2026-10-25T01:30:00.000000Z"),
        ("2026-10-25 02:59:59", "2026-10-25T01:00:01Z", "2026-10-25T00:59:59.000000Z"),
        ("2026-10-25 02:00:00", "2026-10-25T01:00:01Z", "2026-10-25T01:00:00.000000Z"),
        ("2026-10-25 03:00:00", "2026-10-25T02:00:01Z", "2026-10-25T02:00:00.000000Z"),
        // Read much later, it cannot be told which.
        ("2026-10-25 02:30:00", "2026-10-26T00:00:00Z", "2026-10-25T00:30:00.000000Z"),
    ] {
        let mut parser = parser(LogFormat::Auto).with_zone(berlin.clone());
        let found = rows(&mut parser, format!("{clock} x\n").as_bytes(), (0, micros(now)));
        assert_eq!(column(&found, "ts"), [ts], "{clock} {now}");
    }
}

/// A row whose line has no time has the time of reading in both columns.
#[test]
fn time_of_reading_shows_by_two_equal_columns() {
    let lines =
        b"no time here\n2026-11-20 11:00:00 a time\n{\"msg\":\"no time\"}\n10.0.0.1 - - [noon] x\n";
    let found = rows(&mut parser(LogFormat::Auto), lines, (0, NOON));
    let equal: Vec<bool> =
        found.iter().map(|row| row.get("ts") == row.get("observed_ts")).collect();
    let bodies = column(&found, "body");
    for (body, is_equal) in bodies.iter().zip(equal) {
        assert_eq!(is_equal, !body.contains("a time"), "{body}");
    }
}

fn combined(client: &str) -> String {
    format!(r#"{client} - - [20/Nov/2026:11:49:27 +0000] "GET / HTTP/1.1" 200 5 "-" "c""#)
}

fn json(client: &str) -> String {
    format!(r#"{{"method":"GET","path":"/","status":200,"client_ip":"{client}"}}"#)
}

/// elastic/beats#4322, elastic/beats#10309, allinurl/goaccess#2735 and elastic/integrations#5218:
/// lists, ports, brackets, mapped addresses and sockets in the place of the client.
#[test]
fn clients_are_addresses_in_every_format() {
    for (written, address, port) in [
        ("203.0.113.7", "203.0.113.7", "-"),
        ("203.0.113.7:5000", "203.0.113.7", "5000"),
        ("[2001:db8::7]:5000", "2001:db8::7", "5000"),
        ("[2001:db8::7]", "2001:db8::7", "-"),
        ("2001:db8::7", "2001:db8::7", "-"),
        ("::ffff:203.0.113.7", "::ffff:203.0.113.7", "-"),
        ("::ffff:203.0.113.7:5000", "::ffff:203.0.113.7", "5000"),
        ("203.0.113.7:33453, 172.16.0.1:49770", "203.0.113.7", "33453"),
        ("203.0.113.7, 172.68.146.54, 127.0.0.1", "203.0.113.7", "-"),
        ("unix:", "unix:", "-"),
    ] {
        let auto = parser(LogFormat::Auto);
        for (mut parser, line) in [
            (parser(LogFormat::Combined), combined(written)),
            (auto, combined(written)),
            (parser(LogFormat::Auto), json(written)),
            (
                parser(nginx("$remote_addr|$request_method|$uri|$status")),
                format!("{written}|GET|/|200"),
            ),
            (
                parser(nginx(r#"{"a":"$remote_addr","m":"$request_method","s":"$status"}"#)),
                format!(r#"{{"a":"{written}","m":"GET","s":"200"}}"#),
            ),
        ] {
            if line.contains('|') && written.contains(',') {
                // nginx has one address there.
                continue;
            }
            let found = rows(&mut parser, format!("{line}\n").as_bytes(), (0, NOON));
            assert_eq!(found[0].table, "request", "{line}");
            assert_eq!(column(&found, "client_address"), [address], "{line}");
            assert_eq!(column(&found, "client_port"), [port], "{line}");
        }
    }
    let grok = "[parse]\nformat = \"grok\"\npattern = '%{HOSTPORT:client_address} %{WORD:verb} %{URIPATH:path} %{INT:response}'\n";
    for (written, address) in [
        ("[2001:db8::7]:5000", "2001:db8::7"),
        ("2001:db8:0:0:0:0:0:7:5000", "2001:db8:0:0:0:0:0:7"),
        ("::ffff:203.0.113.7:5000", "::ffff:203.0.113.7"),
        ("[fe80::1%eth0]:5000", "fe80::1%eth0"),
        ("web-7.example:5000", "web-7.example"),
    ] {
        let found = pipeline_rows(grok, format!("{written} GET /x 200\n").as_bytes());
        assert_eq!(column(&found, "client_address"), [address], "{written}: {found:?}");
        assert_eq!(column(&found, "client_port"), ["5000"], "{written}");
    }
}

/// logstash-plugins/logstash-patterns-core#222, elastic/logstash#11203 and influxdata/telegraf#1973.
#[test]
fn grok_patterns_take_addresses_of_ipv6() {
    for (pattern, line, expected) in [
        (
            "%{URI:uri} %{WORD:x}",
            "https://[2001:db8::1]:8443/a?b=c end",
            "https://[2001:db8::1]:8443/a?b=c",
        ),
        ("%{URI:uri} %{WORD:x}", "http://user:pw@[::1]/ end", "http://user:pw@[::1]/"),
        ("%{URI:uri} %{WORD:x}", "http://a.example:80/x end", "http://a.example:80/x"),
        ("%{IPORHOST:uri}:%{INT:port} %{WORD:x}", "[2001:db8::1]:80 end", "[2001:db8::1]"),
        (
            "%{IPORHOST:uri} %{WORD:x}",
            "2001:0db8:85a3:0000:0000:8a2e:0370:7334 end",
            "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
        ),
        ("%{IPORHOST:uri} %{WORD:x}", "::ffff:192.0.2.128 end", "::ffff:192.0.2.128"),
        (
            "%{IP:uri}:%{NUMBER:port:long} %{WORD:x}",
            "::ffff:127.0.0.1:35606 end",
            "::ffff:127.0.0.1",
        ),
        ("%{HOSTPORT:uri} %{WORD:x}", "[2600:1f18::1]:9200 end", "[2600:1f18::1]:9200"),
    ] {
        let text = format!("[parse]\nformat = \"grok\"\npattern = '{pattern}'\n");
        let found = pipeline_rows(&text, format!("{line}\n").as_bytes());
        assert_eq!(column(&found, "attrs.uri"), [expected], "{pattern} {line}: {found:?}");
    }
}

/// grafana/loki#3467, vectordotdev/vrl#125 and vectordotdev/vector#1541: quotes of other kinds, and
/// names with `#`.
#[test]
fn logfmt_with_other_quotes_is_read() {
    for (value, expected) in [
        ("`KKK=`", "KKK="),
        ("`two words`", "two words"),
        (r"`C:\new`", r"C:\new"),
        ("'\"GET /metrics HTTP/1.1\"'", "\"GET /metrics HTTP/1.1\""),
        ("it's", "it's"),
        ("`torn", "`torn"),
        ("`a`b", "`a`b"),
        ("'tis", "'tis"),
    ] {
        let line = format!("level=info msg=done sample#memory=21MB key={value}\n");
        let found = rows(&mut parser(LogFormat::Auto), line.as_bytes(), (0, NOON));
        assert_eq!(column(&found, "attrs.key"), [expected], "{line}: {found:?}");
        assert_eq!(column(&found, "attrs.sample#memory"), ["21MB"]);
    }
}

/// martin-helmich/prometheus-nginxlog-exporter#70, #274 and elastic/beats#30702: lists over tries,
/// sockets, and no upstream at all.
#[test]
fn lists_of_upstreams_are_settled() {
    let template = "[proxy ($upstream_cache_status) : $upstream_addr $upstream_response_time $upstream_status ] $status $request_method";
    for (line, address, status, seconds, tries) in [
        (
            "[proxy (-) : 127.0.0.1:80, [::]:80 0.000, 0.001 502, 200 ] 200 GET",
            "[::]:80",
            "200",
            "0.001",
            "2",
        ),
        (
            "[proxy (HIT) : [2001:db8::1]:9000 0.028 200 ] 200 GET",
            "[2001:db8::1]:9000",
            "200",
            "0.028",
            "1",
        ),
        (
            "[proxy (-) : 127.0.0.1:80 : unix:/run/a.sock 0.000 : 0.001 502 : 200 ] 200 GET",
            "unix:/run/a.sock",
            "200",
            "0.001",
            "2",
        ),
        ("[proxy (-) : - - - ] 200 GET", "-", "-", "-", "0"),
    ] {
        let found = rows(&mut parser(nginx(template)), format!("{line}\n").as_bytes(), (0, NOON));
        let row = [
            ("upstream_address", address),
            ("upstream_status_code", status),
            ("upstream_response_seconds", seconds),
            ("upstream_tries", tries),
        ];
        for (name, expected) in row {
            assert_eq!(column(&found, name), [expected], "{line}: {name}");
        }
    }
}

/// Attributes of the log are those of every row, and a line cannot replace them.
#[test]
fn attributes_of_the_log_come_first() {
    let names = vec![("k8s.pod.name".to_owned(), "web-1".to_owned())];
    let mut parser = parser(LogFormat::Auto).with_attributes(names);
    let found = rows(
        &mut parser,
        b"{\"level\":\"info\",\"msg\":\"x\",\"k8s.pod.name\":\"mine\"}\nplain\n",
        (0, NOON),
    );
    assert_eq!(column(&found, "attrs.k8s.pod.name"), ["web-1", "web-1"]);
    assert_eq!(column(&found, "attrs.k8s.pod.name#2"), ["mine", "-"]);
}
