//! The list of a snapshot's files: one line per file, and a trailer that proves completeness.
//!
//! ```text
//! manifest <SHA-256> <bytes>
//! file <SHA-256> <bytes> <mode, octal> <modified, ns> <path>
//! end <files> <SHA-256 of all lines before>
//! ```

use std::fmt::Display;
use std::path::Path;

use weir_datafile::{ErrorKind, StoreError};

use crate::backup::object::{BackupObject, digest};

/// A file of the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListEntry {
    pub(super) object: BackupObject,
    pub(super) mode: u32,
    /// Nanoseconds since 1970.
    pub(super) modified: i64,
    pub(super) path: String,
}

/// The contents of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SnapshotList {
    manifest: BackupObject,
    pub(super) entries: Vec<ListEntry>,
}

impl SnapshotList {
    /// Makes an empty list for this manifest.
    pub(super) fn new(manifest: &Path) -> Result<Self, StoreError> {
        Ok(Self { manifest: BackupObject::of_file(manifest)?, entries: Vec::new() })
    }

    pub(super) fn byte_count(&self) -> u64 {
        self.entries.iter().map(|entry| entry.object.byte_count).sum()
    }

    /// Encodes the list.
    ///
    /// # Errors
    /// `Io`: a name contains a line break.
    pub(super) fn text(&self) -> Result<String, StoreError> {
        if let Some(entry) = self.entries.iter().find(|entry| entry.path.contains('\n')) {
            let text =
                format!("cannot back up `{}`: a line ends in its name", entry.path.escape_debug());
            return Err(StoreError::new(ErrorKind::Io, text));
        }
        let BackupObject { name, byte_count } = &self.manifest;
        let mut text = format!("manifest {name} {byte_count}\n");
        for ListEntry { object, mode, modified, path } in &self.entries {
            let BackupObject { name, byte_count } = object;
            text += &format!("file {name} {byte_count} {mode:o} {modified} {path}\n");
        }
        let proof = digest(text.as_bytes());
        Ok(text + &format!("end {} {proof}\n", self.entries.len()))
    }

    /// Parses the list stored at `place` and checks that it is complete.
    pub(super) fn read(place: impl Display, text: &str) -> Result<Self, StoreError> {
        let list = Self::parse(text).filter(|list| list.text().is_ok_and(|own| own == text));
        list.ok_or_else(|| {
            let text = format!("`{place}` is damaged: it is not the list that was written");
            StoreError::new(ErrorKind::Corrupt, text)
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut first = lines.next()?.strip_prefix("manifest ")?.split(' ');
        let manifest = BackupObject::new(first.next()?, first.next()?.parse().ok()?)?;
        let mut entries = Vec::new();
        for line in lines.filter(|line| !line.starts_with("end ")) {
            let mut parts = line.strip_prefix("file ")?.splitn(5, ' ');
            let object = BackupObject::new(parts.next()?, parts.next()?.parse().ok()?)?;
            let mode = u32::from_str_radix(parts.next()?, 8).ok()?;
            let modified = parts.next()?.parse().ok()?;
            entries.push(ListEntry { object, mode, modified, path: parts.next()?.to_owned() });
        }
        Some(Self { manifest, entries })
    }

    /// Checks that the manifest at `path`, stored at `place`, is the one the snapshot was made
    /// with.
    pub(super) fn check_manifest(&self, path: &Path, place: &str) -> Result<(), StoreError> {
        if BackupObject::of_file(path)? == self.manifest {
            return Ok(());
        }
        let text = format!("`{place}` is damaged: it is not what was written");
        Err(StoreError::new(ErrorKind::Corrupt, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_or_cut_list_is_refused() {
        let object = |digit: &str| BackupObject::new(&digit.repeat(64), 4711).unwrap();
        let entry = |path: &str| ListEntry {
            object: object("b"),
            mode: 0o600,
            modified: 1_795_176_000_000_000_000,
            path: path.to_owned(),
        };
        let entries =
            vec![entry("data/log/2026-11-20/000000000001.parquet"), entry("link/hub key")];
        let list = SnapshotList { manifest: object("a"), entries };
        let text = list.text().unwrap();
        assert_eq!(SnapshotList::read("list", &text).unwrap(), list);
        for at in 0..text.len() {
            assert!(SnapshotList::read("list", &text[..at]).is_err(), "cut to {at} bytes");
            for bit in 0..7 {
                let mut changed = text.clone().into_bytes();
                changed[at] ^= 1 << bit;
                let changed = String::from_utf8(changed).unwrap();
                assert!(SnapshotList::read("list", &changed).is_err(), "bit {bit} of byte {at}");
            }
        }
    }
}
