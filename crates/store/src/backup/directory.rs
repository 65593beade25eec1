//! A backup in a directory. A file gets its final name once it is durable.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use weir_datafile::{BackupObject, SnapshotList, StoreError, sync_dir};

use super::object::write_copy;
use super::target::{BackupTarget, OURS, VERSION, check_version, refuse_other, taken};
use super::{full, make_dir, rename, sync_file, write};
use crate::directory::lock_file;

pub(super) struct DirectoryTarget {
    root: PathBuf,
    draft: PathBuf,
    /// Directories with new entries, to be synced.
    changed: BTreeSet<PathBuf>,
    _lock: Option<File>,
}

impl DirectoryTarget {
    pub(super) fn open(root: &Path, is_written: bool) -> Result<Self, StoreError> {
        let version = root.join("VERSION");
        if is_written && !version.exists() {
            begin(root, &version)?;
        }
        let text = std::fs::read_to_string(&version).map_err(|error| {
            StoreError::io("read", &version, &error).with_hint("name the directory of a backup")
        })?;
        let name = root.display().to_string();
        check_version(&name, &text)?;
        let lock =
            is_written.then(|| lock_file(&root.join("lock"), || taken(&name))).transpose()?;
        let draft = root.join("snapshots/.new");
        let target = Self { root: root.to_owned(), draft, changed: BTreeSet::new(), _lock: lock };
        if is_written {
            target.remove_drafts()?;
            make_dir(&target.draft)?;
        }
        Ok(target)
    }

    fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    fn path(&self, object: &BackupObject) -> PathBuf {
        self.root.join(object.path())
    }

    /// Removes drafts that a killed backup left.
    fn remove_drafts(&self) -> Result<(), StoreError> {
        for name in [".new", ".old"] {
            let path = self.snapshots().join(name);
            if path.exists() {
                std::fs::remove_dir_all(&path)
                    .map_err(|error| StoreError::io("remove", &path, &error))?;
            }
        }
        Ok(())
    }
}

fn begin(root: &Path, version: &Path) -> Result<(), StoreError> {
    make_dir(root)?;
    let entries = std::fs::read_dir(root).map_err(|error| StoreError::io("read", root, &error))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    if let Some(other) = names.into_iter().find(|name| !OURS.contains(&name.as_str())) {
        return Err(refuse_other(root.display(), &other));
    }
    make_dir(&root.join("snapshots"))?;
    make_dir(&root.join("objects"))?;
    write(&root.join("VERSION.new"), format!("{VERSION}\n").as_bytes())?;
    rename(&root.join("VERSION.new"), version)?;
    sync_dir(root)
}

impl BackupTarget for DirectoryTarget {
    fn name(&self) -> String {
        self.root.display().to_string()
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        let path = self.snapshots();
        let entries =
            std::fs::read_dir(&path).map_err(|error| StoreError::io("read", &path, &error))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        Ok(names)
    }

    fn list(&self, snapshot: &str) -> Result<SnapshotList, StoreError> {
        let path = self.snapshots().join(snapshot).join("list");
        let text = std::fs::read_to_string(&path)
            .map_err(|error| StoreError::io("read", &path, &error))?;
        SnapshotList::read(path.display(), &text)
    }

    fn manifest(&self, snapshot: &str) -> Result<PathBuf, StoreError> {
        Ok(self.snapshots().join(snapshot).join("manifest.sqlite"))
    }

    fn place(&self, object: &BackupObject) -> String {
        self.path(object).display().to_string()
    }

    fn has(&self, object: &BackupObject) -> bool {
        let found = std::fs::metadata(self.path(object));
        found.is_ok_and(|metadata| metadata.len() == object.byte_count)
    }

    fn open(&self, object: &BackupObject) -> std::io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(self.path(object))?))
    }

    fn whole(&self, object: &BackupObject) -> Result<PathBuf, String> {
        self.check(object)?;
        Ok(self.path(object))
    }

    fn take(
        &mut self,
        bytes: &mut dyn Read,
        source: &Path,
    ) -> Result<(BackupObject, bool), StoreError> {
        let draft = self.root.join("objects/.new");
        let written = write_copy(bytes, &draft, 0o600);
        let object = written.map_err(|error| {
            // Frees space for the next attempt.
            drop(std::fs::remove_file(&draft));
            full(StoreError::io("copy", source, &error))
        })?;
        let place = self.path(&object);
        let parent = place.parent().unwrap_or(&self.root).to_owned();
        // An existing file may come from a backup that was killed before it made the name durable.
        self.changed.insert(parent.clone());
        if self.has(&object) {
            drop(std::fs::remove_file(&draft));
            return Ok((object, false));
        }
        make_dir(&parent)?;
        rename(&draft, &place)?;
        Ok((object, true))
    }

    fn draft(&self) -> &Path {
        &self.draft
    }

    fn publish(&mut self, snapshot: &str, list: &SnapshotList) -> Result<(), StoreError> {
        self.changed.iter().try_for_each(|dir| sync_dir(dir))?;
        sync_dir(&self.root.join("objects"))?;
        write(&self.draft.join("list"), list.text()?.as_bytes())?;
        sync_file(&self.draft.join("manifest.sqlite"))?;
        sync_dir(&self.draft)?;
        rename(&self.draft, &self.snapshots().join(snapshot))?;
        sync_dir(&self.snapshots())
    }

    fn remove(&mut self, snapshot: &str) -> Result<(), StoreError> {
        let old = self.snapshots().join(".old");
        rename(&self.snapshots().join(snapshot), &old)?;
        self.remove_drafts()
    }

    fn remove_others(&mut self, needed: &HashSet<BackupObject>) -> Result<(), StoreError> {
        let needed: HashSet<&str> = needed.iter().map(|object| object.name.as_str()).collect();
        for group in list_dir(&self.root.join("objects")) {
            if group.file_name() == ".new" {
                drop(std::fs::remove_file(group.path()));
            }
            for object in list_dir(&group.path()) {
                if !needed.contains(&*object.file_name().to_string_lossy()) {
                    let path = object.path();
                    std::fs::remove_file(&path)
                        .map_err(|error| StoreError::io("remove", &path, &error))?;
                }
            }
        }
        Ok(())
    }
}

fn list_dir(path: &Path) -> impl Iterator<Item = std::fs::DirEntry> + use<> {
    std::fs::read_dir(path).into_iter().flatten().flatten()
}
