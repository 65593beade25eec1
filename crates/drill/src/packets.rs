//! Faults below and at the edge of a connection: packets that a processor does not take in time, SYNs without cookies, bursts on a
//! short queue, peers who do not read, requests that cross the end of their connection.

use std::time::Duration;

use rustix::process::Signal;

use crate::error::{DrillError, Result};
use crate::fault::{Fault, of};
use crate::pause;
use crate::scene::{SERVER, Scene, run};
use crate::way::{filter, flood, floodable, with_queue};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "packets for one slow processor",
        rules: &[&["softirq.backlog_drop"]],
        parameters: &[of("packets", 3000, 8000, "packets of a burst, one a second")],
        tools: &["nft", "taskset"],
        set: |scene| {
            if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
                return Err(DrillError::new("cannot steer packets: there is one processor only"));
            }
            scene.app(64, &[])?;
            steer(scene)
        },
        inject: |scene| {
            let packets = scene.draw("packets").to_string();
            let (netns, program) = (scene.client.clone(), scene.program());
            let (address, mut args) = (format!("{SERVER}:9"), vec!["-c", "0", &program]);
            args.extend(["drill", "flood", "--datagrams", "--address", &address]);
            args.extend(["--per-second", &packets, "--burst", &packets]);
            scene.start("flood", &netns, "taskset", &args)?;
            Ok(None)
        },
    },
    Fault {
        name: "SYN flood without cookies",
        rules: &[&["tcp.syncookies_off", "tcp.syn_flood"]],
        parameters: &[
            of("rate", 400, 3000, "SYNs a second with forged senders"),
            of("backlog", 64, 256, "accept queue of what is flooded, connections"),
        ],
        tools: &["nginx"],
        set: |scene| {
            scene.sysctl("net.ipv4.tcp_syncookies", "0")?;
            floodable(scene)
        },
        inject: |scene| {
            flood(scene, 8080, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "honest burst on a short queue",
        rules: &[&["tcp.listen_overflow", "tcp.syn_flood_false"]],
        parameters: &[
            of("backlog", 8, 32, "accept queue of what is asked, connections"),
            of("clients", 200, 400, "clients that connect at once"),
            of("millis", 300, 900, "milliseconds in which nothing is accepted"),
        ],
        tools: &["nginx"],
        set: with_queue,
        inject: |scene| {
            let (clients, millis) = (scene.draw("clients"), scene.draw("millis"));
            scene.signal_children("nginx", Signal::STOP)?;
            let once = ["--pause-millis", "60000", "--patience-millis", "9000"];
            scene.visitors_at(&format!("{SERVER}:8080"), clients, &once)?;
            pause(Duration::from_millis(millis));
            scene.signal_children("nginx", Signal::CONT)?;
            Ok(None)
        },
    },
    Fault {
        name: "requests cross the end of their connection",
        rules: &[&["proxy.keepalive_race", "proxy.keepalive_mismatch"]],
        parameters: &[
            of(
                "millis",
                800,
                2500,
                "milliseconds after which an idle connection is used again, and closed",
            ),
            of("connections", 60, 120, "connections of the pool"),
        ],
        tools: &["nginx"],
        set: |scene| {
            scene.config =
                format!("[wire]\ninterfaces = [\"{}/veth\"]\nports = [80]\n", scene.server);
            scene.nginx(&format!("{KEPT} location / {{ return 200 hello; }}"))?;
            let (millis, connections) =
                (scene.draw("millis").to_string(), scene.draw("connections"));
            scene.visitors(connections, &["--reuse-millis", &millis])
        },
        inject: |scene| {
            let text = std::fs::read_to_string(scene.file("nginx.conf"))?;
            let shorter = format!("keepalive_timeout {}ms;", scene.drawn("millis"));
            scene.put("nginx.conf", &text.replace(KEPT, &shorter))?;
            scene.signal("nginx", Signal::HUP)?;
            Ok(None)
        },
    },
    Fault {
        name: "receiver reads too slowly",
        rules: &[&["tcp.rcvbuf_pressure"]],
        parameters: &[
            of("millis", 50, 400, "milliseconds that the receiver rests after 64 KiB"),
            of("stuck", 0, 1, "1 when it reads nothing any more"),
            of("peers", 3, 8, "peers who send"),
        ],
        tools: &["perl", "bash"],
        set: |scene| {
            let (netns, millis) = (scene.server.clone(), scene.draw("millis").to_string());
            let stuck = scene.draw("stuck").to_string();
            // A process for each connection: a buffer that does not grow, and rests.
            let program = "use Socket; socket(L, PF_INET, SOCK_STREAM, 0); setsockopt(L, SOL_SOCKET, SO_REUSEADDR, 1); \
                 setsockopt(L, SOL_SOCKET, SO_RCVBUF, 65536); bind(L, sockaddr_in(7000, INADDR_ANY)); listen(L, 64); \
                 while (accept(C, L)) { next if fork; sleep if $ARGV[1]; while (sysread(C, $b, 65536)) { select(undef, undef, undef, $ARGV[0] / 1000) } exit }";
            scene.start("receiver", &netns, "perl", &["-e", program, &millis, &stuck])
        },
        inject: |scene| {
            let (netns, send) =
                (scene.client.clone(), format!("cat /dev/zero > /dev/tcp/{SERVER}/7000"));
            for _ in 0..scene.draw("peers") {
                scene.start("sender", &netns, "bash", &["-c", &send])?;
            }
            Ok(None)
        },
    },
];

/// How long nginx keeps idle connections at first.
const KEPT: &str = "keepalive_timeout 75s;";

/// What comes over the cable is handed to the second processor, whose firewall takes long for each datagram.
fn steer(scene: &Scene) -> Result<()> {
    const RULES: usize = 12_000;
    let netns = scene.server.clone();
    let script = "echo 2 > /sys/class/net/veth/queues/rx-0/rps_cpus";
    run("ip", &["netns", "exec", &netns, "sh", "-c", script])?;
    let slow = "  udp sport 1 counter\n".repeat(RULES);
    filter(scene, &netns, &format!("meta l4proto != udp accept\n{slow}  drop"))
}
