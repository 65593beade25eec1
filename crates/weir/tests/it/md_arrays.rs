//! Disk rules on arrays of a real kernel: an agent in a virtual machine sends to a hub outside.
//!
//! Three RAID 10 arrays work at once, with different sizes and shares of writes; a member of each
//! becomes slow. Beside them are a mirror with a sector that no state shows, the system array of a
//! NAS, and a container of Intel arrays.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::harness::{WEIR, Weir, can_run, pause, quiet, serve};
use super::md_machine::{
    HOST_ADDRESS, MachineParts, TestDisks, UNREADABLE_SECTOR, VirtualMachine, devices,
};

const PATIENCE: Duration = Duration::from_secs(300);

/// Samples of healthy arrays, one a second.
const HEALTHY_SAMPLES: i64 = 15;

/// A RAID 10 under load.
struct LoadedArray {
    name: &'static str,
    first_disk: usize,
    members: usize,
    write_percent: u32,
    threads: u32,
    /// The member that becomes slow, and the operations a second that it does then.
    sick_disk: usize,
    sick_operations: u32,
}

/// A mirror is read mostly from its first half, so slow are a second half, a first and one in between.
const LOADED: [LoadedArray; 3] = [
    LoadedArray {
        name: "md0",
        first_disk: 1,
        members: 4,
        write_percent: 5,
        threads: 3,
        sick_disk: 4,
        sick_operations: 5,
    },
    LoadedArray {
        name: "md1",
        first_disk: 5,
        members: 6,
        write_percent: 30,
        threads: 4,
        sick_disk: 5,
        sick_operations: 6,
    },
    LoadedArray {
        name: "md2",
        first_disk: 11,
        members: 8,
        write_percent: 95,
        threads: 5,
        sick_disk: 14,
        sick_operations: 6,
    },
];

/// Halves of the mirror `md3`; the first has the bad sector.
const MIRROR: [usize; 2] = [19, 20];
/// Of the 24 slots of `md9`.
const NAS: [usize; 2] = [21, 22];
/// Of the container `md127`.
const CONTAINER: [usize; 2] = [23, 24];
/// Replaces the bad half of the mirror.
const SPARE: usize = 25;
const DISKS: TestDisks = TestDisks { count: 25, unreadable: MIRROR[0] };

/// A machine and the hub that its agent sends to.
struct ArrayScene {
    machine: VirtualMachine,
    hub: Weir,
    _dir: tempfile::TempDir,
}

impl ArrayScene {
    fn set(parts: &MachineParts, load: &Path) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let programs = [Path::new(WEIR), load];
        let mut machine = VirtualMachine::boot(parts, dir.path(), &programs, DISKS);
        make_arrays(&mut machine);
        let mut command = serve("hub", &dir.path().join("data"));
        quiet(&mut command);
        let hub = Weir::start(command);
        let port = hub.url.rsplit(':').next().expect("the address has a port");
        machine.run(&format!(
            "WEIR_COLLECT_FIND_LOGS=false weir agent --hub http://{HOST_ADDRESS}:{port} --insecure \
             --host vm --log-level warn > /tmp/agent.log 2>&1 &"
        ));
        Self { machine, hub, _dir: dir }
    }

    fn wait<T>(&mut self, what: &str, mut look: impl FnMut(&Weir) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(&self.hub) {
                return found;
            }
            if Instant::now() > end {
                let agent = self.machine.run("cat /proc/mdstat /tmp/agent.log");
                let findings = self.hub.get("/api/findings");
                panic!("no {what}: {findings:#}\n{agent}\n{}", self.machine.said());
            }
            pause(Duration::from_millis(200));
        }
    }

    /// The firing finding of a rule about a subject.
    fn finding(&mut self, rule: &str, subject: &str) -> Value {
        self.wait(&format!("{rule} of {subject}"), |hub| firing(hub, rule, subject))
    }
}

fn firing(hub: &Weir, rule: &str, subject: &str) -> Option<Value> {
    let mut findings = hub.findings(rule).into_iter();
    findings.find(|finding| finding["state"] == "firing" && finding["subject"] == subject)
}

fn make_arrays(machine: &mut VirtualMachine) {
    for LoadedArray { name, first_disk, members, .. } in LOADED {
        let devices = devices(first_disk..first_disk + members);
        machine.create(&format!(
            "/dev/{name} --level=10 --raid-devices={members} --chunk=64 --bitmap=internal {devices}"
        ));
    }
    machine
        .create(&format!("/dev/md3 --level=1 --raid-devices=2 --bitmap=none {}", devices(MIRROR)));
    let slots = devices(NAS) + &" missing".repeat(24 - NAS.len());
    machine.create(&format!(
        "/dev/md9 --level=1 --raid-devices=24 --metadata=1.0 --bitmap=none {slots}"
    ));
    machine.create_container(&devices(CONTAINER));
    let state = machine.run("cat /proc/mdstat");
    for part in ["[UUUUUUUU]", "[24/2] [UU______________________]", "md127 : inactive"] {
        assert!(state.contains(part), "{part} is not in {state}");
    }
}

/// Rule and subject of all that has fired about disks. A loaded machine makes any disk slower than before.
fn fired(hub: &Weir) -> BTreeSet<String> {
    let sql = "select distinct concat(rule, ': ', subject) from finding \
        where state = 'firing' and rule like 'disk.%' and rule <> 'disk.slow'";
    hub.rows(sql).iter().map(|row| row[0].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn faults_of_real_arrays_are_named_and_healthy_members_are_silent() {
    let parts = MachineParts::find();
    let load = Path::new(WEIR).with_file_name("examples").join("random_io");
    let name = "faults_of_real_arrays_are_named_and_healthy_members_are_silent";
    let needed = "QEMU, a kernel (cargo xtask setup) and weir's examples (cargo build --examples)";
    if !can_run(name, needed, parts.is_some() && load.exists()) {
        return;
    }
    let parts = parts.expect("it was found");
    let mut scene = ArrayScene::set(&parts, &load);
    healthy_arrays_are_silent(&mut scene);
    for LoadedArray { sick_disk, sick_operations, .. } in LOADED {
        scene.machine.throttle(sick_disk, sick_operations);
    }
    unreadable_sector_is_found(&mut scene);
    replacement_is_seen(&mut scene);
    slow_members_are_found(&mut scene);
    following_the_fix_degrades_the_array(&mut scene);
    let sick =
        LOADED.map(|array| format!("disk.member_outlier: disk nvme{}n1 of vm", array.sick_disk));
    let [bad, _] = MIRROR;
    let mut expected = BTreeSet::from(sick);
    expected.extend([
        format!("disk.io_error: disk nvme{bad}n1 of vm"),
        format!("disk.raid_bad_blocks: nvme{bad}n1 in md3 of vm"),
        format!("disk.raid_degraded: {} of vm", LOADED[0].name),
        "disk.raid_degraded: md9 of vm".to_owned(),
    ]);
    assert_eq!(fired(&scene.hub), expected);
}

/// Only the slots of the NAS that were never filled are noted.
fn healthy_arrays_are_silent(scene: &mut ArrayScene) {
    for LoadedArray { name, members, write_percent, threads, .. } in LOADED {
        let bytes = members / 2 * (60 << 20);
        scene.machine.run(&format!(
            "random_io /dev/{name} {bytes} {write_percent} {threads} > /tmp/{name}.log 2>&1 &"
        ));
    }
    let sql = "select count(*) from disk_stat where device = 'md2' and writes_total > 0";
    scene.wait("samples", |hub| (hub.number(sql) >= HEALTHY_SAMPLES).then_some(()));
    let noted = scene.finding("disk.raid_degraded", "md9 of vm");
    assert_eq!(noted["class"], "note", "{noted:#}");
    assert_eq!(fired(&scene.hub), BTreeSet::from(["disk.raid_degraded: md9 of vm".to_owned()]));
}

fn unreadable_sector_is_found(scene: &mut ArrayScene) {
    scene.machine.read_whole("/dev/md3");
    let bad = MIRROR[0];
    let found = scene.finding("disk.raid_bad_blocks", &format!("nvme{bad}n1 in md3 of vm"));
    let summary = found["summary"].as_str().unwrap_or_default();
    let expected = format!(
        "has 8 unreadable sectors (first {UNREADABLE_SECTOR}); the array itself reports [2/2] [UU]"
    );
    assert!(summary.ends_with(&expected), "{summary}");
    // The fix, word by word, at a speed at which it does not end meanwhile.
    scene
        .machine
        .run("for end in min max; do echo 100 > /proc/sys/dev/raid/speed_limit_$end; done");
    let commands = commands(&found);
    for command in commands.iter().filter(|command| command.contains("NEW")) {
        scene.machine.run(&command.replace("/dev/NEW", &devices([SPARE])));
    }
    assert!(commands.iter().any(|command| command.contains("--replace")), "{found:#}");
}

/// The commands in a finding's fix.
fn commands(finding: &Value) -> Vec<String> {
    let fix = finding["fix"].as_str().unwrap_or_default();
    fix.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn replacement_is_seen(scene: &mut ArrayScene) {
    let subject = format!("nvme{}n1 in md3 of vm", MIRROR[0]);
    let expected = format!("Wait: nvme{SPARE}n1 is being filled as its replacement");
    scene.wait("fix that waits", |hub| {
        let finding = firing(hub, "disk.raid_bad_blocks", &subject)?;
        finding["fix"].as_str().is_some_and(|fix| fix.starts_with(&expected)).then_some(())
    });
    // The kernel's own message about the sector is a symptom.
    let subject = format!("disk nvme{}n1 of vm", MIRROR[0]);
    scene.wait("cause", |hub| {
        let symptom = firing(hub, "disk.io_error", &subject)?;
        (symptom["cause_rule"] == "disk.raid_bad_blocks").then_some(())
    });
}

fn slow_members_are_found(scene: &mut ArrayScene) {
    for LoadedArray { name, sick_disk, .. } in LOADED {
        let found = scene.finding("disk.member_outlier", &format!("disk nvme{sick_disk}n1 of vm"));
        assert_eq!(found["class"], "page", "{found:#}");
        let fix = found["fix"].as_str().unwrap_or_default();
        assert!(fix.contains(&format!("mdadm /dev/{name} --fail /dev/nvme{sick_disk}n1")), "{fix}");
    }
}

/// Types the command of the finding.
fn following_the_fix_degrades_the_array(scene: &mut ArrayScene) {
    let LoadedArray { name, sick_disk, .. } = LOADED[0];
    let found = scene.finding("disk.member_outlier", &format!("disk nvme{sick_disk}n1 of vm"));
    let commands = commands(&found);
    scene.machine.run(&commands[0]);
    let state = scene.machine.run(&commands[1]);
    assert!(state.starts_with("faulty"), "{state}");
    let found = scene.finding("disk.raid_degraded", &format!("{name} of vm"));
    assert_eq!(found["class"], "page", "{found:#}");
    let summary = found["summary"].as_str().unwrap_or_default();
    assert!(summary.contains(&format!("3 of 4 members, failed: nvme{sick_disk}n1")), "{summary}");
}
