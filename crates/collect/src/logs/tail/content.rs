//! Content of a file by offset, plain or decompressed (`.gz`, `.zst`).
//!
//! Sources: RFC 1952 (gzip, several members in a row), RFC 8878 (zstd). A compressed file can only
//! be decompressed from its start, so a read behind the last one continues, and a read before it
//! starts over. The surprising thing: the length of the content is known only at its end; gzip
//! stores the lower 32 bits of the length behind its last member.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::remnant_content::RemnantContent;

const BLOCK_BYTES: usize = 64 << 10;
/// Maximum zstd window, as a power of two: what `zstd` itself decompresses by default (128 MiB).
const WINDOW_LOG_MAX: u32 = 27;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    pub(super) fn of_name(name: &[u8]) -> Option<Self> {
        split_compression(name).1
    }
}

pub(super) fn split_compression(name: &[u8]) -> (&[u8], Option<Compression>) {
    let known = [
        (&b".gz"[..], Compression::Gzip),
        (b".zst", Compression::Zstd),
        (b".zstd", Compression::Zstd),
    ];
    let found = known
        .into_iter()
        .find_map(|(end, compression)| Some((name.strip_suffix(end)?, compression)));
    found.map_or((name, None), |(stem, compression)| (stem, Some(compression)))
}

#[derive(Debug)]
pub(super) enum Content {
    Plain(File),
    Compressed(CompressedContent),
    Remnant(RemnantContent),
}

impl Content {
    /// Opens a file; it is decompressed if both its name and its first bytes match a format.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = weir_access::open(path)?;
        let name = path.file_name().map_or(&b""[..], OsStr::as_encoded_bytes);
        let Some(compression) = Compression::of_name(name) else { return Ok(Self::Plain(file)) };
        let mut magic = [0; 4];
        let length = read_full(&file, &mut magic, 0)?;
        let is_compressed = match compression {
            Compression::Gzip => magic.starts_with(&[0x1f, 0x8b]),
            // A skippable frame may come first.
            Compression::Zstd => {
                magic == [0x28, 0xb5, 0x2f, 0xfd] || magic[1..] == [0x2a, 0x4d, 0x18]
            }
        };
        if length > 0 && !is_compressed {
            return Ok(Self::Plain(file));
        }
        Ok(Self::Compressed(CompressedContent {
            file,
            compression,
            reader: None,
            at: 0,
            end: None,
        }))
    }

    pub(super) fn file(&self) -> &File {
        match self {
            Self::Plain(file) => file,
            Self::Compressed(compressed) => &compressed.file,
            Self::Remnant(remnant) => &remnant.file,
        }
    }

    /// Metadata of the file; for a compressed one, the size is not that of the content.
    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        self.file().metadata()
    }

    /// Whether the content does not change any more, because it is compressed or a remnant.
    pub(super) fn is_immutable(&self) -> bool {
        matches!(self, Self::Compressed(_) | Self::Remnant(_))
    }

    /// End of the lost range that begins at `offset`; `None` when nothing is lost there.
    pub(super) fn missing_until(&self, offset: u64) -> Option<u64> {
        match self {
            Self::Remnant(remnant) => remnant.missing_until(offset),
            Self::Plain(_) | Self::Compressed(_) => None,
        }
    }

    /// Reads until `bytes` is full or the content ends; returns the count.
    pub(super) fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::Plain(file) => read_full(file, bytes, offset),
            Self::Compressed(compressed) => compressed.read_at(bytes, offset),
            Self::Remnant(remnant) => remnant.read_at(bytes, offset),
        }
    }

    /// Length of the content, if known without decompressing all of it.
    pub(super) fn known_size(&self) -> io::Result<Option<u64>> {
        match self {
            Self::Plain(file) => Ok(Some(file.metadata()?.len())),
            Self::Compressed(compressed) => Ok(compressed.end),
            Self::Remnant(remnant) => Ok(Some(remnant.size())),
        }
    }

    /// Whether the content ends at `position`, if that is known without decompressing it.
    pub(super) fn ends_at(&self, position: u64) -> bool {
        match self {
            Self::Plain(file) => file.metadata().is_ok_and(|metadata| metadata.len() == position),
            Self::Compressed(compressed) => compressed.ends_at(position).unwrap_or(false),
            Self::Remnant(remnant) => remnant.size() == position,
        }
    }

    pub(super) fn reset(&mut self) {
        if let Self::Compressed(compressed) = self {
            (compressed.reader, compressed.at) = (None, 0);
        }
    }
}

pub(super) struct CompressedContent {
    file: File,
    compression: Compression,
    reader: Option<Box<dyn Read + Send>>,
    /// Offset of the next byte of `reader`.
    at: u64,
    end: Option<u64>,
}

impl fmt::Debug for CompressedContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompressedContent({:?}, {:?} at {})", self.file, self.compression, self.at)
    }
}

impl CompressedContent {
    fn read_at(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.end.is_some_and(|end| offset >= end) {
            return Ok(0);
        }
        let result = self.read_from(bytes, offset);
        if result.is_err() {
            (self.reader, self.at) = (None, 0);
        }
        result
    }

    fn read_from(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset < self.at {
            self.reader = None;
        }
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                self.at = 0;
                none.insert(decompress(self.file.try_clone()?, self.compression)?)
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
        if self.compression != Compression::Gzip || length < 18 {
            return Ok(false);
        }
        read_full(&self.file, &mut size, length - 4)?;
        Ok(u64::from(u32::from_le_bytes(size)) == position & u64::from(u32::MAX))
    }
}

fn decompress(file: File, compression: Compression) -> io::Result<Box<dyn Read + Send>> {
    let from_start = FromStart { file, at: 0 };
    Ok(match compression {
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(from_start)),
        Compression::Zstd => {
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

/// Reads a file from its start regardless of the offset of its descriptor.
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

/// Bytes compared at the start, and at the end of the common length.
const COMPARED_BYTES: u64 = 4096;

/// Whether one content looks like the beginning of the other, or both are the same.
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

/// Reads until `bytes` is full or the file ends; returns the count.
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

/// Offset of the first line that begins at or after `start`; 0 without a start.
pub(super) fn recent_start(content: &mut Content, start: Option<u64>) -> io::Result<u64> {
    let Some(start) = start.filter(|start| *start > 0) else { return Ok(0) };
    let mut block = vec![0; 1 << 20];
    let length = content.read_at(&mut block, start - 1)?;
    Ok(memchr::memchr(b'\n', &block[..length]).map_or(start, |newline| start + newline as u64))
}

/// Whether a reader of lines may have stopped at `position`: behind a line or a hole.
pub(super) fn is_line_start(content: &mut Content, position: u64) -> io::Result<bool> {
    let mut byte = [0];
    Ok(position == 0
        || (content.read_at(&mut byte, position - 1)? == 1 && matches!(byte, [b'\n' | 0])))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn compressed_file(name: &str, text: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let file = File::create(&path).unwrap();
        if Compression::of_name(name.as_bytes()) == Some(Compression::Zstd) {
            zstd::stream::copy_encode(text, file, 3).unwrap();
        } else {
            // Two members, as produced by `cat a.gz b.gz`.
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
            let (_dir, path) = compressed_file(name, &text);
            let mut content = Content::open(&path).unwrap();
            assert!(content.is_immutable());
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
            let (_dir, path) = compressed_file(name, &text);
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
        assert!(!Content::open(&dir.path().join("a.gz")).unwrap().is_immutable());
    }
}
