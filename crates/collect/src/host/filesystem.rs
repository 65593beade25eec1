//! Room left on every file system that holds data: statvfs(3) of what `/proc/self/mounts` lists.
//!
//! statvfs of a file system whose server is gone never returns, not even for a kill. So network and FUSE file systems
//! are not asked, nor is anything mounted below one.
//!
//! Asking is cheap, rows stay: each is asked every two seconds, and has a row when that says something new or ten have passed.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, stat, statvfs};
use weir_tables::{Batch, Filesystem, FilesystemRows, Micros};

use super::mounts::{Mount, read_mounts};
use super::{Collector, View, take};
use crate::CollectError;

/// Types that hold data on this machine.
const LOCAL: [&str; 20] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "bcachefs", "f2fs", "jfs", "reiserfs", "vfat",
    "exfat", "ntfs3", "udf", "nilfs2", "ubifs", "overlay", "tmpfs", "ramfs", "hfsplus",
];
/// Types that depend on another machine or process: never touched.
const REMOTE: [&str; 16] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "ceph",
    "glusterfs",
    "9p",
    "afs",
    "lustre",
    "beegfs",
    "ocfs2",
    "gfs2",
    "gpfs",
    "autofs",
    "virtiofs",
];
/// Smaller temporary file systems hold no data but keep something out of sight.
const SMALLEST_BYTES: i64 = 1 << 20;
/// Most file systems.
const FILESYSTEM_LIMIT: usize = 512;

/// A row is due after this,
const ROW_SECONDS: f64 = 9.5;
/// or when the room that is left changed by this share of the whole.
const NEWS_SHARE: i64 = 100;

/// See the module.
#[derive(Debug)]
pub(super) struct FilesystemCollector {
    rows: FilesystemRows,
    /// What the last row of each device said.
    told: HashMap<u64, (Micros, Room)>,
}

impl FilesystemCollector {
    pub(super) fn new(_view: &View) -> Self {
        Self { rows: FilesystemRows::default(), told: HashMap::new() }
    }
}

impl Collector for FilesystemCollector {
    fn name(&self) -> &'static str {
        "filesystem"
    }

    fn every_seconds(&self) -> f64 {
        2.0
    }

    fn collect(
        &mut self,
        view: &mut View,
        now: Micros,
        out: &mut Vec<Batch>,
    ) -> Result<(), CollectError> {
        view.require_live("measure file systems")?;
        let mut result = Ok(());
        let mut seen = HashSet::new();
        for mount in local(read_mounts(view)?).into_iter().take(FILESYSTEM_LIMIT) {
            let path = view.path(&mount.point.to_string_lossy());
            match measure(&path) {
                Ok(room) if seen.insert(room.device_number) => {
                    self.tell(&mount, room, &view.host, now);
                }
                Ok(_) => {}
                // Others' private mounts, such as a user's run-time directory, are listed but closed to weir.
                Err(rustix::io::Errno::ACCESS) => {}
                Err(error) => result = Err(CollectError::reading(&path, &error.into())),
            }
        }
        self.told.retain(|device, _| seen.contains(device));
        take(&mut self.rows, out);
        result
    }
}

impl FilesystemCollector {
    fn tell(&mut self, mount: &Mount, room: Room, host: &str, now: Micros) {
        let is_known = self.told.get(&room.device_number).is_some_and(|(at, told)| {
            *at <= now && now.seconds_since(*at) < ROW_SECONDS && !room.is_news(told)
        });
        if !is_known {
            self.push(mount, &room, host, now);
            self.told.insert(room.device_number, (now, room));
        }
    }

    fn push(&mut self, mount: &Mount, room: &Room, host: &str, now: Micros) {
        let is_memory = matches!(mount.kind.as_str(), "tmpfs" | "ramfs");
        if room.size_bytes == 0 || is_memory && room.size_bytes < SMALLEST_BYTES {
            return;
        }
        self.rows.push(&Filesystem {
            ts: now,
            host,
            mount_point: &mount.point.to_string_lossy(),
            device: &mount.device,
            filesystem_type: &mount.kind,
            is_read_only: room.is_read_only || mount.has_option("ro"),
            size_bytes: room.size_bytes,
            free_bytes: room.free_bytes,
            available_bytes: room.available_bytes,
            inodes_total: room.inodes_total,
            inodes_free: room.inodes_free,
        });
    }
}

#[derive(Debug)]
struct Room {
    device_number: u64,
    is_read_only: bool,
    size_bytes: i64,
    free_bytes: i64,
    available_bytes: i64,
    inodes_total: i64,
    inodes_free: i64,
}

impl Room {
    fn is_news(&self, told: &Self) -> bool {
        let moved = |now: i64, then: i64, whole: i64| (now - then).abs() > whole / NEWS_SHARE;
        self.is_read_only != told.is_read_only
            || self.size_bytes != told.size_bytes
            || moved(self.available_bytes, told.available_bytes, self.size_bytes)
            || moved(self.inodes_free, told.inodes_free, self.inodes_total)
    }
}

fn measure(path: &Path) -> rustix::io::Result<Room> {
    let found = statvfs(path)?;
    let bytes =
        |blocks: u64| i64::try_from(blocks.saturating_mul(found.f_frsize)).unwrap_or(i64::MAX);
    let count = |inodes: u64| i64::try_from(inodes).unwrap_or(i64::MAX);
    Ok(Room {
        device_number: stat(path)?.st_dev,
        is_read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
        size_bytes: bytes(found.f_blocks),
        free_bytes: bytes(found.f_bfree),
        available_bytes: bytes(found.f_bavail),
        inodes_total: count(found.f_files),
        inodes_free: count(found.f_ffree),
    })
}

/// The mounts that are safe to ask, shortest path first; of two on one path the later, which hides the other.
fn local(mounts: Vec<Mount>) -> Vec<Mount> {
    let is_remote =
        |mount: &Mount| REMOTE.contains(&mount.kind.as_str()) || mount.kind.starts_with("fuse");
    let remote: Vec<PathBuf> =
        mounts.iter().filter(|mount| is_remote(mount)).map(|mount| mount.point.clone()).collect();
    let mut kept: Vec<Mount> = Vec::new();
    for mount in mounts {
        kept.retain(|earlier| earlier.point != mount.point);
        let is_kernels = ["/sys", "/proc"].iter().any(|point| mount.point.starts_with(point));
        let is_below_remote = remote.iter().any(|point| mount.point.starts_with(point));
        if LOCAL.contains(&mount.kind.as_str()) && !is_below_remote && !is_kernels {
            kept.push(mount);
        }
    }
    kept.sort_by_key(|mount| mount.point.as_os_str().len());
    kept
}

#[cfg(test)]
mod tests {
    use weir_tables::Rows;

    use super::*;

    fn mount(point: &str, kind: &str) -> Mount {
        Mount {
            device: "none".into(),
            point: point.into(),
            kind: kind.into(),
            options: "rw".into(),
        }
    }

    #[test]
    fn nothing_on_or_below_a_network_file_system_is_asked() {
        let kept = local(vec![
            mount("/srv/nfs", "nfs4"),
            mount("/srv/nfs/scratch", "ext4"),
            mount("/mnt/s3", "fuse.s3fs"),
            mount("/srv", "xfs"),
            mount("/proc", "proc"),
            mount("/sys/fs/cgroup", "tmpfs"),
            mount("/", "ext4"),
        ]);
        let points: Vec<_> = kept.iter().map(|mount| mount.point.to_str().unwrap()).collect();
        assert_eq!(points, ["/", "/srv"]);
    }

    #[test]
    fn mount_that_is_hidden_by_a_later_one_is_left_out() {
        let kept = local(vec![mount("/data", "ext4"), mount("/data", "nfs")]);
        assert_eq!(kept, []);
        let kept = local(vec![mount("/data", "ext4"), mount("/data", "xfs")]);
        assert_eq!(kept[0].kind, "xfs");
    }

    #[test]
    fn a_row_is_due_after_ten_seconds_and_when_the_room_moved() {
        let room = |available_bytes: i64, inodes_free: i64, is_read_only: bool| Room {
            device_number: 7,
            is_read_only,
            size_bytes: 1000,
            free_bytes: 900,
            available_bytes,
            inodes_total: 1000,
            inodes_free,
        };
        let mut collector =
            FilesystemCollector { rows: FilesystemRows::default(), told: HashMap::new() };
        let mut rows = |second: i64, room: Room| {
            collector.tell(&mount("/data", "ext4"), room, "web1", Micros(second * 1_000_000));
            collector.rows.len()
        };
        assert_eq!(rows(0, room(500, 500, false)), 1);
        assert_eq!(rows(2, room(495, 505, false)), 1, "hardly moved");
        assert_eq!(rows(4, room(485, 500, false)), 2, "bytes");
        assert_eq!(rows(6, room(485, 480, false)), 3, "inodes");
        assert_eq!(rows(8, room(485, 480, true)), 4, "read only");
        assert_eq!(rows(16, room(485, 480, true)), 4);
        assert_eq!(rows(18, room(485, 480, true)), 5, "ten seconds");
        assert_eq!(rows(3, room(485, 480, true)), 6, "the clock went back");
    }

    #[test]
    fn room_of_the_root_adds_up() {
        let room = measure(Path::new("/")).unwrap();
        assert!(room.size_bytes >= room.free_bytes && room.free_bytes >= room.available_bytes);
        assert!(measure(Path::new("/does/not/exist")).is_err());
    }
}
