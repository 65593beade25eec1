//! The bytes of a file, by offset: as they lie there, or unpacked (`.gz`, `.zst`).
//!
//! Sources: RFC 1952 (gzip, several members in a row), RFC 8878 (zstd). A packed file can only be
//! unpacked from its start, so a read behind the last one goes on, and a read before it begins
//! anew. The surprising thing: how long the content is, is known only at its end; gzip notes the
//! length's lower 32 bits behind its last member.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::identity::read_full;
use super::rest::Kept;

/// Bytes that are unpacked at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// zstd's window at most, as a power of two: what `zstd` itself unpacks without being told (128
/// MiB).
const WINDOW_LOG_MAX: u32 = 27;

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Packing {
    /// By the file's name.
    pub(super) fn of_name(name: &[u8]) -> Option<Self> {
        split_packing(name).1
    }
}

/// A name without the extension of a packed file, and what that extension means.
pub(super) fn split_packing(name: &[u8]) -> (&[u8], Option<Packing>) {
    let known = [(&b".gz"[..], Packing::Gzip), (b".zst", Packing::Zstd), (b".zstd", Packing::Zstd)];
    let found =
        known.into_iter().find_map(|(end, packing)| Some((name.strip_suffix(end)?, packing)));
    found.map_or((name, None), |(stem, packing)| (stem, Some(packing)))
}

/// What can be read of a file.
#[derive(Debug)]
pub(super) enum Content {
    /// Bytes as they lie there.
    Plain(File),
    /// Bytes to be unpacked.
    Packed(Packed),
    /// The rest of what is deleted.
    Kept(Kept),
}

impl Content {
    /// Opens a file; what its name says decides whether it is unpacked, if its first bytes agree.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let name = path.file_name().map_or(&b""[..], OsStr::as_encoded_bytes);
        let Some(packing) = Packing::of_name(name) else { return Ok(Self::Plain(file)) };
        let mut magic = [0; 4];
        let length = read_full(&file, &mut magic, 0)?;
        let is_packed = match packing {
            Packing::Gzip => magic.starts_with(&[0x1f, 0x8b]),
            // A skippable frame may come first.
            Packing::Zstd => magic == [0x28, 0xb5, 0x2f, 0xfd] || magic[1..] == [0x2a, 0x4d, 0x18],
        };
        if length > 0 && !is_packed {
            return Ok(Self::Plain(file));
        }
        Ok(Self::Packed(Packed { file, packing, reader: None, at: 0, end: None }))
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        match self {
            Self::Plain(file) => file,
            Self::Packed(packed) => &packed.file,
            Self::Kept(kept) => &kept.file,
        }
    }

    /// The file's metadata; of a packed one, the size is not that of the content.
    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        self.file().metadata()
    }

    /// Whether it has to be unpacked; then it does not change any more.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_) | Self::Kept(_))
    }

    /// Where what begins at `offset` and is lost ends; `None` when nothing is.
    pub(super) fn missing_until(&self, offset: u64) -> Option<u64> {
        match self {
            Self::Kept(kept) => kept.missing_until(offset),
            Self::Plain(_) | Self::Packed(_) => None,
        }
    }

    /// Reads until `bytes` is full or the content ends; gives the count.
    pub(super) fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Plain(file) => read_full(file, bytes, offset),
            Self::Packed(packed) => packed.read_at(bytes, offset),
            Self::Kept(kept) => kept.read_at(bytes, offset),
        }
    }

    /// The content's length, if it is known without unpacking all of it.
    pub(super) fn known_size(&self) -> io::Result<Option<u64>> {
        match self {
            Self::Plain(file) => Ok(Some(file.metadata()?.len())),
            Self::Packed(packed) => Ok(packed.end),
            Self::Kept(kept) => Ok(Some(kept.size())),
        }
    }

    /// Whether the content ends at `position`, as far as that can be told without unpacking it.
    pub(super) fn ends_at(&self, position: u64) -> bool {
        match self {
            Self::Plain(file) => file.metadata().is_ok_and(|metadata| metadata.len() == position),
            Self::Packed(packed) => packed.ends_at(position).unwrap_or(false),
            Self::Kept(kept) => kept.size() == position,
        }
    }

    /// Forgets what was unpacked.
    pub(super) fn rest(&mut self) {
        if let Self::Packed(packed) = self {
            (packed.reader, packed.at) = (None, 0);
        }
    }
}

/// A packed file and how far it is unpacked.
pub(super) struct Packed {
    file: File,
    packing: Packing,
    reader: Option<Box<dyn Read + Send>>,
    /// Offset of the byte that `reader` gives next.
    at: u64,
    end: Option<u64>,
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({:?}, {:?} at {})", self.file, self.packing, self.at)
    }
}

impl Packed {
    fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.end.is_some_and(|end| offset >= end) {
            return Ok(0);
        }
        let result = self.read_on(bytes, offset);
        if result.is_err() {
            (self.reader, self.at) = (None, 0);
        }
        result
    }

    fn read_on(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset < self.at {
            self.reader = None;
        }
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                self.at = 0;
                none.insert(unpack(self.file.try_clone()?, self.packing)?)
            }
        };
        let mut block = vec![0; BLOCK_BYTES];
        while self.at < offset {
            let wanted = block.len().min(usize::try_from(offset - self.at).unwrap_or(block.len()));
            let length = read_some(reader, &mut block[..wanted])?;
            if length == 0 {
                self.end = Some(self.at);
                return Ok(0);
            }
            self.at += length as u64;
        }
        let mut filled = 0;
        while filled < bytes.len() {
            let length = read_some(reader, &mut bytes[filled..])?;
            if length == 0 {
                self.end = Some(self.at);
                break;
            }
            filled += length;
            self.at += length as u64;
        }
        Ok(filled)
    }

    fn ends_at(&self, position: u64) -> io::Result<bool> {
        if let Some(end) = self.end {
            return Ok(end == position);
        }
        let mut size = [0; 4];
        let length = self.file.metadata()?.len();
        if self.packing != Packing::Gzip || length < 18 {
            return Ok(false);
        }
        read_full(&self.file, &mut size, length - 4)?;
        Ok(u64::from(u32::from_le_bytes(size)) == position & u64::from(u32::MAX))
    }
}

fn unpack(file: File, packing: Packing) -> io::Result<Box<dyn Read + Send>> {
    let from_start = FromStart { file, at: 0 };
    Ok(match packing {
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(from_start)),
        Packing::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(from_start)?;
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
    })
}

fn read_some(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads a file from its start whatever the offset of its descriptor is.
struct FromStart {
    file: File,
    at: u64,
}

impl Read for FromStart {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(bytes, self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}

/// Bytes at the start, and at the end of what both have, that are compared.
const COMPARED_BYTES: u64 = 4096;

/// Whether one of two contents looks like the beginning of the other, or both are the same.
pub(super) fn is_same_content(a: &mut Content, b: &mut Content) -> io::Result<bool> {
    let sizes = [a.known_size()?, b.known_size()?];
    let common = sizes.into_iter().flatten().min().unwrap_or(COMPARED_BYTES);
    let starts = if sizes.iter().all(Option::is_some) {
        vec![0, common.saturating_sub(COMPARED_BYTES)]
    } else {
        vec![0]
    };
    for start in starts {
        let wanted = usize::try_from(common.min(COMPARED_BYTES)).expect("a few KiB");
        let (mut left, mut right) = (vec![0; wanted], vec![0; wanted]);
        let lengths = (a.read_at(&mut left, start)?, b.read_at(&mut right, start)?);
        let both = lengths.0.min(lengths.1);
        if both == 0 || left[..both] != right[..both] {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(name: &str, text: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let file = File::create(&path).unwrap();
        if Packing::of_name(name.as_bytes()) == Some(Packing::Zstd) {
            zstd::stream::copy_encode(text, file, 3).unwrap();
        } else {
            // Two members, as `cat a.gz b.gz` makes them.
            let (first, second) = text.split_at(text.len() / 2);
            let mut file = file;
            for part in [first, second] {
                let mut out = flate2::write::GzEncoder::new(&mut file, flate2::Compression::fast());
                out.write_all(part).unwrap();
                out.finish().unwrap();
            }
        }
        (dir, path)
    }

    #[test]
    fn packed_content_is_read_forwards_and_backwards() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        for name in ["a.gz", "a.zst"] {
            let (_dir, path) = packed(name, &text);
            let mut content = Content::open(&path).unwrap();
            assert!(content.is_packed());
            for offset in [0, 1000, 500_000, 7, 588_000] {
                let mut bytes = vec![0; 777];
                let length = content.read_at(&mut bytes, offset).unwrap();
                let at = usize::try_from(offset).unwrap();
                assert_eq!(bytes[..length], text[at..text.len().min(at + 777)], "{name} {offset}");
            }
            assert_eq!(content.read_at(&mut [0; 9], 10_000_000).unwrap(), 0);
            assert!(content.ends_at(text.len() as u64));
        }
    }

    #[test]
    fn packed_file_that_is_cut_off_is_an_error_and_no_end() {
        let text = vec![b'x'; 1 << 20];
        for name in ["a.gz", "a.zst"] {
            let (_dir, path) = packed(name, &text);
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(file.metadata().unwrap().len() - 5).unwrap();
            let mut content = Content::open(&path).unwrap();
            let mut bytes = vec![0; 2 << 20];
            assert!(content.read_at(&mut bytes, 0).is_err(), "{name}");
            assert_eq!(content.known_size().unwrap(), None);
        }
    }

    #[test]
    fn file_that_is_only_named_like_a_packed_one_is_plain() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.gz"), "text\n").unwrap();
        assert!(!Content::open(&dir.path().join("a.gz")).unwrap().is_packed());
    }
}
