//! Faults below and at the edge of a connection: packets that a CPU does not process in time, SYNs
//! without cookies, bursts on a short queue, peers that do not read, keep-alive races.

use std::time::Duration;

use rustix::process::Signal;

use crate::command::run;
use crate::error::{DrillError, Result};
use crate::fault::{Fault, parameter};
use crate::faults::network::{filter, flood, floodable, with_queue};
use crate::pause;
use crate::testbed::{SERVER, TestBed};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "packets for one slow processor",
        rules: &[&["softirq.backlog_drop"]],
        parameters: &[parameter("packets", 3000..=8000, "packets per burst, one burst per second")],
        tools: &["nft", "taskset"],
        set: |testbed| {
            if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
                return Err(DrillError::new("cannot steer packets: this host has only one CPU"));
            }
            testbed.app(64, &[])?;
            steer(testbed)
        },
        inject: |testbed| {
            let packets = testbed.draw("packets").to_string();
            let (netns, program) = (testbed.client.clone(), testbed.program());
            let (address, mut args) = (format!("{SERVER}:9"), vec!["-c", "0", &program]);
            args.extend(["drill", "flood", "--datagrams", "--address", &address]);
            args.extend(["--per-second", &packets, "--burst", &packets]);
            testbed.start("flood", &netns, "taskset", &args)?;
            Ok(None)
        },
    },
    Fault {
        name: "SYN flood without cookies",
        rules: &[&["tcp.syncookies_off", "tcp.syn_flood"]],
        parameters: &[
            parameter("rate", 400..=3000, "SYNs per second with forged senders"),
            parameter("backlog", 64..=256, "accept queue of the flooded port, connections"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            testbed.sysctl("net.ipv4.tcp_syncookies", 0)?;
            floodable(testbed)
        },
        inject: |testbed| {
            flood(testbed, 8080, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "honest burst on a short queue",
        rules: &[&["tcp.listen_overflow", "tcp.syn_flood_false"]],
        parameters: &[
            parameter("backlog", 8..=32, "accept queue of the proxy, connections"),
            parameter("clients", 200..=400, "clients that connect at once"),
            parameter("millis", 300..=900, "milliseconds without accepting"),
        ],
        tools: &["nginx"],
        set: with_queue,
        inject: |testbed| {
            let (clients, millis) = (testbed.draw("clients"), testbed.draw("millis"));
            testbed.signal_children("nginx", Signal::STOP)?;
            let once = ["--pause-millis", "60000", "--patience-millis", "9000"];
            testbed.visitors_at(&format!("{SERVER}:8080"), clients, &once)?;
            pause(Duration::from_millis(millis));
            testbed.signal_children("nginx", Signal::CONT)?;
            Ok(None)
        },
    },
    Fault {
        name: "requests cross the end of their connection",
        rules: &[&["proxy.keepalive_race", "proxy.keepalive_mismatch"]],
        parameters: &[
            parameter(
                "millis",
                800..=2500,
                "milliseconds until an idle connection is reused, and closed",
            ),
            parameter("connections", 60..=120, "connections of the pool"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            testbed.config =
                format!("[wire]\ninterfaces = [\"{}/veth\"]\nports = [80]\n", testbed.server);
            testbed.nginx(&format!("{KEPT} location / {{ return 200 hello; }}"))?;
            let (millis, connections) =
                (testbed.draw("millis").to_string(), testbed.draw("connections"));
            testbed.visitors(connections, &["--reuse-millis", &millis])
        },
        inject: |testbed| {
            let text = std::fs::read_to_string(testbed.file("nginx.conf"))?;
            let shorter = format!("keepalive_timeout {}ms;", testbed.drawn("millis"));
            testbed.put("nginx.conf", text.replace(KEPT, &shorter))?;
            testbed.signal("nginx", Signal::HUP)?;
            Ok(None)
        },
    },
    Fault {
        name: "receiver reads too slowly",
        rules: &[&["tcp.rcvbuf_pressure"]],
        parameters: &[
            parameter("millis", 50..=400, "milliseconds that the receiver pauses after 64 KiB"),
            parameter("stuck", 0..=1, "1 if it stops reading"),
            parameter("peers", 3..=8, "sending peers"),
        ],
        tools: &["perl", "bash"],
        set: |testbed| {
            let (netns, millis) = (testbed.server.clone(), testbed.draw("millis").to_string());
            let stuck = testbed.draw("stuck").to_string();
            // One process per connection, with a fixed buffer and pauses.
            let program = "use Socket; socket(L, PF_INET, SOCK_STREAM, 0); setsockopt(L, SOL_SOCKET, SO_REUSEADDR, 1); \
                 setsockopt(L, SOL_SOCKET, SO_RCVBUF, 65536); bind(L, sockaddr_in(7000, INADDR_ANY)); listen(L, 64); \
                 while (accept(C, L)) { next if fork; sleep if $ARGV[1]; while (sysread(C, $b, 65536)) { select(undef, undef, undef, $ARGV[0] / 1000) } exit }";
            testbed.start("receiver", &netns, "perl", &["-e", program, &millis, &stuck])
        },
        inject: |testbed| {
            let (netns, send) =
                (testbed.client.clone(), format!("cat /dev/zero > /dev/tcp/{SERVER}/7000"));
            for _ in 0..testbed.draw("peers") {
                testbed.start("sender", &netns, "bash", &["-c", &send])?;
            }
            Ok(None)
        },
    },
];

/// Keep-alive timeout of nginx before the fault.
const KEPT: &str = "keepalive_timeout 75s;";

/// Steers packets from the veth pair to the second CPU, where firewall rules make each datagram
/// expensive.
fn steer(testbed: &TestBed) -> Result<()> {
    const RULES: usize = 12_000;
    let netns = testbed.server.clone();
    let script = "echo 2 > /sys/class/net/veth/queues/rx-0/rps_cpus";
    run("ip", &["netns", "exec", &netns, "sh", "-c", script])?;
    let slow = "  udp sport 1 counter\n".repeat(RULES);
    filter(testbed, &netns, &format!("meta l4proto != udp accept\n{slow}  drop"))
}
