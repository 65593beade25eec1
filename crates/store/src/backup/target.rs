//! The target of a backup: a directory or a bucket. Both have the same files under the same names.

use std::collections::HashSet;
use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};

use weir_datafile::{BackupObject, ErrorKind, SnapshotList, StoreError};
use weir_tier::SlowPlace;

use super::bucket::BucketTarget;
use super::directory::DirectoryTarget;
use super::object::copy;

/// The first line of `VERSION` in a backup.
pub(super) const VERSION: &str = "weir backup 1";
/// Names at the top level of a backup.
pub(super) const OURS: [&str; 5] = ["VERSION", "VERSION.new", "lock", "objects", "snapshots"];

/// A backup; locked while it is open for writing.
pub(super) trait BackupTarget {
    /// Name for messages.
    fn name(&self) -> String;
    /// Names of complete snapshots, oldest first.
    fn names(&self) -> Result<Vec<String>, StoreError>;
    /// Reads the list of a complete snapshot.
    fn list(&self, snapshot: &str) -> Result<SnapshotList, StoreError>;
    /// Fetches a snapshot's manifest into a file that stays valid until the next call.
    fn manifest(&self, snapshot: &str) -> Result<PathBuf, StoreError>;
    /// Location of the bytes, for messages.
    fn place(&self, object: &BackupObject) -> String;
    fn has(&self, object: &BackupObject) -> bool;
    fn open(&self, object: &BackupObject) -> std::io::Result<Box<dyn Read>>;
    /// Fetches an object into a verified file that stays valid until the next call; the error
    /// explains what is wrong.
    fn whole(&self, object: &BackupObject) -> Result<PathBuf, String>;
    /// Stores bytes read from `source`; returns whether they are new.
    fn take(
        &mut self,
        bytes: &mut dyn Read,
        source: &Path,
    ) -> Result<(BackupObject, bool), StoreError>;
    /// A local directory in which a snapshot's manifest is prepared.
    fn draft(&self) -> &Path;
    /// Publishes a snapshot of the manifest in [`BackupTarget::draft`]; it appears once all of it
    /// is durable.
    fn publish(&mut self, snapshot: &str, list: &SnapshotList) -> Result<(), StoreError>;
    /// Removes a snapshot; a half-removed snapshot no longer appears.
    fn remove(&mut self, snapshot: &str) -> Result<(), StoreError>;
    /// Removes all objects that are not in `needed`.
    fn remove_others(&mut self, needed: &HashSet<BackupObject>) -> Result<(), StoreError>;

    /// Checks that the backup has these bytes; the error explains what is wrong.
    fn check(&self, object: &BackupObject) -> Result<(), String> {
        let place = self.place(object);
        let found = self.open(object).and_then(|mut bytes| copy(&mut bytes, &mut std::io::sink()));
        object.compare(&place, &found.map_err(|error| format!("cannot read `{place}`: {error}"))?)
    }
}

/// Opens a backup; `is_written` opens it for a new snapshot and creates it if missing.
///
/// # Errors
/// `Io` when it is no backup, `NewerVersion`, `Locked`.
pub(super) fn open(
    place: &SlowPlace,
    is_written: bool,
) -> Result<Box<dyn BackupTarget>, StoreError> {
    Ok(match place {
        SlowPlace::Directory(root) => Box::new(DirectoryTarget::open(root, is_written)?),
        SlowPlace::Bucket(options) => Box::new(BucketTarget::open(options, is_written)?),
    })
}

/// Rejects a backup of another version.
pub(super) fn check_version(name: impl Display, text: &str) -> Result<(), StoreError> {
    if text.trim() == VERSION {
        return Ok(());
    }
    let text = format!("cannot use `{name}`: it is `{}`", text.trim());
    Err(StoreError::new(ErrorKind::NewerVersion, text)
        .with_hint("run the newer weir that wrote it"))
}

/// The error for a new backup in a place that is not empty.
pub(super) fn refuse_other(name: impl Display, other: &str) -> StoreError {
    let text = format!("cannot back up into `{name}`: it is no backup, and has `{other}` in it");
    StoreError::new(ErrorKind::Io, text).with_hint(
        "name an empty directory, a prefix of a bucket with nothing below it, or a backup",
    )
}

/// The error for a backup that another writer has locked.
pub(super) fn taken(name: &str) -> StoreError {
    let text = format!("cannot back up into `{name}`: another backup does");
    StoreError::new(ErrorKind::Locked, text).with_hint("wait for it")
}
