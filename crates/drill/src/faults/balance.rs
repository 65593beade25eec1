//! Faults between a load balancer and its members: uneven load, flapping, queueing.

use rustix::process::Signal;

use crate::error::Result;
use crate::fault::{Fault, parameter};
use crate::faults::proxy::members;
use crate::testbed::{APP, TestBed};

/// Listening address of HAProxy.
const FRONT: &str = "198.18.7.1:8081";
/// Address of the syslog receiver.
const SYSLOG: &str = "127.0.0.1:5514";
/// Path of HAProxy's log in its own mount namespace.
const LOG: &str = "/var/log/haproxy.log";

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "one member gets all",
        rules: &[&["lb.uneven"]],
        parameters: &[
            parameter("members", 3..=6, "members of the pool"),
            parameter("visitors", 25..=50, "visitors"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let count = testbed.draw("members");
            members(testbed, count, "")?;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &[])
        },
        inject: |testbed| {
            // All visitors share one address.
            let text = std::fs::read_to_string(testbed.file("nginx.conf"))?;
            testbed.put("nginx.conf", text.replace("upstream app {", "upstream app { ip_hash;"))?;
            testbed.signal("nginx", Signal::HUP)?;
            Ok(None)
        },
    },
    Fault {
        name: "queue at the balancer",
        rules: &[&["proxy.haproxy_queue"]],
        parameters: &[
            parameter("connections", 2..=4, "maxconn of the server"),
            parameter("millis", 120..=220, "milliseconds of a response"),
        ],
        tools: &["haproxy"],
        set: |testbed| {
            let connections = testbed.draw("connections");
            testbed.app(256, &[])?;
            let server = format!("server app1 {APP} maxconn {connections}");
            haproxy(testbed, &server)?;
            testbed.visitors_at(FRONT, 24, &["--pause-millis", "150"])
        },
        inject: |testbed| {
            let millis = testbed.draw("millis");
            testbed.put("delay", millis)?;
            Ok(None)
        },
    },
    Fault {
        name: "member goes in and out",
        rules: &[&["lb.health_flapping"]],
        parameters: &[parameter("seconds", 2..=4, "seconds between healthy and unhealthy")],
        tools: &["haproxy", "bash"],
        set: |testbed| {
            let (failing, netns) = (testbed.path("failing1"), testbed.server.clone());
            testbed.app_at(
                &netns,
                "127.0.0.1:9001",
                256,
                &["--failing-health", "--failing", &failing],
            )?;
            testbed.app_at(&netns, "127.0.0.2:9001", 256, &[])?;
            let check = "check inter 300ms rise 2 fall 2";
            haproxy(
                testbed,
                &format!(
                    "option httpchk GET /health\n  server app1 127.0.0.1:9001 {check}\n  server app2 127.0.0.2:9001 {check}"
                ),
            )?;
            testbed.visitors_at(FRONT, 4, &[])
        },
        inject: |testbed| {
            let (seconds, file) = (testbed.draw("seconds"), testbed.path("failing1"));
            let script = format!(
                "while :; do echo 100 > {file}; sleep {seconds}; echo 0 > {file}; sleep {seconds}; done"
            );
            let netns = testbed.server.clone();
            testbed.start("flaps", &netns, "bash", &["-c", &script])?;
            Ok(None)
        },
    },
    Fault {
        name: "most members fail their check",
        rules: &[&["lb.too_few_healthy"]],
        parameters: &[
            parameter("members", 3..=6, "members of the pool"),
            parameter("left", 1..=2, "members that stay healthy"),
        ],
        tools: &["haproxy"],
        set: |testbed| {
            let (members, netns) = (testbed.draw("members"), testbed.server.clone());
            let mut servers = "option httpchk GET /health".to_owned();
            for number in 1..=members {
                let (address, failing) =
                    (format!("127.0.0.{number}:9001"), testbed.path(&format!("failing{number}")));
                let manner = ["--failing-health", "--failing", &failing];
                testbed.app_at(&netns, &address, 256, &manner)?;
                servers +=
                    &format!("\n  server app{number} {address} check inter 500ms rise 2 fall 2");
            }
            haproxy(testbed, &servers)?;
            testbed.visitors_at(FRONT, 8, &[])
        },
        inject: |testbed| {
            let members = testbed.drawn("members");
            // Keep less than half of the members healthy.
            let left = if members < 4 { 1 } else { testbed.draw("left") };
            (left + 1..=members)
                .try_for_each(|number| testbed.put(&format!("failing{number}"), "100"))?;
            Ok(None)
        },
    },
];

/// Starts HAProxy in front of `servers`, with a syslog receiver that writes to the path of Debian's
/// rsyslog, in a private mount namespace.
fn haproxy(testbed: &mut TestBed, servers: &str) -> Result<()> {
    let text = format!(
        "global\n  log {SYSLOG} local0\n\ndefaults\n  log global\n  mode http\n  option httplog\n  timeout connect 2s\n\
         \x20 timeout client 10s\n  timeout server 10s\n  timeout queue 5s\n\nfrontend shop\n  bind {FRONT} backlog 4096\n\
         \x20 default_backend app\n\nbackend app\n  {servers}\n"
    );
    testbed.put("haproxy.cfg", text)?;
    let (config, program) = (testbed.path("haproxy.cfg"), testbed.program());
    let script = format!(
        "mount --make-rprivate / && mount -t tmpfs -o size=16m none /var/log && : > {LOG} && \
         {{ '{program}' drill receive --address {SYSLOG} --file {LOG} & }} && exec haproxy -db -f '{config}'"
    );
    let netns = testbed.server.clone();
    testbed.start("haproxy", &netns, "sh", &["-c", &script])
}
