//! Two faults at a time that have nothing to do with each other: both must be named, and neither hides the other.

use std::fs;

use rustix::process::Signal;

use crate::fault::{Fault, of};
use crate::faults::{certificate, tls};
use crate::ground::fill;

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "pair: application slow, disk full",
        rules: &[&["app.slow"], &["disk.full"]],
        parameters: &[of("mebibytes", 24, 64, "MiB"), of("millis", 600, 1800, "milliseconds")],
        tools: &["nginx", "mkfs.ext4", "mount"],
        set: |scene| {
            let mebibytes = scene.draw("mebibytes");
            scene.disk(mebibytes, 256)?;
            scene.usual(256, 25)
        },
        inject: |scene| {
            let millis = scene.draw("millis");
            scene.put("delay", &millis.to_string())?;
            let file = fill(&scene.file("disk/app.log"), u64::MAX)?;
            Ok(Some(file))
        },
    },
    Fault {
        name: "pair: certificate ends, file deleted and open",
        rules: &[&["tls.cert_expiring"], &["disk.deleted_but_open"]],
        parameters: &[
            of("days", 1, 6, "days that the certificate is valid"),
            of("mebibytes", 8, 40, "MiB"),
        ],
        tools: &["openssl", "nginx", "mkfs.ext4", "mount"],
        set: |scene| scene.disk(64, 256).map(drop),
        inject: |scene| {
            let (days, mebibytes) = (scene.draw("days"), scene.draw("mebibytes"));
            certificate(scene, days)?;
            scene.nginx(&tls(scene))?;
            let path = scene.file("disk/access.log");
            let file = fill(&path, mebibytes << 20)?;
            fs::remove_file(path)?;
            Ok(Some(file))
        },
    },
    Fault {
        name: "pair: acceptor stopped, inodes used up",
        rules: &[&["tcp.listen_overflow"], &["disk.inodes_full"]],
        parameters: &[
            of("backlog", 4, 40, "accept queue of what is asked, connections"),
            of("inodes", 64, 512, "inodes of the file system"),
            of("clients", 80, 160, "clients that connect"),
        ],
        tools: &["nginx", "mkfs.ext4", "mount"],
        set: |scene| {
            let (backlog, inodes) = (scene.draw("backlog"), scene.draw("inodes"));
            scene.disk(32, inodes)?;
            scene.usual(backlog, 4)
        },
        inject: |scene| {
            let clients = scene.draw("clients");
            scene.knocks(clients, &["--patience-millis", "3000"])?;
            scene.signal("app", Signal::STOP)?;
            let disk = scene.file("disk");
            let is_made = |n: &u32| fs::File::create(disk.join(n.to_string())).is_ok();
            let _made = (0..4096).take_while(is_made).count();
            Ok(None)
        },
    },
    Fault {
        name: "pair: application killed, out of memory elsewhere",
        rules: &[&["app.down"], &["mem.oom_kill"]],
        parameters: &[
            of("visitors", 5, 30, "visitors"),
            of("mebibytes", 24, 96, "MiB of the control group of something else"),
        ],
        tools: &["nginx", "bash"],
        set: |scene| {
            let visitors = scene.draw("visitors");
            scene.usual(256, visitors)
        },
        inject: |scene| {
            let mebibytes = scene.draw("mebibytes");
            crate::limits::hog(scene, mebibytes)?;
            scene.signal("app", Signal::KILL)?;
            Ok(None)
        },
    },
    Fault {
        name: "pair: first name server silent, application killed",
        rules: &[&["dns.resolver_slow"], &["app.down"]],
        parameters: &[of("servers", 2, 3, "name servers"), of("visitors", 5, 30, "visitors")],
        tools: &["nginx", "unshare"],
        set: |scene| {
            let servers = scene.draw("servers");
            crate::names::name_servers(scene, servers)?;
            let visitors = scene.draw("visitors");
            scene.usual(256, visitors)
        },
        inject: |scene| {
            scene.signal("names", Signal::STOP)?;
            scene.signal("app", Signal::KILL)?;
            Ok(None)
        },
    },
    Fault {
        name: "pair: local ports used up, disk fills",
        rules: &[&["tcp.ephemeral_exhausted"], &["disk.full"]],
        parameters: &[of("mebibytes", 24, 64, "MiB"), of("ports", 60, 150, "ports")],
        tools: &["nginx", "mkfs.ext4", "mount"],
        set: |scene| {
            let mebibytes = scene.draw("mebibytes");
            scene.disk(mebibytes, 256)?;
            scene.usual(1024, 5)
        },
        inject: |scene| {
            let ports = scene.draw("ports");
            let range = format!("40000 {}", 40_000 + ports - 1);
            scene.sysctl("net.ipv4.ip_local_port_range", &range)?;
            scene.knocks(ports + 20, &["--hold"])?;
            let file = fill(&scene.file("disk/app.log"), u64::MAX)?;
            Ok(Some(file))
        },
    },
];
