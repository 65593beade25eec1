//! Opens files that other accounts or containers name, with the rights of their owners.
//!
//! Sources: openat2(2), path_resolution(7), credentials(7), proc(5), user_namespaces(7).
//! Two kinds of paths are not the operator's own. One begins with `/proc/PID/root`: it is opened
//! within that root, as the owner of the process. The other passes a symbolic link that an
//! ordinary account made: it is opened as that account. The surprising thing: a program that is
//! started by an ordinary account through a set-user-id file has the effective user root, so only
//! a process whose four user ids are all root counts as root's.

mod account;
mod process;
mod refusal;
#[cfg(test)]
mod tests;
mod walk;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};

pub use process::is_trusted_process;
use process::{ProcessOwner, ProcessPath};
pub use refusal::hint_of;
use refusal::refused;
use walk::{WalkEnd, walk};

/// Opens a regular file or a directory for reading, and never waits for a writer of a pipe.
///
/// # Errors
/// As open(2), and when the account that named the file could not read it: see [`hint_of`].
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open_with(path, flags)?);
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Ok(file);
    }
    Err(refused("it is not a regular file", "name a regular file"))
}

/// Reads a whole regular file of at most `limit` bytes, opened as in [`open`].
///
/// # Errors
/// As [`open`], and when the file is larger.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Connects to a Unix socket; its owner's rights apply as in [`open`].
///
/// # Errors
/// As connect(2), and when the account that named the socket could not connect to it.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = open_with(path, OFlags::PATH | OFlags::CLOEXEC)?;
    let entry = format!("/proc/self/fd/{}", socket.as_raw_fd());
    as_owner_of(path, || UnixStream::connect(entry))?
}

/// Runs `action` as the owner of the process whose root `path` is in; for other paths, and for
/// root's processes, as weir itself.
///
/// # Errors
/// When the process has ended, or weir may not act as its owner.
pub fn as_owner_of<T: Send>(path: &Path, action: impl FnOnce() -> T + Send) -> io::Result<T> {
    match ProcessPath::of(path)? {
        Some(ProcessPath { owner: ProcessOwner::Ordinary(owner), .. }) => owner.account.run(action),
        _ => Ok(action()),
    }
}

/// Whether `path` is the operator's own: outside of other roots, with links of root or weir only.
pub fn is_operators(path: &Path) -> bool {
    let is_own = |path: &Path| -> io::Result<bool> {
        if ProcessPath::of(path)?.is_some() {
            return Ok(false);
        }
        let path = std::path::absolute(path)?;
        Ok(matches!(walk(&host_root()?, &path, OFlags::PATH, false)?, WalkEnd::Opened(_)))
    };
    is_own(path).unwrap_or(false)
}

fn host_root() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, "/", flags, Mode::empty())?)
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let (root, inner, is_container) = match ProcessPath::of(path)? {
        Some(place) => match &place.owner {
            ProcessOwner::Ordinary(owner) => return owner.open(&place, flags),
            ProcessOwner::Trusted => (place.root, place.inner, true),
        },
        None => (host_root()?, std::path::absolute(path)?, false),
    };
    match walk(&root, &inner, flags, is_container)? {
        WalkEnd::Opened(file) => Ok(file),
        WalkEnd::Stranger { user_id, what } => {
            let account = account::Account::of_user(user_id);
            account.open_within(&root, &inner, flags).map_err(|error| {
                refusal::because(error, &format!("{what} {}, who may not read it", account.name()))
            })
        }
    }
}
