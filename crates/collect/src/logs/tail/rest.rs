//! The unread rest of a deleted log, copied so that its file can be closed and its space be free:
//! `docs/formats/rest.md`.
//!
//! It is read as the file was: with the same stream and offsets. The surprising thing: a rest may
//! end before the log did, because it did not fit or because the agent was killed while it copied;
//! how long the log was stands at its front, so what is missing is known to the byte.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use weir_tables::{JsonEscape, LogFormat, LogSource, Program, StreamId};

use super::identity::{Head, Place, read_full};

const MAGIC: &[u8; 8] = b"WRST\x01\0\0\0";
/// Magic, length and checksum of the description.
const FRONT_BYTES: usize = 16;
/// Length, checksum, offset, length unpacked.
const BLOCK_HEAD_BYTES: usize = 20;
/// Bytes of the log in one block.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
/// No description is longer, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 1 << 20;
/// Who reads more than this at once reads on in another block next time: nothing is kept for it.
const SMALL_READ_BYTES: usize = 64 << 10;
/// zstd's level: logs shrink to a tenth, at hundreds of MB a second.
const LEVEL: i32 = 1;

/// What is known of a log whose rest is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) stream: StreamId,
    /// How far the hub had it.
    pub(super) acknowledged: u64,
    /// How long it was.
    pub(super) size: u64,
    pub(super) place: Place,
    pub(super) head: Head,
    /// The path that it was watched under.
    pub(super) path: PathBuf,
    pub(super) source: LogSource,
}

/// A rest that is being written.
#[derive(Debug)]
pub(super) struct RestWriter {
    path: PathBuf,
    file: File,
    description: Description,
    blocks: Vec<Block>,
    /// Offset of the log that comes next.
    pub(super) next: u64,
    /// Bytes of this file.
    pub(super) stored_bytes: u64,
}

/// Where a stretch of the log is.
#[derive(Clone, Copy, Debug)]
struct Block {
    offset: u64,
    length: usize,
    at: u64,
    packed_length: usize,
}

impl RestWriter {
    /// Begins the rest of a log in `dir`, from `first` on.
    pub(super) fn begin(dir: &Path, description: Description, first: u64) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let path = dir.join(format!("{}.rest", description.stream));
        let front = description.encode();
        let options = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .clone();
        let mut file = options.open(&path)?;
        if let Err(error) = file.write_all(&front) {
            let _nothing_lost = fs::remove_file(&path);
            return Err(error);
        }
        let stored_bytes = front.len() as u64;
        Ok(Self { path, file, description, blocks: Vec::new(), next: first, stored_bytes })
    }

    /// How long the log was when this was begun.
    pub(super) fn size(&self) -> u64 {
        self.description.size
    }

    /// Packs what comes next of the log.
    pub(super) fn pack(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let packed = zstd::bulk::compress(bytes, LEVEL)?;
        let mut block = Vec::with_capacity(BLOCK_HEAD_BYTES + packed.len());
        block.extend_from_slice(&length(packed.len())?.to_le_bytes());
        block.extend_from_slice(&checksum(self.next, &packed).to_le_bytes());
        block.extend_from_slice(&self.next.to_le_bytes());
        block.extend_from_slice(&length(bytes.len())?.to_le_bytes());
        block.extend_from_slice(&packed);
        Ok(block)
    }

    /// Writes what [`RestWriter::pack`] gave for `count` bytes of the log; what could not be
    /// written is not there.
    pub(super) fn add(&mut self, block: &[u8], count: usize) -> io::Result<()> {
        if let Err(error) = self.file.write_all_at(block, self.stored_bytes) {
            let _cut_at_reading = self.file.set_len(self.stored_bytes);
            return Err(error);
        }
        self.blocks.push(Block {
            offset: self.next,
            length: count,
            at: self.stored_bytes + BLOCK_HEAD_BYTES as u64,
            packed_length: block.len() - BLOCK_HEAD_BYTES,
        });
        self.next += count as u64;
        self.stored_bytes += block.len() as u64;
        Ok(())
    }

    /// Makes it durable; then it is the log's content.
    pub(super) fn finish(self) -> io::Result<Kept> {
        self.file.sync_data()?;
        let Self { path, file, description, blocks, stored_bytes, .. } = self;
        Ok(Kept { path, file, blocks, size: description.size, stored_bytes, unpacked: None })
    }

    /// Removes it.
    pub(super) fn abandon(self) {
        let _nothing_lost = fs::remove_file(&self.path);
    }
}

/// The content of a log of which only a rest is left.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    pub(super) file: File,
    blocks: Vec<Block>,
    size: u64,
    /// Bytes of the file.
    pub(super) stored_bytes: u64,
    /// A block that was read, by its offset.
    unpacked: Option<(u64, Vec<u8>)>,
}

impl Kept {
    /// Reads a rest's description and looks its blocks through; what is not whole ends it.
    pub(super) fn open(path: &Path) -> io::Result<(Description, Self)> {
        let mut file = File::open(path)?;
        let mut front = [0; FRONT_BYTES];
        file.read_exact(&mut front)?;
        let (magic, rest) = front.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |n, b| n << 8 | u32::from(*b));
        let (count, sum) = (number(&rest[..4]) as usize, number(&rest[4..]));
        if magic != MAGIC || count > DESCRIPTION_BYTES_MAX {
            return Err(io::Error::other("it is no rest of this version"));
        }
        let mut text = vec![0; count];
        file.read_exact(&mut text)?;
        let description = (checksum(0, &text) == sum).then(|| Description::decode(&text)).flatten();
        let description =
            description.ok_or_else(|| io::Error::other("its description is broken"))?;
        let (mut blocks, mut at) = (Vec::new(), (FRONT_BYTES + count) as u64);
        while let Some(block) = next_block(&file, at)? {
            if blocks
                .last()
                .is_some_and(|last: &Block| last.offset + last.length as u64 != block.offset)
            {
                break;
            }
            at = block.at + block.packed_length as u64;
            blocks.push(block);
        }
        let size = description.size;
        let kept =
            Self { path: path.to_owned(), file, blocks, size, stored_bytes: at, unpacked: None };
        Ok((description, kept))
    }

    /// How long the log was.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Where what begins at `offset` and is missing ends; `None` when it is there, or behind the
    /// log's end.
    pub(super) fn missing_until(&self, offset: u64) -> Option<u64> {
        let (Some(first), Some(last)) = (self.blocks.first(), self.blocks.last()) else {
            return (offset < self.size).then_some(self.size);
        };
        let end = last.offset + last.length as u64;
        if offset < first.offset {
            Some(first.offset)
        } else {
            (offset >= end && offset < self.size).then_some(self.size)
        }
    }

    /// Reads until `bytes` is full or what is kept ends; gives the count.
    pub(super) fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            let at = offset + filled as u64;
            let found = self.blocks.partition_point(|block| block.offset <= at).checked_sub(1);
            let Some(block) = found.map(|found| self.blocks[found]) else { break };
            let within = usize::try_from(at - block.offset).unwrap_or(usize::MAX);
            if within >= block.length {
                break;
            }
            let unpacked = self.unpack(&block)?;
            let count = (block.length - within).min(bytes.len() - filled);
            bytes[filled..filled + count].copy_from_slice(&unpacked[within..within + count]);
            filled += count;
        }
        if bytes.len() > SMALL_READ_BYTES {
            self.unpacked = None;
        }
        Ok(filled)
    }

    fn unpack(&mut self, block: &Block) -> io::Result<&[u8]> {
        if self.unpacked.as_ref().is_none_or(|(offset, _)| *offset != block.offset) {
            let mut packed = vec![0; block.packed_length];
            self.file.read_exact_at(&mut packed, block.at)?;
            let bytes = zstd::bulk::decompress(&packed, block.length)?;
            if bytes.len() != block.length {
                return Err(io::Error::other("a block of a rest has another length"));
            }
            self.unpacked = Some((block.offset, bytes));
        }
        Ok(self.unpacked.as_ref().map_or(&[][..], |(_, bytes)| bytes))
    }

    /// Removes the file: the hub has all of it.
    pub(super) fn remove(self) {
        let _found_again_at_the_next_start = fs::remove_file(&self.path);
    }
}

/// `None` at the end, and where a block is not whole.
fn next_block(file: &File, at: u64) -> io::Result<Option<Block>> {
    let mut head = [0; BLOCK_HEAD_BYTES];
    if read_full(file, &mut head, at)? < head.len() {
        return Ok(None);
    }
    let mut head = Reader(&head);
    let (Some(packed_length), Some(sum), Some(offset), Some(length)) =
        (head.number32(), head.number32(), head.number64(), head.number32())
    else {
        return Ok(None);
    };
    let (packed_length, length) = (packed_length as usize, length as usize);
    if packed_length > 2 * BLOCK_BYTES || length > BLOCK_BYTES {
        return Ok(None);
    }
    let at = at + BLOCK_HEAD_BYTES as u64;
    let mut packed = vec![0; packed_length];
    let is_whole =
        read_full(file, &mut packed, at)? == packed_length && checksum(offset, &packed) == sum;
    Ok(is_whole.then_some(Block { offset, length, at, packed_length }))
}

fn checksum(offset: u64, bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(&offset.to_le_bytes());
    crc.update(bytes);
    crc.sum()
}

fn length(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| io::Error::other("a part of a rest is too long"))
}

impl Description {
    /// The front of a rest.
    fn encode(&self) -> Vec<u8> {
        let mut text = Vec::new();
        text.extend_from_slice(&self.stream.0.to_le_bytes());
        let Place { device, inode, birth_ns, modified_ns } = self.place;
        let (at, head) = self.head.parts();
        for number in [self.acknowledged, self.size, device, inode, birth_ns, modified_ns, at] {
            text.extend_from_slice(&number.to_le_bytes());
        }
        put(&mut text, head);
        put(&mut text, self.path.as_os_str().as_bytes());
        put(&mut text, self.source.path.as_os_str().as_bytes());
        put(&mut text, self.source.found_in.as_bytes());
        text.push(match self.source.program {
            Program::Nginx => 1,
            Program::Haproxy => 2,
            Program::Apache => 3,
            Program::Syslog => 4,
            Program::Journal => 5,
            Program::Other => 0,
        });
        let (format, template) = match &self.source.format {
            LogFormat::Auto => (0, ""),
            LogFormat::NginxTemplate { template, escape: JsonEscape::Default } => {
                (1, template.as_str())
            }
            LogFormat::NginxTemplate { template, escape: JsonEscape::Json } => {
                (2, template.as_str())
            }
            LogFormat::NginxTemplate { template, escape: JsonEscape::None } => {
                (3, template.as_str())
            }
            LogFormat::ApacheTemplate { template } => (4, template.as_str()),
            LogFormat::Combined => (5, ""),
            LogFormat::Json => (6, ""),
            LogFormat::HaproxyHttp => (7, ""),
            LogFormat::Syslog => (8, ""),
            LogFormat::Journal => (9, ""),
            LogFormat::NginxError => (10, ""),
            LogFormat::ApacheError => (11, ""),
        };
        text.push(format);
        put(&mut text, template.as_bytes());
        let mut front = MAGIC.to_vec();
        front.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        front.extend_from_slice(&checksum(0, &text).to_le_bytes());
        front.extend_from_slice(&text);
        front
    }

    fn decode(text: &[u8]) -> Option<Self> {
        let mut text = Reader(text);
        let stream = StreamId(u128::from_le_bytes(text.take(16)?.try_into().ok()?));
        let (acknowledged, size) = (text.number64()?, text.number64()?);
        let (device, inode) = (text.number64()?, text.number64()?);
        let (birth_ns, modified_ns) = (text.number64()?, text.number64()?);
        let at = text.number64()?;
        let head = Head::of_parts(at, text.text()?.to_vec());
        let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()));
        let (watched, source_path) = (path(text.text()?), path(text.text()?));
        let found_in = String::from_utf8(text.text()?.to_vec()).ok()?;
        let program = match text.take(1)? {
            [1] => Program::Nginx,
            [2] => Program::Haproxy,
            [3] => Program::Apache,
            [4] => Program::Syslog,
            [5] => Program::Journal,
            _ => Program::Other,
        };
        let kind = text.take(1)?.first().copied()?;
        let template = String::from_utf8(text.text()?.to_vec()).ok()?;
        let nginx = |escape| LogFormat::NginxTemplate { template: template.clone(), escape };
        let format = match kind {
            0 => LogFormat::Auto,
            1 => nginx(JsonEscape::Default),
            2 => nginx(JsonEscape::Json),
            3 => nginx(JsonEscape::None),
            4 => LogFormat::ApacheTemplate { template },
            5 => LogFormat::Combined,
            6 => LogFormat::Json,
            7 => LogFormat::HaproxyHttp,
            8 => LogFormat::Syslog,
            9 => LogFormat::Journal,
            10 => LogFormat::NginxError,
            11 => LogFormat::ApacheError,
            _ => return None,
        };
        let place = Place { device, inode, birth_ns, modified_ns };
        let source = LogSource { path: source_path, program, format, found_in };
        Some(Self { stream, acknowledged, size, place, head, path: watched, source })
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Takes numbers and texts from the front of bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn number32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn number64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let count = self.number32()?;
        self.take(count as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        Description {
            stream: StreamId(7 << 90),
            acknowledged: 100,
            size: 3_000_000,
            place: Place { device: 1, inode: 2, birth_ns: 3, modified_ns: 4 },
            head: Head::of_parts(0, b"first line\n".to_vec()),
            path: "/var/log/a.log".into(),
            source: LogSource {
                path: "/var/log/*.log".into(),
                program: Program::Nginx,
                format: LogFormat::NginxTemplate {
                    template: "$uri".into(),
                    escape: JsonEscape::Json,
                },
                found_in: "/etc/nginx/nginx.conf:3".into(),
            },
        }
    }

    #[test]
    fn what_is_whole_is_read_and_what_is_missing_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let log: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let mut writer = RestWriter::begin(dir.path(), description(), 36).unwrap();
        for end in [200_036, 400_036, 500_000] {
            let from = usize::try_from(writer.next).unwrap();
            let block = writer.pack(&log[from..end]).unwrap();
            writer.add(&block, end - from).unwrap();
        }
        let kept = writer.finish().unwrap();
        let (path, stored) = (kept.path.clone(), kept.stored_bytes);
        assert_eq!(fs::metadata(&path).unwrap().len(), stored);
        let (found, mut again) = Kept::open(&path).unwrap();
        assert_eq!(found, description());
        let mut bytes = vec![0; 2_000_000];
        assert_eq!(again.read_at(&mut bytes, 199_000).unwrap(), 301_000);
        assert_eq!(bytes[..301_000], log[199_000..500_000]);
        assert_eq!(again.missing_until(0), Some(36));
        assert_eq!(again.missing_until(36), None);
        assert_eq!(again.missing_until(500_000), Some(3_000_000));
        assert_eq!(again.missing_until(3_000_000), None);
        // As kill -9 leaves it in the middle of a block: what is whole is there.
        File::options().write(true).open(&path).unwrap().set_len(stored - 1).unwrap();
        let (_, mut cut) = Kept::open(&path).unwrap();
        assert_eq!(cut.read_at(&mut bytes, 400_000).unwrap(), 36);
        assert_eq!(cut.missing_until(400_036), Some(3_000_000));
        again.remove();
        assert!(!path.exists());
    }

    #[test]
    fn every_format_survives_its_description() {
        let template = "%h".to_owned();
        for format in [
            LogFormat::Auto,
            LogFormat::ApacheTemplate { template },
            LogFormat::Combined,
            LogFormat::Json,
            LogFormat::HaproxyHttp,
            LogFormat::Syslog,
            LogFormat::NginxError,
            LogFormat::ApacheError,
        ] {
            let mut one = description();
            one.source.format = format;
            assert_eq!(Description::decode(&one.encode()[FRONT_BYTES..]).unwrap(), one);
        }
    }
}
