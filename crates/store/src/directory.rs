//! The data directory: exclusive lock, layout version, and the syncs that make names durable.
//! Layout: `docs/formats/data-file.md`, `docs/formats/wal.md`, `docs/formats/manifest.md`.
//!
//! A file is durable only after its directory is synced too, after a creation as well as after a
//! rename.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_datafile::{ErrorKind, StoreError, sync_dir};

use crate::private;

/// Layout version that this weir writes.
const VERSION: u32 = 1;

/// A data directory, locked for this process until the value is dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) root: PathBuf,
    _lock: File,
}

impl Directory {
    /// Locks the directory; creates it when it is missing.
    ///
    /// # Errors
    /// `NewerVersion` (nothing was touched), `Locked`, `Io`, `Full`.
    pub(crate) fn open(root: &Path) -> Result<Self, StoreError> {
        check_version(root)?;
        private::make_dir(root).map_err(|error| StoreError::io("make", root, &error))?;
        let lock = lock(root)?;
        private::tighten(root);
        write_version(root)?;
        for part in ["wal", "data"] {
            let path = root.join(part);
            private::make_dir(&path).map_err(|error| StoreError::io("make", &path, &error))?;
        }
        sync_dir(root)?;
        Ok(Self { root: root.to_owned(), _lock: lock })
    }

    pub(crate) fn wal(&self) -> PathBuf {
        self.root.join("wal")
    }

    pub(crate) fn manifest(&self) -> PathBuf {
        self.root.join("manifest.sqlite")
    }

    /// Absolute path of a [`weir_datafile::DataFile`].
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

/// Marker file of a directory whose restore has not finished.
pub(crate) const RESTORING: &str = "RESTORING";

fn check_version(root: &Path) -> Result<(), StoreError> {
    if root.join(RESTORING).exists() {
        let text = format!("cannot open `{}`: a restore into it did not finish", root.display());
        return Err(StoreError::new(ErrorKind::Corrupt, text)
            .with_hint("run `weir restore` again: it resumes in the same directory"));
    }
    let path = root.join("VERSION");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::io("read", &path, &error)),
    };
    match text.trim().parse::<u32>() {
        Ok(version) if version <= VERSION => Ok(()),
        Ok(version) => {
            let text = format!(
                "cannot open `{}`: its layout is version {version}, this weir knows up to {VERSION}",
                root.display()
            );
            let hint = "run the newer weir that wrote it, or name another directory with `--data`";
            Err(StoreError::new(ErrorKind::NewerVersion, text).with_hint(hint))
        }
        Err(_) => {
            let text = format!("cannot read `{}`: `{}` is no version", path.display(), text.trim());
            Err(StoreError::new(ErrorKind::Corrupt, text)
                .with_hint("is this a data directory of weir?"))
        }
    }
}

fn write_version(root: &Path) -> Result<(), StoreError> {
    check_version(root)?;
    let path = root.join("VERSION");
    if path.exists() {
        return Ok(());
    }
    let draft = root.join("VERSION.new");
    let write = || {
        let mut file = File::create(&draft)?;
        file.write_all(format!("{VERSION}\n").as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, &path)
    };
    write().map_err(|error| StoreError::io("write", &path, &error))
}

fn lock(root: &Path) -> Result<File, StoreError> {
    let path = root.join("lock");
    let fail = |error: &std::io::Error| StoreError::io("lock", &path, error);
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| fail(&error).with_hint("weir's user has to own its data directory"))?;
    match try_lock_for_a_second(&file) {
        Ok(()) => {
            // The process id only helps people: a full disk must not keep weir from starting.
            drop(file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())));
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            drop(file.read_to_string(&mut pid));
            let text = format!("cannot open `{}`: process {} has it", root.display(), pid.trim());
            let hint = "stop that weir first, or name another directory with `--data`";
            Err(StoreError::new(ErrorKind::Locked, text).with_hint(hint))
        }
        Err(TryLockError::Error(error)) => Err(fail(&error)),
    }
}

/// Creates the file if it is missing, and locks it exclusively.
///
/// # Errors
/// `Io`; the error that `taken` makes when another process holds the lock.
pub(crate) fn lock_file(
    path: &Path,
    taken: impl FnOnce() -> StoreError,
) -> Result<File, StoreError> {
    let fail = |error: &std::io::Error| StoreError::io("lock", path, error);
    let file = File::options().write(true).create(true).truncate(false).open(path);
    let file = file.map_err(|error| fail(&error))?;
    match try_lock_for_a_second(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(taken()),
        Err(TryLockError::Error(error)) => Err(fail(&error)),
    }
}

/// A weir that was just stopped, or a child that has not yet got to its `exec`, holds the lock a
/// moment longer.
#[expect(
    clippy::disallowed_methods,
    reason = "a file lock can only be polled, and only a start or a backup waits for it"
)]
fn try_lock_for_a_second(file: &File) -> Result<(), TryLockError> {
    for _ in 0..50 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            other => return other,
        }
    }
    file.try_lock()
}
