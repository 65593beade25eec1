//! Lines as real programs wrote them on 2026-11-27, with the names and versions of the programs, and
//! what their rows have. Where it says so, the line follows the program's documentation.

use weir_parse::{ParsedRows, RowText};
use weir_tables::{LogFormat, Micros};

use crate::parser;

/// 2026-11-27T23:00:00Z.
const OBSERVED: Micros = Micros(1_795_820_400_000_000);

/// A line and what its row has: `table`, columns and `attrs.NAME`; `-` is none.
type ProgramLine = (&'static str, &'static [(&'static str, &'static str)]);

fn check(format: &LogFormat, lines: &[ProgramLine]) {
    for (line, expected) in lines {
        let mut out = ParsedRows::default();
        parser(format.clone()).parse(format!("{line}\n").as_bytes(), 0, OBSERVED, &mut out);
        let rows = RowText::all(&out.finish());
        assert_eq!(rows.len(), 1, "{line}");
        for (name, value) in *expected {
            let found = if *name == "table" { Some(rows[0].table) } else { rows[0].get(name) };
            assert_eq!(found.unwrap_or("-"), *value, "{name} of {line}: {:?}", rows[0]);
        }
    }
}

/// Uvicorn 0.54, Granian 2.8, Hypercorn 0.18, Daphne 4.2, Flask 3.1 with Werkzeug 3.1, `http.server`
/// of Python 3.11.
const PYTHON_SERVERS: &[ProgramLine] = &[
    (
        r#"[2026-11-27 22:23:17 +0000] [20828] [INFO] 127.0.0.1:55084 - - [27/Nov/2026:22:23:17 +0000] "GET /search 1.1" 200 6 "https://a.example/x?y=1" "Mozilla/5.0 (X11; Linux) "quoted" \back""#,
        &[
            ("client_address", "127.0.0.1"),
            ("client_port", "55084"),
            ("url_path", "/search"),
            ("network_protocol_version", "1.1"),
            ("http_request_header_referer", "https://a.example/x?y=1"),
            ("user_agent_original", r#"Mozilla/5.0 (X11; Linux) "quoted" \back"#),
            ("attrs.logger_prefix", "[2026-11-27 22:23:17 +0000] [20828] [INFO]"),
        ],
    ),
    (
        "127.0.0.1 - - [27/Nov/2026 22:23:20] \"\u{1b}[33mGET /\"q\"/%E4 HTTP/1.1\u{1b}[0m\" 404 -",
        &[
            ("table", "request"),
            ("http_request_method", "GET"),
            ("url_path", "/\"q\"/%E4"),
            ("http_response_status_code", "404"),
        ],
    ),
    (
        "\u{1b}[31m\u{1b}[1mWARNING: This is a development server.\u{1b}[0m",
        &[("severity", "warn"), ("body", "WARNING: This is a development server.")],
    ),
];

/// Morgan 1.12 (`dev`, `short`, `tiny` and a custom format) and pino-http 11 with Express 5 on Node 20,
/// winston 3.19.
const NODE: &[ProgramLine] = &[(
    "\u{1b}[0mGET /search?q=a%20b&x=1 \u{1b}[33m404\u{1b}[0m 0.833 ms - 145\u{1b}[0m",
    &[
        ("table", "request"),
        ("url_path", "/search"),
        ("url_query", "q=a%20b&x=1"),
        ("response_body_bytes", "145"),
        ("duration_seconds", "0.000833"),
    ],
)];

/// `log` and `log/slog` of Go 1.26, zap 1.28, logrus 1.10, charmbracelet/log 1.0, and Caddy 2.6.2 with
/// its console format; Gin by its documentation.
const GO: &[ProgramLine] = &[
    (
        "\u{1b}[33mWARN\u{1b}[0m[2026-11-27T17:33:16-05:00] coloured     \u{1b}[33ma\u{1b}[0m=1",
        &[("ts", "2026-11-27T22:33:16.000000Z"), ("severity", "warn")],
    ),
    (
        "2026/11/27 22:36:46.015\t\u{1b}[34mINFO\u{1b}[0m\thttp.log.access.log1\thandled request\t{\"request\": {\"remote_ip\": \"127.0.0.1\", \"remote_port\": \"54758\", \"proto\": \"HTTP/1.1\", \"method\": \"GET\", \"host\": \"shop.example\", \"uri\": \"/a?b=1\", \"headers\": {\"User-Agent\": [\"curl/8.1\"]}}, \"user_id\": \"\", \"duration\": 0.000011898, \"size\": 2, \"status\": 200}",
        &[
            ("table", "request"),
            ("program", "caddy"),
            ("ts", "2026-11-27T22:36:46.015000Z"),
            ("url_path", "/a"),
            ("user_agent_original", "curl/8.1"),
            ("duration_seconds", "0.000011898"),
        ],
    ),
];

/// rsyslog 8.2302 with `RSYSLOG_FileFormat` and `option.jsonf`.
const SYSTEM: &[ProgramLine] = &[
    (
        "2026-11-27T22:14:15.003Z mymachine.example.com evntslog[77] \u{feff}An application event",
        &[
            ("program", "evntslog"),
            ("process_id", "77"),
            ("body", "An application event"),
            ("attrs.syslog_hostname", "mymachine.example.com"),
        ],
    ),
    (
        "{\"@timestamp\":\"2026-11-27T22:14:15.003Z\", \"host\":\"a\", \"severity\":\"notice\", \"facility\":\"local4\", \"message\":\"\u{feff}An event\"}",
        &[("body", "An event"), ("severity", "notice"), ("facility", "local4")],
    ),
];

#[test]
fn access_lines_of_python_servers_are_requests() {
    check(&LogFormat::Auto, PYTHON_SERVERS);
}

#[test]
fn lines_of_node_have_their_columns() {
    check(&LogFormat::Auto, NODE);
}

#[test]
fn lines_of_go_have_their_columns() {
    check(&LogFormat::Auto, GO);
}

#[test]
fn lines_of_syslog_daemons_and_proxies_have_their_columns() {
    check(&LogFormat::Auto, SYSTEM);
}

/// nginx 1.22.1: addresses in one piece, as text and in JSON; a request that is none has no target.
#[test]
fn host_and_target_in_one_value_of_nginx_are_told_apart() {
    let text = crate::nginx(
        "$time_iso8601\t$remote_addr\t$request_method\t$scheme://$host$request_uri\t$status",
    );
    let json = crate::nginx(
        r#"{"t":"$msec","url":"$scheme://$http_host$request_uri","st":$status,"m":"$request_method"}"#,
    );
    let bare =
        crate::nginx(r#"{"t":"$msec","url":"$host:$server_port$uri$is_args$args","st":$status}"#);
    let found: &[(&str, &str)] = &[
        ("table", "request"),
        ("url_scheme", "http"),
        ("server_address", "shop.example"),
        ("url_path", "/search"),
        ("url_query", "q=a%20b&x=1"),
    ];
    check(
        &text,
        &[
            (
                "2026-11-27T22:20:49+00:00\t127.0.0.1\tGET\thttp://shop.example/search?q=a%20b&x=1\t200",
                found,
            ),
            (
                "2026-11-27T22:20:49+00:00\t127.0.0.1\t-\thttp://shop.example-\t400",
                &[("server_address", "shop.example"), ("url_path", "-")],
            ),
            (
                "2026-11-27T22:20:49+00:00\t::1\tGET\thttp://[::1]/six\t200",
                &[("server_address", "[::1]"), ("url_path", "/six")],
            ),
        ],
    );
    check(
        &json,
        &[(
            r#"{"t":"1795818049.070","url":"http://shop.example/search?q=a%20b&x=1","st":200,"m":"GET"}"#,
            found,
        )],
    );
    check(
        &bare,
        &[(
            r#"{"t":"1795818049.070","url":"shop.example:8443/search?q=a%20b&x=1","st":200}"#,
            &[
                ("server_address", "shop.example"),
                ("server_port", "8443"),
                ("url_path", "/search"),
                ("url_query", "q=a%20b&x=1"),
            ],
        )],
    );
}

/// Apache httpd 2.4.71: host and target in one piece, times in parts, and the process of a thread.
#[test]
fn formats_of_apache_in_parts_are_read() {
    let apache = |template: &str| LogFormat::ApacheTemplate { template: template.into() };
    check(
        &apache(
            r#"%{begin:usec}t %{end:msec}t %a:%{remote}p %{c}a %A:%{local}p %H %m %U%q %s %>s %I %O %{ms}T %{us}T %S %{tid}P %{X-Request-Id}i %{Content-Type}o"#,
        ),
        &[(
            "1795818010326863 1795818010466 127.0.0.1:47440 127.0.0.1 127.0.0.1:21090 HTTP/1.1 GET /search?q=a%20b&x=1 200 200 227 273 139 139723 500 139744453355200 req-1 -",
            &[
                ("ts", "2026-11-27T22:20:10.326863Z"),
                ("client_address", "127.0.0.1"),
                ("client_port", "47440"),
                ("server_port", "21090"),
                ("url_path", "/search"),
                ("url_query", "q=a%20b&x=1"),
                ("request_bytes", "227"),
                ("response_bytes", "273"),
                ("duration_seconds", "0.139723"),
                ("request_id", "req-1"),
            ],
        )],
    );
    check(
        &apache(r#"[%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t] %a \"%r\" %>s %b %T/%D %f %{Host}i%U%q"#),
        &[(
            r#"[27/Nov/2026 22:20:10.770 +0000] ::1 "OPTIONS * HTTP/1.1" 200 - 0/59 /var/www/html/* shop.example/x?y=1"#,
            &[
                ("ts", "2026-11-27T22:20:10.770000Z"),
                ("http_request_method", "OPTIONS"),
                ("url_path", "*"),
                ("duration_seconds", "0.000059"),
                ("server_address", "shop.example"),
            ],
        )],
    );
}
