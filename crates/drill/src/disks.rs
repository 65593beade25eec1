//! Faults of disks that are slow or do nothing, and of memory that makes a disk look so.

use crate::fault::{Fault, of};
use crate::ground::fill;

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "one of several disks slow",
        rules: &[&["disk.member_outlier", "disk.slow"]],
        parameters: &[
            of("disks", 4, 6, "disks that do the same"),
            of("operations", 8, 16, "operations a second that one of them still does"),
        ],
        tools: &["mkfs.ext4", "mount", "losetup"],
        set: |scene| {
            let (disks, netns) = (scene.draw("disks"), scene.server.clone());
            for number in 1..=disks {
                let disk = scene.direct_disk(&format!("disk{number}"), 24)?;
                let journal = disk.join("journal").display().to_string();
                let what = if number == 2 { "second" } else { "store" };
                let address = format!("127.0.0.{number}:9101");
                scene.named_app(what, &netns, &address, 64, &["--journal", &journal])?;
                scene.inner_visitors_at(&address, 3, &["--patience-millis", "20000"])?;
            }
            scene.calm_seconds = 45;
            Ok(())
        },
        inject: |scene| {
            let operations = scene.draw("operations");
            scene.throttle_disk("second", operations)?;
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
            let (visitors, netns) = (scene.draw("visitors"), scene.server.clone());
            let journal = scene.direct_disk("disk", 24)?.join("journal").display().to_string();
            let address = "127.0.0.1:9101";
            scene.named_app("store", &netns, address, 64, &["--journal", &journal])?;
            scene.calm_seconds = 45;
            scene.inner_visitors_at(address, visitors, &["--patience-millis", "60000"])
        },
        inject: |scene| {
            let operations = scene.draw("operations");
            scene.throttle_disk("store", operations)?;
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
];
