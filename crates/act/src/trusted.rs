//! Files that only root can change: opened component by component without following symlinks
//! (openat2(2)), each with its owner and mode checked on the open descriptor, so that nothing can
//! be swapped between check and use.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use crate::error::ActError;

/// Write permission of group and others.
const OTHERS_WRITE: u32 = 0o022;
/// Setuid and setgid.
const SET_ID: u32 = 0o6000;
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// A directory that stands for `/`, and the user that must own everything on the path of a file.
#[derive(Clone, Debug)]
pub struct TrustedRoot {
    dir: PathBuf,
    owner_uid: u32,
}

impl TrustedRoot {
    /// Files below `dir`, owned by `owner_uid`: `/` and 0 except in tests.
    pub fn new(dir: &Path, owner_uid: u32) -> Self {
        Self { dir: dir.to_owned(), owner_uid }
    }

    /// Where an absolute path is below this root.
    pub fn locate(&self, path: &Path) -> PathBuf {
        self.dir.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Opens a regular file that only its owner can change.
    ///
    /// # Errors
    /// What is wrong with the file or a directory above it.
    pub(crate) fn open(&self, path: &Path) -> Result<File, ActError> {
        let file = self.walk(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let file = File::from(file);
        let meta = file.metadata().map_err(|why| ActError::file("read", path, why))?;
        if !meta.is_file() {
            return Err(ActError::file("trust", path, "it is no regular file"));
        }
        Ok(file)
    }

    /// Opens a program: like [`TrustedRoot::open`], executable, without setuid and setgid.
    pub(crate) fn open_program(&self, path: &Path) -> Result<File, ActError> {
        let file = self.open(path)?;
        let mode = file.metadata().map_err(|why| ActError::file("read", path, why))?.mode();
        if mode & 0o111 == 0 {
            return Err(ActError::file("run", path, "it is not executable")
                .hint(format!("chmod 755 {}", path.display())));
        }
        if mode & SET_ID != 0 {
            return Err(ActError::file("run", path, "it is setuid or setgid")
                .hint("name the user in `user`, and a program without these bits"));
        }
        Ok(file)
    }

    /// The content of a small file that only its owner can change; `None` if there is none.
    pub(crate) fn read(&self, path: &Path) -> Result<Option<String>, ActError> {
        match self.walk(path, OFlags::PATH) {
            Err(WalkError { is_missing: true, .. }) => return Ok(None),
            other => drop(other.map_err(ActError::from)?),
        }
        let mut text = String::new();
        let mut file = self.open(path)?.take(TEXT_BYTES_MAX + 1);
        file.read_to_string(&mut text).map_err(|why| ActError::file("read", path, why))?;
        if text.len() as u64 > TEXT_BYTES_MAX {
            return Err(ActError::file("read", path, "it is over 1 MiB"));
        }
        Ok(Some(text))
    }

    /// Whether a path names something and no component of it is a symlink; owners do not matter.
    pub(crate) fn has_plain(&self, path: &Path) -> bool {
        let relative = path.strip_prefix("/").unwrap_or(path);
        let Ok(root) = open(&self.dir, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
            return false;
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(&root, relative, flags, Mode::empty(), resolve).is_ok()
    }

    fn walk(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, WalkError> {
        let mut parts = names(path)?.into_iter().peekable();
        let mut at =
            open(&self.dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|why| explain(path, Path::new("/"), why))?;
        let mut seen = PathBuf::from("/");
        self.check(&at, path, &seen)?;
        while let Some(part) = parts.next() {
            seen.push(part);
            let is_last = parts.peek().is_none();
            let flags = if is_last { flags } else { OFlags::PATH | OFlags::DIRECTORY };
            let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            at = openat2(&at, part, flags, Mode::empty(), resolve)
                .map_err(|why| explain(path, &seen, why))?;
            self.check(&at, path, &seen)?;
        }
        Ok(at)
    }

    fn check(&self, at: &OwnedFd, path: &Path, seen: &Path) -> Result<(), ActError> {
        let stat = rustix::fs::fstat(at).map_err(|why| ActError::file("read", seen, why))?;
        let seen = seen.display();
        if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink() {
            return Err(symlink(path, &seen.to_string()));
        }
        if stat.st_uid != self.owner_uid && stat.st_uid != 0 {
            let why = format!("`{seen}` belongs to uid {}, not to root", stat.st_uid);
            return Err(ActError::file("trust", path, why).hint(format!("chown root:root {seen}")));
        }
        if stat.st_mode & OTHERS_WRITE != 0 {
            let why = format!("`{seen}` is writable by others (mode {:o})", stat.st_mode & 0o7777);
            return Err(ActError::file("trust", path, why).hint(format!("chmod go-w {seen}")));
        }
        Ok(())
    }
}

/// An error, and whether its reason is that there is nothing.
struct WalkError {
    error: ActError,
    is_missing: bool,
}

impl From<ActError> for WalkError {
    fn from(error: ActError) -> Self {
        Self { error, is_missing: false }
    }
}

impl From<WalkError> for ActError {
    fn from(walk: WalkError) -> Self {
        walk.error
    }
}

/// The names of an absolute path that has no `.`, `..`, doubled or trailing slash.
fn names(path: &Path) -> Result<Vec<&std::ffi::OsStr>, ActError> {
    let text = path.as_os_str().to_string_lossy();
    let is_plain = text.starts_with('/')
        && text.len() > 1
        && text[1..].split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !is_plain {
        return Err(ActError::file("trust", path, "it is not a plain absolute path")
            .hint("write it from `/`, without `.`, `..` and `//`"));
    }
    Ok(path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect())
}

fn explain(path: &Path, seen: &Path, why: Errno) -> WalkError {
    let seen = seen.display().to_string();
    let error = match why {
        Errno::LOOP => symlink(path, &seen),
        Errno::NOSYS => ActError::file("trust", path, "this kernel has no openat2")
            .hint("weir-act needs Linux 5.6 or newer"),
        why => ActError::file("open", path, format!("`{seen}`: {why}")),
    };
    WalkError { error, is_missing: why == Errno::NOENT }
}

fn symlink(path: &Path, seen: &str) -> ActError {
    ActError::file("trust", path, format!("`{seen}` is a symlink"))
        .hint(format!("write the path that `readlink -f {}` prints", path.display()))
}
