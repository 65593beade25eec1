//! Cascades: one root cause affects every tier above it. Only the root cause may page.
//!
//! ```text
//!   visitors ── nginx :80 ── application :9001 ── store :9101 ── journal on a separate disk
//! ```

use rustix::process::Signal;

use crate::cgroups::Controller;
use crate::command::run;
use crate::fault::{Fault, parameter};
use crate::faults::network::{far, filter, flood};
use crate::testbed::{CLIENT, NginxConfig, PROXIED, SERVER};
use crate::traffic::FORGED;

/// Address of the testbed's store.
const STORE: &str = "127.0.0.1:9101";

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "cascade: disk, store, application, accept queue",
        rules: &[&["disk.slow", "disk.stuck", "disk.member_outlier"]],
        parameters: &[
            parameter("operations", 4..=14, "operations per second left to the disk"),
            parameter("visitors", 12..=30, "visitors"),
        ],
        tools: &["nginx", "mkfs.ext4", "mount", "losetup"],
        set: |testbed| {
            let disk = testbed.direct_disk("disk", 64)?;
            let journal = disk.join("journal").display().to_string();
            let netns = testbed.server.clone();
            testbed.named_app("store", &netns, STORE, 64, &["--journal", &journal])?;
            let workers = ["--store", STORE, "--workers", "8"];
            testbed.app(16, &workers)?;
            testbed.nginx(PROXIED)?;
            // Outlier rules need a baseline.
            testbed.baseline_seconds = 45;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &["--pause-millis", "100", "--patience-millis", "20000"])
        },
        inject: |testbed| {
            let operations = testbed.draw("operations");
            testbed.throttle_disk("store", operations)?;
            Ok(None)
        },
    },
    Fault {
        name: "cascade: quota of the store, application, visitors",
        rules: &[&["cpu.cgroup_throttled"]],
        parameters: &[
            parameter("percent", 3..=6, "percent of a CPU"),
            parameter("visitors", 8..=20, "visitors"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let netns = testbed.server.clone();
            testbed.named_app("store", &netns, STORE, 64, &["--spin"])?;
            for controller in [Controller::Memory, Controller::CpuAcct, Controller::Cpu] {
                testbed.group("store", controller)?;
            }
            testbed.app(64, &["--store", STORE])?;
            testbed.nginx(PROXIED)?;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &["--pause-millis", "150"])
        },
        inject: |testbed| {
            let quota = testbed.draw("percent") * 1000;
            let old = [("cpu.cfs_quota_us", quota.to_string())];
            let new = [("cpu.max", format!("{quota} 100000"))];
            testbed.limit(Controller::Cpu, &old, &new)?;
            Ok(None)
        },
    },
    Fault {
        name: "cascade: descriptors, accept queue, proxy",
        rules: &[&["app.fd_limit"]],
        parameters: &[
            parameter("files", 24..=60, "descriptors"),
            parameter("visitors", 90..=150, "visitors"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let files = testbed.draw("files").to_string();
            testbed.app(16, &["--files", &files])?;
            testbed.nginx(&format!("{PROXIED} proxy_connect_timeout 5s;"))?;
            testbed.visitors(4, &[])
        },
        inject: |testbed| {
            let visitors = testbed.draw("visitors");
            testbed.put("delay", "2500")?;
            testbed.visitors(visitors, &["--patience-millis", "15000"])?;
            Ok(None)
        },
    },
    Fault {
        name: "cascade: application stopped, proxy out of connections",
        rules: &[&["tcp.listen_overflow"]],
        parameters: &[
            parameter("backlog", 8..=24, "accept queue of the application, connections"),
            parameter("connections", 80..=140, "connections of the proxy's worker"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let (backlog, connections) = (testbed.draw("backlog"), testbed.draw("connections"));
            testbed.app(backlog, &[])?;
            testbed.nginx_with(&NginxConfig {
                connections,
                server: PROXIED,
                ..NginxConfig::default()
            })?;
            testbed.visitors(8, &[])
        },
        inject: |testbed| {
            testbed.signal("app", Signal::STOP)?;
            testbed.visitors(120, &["--patience-millis", "15000"])?;
            Ok(None)
        },
    },
    Fault {
        name: "cascade: connection tracking, connecting to the application",
        rules: &[&["conntrack.full"]],
        parameters: &[parameter("rate", 60_000..=90_000, "half-open connections per second")],
        tools: &["nft", "nginx"],
        set: |testbed| {
            crate::faults::network::check_conntrack()?;
            far(testbed, "proxy_connect_timeout 2s;")?;
            crate::faults::network::forgeable(testbed)?;
            let netns = testbed.server.clone();
            filter(testbed, &netns, "ct state invalid counter")?;
            testbed.inner_visitors(12)
        },
        inject: |testbed| {
            flood(testbed, 7, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "pair: SYN flood, application slow",
        rules: &[&["tcp.syn_flood"], &["app.slow"]],
        parameters: &[
            parameter("rate", 400..=2000, "SYNs per second with forged senders"),
            parameter("millis", 600..=1800, "milliseconds"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            testbed.app(256, &[])?;
            testbed.nginx(&format!("listen {SERVER}:8080 backlog=128; {PROXIED}"))?;
            run("ip", &["-n", &testbed.server, "route", "add", FORGED, "via", CLIENT])?;
            crate::faults::network::forgeable(testbed)?;
            testbed.visitors_at(&format!("{SERVER}:8080"), 25, &[])
        },
        inject: |testbed| {
            let millis = testbed.draw("millis");
            testbed.put("delay", millis)?;
            flood(testbed, 8080, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "pair: one of four fails, visitors read slowly",
        rules: &[&["proxy.masked_errors", "app.error_outlier"], &["client.slow_reader"]],
        parameters: &[
            parameter("percent", 25..=80, "percent of one member's responses that fail"),
            parameter("visitors", 20..=40, "visitors who read slowly"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let buffers = "proxy_buffers 64 16k; proxy_buffer_size 16k;";
            let settings = format!("proxy_next_upstream error timeout http_500; {buffers}");
            crate::faults::proxy::members_with(
                testbed,
                4,
                &settings,
                &["--bytes", "400000"],
                &format!("listen {SERVER}:8080 sndbuf=16k;"),
            )?;
            testbed.visitors_at(&format!("{SERVER}:8080"), 12, &["--pause-millis", "25"])
        },
        inject: |testbed| {
            let (percent, visitors) = (testbed.draw("percent"), testbed.draw("visitors"));
            testbed.put("failing2", percent)?;
            let manner = ["--slow-millis", "100", "--patience-millis", "20000"];
            testbed.visitors_at(&format!("{SERVER}:8080"), visitors, &manner)?;
            Ok(None)
        },
    },
];

/// Scenarios without a fault: load that a host must handle now and then.
pub(crate) const NO_FAULTS: &[Fault] = &[
    Fault {
        name: "none: healthy and busy",
        rules: &[],
        parameters: &[parameter("visitors", 40..=80, "visitors")],
        tools: &["nginx"],
        set: |testbed| {
            let visitors = testbed.draw("visitors");
            testbed.proxied_app(1024)?;
            testbed.visitors(visitors, &[])
        },
        inject: |_| Ok(None),
    },
    Fault {
        name: "none: deploy",
        rules: &[],
        parameters: &[parameter("visitors", 8..=25, "visitors")],
        tools: &["nginx"],
        set: |testbed| {
            let netns = testbed.server.clone();
            let mut servers = String::new();
            for (number, name) in [(1, "old"), (2, "app"), (3, "app")] {
                let address = format!("127.0.0.{number}:9001");
                testbed.named_app(name, &netns, &address, 256, &[])?;
                servers += &format!("server {address}; ");
            }
            let http = format!("upstream app {{ {servers} }}");
            let server = "location / { proxy_pass http://app; }";
            testbed.nginx_with(&NginxConfig { http: &http, server, ..NginxConfig::default() })?;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &[])
        },
        inject: |testbed| {
            // Remove a member from the pool, replace it, then add it back.
            let text = std::fs::read_to_string(testbed.file("nginx.conf"))?;
            testbed.put("nginx.conf", text.replace("server 127.0.0.1:9001; ", ""))?;
            testbed.signal("nginx", Signal::HUP)?;
            crate::pause(std::time::Duration::from_millis(1500));
            testbed.signal("old", Signal::TERM)?;
            let netns = testbed.server.clone();
            testbed.named_app("new", &netns, "127.0.0.1:9001", 256, &[])?;
            crate::pause(std::time::Duration::from_millis(500));
            testbed.put("nginx.conf", text)?;
            testbed.signal("nginx", Signal::HUP)?;
            Ok(None)
        },
    },
    Fault {
        name: "none: backup",
        rules: &[],
        parameters: &[parameter("mebibytes", 24..=48, "MiB per copy")],
        tools: &["nginx", "mkfs.ext4", "mount", "losetup", "bash"],
        set: |testbed| {
            let disk = testbed.direct_disk("disk", 192)?;
            let journal = disk.join("journal").display().to_string();
            testbed.app(256, &["--journal", &journal])?;
            testbed.nginx(PROXIED)?;
            testbed.visitors(8, &["--pause-millis", "100"])
        },
        inject: |testbed| {
            let (mebibytes, disk) = (testbed.draw("mebibytes"), testbed.path("disk"));
            let script = format!(
                "for n in 1 2 3 4 5 6; do nice -n 10 dd if=/dev/zero of={disk}/copy bs=1M count={mebibytes} conv=fsync; sleep 1; done"
            );
            let netns = testbed.server.clone();
            testbed.start("backup", &netns, "bash", &["-c", &script])?;
            Ok(None)
        },
    },
    Fault {
        name: "none: crawl",
        rules: &[],
        parameters: &[parameter("visitors", 2..=6, "connections of the crawler")],
        tools: &["nginx"],
        set: |testbed| {
            testbed.proxied_app(256)?;
            testbed.visitors(6, &[])
        },
        inject: |testbed| {
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &["--pause-millis", "2", "--pages", "5000"])?;
            Ok(None)
        },
    },
];
