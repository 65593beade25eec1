//! Faults of slow or stuck disks, and of memory pressure that makes a disk look slow.

use crate::cgroups::{Controller, DiskSize, fill};
use crate::command::run;
use crate::error::Result;
use crate::fault::{Fault, parameter};
use crate::testbed::{APP, TestBed};

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "one of several disks slow",
        rules: &[&["disk.member_outlier", "disk.slow"]],
        parameters: &[
            parameter("disks", 4..=6, "disks with the same load"),
            parameter("member", 1..=4, "the slow one"),
            parameter("operations", 8..=16, "operations per second left to it"),
        ],
        tools: &["mkfs.ext4", "mount", "losetup"],
        set: |testbed| {
            let (disks, member) = (testbed.draw("disks"), testbed.draw("member"));
            for number in 1..=disks {
                let what = if number == member { "ill" } else { "store" };
                store(testbed, number, what, 3)?;
            }
            Ok(())
        },
        inject: |testbed| {
            let operations = testbed.draw("operations");
            testbed.throttle_disk("ill", operations)?;
            Ok(None)
        },
    },
    Fault {
        name: "disk stuck",
        rules: &[&["disk.stuck", "disk.slow"]],
        parameters: &[
            parameter("visitors", 6..=16, "visitors that wait for the disk"),
            parameter("operations", 1..=2, "operations per second left to the disk"),
        ],
        tools: &["mkfs.ext4", "mount", "losetup"],
        set: |testbed| {
            let visitors = testbed.draw("visitors");
            store(testbed, 1, "store", visitors)
        },
        inject: |testbed| {
            let operations = testbed.draw("operations");
            testbed.throttle_disk("store", operations)?;
            Ok(None)
        },
    },
    Fault {
        name: "file system turned read-only",
        rules: &[&["disk.readonly"]],
        parameters: &[parameter("mebibytes", 16..=64, "MiB")],
        tools: &["mkfs.ext4", "mount"],
        set: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            testbed.disk(DiskSize { mebibytes, inodes: 256 }).map(drop)
        },
        inject: |testbed| {
            run("mount", &["-o", "remount,ro", &testbed.path("disk")])?;
            Ok(None)
        },
    },
    Fault {
        name: "memory thrashes",
        rules: &[&["mem.thrash"]],
        parameters: &[
            parameter("mebibytes", 24..=64, "MiB of the control group's limit"),
            parameter("readers", 3..=6, "processes that keep reading twice as much"),
        ],
        tools: &["sh", "cat"],
        set: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            drop(fill(&testbed.file("table"), (2 * mebibytes) << 20)?);
            // Drop the page cache: the first reader of a page is charged for it.
            let file = std::fs::File::open(testbed.file("table"))?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
            // Create the group before the fault, as a container would be.
            testbed.group("reader", Controller::Memory)?;
            let bytes = (mebibytes << 20).to_string();
            let old = [("memory.limit_in_bytes", bytes.clone())];
            testbed.limit(Controller::Memory, &old, &[("memory.max", bytes)])
        },
        inject: |testbed| {
            let readers = testbed.draw("readers");
            let (netns, table) = (testbed.server.clone(), testbed.path("table"));
            for _ in 0..readers {
                let again = "sleep 1; while cat \"$1\" > /dev/null; do :; done";
                testbed.start("reader", &netns, "sh", &["-c", again, "sh", &table])?;
            }
            testbed.group("reader", Controller::Memory)?;
            Ok(None)
        },
    },
    Fault {
        name: "access log on a slow disk",
        rules: &[&["proxy.worker_blocked", "disk.slow", "disk.stuck"]],
        parameters: &[
            parameter("operations", 8..=20, "operations per second left to the disk"),
            parameter("visitors", 8..=20, "visitors"),
        ],
        tools: &["nginx", "mkfs.ext4", "mount", "losetup"],
        set: |testbed| {
            let disk = testbed.direct_disk("disk", 64)?.display().to_string();
            testbed.app(256, &[])?;
            testbed.nginx(&format!(
                "access_log {disk}/access.log timed; location / {{ proxy_pass http://{APP}; }}"
            ))?;
            testbed.baseline_seconds = 45;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &["--pause-millis", "100", "--patience-millis", "20000"])
        },
        inject: |testbed| {
            let operations = testbed.draw("operations");
            // Write each line synchronously. On a busy machine that alone would be slow.
            run("mount", &["-o", "remount,sync", &testbed.path("disk")])?;
            testbed.throttle_disk("nginx", operations)?;
            Ok(None)
        },
    },
    Fault {
        name: "disk fills",
        rules: &[&["disk.full"]],
        parameters: &[
            parameter("mebibytes", 32..=96, "MiB of the file system"),
            parameter("seconds", 6..=25, "seconds until it is full"),
        ],
        tools: &["mkfs.ext4", "mount", "bash"],
        set: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            testbed.disk(DiskSize { mebibytes, inodes: 256 }).map(drop)
        },
        inject: |testbed| {
            let (netns, log) = (testbed.server.clone(), testbed.path("disk/app.log"));
            let mebibytes = testbed.drawn("mebibytes");
            let part = (mebibytes << 20) / (testbed.draw("seconds") * 5);
            let write = "while head -c \"$2\" /dev/zero; do sleep 0.2; done >> \"$1\"";
            testbed.start(
                "writer",
                &netns,
                "bash",
                &["-c", write, "sh", &log, &part.to_string()],
            )?;
            Ok(None)
        },
    },
];

/// Starts a store with its journal on a separate disk, and visitors that wait for it.
fn store(testbed: &mut TestBed, number: u64, what: &'static str, visitors: u64) -> Result<()> {
    let (address, netns) = (format!("127.0.0.{number}:9101"), testbed.server.clone());
    let disk = testbed.direct_disk(&format!("disk{number}"), 24)?;
    let journal = disk.join("journal").display().to_string();
    testbed.named_app(what, &netns, &address, 64, &["--journal", &journal])?;
    // Outlier rules need a baseline.
    testbed.baseline_seconds = 45;
    testbed.inner_visitors_at(&address, visitors, &["--patience-millis", "60000"])
}
