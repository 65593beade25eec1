//! Faults in which a limit is too low for the load: of the kernel, a control group, nginx, Redis.

use crate::cgroups::Controller;
use crate::command::run;
use crate::error::Result;
use crate::fault::{Fault, parameter};
use crate::testbed::{APP, NginxConfig, PROXIED, TestBed};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "local ports used up",
        rules: &[&["tcp.ephemeral_exhausted"]],
        parameters: &[parameter("ports", 60..=150, "ports")],
        tools: &["nginx"],
        set: |testbed| {
            testbed.proxied_app(1024)?;
            testbed.visitors(5, &[])
        },
        inject: |testbed| {
            let ports = testbed.draw("ports");
            let range = format!("40000 {}", 40_000 + ports - 1);
            testbed.sysctl("net.ipv4.ip_local_port_range", &range)?;
            testbed.knocks(ports + 20, &["--hold"])?;
            Ok(None)
        },
    },
    Fault {
        name: "local ports wait for their end",
        rules: &[&["tcp.ephemeral_exhausted"]],
        parameters: &[
            parameter("ports", 60..=300, "ports"),
            parameter("visitors", 10..=30, "visitors"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            // Cross the veth pair: on the loopback the kernel reuses such ports after a second.
            crate::faults::network::far_with(testbed, "", &["--last"])?;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &["--pause-millis", "60"])
        },
        inject: |testbed| {
            let ports = testbed.draw("ports");
            let range = format!("40000 {}", 40_000 + ports - 1);
            testbed.sysctl("net.ipv4.ip_local_port_range", &range)?;
            Ok(None)
        },
    },
    Fault {
        name: "TIME_WAIT buckets full",
        rules: &[&["tcp.tw_overflow"]],
        parameters: &[parameter("buckets", 8..=64, "buckets")],
        tools: &["nginx"],
        set: |testbed| {
            testbed.proxied_app(256)?;
            testbed.visitors(20, &[])
        },
        inject: |testbed| {
            let buckets = testbed.draw("buckets");
            testbed.sysctl("net.ipv4.tcp_max_tw_buckets", buckets)?;
            Ok(None)
        },
    },
    Fault {
        name: "worker connections used up",
        rules: &[&["proxy.worker_connections"]],
        parameters: &[
            parameter("connections", 24..=64, "connections of the worker"),
            parameter("visitors", 90..=160, "visitors"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let connections = testbed.draw("connections");
            // Keep connections busy: nginx closes idle ones to make room.
            testbed.put("delay", "200")?;
            testbed.app(256, &[])?;
            testbed.nginx_with(&NginxConfig {
                connections,
                server: PROXIED,
                ..NginxConfig::default()
            })?;
            testbed.visitors(4, &[])
        },
        inject: |testbed| {
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "processor quota",
        rules: &[&["cpu.cgroup_throttled"]],
        parameters: &[parameter("percent", 4..=9, "percent of a CPU")],
        tools: &["nginx"],
        set: |testbed| {
            testbed.app(256, &["--spin"])?;
            // Use the same path for every controller, as container engines do.
            for controller in [Controller::Memory, Controller::CpuAcct, Controller::Cpu] {
                testbed.group("app", controller)?;
            }
            testbed.nginx(&format!("location / {{ proxy_pass http://{APP}; }}"))?;
            testbed.visitors(6, &["--pause-millis", "60"])
        },
        inject: |testbed| {
            let percent = testbed.draw("percent");
            let quota = percent * 1000;
            let old = [("cpu.cfs_quota_us", quota.to_string())];
            let new = [("cpu.max", format!("{quota} 100000"))];
            testbed.limit(Controller::Cpu, &old, &new)?;
            Ok(None)
        },
    },
    Fault {
        name: "processors taken by other work",
        rules: &[&["cpu.saturated"]],
        parameters: &[
            parameter("hogs", 10..=20, "busy processes per CPU"),
            parameter("visitors", 6..=10, "visitors"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let visitors = testbed.draw("visitors");
            testbed.app(256, &["--spin"])?;
            testbed.nginx(&format!("location / {{ proxy_pass http://{APP}; }}"))?;
            testbed.baseline_seconds = 20;
            testbed.visitors(visitors, &["--pause-millis", "60"])
        },
        inject: |testbed| {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let hogs = testbed.draw("hogs").saturating_mul(processors as u64);
            let netns = testbed.server.clone();
            (0..hogs).try_for_each(|_| {
                testbed.start("hog", &netns, "sh", &["-c", "while :; do :; done"])
            })?;
            Ok(None)
        },
    },
    Fault {
        name: "out of memory in a control group",
        rules: &[&["mem.oom_kill"]],
        parameters: &[parameter("mebibytes", 24..=96, "MiB")],
        tools: &["nginx", "bash"],
        set: |testbed| {
            testbed.proxied_app(256)?;
            testbed.visitors(4, &[])
        },
        inject: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            hog(testbed, mebibytes)?;
            Ok(None)
        },
    },
    Fault {
        name: "Redis throws keys out",
        rules: &[&["redis.evictions"]],
        parameters: &[
            parameter("mebibytes", 2..=6, "MiB"),
            parameter("bytes", 200..=2000, "bytes of a value"),
        ],
        tools: &["redis-server", "redis-cli"],
        set: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            crate::faults::databases::redis(testbed, &format!("{mebibytes}mb"))
        },
        inject: |testbed| {
            let bytes = testbed.draw("bytes");
            let script = format!(
                "for i = 1, 40000 do redis.call('setex', KEYS[1] .. i, 1000, string.rep('x', {bytes})) end"
            );
            run("redis-cli", &["-s", &testbed.path("redis"), "eval", &script, "1", "k"])?;
            Ok(None)
        },
    },
];

/// Starts a process that needs more memory than its control group may use.
pub(crate) fn hog(testbed: &mut TestBed, mebibytes: u64) -> Result<()> {
    let bytes = (mebibytes << 20).to_string();
    let old = [("memory.limit_in_bytes", bytes.clone())];
    let new = [("memory.max", bytes)];
    // `tail` buffers input without a line feed until the end of file.
    let netns = testbed.server.clone();
    testbed.start("hog", &netns, "bash", &["-c", "sleep 1; exec tail /dev/zero"])?;
    testbed.group("hog", Controller::Memory)?;
    testbed.limit(Controller::Memory, &old, &new)
}
