//! Faults of disks that are slow or do nothing, and of memory that makes a disk look so.

use crate::error::Result;
use crate::fault::{Fault, of};
use crate::ground::fill;
use crate::scene::{APP, Scene, run};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "one of several disks slow",
        rules: &[&["disk.member_outlier", "disk.slow"]],
        parameters: &[
            of("disks", 4, 6, "disks that do the same"),
            of("member", 1, 4, "which of them is ill"),
            of("operations", 8, 16, "operations a second that it still does"),
        ],
        tools: &["mkfs.ext4", "mount", "losetup"],
        set: |scene| {
            let (disks, member) = (scene.draw("disks"), scene.draw("member"));
            for number in 1..=disks {
                let what = if number == member { "ill" } else { "store" };
                store(scene, what, number, 3)?;
            }
            Ok(())
        },
        inject: |scene| {
            let operations = scene.draw("operations");
            scene.throttle_disk("ill", operations)?;
            Ok(None)
        },
    },
    Fault {
        name: "disk stuck",
        rules: &[&["disk.stuck", "disk.slow"]],
        parameters: &[
            of("visitors", 6, 16, "visitors who wait for the disk"),
            of("operations", 1, 2, "operations a second that the disk still does"),
        ],
        tools: &["mkfs.ext4", "mount", "losetup"],
        set: |scene| {
            let visitors = scene.draw("visitors");
            store(scene, "store", 1, visitors)
        },
        inject: |scene| {
            let operations = scene.draw("operations");
            scene.throttle_disk("store", operations)?;
            Ok(None)
        },
    },
    Fault {
        name: "file system turned read-only",
        rules: &[&["disk.readonly"]],
        parameters: &[of("mebibytes", 16, 64, "MiB")],
        tools: &["mkfs.ext4", "mount"],
        set: |scene| {
            let mebibytes = scene.draw("mebibytes");
            scene.disk(mebibytes, 256).map(drop)
        },
        inject: |scene| {
            run("mount", &["-o", "remount,ro", &scene.path("disk")])?;
            Ok(None)
        },
    },
    Fault {
        name: "memory thrashes",
        rules: &[&["mem.thrash"]],
        parameters: &[
            of("mebibytes", 24, 64, "MiB that the control group may have"),
            of("readers", 3, 6, "processes that read twice as much again and again"),
        ],
        tools: &["sh", "cat"],
        set: |scene| {
            let mebibytes = scene.draw("mebibytes");
            drop(fill(&scene.file("table"), (2 * mebibytes) << 20)?);
            // Whoever reads a page first is charged for it, and it was written by somebody else.
            let file = std::fs::File::open(scene.file("table"))?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
            // The group is older than what goes wrong in it.
            scene.group("reader", "memory")?;
            let bytes = (mebibytes << 20).to_string();
            let old = [("memory.limit_in_bytes", bytes.clone())];
            scene.limit("memory", &old, &[("memory.max", bytes)])
        },
        inject: |scene| {
            let readers = scene.draw("readers");
            let (netns, table) = (scene.server.clone(), scene.path("table"));
            for _ in 0..readers {
                let again = "sleep 1; while cat \"$1\" > /dev/null; do :; done";
                scene.start("reader", &netns, "sh", &["-c", again, "sh", &table])?;
            }
            scene.group("reader", "memory")?;
            Ok(None)
        },
    },
    Fault {
        name: "access log on a slow disk",
        rules: &[&["proxy.worker_blocked", "disk.slow", "disk.stuck"]],
        parameters: &[
            of("operations", 8, 20, "operations a second that the disk still does"),
            of("visitors", 8, 20, "visitors"),
        ],
        tools: &["nginx", "mkfs.ext4", "mount", "losetup"],
        set: |scene| {
            let disk = scene.direct_disk("disk", 64)?.display().to_string();
            scene.app(256, &[])?;
            scene.nginx(&format!(
                "access_log {disk}/access.log timed; location / {{ proxy_pass http://{APP}; }}"
            ))?;
            scene.calm_seconds = 45;
            let visitors = scene.draw("visitors");
            scene.visitors(visitors, &["--pause-millis", "100", "--patience-millis", "20000"])
        },
        inject: |scene| {
            let operations = scene.draw("operations");
            // Each line is on the disk before the next thing is done: on a busy machine that alone would be slow.
            run("mount", &["-o", "remount,sync", &scene.path("disk")])?;
            scene.throttle_disk("nginx", operations)?;
            Ok(None)
        },
    },
    Fault {
        name: "disk fills",
        rules: &[&["disk.full"]],
        parameters: &[
            of("mebibytes", 32, 96, "MiB of the file system"),
            of("seconds", 6, 25, "seconds until it is full"),
        ],
        tools: &["mkfs.ext4", "mount", "bash"],
        set: |scene| {
            let mebibytes = scene.draw("mebibytes");
            scene.disk(mebibytes, 256).map(drop)
        },
        inject: |scene| {
            let (netns, log) = (scene.server.clone(), scene.path("disk/app.log"));
            let mebibytes = scene.drawn("mebibytes");
            let part = (mebibytes << 20) / (scene.draw("seconds") * 5);
            let write = "while head -c \"$2\" /dev/zero; do sleep 0.2; done >> \"$1\"";
            scene.start("writer", &netns, "bash", &["-c", write, "sh", &log, &part.to_string()])?;
            Ok(None)
        },
    },
];

/// A store whose journal is on a disk of its own, with visitors who wait for it.
fn store(scene: &mut Scene, what: &'static str, number: u64, visitors: u64) -> Result<()> {
    let (address, netns) = (format!("127.0.0.{number}:9101"), scene.server.clone());
    let disk = scene.direct_disk(&format!("disk{number}"), 24)?;
    let journal = disk.join("journal").display().to_string();
    scene.named_app(what, &netns, &address, 64, &["--journal", &journal])?;
    // What it did before is what it is compared with.
    scene.calm_seconds = 45;
    scene.inner_visitors_at(&address, visitors, &["--patience-millis", "60000"])
}
