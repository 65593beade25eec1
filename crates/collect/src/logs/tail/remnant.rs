//! Remnants: the unread lines of a deleted log, copied so that its space is freed.
//! `docs/formats/rest.md`.
//!
//! A remnant is read like the file was: with the same stream and offsets. The surprising thing: a
//! remnant may end before the log did, because it did not fit or because the agent was killed
//! during the copy; the length of the log is in the header, so the missing bytes are known exactly.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use weir_tables::{JsonEscape, LogFormat, LogSource, Micros, Program, StreamId};

use super::fingerprint::{FileHead, FileIdentity};
use super::remnant_content::{BLOCK_HEAD_BYTES, BlockEntry, RemnantContent, checksum};

const MAGIC: &[u8; 8] = b"WRST\x01\0\0\0";
/// Magic, length and checksum of the header.
const FRONT_BYTES: usize = 16;
const HEADER_BYTES_MAX: usize = 1 << 20;
/// zstd level: logs shrink to a tenth, at hundreds of MB/s.
const LEVEL: i32 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemnantHeader {
    pub(super) stream: StreamId,
    pub(super) acknowledged: u64,
    pub(super) size: u64,
    pub(super) identity: FileIdentity,
    pub(super) head: FileHead,
    pub(super) path: PathBuf,
    pub(super) source: LogSource,
}

#[derive(Debug)]
pub(super) struct RemnantWriter {
    path: PathBuf,
    file: File,
    header: RemnantHeader,
    blocks: Vec<BlockEntry>,
    pub(super) next: u64,
    pub(super) stored_bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct RemnantCopy {
    pub(super) writer: Option<RemnantWriter>,
    pub(super) retry_at: Option<Micros>,
}

impl RemnantCopy {
    pub(super) fn is_under_way(&self) -> bool {
        self.writer.is_some()
    }
}

impl RemnantWriter {
    /// Creates the remnant of a log in `dir`, from offset `first` on.
    pub(super) fn create(dir: &Path, header: RemnantHeader, first: u64) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let path = dir.join(format!("{}.rest", header.stream));
        let front = header.encode();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&path)?;
        if let Err(error) = file.write_all(&front) {
            let _nothing_lost = fs::remove_file(&path);
            return Err(error);
        }
        let stored_bytes = front.len() as u64;
        Ok(Self { path, file, header, blocks: Vec::new(), next: first, stored_bytes })
    }

    /// Length of the log when the copy began.
    pub(super) fn size(&self) -> u64 {
        self.header.size
    }

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

    /// Appends the result of [`RemnantWriter::pack`] for `count` bytes of the log; all or nothing.
    pub(super) fn add(&mut self, block: &[u8], count: usize) -> io::Result<()> {
        if let Err(error) = self.file.write_all_at(block, self.stored_bytes) {
            let _cut_at_reading = self.file.set_len(self.stored_bytes);
            return Err(error);
        }
        self.blocks.push(BlockEntry {
            offset: self.next,
            length: count,
            at: self.stored_bytes + BLOCK_HEAD_BYTES as u64,
            packed_length: block.len() - BLOCK_HEAD_BYTES,
        });
        self.next += count as u64;
        self.stored_bytes += block.len() as u64;
        Ok(())
    }

    pub(super) fn finish(self) -> io::Result<RemnantContent> {
        self.file.sync_data()?;
        let Self { path, file, header, blocks, stored_bytes, .. } = self;
        Ok(RemnantContent::new((path, file), header.size, blocks, stored_bytes))
    }

    pub(super) fn abandon(self) {
        let _nothing_lost = fs::remove_file(&self.path);
    }
}

fn length(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| io::Error::other("a part of a remnant is too long"))
}

impl RemnantHeader {
    /// Opens a remnant: reads its header and finds its blocks up to the first incomplete one.
    pub(super) fn open(path: &Path) -> io::Result<(Self, RemnantContent)> {
        let mut file = File::open(path)?;
        let mut front = [0; FRONT_BYTES];
        file.read_exact(&mut front)?;
        let (magic, rest) = front.split_at(8);

        let mut rest = HeaderReader(rest);
        let count = rest.number32().unwrap_or_default() as usize;
        let sum = rest.number32().unwrap_or_default();
        if magic != MAGIC || count > HEADER_BYTES_MAX {
            return Err(io::Error::other("it is not a remnant of this version"));
        }
        let mut text = vec![0; count];
        file.read_exact(&mut text)?;
        let header = (checksum(0, &text) == sum).then(|| RemnantHeader::decode(&text)).flatten();
        let header = header.ok_or_else(|| io::Error::other("its header is damaged"))?;
        let at = (FRONT_BYTES + count) as u64;
        let content = RemnantContent::open(at, (path.to_owned(), file), header.size)?;
        Ok((header, content))
    }

    fn encode(&self) -> Vec<u8> {
        let mut text = Vec::new();
        text.extend_from_slice(&self.stream.0.to_le_bytes());
        let FileIdentity { device, inode, birth_ns, modified_ns } = self.identity;
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
        let mut text = HeaderReader(text);
        let stream = StreamId(u128::from_le_bytes(text.take(16)?.try_into().ok()?));
        let (acknowledged, size) = (text.number64()?, text.number64()?);
        let (device, inode) = (text.number64()?, text.number64()?);
        let (birth_ns, modified_ns) = (text.number64()?, text.number64()?);
        let at = text.number64()?;
        let head = FileHead::of_parts(at, text.text()?.to_vec());
        let (watched, source_path) = (text.path()?, text.path()?);
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
        let format = match kind {
            0 => LogFormat::Auto,
            1 => LogFormat::NginxTemplate { template, escape: JsonEscape::Default },
            2 => LogFormat::NginxTemplate { template, escape: JsonEscape::Json },
            3 => LogFormat::NginxTemplate { template, escape: JsonEscape::None },
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
        let identity = FileIdentity { device, inode, birth_ns, modified_ns };
        let source = LogSource { path: source_path, program, format, found_in };
        Some(Self { stream, acknowledged, size, identity, head, path: watched, source })
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Reads numbers and texts from the front of bytes.
struct HeaderReader<'a>(&'a [u8]);

impl<'a> HeaderReader<'a> {
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

    fn path(&mut self) -> Option<PathBuf> {
        Some(PathBuf::from(std::ffi::OsString::from_vec(self.text()?.to_vec())))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let count = self.number32()?;
        self.take(count as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> RemnantHeader {
        RemnantHeader {
            stream: StreamId(7 << 90),
            acknowledged: 100,
            size: 3_000_000,
            identity: FileIdentity { device: 1, inode: 2, birth_ns: 3, modified_ns: 4 },
            head: FileHead::of_parts(0, b"first line\n".to_vec()),
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
    fn complete_blocks_are_read_and_missing_bytes_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let log: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let mut writer = RemnantWriter::create(dir.path(), header(), 36).unwrap();
        for end in [200_036, 400_036, 500_000] {
            let from = usize::try_from(writer.next).unwrap();
            let block = writer.pack(&log[from..end]).unwrap();
            writer.add(&block, end - from).unwrap();
        }
        let remnant = writer.finish().unwrap();
        let (path, stored) = (remnant.path.clone(), remnant.stored_bytes);
        assert_eq!(fs::metadata(&path).unwrap().len(), stored);
        let (found, mut again) = RemnantHeader::open(&path).unwrap();
        assert_eq!(found, header());
        let mut bytes = vec![0; 2_000_000];
        assert_eq!(again.read_at(&mut bytes, 199_000).unwrap(), 301_000);
        assert_eq!(bytes[..301_000], log[199_000..500_000]);
        assert_eq!(again.missing_until(0), Some(36));
        assert_eq!(again.missing_until(36), None);
        assert_eq!(again.missing_until(500_000), Some(3_000_000));
        assert_eq!(again.missing_until(3_000_000), None);
        // As after kill -9 in the middle of a block: complete blocks are there.
        File::options().write(true).open(&path).unwrap().set_len(stored - 1).unwrap();
        let (_, mut cut) = RemnantHeader::open(&path).unwrap();
        assert_eq!(cut.read_at(&mut bytes, 400_000).unwrap(), 36);
        assert_eq!(cut.missing_until(400_036), Some(3_000_000));
        again.remove();
        assert!(!path.exists());
    }

    #[test]
    fn changed_bytes_of_a_remnant_are_never_lines() {
        let dir = tempfile::tempdir().unwrap();
        let log: Vec<u8> = (0..9000_u32).map(|n| (n * n % 251) as u8).collect();
        let one = RemnantHeader { size: 9000, ..header() };
        let mut writer = RemnantWriter::create(dir.path(), one.clone(), 0).unwrap();
        for part in log.chunks(3000) {
            let block = writer.pack(part).unwrap();
            writer.add(&block, part.len()).unwrap();
        }
        let path = writer.finish().unwrap().path;
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(7) {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&path, changed).unwrap();
            let Ok((found, mut content)) = RemnantHeader::open(&path) else { continue };
            assert_eq!(found, one, "byte {at}");
            let mut bytes = vec![0; 9000];
            let Ok(count) = content.read_at(&mut bytes, 0) else { continue };
            assert!(count < 9000 && bytes[..count] == log[..count], "byte {at}");
            assert_eq!(content.missing_until(count as u64), Some(9000), "byte {at}");
        }
    }

    #[test]
    fn every_format_survives_its_header() {
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
            let mut one = header();
            one.source.format = format;
            assert_eq!(RemnantHeader::decode(&one.encode()[FRONT_BYTES..]).unwrap(), one);
        }
    }
}
