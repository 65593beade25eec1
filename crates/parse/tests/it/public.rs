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

const SYSLOG: &[LineCase] = &[
    case(
        "observIQ/stanza#218",
        "<167>2026-11-20T11:01:51.316Z esxi-1 Rhttpproxy: verbose rhttpproxy[2475368] [Originator@6876 sub=Proxy Req 81133] Resolved endpoint",
        &[
            ("ts", "2026-11-20T11:01:51.316000Z"),
            ("program", "Rhttpproxy"),
            ("severity", "debug"),
            ("facility", "local4"),
            ("attrs.syslog_hostname", "esxi-1"),
        ],
    ),
    case(
        "vectordotdev/vector#12013",
        r#"<150>1 2026-11-20T11:04:30.415522+02:00 px1 squid: [2026-11-20T11:04:30.415+0200] 192.0.2.7 - - - "CONNECT a.example:443 HTTP/1.0" 200 0 65 "-" "x/1" TCP_DENIED:HIER_NONE"#,
        &[
            ("ts", "2026-11-20T09:04:30.415522Z"),
            ("program", "squid"),
            ("severity", "info"),
            ("attrs.syslog_hostname", "px1"),
        ],
    ),
    case(
        "vectordotdev/vector#20886",
        "Nov 20 11:08:59 _gateway date=2026-11-20 time=11:05:36 devname=FG100D logid=0000000013 type=traffic level=notice vd=root srcip=192.0.2.51 status=accept",
        &[
            ("ts", "2026-11-20T11:05:36.000000Z"),
            ("severity", "notice"),
            ("attrs.srcip", "192.0.2.51"),
            ("attrs.syslog_hostname", "_gateway"),
        ],
    ),
    case(
        "vectordotdev/vector#20225",
        r#"<189>date=2026-11-20 time=11:05:36 eventtime=1795172736590616443 tz="+0800" logid="0000000013" type="traffic" level="notice" srcip=192.0.2.5"#,
        &[
            ("ts", "2026-11-20T03:05:36.000000Z"),
            ("severity", "notice"),
            ("facility", "local7"),
            ("attrs.logid", "0000000013"),
        ],
    ),
    case(
        "rsyslog/rsyslog#5098",
        "<30>Network link has gone down on interface 1.",
        &[
            ("body", "Network link has gone down on interface 1."),
            ("severity", "info"),
            ("facility", "daemon"),
            ("program", "-"),
            ("attrs.syslog_hostname", "-"),
        ],
    ),
    case(
        "wazuh/wazuh#438, RFC 3164 example 4",
        "<0>1990 Oct 22 10:52:01 TZ-6 scapegoat.example 10.1.2.3 sched[0]: That's All Folks!",
        &[("severity", "emergency"), ("facility", "kern"), ("ts", "1990-10-22T10:52:01.000000Z")],
    ),
    case(
        "tenzir/tenzir#4225",
        "<134>Nov 20 11:08:59 zscaler-nss: action=allow",
        &[
            ("program", "zscaler-nss"),
            ("body", "action=allow"),
            ("attrs.syslog_hostname", "-"),
            ("facility", "local0"),
        ],
    ),
    case(
        "no report: the header of Cisco IOS XR's documentation",
        "<187>123: RP/0/RSP0/CPU0:Nov 20 11:20:10.663 UTC: fib_mgr[205]: %ROUTING-FIB-3-ASSERT_CRL : assertion",
        &[
            ("program", "%ROUTING-FIB-3-ASSERT_CRL"),
            ("process_id", "205"),
            ("body", "assertion"),
            ("ts", "2026-11-20T11:20:10.663000Z"),
        ],
    ),
    case(
        "tstack/lnav#464",
        "2026-11-20T11:12:25.001Z mark: storage-path-claim-completed",
        &[("table", "log"), ("ts", "2026-11-20T11:12:25.001000Z"), ("program", "-")],
    ),
];

const HAPROXY: &[LineCase] = &[
    case(
        "pfelk/pfelk#398",
        r#"<131>Nov 20 11:01:44 haproxy[60972]: 192.0.2.211:61992 [20/Nov/2026:11:01:13.628] ft~ be/s1 1/0/0/5/6 200 300 - - ---- 1/1/0/0/0 0/0 "GET /a HTTP/2.0""#,
        &[("table", "request"), ("client_address", "192.0.2.211"), ("proxy_server", "s1")],
    ),
    case(
        "elastic/beats#25827",
        r#"Nov 20 11:22:22 lb1 haproxy[5089]: -:22222 [20/Nov/2026:11:22:22.222] www-https~ myapp/node2 site.example 0/0/0/18/18 200 200 - - ---- 222/222/2/0/0 0/0 "OPTIONS /api/v2/app/ HTTP/1.1""#,
        &[
            ("table", "request"),
            ("client_address", "-"),
            ("proxy_server", "node2"),
            ("duration_seconds", "0.018"),
            ("attrs.captured_request_headers", "site.example"),
        ],
    ),
    case(
        "elastic/beats#13995",
        "2026-11-20T07:46:25+02:00 localhost haproxy[30143]: 127.0.0.1:39442 [20/Nov/2026:05:46:15.492] svc svc/dest 1/0/98 8398 -- 6/5/5/5/0 0/0",
        &[
            ("table", "log"),
            ("program", "haproxy"),
            ("attrs.proxy_server", "dest"),
            ("attrs.response_bytes", "8398"),
        ],
    ),
    case(
        "elastic/beats#8301",
        r#"Nov 20 10:43:21 serv haproxy[666]: 192.0.2.53 - - [20/Nov/2026:10:43:21 +0000] "GET /this/is/a/path HTTP/1.1" 401 248 "" "" 31006 709 "https~" "vm-myvm" "<NOSRV>" -1 -1 -1 -1 194 PR-- 1 1 0 0 3 0 0 "" """#,
        &[
            ("table", "request"),
            ("program", "haproxy"),
            ("client_port", "31006"),
            ("proxy_frontend", "https"),
            ("proxy_backend", "vm-myvm"),
            ("proxy_server", "-"),
            ("duration_seconds", "0.194"),
            ("termination_state", "PR--"),
        ],
    ),
    case(
        "elastic/beats#17663",
        r#"192.0.2.150 - - [20/Nov/2026:11:04:47 +0000] "moteSubmit=Save" 400 0 "-" "-""#,
        &[("table", "request"), ("http_response_status_code", "400"), ("http_request_method", "-")],
    ),
];

const ENVELOPES: &[LineCase] = &[
    case(
        "fluent/fluent-bit#873",
        "2026-11-20T11:24:43.719897152Z stderr F [2026/11/20 11:24:43] [ info] [engine] started (pid=1)",
        &[("severity", "info"), ("attrs.stream", "stderr")],
    ),
    case(
        "fluent/fluent-bit#5554",
        "2026-11-20T11:10:18.591779133Z stdout F",
        &[("table", "log"), ("ts", "2026-11-20T11:10:18.591779Z"), ("attrs.stream", "stdout")],
    ),
    case(
        "fluent/fluent-bit#522",
        "2026-11-20T11:04:05.931087621Z stdout [info:2026-11-20T03:04:05.930-08:00] Some log text",
        &[("body", "[info:2026-11-20T03:04:05.930-08:00] Some log text")],
    ),
    case(
        "fluent/fluent-bit#522, CRI-O",
        "2026-11-20T06:29:53.149616443-05:00 stderr I1120 11:29:53.149602       1 round_trippers.go:436] POST https://192.0.2.1:443/apis 201 Created",
        &[("severity", "info"), ("attrs.code_location", "round_trippers.go:436")],
    ),
    case(
        "fluent/fluent-bit#3688",
        r#"{"stream":"stdout","logtag":"F","message":"{\"time\": \"2026-11-20 11:57:14,768\", \"level\": \"DEBUG\", \"message\": \"Token parsed\"}","appname":"feelgood","kubernetes":{"pod_name":"p1"}}"#,
        &[
            ("ts", "2026-11-20T11:57:14.768000Z"),
            ("severity", "debug"),
            ("program", "feelgood"),
            ("body", "Token parsed"),
            ("attrs.kubernetes.pod_name", "p1"),
        ],
    ),
    case(
        "elastic/beats#15488",
        r#"{"@timestamp":"2026-11-20T11:52:21Z","input":{"type":"log"},"message":"Nov 20 11:17:50 lb1 haproxy[14848]: 192.0.2.72:56118 [20/Nov/2026:11:17:50.655] 80 80/<NOSRV> -1/-1/-1/-1/0 503 212 - - SC-- 4/4/0/0/0 0/0 \"GET /favicon.ico HTTP/1.1\""}"#,
        &[
            ("table", "request"),
            ("http_response_status_code", "503"),
            ("url_path", "/favicon.ico"),
            ("attrs.input.type", "log"),
        ],
    ),
    case(
        "no report: a message that only looks like a line",
        r#"{"level":"info","msg":"see [a] \"b\"","status":"ok","n":1}"#,
        &[("table", "log"), ("body", "see [a] \"b\""), ("attrs.n", "1"), ("severity", "info")],
    ),
    case(
        "no report: an error line of nginx in CRI",
        r#"2026-11-20T11:00:00.1Z stderr F 2026/11/20 11:00:00 [error] 7#7: *5 open() "/srv/a" failed (2: No such file or directory), client: 192.0.2.1, server: _, request: "GET /a HTTP/1.1", host: "a.example""#,
        &[("program", "nginx"), ("severity", "error"), ("attrs.client", "192.0.2.1")],
    ),
    case(
        "no report: logfmt inside of syslog",
        r#"<30>Nov 20 11:08:59 web1 traefik: time="2026-11-20T11:08:58Z" level=error msg="accept failed" entryPointName=websecure"#,
        &[
            ("program", "traefik"),
            ("severity", "error"),
            ("facility", "daemon"),
            ("body", "accept failed"),
            ("ts", "2026-11-20T11:08:58.000000Z"),
        ],
    ),
    case(
        "grafana/loki#1784",
        r#"t=2026-11-20T11:04:38+0000 lvl=dbug msg="Job Execution completed" logger=alerting.engine timeMs=92.577 firing=false"#,
        &[("ts", "2026-11-20T11:04:38.000000Z"), ("severity", "debug")],
    ),
];

#[test]
fn reported_syslog_lines_have_their_host_tag_and_severity() {
    check(&LogFormat::Auto, SYSLOG);
}

#[test]
fn reported_haproxy_lines_are_requests_and_sessions() {
    check(&LogFormat::Auto, HAPROXY);
}

#[test]
fn reported_lines_in_envelopes_are_read_as_they_would_be_alone() {
    check(&LogFormat::Auto, ENVELOPES);
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
