//! Which stream a file is: a hash over host, file and first bytes.
//! `docs/formats/stream-identity.md`.
//!
//! A file is told by 40 bits made of inode and birth time, its *mark*. The hub keeps for each first
//! line the marks of the files that had it, so that a copy or a packed part finds the stream of the
//! file that it was made from, although that file is gone. Only the first line counts, and of it at
//! most [`HEAD_LIMIT`] bytes, so that the identity is the same whenever it is computed while the
//! file grows. A file without a whole first line (or that many bytes) has none yet.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{SystemTime, UNIX_EPOCH};

use siphasher::sip128::SipHasher24;
use weir_tables::StreamId;

use super::content::Content;

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
    /// From the file's metadata. What is packed was born when it was packed, and keeps the time of
    /// the last write.
    pub(super) fn of(content: &Content) -> io::Result<Self> {
        let metadata = content.metadata()?;
        let birth_ns = if content.is_packed() { 0 } else { nanoseconds(metadata.created()) };
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            birth_ns,
            modified_ns: nanoseconds(metadata.modified()),
        })
    }

    /// What tells the file from others that begin alike, in 40 bits.
    pub(super) fn mark(&self) -> u64 {
        // With a birth time the device is left out: numbers of devices are handed out anew at every
        // boot.
        let device = if self.birth_ns == 0 { self.device } else { 0 };
        let mut key = Vec::with_capacity(24);
        for number in [device, self.inode, self.birth_ns] {
            key.extend_from_slice(&number.to_le_bytes());
        }
        u64::try_from(hash_of(&key).0 & ((1 << MARK_BITS) - 1)).expect("40 bits")
    }

    /// Device and inode.
    pub(super) fn inode(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Orders the parts of one log, larger is newer: by the last write, because an old inode can
    /// hold a newer content than its copy, and what is packed was born late.
    pub(super) fn age(&self) -> Age {
        Age { birth_ns: self.birth_ns, modified_ns: self.modified_ns }
    }

    /// Whether both are the same file now; births are not asked because they only matter over
    /// restarts.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        self.inode() == other.inode()
    }
}

/// See [`Place::age`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Age {
    modified_ns: u64,
    birth_ns: u64,
}

impl Age {
    /// The newest birth and the newest last write.
    pub(super) fn newest(ages: impl Iterator<Item = Self>) -> Option<Self> {
        ages.reduce(|a, b| Self {
            birth_ns: a.birth_ns.max(b.birth_ns),
            modified_ns: a.modified_ns.max(b.modified_ns),
        })
    }

    /// Whether it was last written at or after a time.
    pub(super) fn is_written_after(&self, since_ns: u64) -> bool {
        self.modified_ns >= since_ns
    }

    /// Whether a part of this age may hold what was written after all parts of `known`. The birth
    /// misleads when an old inode was truncated and written anew, the last write when a writer had
    /// not reopened its log; so either will do.
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

/// The first line of a file, newline included, or the first [`HEAD_LIMIT`] bytes of it. What a
/// writer that does not append leaves before it after a truncation, a hole of NUL bytes, is passed
/// over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Length of the hole.
    at: u64,
    bytes: Vec<u8>,
}

impl Head {
    /// `None` while the file is too short to have one. With `is_final` whatever is there counts,
    /// unless it is nothing.
    pub(super) fn read(content: &mut Content, is_final: bool) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; HEAD_LIMIT];
        let mut length = content.read_at(&mut bytes, 0)?;
        let mut at = 0;
        if length > 0 && bytes[0] == 0 {
            // Without any data it is room that is reserved and not written to; its first bytes will
            // change.
            let Some(data) = first_data(content)? else { return Ok(None) };
            at = data;
            length = content.read_at(&mut bytes, at)?;
        }
        bytes.truncate(length);
        if let Some(newline) = memchr::memchr(b'\n', &bytes) {
            bytes.truncate(newline + 1);
            return Ok(Some(Self { at, bytes }));
        }
        let is_complete = length == HEAD_LIMIT || (is_final && length > 0);
        Ok(is_complete.then_some(Self { at, bytes }))
    }

    /// Whether `content` begins with these bytes.
    pub(super) fn is_head_of(&self, content: &mut Content) -> io::Result<bool> {
        let mut bytes = [0; HEAD_LIMIT];
        let bytes = &mut bytes[..self.bytes.len()];
        let has_bytes =
            content.read_at(bytes, self.at)? == self.bytes.len() && *bytes == *self.bytes;
        Ok(has_bytes && !self.is_hole_filled(content)?)
    }

    /// Whether `content` begins with other bytes, as far as it has any.
    pub(super) fn is_other(&self, content: &mut Content) -> io::Result<bool> {
        let mut bytes = [0; HEAD_LIMIT];
        let length = content.read_at(&mut bytes[..self.bytes.len()], self.at)?;
        Ok(bytes[..length] != self.bytes[..length] || self.is_hole_filled(content)?)
    }

    fn is_hole_filled(&self, content: &mut Content) -> io::Result<bool> {
        let mut first = [0];
        Ok(self.at > 0 && content.read_at(&mut first, 0)? == 1 && first != [0])
    }

    /// Length of the hole, and the bytes behind it.
    pub(super) fn parts(&self) -> (u64, &[u8]) {
        (self.at, &self.bytes)
    }

    /// From what [`Head::parts`] gave; of more bytes than a head has, the first.
    pub(super) fn of_parts(at: u64, mut bytes: Vec<u8>) -> Self {
        bytes.truncate(HEAD_LIMIT);
        Self { at, bytes }
    }

    fn add_to(&self, key: &mut Vec<u8>) {
        if self.at > 0 {
            key.push(0);
            key.extend_from_slice(&self.at.to_le_bytes());
        }
        key.extend_from_slice(&self.bytes);
    }
}

/// Bytes of a hole that are looked at, besides those of which the file system knows that they are
/// one.
const HOLE_LIMIT: u64 = 64 << 20;

/// The offset of the first byte that is not NUL; 0 when it is too far away.
fn first_data(content: &mut Content) -> io::Result<Option<u64>> {
    let (mut at, mut looked_at) = (0, 0);
    let mut block = vec![0; 64 << 10];
    while looked_at < HOLE_LIMIT {
        if !content.is_packed() {
            match rustix::fs::seek(content.file(), rustix::fs::SeekFrom::Data(at)) {
                Ok(data) => at = data,
                Err(rustix::io::Errno::NXIO) => return Ok(None),
                // Not every file system knows its holes.
                Err(_) => {}
            }
        }
        let length = content.read_at(&mut block, at)?;
        if let Some(data) = block[..length].iter().position(|byte| *byte != 0) {
            return Ok(Some(at + data as u64));
        }
        if length < block.len() {
            return Ok(None);
        }
        at += length as u64;
        looked_at += length as u64;
    }
    Ok(Some(0))
}

/// Identity of the content that begins with `head` in the file with this mark on `host`.
/// `generation` counts contents of one file that began with the same line.
pub(super) fn stream_id(host: &str, mark: u64, head: &Head, generation: u32) -> StreamId {
    let mut key = Vec::with_capacity(host.len() + head.bytes.len() + 13);
    key.extend_from_slice(host.as_bytes());
    key.push(0);
    key.extend_from_slice(&mark.to_le_bytes());
    key.extend_from_slice(&generation.to_le_bytes());
    head.add_to(&mut key);
    hash_of(&key)
}

/// The stream whose "position" says which file began with `head`, see [`Entry`].
pub(super) fn directory_id(host: &str, head: &Head, slot: u32) -> StreamId {
    let mut key = Vec::with_capacity(host.len() + head.bytes.len() + 15);
    key.extend_from_slice(b"directory\0");
    key.extend_from_slice(host.as_bytes());
    key.push(0);
    key.extend_from_slice(&slot.to_le_bytes());
    head.add_to(&mut key);
    hash_of(&key)
}

const MARK_BITS: u32 = 40;

/// What a slot of a head's directory holds, as a position: it only grows, so a later file of the
/// same slot counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Counts the files that began with the head, from 1.
    pub(super) count: u64,
    /// The file's mark.
    pub(super) mark: u64,
}

impl Entry {
    pub(super) fn of_position(position: u64) -> Self {
        Self { count: position >> MARK_BITS, mark: position & ((1 << MARK_BITS) - 1) }
    }

    pub(super) fn position(self) -> u64 {
        self.count << MARK_BITS | self.mark
    }
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
