//! Further situations from public reports about other shippers and parsers, by kind. Names, addresses
//! and dates are replaced.

use weir_parse::{ParsedRows, RowText};
use weir_tables::{LogFormat, Micros};

use crate::{nginx, parser};

/// 2026-11-27T23:00:00Z.
const OBSERVED: Micros = Micros(1_795_820_400_000_000);

/// A report, its line, and what the row has: `table`, columns and `attrs.NAME`; `-` is none.
type ReportedLine<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

fn rows(format: &LogFormat, bytes: &[u8]) -> Vec<RowText> {
    let mut out = ParsedRows::default();
    parser(format.clone()).parse(bytes, 0, OBSERVED, &mut out);
    RowText::all(&out.finish())
}

fn check(format: &LogFormat, lines: &[ReportedLine<'_>]) {
    for (report, line, expected) in lines {
        let rows = rows(format, format!("{line}\n").as_bytes());
        assert_eq!(rows.len(), 1, "{report}: {line}");
        for (name, value) in *expected {
            let found = if *name == "table" { Some(rows[0].table) } else { rows[0].get(name) };
            assert_eq!(found.unwrap_or("-"), *value, "{report}: {name} of {:?}", rows[0]);
        }
    }
}

const CONTAINERS: &[ReportedLine<'static>] = &[
    (
        "fluent/fluent-bit#4284",
        "2026-11-27T22:18:42.367618061Z stderr F ",
        &[("ts", "2026-11-27T22:18:42.367618Z"), ("body", "-"), ("attrs.stream", "stderr")],
    ),
    (
        "fluent/fluent-bit#2941",
        "2026-11-27T12:00:00.29870211Z stdout F 2026-11-26 01:02:03.004 +01:00 Three log",
        &[("ts", "2026-11-26T00:02:03.004000Z")],
    ),
    (
        "fluent/fluent-bit#617, a time without a date inside",
        r#"{"log":"{\"time\":\"14:09:26\",\"loglevel\":\"INFO\",\"message\":\"loading\",\"dir\":\"\\u002Fopt\"}\n","stream":"stdout","time":"2026-11-27T14:09:26.572091825Z"}"#,
        &[
            ("ts", "2026-11-27T14:09:26.572091Z"),
            ("severity", "info"),
            ("body", "loading"),
            ("attrs.dir", "/opt"),
        ],
    ),
    (
        "fluent/fluent-bit#1278, Serilog's formatter",
        r#"{"log":"{\"Timestamp\":\"2026-11-27T05:23:51.7911585+00:00\",\"Level\":\"Warning\",\"MessageTemplate\":\"{StatusCode}\",\"RenderedMessage\":\"404 \\\"NotFound\\\"\"}\n","stream":"stdout","time":"2026-11-27T19:29:26.885083823Z"}"#,
        &[
            ("ts", "2026-11-27T05:23:51.791158Z"),
            ("severity", "warn"),
            ("body", "404 \"NotFound\""),
        ],
    ),
    (
        "elastic/beats#10957",
        r#"{"log":"192.0.2.251 - - [27/Nov/2026:05:00:28 +0000] \"GET /status HTTP/1.1\" 200 8 \"-\" \"kube-probe/1.12\"\n","stream":"stdout","time":"2026-11-27T05:00:28.617850486Z"}"#,
        &[
            ("table", "request"),
            ("url_path", "/status"),
            ("user_agent_original", "kube-probe/1.12"),
        ],
    ),
    (
        "fluent/fluentd#1833",
        r#"{"log":"{\"level\":\"info\", \"msg\":\"hello\", \"time\":\"2026-11-27T02:38:15Z\"}","time":"2026-11-27T02:38:16.382229755Z","stream":"stderr"}"#,
        &[("ts", "2026-11-27T02:38:15.000000Z"), ("body", "hello"), ("severity", "info")],
    ),
];

const SYSLOG: &[ReportedLine<'static>] = &[
    (
        "rsyslog/rsyslog#4891, where a number tells the tag",
        "<13>Nov 27 12:47:40 lb1.example test[7] ts='2026-11-27T12:47:40,921451116+02:00'; id=298f",
        &[("program", "test"), ("process_id", "7"), ("attrs.syslog_hostname", "lb1.example")],
    ),
    (
        "rsyslog/rsyslog#4891, where nothing tells it",
        "<13>Nov 27 12:47:40 lb1.example test some text",
        &[("program", "-"), ("body", "test some text")],
    ),
    (
        "syslog-ng/syslog-ng#1972",
        r#"Nov 27 16:29:45 my.host.example {"level":"warn","msg":"low"}"#,
        &[("severity", "warn"), ("body", "low"), ("attrs.syslog_hostname", "my.host.example")],
    ),
    (
        "logstash-plugins/logstash-patterns-core#260",
        "Nov 27 18:27:14 localhost  haproxy[6103]: 192.0.2.1:56059 [27/Nov/2026:17:35:10.380] frt/f1: Connection error during SSL handshake",
        &[("program", "haproxy"), ("process_id", "6103"), ("attrs.syslog_hostname", "localhost")],
    ),
    (
        "elastic/beats#21332 and elastic/integrations#3250",
        "Nov 27 15:51:16 lb1 haproxy[5988]: Server api/api3 is DOWN, reason: Layer4 connection problem, info: \"Connection refused\", check duration: 0ms.",
        &[("table", "log"), ("program", "haproxy"), ("process_id", "5988")],
    ),
];

const ACCESS: &[ReportedLine<'static>] = &[
    (
        "varnishcache/varnish-cache#1868",
        r#"127.0.0.1 - - [27/Nov/2026:10:59:36 +0000] "GET http://localhost:6081/hello HTTP/1.1" 503 417 "-" ""echocrawl 2.0"""#,
        &[
            ("server_address", "localhost"),
            ("url_path", "/hello"),
            ("user_agent_original", "\"echocrawl 2.0\""),
        ],
    ),
    (
        "thunderbird/appointment#1767",
        r#"2026-11-27 20:03:37.250 | INFO:     192.0.2.1:62066 - "OPTIONS /session-info HTTP/1.1" 200 OK"#,
        &[("table", "request"), ("ts", "2026-11-27T20:03:37.250000Z"), ("client_port", "62066")],
    ),
    (
        "BiBiServ/bibigrid#712",
        r#"2026-11-27 13:56:58,403 [INFO] 192.0.2.16:57368 - "GET /requirements HTTP/1.1" 200"#,
        &[
            ("table", "request"),
            ("ts", "2026-11-27T13:56:58.403000Z"),
            ("attrs.logger_prefix", "-"),
        ],
    ),
    (
        "allinurl/goaccess#2054",
        "2026/11/27 08:57:48.541\tinfo\thttp.log.access.log0\thandled request\t{\"request\": {\"remote_addr\": \"192.0.2.1:63746\", \"proto\": \"HTTP/1.1\", \"method\": \"GET\", \"host\": \"a.example\", \"uri\": \"/\", \"headers\": {}}, \"duration\": 0.1, \"size\": 5, \"status\": 200}",
        &[
            ("program", "caddy"),
            ("client_address", "192.0.2.1"),
            ("client_port", "63746"),
            ("duration_seconds", "0.1"),
        ],
    ),
    (
        "kassner/log-parser#47",
        r#"192.0.2.3 - "" [27/Nov/2026:16:56:46 -0400] "GET / HTTP/1.1" 200 16153 "http://a.example/" "Mozilla/5.0""#,
        &[
            ("table", "request"),
            ("ts", "2026-11-27T20:56:46.000000Z"),
            ("response_body_bytes", "16153"),
        ],
    ),
    (
        "vectordotdev/vector#13325",
        r#"192.0.2.184 - i.user [27/Nov/2026:18:32:02 +0300] "GET /v1 HTTP/1.1" 200 335 "-" "Driver/351""#,
        &[("attrs.remote_user", "i.user"), ("server_address", "-")],
    ),
    (
        "fluent/fluentd#2841",
        r#"192.0.2.1 - - [27/Nov/2026:18:55:34 +0000] "GET / HTTP/1.1" 302 5080 "-" "\"Mozilla/5.0 (iPhone)\"""#,
        &[("user_agent_original", "\"Mozilla/5.0 (iPhone)\"")],
    ),
    (
        "moncho/dry#10",
        "[GIN] 2026/11/27 - 22:33:16 |\u{1b}[97;42m 200 \u{1b}[0m|      25.1µs |       192.0.2.1 |\u{1b}[97;44m GET     \u{1b}[0m \"/ping\"",
        &[("table", "request"), ("program", "gin"), ("url_path", "/ping")],
    ),
];

const TIMES: &[ReportedLine<'static>] = &[
    (
        "fluent/fluent-bit#703",
        "2026-11-27 02:05:59,772 fail2ban.actions        [1665]: NOTICE  [sshd] Unban 192.0.2.172",
        &[("ts", "2026-11-27T02:05:59.772000Z"), ("severity", "notice")],
    ),
    (
        "fluent/fluent-bit#346",
        r#"time="2026-11-27T11:36:59.810694666+09:00" level=info msg="stopping containerd""#,
        &[("ts", "2026-11-27T02:36:59.810694Z")],
    ),
    (
        "control-theory/gonzo#26",
        "[11/27/26 12:13:25] INFO     Shutting down due to inactivity.",
        &[("ts", "2026-11-27T12:13:25.000000Z"), ("severity", "info")],
    ),
    (
        "mozilla-frontend-infra/react-lazylog#57",
        "Nov 27, 2026 07:22:57 \u{1b}[34mINFO:\u{1b}[0m Some text",
        &[("ts", "2026-11-27T07:22:57.000000Z"), ("severity", "info")],
    ),
    (
        "containrrr/watchtower#562",
        "INFO[2026-11-27T15:10:33+02:00] Starting: 2026-11-27 15:15:33 +0200 CEST m=+301.09",
        &[("ts", "2026-11-27T13:10:33.000000Z"), ("severity", "info")],
    ),
    (
        "fluent/fluent-bit#617, MongoDB",
        "2026-11-27T07:35:08.730+0000 I CONTROL  [initandlisten] ** WARNING: defrag is 'always'.",
        &[("ts", "2026-11-27T07:35:08.730000Z"), ("severity", "info")],
    ),
];

const MESSAGES: &[ReportedLine<'static>] = &[
    (
        "moby/moby#18200",
        "\u{1b}[31mERRO\u{1b}[0m[2809574] Handler for GET /images/{name:.*}/json returned error: x",
        &[("table", "log"), ("severity", "error")],
    ),
    (
        "grafana/grafana#33757",
        "\u{1b}[40m\u{1b}[32minfo\u{1b}[39m\u{1b}[22m\u{1b}[49m: Microsoft.Hosting.Lifetime[0]",
        &[("severity", "info"), ("body", "info: Microsoft.Hosting.Lifetime[0]")],
    ),
    (
        "kunchenguid/firstmate#984",
        "\u{1b}[0;36m(APIServer pid=1)\u{1b}[0;0m \u{1b}[33mWARNING\u{1b}[0m \u{1b}[90m07-24 13:15:43\u{1b}[0m up",
        &[("severity", "warn"), ("body", "(APIServer pid=1) WARNING 07-24 13:15:43 up")],
    ),
    (
        "tstack/lnav#231",
        "2026-11-27T21:09:29.296 [25376]INFO:somemodule:Something very INFOrmative.",
        &[("ts", "2026-11-27T21:09:29.296000Z"), ("severity", "info")],
    ),
    (
        "tstack/lnav#1283",
        "[2026-11-27T02:12:24Z ERROR main] this is printed by default",
        &[("ts", "2026-11-27T02:12:24.000000Z"), ("severity", "error")],
    ),
    (
        "grafana/loki#9620",
        "INFO [elastalert] Ran apm-error from 2026-11-27 08:05 +0000: 0 query hits",
        &[("severity", "info")],
    ),
    (
        "grafana/loki#17531",
        "2026-11-27 15:54:44.190 DEBUG --- [   scheduling-1] c.e.inventory : an error was found",
        &[("severity", "debug")],
    ),
    ("grafana/loki#14428", "WARN no colon behind the level", &[("severity", "warn")]),
    ("grafana/loki#12645", "level=Warn msg=\"an error\" n=1", &[("severity", "warn")]),
    (
        "grafana/loki#16611",
        r#"{"http_referer":"https://g.example/?levels=error","request":"POST /api/ds/query?a=b HTTP/2.0","request_time":0.893,"status":200}"#,
        &[("table", "request"), ("http_response_status_code", "200"), ("attrs.level", "-")],
    ),
    ("a sentence is no level", "errors: none so far, note that", &[("severity", "-")]),
];

#[test]
fn reported_entries_of_containers_have_their_time_and_text() {
    check(&LogFormat::Auto, CONTAINERS);
}

#[test]
fn reported_syslog_headers_are_read_as_far_as_they_tell() {
    check(&LogFormat::Auto, SYSLOG);
}

#[test]
fn reported_access_lines_are_requests() {
    check(&LogFormat::Auto, ACCESS);
}

/// Balancers, gateways and application servers; a blank line ends an entry.
#[test]
fn reported_lines_of_gateways_are_requests() {
    let entries = include_str!("gateways.txt").split("\n\n").skip(1);
    for entry in entries {
        let [report, line, expected] = entry.lines().collect::<Vec<_>>()[..] else {
            panic!("{entry}")
        };
        let pairs: Vec<_> =
            expected.split("; ").filter_map(|pair| pair.split_once(" = ")).collect();
        check(&LogFormat::Auto, &[(report, line, &pairs)]);
    }
}

#[test]
fn reported_times_are_read() {
    check(&LogFormat::Auto, TIMES);
}

#[test]
fn reported_levels_are_those_of_the_line_and_not_of_its_words() {
    check(&LogFormat::Auto, MESSAGES);
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
    let found = rows(&LogFormat::Auto, bytes);
    let bodies: Vec<_> = found.iter().map(|row| row.get("body").unwrap_or("-")).collect();
    assert_eq!(bodies, ["WARN first", "second", "10%\r20%\rdone", "last"]);
}

/// containerd/containerd#4813: a container's last line without a newline stays a piece.
#[test]
fn last_piece_of_a_container_is_a_row() {
    let bytes = b"2026-11-27T15:32:38.994574754Z stdout P Hello from init container!\n";
    let found = rows(&LogFormat::Auto, bytes);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].get("body"), Some("Hello from init container!"));
}
