//! Where a testbed lives, and how it is removed. Everything it made carries its name, so removal
//! needs no other state.
//!
//! ```text
//!   /var/lib/weir-drill/NAME/         its files; created first, removed last
//!   /var/lib/weir-drill/NAME/lock     locked while its program runs
//!   /var/lib/weir-drill/NAME/undo     changes elsewhere, written before they are made
//!   /run/netns/NAMEs, NAMEc           its namespaces: every process in them belongs to the testbed
//!   /sys/fs/cgroup/…/NAMEs            its control groups
//! ```
//! Only root can write there, so other users cannot plant names.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use crate::command::{output, run};
use crate::error::{DrillError, Result};
use crate::pause;

/// Parent directory of all testbeds.
pub const TESTBEDS: &str = "/var/lib/weir-drill";
/// Prefix of every testbed's name.
const PREFIX: &str = "weir-drill-";
/// Checks for the end of a namespace's processes, 50 ms apart.
const CHECKS: u32 = 100;

/// Testbeds made so far by this process; part of their names.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A testbed's locked directory.
pub(crate) struct TestbedDirectory {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    _lock: File,
}

impl TestbedDirectory {
    /// Creates and locks a new directory. Needs root.
    pub(crate) fn make() -> Result<Self> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let dir = Path::new(TESTBEDS).join(&name);
        // nginx's worker runs as another user and must be able to traverse these directories.
        let traversable = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        let made = fs::create_dir_all(TESTBEDS)
            .and_then(|()| fs::set_permissions(TESTBEDS, traversable.clone()))
            .and_then(|()| fs::create_dir(&dir))
            .and_then(|()| fs::set_permissions(&dir, traversable));
        made.map_err(DrillError::of(format!("cannot make `{}`", dir.display())))?;
        let lock =
            lock(&dir)?.ok_or_else(|| DrillError::new("cannot lock the testbed's directory"))?;
        Ok(Self { name, dir, _lock: lock })
    }

    /// Records a change outside of the testbed's namespaces and directory, to be undone with it.
    pub(crate) fn note(&self, undo: &UndoStep) -> Result<()> {
        let path = self.dir.join(UNDO);
        let noted = OpenOptions::new().create(true).append(true).open(&path);
        noted
            .and_then(|mut file| writeln!(file, "{}", undo.0).and_then(|()| file.sync_all()))
            .map_err(DrillError::of(format!("cannot write `{}`", path.display())))
    }
}

/// File with one undo step per line.
const UNDO: &str = "undo";

/// A line of the undo file.
pub(crate) struct UndoStep(String);

impl UndoStep {
    /// Ends a process, unless its number was reused.
    pub(crate) fn process(id: u32) -> Self {
        Self(format!("process {id} {}", started(id).unwrap_or_default()))
    }

    /// Removes a file.
    pub(crate) fn file(path: &str) -> Self {
        Self(format!("file {path}"))
    }

    /// Removes the queueing discipline from an interface that had the default one.
    pub(crate) fn queue(device: &str) -> Self {
        Self(format!("queue {device}"))
    }
}

/// Whether the program of a testbed has ended.
pub(crate) fn is_free(dir: &Path) -> Result<bool> {
    Ok(lock(dir)?.is_some())
}

/// Locks a testbed's directory; `None` while its program runs.
fn lock(dir: &Path) -> Result<Option<File>> {
    let path = dir.join("lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(DrillError::of(format!("cannot open `{}`", path.display())))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(_) => Ok(None),
    }
}

/// Removes the testbeds of killed programs and returns their names. Testbeds in use stay.
///
/// # Errors
/// When something that a testbed made cannot be removed; its directory stays, so that the next
/// call tries again.
pub fn clean() -> Result<Vec<String>> {
    let mut cleaned = Vec::new();
    for entry in fs::read_dir(TESTBEDS).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && name.starts_with(PREFIX) && lock(&entry.path())?.is_some() {
            remove(&name, &entry.path())?;
            cleaned.push(name);
        }
    }
    Ok(cleaned)
}

/// Removes everything that belongs to a testbed.
pub(crate) fn remove(name: &str, dir: &Path) -> Result<()> {
    undo_noted(dir)?;
    let sides = ["s", "c"].map(|side| format!("{name}{side}"));
    lift_throttles(&sides[0])?;
    for side in &sides {
        end_inside(side)?;
    }
    for point in mounts_below(dir) {
        run("umount", &["-l", &point])?;
    }
    for side in sides.iter().filter(|side| netns(side).exists()) {
        run("ip", &["netns", "delete", side])?;
    }
    remove_groups(&sides[0])?;
    if !mounts_below(dir).is_empty() {
        return Err(DrillError::new(format!(
            "cannot remove `{}`: it is still mounted",
            dir.display()
        )));
    }
    match fs::remove_dir_all(dir) {
        // Another process removed it first.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(DrillError::of(format!("cannot remove `{}`", dir.display()))),
    }
}

fn netns(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// Start time of a process in ticks since boot: unique together with its number.
fn started(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is a name in parentheses that may contain spaces.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn signal(id: u32, signal: Signal) {
    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _gone = kill_process(id, signal);
    }
}

fn undo_noted(dir: &Path) -> Result<()> {
    let text = fs::read_to_string(dir.join(UNDO)).unwrap_or_default();
    text.lines().rev().try_for_each(undo)
}

fn undo(line: &str) -> Result<()> {
    match line.split_once(' ') {
        Some(("process", rest)) => {
            let (id, ticks) = rest.split_once(' ').unwrap_or_default();
            if let (Ok(id), Ok(ticks)) = (id.parse(), ticks.parse::<u64>())
                && started(id) == Some(ticks)
            {
                signal(id, Signal::KILL);
            }
            Ok(())
        }
        Some(("file", path)) if Path::new(path).exists() => {
            fs::remove_file(path).map_err(DrillError::of(format!("cannot remove `{path}`")))
        }
        // The interface may be gone, or its queue never have been set.
        Some(("queue", device)) => {
            let queues = output("tc", &["qdisc", "show", "dev", device, "root"]);
            match queues.is_ok_and(|queues| queues.starts_with("qdisc tbf ")) {
                true => run("tc", &["qdisc", "del", "dev", device, "root"]),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Kills every process of a namespace, stopped ones too.
fn end_inside(name: &str) -> Result<()> {
    let Ok(meta) = fs::metadata(netns(name)) else { return Ok(()) };
    let id = (meta.dev(), meta.ino());
    for _ in 0..CHECKS {
        let inside = processes_in(id);
        if inside.is_empty() {
            return Ok(());
        }
        for process in inside {
            signal(process, Signal::KILL);
        }
        pause(Duration::from_millis(50));
    }
    Err(DrillError::new(format!("cannot end the processes of the namespace `{name}`")).hint(
        format!(
            "ip netns pids {name}; a process that waits for a disk ends when its I/O completes"
        ),
    ))
}

/// Processes in a network namespace. Zombies are in none.
fn processes_in(namespace: (u64, u64)) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let meta = fs::metadata(format!("/proc/{id}/ns/net"));
        *id != std::process::id() && meta.is_ok_and(|meta| (meta.dev(), meta.ino()) == namespace)
    })
    .collect()
}

/// Mount points below a directory, innermost first. Source: proc_pid_mountinfo(5).
fn mounts_below(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = text.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned);
    let mut below: Vec<String> = points.filter(|point| Path::new(point).starts_with(dir)).collect();
    below.reverse();
    below
}

/// Existing control groups of that name: below each controller of version 1, and in version 2.
fn groups(name: &str) -> impl Iterator<Item = PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    controllers
        .chain([root.to_owned()])
        .map(move |base| base.join(name))
        .filter(|group| group.is_dir())
}

/// Lifts I/O limits first: a process that waits for a throttled disk cannot be killed before its
/// I/O completes.
fn lift_throttles(name: &str) -> Result<()> {
    for group in groups(name) {
        for (file, none) in [("blkio.throttle.write_iops_device", "0"), ("io.max", "wiops=max")] {
            let limits = fs::read_to_string(group.join(file)).unwrap_or_default();
            for device in limits.lines().filter_map(|line| line.split_whitespace().next()) {
                fs::write(group.join(file), format!("{device} {none}"))?;
            }
        }
    }
    Ok(())
}

/// Removes the control groups of that name, of both versions.
fn remove_groups(name: &str) -> Result<()> {
    for group in groups(name) {
        // Its processes have ended, but the kernel may need a moment to empty the group.
        let removed = (0..CHECKS).any(|_| {
            let removed = fs::remove_dir(&group).is_ok() || !group.exists();
            if !removed {
                pause(Duration::from_millis(50));
            }
            removed
        });
        if !removed {
            return Err(DrillError::new(format!("cannot remove `{}`", group.display())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_identified_by_its_start_time() {
        let own = started(std::process::id()).expect("it runs");
        assert!(own > 0);
        assert_eq!(started(std::process::id()), Some(own));
        assert_eq!(started(u32::MAX), None);
    }

    #[test]
    fn a_lock_is_held_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = lock(dir.path()).expect("it can be made");
        assert!(held.is_some());
        assert!(lock(dir.path()).expect("it is there").is_none());
        drop(held);
        assert!(lock(dir.path()).expect("it is there").is_some());
    }
}
