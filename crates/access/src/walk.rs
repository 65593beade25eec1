//! Resolves a path step by step, to see who made each link in it.
//!
//! Source: path_resolution(7), symlink(7), and `protected_hardlinks` in proc_sys_fs(5). A link is
//! trusted when both it and its directory belong to root or to weir's account. Each step holds a
//! descriptor and follows nothing by itself, so a name that is exchanged meanwhile is not followed.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::getuid;

use crate::process::is_procfs;
use crate::refusal::refused;

/// As the kernel's `MAXSYMLINKS`.
const LINK_LIMIT: usize = 40;

#[derive(Debug)]
pub(crate) enum WalkEnd {
    Opened(OwnedFd),
    /// An ordinary account decided where the path leads; `what` begins the explanation.
    Stranger {
        user_id: u32,
        what: &'static str,
    },
}

fn is_trusted(user_id: u32) -> bool {
    user_id == 0 || user_id == getuid().as_raw()
}

/// Opens an absolute path with `flags`; in a container no link of procfs is followed.
pub(crate) fn walk(
    root: &OwnedFd,
    path: &Path,
    flags: OFlags,
    is_container: bool,
) -> io::Result<WalkEnd> {
    let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directories = vec![root.try_clone()?];
    let mut rest: VecDeque<OsString> = names(path);
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        let directory = directories.last().expect("the root stays");
        if name == ".." {
            directories.truncate((directories.len() - 1).max(1));
            continue;
        }
        let entry = openat(directory, &name, step, Mode::empty())?;
        let stat = fstat(&entry)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            if rest.is_empty() {
                return open_last(directory, &name, flags);
            }
            directories.push(entry);
            continue;
        }
        links += 1;
        if links > LINK_LIMIT {
            return Err(Errno::LOOP.into());
        }
        if let Some(stranger) = link_stranger(&fstat(directory)?, &stat) {
            return Ok(stranger);
        }
        if is_procfs(directory) {
            if is_container {
                let hint = "read the container's output, or write the log to a file";
                return Err(refused("it is a stream of its container, not a file", hint));
            }
            if rest.is_empty() {
                return Ok(WalkEnd::Opened(openat(directory, &name, flags, Mode::empty())?));
            }
            let entered = openat(directory, &name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            directories.push(entered);
            continue;
        }
        let target = readlinkat(directory, &name, Vec::new())?.into_bytes();
        let target = PathBuf::from(OsString::from_vec(target));
        if target.is_absolute() {
            directories.truncate(1);
        }
        for name in names(&target).into_iter().rev() {
            rest.push_front(name);
        }
    }
    let directory = directories.last().expect("the root stays");
    Ok(WalkEnd::Opened(openat(directory, ".", flags, Mode::empty())?))
}

fn names(path: &Path) -> VecDeque<OsString> {
    let named = |part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(named).collect()
}

fn link_stranger(directory: &Stat, link: &Stat) -> Option<WalkEnd> {
    if !is_trusted(directory.st_uid) {
        let what = "it is behind a link in a directory of";
        return Some(WalkEnd::Stranger { user_id: directory.st_uid, what });
    }
    let what = "it is behind a link of";
    (!is_trusted(link.st_uid)).then_some(WalkEnd::Stranger { user_id: link.st_uid, what })
}

/// Opens the last name, and checks what was opened: it may be a hard link to a file of others.
fn open_last(directory: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<WalkEnd> {
    let file = openat(directory, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    let [here, stat] = [fstat(directory)?, fstat(&file)?];
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_regular || stat.st_nlink < 2 {
        return Ok(WalkEnd::Opened(file));
    }
    if !is_trusted(here.st_uid) && stat.st_uid != here.st_uid {
        let what = "it is a hard link to another user's file in a directory of";
        return Ok(WalkEnd::Stranger { user_id: here.st_uid, what });
    }
    let is_shared = here.st_mode & 0o022 != 0;
    if is_shared && is_trusted(stat.st_uid) && stat.st_mode & 0o004 == 0 {
        let why = "it is a hard link to a private file, in a directory that others may write to";
        return Err(refused(why, "remove the other link, or name that one"));
    }
    Ok(WalkEnd::Opened(file))
}
