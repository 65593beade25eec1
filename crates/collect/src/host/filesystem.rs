//! Free space of file systems that hold data: statvfs(3) for the mounts in `/proc/self/mounts`.
//!
//! statvfs on a file system whose server is gone never returns, not even for a kill. So network and
//! FUSE file systems, and anything mounted below one, are skipped.
//!
//! Sampling is cheap, storing is not: each file system is sampled every two seconds and has a row
//! when its figures changed or after ten seconds.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, stat, statvfs};
use weir_tables::{Batch, Filesystem, FilesystemRows, Micros};

use super::mounts::{Mount, read_mounts};
use super::{CollectResult, Collector, View, take};
use crate::CollectError;

/// File system types that hold data on this machine.
const LOCAL: [&str; 20] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "bcachefs", "f2fs", "jfs", "reiserfs", "vfat",
    "exfat", "ntfs3", "udf", "nilfs2", "ubifs", "overlay", "tmpfs", "ramfs", "hfsplus",
];
/// File system types that depend on another machine or process; never touched.
const REMOTE: &str = "\
    nfs nfs4 cifs smb3 smbfs ceph glusterfs 9p afs lustre beegfs ocfs2 gfs2 gpfs autofs virtiofs";
/// Smaller temporary file systems hold no data.
const SMALLEST_BYTES: i64 = 1 << 20;
const FILESYSTEM_LIMIT: usize = 512;

const ROW_SECONDS: f64 = 9.5;
/// A row is also due when free space or inodes changed by more than 1/`NEWS_SHARE` of the total.
const NEWS_SHARE: i64 = 100;

#[derive(Debug, Default)]
pub(super) struct FilesystemCollector {
    rows: FilesystemRows,
    reported: HashMap<u64, (Micros, FilesystemSpace)>,
}

impl Collector for FilesystemCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        view.require_live("measure file systems")?;
        let mut result = Ok(());
        let mut seen = HashSet::new();
        for mount in local(read_mounts(view)?).into_iter().take(FILESYSTEM_LIMIT) {
            let path = view.path(&mount.point.to_string_lossy());
            match measure(&path) {
                Ok(room) if seen.insert(room.device_number) => {
                    self.report(&mount, room, &view.host, now);
                }
                Ok(_) => {}
                // Private mounts of other users are listed but not accessible.
                Err(rustix::io::Errno::ACCESS) => {}
                Err(error) => result = Err(CollectError::reading(&path, &error.into())),
            }
        }
        self.reported.retain(|device, _| seen.contains(device));
        take(&mut self.rows, out);
        result
    }
}

impl FilesystemCollector {
    fn report(&mut self, mount: &Mount, room: FilesystemSpace, host: &str, now: Micros) {
        let is_known = self.reported.get(&room.device_number).is_some_and(|(at, reported)| {
            *at <= now && now.seconds_since(*at) < ROW_SECONDS && !room.is_news(reported)
        });
        if !is_known {
            self.push(mount, &room, host, now);
            self.reported.insert(room.device_number, (now, room));
        }
    }

    fn push(&mut self, mount: &Mount, room: &FilesystemSpace, host: &str, now: Micros) {
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
struct FilesystemSpace {
    device_number: u64,
    is_read_only: bool,
    size_bytes: i64,
    free_bytes: i64,
    available_bytes: i64,
    inodes_total: i64,
    inodes_free: i64,
}

impl FilesystemSpace {
    fn is_news(&self, reported: &Self) -> bool {
        let available_change = (self.available_bytes - reported.available_bytes).abs();
        let inode_change = (self.inodes_free - reported.inodes_free).abs();
        self.is_read_only != reported.is_read_only
            || self.size_bytes != reported.size_bytes
            || available_change > self.size_bytes / NEWS_SHARE
            || inode_change > self.inodes_total / NEWS_SHARE
    }
}

fn measure(path: &Path) -> rustix::io::Result<FilesystemSpace> {
    let found = statvfs(path)?;
    let bytes =
        |blocks: u64| i64::try_from(blocks.saturating_mul(found.f_frsize)).unwrap_or(i64::MAX);
    Ok(FilesystemSpace {
        device_number: stat(path)?.st_dev,
        is_read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
        size_bytes: bytes(found.f_blocks),
        free_bytes: bytes(found.f_bfree),
        available_bytes: bytes(found.f_bavail),
        inodes_total: i64::try_from(found.f_files).unwrap_or(i64::MAX),
        inodes_free: i64::try_from(found.f_ffree).unwrap_or(i64::MAX),
    })
}

/// Mounts that are safe to query, shortest path first; later mounts hide earlier ones.
fn local(mounts: Vec<Mount>) -> Vec<Mount> {
    let is_remote = |mount: &Mount| {
        REMOTE.split(' ').any(|kind| kind == mount.kind) || mount.kind.starts_with("fuse")
    };
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
    fn nothing_on_or_below_a_network_file_system_is_queried() {
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
    fn a_row_is_due_after_ten_seconds_and_when_the_free_space_changed() {
        let room = |available_bytes: i64, inodes_free: i64, is_read_only: bool| FilesystemSpace {
            device_number: 7,
            is_read_only,
            size_bytes: 1000,
            free_bytes: 900,
            available_bytes,
            inodes_total: 1000,
            inodes_free,
        };
        let mut collector = FilesystemCollector::default();
        let mut rows = |second: i64, room: FilesystemSpace| {
            collector.report(&mount("/data", "ext4"), room, "web1", Micros(second * 1_000_000));
            collector.rows.len()
        };
        assert_eq!(rows(0, room(500, 500, false)), 1);
        assert_eq!(rows(2, room(495, 505, false)), 1, "small change");
        assert_eq!(rows(4, room(485, 500, false)), 2, "bytes");
        assert_eq!(rows(6, room(485, 480, false)), 3, "inodes");
        assert_eq!(rows(8, room(485, 480, true)), 4, "read only");
        assert_eq!(rows(16, room(485, 480, true)), 4);
        assert_eq!(rows(18, room(485, 480, true)), 5, "ten seconds");
        assert_eq!(rows(3, room(485, 480, true)), 6, "the clock went back");
    }

    #[test]
    fn space_of_the_root_adds_up() {
        let room = measure(Path::new("/")).unwrap();
        assert!(room.size_bytes >= room.free_bytes && room.free_bytes >= room.available_bytes);
        assert!(measure(Path::new("/does/not/exist")).is_err());
    }
}
