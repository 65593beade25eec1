//! What need not be checked: files that are not written, directories in which no name changes.
//!
//! Sources: inotify(7), inode(7). A quiet file is left to inotify for one event, and then polled
//! again: so a busy file costs no events, and the queue has at most one event per file. The
//! modification time of a directory shows whether a name in it was created, renamed or removed.
//! Both are still checked every [`TRUST`]. The surprising thing: inotify does not report writes by
//! another machine or through `mmap`, so only files of local file systems are left to it.

use std::collections::HashMap;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init, remove_watch};
use weir_tables::Micros;

/// How long the absence of events is trusted.
pub(super) const TRUST: Duration = Duration::from_secs(60);
/// A directory is quiet after this time: time stamps of file systems are as coarse as 2 s.
const QUIET_AFTER: Duration = Duration::from_secs(10);

/// ext, XFS, Btrfs, F2FS, ZFS and tmpfs, by the magic numbers of statfs(2).
const LOCAL: [u64; 6] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x2FC1_2FC1, 0x0102_1994];

/// Files that are left to inotify, by their keys.
#[derive(Debug, Default)]
pub(super) struct InotifyWatches {
    inotify: Option<OwnedFd>,
    is_refused: bool,
    keys: HashMap<i32, u64>,
    watches: HashMap<u64, i32>,
}

impl InotifyWatches {
    /// Leaves a file to inotify until its next event, if possible. Check it once more afterwards.
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
                // The user has too many watches: other files are polled.
                self.is_refused = error == rustix::io::Errno::NOSPC;
                false
            }
        }
    }

    pub(super) fn remove(&mut self, key: u64) {
        if let (Some(watch), Some(inotify)) = (self.watches.remove(&key), &self.inotify) {
            self.keys.remove(&watch);
            let _gone_already = remove_watch(inotify, watch);
        }
    }

    /// Takes the files with events; they are not watched any more.
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

const DIRECTORY_EVERY: Duration = Duration::from_secs(2);

/// Directories, and the time since which no name in them has changed.
#[derive(Debug, Default)]
pub(super) struct DirectoryWatch {
    all: HashMap<PathBuf, DirectoryState>,
    checked_at: Option<Micros>,
}

#[derive(Debug)]
struct DirectoryState {
    stamp: Option<(u64, u64, i64, i64)>,
    checked_at: Micros,
    changed_at: Micros,
    used_at: Micros,
    is_news: bool,
}

impl DirectoryState {
    fn check(&mut self, directory: &Path, now: Micros) {
        if self.checked_at == now {
            return;
        }
        let stamp = stamp(directory);
        if self.stamp != stamp || stamp.is_none() || now < self.checked_at {
            self.changed_at = now;
            self.is_news = true;
        }
        (self.stamp, self.checked_at) = (stamp, now);
    }
}

fn stamp(directory: &Path) -> Option<(u64, u64, i64, i64)> {
    let metadata = directory.metadata().ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
}

impl DirectoryWatch {
    /// Whether no name in `directory` has changed for some time.
    pub(super) fn is_quiet(&mut self, directory: &Path, now: Micros) -> bool {
        if let Some(state) = self.all.get_mut(directory) {
            state.check(directory, now);
            state.used_at = now;
            return now >= state.changed_at + QUIET_AFTER;
        }
        let (checked_at, changed_at, used_at) = (now, now, now);
        let stamp = stamp(directory);
        let state = DirectoryState { stamp, checked_at, changed_at, used_at, is_news: false };
        self.all.insert(directory.to_owned(), state);
        false
    }

    /// Takes the directories in which a name has changed, every two seconds.
    pub(super) fn changed(&mut self, now: Micros) -> Vec<PathBuf> {
        if self.checked_at.is_some_and(|at| now < at + DIRECTORY_EVERY && now >= at) {
            return Vec::new();
        }
        self.checked_at = Some(now);
        let mut changed = Vec::new();
        for (directory, state) in &mut self.all {
            state.check(directory, now);
            if std::mem::take(&mut state.is_news) {
                changed.push(directory.clone());
            }
        }
        changed
    }

    /// Drops directories that were not used for a while.
    pub(super) fn clean(&mut self, now: Micros) {
        self.all.retain(|_, state| now < state.used_at + TRUST + TRUST);
    }
}
