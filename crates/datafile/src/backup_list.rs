//! The list of the files of a backup's snapshot: one line per file, and a trailer that proves
//! completeness. Layout: `docs/formats/backup.md`.
//!
//! ```text
//! manifest <SHA-256> <bytes>
//! file <SHA-256> <bytes> <mode, octal> <modified, ns> <path>
//! end <files> <SHA-256 of all lines before>
//! ```
//!
//! A list may be forged: it names no file outside of the directory that it is restored into.

use std::fmt::Display;

use ring::digest::{SHA256, digest};
use weir_tables::hex;

use crate::data_file::is_inside;
use crate::error::{ErrorKind, StoreError};

/// The identity of an object: checksum and length.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackupObject {
    /// SHA-256 in hexadecimal digits.
    pub name: String,
    /// Length in bytes.
    pub byte_count: u64,
}

impl BackupObject {
    /// `None` when the name is no SHA-256.
    pub fn new(name: &str, byte_count: u64) -> Option<Self> {
        let is_name = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_name.then(|| Self { name: name.to_owned(), byte_count })
    }

    /// Whether `path` is an object's path: some services list directories too.
    pub fn is_path(path: &str) -> bool {
        let object = path.rsplit('/').next().and_then(|name| Self::new(name, 0));
        object.is_some_and(|object| object.path() == path)
    }

    /// Path below the root of a backup.
    pub fn path(&self) -> String {
        format!("objects/{}/{}", &self.name[..2], self.name)
    }

    /// Compares with the bytes `found` at `place`; a message when they differ.
    ///
    /// # Errors
    /// The message.
    pub fn compare(&self, place: &str, found: &Self) -> Result<(), String> {
        if found == self {
            return Ok(());
        }
        let why = match found.byte_count == self.byte_count {
            true => "its bytes are not what was written".to_owned(),
            false => format!("it has {} bytes, not {}", found.byte_count, self.byte_count),
        };
        Err(format!("`{place}` is damaged: {why}"))
    }
}

/// A file of the data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// Its bytes.
    pub object: BackupObject,
    /// Its mode.
    pub mode: u32,
    /// Nanoseconds since 1970.
    pub modified: i64,
    /// Its path below the data directory.
    pub path: String,
}

/// The contents of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub struct SnapshotList {
    manifest: BackupObject,
    /// Its files beside the manifest.
    pub entries: Vec<ListEntry>,
}

impl SnapshotList {
    /// Makes an empty list for this manifest.
    pub fn new(manifest: BackupObject) -> Self {
        Self { manifest, entries: Vec::new() }
    }

    /// Bytes of all files.
    pub fn byte_count(&self) -> u64 {
        self.entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.object.byte_count))
    }

    /// Encodes the list.
    ///
    /// # Errors
    /// `Io`: a name contains a line break.
    pub fn text(&self) -> Result<String, StoreError> {
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
        let proof = hex(digest(&SHA256, text.as_bytes()).as_ref());
        Ok(text + &format!("end {} {proof}\n", self.entries.len()))
    }

    /// Parses the list stored at `place`, and checks that it is complete and that its paths stay in
    /// their directory.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn read(place: impl Display, text: &str) -> Result<Self, StoreError> {
        let list = Self::parse(text).filter(|list| list.text().is_ok_and(|own| own == text));
        let list = list.ok_or_else(|| {
            let text = format!("`{place}` is damaged: it is not the list that was written");
            StoreError::new(ErrorKind::Corrupt, text)
        })?;
        match list.entries.iter().find(|entry| !is_inside(&entry.path)) {
            None => Ok(list),
            Some(entry) => {
                let path = entry.path.escape_debug();
                let text = format!("cannot use `{place}`: `{path}` is no path below the directory");
                Err(StoreError::new(ErrorKind::Corrupt, text))
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.split_terminator('\n');
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

    /// Checks that `found`, stored at `place`, is the manifest that the snapshot was made with.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn check_manifest(&self, found: &BackupObject, place: &str) -> Result<(), StoreError> {
        if *found == self.manifest {
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
            vec![entry("data/log/2026-11-20/000000000001.parquet"), entry("link/hub key\r")];
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

    #[test]
    fn forged_paths_are_refused() {
        let object = BackupObject::new(&"c".repeat(64), 1).unwrap();
        for path in ["", "/etc/cron.d/x", "a/../../b", "..", "./a", "a//b", "a/", "a\0b"] {
            let entry =
                ListEntry { object: object.clone(), mode: 0, modified: 0, path: path.to_owned() };
            let list = SnapshotList { manifest: object.clone(), entries: vec![entry] };
            let error = SnapshotList::read("list", &list.text().unwrap()).unwrap_err();
            assert!(error.message.contains("is no path below the directory"), "{path}: {error}");
        }
    }
}
