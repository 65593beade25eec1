//! Fingerprint of a log file, from which its stream id is computed: a hash over host, file and
//! first bytes. `docs/formats/stream-identity.md`.
//!
//! A file is identified by 40 bits derived from inode and birth time, its *mark*. For each first
//! line the hub keeps the marks of the files that had it, so that a copy or a compressed part finds
//! the stream of the file that it was made from, although that file is gone. Only the first line
//! counts, at most [`HEAD_LIMIT`] bytes of it, so that the fingerprint is the same whenever it is
//! computed while the file grows. A shorter file has none yet.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{SystemTime, UNIX_EPOCH};

use siphasher::sip128::SipHasher24;
use weir_tables::{Micros, StreamId};

use super::byte_order::ByteOrder;
use super::content::Content;

/// Maximum bytes of the first line that the fingerprint covers.
pub(super) const HEAD_LIMIT: usize = 256;

/// File system attributes that the fingerprint is derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    /// Device number; changes over a reboot on some systems.
    pub(super) device: u64,
    /// Inode number; reused at once by some file systems.
    pub(super) inode: u64,
    /// Birth time in ns since 1970, 0 when the file system has none.
    pub(super) birth_ns: u64,
    /// Time of the last write in ns since 1970; not part of the fingerprint.
    pub(super) modified_ns: u64,
}

impl FileIdentity {
    /// Reads the attributes. Compressing a file keeps the time of its last write only.
    pub(super) fn of(content: &Content) -> io::Result<Self> {
        let metadata = content.metadata()?;
        let birth_ns = if content.is_immutable() { 0 } else { nanoseconds(metadata.created()) };
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            birth_ns,
            modified_ns: nanoseconds(metadata.modified()),
        })
    }

    /// Distinguishes the file from others that begin alike, in 40 bits.
    pub(super) fn mark(&self) -> u64 {
        // With a birth time the device is ignored: device numbers are reassigned at every boot.
        let device = if self.birth_ns == 0 { self.device } else { 0 };
        let mut key = Vec::with_capacity(24);
        for number in [device, self.inode, self.birth_ns] {
            key.extend_from_slice(&number.to_le_bytes());
        }
        u64::try_from(hash_of(&key).0 & ((1 << MARK_BITS) - 1)).expect("40 bits")
    }

    /// Time of the last write, if known.
    pub(super) fn modified(&self) -> Option<Micros> {
        let micros = i64::try_from(self.modified_ns / 1000).ok();
        micros.filter(|micros| *micros > 0).map(Micros)
    }

    pub(super) fn inode(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Orders the parts of one log, larger is newer: by the last write, because an old inode can
    /// have newer content than its copy, and compressed parts are born late.
    pub(super) fn age(&self) -> PartAge {
        PartAge { birth_ns: self.birth_ns, modified_ns: self.modified_ns }
    }

    /// Whether both are the same file now; births only matter over restarts.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        self.inode() == other.inode()
    }
}

/// Age of a part, see [`FileIdentity::age`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartAge {
    modified_ns: u64,
    birth_ns: u64,
}

impl PartAge {
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

    /// Whether a part of this age may contain lines written after all parts of `known`. The birth
    /// misleads when an old inode was truncated and rewritten, the last write when a writer had not
    /// reopened its log; so either is sufficient.
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

/// First line of a file, newline included, or its first [`HEAD_LIMIT`] bytes. A leading hole of NUL
/// bytes, which a writer without append leaves after a truncation, is skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileHead {
    at: u64,
    bytes: Vec<u8>,
}

impl FileHead {
    /// Reads the head; `None` while the file is too short, unless `is_final` and not empty.
    pub(super) fn read(content: &mut Content, is_final: bool) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; HEAD_LIMIT];
        let mut length = content.read_at(&mut bytes, 0)?;
        let mut at = 0;
        if length > 0 && bytes[0] == 0 {
            // Without any data this is reserved space; its first bytes will change.
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

    pub(super) fn is_head_of(&self, content: &mut Content) -> io::Result<bool> {
        let mut bytes = [0; HEAD_LIMIT];
        let bytes = &mut bytes[..self.bytes.len()];
        let has_bytes =
            content.read_at(bytes, self.at)? == self.bytes.len() && *bytes == *self.bytes;
        Ok(has_bytes && !self.is_hole_filled(content)?)
    }

    /// Whether the bytes that `content` has differ from this head.
    pub(super) fn is_other(&self, content: &mut Content) -> io::Result<bool> {
        let mut bytes = [0; HEAD_LIMIT];
        let length = content.read_at(&mut bytes[..self.bytes.len()], self.at)?;
        Ok(bytes[..length] != self.bytes[..length] || self.is_hole_filled(content)?)
    }

    fn is_hole_filled(&self, content: &mut Content) -> io::Result<bool> {
        let mut first = [0];
        Ok(self.at > 0 && content.read_at(&mut first, 0)? == 1 && first != [0])
    }

    /// Order of the bytes of a file in UTF-16; `None` for other files.
    pub(super) fn byte_order(&self) -> Option<ByteOrder> {
        if self.at == 0 { ByteOrder::of_head(&self.bytes) } else { None }
    }

    /// Length of the hole, and the bytes behind it.
    pub(super) fn parts(&self) -> (u64, &[u8]) {
        (self.at, &self.bytes)
    }

    /// Builds a head from [`FileHead::parts`]; surplus bytes are cut.
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

/// Maximum bytes searched for the end of a hole that the file system does not report.
const HOLE_LIMIT: u64 = 64 << 20;

/// Offset of the first byte that is not NUL; 0 when it is too far away.
fn first_data(content: &mut Content) -> io::Result<Option<u64>> {
    let (mut at, mut searched) = (0, 0);
    let mut block = vec![0; 64 << 10];
    while searched < HOLE_LIMIT {
        if !content.is_immutable() {
            match rustix::fs::seek(content.file(), rustix::fs::SeekFrom::Data(at)) {
                Ok(data) => at = data,
                Err(rustix::io::Errno::NXIO) => return Ok(None),
                // Not every file system reports holes.
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
        searched += length as u64;
    }
    Ok(Some(0))
}

/// Stream of the content that begins with `head` in the file with this mark on `host`. `generation`
/// counts contents of one file that began with the same line.
/// Example: a log that is truncated twice and always begins with `starting` has generations 0, 1,
/// 2.
pub(super) fn stream_id(host: &str, mark: u64, head: &FileHead, generation: u32) -> StreamId {
    let mut key = Vec::with_capacity(host.len() + head.bytes.len() + 13);
    key.extend_from_slice(host.as_bytes());
    key.push(0);
    key.extend_from_slice(&mark.to_le_bytes());
    key.extend_from_slice(&generation.to_le_bytes());
    head.add_to(&mut key);
    hash_of(&key)
}

/// Stream whose "position" is an entry in the directory of `head`, see [`SlotEntry`].
pub(super) fn directory_id(host: &str, head: &FileHead, slot: u32) -> StreamId {
    let mut key = Vec::with_capacity(host.len() + head.bytes.len() + 15);
    key.extend_from_slice(b"directory\0");
    key.extend_from_slice(host.as_bytes());
    key.push(0);
    key.extend_from_slice(&slot.to_le_bytes());
    head.add_to(&mut key);
    hash_of(&key)
}

const MARK_BITS: u32 = 40;

/// Content of a slot in a head's directory as a position, which only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotEntry {
    /// Number of files that began with the head, from 1.
    pub(super) count: u64,
    pub(super) mark: u64,
}

impl SlotEntry {
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
