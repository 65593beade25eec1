//! The recorded host with md arrays, on which collectors are tested without a machine, made again on
//! a real kernel and compared; `UPDATE_EXPECT=1` writes it.

use super::harness::{can_run, repository};
use super::md_machine::{MachineParts, TestDisks, VirtualMachine, devices};

const DISKS: TestDisks = TestDisks { count: 12, unreadable: 5 };

const FILES: &str = "/proc/mdstat /proc/diskstats /proc/1/mountinfo /proc/1/mounts \
    /sys/block/md*/md/array_state /sys/block/md*/md/sync_action \
    /sys/block/md*/md/dev-*/state /sys/block/md*/md/dev-*/slot /sys/block/md*/md/dev-*/errors \
    /sys/block/md*/md/dev-*/bad_blocks /sys/block/md*/md/dev-*/unacknowledged_bad_blocks \
    /sys/block/*/dev /sys/block/*/size /sys/block/nvme*/device/serial /sys/block/*/slaves/*/dev";

/// Ends of paths whose content differs each time: counters, and the order in which disks are found.
const VARYING: [&str; 5] = ["/diskstats", "/mountinfo", "/mounts", "/errors", "/dev"];

/// A RAID 10 that has lost a member and carries a file system, a mirror with a bad sector, the system
/// array of a NAS, and a container of Intel arrays.
fn scene(machine: &mut VirtualMachine) {
    let striped = "/dev/md0 --level=10 --raid-devices=4 --chunk=64 --bitmap=internal";
    machine.create(&format!("{striped} {}", devices(1..=4)));
    machine.run("mke2fs /dev/md0 && mkdir -p /srv && mount -t ext4 /dev/md0 /srv");
    machine.run("mdadm /dev/md0 --fail /dev/nvme2n1");
    machine
        .create(&format!("/dev/md1 --level=1 --raid-devices=2 --bitmap=none {}", devices(5..=6)));
    machine.read_whole("/dev/md1");
    let nas = devices(7..=10) + &" missing".repeat(20);
    machine.create(&format!(
        "/dev/md9 --level=1 --raid-devices=24 --metadata=1.0 --bitmap=none {nas}"
    ));
    machine.create_container(&devices(11..=12));
    // The file system's last writes, and the bitmap's.
    machine.run("sync; until grep -q clean /sys/block/md0/md/array_state; do sleep 1; done");
}

/// Sections without what varies.
fn comparable(files: &str) -> Vec<&str> {
    files.split("== ").skip(1).filter_map(stable_part).collect()
}

fn stable_part(section: &str) -> Option<&str> {
    let (path, _) = section.split_once('\n')?;
    Some(if VARYING.iter().any(|end| path.ends_with(end)) { path } else { section })
}

#[test]
fn a_real_kernel_shows_its_arrays_as_recorded() {
    let test = "a_real_kernel_shows_its_arrays_as_recorded";
    let parts = MachineParts::find();
    if !can_run(test, "QEMU and a kernel (cargo xtask setup)", parts.is_some()) {
        return;
    }
    let parts = parts.expect("it was found");
    let dir = tempfile::tempdir().expect("a directory");
    let mut machine = VirtualMachine::boot(&parts, dir.path(), &[], DISKS);
    scene(&mut machine);
    let files = machine.run(&format!(
        "for file in {FILES}; do [ ! -f $file ] || {{ echo \"== $file\"; cat $file; }}; done"
    ));
    let recorded = repository().join("crates/collect/fixtures/md-vm/files.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return std::fs::write(recorded, files).expect("it is ours");
    }
    let before = std::fs::read_to_string(recorded).expect("it is there");
    for (now, before) in comparable(&files).iter().zip(comparable(&before)) {
        assert_eq!(*now, before, "UPDATE_EXPECT=1 writes it");
    }
    assert_eq!(comparable(&files).len(), comparable(&before).len(), "{files}");
}
