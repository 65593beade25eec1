//! Faults that the proxy's error log names, while its access log has the default format: a status,
//! no times and no upstream.
//!
//! Source: reports of 502 and 504, such as unbit/uwsgi #1647 (errno 11), apache/apisix #11726
//! (header too big) and docker-php #304. Each fault is in a second `server` of nginx, so that the
//! first one shows that the proxy itself is well.

use crate::error::Result;
use crate::fault::{Fault, FaultGuard, parameter};
use crate::testbed::{APP, NginxConfig, SERVER, TestBed};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "backlog of a unix socket full",
        rules: &[&["app.socket_backlog_full", "unix.accept_queue_full"]],
        parameters: &[
            parameter("visitors", 20..=40, "visitors"),
            parameter("backlog", 1..=8, "backlog of the socket, connections"),
        ],
        tools: &["nginx", "perl"],
        set: |testbed| {
            let _visitors = testbed.draw("visitors");
            let backlog = testbed.draw("backlog").to_string();
            let (netns, socket) = (testbed.server.clone(), testbed.path("app.sock"));
            // One worker that takes 400 ms for each request. nginx's worker is another user, and
            // needs search permission on the directory.
            let program = "use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, sockaddr_un($ARGV[0])); chmod 0666, $ARGV[0]; \
                 chmod 0711, $ARGV[0] =~ m{(.*)/}; \
                 listen(S, $ARGV[1]); while (accept(C, S)) { sysread(C, $_, 4096); select(undef, undef, undef, 0.4); \
                 syswrite(C, \"HTTP/1.0 200 OK\\r\\n\\r\\nok\"); close C }";
            testbed.start("server", &netns, "perl", &["-e", program, &socket, &backlog])?;
            second_server(
                testbed,
                &format!("location / {{ proxy_pass http://unix:{socket}:; }}"),
                "",
            )
        },
        inject: |testbed| {
            let visitors = testbed.drawn("visitors");
            testbed.visitors_at(&second(), visitors, &["--pause-millis", "100"])?;
            Ok(None)
        },
    },
    Fault {
        name: "https to an application that speaks http",
        rules: &[&["proxy.protocol_mismatch"]],
        parameters: &[parameter("visitors", 4..=12, "visitors")],
        tools: &["nginx"],
        set: |testbed| {
            second_server(testbed, &format!("location / {{ proxy_pass https://{APP}; }}"), "")
        },
        inject: visit_second,
    },
    Fault {
        name: "response header over the buffer of the proxy",
        rules: &[&["proxy.header_too_big"]],
        parameters: &[
            parameter("visitors", 4..=12, "visitors"),
            parameter("bytes", 5000..=12_000, "size of a cookie, bytes"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let _visitors = testbed.draw("visitors");
            // A word of nginx's configuration has at most 4,096 bytes.
            let hundred = "c".repeat(100);
            let cookie =
                "$hundred".repeat(usize::try_from(testbed.draw("bytes") / 100).unwrap_or(50));
            let behind = format!(
                "server {{ listen 127.0.0.1:9003; set $hundred {hundred}; add_header Set-Cookie \"s={cookie}\"; \
                 location / {{ return 200 x; }} }}"
            );
            second_server(testbed, "location / { proxy_pass http://127.0.0.1:9003; }", &behind)
        },
        inject: |testbed| {
            let visitors = testbed.drawn("visitors");
            testbed.visitors_at(&second(), visitors, &["--pause-millis", "200"])?;
            Ok(None)
        },
    },
    Fault {
        name: "time limit of the proxy, log without times",
        rules: &[&["proxy.upstream_timeout", "app.slow"]],
        parameters: &[
            parameter("visitors", 4..=12, "visitors"),
            parameter("millis", 1500..=4000, "milliseconds of a response"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let _visitors = testbed.draw("visitors");
            let limited =
                format!("location / {{ proxy_pass http://{APP}; proxy_read_timeout 500ms; }}");
            second_server(testbed, &limited, "")
        },
        inject: |testbed| {
            let (visitors, millis) = (testbed.drawn("visitors"), testbed.draw("millis"));
            testbed.put("delay", millis)?;
            testbed.visitors_at(&second(), visitors, &["--pause-millis", "200"])?;
            Ok(None)
        },
    },
];

/// Address of the second server.
fn second() -> String {
    format!("{SERVER}:8080")
}

fn visit_second(testbed: &mut TestBed) -> Result<FaultGuard> {
    let visitors = testbed.draw("visitors");
    testbed.visitors_at(&second(), visitors, &["--pause-millis", "200"])?;
    Ok(None)
}

/// Starts the application, nginx with a second server that logs in format `combined`, and what is
/// behind it.
fn second_server(testbed: &mut TestBed, location: &str, behind: &str) -> Result<()> {
    testbed.app(256, &[])?;
    let log = testbed.path("plain.log");
    let http = format!("server {{ listen {SERVER}:8080; access_log {log}; {location} }} {behind}");
    let server = format!("location / {{ proxy_pass http://{APP}; }}");
    testbed.nginx_with(&NginxConfig { http: &http, server: &server, ..NginxConfig::default() })
}
