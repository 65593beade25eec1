//! Two faults at a time that have nothing to do with each other: both must be named, and neither hides the other.

use std::fs;

use rustix::process::Signal;

use super::faults::{Fault, certificate, tls};
use super::scene::fill;

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "pair: application slow, disk full",
        rules: &[&["app.slow"], &["disk.full"]],
        set: |scene| {
            let mebibytes = scene.between(24, 64);
            scene.disk(mebibytes, 256)?;
            scene.usual(256, 25)
        },
        inject: |scene| {
            let millis = scene.between(600, 1800);
            fs::write(scene.delay(), millis.to_string())?;
            let file = fill(&scene.dir.path().join("disk/app.log"), u64::MAX)?;
            Ok((format!("{millis} ms"), Some(file)))
        },
    },
    Fault {
        name: "pair: certificate ends, file deleted and open",
        rules: &[&["tls.cert_expiring"], &["disk.deleted_but_open"]],
        set: |scene| scene.disk(64, 256).map(drop),
        inject: |scene| {
            let (days, mebibytes) = (scene.between(1, 6), scene.between(8, 40));
            certificate(scene, days)?;
            scene.nginx(&tls(scene))?;
            let path = scene.dir.path().join("disk/access.log");
            let file = fill(&path, mebibytes << 20)?;
            fs::remove_file(path)?;
            Ok((format!("{days} days, {mebibytes} MiB"), Some(file)))
        },
    },
    Fault {
        name: "pair: acceptor stopped, inodes used up",
        rules: &[&["tcp.listen_overflow"], &["disk.inodes_full"]],
        set: |scene| {
            let (backlog, inodes) = (scene.between(4, 40), scene.between(64, 512));
            scene.disk(32, inodes)?;
            scene.usual(backlog, 4)
        },
        inject: |scene| {
            let clients = scene.between(80, 160);
            scene.knocks(clients, &["--patience-millis", "3000"])?;
            scene.signal("app", Signal::STOP)?;
            let disk = scene.dir.path().join("disk");
            let made = (0..4096).take_while(|n| fs::File::create(disk.join(n.to_string())).is_ok());
            Ok((format!("{clients} clients, {} files", made.count()), None))
        },
    },
];
