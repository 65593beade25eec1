//! Cascades: one thing is wrong deep down and every tier above it suffers. Only the deepest may page.
//!
//! ```text
//!   visitors ── nginx :80 ── application :9001 ── store :9101 ── journal on a disk of its own
//! ```

use rustix::process::Signal;

use crate::fault::{Fault, of};
use crate::scene::{PROXIED, SERVER, run};
use crate::traffic::FORGED;
use crate::way::{far, filter, flood};

/// Where the store of a scene listens.
const STORE: &str = "127.0.0.1:9101";

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "cascade: disk, store, application, accept queue",
        rules: &[&["disk.slow", "disk.stuck", "disk.member_outlier"]],
        parameters: &[
            of("operations", 4, 14, "operations a second that the disk still does"),
            of("visitors", 12, 30, "visitors"),
        ],
        tools: &["nginx", "mkfs.ext4", "mount", "losetup"],
        set: |scene| {
            let disk = scene.direct_disk("disk", 64)?;
            let journal = disk.join("journal").display().to_string();
            let netns = scene.server.clone();
            scene.named_app("store", &netns, STORE, 64, &["--journal", &journal])?;
            let workers = ["--store", STORE, "--workers", "8"];
            scene.app(16, &workers)?;
            scene.nginx(PROXIED)?;
            // What it did before is what it is compared with.
            scene.calm_seconds = 45;
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &["--pause-millis", "100", "--patience-millis", "20000"])
        },
        inject: |scene| {
            let operations = scene.draw("operations");
            scene.throttle_disk("store", operations)?;
            Ok(None)
        },
    },
    Fault {
        name: "cascade: quota of the store, application, visitors",
        rules: &[&["cpu.cgroup_throttled"]],
        parameters: &[
            of("percent", 3, 6, "per cent of a processor"),
            of("visitors", 8, 20, "visitors"),
        ],
        tools: &["nginx"],
        set: |scene| {
            let netns = scene.server.clone();
            scene.named_app("store", &netns, STORE, 64, &["--spin"])?;
            for controller in ["memory", "cpuacct", "cpu"] {
                scene.group("store", controller)?;
            }
            scene.app(64, &["--store", STORE])?;
            scene.nginx(PROXIED)?;
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &["--pause-millis", "150"])
        },
        inject: |scene| {
            let quota = scene.draw("percent") * 1000;
            let old = [("cpu.cfs_quota_us", quota.to_string())];
            let new = [("cpu.max", format!("{quota} 100000"))];
            scene.limit("cpu", &old, &new)?;
            Ok(None)
        },
    },
    Fault {
        name: "cascade: descriptors, accept queue, proxy",
        rules: &[&["app.fd_limit"]],
        parameters: &[of("files", 24, 60, "descriptors"), of("visitors", 90, 150, "visitors")],
        tools: &["nginx"],
        set: |scene| {
            let files = scene.draw("files").to_string();
            scene.app(16, &["--files", &files])?;
            scene.nginx(&format!("{PROXIED} proxy_connect_timeout 5s;"))?;
            scene.visitors(4, &[])
        },
        inject: |scene| {
            let visitors = scene.draw("visitors");
            scene.put("delay", "2500")?;
            scene.visitors(visitors, &["--patience-millis", "15000"])?;
            Ok(None)
        },
    },
    Fault {
        name: "cascade: application stopped, proxy out of connections",
        rules: &[&["tcp.listen_overflow"]],
        parameters: &[
            of("backlog", 8, 24, "accept queue of the application, connections"),
            of("connections", 80, 140, "connections of the proxy's worker"),
        ],
        tools: &["nginx"],
        set: |scene| {
            let (backlog, connections) = (scene.draw("backlog"), scene.draw("connections"));
            scene.app(backlog, &[])?;
            scene.nginx_with(connections, "", PROXIED)?;
            scene.visitors(8, &[])
        },
        inject: |scene| {
            scene.signal("app", Signal::STOP)?;
            scene.visitors(120, &["--patience-millis", "15000"])?;
            Ok(None)
        },
    },
    Fault {
        name: "cascade: connection tracking, connecting to the application",
        rules: &[&["conntrack.full"]],
        parameters: &[of("rate", 60_000, 90_000, "connections a second that are only begun")],
        tools: &["nft", "nginx"],
        set: |scene| {
            crate::way::check_conntrack()?;
            far(scene, "proxy_connect_timeout 2s;")?;
            crate::way::forgeable(scene)?;
            let netns = scene.server.clone();
            filter(scene, &netns, "ct state invalid counter")?;
            scene.inner_visitors(12)
        },
        inject: |scene| {
            flood(scene, 7, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "pair: SYN flood, application slow",
        rules: &[&["tcp.syn_flood"], &["app.slow"]],
        parameters: &[
            of("rate", 400, 2000, "SYNs a second with forged senders"),
            of("millis", 600, 1800, "milliseconds"),
        ],
        tools: &["nginx"],
        set: |scene| {
            scene.app(256, &[])?;
            scene.nginx(&format!("listen {SERVER}:8080 backlog=128; {PROXIED}"))?;
            run("ip", &["-n", &scene.server, "route", "add", FORGED, "via", crate::scene::CLIENT])?;
            crate::way::forgeable(scene)?;
            scene.visitors_at(&format!("{SERVER}:8080"), 25, &[])
        },
        inject: |scene| {
            let millis = scene.draw("millis");
            scene.put("delay", &millis.to_string())?;
            flood(scene, 8080, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "pair: one of four fails, visitors read slowly",
        rules: &[&["proxy.masked_errors", "app.error_outlier"], &["client.slow_reader"]],
        parameters: &[
            of("percent", 25, 80, "per cent of one member's answers that fail"),
            of("visitors", 20, 40, "visitors who read slowly"),
        ],
        tools: &["nginx"],
        set: |scene| {
            let buffers = "proxy_buffers 64 16k; proxy_buffer_size 16k;";
            let settings = format!("proxy_next_upstream error timeout http_500; {buffers}");
            crate::hops::members_with(
                scene,
                4,
                &settings,
                &["--bytes", "400000"],
                &format!("listen {SERVER}:8080 sndbuf=16k;"),
            )?;
            scene.visitors_at(&format!("{SERVER}:8080"), 12, &["--pause-millis", "25"])
        },
        inject: |scene| {
            let (percent, visitors) = (scene.draw("percent"), scene.draw("visitors"));
            scene.put("failing2", &percent.to_string())?;
            let manner = ["--slow-millis", "100", "--patience-millis", "20000"];
            scene.visitors_at(&format!("{SERVER}:8080"), visitors, &manner)?;
            Ok(None)
        },
    },
];

/// What is no fault: work that a host has to bear, now and then.
pub(crate) const NONE: &[Fault] = &[
    Fault {
        name: "none: healthy and busy",
        rules: &[],
        parameters: &[of("visitors", 40, 80, "visitors")],
        tools: &["nginx"],
        set: |scene| {
            let visitors = scene.draw("visitors");
            scene.usual(1024, visitors)
        },
        inject: |_| Ok(None),
    },
    Fault {
        name: "none: deploy",
        rules: &[],
        parameters: &[of("visitors", 8, 25, "visitors")],
        tools: &["nginx"],
        set: |scene| {
            let netns = scene.server.clone();
            let mut servers = String::new();
            for (number, name) in [(1, "old"), (2, "app"), (3, "app")] {
                let address = format!("127.0.0.{number}:9001");
                scene.named_app(name, &netns, &address, 256, &[])?;
                servers += &format!("server {address}; ");
            }
            let place = "location / { proxy_pass http://app; }";
            scene.nginx_with(4096, &format!("upstream app {{ {servers} }}"), place)?;
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &[])
        },
        inject: |scene| {
            // Out of the pool first, then a new one in its place, then back.
            let text = std::fs::read_to_string(scene.file("nginx.conf"))?;
            scene.put("nginx.conf", &text.replace("server 127.0.0.1:9001; ", ""))?;
            scene.signal("nginx", Signal::HUP)?;
            crate::pause(std::time::Duration::from_millis(1500));
            scene.signal("old", Signal::TERM)?;
            let netns = scene.server.clone();
            scene.named_app("new", &netns, "127.0.0.1:9001", 256, &[])?;
            crate::pause(std::time::Duration::from_millis(500));
            scene.put("nginx.conf", &text)?;
            scene.signal("nginx", Signal::HUP)?;
            Ok(None)
        },
    },
    Fault {
        name: "none: backup",
        rules: &[],
        parameters: &[of("mebibytes", 24, 48, "MiB that are copied again and again")],
        tools: &["nginx", "mkfs.ext4", "mount", "losetup", "bash"],
        set: |scene| {
            let disk = scene.direct_disk("disk", 192)?;
            let journal = disk.join("journal").display().to_string();
            scene.app(256, &["--journal", &journal])?;
            scene.nginx(PROXIED)?;
            scene.visitors(8, &["--pause-millis", "100"])
        },
        inject: |scene| {
            let (mebibytes, disk) = (scene.draw("mebibytes"), scene.path("disk"));
            let script = format!(
                "for n in 1 2 3 4 5 6; do nice -n 10 dd if=/dev/zero of={disk}/copy bs=1M count={mebibytes} conv=fsync; sleep 1; done"
            );
            let netns = scene.server.clone();
            scene.start("backup", &netns, "bash", &["-c", &script])?;
            Ok(None)
        },
    },
    Fault {
        name: "none: crawl",
        rules: &[],
        parameters: &[of("visitors", 2, 6, "connections of the crawler")],
        tools: &["nginx"],
        set: |scene| scene.usual(256, 6),
        inject: |scene| {
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &["--pause-millis", "2", "--pages", "5000"])?;
            Ok(None)
        },
    },
];
