//! Cold tier in a directory: another disk or a network share.

use std::fs::File;
use std::io::{ErrorKind as IoKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use rustix::fs::{Advice, fadvise};
use weir_datafile::{FileSource, StoreError, create_own, data_files, is_inside, sync_dir};

use super::{MARK, TierBackend, stopped};

/// Copy buffer size.
const PIECE_BYTES: usize = 1 << 20;
/// Name extension of an incomplete copy.
const DRAFT: &str = "draft";

/// A directory as cold tier.
#[derive(Debug)]
pub(super) struct DirectoryTier {
    root: PathBuf,
    store: OnceLock<Arc<dyn ObjectStore>>,
}

impl DirectoryTier {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, store: OnceLock::new() }
    }

    /// Full path of a file. Manifests may come from backups and other hubs.
    fn place(&self, path: &str) -> std::io::Result<PathBuf> {
        match is_inside(path) {
            true => Ok(self.root.join(path)),
            false => Err(std::io::Error::other("the path leaves the directory")),
        }
    }

    /// Copies to a draft name, syncs, reads the copy back and compares it, and only then renames
    /// it.
    fn copy(&self, from: &Path, to: &Path, stop: &AtomicBool) -> Result<(), StoreError> {
        let draft = to.with_added_extension(DRAFT);
        let fail = |error: &std::io::Error| StoreError::io("write", &draft, error);
        let mut source = open(from)?;
        let mut target = create_own(&draft, 0o666).map_err(|error| fail(&error))?;
        let read = |bytes: &mut [u8]| {
            source.read(bytes).map_err(|error| StoreError::io("read", from, &error))
        };
        let written =
            pass(stop, read, |bytes| target.write_all(bytes).map_err(|error| fail(&error)))?;
        target.sync_all().map_err(|error| fail(&error))?;
        // Drop the page cache, so that the comparison reads from disk.
        let _ = fadvise(&target, 0, None, Advice::DontNeed);
        drop(target);
        let mut copy = open(&draft)?;
        let read = |bytes: &mut [u8]| {
            copy.read(bytes).map_err(|error| StoreError::io("read", &draft, &error))
        };
        if pass(stop, read, |_| Ok(()))? != written {
            let error = std::io::Error::other("it gives back other bytes than were written");
            return Err(StoreError::io("use", &draft, &error));
        }
        std::fs::rename(&draft, to).map_err(|error| StoreError::io("rename", &draft, &error))
    }
}

impl TierBackend for DirectoryTier {
    fn name(&self) -> String {
        self.root.display().to_string()
    }

    fn location(&self, path: &str) -> String {
        let root = std::path::absolute(&self.root).unwrap_or_else(|_| self.root.clone());
        super::file_url(&root.join(path))
    }

    fn hint(&self) -> &'static str {
        "is its disk mounted? Nothing is lost: rows still arrive, and files on the fast disk can be queried"
    }

    fn mark(&self) -> Result<Option<String>, StoreError> {
        let path = self.root.join(MARK);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == IoKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path, &error)),
        }
    }

    fn set_mark(&self, text: &str) -> Result<(), StoreError> {
        let (path, draft) = (self.root.join(MARK), self.root.join(MARK).with_extension(DRAFT));
        let write = || {
            std::fs::create_dir_all(&self.root)?;
            let mut file = create_own(&draft, 0o666)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)
        };
        write().map_err(|error| StoreError::io("write", &path, &error))?;
        sync_dir(&self.root)
    }

    fn put(&self, from: &Path, path: &str, stop: &AtomicBool) -> Result<(), StoreError> {
        let to =
            self.place(path).map_err(|error| StoreError::io("write", Path::new(path), &error))?;
        let parent = to.parent().unwrap_or(&self.root);
        std::fs::create_dir_all(parent).map_err(|error| StoreError::io("make", parent, &error))?;
        let copied = self.copy(from, &to, stop);
        if copied.is_err() {
            drop(std::fs::remove_file(to.with_added_extension(DRAFT)));
        }
        copied?;
        let mut parents = to.ancestors().skip(1).take_while(|path| path.starts_with(&self.root));
        parents.try_for_each(sync_dir)
    }

    fn open(&self, path: &str) -> std::io::Result<FileSource> {
        FileSource::of_file(File::open(self.place(path)?)?)
    }

    fn local_path(&self, path: &str) -> Option<PathBuf> {
        Some(self.root.join(path))
    }

    fn delete(&self, path: &str) -> Result<(), StoreError> {
        let path =
            self.place(path).map_err(|error| StoreError::io("remove", Path::new(path), &error))?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != IoKind::NotFound => {
                Err(StoreError::io("remove", &path, &error))
            }
            _ => Ok(()),
        }
    }

    fn list(&self) -> Result<Vec<String>, StoreError> {
        // Fail on an unreadable directory, which would otherwise appear empty.
        std::fs::read_dir(&self.root)
            .map_err(|error| StoreError::io("read", &self.root, &error))?;
        let files = ["parquet", DRAFT].into_iter().flat_map(|end| data_files(&self.root, end));
        Ok(files.collect())
    }

    fn store(&self) -> object_store::Result<Arc<dyn ObjectStore>> {
        if let Some(store) = self.store.get() {
            return Ok(Arc::clone(store));
        }
        let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(&self.root)?);
        Ok(Arc::clone(self.store.get_or_init(|| store)))
    }
}

fn open(path: &Path) -> Result<File, StoreError> {
    File::open(path).map_err(|error| StoreError::io("read", path, &error))
}

/// Passes all bytes from `read` to `write`; returns byte count and checksum.
fn pass(
    stop: &AtomicBool,
    mut read: impl FnMut(&mut [u8]) -> Result<usize, StoreError>,
    mut write: impl FnMut(&[u8]) -> Result<(), StoreError>,
) -> Result<(u64, u32), StoreError> {
    let mut piece = vec![0; PIECE_BYTES];
    let (mut count, mut sum) = (0, crc32fast::Hasher::new());
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        match read(&mut piece)? {
            0 => return Ok((count, sum.finalize())),
            length => {
                write(&piece[..length])?;
                sum.update(&piece[..length]);
                count += length as u64;
            }
        }
    }
}
