//! Where a backup is: a directory, or a bucket. Both have the same files under the same names.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use weir_datafile::{ErrorKind, StoreError};
use weir_tier::SlowPlace;

use super::bucket::BucketTarget;
use super::directory::DirectoryTarget;
use super::list::SnapshotList;
use super::object::{BackupObject, copy};

/// The first line of `VERSION` in a backup.
pub(super) const VERSION: &str = "weir backup 1";
/// The names that a backup has at its top.
pub(super) const OURS: [&str; 5] = ["VERSION", "VERSION.new", "lock", "objects", "snapshots"];

/// A backup, locked when it is written.
pub(super) trait BackupTarget {
    /// For messages.
    fn name(&self) -> String;
    /// Names of whole snapshots, the oldest first.
    fn names(&self) -> Result<Vec<String>, StoreError>;
    /// What a snapshot has, which is whole.
    fn list(&self, snapshot: &str) -> Result<SnapshotList, StoreError>;
    /// A file with a snapshot's manifest, until it is asked again.
    fn manifest(&self, snapshot: &str) -> Result<PathBuf, StoreError>;
    /// Where the bytes are, for messages.
    fn place(&self, object: &BackupObject) -> String;
    fn has(&self, object: &BackupObject) -> bool;
    fn open(&self, object: &BackupObject) -> std::io::Result<Box<dyn Read>>;
    /// A file with these bytes and no others, until it is asked again; why there is none, in words.
    fn whole(&self, object: &BackupObject) -> Result<PathBuf, String>;
    /// Takes bytes in that are of `source`; whether they are new.
    fn take(
        &mut self,
        bytes: &mut dyn Read,
        source: &Path,
    ) -> Result<(BackupObject, bool), StoreError>;
    /// A directory on this machine for a snapshot's manifest while it is made.
    fn draft(&self) -> &Path;
    /// Makes a snapshot of the manifest in [`BackupTarget::draft`], which shows up when all of it is durable.
    fn publish(&mut self, snapshot: &str, list: &SnapshotList) -> Result<(), StoreError>;
    /// Removes a snapshot, which does not show up any more when only half of it is gone.
    fn remove(&mut self, snapshot: &str) -> Result<(), StoreError>;
    /// Removes all bytes that nobody needs.
    fn remove_others(&mut self, needed: &HashSet<BackupObject>) -> Result<(), StoreError>;

    /// Whether the backup has these bytes; why not, in words.
    fn check(&self, object: &BackupObject) -> Result<(), String> {
        let place = self.place(object);
        let found = self.open(object).and_then(|mut bytes| copy(&mut bytes, &mut std::io::sink()));
        object.compare(&place, &found.map_err(|error| format!("cannot read `{place}`: {error}"))?)
    }
}

/// Opens a backup; `is_written`: for one snapshot more, in a new one too.
///
/// # Errors
/// `Io` when it is none, `NewerVersion`, `Locked`.
pub(super) fn open(
    place: &SlowPlace,
    is_written: bool,
) -> Result<Box<dyn BackupTarget>, StoreError> {
    Ok(match place {
        SlowPlace::Directory(root) => Box::new(DirectoryTarget::open(root, is_written)?),
        SlowPlace::Bucket(options) => Box::new(BucketTarget::open(options, is_written)?),
    })
}

/// Refuses a backup of another version.
pub(super) fn check_version(name: &str, text: &str) -> Result<(), StoreError> {
    if text.trim() == VERSION {
        return Ok(());
    }
    let text = format!("cannot use `{name}`: it is `{}`", text.trim());
    Err(StoreError::new(ErrorKind::NewerVersion, text)
        .with_hint("run the newer weir that wrote it"))
}

/// A new backup begins where nothing else is.
pub(super) fn refuse_other(name: &str, other: &str) -> StoreError {
    let text = format!("cannot back up into `{name}`: it is no backup, and has `{other}` in it");
    StoreError::new(ErrorKind::Io, text).with_hint(
        "name an empty directory, a prefix of a bucket with nothing below it, or a backup",
    )
}

/// Somebody else writes a snapshot.
pub(super) fn taken(name: &str) -> StoreError {
    let text = format!("cannot back up into `{name}`: another backup does");
    StoreError::new(ErrorKind::Locked, text).with_hint("wait for it")
}
