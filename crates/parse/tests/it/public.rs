//! Lines that other shippers and parsers had trouble with, by public bug reports, and a few beside
//! them. Each case names its report; addresses, names and dates are replaced.

use weir_parse::RowText;
use weir_tables::LogFormat;

use crate::{nginx, parse};

/// A line, where it was reported, and what its row has: `table`, columns and `attrs.NAME`; `-` is
/// none.
struct LineCase {
    report: &'static str,
    line: &'static str,
    expected: &'static [(&'static str, &'static str)],
}

const fn case(
    report: &'static str,
    line: &'static str,
    expected: &'static [(&'static str, &'static str)],
) -> LineCase {
    LineCase { report, line, expected }
}

fn check(format: &LogFormat, cases: &[LineCase]) {
    for case in cases {
        let line = format!("{}\n", case.line);
        let rows = RowText::all(&parse(format.clone(), line.as_bytes()).0);
        assert_eq!(rows.len(), 1, "{}: {}", case.report, case.line);
        let row = &rows[0];
        for (name, expected) in case.expected {
            let found = if *name == "table" { Some(row.table) } else { row.get(name) };
            assert_eq!(found.unwrap_or("-"), *expected, "{}, {name}: {row:#?}", case.report);
        }
    }
}

#[test]
fn reported_formats_of_apache_are_read() {
    let apache = |template: &str| LogFormat::ApacheTemplate { template: template.into() };
    check(
        &apache(r#"%t\t%h\t%v\t%D\t%l\t%u\t\"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\""#),
        &[case(
            "allinurl/goaccess#1657",
            "[20/Nov/2026:11:00:00 +0300]\t192.0.2.47\tvhost\t1500\t-\t-\t\"POST /x HTTP/1.1\" 200 - \"https://vhost/\" \"Mozilla/5.0 (X)\"",
            &[
                ("ts", "2026-11-20T08:00:00.000000Z"),
                ("client_address", "192.0.2.47"),
                ("duration_seconds", "0.0015"),
                ("user_agent_original", "Mozilla/5.0 (X)"),
            ],
        )],
    );
    check(
        &apache(r#"%{%Y%m%d%H%M%S}t %a :%p %P %u \"%r\" %>s %b %D %X"#),
        &[case(
            "allinurl/goaccess#354",
            r#"20261120110001 192.0.2.208 :80 3747992 - "GET /a.css HTTP/1.1" 200 3218 316 +"#,
            &[("ts", "2026-11-20T11:00:01.000000Z"), ("client_address", "192.0.2.208")],
        )],
    );
    check(
        &apache(
            r#"%{Host}i:%p %a %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\" %{%s}t %D %P"#,
        ),
        &[case(
            "allinurl/goaccess#1020",
            r#"a.example:80 192.0.2.1 - - [20/Nov/2026:11:49:27 +0000] "GET /favicon.ico HTTP/1.1" 404 502 "-" "Mozilla/5.0" 1795175367 207 527"#,
            &[
                ("ts", "2026-11-20T11:49:27.000000Z"),
                ("duration_seconds", "0.000207"),
                ("server_port", "80"),
                ("attrs.process_id", "527"),
            ],
        )],
    );
}

#[test]
fn reported_formats_of_nginx_are_read() {
    check(
        &nginx(
            r#"$request_time $upstream_response_time [$time_local] $request $status $body_bytes_sent "$host" "$http_user_agent" $request_length $remote_addr"#,
        ),
        &[case(
            "allinurl/goaccess#637",
            r#"0.001 0.001 [20/Nov/2026:04:06:22 -0800] GET /app/x.js HTTP/1.1 304 0 "a.example" "Mozilla/5.0 (X11)" 988 192.0.2.3"#,
            &[
                ("http_request_method", "GET"),
                ("url_path", "/app/x.js"),
                ("http_response_status_code", "304"),
                ("client_address", "192.0.2.3"),
            ],
        )],
    );
    check(
        &nginx(
            r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_x_forwarded_for" $int_request_id $msec $request_time $upstream_connect_time"#,
        ),
        &[case(
            "allinurl/goaccess#2348",
            r#"192.0.2.115 - - [20/Nov/2026:11:30:08 +0300] "GET /api HTTP/1.1" 200 10 "203.0.113.9, 192.0.2.115" 2e4895b6 1795163408.724 0.004 0.000"#,
            &[
                ("ts", "2026-11-20T08:30:08.724000Z"),
                ("client_address", "192.0.2.115"),
                ("attrs.http_x_forwarded_for", "203.0.113.9, 192.0.2.115"),
                ("duration_seconds", "0.004"),
            ],
        )],
    );
}
