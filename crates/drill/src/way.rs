//! Faults of the way between hosts: packets that are lost, dropped by a firewall, too large, forged, or not read in time.

use std::time::Duration;

use crate::error::{DrillError, Result};
use crate::fault::{Fault, of};
use crate::scene::{CLIENT, PROXIED, SERVER, Scene, run};
use crate::traffic::FORGED;

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "packets lost",
        rules: &[&["wire.loss", "wire.path_loss"]],
        parameters: &[
            of("percent", 5, 14, "per cent of the packets of both directions"),
            of("visitors", 12, 30, "visitors"),
        ],
        tools: &["nft", "nginx"],
        set: |scene| {
            scene.app(256, &["--bytes", "40000"])?;
            scene.nginx(PROXIED)?;
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &["--patience-millis", "20000"])
        },
        inject: |scene| {
            let percent = scene.draw("percent");
            let drop = format!("meta l4proto tcp numgen random mod 100 < {percent} drop");
            for netns in [scene.server.clone(), scene.client.clone()] {
                filter(scene, &netns, &drop)?;
            }
            Ok(None)
        },
    },
    Fault {
        name: "firewall before the application",
        rules: &[&["wire.syn_blackhole"]],
        parameters: &[of("visitors", 8, 25, "visitors")],
        tools: &["nft", "nginx"],
        set: |scene| {
            far(scene, "proxy_connect_timeout 2s;")?;
            let visitors = scene.draw("visitors");
            scene.inner_visitors(visitors)
        },
        inject: |scene| {
            let netns = scene.client.clone();
            filter(scene, &netns, "tcp dport 9001 tcp flags & (syn | ack) == syn drop")?;
            Ok(None)
        },
    },
    Fault {
        name: "large packets vanish",
        rules: &[&["wire.mtu_blackhole"]],
        parameters: &[
            of("length", 600, 1350, "bytes of the largest packet that passes"),
            of("visitors", 12, 30, "visitors"),
        ],
        tools: &["nft", "nginx"],
        set: |scene| {
            scene.app(256, &["--bytes", "20000"])?;
            scene.nginx(PROXIED)?;
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &[])
        },
        inject: |scene| {
            let (length, netns) = (scene.draw("length"), scene.client.clone());
            filter(scene, &netns, &format!("meta length > {length} drop"))?;
            Ok(None)
        },
    },
    Fault {
        name: "SYN flood",
        rules: &[&["tcp.syn_flood"]],
        parameters: &[
            of("rate", 400, 3000, "SYNs a second with forged senders"),
            of("backlog", 64, 256, "accept queue of what is flooded, connections"),
        ],
        tools: &["nginx"],
        set: floodable,
        inject: |scene| {
            flood(scene, 8080, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "requests come in bursts",
        rules: &[&["wire.jagged_arrivals"]],
        parameters: &[
            of("visitors", 20, 40, "visitors"),
            of("millis", 800, 1600, "milliseconds of each pause"),
        ],
        tools: &["nginx"],
        set: |scene| {
            scene.config =
                format!("[wire]\ninterfaces = [\"{}/veth\"]\nports = [80]\n", scene.server);
            scene.app(256, &[])?;
            scene.nginx(PROXIED)?;
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &[])
        },
        inject: |scene| {
            let pause = format!("{:.3}", Duration::from_millis(scene.draw("millis")).as_secs_f64());
            let (netns, id) = (scene.client.clone(), scene.id("visitors")?.to_string());
            let bursts =
                "while kill -STOP \"$1\"; do sleep \"$2\"; kill -CONT \"$1\"; sleep 0.25; done";
            scene.start("pauses", &netns, "sh", &["-c", bursts, "sh", &id, &pause])?;
            Ok(None)
        },
    },
    Fault {
        name: "connection tracking full",
        rules: &[&["conntrack.full"]],
        parameters: &[of("rate", 60_000, 90_000, "connections a second that are only begun")],
        tools: &["nft", "nginx"],
        set: |scene| {
            check_conntrack()?;
            scene.usual(256, 4)?;
            forgeable(scene)?;
            let netns = scene.server.clone();
            filter(scene, &netns, "ct state invalid counter")
        },
        inject: |scene| {
            // Nobody listens there, and there is no way back: each is remembered for two minutes.
            flood(scene, 7, &[])?;
            Ok(None)
        },
    },
    Fault {
        name: "datagrams not read in time",
        rules: &[&["log.udp_rcvbuf"]],
        parameters: &[
            of("rate", 1000, 4000, "datagrams a second"),
            of("micros", 2000, 6000, "microseconds that the reader takes for each"),
        ],
        tools: &[],
        set: |scene| {
            // Namespaces in which nobody listens for TCP are not looked at.
            scene.app(64, &[])?;
            let micros = scene.draw("micros").to_string();
            let (netns, address) = (scene.server.clone(), format!("{SERVER}:5514"));
            let args = ["receive", "--address", &address, "--pause-micros", &micros];
            scene.start_own("reader", &netns, &args)
        },
        inject: |scene| {
            flood(scene, 5514, &["--datagrams"])?;
            Ok(None)
        },
    },
];

/// nginx before an application on the other side of the cable.
pub(crate) fn far(scene: &mut Scene, settings: &str) -> Result<()> {
    far_with(scene, settings, &[])
}

/// The same with arguments of the application.
pub(crate) fn far_with(scene: &mut Scene, settings: &str, more: &[&str]) -> Result<()> {
    let netns = scene.client.clone();
    let address = format!("{CLIENT}:9001");
    scene.app_at(&netns, &address, 256, more)?;
    scene.nginx(&format!("location / {{ proxy_pass http://{address}; {settings} }}"))
}

/// A rule for all packets that come into a namespace.
pub(crate) fn filter(scene: &Scene, netns: &str, rule: &str) -> Result<()> {
    let hook = "type filter hook input priority 0;";
    let text = format!("table inet drill {{\n chain input {{\n  {hook}\n  {rule}\n }}\n}}\n");
    scene.put("rules.nft", &text)?;
    run("ip", &["netns", "exec", netns, "nft", "-f", &scene.path("rules.nft")])
}

/// nginx whose queue to visitors from elsewhere is as long as the parameter `backlog` says, before an application.
pub(crate) fn with_queue(scene: &mut Scene) -> Result<()> {
    let backlog = scene.draw("backlog");
    scene.app(256, &[])?;
    scene.nginx(&format!("listen {SERVER}:8080 backlog={backlog}; {PROXIED}"))?;
    scene.visitors_at(&format!("{SERVER}:8080"), 4, &[])
}

/// The same, which answers forged senders.
pub(crate) fn floodable(scene: &mut Scene) -> Result<()> {
    run("ip", &["-n", &scene.server, "route", "add", FORGED, "via", CLIENT])?;
    forgeable(scene)?;
    with_queue(scene)
}

/// Lets the server's side take packets from senders to whom it would not answer over the same cable.
pub(crate) fn forgeable(scene: &Scene) -> Result<()> {
    scene.sysctl("net.ipv4.conf.all.rp_filter", "0")?;
    scene.sysctl("net.ipv4.conf.veth.rp_filter", "0")
}

/// The clients send what nobody answers to the server's port, as many a second as the parameter `rate` says.
pub(crate) fn flood(scene: &mut Scene, port: u16, more: &[&str]) -> Result<()> {
    let (rate, address) = (scene.draw("rate").to_string(), format!("{SERVER}:{port}"));
    let netns = scene.client.clone();
    let args = [&["flood", "--address", &address, "--per-second", &rate], more].concat();
    scene.start_own("flood", &netns, &args).map(drop)
}

/// The limit is the host's, and is not touched: the table of the scene's namespace is really filled.
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
