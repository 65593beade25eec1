//! Faults in which a limit is too low for what is asked: of the kernel, a control group, nginx, Redis.

use crate::error::Result;
use crate::fault::{Fault, of};
use crate::scene::{APP, PROXIED, Scene, run};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "local ports used up",
        rules: &[&["tcp.ephemeral_exhausted"]],
        parameters: &[of("ports", 60, 150, "ports")],
        tools: &["nginx"],
        set: |scene| scene.usual(1024, 5),
        inject: |scene| {
            let ports = scene.draw("ports");
            let range = format!("40000 {}", 40_000 + ports - 1);
            scene.sysctl("net.ipv4.ip_local_port_range", &range)?;
            scene.knocks(ports + 20, &["--hold"])?;
            Ok(None)
        },
    },
    Fault {
        name: "local ports wait for their end",
        rules: &[&["tcp.ephemeral_exhausted"]],
        parameters: &[of("ports", 60, 300, "ports"), of("visitors", 10, 30, "visitors")],
        tools: &["nginx"],
        set: |scene| {
            // Over the cable: on the loopback the kernel uses such ports again after a second.
            crate::way::far_with(scene, "", &["--last"])?;
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &["--pause-millis", "60"])
        },
        inject: |scene| {
            let ports = scene.draw("ports");
            let range = format!("40000 {}", 40_000 + ports - 1);
            scene.sysctl("net.ipv4.ip_local_port_range", &range)?;
            Ok(None)
        },
    },
    Fault {
        name: "TIME_WAIT buckets full",
        rules: &[&["tcp.tw_overflow"]],
        parameters: &[of("buckets", 8, 64, "buckets")],
        tools: &["nginx"],
        set: |scene| scene.usual(256, 20),
        inject: |scene| {
            let buckets = scene.draw("buckets");
            scene.sysctl("net.ipv4.tcp_max_tw_buckets", &buckets.to_string())?;
            Ok(None)
        },
    },
    Fault {
        name: "worker connections used up",
        rules: &[&["proxy.worker_connections"]],
        parameters: &[
            of("connections", 24, 64, "connections of the worker"),
            of("visitors", 90, 160, "visitors"),
        ],
        tools: &["nginx"],
        set: |scene| {
            let connections = scene.draw("connections");
            // Idle connections would be closed to make room: these are busy.
            scene.put("delay", "200")?;
            scene.app(256, &[])?;
            scene.nginx_with(connections, "", PROXIED)?;
            scene.visitors(4, &[])
        },
        inject: |scene| {
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "processor quota",
        rules: &[&["cpu.cgroup_throttled"]],
        parameters: &[of("percent", 4, 9, "per cent")],
        tools: &["nginx"],
        set: |scene| {
            scene.app(256, &["--spin"])?;
            // As container engines do: the same path for every controller.
            for controller in ["memory", "cpuacct", "cpu"] {
                scene.group("app", controller)?;
            }
            scene.nginx(&format!("location / {{ proxy_pass http://{APP}; }}"))?;
            scene.visitors(6, &["--pause-millis", "60"])
        },
        inject: |scene| {
            let percent = scene.draw("percent");
            let quota = percent * 1000;
            let old = [("cpu.cfs_quota_us", quota.to_string())];
            let new = [("cpu.max", format!("{quota} 100000"))];
            scene.limit("cpu", &old, &new)?;
            Ok(None)
        },
    },
    Fault {
        name: "processors taken by other work",
        rules: &[&["cpu.saturated"]],
        parameters: &[
            of("hogs", 10, 20, "processes for each processor that do nothing else"),
            of("visitors", 6, 10, "visitors"),
        ],
        tools: &["nginx"],
        set: |scene| {
            let visitors = scene.draw("visitors");
            scene.app(256, &["--spin"])?;
            scene.nginx(&format!("location / {{ proxy_pass http://{APP}; }}"))?;
            scene.calm_seconds = 20;
            scene.visitors(visitors, &["--pause-millis", "60"])
        },
        inject: |scene| {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let hogs = scene.draw("hogs").saturating_mul(processors as u64);
            let netns = scene.server.clone();
            (0..hogs).try_for_each(|_| {
                scene.start("hog", &netns, "sh", &["-c", "while :; do :; done"])
            })?;
            Ok(None)
        },
    },
    Fault {
        name: "out of memory in a control group",
        rules: &[&["mem.oom_kill"]],
        parameters: &[of("mebibytes", 24, 96, "MiB")],
        tools: &["nginx", "bash"],
        set: |scene| scene.usual(256, 4),
        inject: |scene| {
            let mebibytes = scene.draw("mebibytes");
            hog(scene, mebibytes)?;
            Ok(None)
        },
    },
    Fault {
        name: "Redis throws keys out",
        rules: &[&["redis.evictions"]],
        parameters: &[of("mebibytes", 2, 6, "MiB"), of("bytes", 200, 2000, "bytes of a value")],
        tools: &["redis-server", "redis-cli"],
        set: |scene| {
            let mebibytes = scene.draw("mebibytes");
            crate::stores::redis(scene, &format!("{mebibytes}mb"))
        },
        inject: |scene| {
            let bytes = scene.draw("bytes");
            let script = format!(
                "for i = 1, 40000 do redis.call('setex', KEYS[1] .. i, 1000, string.rep('x', {bytes})) end"
            );
            run("redis-cli", &["-s", &scene.path("redis"), "eval", &script, "1", "k"])?;
            Ok(None)
        },
    },
];

/// A process that wants more than its control group may have.
pub(crate) fn hog(scene: &mut Scene, mebibytes: u64) -> Result<()> {
    let bytes = (mebibytes << 20).to_string();
    let old = [("memory.limit_in_bytes", bytes.clone())];
    let new = [("memory.max", bytes)];
    // What has no line feed in it is held until its end.
    let netns = scene.server.clone();
    scene.start("hog", &netns, "bash", &["-c", "sleep 1; exec tail /dev/zero"])?;
    scene.group("hog", "memory")?;
    scene.limit("memory", &old, &new)
}
