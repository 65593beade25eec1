//! Faults on the way between visitor, proxy and application: one member, one side, one hop.

use rustix::process::Signal;

use crate::error::Result;
use crate::fault::{Fault, of};
use crate::scene::{APP, CLIENT, SERVER, Scene, nginx_places, run};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "proxy stopped",
        rules: &[&["tcp.listen_overflow"]],
        parameters: &[
            of("backlog", 8, 64, "accept queue of what is asked, connections"),
            of("visitors", 150, 250, "visitors"),
        ],
        tools: &["nginx"],
        set: |scene| {
            scene.app(256, &[])?;
            let backlog = scene.draw("backlog");
            // Its worker is what stops: the listening queue is the proxy's own.
            scene.nginx_with(4096, "", &format!(
                "listen {SERVER}:8080 backlog={backlog}; location / {{ proxy_pass http://{APP}; }}"
            ))?;
            scene.visitors_at(&format!("{SERVER}:8080"), 4, &[])
        },
        inject: |scene| {
            let visitors = scene.draw("visitors");
            scene.signal_children("nginx", Signal::STOP)?;
            scene.visitors_at(
                &format!("{SERVER}:8080"),
                visitors,
                &["--patience-millis", "3000"],
            )?;
            Ok(None)
        },
    },
    Fault {
        name: "retries of a slow application",
        rules: &[&["proxy.retry_amplification", "app.slow"]],
        parameters: &[of("millis", 400, 900, "milliseconds")],
        tools: &["nginx"],
        set: |scene| {
            members(scene, 3, "proxy_read_timeout 300ms; proxy_next_upstream error timeout;")?;
            scene.visitors(12, &[])
        },
        inject: |scene| {
            let millis = scene.draw("millis");
            scene.put("delay", &millis.to_string())?;
            Ok(None)
        },
    },
    Fault {
        name: "one of four fails",
        rules: &[&["proxy.masked_errors", "app.error_outlier"]],
        parameters: &[of("percent", 20, 80, "per cent"), of("member", 1, 4, "which of the four")],
        tools: &["nginx"],
        set: |scene| {
            members(scene, 4, "proxy_next_upstream error timeout http_500;")?;
            scene.visitors(24, &["--pause-millis", "25"])
        },
        inject: |scene| {
            let (percent, member) = (scene.draw("percent"), scene.draw("member"));
            scene.put(&format!("failing{member}"), &percent.to_string())?;
            Ok(None)
        },
    },
    Fault {
        name: "application fails",
        rules: &[&["app.errors"]],
        parameters: &[
            of("percent", 15, 100, "per cent of the answers that are errors"),
            of("members", 1, 4, "members of the pool, which all do the same"),
        ],
        tools: &["nginx"],
        set: |scene| {
            let (_percent, count) = (scene.draw("percent"), scene.draw("members"));
            members(scene, count, "")?;
            scene.visitors(24, &["--pause-millis", "25"])
        },
        inject: |scene| {
            let (percent, count) = (scene.drawn("percent"), scene.drawn("members"));
            for member in 1..=count {
                scene.put(&format!("failing{member}"), &percent.to_string())?;
            }
            Ok(None)
        },
    },
    Fault {
        name: "visitors read slowly",
        rules: &[&["client.slow_reader"]],
        parameters: &[of("visitors", 20, 40, "visitors"), of("millis", 60, 140, "milliseconds")],
        tools: &["nginx"],
        set: |scene| {
            scene.app(256, &["--bytes", "400000"])?;
            let buffers = "proxy_buffers 64 16k; proxy_buffer_size 16k;";
            // What the kernel takes at once is written, as far as nginx knows.
            let listen = format!("listen {SERVER}:8080 sndbuf=16k;");
            scene
                .nginx(&format!("{listen} location / {{ proxy_pass http://{APP}; {buffers} }}"))?;
            scene.visitors_at(&format!("{SERVER}:8080"), 4, &[])
        },
        inject: |scene| {
            let (visitors, millis) = (scene.draw("visitors"), scene.draw("millis"));
            let slow = millis.to_string();
            let manner = ["--slow-millis", &slow, "--patience-millis", "20000"];
            scene.visitors_at(&format!("{SERVER}:8080"), visitors, &manner)?;
            Ok(None)
        },
    },
    Fault {
        name: "keep-alive shorter than the proxy's",
        rules: &[&["proxy.keepalive_mismatch", "proxy.keepalive_race"]],
        parameters: &[of("seconds", 2, 30, "seconds that the application keeps idle connections")],
        tools: &["nginx"],
        set: |scene| {
            behind(scene, 75)?;
            let kept =
                format!("upstream app {{ server {APP}; keepalive 32; keepalive_timeout 60s; }}");
            let proxied =
                "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_pass http://app;";
            scene.nginx_with(4096, &kept, &format!("location / {{ {proxied} }}"))?;
            scene.visitors(8, &[])
        },
        inject: |scene| {
            let seconds = scene.draw("seconds");
            put_behind(scene, seconds)?;
            scene.signal("behind", Signal::HUP)?;
            Ok(None)
        },
    },
    Fault {
        name: "application's host gone",
        rules: &[&["wire.host_unreachable"]],
        parameters: &[of("visitors", 6, 20, "visitors")],
        tools: &["nginx"],
        set: |scene| {
            let netns = scene.client.clone();
            let address = format!("{CLIENT}:9001");
            scene.app_at(&netns, &address, 256, &[])?;
            let proxied = format!("proxy_pass http://{address}; proxy_connect_timeout 5s;");
            scene.nginx(&format!("location / {{ {proxied} }}"))?;
            let visitors = scene.draw("visitors");
            scene.inner_visitors(visitors)
        },
        inject: |scene| {
            let address = format!("{CLIENT}/24");
            run("ip", &["-n", &scene.client, "address", "del", &address, "dev", "veth"])?;
            run("ip", &["-n", &scene.server, "neigh", "flush", "dev", "veth"])?;
            Ok(None)
        },
    },
    Fault {
        name: "application stopped, room in its queue",
        rules: &[&["tcp.accept_queue_high", "tcp.listen_overflow"]],
        parameters: &[
            of("backlog", 64, 1024, "accept queue of the application, connections"),
            of("visitors", 2, 40, "visitors"),
        ],
        tools: &["nginx"],
        set: |scene| {
            let (backlog, visitors) = (scene.draw("backlog"), scene.draw("visitors"));
            scene.usual(backlog, visitors)
        },
        inject: |scene| {
            scene.signal("app", Signal::STOP)?;
            Ok(None)
        },
    },
    Fault {
        name: "one page of many slow",
        rules: &[&["app.slow_url", "app.slow"]],
        parameters: &[
            of("pages", 8, 40, "pages that are asked for in turn"),
            of("millis", 400, 1500, "milliseconds that one of them takes"),
        ],
        tools: &["nginx"],
        set: |scene| {
            scene.config =
                format!("[wire]\ninterfaces = [\"{}/veth\"]\nports = [80]\n", scene.server);
            let slow = scene.path("slow");
            scene.app(256, &["--slow-page", &slow])?;
            scene.nginx(&format!("location / {{ proxy_pass http://{APP}; }}"))?;
            let pages = scene.draw("pages").to_string();
            scene.visitors(25, &["--pages", &pages])
        },
        inject: |scene| {
            let millis = scene.draw("millis");
            scene.put("slow", &millis.to_string())?;
            Ok(None)
        },
    },
    Fault {
        name: "answers go to disk first",
        rules: &[&["proxy.disk_buffering"]],
        parameters: &[
            of("bytes", 100_000, 400_000, "bytes of an answer"),
            of("visitors", 10, 30, "visitors"),
        ],
        tools: &["nginx"],
        set: |scene| {
            let bytes = scene.draw("bytes").to_string();
            scene.app(256, &["--bytes", &bytes])?;
            let log = scene.path("error.log");
            // It says so at this level only. What the kernel takes at once is not held.
            scene.nginx(&format!(
                "listen {SERVER}:8080 sndbuf=16k; error_log {log} warn; location / {{ proxy_pass http://{APP}; proxy_buffers 4 4k; }}"
            ))?;
            scene.patience_seconds = 75;
            Ok(())
        },
        inject: |scene| {
            let visitors = scene.draw("visitors");
            let manner = ["--slow-millis", "5", "--patience-millis", "20000"];
            scene.visitors_at(&format!("{SERVER}:8080"), visitors, &manner)?;
            Ok(None)
        },
    },
];

/// An nginx in the application's place, which keeps idle connections for so long.
fn behind(scene: &mut Scene, seconds: u64) -> Result<()> {
    put_behind(scene, seconds)?;
    let (netns, dir) = (scene.server.clone(), scene.path("behind"));
    let (config, log) = (format!("{dir}/nginx.conf"), format!("{dir}/error.log"));
    scene.start("behind", &netns, "nginx", &["-c", &config, "-p", &dir, "-e", &log])
}

fn put_behind(scene: &Scene, seconds: u64) -> Result<()> {
    let dir = scene.path("behind");
    std::fs::create_dir_all(&dir)?;
    let places = nginx_places(&dir);
    scene.put(
        "behind/nginx.conf",
        &format!(
            "daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log;\n\
             events {{ worker_connections 512; }}\n\
             http {{ {places}\n  access_log off;\n  keepalive_timeout {seconds}s;\n  \
             server {{ listen {APP}; location / {{ return 200 hello; }} }}\n}}\n"
        ),
    )
}

/// So many applications at 127.0.0.1, .2 … behind nginx, each with a file that says how often it fails.
pub(crate) fn members(scene: &mut Scene, count: u64, settings: &str) -> Result<()> {
    members_with(scene, count, settings, &[], "")
}

/// The same with arguments of the applications, and more in nginx' `server { … }`.
pub(crate) fn members_with(
    scene: &mut Scene,
    count: u64,
    settings: &str,
    more: &[&str],
    server: &str,
) -> Result<()> {
    let netns = scene.server.clone();
    let mut servers = String::new();
    for number in 1..=count {
        let (address, failing) =
            (format!("127.0.0.{number}:9001"), scene.path(&format!("failing{number}")));
        scene.app_at(&netns, &address, 256, &[&["--failing", &failing][..], more].concat())?;
        servers += &format!("server {address} max_fails=0; ");
    }
    let proxied = format!("{server} location / {{ proxy_pass http://app; {settings} }}");
    scene.nginx_with(4096, &format!("upstream app {{ {servers} }}"), &proxied)
}
