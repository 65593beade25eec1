//! Logs whose first line tells the pipeline: W3C extended logs and those of AWS' balancers under any
//! name. Each case names its report; addresses, names and dates are replaced.

use weir_parse::{LineParser, ParsedRows, Parsers, RowText, StreamName};
use weir_tables::{LogFormat, LogSource, Program};

use crate::OBSERVED;

/// A parser for a log of unknown format whose name tells nothing.
fn parser() -> LineParser {
    let (path, found_in) = ("/srv/a.log".into(), "test".into());
    let source = LogSource { path, program: Program::Other, format: LogFormat::Auto, found_in };
    let stream = StreamName { path: "/srv/a.log", host: "web1" };
    Parsers::built_in().line_parser(&source, stream)
}

fn rows_of(parser: &mut LineParser, text: &str, offset: u64) -> Vec<RowText> {
    let mut out = ParsedRows::default();
    parser.parse(text.as_bytes(), offset, OBSERVED, &mut out);
    RowText::all(&out.finish())
}

/// The row of the last line.
fn last(text: &str) -> RowText {
    let rows = rows_of(&mut parser(), text, 0);
    assert_eq!(rows.len(), text.lines().count(), "{text}");
    rows.into_iter().next_back().expect("a row")
}

fn check([report, text]: [&str; 2], expected: &[(&str, &str)]) {
    let row = last(text);
    for (name, value) in expected {
        let found = if *name == "table" { Some(row.table) } else { row.get(name) };
        assert_eq!(found.unwrap_or("-"), *value, "{report}: {name} of {row:?}");
    }
}

const IIS: &str = "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken";
const IIS_LINE: &str = "2026-11-20 09:10:11 10.0.0.4 GET /a.asp x=1 443 - 192.0.2.22 Mozilla/5.0+(Windows+NT+5.1) https://r.example/ 200 0 0 65";

#[test]
fn w3c_logs_are_read_by_their_names_of_columns() {
    check(
        [
            "log2timeline/plaso#4145, the program comes last",
            &format!(
                "#Date: 2026-11-20 00:00:21\n#Fields: {IIS}\n#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n{IIS_LINE}"
            ),
        ],
        &[
            ("table", "request"),
            ("ts", "2026-11-20T09:10:11.000000Z"),
            ("client_address", "192.0.2.22"),
            ("server_address", "10.0.0.4"),
            ("server_port", "443"),
            ("url_path", "/a.asp"),
            ("url_query", "x=1"),
            ("http_response_status_code", "200"),
            ("duration_seconds", "0.065"),
            ("user_agent_original", "Mozilla/5.0 (Windows NT 5.1)"),
        ],
    );
    check(
        [
            "elastic/beats#13256",
            "#Software: Microsoft Internet Information Services 8.0\n#Version: 1.0\n#Date: 2026-11-20 00:00:00\n#Fields: date time s-sitename s-computername s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs-version cs(User-Agent) cs(Cookie) cs(Referer) cs-host sc-status sc-substatus sc-win32-status sc-bytes cs-bytes time-taken\n2026-11-20 00:09:32 W3SVC1 SE119654 ::1 GET /help/default.aspx area= 80 - ::1 HTTP/1.1 Mozilla/5.0+(compatible) - - localhost 403 4 5 5279 160 15",
        ],
        &[
            ("client_address", "::1"),
            ("server_address", "localhost"),
            ("attrs.s-sitename", "W3SVC1"),
            ("response_body_bytes", "5279"),
            ("request_bytes", "160"),
            ("network_protocol_version", "1.1"),
        ],
    );
    check(
        [
            "elastic/integrations#20048, a comma in the names",
            "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(cookie) cs(Referer) sc-status sc-substatus sc-win32-status sc-bytes, cs-bytes time-taken\n2026-11-20 09:10:11 10.0.0.4 GET / - 443 - 192.0.2.22 curl a=1;+b=2 - 304 0 0 143 521 7",
        ],
        &[("response_body_bytes", "143"), ("request_bytes", "521"), ("duration_seconds", "0.007")],
    );
    check(
        [
            "the example of the specification, whose day is in a comment",
            "#Version: 1.0\n#Date: 12-Nov-2026 00:00:00\n#Fields: time cs-method cs-uri\n00:34:23 GET /foo/bar.html",
        ],
        &[
            ("ts", "2026-11-12T00:34:23.000000Z"),
            ("url_path", "/foo/bar.html"),
            ("table", "request"),
        ],
    );
    check(
        [
            "tabs, with blanks and quotes in values, and seconds with a fraction",
            "#Version: 1.0\n#Fields: date\ttime\tc-ip\tcs-method\tcs-uri-stem\tsc-status\tcs(User-Agent)\ttime-taken\n2026-11-20\t09:10:11\t192.0.2.22\tGET\t/a\t200\t\"Mozilla/5.0 (\"\"X\"\")\"\t0.125",
        ],
        &[("user_agent_original", "Mozilla/5.0 (\"X\")"), ("duration_seconds", "0.125")],
    );
    check(
        [
            "Azure/Azure-Sentinel#9862, Exchange with commas, behind a mark",
            "\u{feff}#Software: Microsoft Exchange Server\n#Version: 15.02.1544.009\n#Log-type: Message Tracking Log\n#Date: 2026-11-20T00:00:21.117Z\n#Fields: date-time,client-ip,client-hostname,source,event-id,message-subject\n2026-11-20T09:10:11.123Z,192.0.2.22,mx1,SMTP,RECEIVE,\"Hello, you\"",
        ],
        &[
            ("table", "log"),
            ("ts", "2026-11-20T09:10:11.123000Z"),
            ("attrs.client-ip", "192.0.2.22"),
            ("attrs.message-subject", "Hello, you"),
        ],
    );
    check(
        [
            "http.sys, requests that reached no site",
            "#Software: Microsoft HTTP API 2.0\n#Version: 1.0\n#Date: 2026-11-20 00:00:21\n#Fields: date time c-ip c-port s-ip s-port cs-version cs-method cs-uri streamid sc-status s-siteid s-reason s-queuename\n2026-11-20 09:10:11 192.0.2.22 53100 10.0.0.4 443 HTTP/1.1 GET /x?y=1 - 503 1 AppOffline Pool",
        ],
        &[
            ("client_port", "53100"),
            ("url_path", "/x"),
            ("url_query", "y=1"),
            ("http_response_status_code", "503"),
            ("attrs.s-reason", "AppOffline"),
        ],
    );
}

#[test]
fn w3c_columns_change_in_the_middle_and_may_be_missing() {
    // elastic/beats#9753, without its header: version 7 logs no referer.
    let short = "2026-11-20 08:24:25 10.0.0.70 GET / - 80 - 192.0.2.31 Mozilla/4.0+(compatible) 404 4 2 792";
    check(["elastic/beats#9753", short], &[("duration_seconds", "0.792"), ("url_path", "/")]);
    check(["no header", IIS_LINE], &[("http_request_header_referer", "https://r.example/")]);
    check(
        [
            "elastic/beats#31547",
            "2026-11-13 02:04:11 fe80::63ae:94c0:196e:8adf%3 GET /a /c+dir+c:\\+/OG 8080 - fe80::63ae:94c0:196e:8adf%3 Mozilla/4.0+(compatible) - 200 0 0 12 192.0.2.143,192.0.2.144",
        ],
        &[("duration_seconds", "0.012"), ("attrs.X-Forwarded-For", "192.0.2.143,192.0.2.144")],
    );
    // elastic/integrations#20956: http.sys, in three versions, and a connection without a request.
    let peers = "2026-11-20 12:00:00 192.0.2.10 50000 192.0.2.20 443";
    for request in ["GET /a", "GET /a -", "GET /a - -"] {
        let transport = if request.ends_with("- -") { " TCP" } else { "" };
        let line = format!("{peers} HTTP/1.1 {request} 503 1 N/A DefaultAppPool{transport}");
        check(
            ["elastic/integrations#20956", &line],
            &[
                ("table", "request"),
                ("client_port", "50000"),
                ("url_path", "/a"),
                ("http_response_status_code", "503"),
                ("attrs.s-queuename", "DefaultAppPool"),
            ],
        );
    }
    check(
        ["http.sys, an idle connection", &format!("{peers} - - - - - - Timer_ConnectionIdle -")],
        &[("table", "log"), ("attrs.s-reason", "Timer_ConnectionIdle")],
    );
    // awslabs/kinesis-agent-windows#13 and crowdsecurity/hub#1203: further columns.
    let named = "#Fields: date time s-sitename s-computername s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs-version cs(User-Agent) cs(Cookie) cs(Referer) cs-host sc-status sc-substatus sc-win32-status sc-bytes cs-bytes time-taken";
    let line = "2026-11-20 09:59:01 W3SVC1 PC1 10.0.0.35 GET /version.html - 80 - 192.0.2.3 HTTP/1.1 - - - a.example 200 0 0 1014 87 0";
    check(
        ["awslabs/kinesis-agent-windows#13", &format!("{IIS_LINE}\n{named}\n{line}")],
        &[
            ("server_address", "a.example"),
            ("client_address", "192.0.2.3"),
            ("duration_seconds", "0"),
        ],
    );
    // A reader that begins behind the header.
    let head =
        format!("#Software: Microsoft Internet Information Services 10.0\n{named}\n{line}\n");
    let mut behind = parser();
    behind.set_head(head.as_bytes());
    // The last names of a head may be cut off.
    behind.set_head(&format!("{head}#Fields: date time s-i").into_bytes());
    let rows = rows_of(&mut behind, line, 9_000);
    assert_eq!(rows[0].get("server_address"), Some("a.example"));
}

/// AWS's own examples, allinurl/goaccess#2254, elastic/integrations#11593 and
/// simnalamburt/elb-log-parser#11, in files with other names.
#[test]
fn renamed_logs_of_balancers_are_read() {
    check(
        [
            "allinurl/goaccess#2254",
            r#"h2 2026-11-19T11:22:20.356787Z app/staging/cb87d24460bf11ec 192.0.2.1:62611 172.16.1.1:443 0.006 0.008 0.000 200 200 498 1485 "GET https://service.example:443/ HTTP/2.0" "Mozilla/5.0 (X)" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:eu-1:1:targetgroup/a/1 "Root=1-61bf" "service.example" "arn:aws:acm" 2 2026-11-19T11:22:20.342000Z "forward" "-" "-" "172.16.1.1:443" "200" "-" "-" TID_dc57cebed65b444ebc8177bb698fe166"#,
        ],
        &[
            ("table", "request"),
            ("program", "alb"),
            ("client_address", "192.0.2.1"),
            ("upstream_header_seconds", "0.008"),
            ("server_address", "service.example"),
        ],
    );
    check(
        [
            "elastic/integrations#11593",
            r#"tls 2.0 2026-11-19T08:51:42 net/my-balancer/c6e77e28c25b2234 g3d4b5e8bb8464cd 192.0.2.154:51341 172.16.0.185:443 5 2 98 246 - arn:aws:acm:us-east-2:1:certificate/2a - ECDHE-RSA-AES128-SHA tlsv12 - my-balancer.example h2 h2 "h2","http/1.1" 2026-11-19T08:51:20"#,
        ],
        &[("table", "log"), ("program", "nlb"), ("attrs.client", "192.0.2.154")],
    );
    check(
        [
            "a classic balancer",
            r#"2026-11-19T23:39:43.945958Z my-loadbalancer 192.0.2.39:2817 - -1 -1 -1 503 0 0 0 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -"#,
        ],
        &[
            ("program", "elb"),
            ("http_response_status_code", "503"),
            ("upstream_address", "-"),
            ("server_address", "www.example.com"),
        ],
    );
    check(
        [
            "CloudFront",
            "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version\n2026-11-19\t21:02:31\tLAX1-P1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-\tMozilla/5.0\t-\t-\tHit\tSOX4xwn4XV6Q4rg==\ta.example\thttps\t23\t0.001\t-\tTLSv1.2\tECDHE\tHit\tHTTP/2.0",
        ],
        &[("program", "cloudfront"), ("tier", "edge"), ("client_address", "192.0.2.100")],
    );
}

#[test]
fn only_the_first_line_chooses() {
    let rows = rows_of(&mut parser(), &format!("started\n#Fields: {IIS}\n{IIS_LINE}\n"), 0);
    assert_eq!(rows.iter().map(|row| row.table).collect::<Vec<_>>(), ["log"; 3]);
    let rows = rows_of(&mut parser(), "# Fields: none\n{\"level\":\"error\",\"msg\":\"x\"}\n", 0);
    assert_eq!(rows[1].get("severity"), Some("error"));
    // Blank lines are no first line.
    let rows = rows_of(&mut parser(), &format!("\n\n#Fields: {IIS}\n{IIS_LINE}\n"), 0);
    assert_eq!(rows[1].table, "request");
}

/// IIS keeps the order of the columns that its administrator chose, so a line shows them.
#[test]
fn iis_columns_without_a_header_are_found_by_their_values() {
    let line = |values: &str| format!("2026-11-20 09:10:11 {values}");
    check(
        [
            "elastic/beats#31839, with the requested host",
            &line(
                "10.44.0.136 GET / - 443 - 192.0.2.188 Mozilla/4.0+(compatible) - www.example 401 0 0 23",
            ),
        ],
        &[
            ("table", "request"),
            ("server_address", "www.example"),
            ("http_response_status_code", "401"),
            ("duration_seconds", "0.023"),
            ("http_request_header_referer", "-"),
        ],
    );
    check(
        ["IIS 6", &line("W3SVC1 10.0.0.4 GET /a.asp x=1 80 bob 192.0.2.22 Mozilla/4.0 200 0 64")],
        &[
            ("client_address", "192.0.2.22"),
            ("server_address", "10.0.0.4"),
            ("attrs.s-sitename", "W3SVC1"),
            ("attrs.sc-win32-status", "64"),
            ("duration_seconds", "-"),
        ],
    );
    check(
        ["IIS 5", &line("192.0.2.22 - 10.0.0.4 80 GET /a.asp - 200 Mozilla/4.0+(compatible)")],
        &[("client_address", "192.0.2.22"), ("server_address", "10.0.0.4"), ("url_path", "/a.asp")],
    );
    check(
        [
            "elastic/integrations#5313, bytes sent and received",
            &line(
                "10.0.0.4 POST /a - 443 - 2001:db8::7 curl/8 https://r.example/ 200 0 0 5279 160 15",
            ),
        ],
        &[
            ("client_address", "2001:db8::7"),
            ("response_body_bytes", "5279"),
            ("request_bytes", "160"),
            ("duration_seconds", "0.015"),
        ],
    );
    check(
        [
            "all columns, behind Application Request Routing",
            &line(
                "W3SVC2 WEB1 10.0.0.4 GET /a X-ARR-CACHE-HIT=0&X-ARR-LOG-ID=6f&SERVER-STATUS=200 443 - fe80::1%7 HTTP/2.0 curl/8 a=1;+b=2 https://r.example/ www.example 200 0 0 1014 87 9",
            ),
        ],
        &[
            ("attrs.s-computername", "WEB1"),
            ("attrs.cs(Cookie)", "a=1;+b=2"),
            ("network_protocol_version", "2"),
            ("server_address", "www.example"),
            ("url_query", "X-ARR-CACHE-HIT=0&X-ARR-LOG-ID=6f&SERVER-STATUS=200"),
            ("request_bytes", "87"),
        ],
    );
}

const SHOP: &str = "[match]\nline = '^shop '\n[[step]]\nwhen = \"table_of_guests exists\"\nredact = [\"client_address\"]\n";

fn shop() -> (Parsers, LogSource) {
    let (parsers, problems) = Parsers::with_files(&[("shop.toml".to_owned(), SHOP.to_owned())]);
    assert!(problems.is_empty(), "{problems:?}");
    let (path, found_in) = ("/srv/a.log".into(), "test".into());
    (parsers, LogSource { path, program: Program::Other, format: LogFormat::Auto, found_in })
}

/// A log that was cut at its front, a line of a launcher, a condition on what only a parsed line has:
/// addresses stay on the host in each case.
#[test]
fn pipeline_that_a_line_chooses_redacts_lines_that_no_format_reads() {
    let (parsers, source) = shop();
    let parser = || parsers.line_parser(&source, StreamName { path: "/srv/a.log", host: "web1" });
    let bodies = |rows: Vec<RowText>| -> Vec<String> {
        rows.iter().map(|row| row.get("body").unwrap_or_default().to_owned()).collect()
    };
    let text = "rn by 192.0.2.77\nstarting\nshop guest 192.0.2.77 left\nby 192.0.2.77\n";
    let expected = ["rn by 192.0.2.0", "starting", "shop guest 192.0.2.0 left", "by 192.0.2.0"];
    assert_eq!(bodies(rows_of(&mut parser(), text, 0)), expected);
    // In a later chunk, and behind a head that shows nothing.
    let mut later = parser();
    later.set_head(b"starting\n");
    assert_eq!(bodies(rows_of(&mut later, "starting\n", 900)), ["starting"]);
    let expected = ["from 192.0.2.0", "shop 2001:db8:7::"];
    let text = "from 192.0.2.77\nshop 2001:db8:7:1::9\n";
    assert_eq!(bodies(rows_of(&mut later, text, 909)), expected);
    // Another log is not touched.
    assert_eq!(bodies(rows_of(&mut parser(), "a 192.0.2.77\n", 0)), ["a 192.0.2.77"]);
}

/// Rows of protocols have no first line: what could be the log is redacted.
#[test]
fn texts_without_lines_are_redacted_by_pipelines_that_a_line_chooses() {
    let (parsers, source) = shop();
    let redacted = |text: &str| parsers.redacted(text, &source, "otlp");
    assert!(parsers.redacts());
    assert_eq!(redacted("guest 192.0.2.77"), "guest 192.0.2.0");
}

#[test]
fn conditions_on_the_text_still_hold_back_a_redaction() {
    let text = SHOP.replace("table_of_guests exists", "body contains 'guest'");
    let (parsers, _) = Parsers::with_files(&[("shop.toml".to_owned(), text)]);
    let stream = StreamName { path: "/srv/a.log", host: "web1" };
    let mut parser = parsers.line_parser(&shop().1, stream);
    let rows = rows_of(&mut parser, "shop guest 192.0.2.77\nshop peer 192.0.2.77\n", 0);
    assert_eq!(rows[0].get("body"), Some("shop guest 192.0.2.0"));
    assert_eq!(rows[1].get("body"), Some("shop peer 192.0.2.77"));
}
