//! What need not be looked at: files that nobody writes to, directories in which no name changes.
//!
//! Sources: inotify(7), inode(7). A file that has been quiet is left to inotify, for one event,
//! after which it is polled again: so a busy file costs no events, and the queue holds one event a
//! file at most. A directory's time of the last write says whether a name in it was made, renamed
//! or removed. Both are checked every [`TRUST`] all the same. The surprising thing: inotify tells
//! nothing of writes by another machine or through `mmap`, so only files of local file systems are
//! left to it.

use std::collections::HashMap;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init, remove_watch};
use weir_tables::Micros;

/// For how long the absence of news is believed.
pub(super) const TRUST: Duration = Duration::from_secs(60);
/// A directory counts as quiet so long after its last change: times of file systems are as coarse
/// as 2 s.
const QUIET_AFTER: Duration = Duration::from_secs(10);

/// ext, XFS, Btrfs, F2FS, ZFS and tmpfs, by the magic numbers of statfs(2).
const LOCAL: [u64; 6] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x2FC1_2FC1, 0x0102_1994];

/// Files that are left to inotify, by their keys.
#[derive(Debug, Default)]
pub(super) struct Watches {
    inotify: Option<OwnedFd>,
    is_refused: bool,
    keys: HashMap<i32, u64>,
    watches: HashMap<u64, i32>,
}

impl Watches {
    /// Leaves a file to inotify until something happens to it; gives whether that can be. Look at
    /// it once more afterwards.
    pub(super) fn add(&mut self, key: u64, file: &File) -> bool {
        if self.watches.contains_key(&key) {
            return true;
        }
        if self.is_refused || !is_local(file) {
            return false;
        }
        if self.inotify.is_none() {
            self.inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        }
        let Some(inotify) = &self.inotify else {
            self.is_refused = true;
            return false;
        };
        let flags = WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVE_SELF
            | WatchFlags::DELETE_SELF
            | WatchFlags::ONESHOT;
        // By descriptor, since the file may have another name by now, or none.
        match add_watch(inotify, format!("/proc/self/fd/{}", file.as_raw_fd()), flags) {
            Ok(watch) => {
                self.keys.insert(watch, key);
                self.watches.insert(key, watch);
                true
            }
            Err(error) => {
                // Too many watches of this user: the rest is polled.
                self.is_refused = error == rustix::io::Errno::NOSPC;
                false
            }
        }
    }

    /// The file is closed.
    pub(super) fn remove(&mut self, key: u64) {
        if let (Some(watch), Some(inotify)) = (self.watches.remove(&key), &self.inotify) {
            self.keys.remove(&watch);
            let _gone_already = remove_watch(inotify, watch);
        }
    }

    /// Files to which something has happened; they are not watched any more.
    pub(super) fn take(&mut self) -> Vec<u64> {
        let Some(inotify) = &self.inotify else { return Vec::new() };
        let mut block = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(inotify, &mut block);
        let mut found = Vec::new();
        while let Ok(event) = reader.next() {
            if let Some(key) = self.keys.remove(&event.wd()) {
                self.watches.remove(&key);
                found.push(key);
            }
        }
        found
    }
}

fn is_local(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|fs| {
        u64::try_from(fs.f_type).is_ok_and(|kind| LOCAL.contains(&(kind & 0xFFFF_FFFF)))
    })
}

/// How often directories are looked at.
const DIRECTORY_EVERY: Duration = Duration::from_secs(2);

/// Directories, and since when no name in them has changed.
#[derive(Debug, Default)]
pub(super) struct Directories {
    all: HashMap<PathBuf, Seen>,
    looked_at: Option<Micros>,
}

#[derive(Debug)]
struct Seen {
    /// Device, inode, and when it was last written.
    stamp: Option<(u64, u64, i64, i64)>,
    looked_at: Micros,
    changed_at: Micros,
    asked_at: Micros,
    is_news: bool,
}

impl Seen {
    fn look(&mut self, directory: &Path, now: Micros) {
        if self.looked_at == now {
            return;
        }
        let stamp = stamp(directory);
        if self.stamp != stamp || stamp.is_none() || now < self.looked_at {
            self.changed_at = now;
            self.is_news = true;
        }
        (self.stamp, self.looked_at) = (stamp, now);
    }
}

fn stamp(directory: &Path) -> Option<(u64, u64, i64, i64)> {
    let metadata = directory.metadata().ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
}

impl Directories {
    /// Whether no name in `directory` has changed for some time.
    pub(super) fn is_quiet(&mut self, directory: &Path, now: Micros) -> bool {
        if let Some(seen) = self.all.get_mut(directory) {
            seen.look(directory, now);
            seen.asked_at = now;
            return now >= seen.changed_at + QUIET_AFTER;
        }
        let (looked_at, changed_at, asked_at) = (now, now, now);
        let stamp = stamp(directory);
        let seen = Seen { stamp, looked_at, changed_at, asked_at, is_news: false };
        self.all.insert(directory.to_owned(), seen);
        false
    }

    /// Those of which a name has changed, every two seconds.
    pub(super) fn changed(&mut self, now: Micros) -> Vec<PathBuf> {
        if self.looked_at.is_some_and(|at| now < at + DIRECTORY_EVERY && now >= at) {
            return Vec::new();
        }
        self.looked_at = Some(now);
        let mut changed = Vec::new();
        for (directory, seen) in &mut self.all {
            seen.look(directory, now);
            if std::mem::take(&mut seen.is_news) {
                changed.push(directory.clone());
            }
        }
        changed
    }

    /// Forgets those that nobody asked about for a while.
    pub(super) fn clean(&mut self, now: Micros) {
        self.all.retain(|_, seen| now < seen.asked_at + TRUST + TRUST);
    }
}
