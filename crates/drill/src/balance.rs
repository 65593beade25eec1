//! Faults between a balancer and its members: uneven, in and out, a queue.

use rustix::process::Signal;

use crate::error::Result;
use crate::fault::{Fault, of};
use crate::hops::members;
use crate::scene::{APP, Scene};

/// Where HAProxy listens, and where its log goes.
const FRONT: &str = "198.18.7.1:8081";
const SYSLOG: &str = "127.0.0.1:5514";
/// Where weir looks for HAProxy's log; it is a file of HAProxy's own mount namespace.
const LOG: &str = "/var/log/haproxy.log";

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "one member gets all",
        rules: &[&["lb.uneven"]],
        parameters: &[
            of("members", 3, 6, "members of the pool"),
            of("visitors", 25, 50, "visitors"),
        ],
        tools: &["nginx"],
        set: |scene| {
            let count = scene.draw("members");
            members(scene, count, "")?;
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &[])
        },
        inject: |scene| {
            // All come through one address.
            let text = std::fs::read_to_string(scene.file("nginx.conf"))?;
            scene.put("nginx.conf", &text.replace("upstream app {", "upstream app { ip_hash;"))?;
            scene.signal("nginx", Signal::HUP)?;
            Ok(None)
        },
    },
    Fault {
        name: "queue at the balancer",
        rules: &[&["proxy.haproxy_queue"]],
        parameters: &[
            of("connections", 2, 4, "connections that a server is given at a time"),
            of("millis", 120, 220, "milliseconds of an answer"),
        ],
        tools: &["haproxy"],
        set: |scene| {
            let connections = scene.draw("connections");
            scene.app(256, &[])?;
            let server = format!("server app1 {APP} maxconn {connections}");
            haproxy(scene, &server)?;
            scene.visitors_at(FRONT, 24, &["--pause-millis", "150"])
        },
        inject: |scene| {
            let millis = scene.draw("millis");
            scene.put("delay", &millis.to_string())?;
            Ok(None)
        },
    },
    Fault {
        name: "member goes in and out",
        rules: &[&["lb.health_flapping"]],
        parameters: &[of("seconds", 2, 4, "seconds between well and ill")],
        tools: &["haproxy", "bash"],
        set: |scene| {
            let (failing, netns) = (scene.path("failing1"), scene.server.clone());
            scene.app_at(
                &netns,
                "127.0.0.1:9001",
                256,
                &["--failing-health", "--failing", &failing],
            )?;
            scene.app_at(&netns, "127.0.0.2:9001", 256, &[])?;
            let check = "check inter 300ms rise 2 fall 2";
            haproxy(
                scene,
                &format!(
                    "option httpchk GET /health\n  server app1 127.0.0.1:9001 {check}\n  server app2 127.0.0.2:9001 {check}"
                ),
            )?;
            scene.visitors_at(FRONT, 4, &[])
        },
        inject: |scene| {
            let (seconds, file) = (scene.draw("seconds"), scene.path("failing1"));
            let script = format!(
                "while :; do echo 100 > {file}; sleep {seconds}; echo 0 > {file}; sleep {seconds}; done"
            );
            let netns = scene.server.clone();
            scene.start("flaps", &netns, "bash", &["-c", &script])?;
            Ok(None)
        },
    },
    Fault {
        name: "most members fail their check",
        rules: &[&["lb.too_few_healthy"]],
        parameters: &[
            of("members", 3, 6, "members of the pool"),
            of("left", 1, 2, "members that are well"),
        ],
        tools: &["haproxy"],
        set: |scene| {
            let (members, netns) = (scene.draw("members"), scene.server.clone());
            let mut servers = "option httpchk GET /health".to_owned();
            for number in 1..=members {
                let (address, failing) =
                    (format!("127.0.0.{number}:9001"), scene.path(&format!("failing{number}")));
                let manner = ["--failing-health", "--failing", &failing];
                scene.app_at(&netns, &address, 256, &manner)?;
                servers +=
                    &format!("\n  server app{number} {address} check inter 500ms rise 2 fall 2");
            }
            haproxy(scene, &servers)?;
            scene.visitors_at(FRONT, 8, &[])
        },
        inject: |scene| {
            let members = scene.drawn("members");
            // Of three, one that is left is a third; of two of six less than half are.
            let left = if members < 4 { 1 } else { scene.draw("left") };
            (left + 1..=members)
                .try_for_each(|number| scene.put(&format!("failing{number}"), "100"))?;
            Ok(None)
        },
    },
];

/// HAProxy before servers, and what keeps its log where Debian's rsyslog would, in a directory that only they see.
fn haproxy(scene: &mut Scene, servers: &str) -> Result<()> {
    let text = format!(
        "global\n  log {SYSLOG} local0\n\ndefaults\n  log global\n  mode http\n  option httplog\n  timeout connect 2s\n\
         \x20 timeout client 10s\n  timeout server 10s\n  timeout queue 5s\n\nfrontend shop\n  bind {FRONT} backlog 4096\n\
         \x20 default_backend app\n\nbackend app\n  {servers}\n"
    );
    scene.put("haproxy.cfg", &text)?;
    let (config, program) = (scene.path("haproxy.cfg"), scene.program());
    let script = format!(
        "mount --make-rprivate / && mount -t tmpfs -o size=16m none /var/log && : > {LOG} && \
         {{ '{program}' drill receive --address {SYSLOG} --file {LOG} & }} && exec haproxy -db -f '{config}'"
    );
    let netns = scene.server.clone();
    scene.start("haproxy", &netns, "sh", &["-c", &script])
}
