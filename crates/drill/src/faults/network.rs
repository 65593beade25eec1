//! Faults of the network between hosts: packets lost, dropped by a firewall, too large, forged, or
//! not read in time.

use std::time::Duration;

use crate::command::run;
use crate::error::{DrillError, Result};
use crate::fault::{Fault, parameter};
use crate::testbed::{CLIENT, Netns, PROXIED, SERVER, TestBed};
use crate::traffic::FORGED;

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "packets lost",
        rules: &[&["wire.loss", "wire.path_loss"]],
        parameters: &[
            parameter("percent", 5..=14, "percent of the packets in both directions"),
            parameter("visitors", 12..=30, "visitors"),
        ],
        tools: &["nft", "nginx"],
        set: |testbed| {
            testbed.app(256, &["--bytes", "40000"])?;
            testbed.nginx(PROXIED)?;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &["--patience-millis", "20000"])
        },
        inject: |testbed| {
            let percent = testbed.draw("percent");
            let drop = format!("meta l4proto tcp numgen random mod 100 < {percent} drop");
            for netns in [testbed.server.clone(), testbed.client.clone()] {
                filter(testbed, &netns, &drop)?;
            }
            Ok(None)
        },
    },
    Fault {
        name: "firewall before the application",
        rules: &[&["wire.syn_blackhole"]],
        parameters: &[parameter("visitors", 8..=25, "visitors")],
        tools: &["nft", "nginx"],
        set: |testbed| {
            far(testbed, "proxy_connect_timeout 2s;")?;
            let visitors = testbed.draw("visitors");
            testbed.inner_visitors(visitors)
        },
        inject: |testbed| {
            let netns = testbed.client.clone();
            filter(testbed, &netns, "tcp dport 9001 tcp flags & (syn | ack) == syn drop")?;
            Ok(None)
        },
    },
    Fault {
        name: "large packets vanish",
        rules: &[&["wire.mtu_blackhole"]],
        parameters: &[
            parameter("length", 600..=1350, "bytes of the largest packet that passes"),
            parameter("visitors", 12..=30, "visitors"),
        ],
        tools: &["nft", "nginx"],
        set: |testbed| {
            testbed.app(256, &["--bytes", "20000"])?;
            testbed.nginx(PROXIED)?;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &[])
        },
        inject: |testbed| {
            let (length, netns) = (testbed.draw("length"), testbed.client.clone());
            filter(testbed, &netns, &format!("meta length > {length} drop"))?;
            Ok(None)
        },
    },
    Fault {
        name: "SYN flood",
        rules: &[&["tcp.syn_flood"]],
        parameters: &[
            parameter("rate", 400..=3000, "SYNs per second with forged senders"),
            parameter("backlog", 64..=256, "accept queue of the flooded port, connections"),
        ],
        tools: &["nginx"],
        set: floodable,
        inject: |testbed| {
            flood(testbed, 8080, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "requests come in bursts",
        rules: &[&["wire.jagged_arrivals"]],
        parameters: &[
            parameter("visitors", 20..=40, "visitors"),
            parameter("millis", 800..=1600, "milliseconds of each pause"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            testbed.config =
                format!("[wire]\ninterfaces = [\"{}/veth\"]\nports = [80]\n", testbed.server);
            testbed.app(256, &[])?;
            testbed.nginx(PROXIED)?;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &[])
        },
        inject: |testbed| {
            let pause =
                format!("{:.3}", Duration::from_millis(testbed.draw("millis")).as_secs_f64());
            let (netns, id) = (testbed.client.clone(), testbed.id("visitors")?.to_string());
            let bursts =
                "while kill -STOP \"$1\"; do sleep \"$2\"; kill -CONT \"$1\"; sleep 0.25; done";
            testbed.start("pauses", &netns, "sh", &["-c", bursts, "sh", &id, &pause])?;
            Ok(None)
        },
    },
    Fault {
        name: "connection tracking full",
        rules: &[&["conntrack.full"]],
        parameters: &[parameter("rate", 60_000..=90_000, "half-open connections per second")],
        tools: &["nft", "nginx"],
        set: |testbed| {
            check_conntrack()?;
            testbed.proxied_app(256)?;
            testbed.visitors(4, &[])?;
            forgeable(testbed)?;
            let netns = testbed.server.clone();
            filter(testbed, &netns, "ct state invalid counter")
        },
        inject: |testbed| {
            // A closed port without a return route: conntrack keeps each entry for two minutes.
            flood(testbed, 7, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "datagrams not read in time",
        rules: &[&["log.udp_rcvbuf"]],
        parameters: &[
            parameter("rate", 1000..=4000, "datagrams per second"),
            parameter("micros", 2000..=6000, "microseconds that the reader needs for each"),
        ],
        tools: &[],
        set: |testbed| {
            // weir samples only namespaces with a TCP listener.
            testbed.app(64, &[])?;
            let micros = testbed.draw("micros").to_string();
            let (netns, address) = (testbed.server.clone(), format!("{SERVER}:5514"));
            let args = ["receive", "--address", &address, "--pause-micros", &micros];
            testbed.start_own("reader", &netns, &args)
        },
        inject: |testbed| {
            flood(testbed, 5514, &["--datagrams"])?;
            Ok(None)
        },
    },
];

/// Starts nginx in front of an application on the client's side.
pub(crate) fn far(testbed: &mut TestBed, settings: &str) -> Result<()> {
    far_with(testbed, settings, &[])
}

/// Like [`far`], with more arguments of the application.
pub(crate) fn far_with(testbed: &mut TestBed, settings: &str, more: &[&str]) -> Result<()> {
    let netns = testbed.client.clone();
    let address = format!("{CLIENT}:9001");
    testbed.app_at(&netns, &address, 256, more)?;
    testbed.nginx(&format!("location / {{ proxy_pass http://{address}; {settings} }}"))
}

/// Adds a firewall rule for all packets that enter a namespace.
pub(crate) fn filter(testbed: &TestBed, netns: &Netns, rule: &str) -> Result<()> {
    let hook = "type filter hook input priority 0;";
    let text = format!("table inet drill {{\n chain input {{\n  {hook}\n  {rule}\n }}\n}}\n");
    testbed.put("rules.nft", text)?;
    run("ip", &["netns", "exec", netns, "nft", "-f", &testbed.path("rules.nft")])
}

/// Starts an application behind nginx, whose accept queue has the length of the parameter
/// `backlog`.
pub(crate) fn with_queue(testbed: &mut TestBed) -> Result<()> {
    let backlog = testbed.draw("backlog");
    testbed.app(256, &[])?;
    testbed.nginx(&format!("listen {SERVER}:8080 backlog={backlog}; {PROXIED}"))?;
    testbed.visitors_at(&format!("{SERVER}:8080"), 4, &[])
}

/// Like [`with_queue`], with a route to forged senders.
pub(crate) fn floodable(testbed: &mut TestBed) -> Result<()> {
    run("ip", &["-n", &testbed.server, "route", "add", FORGED, "via", CLIENT])?;
    forgeable(testbed)?;
    with_queue(testbed)
}

/// Makes the server's side accept packets from forged senders, which arrive on an interface that
/// has no route back to them.
pub(crate) fn forgeable(testbed: &TestBed) -> Result<()> {
    testbed.sysctl("net.ipv4.conf.all.rp_filter", 0)?;
    testbed.sysctl("net.ipv4.conf.veth.rp_filter", 0)
}

/// Floods the server's port with packets of clients that never reply, at the rate of the parameter
/// `rate`.
pub(crate) fn flood(testbed: &mut TestBed, port: u16, more: &[&str]) -> Result<()> {
    let (rate, address) = (testbed.draw("rate").to_string(), format!("{SERVER}:{port}"));
    let netns = testbed.client.clone();
    let args = [&["flood", "--address", &address, "--per-second", &rate], more].concat();
    testbed.start_own("flood", &netns, &args).map(drop)
}

/// Refuses hosts whose conntrack limit is too large. The limit belongs to the host and is never
/// changed, so the fault must fill the namespace's table.
pub(crate) fn check_conntrack() -> Result<()> {
    const MOST: u64 = 1 << 20;
    let path = "/proc/sys/net/netfilter/nf_conntrack_max";
    let text =
        std::fs::read_to_string(path).map_err(DrillError::of(format!("cannot read `{path}`")))?;
    match text.trim().parse::<u64>() {
        Ok(limit) if limit <= MOST => Ok(()),
        _ => Err(DrillError::new(format!(
            "cannot fill the table of connections: this host's limit is {}, and filling it would take too much memory",
            text.trim()
        ))
        .hint(format!("up to {MOST} (320 MiB) is filled; the setting itself is not touched"))),
    }
}
