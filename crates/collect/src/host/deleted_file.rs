//! Deleted files that still take up space: open links in `/proc/PID/fd` to ` (deleted)` files.
//!
//! Walking all descriptors of a busy host takes tens of milliseconds, so it is rate-limited. Memory
//! files (`/memfd:`, `/dev/shm`) take no disk space.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use weir_tables::{Batch, DeletedFile, DeletedFileRows, Micros};

use super::process::{comm, process_ids};
use super::run::{DutyCycle, Stopwatch};
use super::{CollectResult, Collector, View, take};

const EVERY_SECONDS: f64 = 10.0;
const DUTY_CYCLE: DutyCycle =
    DutyCycle { cost_ratio: 0.0005, pause_seconds: (EVERY_SECONDS - 1.0, 3600.0) };
/// Smaller files are ignored.
const SMALLEST_BYTES: u64 = 1 << 20;
const ROW_LIMIT: usize = 100;
const DESCRIPTOR_LIMIT: usize = 1_000_000;
const MARK: &str = " (deleted)";

#[derive(Debug, Default)]
pub(super) struct DeletedFileCollector {
    rows: DeletedFileRows,
    next: Option<Micros>,
}

#[derive(Debug)]
struct OpenDeletedFile {
    process_id: u32,
    descriptor: i64,
    path: String,
    device: u64,
    bytes: u64,
}

impl Collector for DeletedFileCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        if !view.is_live || !DUTY_CYCLE.is_due(self.next, now) {
            return Ok(());
        }
        let stopwatch = Stopwatch::start();
        let proc = view.path("proc");
        let mut held = find(&proc);
        held.sort_by_key(|file| std::cmp::Reverse(file.bytes));
        held.truncate(ROW_LIMIT);
        let mounts = if held.is_empty() { Vec::new() } else { mounts(&proc) };
        for file in &held {
            let mount_point = mounts.iter().find(|(device, _)| *device == file.device);
            self.rows.push(&DeletedFile {
                ts: now,
                host: &view.host,
                process_id: file.process_id.into(),
                process_name: &comm(&proc.join(file.process_id.to_string())),
                descriptor: file.descriptor,
                path: &file.path,
                mount_point: mount_point.map(|(_, point)| point.as_str()),
                used_bytes: i64::try_from(file.bytes).unwrap_or(i64::MAX),
            });
        }
        take(&mut self.rows, out);
        self.next = Some(DUTY_CYCLE.next_run(stopwatch.stop(), now));
        Ok(())
    }
}

/// Each deleted file once, with the lowest process id that has it open.
fn find(proc: &Path) -> Vec<OpenDeletedFile> {
    let mut found: BTreeMap<(u64, u64), OpenDeletedFile> = BTreeMap::new();
    let mut left = DESCRIPTOR_LIMIT;
    let mut processes: Vec<u32> = process_ids(proc).collect();
    processes.sort_unstable();
    for process_id in processes {
        let Ok(entries) = fs::read_dir(proc.join(format!("{process_id}/fd"))) else { continue };
        for entry in entries.flatten() {
            left = left.saturating_sub(1);
            if left == 0 {
                return found.into_values().collect();
            }
            let path = entry.path();
            let Some(target) = fs::read_link(&path).ok().as_deref().and_then(deleted) else {
                continue;
            };
            let Ok(file) = fs::metadata(&path) else { continue };
            let bytes = file.blocks().saturating_mul(512);
            if !file.is_file() || file.nlink() > 0 || bytes < SMALLEST_BYTES {
                continue;
            }
            let descriptor = entry.file_name().to_str().and_then(|name| name.parse().ok());
            found.entry((file.dev(), file.ino())).or_insert(OpenDeletedFile {
                process_id,
                descriptor: descriptor.unwrap_or_default(),
                path: target,
                device: file.dev(),
                bytes,
            });
        }
    }
    found.into_values().collect()
}

fn deleted(target: &Path) -> Option<String> {
    let target = target.to_str()?.strip_suffix(MARK)?;
    let is_memory = ["/memfd:", "/dev/", "/SYSV", "/[aio]", "/anon_"];
    let is_memory = is_memory.iter().any(|start| target.starts_with(start));
    (!is_memory && target.starts_with('/')).then(|| target.to_owned())
}

/// Device numbers with their mount points, shortest first: `36 35 98:0 /mnt1 /mnt2 rw,noatime …`.
fn mounts(proc: &Path) -> Vec<(u64, String)> {
    let text = fs::read_to_string(proc.join("self/mountinfo")).unwrap_or_default();
    let mut found: Vec<(u64, String)> = text.lines().filter_map(parse_mount).collect();
    found.sort_by_key(|(_, point)| point.len());
    found
}

fn parse_mount(line: &str) -> Option<(u64, String)> {
    let mut fields = line.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let point = fields.nth(1)?.to_owned();
    Some((rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?), point))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn deleted_file_that_is_held_open_is_found_with_its_size() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("big.log");
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&vec![b'x'; 3 << 20]).unwrap();
        file.sync_all().unwrap();
        let is_ours = |held: &OpenDeletedFile| held.path == path.to_str().unwrap();
        assert!(!find(Path::new("/proc")).iter().any(is_ours));
        fs::remove_file(&path).unwrap();
        let found = find(Path::new("/proc"));
        let held = found.iter().find(|held| is_ours(held)).unwrap();
        assert_eq!(held.process_id, std::process::id());
        assert!(held.bytes >= 3 << 20);
        drop(file);
        assert!(!find(Path::new("/proc")).iter().any(is_ours));
    }

    #[test]
    fn memory_and_sockets_are_no_files() {
        for target in ["/memfd:x (deleted)", "/dev/zero (deleted)", "socket:[1]", "/var/log/a"] {
            assert_eq!(deleted(Path::new(target)), None);
        }
        assert_eq!(deleted(Path::new("/var/a (deleted)")).unwrap(), "/var/a");
    }
}
