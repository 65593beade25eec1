//! Content-addressed files of a backup: `objects/ab/ab12…` is named by its SHA-256. Equal bytes are
//! stored once.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind as IoKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use ring::digest::{Context, SHA256};
use weir_datafile::{BackupObject, ListEntry, StoreError, Tier, create_own};
use weir_tables::hex;
use weir_tier::FileLocations;

use crate::backup::target::BackupTarget;

/// Bytes read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Hashes a file.
pub(super) fn object_of_file(path: &Path) -> Result<BackupObject, StoreError> {
    let object = File::open(path).and_then(|mut file| copy(&mut file, &mut std::io::sink()));
    object.map_err(|error| StoreError::io("read", path, &error))
}

/// Copies all bytes; returns their identity.
pub(super) fn copy(
    from: &mut (impl Read + ?Sized),
    to: &mut impl Write,
) -> std::io::Result<BackupObject> {
    let mut piece = vec![0; PIECE_BYTES];
    let (mut context, mut byte_count) = (Context::new(&SHA256), 0);
    loop {
        let length = match from.read(&mut piece) {
            Ok(0) => break,
            Err(error) if error.kind() == IoKind::Interrupted => continue,
            length => length?,
        };
        context.update(&piece[..length]);
        to.write_all(&piece[..length])?;
        byte_count += length as u64;
    }
    Ok(BackupObject { name: hex(context.finish().as_ref()), byte_count })
}

/// A file that may have to be copied.
struct OpenObject {
    length: u64,
    modified: i64,
    mode: u32,
    bytes: Box<dyn Read>,
}

fn open(path: &Path) -> std::io::Result<OpenObject> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let modified = metadata.mtime().saturating_mul(1_000_000_000) + metadata.mtime_nsec();
    let mode = metadata.permissions().mode() & 0o700;
    Ok(OpenObject { length: metadata.len(), modified, mode, bytes: Box::new(file) })
}

/// Known objects by path, size and modification time: a file with the same three is not read again.
pub(super) type KnownObjects = HashMap<(String, u64, i64), BackupObject>;

/// The objects of a backup that is being written.
pub(super) struct ObjectCatalog<'a> {
    pub(super) target: &'a mut dyn BackupTarget,
    known: KnownObjects,
    pub(super) new_files: usize,
    pub(super) new_bytes: u64,
}

impl<'a> ObjectCatalog<'a> {
    /// Makes a catalog; `known` are the objects of the newest snapshot.
    pub(super) fn new(target: &'a mut dyn BackupTarget, known: KnownObjects) -> Self {
        Self { target, known, new_files: 0, new_bytes: 0 }
    }

    /// Ensures that the backup has a file's bytes; `None` when the file no longer exists.
    pub(super) fn take(
        &mut self,
        places: &FileLocations,
        path: &str,
        tier: Tier,
    ) -> Result<Option<ListEntry>, StoreError> {
        let source = places.root.join(path);
        let opened = match tier {
            Tier::Local => open(&source),
            // Names in the cold tier are never reused, so the name stands for the modification
            // time.
            Tier::Slow => places.open(path, tier).map(|file| OpenObject {
                length: file.length(),
                modified: 0,
                mode: 0o600,
                bytes: Box::new(file.reader(0)),
            }),
        };
        let OpenObject { length, modified, mode, mut bytes } = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == IoKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("read", &source, &error)),
        };
        let key = (path.to_owned(), length, modified);
        let object = match self.known.get(&key).filter(|object| self.target.has(object)) {
            Some(object) => object.clone(),
            None => self.copy(&mut bytes, &source)?,
        };
        // When another file is removed meanwhile, the next attempt checks all files again.
        self.known.insert(key, object.clone());
        Ok(Some(ListEntry { object, mode, modified, path: path.to_owned() }))
    }

    /// Ensures that the backup has these bytes, stored as a file that only its owner can read.
    pub(super) fn take_bytes(
        &mut self,
        path: String,
        mut bytes: &[u8],
    ) -> Result<ListEntry, StoreError> {
        let object = self.copy(&mut bytes, Path::new(&path))?;
        Ok(ListEntry { object, mode: 0o600, modified: 0, path })
    }

    fn copy(&mut self, bytes: &mut dyn Read, source: &Path) -> Result<BackupObject, StoreError> {
        let (object, is_new) = self.target.take(bytes, source)?;
        if is_new {
            self.new_files += 1;
            self.new_bytes += object.byte_count;
        }
        Ok(object)
    }
}

/// Copies into a new file with this mode, and syncs it.
pub(super) fn write_copy(
    from: &mut (impl Read + ?Sized),
    to: &Path,
    mode: u32,
) -> std::io::Result<BackupObject> {
    let mut file = create_own(to, mode)?;
    let object = copy(from, &mut file)?;
    file.sync_all()?;
    Ok(object)
}
