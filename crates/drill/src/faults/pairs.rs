//! Two unrelated faults at a time: both must be named, and neither may hide the other.

use std::fs;

use rustix::process::Signal;

use crate::cgroups::{DiskSize, fill};
use crate::fault::{Fault, parameter};
use crate::faults::services::{certificate, create_files_until_full, tls};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "pair: application slow, disk full",
        rules: &[&["app.slow"], &["disk.full"]],
        parameters: &[
            parameter("mebibytes", 24..=64, "MiB"),
            parameter("millis", 600..=1800, "milliseconds"),
        ],
        tools: &["nginx", "mkfs.ext4", "mount"],
        set: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            testbed.disk(DiskSize { mebibytes, inodes: 256 })?;
            testbed.proxied_app(256)?;
            testbed.visitors(25, &[])
        },
        inject: |testbed| {
            let millis = testbed.draw("millis");
            testbed.put("delay", millis)?;
            let file = fill(&testbed.file("disk/app.log"), u64::MAX)?;
            Ok(Some(file))
        },
    },
    Fault {
        name: "pair: certificate ends, file deleted and open",
        rules: &[&["tls.cert_expiring"], &["disk.deleted_but_open"]],
        parameters: &[
            parameter("days", 1..=6, "days that the certificate is valid"),
            parameter("mebibytes", 8..=40, "MiB"),
        ],
        tools: &["openssl", "nginx", "mkfs.ext4", "mount"],
        set: |testbed| testbed.disk(DiskSize { mebibytes: 64, inodes: 256 }).map(drop),
        inject: |testbed| {
            let (days, mebibytes) = (testbed.draw("days"), testbed.draw("mebibytes"));
            certificate(testbed, days)?;
            testbed.nginx(&tls(testbed))?;
            let path = testbed.file("disk/access.log");
            let file = fill(&path, mebibytes << 20)?;
            fs::remove_file(path)?;
            Ok(Some(file))
        },
    },
    Fault {
        name: "pair: acceptor stopped, inodes used up",
        rules: &[&["tcp.listen_overflow"], &["disk.inodes_full"]],
        parameters: &[
            parameter("backlog", 4..=40, "accept queue of the application, connections"),
            parameter("inodes", 64..=512, "inodes of the file system"),
            parameter("clients", 80..=160, "clients that connect"),
        ],
        tools: &["nginx", "mkfs.ext4", "mount"],
        set: |testbed| {
            let (backlog, inodes) = (testbed.draw("backlog"), testbed.draw("inodes"));
            testbed.disk(DiskSize { mebibytes: 32, inodes })?;
            testbed.proxied_app(backlog)?;
            testbed.visitors(4, &[])
        },
        inject: |testbed| {
            let clients = testbed.draw("clients");
            testbed.knocks(clients, &["--patience-millis", "3000"])?;
            testbed.signal("app", Signal::STOP)?;
            let disk = testbed.file("disk");
            create_files_until_full(&disk);
            Ok(None)
        },
    },
    Fault {
        name: "pair: application killed, out of memory elsewhere",
        rules: &[&["app.down"], &["mem.oom_kill"]],
        parameters: &[
            parameter("visitors", 5..=30, "visitors"),
            parameter("mebibytes", 24..=96, "MiB of another program's control group"),
        ],
        tools: &["nginx", "bash"],
        set: |testbed| {
            let visitors = testbed.draw("visitors");
            testbed.proxied_app(256)?;
            testbed.visitors(visitors, &[])
        },
        inject: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            crate::faults::limits::hog(testbed, mebibytes)?;
            testbed.signal("app", Signal::KILL)?;
            Ok(None)
        },
    },
    Fault {
        name: "pair: first name server silent, application killed",
        rules: &[&["dns.resolver_slow"], &["app.down"]],
        parameters: &[
            parameter("servers", 2..=3, "name servers"),
            parameter("visitors", 5..=30, "visitors"),
        ],
        tools: &["nginx", "unshare"],
        set: |testbed| {
            let servers = testbed.draw("servers");
            crate::faults::dns::name_servers(testbed, servers)?;
            let visitors = testbed.draw("visitors");
            testbed.proxied_app(256)?;
            testbed.visitors(visitors, &[])
        },
        inject: |testbed| {
            testbed.signal("names", Signal::STOP)?;
            testbed.signal("app", Signal::KILL)?;
            Ok(None)
        },
    },
    Fault {
        name: "pair: local ports used up, disk fills",
        rules: &[&["tcp.ephemeral_exhausted"], &["disk.full"]],
        parameters: &[
            parameter("mebibytes", 24..=64, "MiB"),
            parameter("ports", 60..=150, "ports"),
        ],
        tools: &["nginx", "mkfs.ext4", "mount"],
        set: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            testbed.disk(DiskSize { mebibytes, inodes: 256 })?;
            testbed.proxied_app(1024)?;
            testbed.visitors(5, &[])
        },
        inject: |testbed| {
            let ports = testbed.draw("ports");
            let range = format!("40000 {}", 40_000 + ports - 1);
            testbed.sysctl("net.ipv4.ip_local_port_range", &range)?;
            testbed.knocks(ports + 20, &["--hold"])?;
            let file = fill(&testbed.file("disk/app.log"), u64::MAX)?;
            Ok(Some(file))
        },
    },
];
