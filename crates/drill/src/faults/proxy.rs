//! Faults between visitor, proxy and application: one member, one side, one hop.

use rustix::process::Signal;

use crate::command::run;
use crate::error::Result;
use crate::fault::{Fault, parameter};
use crate::testbed::{APP, CLIENT, NginxConfig, SERVER, TestBed, nginx_temp_paths};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "proxy stopped",
        rules: &[&["tcp.listen_overflow"]],
        parameters: &[
            parameter("backlog", 8..=64, "accept queue of the proxy, connections"),
            parameter("visitors", 150..=250, "visitors"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            testbed.app(256, &[])?;
            let backlog = testbed.draw("backlog");
            // Only the worker stops, so the proxy's own accept queue fills.
            testbed.nginx(&format!(
                "listen {SERVER}:8080 backlog={backlog}; location / {{ proxy_pass http://{APP}; }}"
            ))?;
            testbed.visitors_at(&format!("{SERVER}:8080"), 4, &[])
        },
        inject: |testbed| {
            let visitors = testbed.draw("visitors");
            testbed.signal_children("nginx", Signal::STOP)?;
            testbed.visitors_at(
                &format!("{SERVER}:8080"),
                visitors,
                &["--patience-millis", "3000"],
            )?;
            Ok(None)
        },
    },
    Fault {
        name: "retries of a slow application",
        rules: &[&["proxy.retry_amplification", "app.slow", "proxy.upstream_timeout"]],
        parameters: &[parameter("millis", 400..=900, "milliseconds")],
        tools: &["nginx"],
        set: |testbed| {
            members(testbed, 3, "proxy_read_timeout 300ms; proxy_next_upstream error timeout;")?;
            testbed.visitors(12, &[])
        },
        inject: |testbed| {
            let millis = testbed.draw("millis");
            testbed.put("delay", millis)?;
            Ok(None)
        },
    },
    Fault {
        name: "one of four fails",
        rules: &[&["proxy.masked_errors", "app.error_outlier"]],
        parameters: &[
            parameter("percent", 20..=80, "percent of its responses"),
            parameter("member", 1..=4, "which of the four"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            members(testbed, 4, "proxy_next_upstream error timeout http_500;")?;
            testbed.visitors(24, &["--pause-millis", "25"])
        },
        inject: |testbed| {
            let (percent, member) = (testbed.draw("percent"), testbed.draw("member"));
            testbed.put(&format!("failing{member}"), percent)?;
            Ok(None)
        },
    },
    Fault {
        name: "application fails",
        rules: &[&["app.errors"]],
        parameters: &[
            parameter("percent", 15..=100, "percent of the responses that are errors"),
            parameter("members", 1..=4, "members of the pool, all failing alike"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let (_percent, count) = (testbed.draw("percent"), testbed.draw("members"));
            members(testbed, count, "")?;
            testbed.visitors(24, &["--pause-millis", "25"])
        },
        inject: |testbed| {
            let (percent, count) = (testbed.drawn("percent"), testbed.drawn("members"));
            for member in 1..=count {
                testbed.put(&format!("failing{member}"), percent)?;
            }
            Ok(None)
        },
    },
    Fault {
        name: "visitors read slowly",
        rules: &[&["client.slow_reader"]],
        parameters: &[
            parameter("visitors", 20..=40, "visitors"),
            parameter("millis", 60..=140, "milliseconds"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            testbed.app(256, &["--bytes", "400000"])?;
            let buffers = "proxy_buffers 64 16k; proxy_buffer_size 16k;";
            // Keep the send buffer small: nginx counts what the kernel accepts as written.
            let listen = format!("listen {SERVER}:8080 sndbuf=16k;");
            testbed
                .nginx(&format!("{listen} location / {{ proxy_pass http://{APP}; {buffers} }}"))?;
            testbed.visitors_at(&format!("{SERVER}:8080"), 4, &[])
        },
        inject: |testbed| {
            let (visitors, millis) = (testbed.draw("visitors"), testbed.draw("millis"));
            let slow = millis.to_string();
            let manner = ["--slow-millis", &slow, "--patience-millis", "20000"];
            testbed.visitors_at(&format!("{SERVER}:8080"), visitors, &manner)?;
            Ok(None)
        },
    },
    Fault {
        name: "keep-alive shorter than the proxy's",
        rules: &[&["proxy.keepalive_mismatch", "proxy.keepalive_race"]],
        parameters: &[parameter(
            "seconds",
            2..=30,
            "seconds that the application keeps idle connections",
        )],
        tools: &["nginx"],
        set: |testbed| {
            backend_nginx(testbed, 75)?;
            let kept =
                format!("upstream app {{ server {APP}; keepalive 32; keepalive_timeout 60s; }}");
            let proxied =
                "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_pass http://app;";
            let server = format!("location / {{ {proxied} }}");
            testbed.nginx_with(&NginxConfig {
                http: &kept,
                server: &server,
                ..NginxConfig::default()
            })?;
            testbed.visitors(8, &[])
        },
        inject: |testbed| {
            let seconds = testbed.draw("seconds");
            configure_backend_nginx(testbed, seconds)?;
            testbed.signal("behind", Signal::HUP)?;
            Ok(None)
        },
    },
    Fault {
        name: "application's host gone",
        rules: &[&["wire.host_unreachable"]],
        parameters: &[parameter("visitors", 6..=20, "visitors")],
        tools: &["nginx"],
        set: |testbed| {
            let netns = testbed.client.clone();
            let address = format!("{CLIENT}:9001");
            testbed.app_at(&netns, &address, 256, &[])?;
            let proxied = format!("proxy_pass http://{address}; proxy_connect_timeout 5s;");
            testbed.nginx(&format!("location / {{ {proxied} }}"))?;
            let visitors = testbed.draw("visitors");
            testbed.inner_visitors(visitors)
        },
        inject: |testbed| {
            let address = format!("{CLIENT}/24");
            run("ip", &["-n", &testbed.client, "address", "del", &address, "dev", "veth"])?;
            run("ip", &["-n", &testbed.server, "neigh", "flush", "dev", "veth"])?;
            Ok(None)
        },
    },
    Fault {
        name: "application stopped, room in its queue",
        rules: &[&["tcp.accept_queue_high", "tcp.listen_overflow"]],
        parameters: &[
            parameter("backlog", 64..=1024, "accept queue of the application, connections"),
            parameter("visitors", 2..=40, "visitors"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let (backlog, visitors) = (testbed.draw("backlog"), testbed.draw("visitors"));
            testbed.proxied_app(backlog)?;
            testbed.visitors(visitors, &[])
        },
        inject: |testbed| {
            testbed.signal("app", Signal::STOP)?;
            Ok(None)
        },
    },
    Fault {
        name: "one page of many slow",
        rules: &[&["app.slow_url", "app.slow"]],
        parameters: &[
            parameter("pages", 8..=40, "pages requested in turn"),
            parameter("millis", 400..=1500, "milliseconds that one of them takes"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            testbed.config =
                format!("[wire]\ninterfaces = [\"{}/veth\"]\nports = [80]\n", testbed.server);
            let slow = testbed.path("slow");
            testbed.app(256, &["--slow-page", &slow])?;
            testbed.nginx(&format!("location / {{ proxy_pass http://{APP}; }}"))?;
            let pages = testbed.draw("pages").to_string();
            testbed.visitors(25, &["--pages", &pages])
        },
        inject: |testbed| {
            let millis = testbed.draw("millis");
            testbed.put("slow", millis)?;
            Ok(None)
        },
    },
    Fault {
        name: "answers go to disk first",
        rules: &[&["proxy.disk_buffering"]],
        parameters: &[
            parameter("bytes", 100_000..=400_000, "bytes of a response"),
            parameter("visitors", 10..=30, "visitors"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let bytes = testbed.draw("bytes").to_string();
            testbed.app(256, &["--bytes", &bytes])?;
            let log = testbed.path("error.log");
            // nginx logs disk buffering at `warn`. It never buffers what the kernel accepts at
            // once.
            testbed.nginx(&format!(
                "listen {SERVER}:8080 sndbuf=16k; error_log {log} warn; location / {{ proxy_pass http://{APP}; proxy_buffers 4 4k; }}"
            ))?;
            testbed.patience_seconds = 75;
            Ok(())
        },
        inject: |testbed| {
            let visitors = testbed.draw("visitors");
            let manner = ["--slow-millis", "5", "--patience-millis", "20000"];
            testbed.visitors_at(&format!("{SERVER}:8080"), visitors, &manner)?;
            Ok(None)
        },
    },
];

/// Starts an nginx in place of the application, with a keep-alive timeout of `seconds`.
fn backend_nginx(testbed: &mut TestBed, seconds: u64) -> Result<()> {
    configure_backend_nginx(testbed, seconds)?;
    let (netns, dir) = (testbed.server.clone(), testbed.path("behind"));
    let (config, log) = (format!("{dir}/nginx.conf"), format!("{dir}/error.log"));
    testbed.start("behind", &netns, "nginx", &["-c", &config, "-p", &dir, "-e", &log])
}

fn configure_backend_nginx(testbed: &TestBed, seconds: u64) -> Result<()> {
    let dir = testbed.path("behind");
    std::fs::create_dir_all(&dir)?;
    let places = nginx_temp_paths(&dir);
    testbed.put(
        "behind/nginx.conf",
        format!(
            "daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log;\n\
             events {{ worker_connections 512; }}\n\
             http {{ {places}\n  access_log off;\n  keepalive_timeout {seconds}s;\n  \
             server {{ listen {APP}; location / {{ return 200 hello; }} }}\n}}\n"
        ),
    )
}

/// Starts `count` applications at 127.0.0.1, .2 … behind nginx, each with a file that holds its
/// failure rate.
pub(crate) fn members(testbed: &mut TestBed, count: u64, settings: &str) -> Result<()> {
    members_with(testbed, count, settings, &[], "")
}

/// Like [`members`], with more arguments of the applications and directives of nginx's
/// `server { … }`.
pub(crate) fn members_with(
    testbed: &mut TestBed,
    count: u64,
    settings: &str,
    more: &[&str],
    server: &str,
) -> Result<()> {
    let netns = testbed.server.clone();
    let mut servers = String::new();
    for number in 1..=count {
        let (address, failing) =
            (format!("127.0.0.{number}:9001"), testbed.path(&format!("failing{number}")));
        testbed.app_at(&netns, &address, 256, &[&["--failing", &failing][..], more].concat())?;
        servers += &format!("server {address} max_fails=0; ");
    }
    let proxied = format!("{server} location / {{ proxy_pass http://app; {settings} }}");
    let http = format!("upstream app {{ {servers} }}");
    testbed.nginx_with(&NginxConfig { http: &http, server: &proxied, ..NginxConfig::default() })
}
