//! Files of a backup, each under the SHA-256 of its bytes: `objects/ab/ab12…`. The same bytes are there once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind as IoKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use crate::backup::list::Entry;
use crate::backup::{full, make_dir, rename};
use crate::directory::sync_dir;
use crate::error::StoreError;
use crate::manifest::Tier;
use crate::slow::Places;

/// Bytes read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Which bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Object {
    /// SHA-256 in hexadecimal digits.
    pub(super) name: String,
    pub(super) byte_count: u64,
}

impl Object {
    /// `None` when the name is no SHA-256.
    pub(super) fn new(name: &str, byte_count: u64) -> Option<Self> {
        let is_name = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_name.then(|| Self { name: name.to_owned(), byte_count })
    }

    /// Of a file's bytes.
    pub(super) fn of_file(path: &Path) -> Result<Self, StoreError> {
        let read = || copy(&mut File::open(path)?, &mut std::io::sink());
        read().map_err(|error| StoreError::io("read", path, &error))
    }

    pub(super) fn place(&self, backup: &Path) -> PathBuf {
        backup.join("objects").join(&self.name[..2]).join(&self.name)
    }

    /// Whether the backup has these bytes; why not, in words.
    pub(super) fn check(&self, backup: &Path) -> Result<(), String> {
        let place = self.place(backup);
        let found = Self::of_file(&place).map_err(|error| error.message)?;
        if found == *self {
            return Ok(());
        }
        let why = match found.byte_count == self.byte_count {
            true => "its bytes are not what was written".to_owned(),
            false => format!("it has {} bytes, not {}", found.byte_count, self.byte_count),
        };
        Err(format!("`{}` is damaged: {why}", place.display()))
    }
}

/// The SHA-256 of some bytes.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Copies all bytes; gives what they were.
pub(super) fn copy(from: &mut impl Read, to: &mut impl Write) -> std::io::Result<Object> {
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
    Ok(Object { name: hex(context.finish().as_ref()), byte_count })
}

/// A file that may have to be copied.
struct Opened {
    length: u64,
    modified: i64,
    mode: u32,
    bytes: Box<dyn Read>,
}

fn open(path: &Path) -> std::io::Result<Opened> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let modified = metadata.mtime().saturating_mul(1_000_000_000) + metadata.mtime_nsec();
    let mode = metadata.permissions().mode() & 0o777;
    Ok(Opened { length: metadata.len(), modified, mode, bytes: Box::new(file) })
}

/// Files by what does not change while they do not: those need not be read again.
pub(super) type Known = HashMap<(String, u64, i64), Object>;

/// The objects of a backup that is being written.
pub(super) struct Objects<'a> {
    backup: &'a Path,
    known: Known,
    changed: BTreeSet<PathBuf>,
    pub(super) new_files: usize,
    pub(super) new_bytes: u64,
}

impl<'a> Objects<'a> {
    /// `known` are those of the newest snapshot.
    pub(super) fn new(backup: &'a Path, known: Known) -> Self {
        Self { backup, known, changed: BTreeSet::new(), new_files: 0, new_bytes: 0 }
    }

    /// Sees to it that the backup has a file's bytes; `None` when there is no such file any more.
    pub(super) fn take(
        &mut self,
        places: &Places,
        path: &str,
        tier: Tier,
    ) -> Result<Option<Entry>, StoreError> {
        let source = places.root.join(path);
        let opened = match tier {
            Tier::Local => open(&source),
            // Names there are never used again, so a name is as good as a time.
            Tier::Slow => places.open(path, tier).map(|file| Opened {
                length: file.length(),
                modified: 0,
                mode: 0o600,
                bytes: Box::new(file.reader(0)),
            }),
        };
        let Opened { length, modified, mode, mut bytes } = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == IoKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("read", &source, &error)),
        };
        let key = (path.to_owned(), length, modified);
        let object = match self.known.get(&key).filter(|object| self.has(object)) {
            Some(object) => object.clone(),
            None => self.copy(&mut bytes, &source)?,
        };
        // When another file goes away meanwhile all are looked at again.
        self.known.insert(key, object.clone());
        Ok(Some(Entry { object, mode, modified, path: path.to_owned() }))
    }

    /// Sees to it that the backup has these bytes, as a file for its owner only.
    pub(super) fn take_bytes(
        &mut self,
        path: String,
        mut bytes: &[u8],
    ) -> Result<Entry, StoreError> {
        let object = self.copy(&mut bytes, Path::new(&path))?;
        Ok(Entry { object, mode: 0o600, modified: 0, path })
    }

    fn has(&self, object: &Object) -> bool {
        let found = std::fs::metadata(object.place(self.backup));
        found.is_ok_and(|metadata| metadata.len() == object.byte_count)
    }

    fn copy(&mut self, file: &mut impl Read, source: &Path) -> Result<Object, StoreError> {
        let draft = self.backup.join("objects/.new");
        let written = write_copy(file, &draft, 0o600);
        let object = written.map_err(|error| {
            // Room for the next try.
            drop(std::fs::remove_file(&draft));
            full(StoreError::io("copy", source, &error))
        })?;
        let place = object.place(self.backup);
        let parent = place.parent().unwrap_or(self.backup).to_owned();
        // One that is there already may be of a backup that was killed before it made the name durable.
        self.changed.insert(parent.clone());
        if self.has(&object) {
            drop(std::fs::remove_file(&draft));
            return Ok(object);
        }
        make_dir(&parent)?;
        rename(&draft, &place)?;
        self.new_files += 1;
        self.new_bytes += object.byte_count;
        Ok(object)
    }

    /// Makes the names durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.changed.iter().try_for_each(|dir| sync_dir(dir))?;
        sync_dir(&self.backup.join("objects"))
    }
}

/// Copies into a file of this mode, and syncs it.
pub(super) fn write_copy(from: &mut impl Read, to: &Path, mode: u32) -> std::io::Result<Object> {
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(mode).open(to)?;
    let object = copy(from, &mut file)?;
    file.sync_all()?;
    Ok(object)
}

/// Removes the objects that nobody needs.
pub(super) fn remove_others(backup: &Path, needed: &HashSet<Object>) -> Result<(), StoreError> {
    let needed: HashSet<&str> = needed.iter().map(|object| object.name.as_str()).collect();
    let list = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    for group in list(&backup.join("objects")) {
        if group.file_name() == ".new" {
            drop(std::fs::remove_file(group.path()));
        }
        for object in list(&group.path()) {
            if !needed.contains(&*object.file_name().to_string_lossy()) {
                let path = object.path();
                std::fs::remove_file(&path)
                    .map_err(|error| StoreError::io("remove", &path, &error))?;
            }
        }
    }
    Ok(())
}
