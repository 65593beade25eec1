//! Which stream a file is: a hash over host, inode, birth time and the first bytes. `docs/formats/stream-identity.md`.
//!
//! Only the first line counts, and of it at most [`HEAD_LIMIT`] bytes, so that the identity is the same whenever it
//! is computed while the file grows. A file without a whole first line (or that many bytes) has none yet.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{SystemTime, UNIX_EPOCH};

use siphasher::sip128::SipHasher24;
use weir_tables::StreamId;

/// Bytes of a file's first line that its identity takes in.
pub(super) const HEAD_LIMIT: usize = 256;

/// What the file system says of a file, as far as the identity needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The device number; changes over a reboot on some systems.
    pub(super) device: u64,
    /// The inode number; reused at once by some file systems.
    pub(super) inode: u64,
    /// Birth time in ns since 1970, 0 when the file system keeps none.
    pub(super) birth_ns: u64,
    /// When it was last written, in ns since 1970; no part of the identity.
    pub(super) modified_ns: u64,
}

impl Place {
    /// From the file's metadata.
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            birth_ns: nanoseconds(metadata.created()),
            modified_ns: nanoseconds(metadata.modified()),
        }
    }

    /// Orders the parts of one log, larger is newer: parts that were renamed were born in turn, and so were copies.
    pub(super) fn age(&self) -> Age {
        Age { birth_ns: self.birth_ns, modified_ns: self.modified_ns }
    }

    /// Whether both are the same file now; births are not asked because they only matter over restarts.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// See [`Place::age`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Age {
    birth_ns: u64,
    modified_ns: u64,
}

impl Age {
    /// Whether a part of this age may hold what was written after all parts of `known`. The birth misleads when an old
    /// inode was truncated and written anew, the last write when a writer had not reopened its log; so either will do.
    pub(super) fn may_follow(&self, known: &[Self]) -> bool {
        let birth_ns = known.iter().map(|age| age.birth_ns).max();
        let modified_ns = known.iter().map(|age| age.modified_ns).max();
        birth_ns.is_some_and(|known| self.birth_ns > known)
            || modified_ns.is_some_and(|known| self.modified_ns >= known)
    }
}

fn nanoseconds(time: io::Result<SystemTime>) -> u64 {
    let span = time.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    span.map_or(0, |span| u64::try_from(span.as_nanos()).unwrap_or(0))
}

/// The first line of a file, newline included, or the first [`HEAD_LIMIT`] bytes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head(Vec<u8>);

impl Head {
    /// `None` while the file is too short to have one. With `is_final` whatever is there counts, unless it is nothing.
    pub(super) fn read(file: &File, is_final: bool) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; HEAD_LIMIT];
        let length = read_full(file, &mut bytes, 0)?;
        bytes.truncate(length);
        if let Some(newline) = memchr::memchr(b'\n', &bytes) {
            bytes.truncate(newline + 1);
            return Ok(Some(Self(bytes)));
        }
        let is_complete = length == HEAD_LIMIT || (is_final && length > 0);
        Ok(is_complete.then_some(Self(bytes)))
    }

    /// Whether `file` still begins with these bytes.
    pub(super) fn is_head_of(&self, file: &File) -> io::Result<bool> {
        let mut bytes = [0; HEAD_LIMIT];
        let bytes = &mut bytes[..self.0.len()];
        Ok(read_full(file, bytes, 0)? == self.0.len() && *bytes == *self.0)
    }
}

/// Identity of the content that begins with `head` in the file at `place` on `host`. `generation` counts contents of one
/// file that began with the same line.
pub(super) fn stream_id(host: &str, place: Place, head: &Head, generation: u32) -> StreamId {
    // With a birth time the device is left out: numbers of devices are handed out anew at every boot.
    let device = if place.birth_ns == 0 { place.device } else { 0 };
    let mut key = Vec::with_capacity(host.len() + head.0.len() + 29);
    key.extend_from_slice(host.as_bytes());
    key.push(0);
    for number in [device, place.inode, place.birth_ns] {
        key.extend_from_slice(&number.to_le_bytes());
    }
    key.extend_from_slice(&generation.to_le_bytes());
    key.extend_from_slice(&head.0);
    hash_of(&key)
}

/// SipHash-2-4 of 128 bits with a key of zeros: the same on every machine and in every version.
pub(in crate::logs) fn hash_of(bytes: &[u8]) -> StreamId {
    StreamId(SipHasher24::new().hash(bytes).as_u128())
}

/// Reads until `bytes` is full or the file ends; gives the count.
pub(super) fn read_full(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
