//! Checksums of data files: CRC-32 of each block of 16 KiB, and of everything behind the rows.
//!
//! ```text
//! ┌─────────┬─────────┬────────┬───────────┬──────────────┬────────┬─────┬──────┐
//! │ block 0 │ block 1 │ 2, end │ checksums │ page indexes │ footer │ len │ PAR1 │
//! └─────────┴─────────┴────────┴───────────┴──────────────┴────────┴─────┴──────┘
//!  pages, text index            ▲ start     └ one checksum from here to the end, in the footer
//! ```
//!
//! Parquet has a checksum per page, which this Parquet library cannot write, and none for page
//! headers, indexes and the footer, where one bit changes which rows an answer has. Readers of
//! other programs ignore the block and the footer's entry. A file without the entry is of an older
//! weir, and is not checked.
//!
//! A reader checks each block once, before it first reads from it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::file_source::{FileSource, ReadAt};

/// Key of the entry in the footer.
pub(crate) const METADATA_KEY: &str = "weir.checksums";
/// What its value begins with; then `start` and the checksum of the rest, in hexadecimal digits.
const MARK: &[u8] = b"weir-checksums-1:";
const START_DIGITS: usize = 16;
const SUM_DIGITS: usize = 8;
const BLOCK: usize = 16 << 10;
/// Bytes that one checksum covers.
pub(crate) const BLOCK_BYTES: u64 = BLOCK as u64;
/// Bytes at the end in which the entry is searched when the footer's length cannot be right.
const SEARCH_BYTES: u64 = 64 << 10;
/// Blocks that are read at once.
const BLOCKS_AT_ONCE: usize = 64;
/// Files whose checksums stay in memory.
const FILES_MAX: usize = 10_000;

/// Writes a file and sums its blocks.
pub(crate) struct ChecksumWriter {
    inner: BufWriter<File>,
    blocks: Vec<u8>,
    block: crc32fast::Hasher,
    /// Bytes of the current block, then of all data.
    in_block: u64,
    written: u64,
    /// What follows the data.
    rest: Option<Vec<u8>>,
}

impl ChecksumWriter {
    pub(crate) fn new(inner: BufWriter<File>) -> Self {
        let (blocks, block) = (Vec::new(), crc32fast::Hasher::new());
        Self { inner, blocks, block, in_block: 0, written: 0, rest: None }
    }

    /// Ends the data: returns the checksums of its blocks, which must be written next, and the value
    /// of the footer's entry.
    pub(crate) fn end_data(&mut self) -> (Vec<u8>, String) {
        if self.in_block > 0 {
            self.end_block();
        }
        self.rest = Some(Vec::new());
        let mark = String::from_utf8_lossy(MARK);
        (std::mem::take(&mut self.blocks), format!("{mark}{:016x}:00000000", self.written))
    }

    /// Writes the checksum of the rest into the footer's entry; returns the file.
    ///
    /// # Errors
    /// As for any write.
    pub(crate) fn finish(self) -> Result<File> {
        let file = self.inner.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        let rest = self.rest.unwrap_or_default();
        if let Some(entry) = Entry::find(&rest) {
            let sum = format!("{:08x}", crc32fast::hash(&rest));
            file.write_all_at(sum.as_bytes(), self.written + entry.sum_at as u64)?;
        }
        Ok(file)
    }

    fn end_block(&mut self) {
        let sum = std::mem::take(&mut self.block).finalize();
        self.blocks.extend_from_slice(&sum.to_le_bytes());
        self.in_block = 0;
    }

    fn sum(&mut self, mut bytes: &[u8]) {
        self.written += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = usize::try_from(BLOCK_BYTES - self.in_block).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.update(now);
            self.in_block += now.len() as u64;
            if self.in_block == BLOCK_BYTES {
                self.end_block();
            }
            bytes = later;
        }
    }
}

impl Write for ChecksumWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let count = self.inner.write(bytes)?;
        match &mut self.rest {
            Some(rest) => rest.extend_from_slice(&bytes[..count]),
            None => self.sum(&bytes[..count]),
        }
        Ok(count)
    }

    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
}

/// The entry in a footer.
struct Entry {
    start: u64,
    sum: u32,
    /// Offset of the checksum's digits in the bytes that were searched.
    sum_at: usize,
}

impl Entry {
    /// The last entry in `bytes`: texts of rows come before it.
    fn find(bytes: &[u8]) -> Option<Self> {
        let at = find_last(bytes, MARK)? + MARK.len();
        let digits = bytes.get(at..at + START_DIGITS + 1 + SUM_DIGITS)?;
        let text = std::str::from_utf8(digits).ok().filter(|text| *text == text.to_lowercase())?;
        let (start, sum) = text.split_once(':')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let sum = u32::from_str_radix(sum, 16).ok()?;
        Some(Self { start, sum, sum_at: at + START_DIGITS + 1 })
    }
}

fn find_last(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).rposition(|window| window == needle)
}

/// Checksums of one file, and which of its blocks were checked.
struct FileChecksums {
    start: u64,
    blocks: Vec<u32>,
    checked: Vec<AtomicBool>,
}

impl FileChecksums {
    /// Reads the checksums and checks everything behind the data; `None` for a file of an older
    /// weir.
    fn load(file: &File, length: u64) -> Result<Option<Self>> {
        let mut end = [0; 8];
        if length < end.len() as u64 {
            return Ok(None);
        }
        file.read_exact_at(&mut end, length - 8)?;
        let footer = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
        let footer = if footer + 8 > length { SEARCH_BYTES } else { footer + 8 };
        let searched = read(file, length - footer.max(SEARCH_BYTES).min(length)..length)?;
        let Some(entry) = Entry::find(&searched) else {
            let is_damaged = find_last(&searched, METADATA_KEY.as_bytes()).is_some();
            return if is_damaged { Err(damaged("the footer")) } else { Ok(None) };
        };
        if entry.start > length {
            return Err(damaged("the footer"));
        }
        let mut rest = read(file, entry.start..length)?;
        let sum_at = entry.sum_at + rest.len();
        let digits =
            sum_at.checked_sub(searched.len()).and_then(|at| rest.get_mut(at..at + SUM_DIGITS));
        digits.ok_or_else(|| damaged("the footer"))?.fill(b'0');
        if crc32fast::hash(&rest) != entry.sum {
            return Err(damaged("the footer or an index"));
        }
        let count = usize::try_from(entry.start.div_ceil(BLOCK_BYTES)).unwrap_or(usize::MAX);
        let (blocks, _) = rest.as_chunks::<4>();
        let blocks: Vec<u32> =
            blocks.iter().take(count).map(|sum| u32::from_le_bytes(*sum)).collect();
        let checked = blocks.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Some(Self { start: entry.start, blocks, checked }))
    }

    /// Checks the blocks of `range` that were not checked before.
    fn check(&self, file: &File, range: &Range<u64>) -> Result<()> {
        let block = |offset: u64| usize::try_from(offset / BLOCK_BYTES).unwrap_or(usize::MAX);
        let mut at = block(range.start);
        let end =
            block(range.end.min(self.start).saturating_add(BLOCK_BYTES - 1)).min(self.blocks.len());
        while at < end {
            let is_new = |at: &usize| !self.checked[*at].load(Ordering::Relaxed);
            let count = (at..end).take(BLOCKS_AT_ONCE).take_while(is_new).count();
            if count > 0 {
                self.check_blocks(file, at..at + count)?;
            }
            at += count.max(1);
        }
        Ok(())
    }

    fn check_blocks(&self, file: &File, blocks: Range<usize>) -> Result<()> {
        let from = blocks.start as u64 * BLOCK_BYTES;
        let to = (blocks.end as u64 * BLOCK_BYTES).min(self.start);
        let bytes = read(file, from..to)?;
        for (at, bytes) in blocks.zip(bytes.chunks(BLOCK)) {
            if crc32fast::hash(bytes) != self.blocks[at] {
                let from = at as u64 * BLOCK_BYTES;
                return Err(damaged(&format!("bytes {from} to {}", from + bytes.len() as u64)));
            }
            self.checked[at].store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn read(file: &File, range: Range<u64>) -> Result<Vec<u8>> {
    let length = usize::try_from(range.end - range.start).map_err(Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

fn damaged(part: &str) -> Error {
    let text = format!("{part} changed after writing: the checksum differs");
    Error::new(ErrorKind::InvalidData, text)
}

/// Checksums of the files below a directory that were opened so far.
#[derive(Default)]
pub struct ChecksumCache(Mutex<HashMap<PathBuf, LoadedChecksums>>);

/// Checksums of a file of this length; `None` for a file of an older weir.
type LoadedChecksums = (u64, Option<Arc<FileChecksums>>);

impl std::fmt::Debug for ChecksumCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChecksumCache").finish_non_exhaustive()
    }
}

impl ChecksumCache {
    /// Opens a file whose reads are checked.
    ///
    /// # Errors
    /// The underlying I/O error. Reads of damaged parts, and all reads of a file with a damaged
    /// footer, end with `InvalidData`.
    pub fn open(self: &Arc<Self>, path: &Path) -> Result<FileSource> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let (cache, path) = (Arc::clone(self), path.to_owned());
        Ok(FileSource::new(CheckedFile { file, length, path, cache }))
    }

    /// Checks parts of a file before they are read by other means.
    ///
    /// # Errors
    /// The underlying I/O error; `InvalidData` for damaged parts or a damaged footer.
    pub fn check(&self, path: &Path, ranges: &[Range<u64>]) -> Result<()> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let Some(sums) = self.of_file(path, &file, length)? else { return Ok(()) };
        ranges.iter().try_for_each(|range| sums.check(&file, range))
    }

    fn of_file(&self, path: &Path, file: &File, length: u64) -> Result<Option<Arc<FileChecksums>>> {
        let known = || self.0.lock().expect("no thread panics while it holds the lock");
        if let Some((of, sums)) = known().get(path)
            && *of == length
        {
            return Ok(sums.clone());
        }
        let sums = FileChecksums::load(file, length)?.map(Arc::new);
        let mut known = known();
        if known.len() >= FILES_MAX {
            known.clear();
        }
        known.insert(path.to_owned(), (length, sums.clone()));
        Ok(sums)
    }
}

struct CheckedFile {
    file: File,
    length: u64,
    path: PathBuf,
    cache: Arc<ChecksumCache>,
}

impl ReadAt for CheckedFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        if let Some(sums) = self.cache.of_file(&self.path, &self.file, self.length)? {
            sums.check(&self.file, &(offset..offset.saturating_add(bytes.len() as u64)))?;
        }
        self.file.read_exact_at(bytes, offset)
    }
}

#[cfg(test)]
mod tests {
    use weir_tables::{Log, LogRows, Micros, Rows as _};

    use super::*;
    use crate::file_maker::FileMaker;

    fn written(dir: &Path, rows: i64) -> PathBuf {
        let mut builder = LogRows::default();
        for number in 0..rows {
            let body = format!("weir-checksums-1: {number} {}", number * 7919 % 100_003);
            let ts = Micros(number);
            builder.push(&Log { ts, host: "web1", body: &body, ..Default::default() });
        }
        let maker = FileMaker::new(dir.to_owned(), 1);
        let files = maker.write(&Log::SPEC, &[builder.finish()], Micros(5)).unwrap();
        dir.join(&files[0].path)
    }

    fn read_all(path: &Path) -> Result<Vec<u8>> {
        let file = Arc::new(ChecksumCache::default()).open(path)?;
        let mut bytes = vec![0; usize::try_from(file.length()).unwrap()];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    #[test]
    fn every_changed_byte_of_a_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path(), 100);
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(read_all(&path).unwrap(), whole);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bytes).unwrap();
            let outcome = read_all(&path);
            assert!(outcome.is_err(), "byte {at} of {}", whole.len());
        }
    }

    #[test]
    fn only_the_blocks_that_are_read_must_be_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path(), 60_000);
        let mut bytes = std::fs::read(&path).unwrap();
        let block = BLOCK;
        assert!(bytes.len() > 3 * block, "{} bytes", bytes.len());
        bytes[block + 9] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let cache = Arc::new(ChecksumCache::default());
        let file = cache.open(&path).unwrap();
        let mut some = [0; 100];
        for (offset, is_whole) in [
            (0, true),
            (block - 100, true),
            (block - 99, false),
            (block + 50, false),
            (2 * block - 1, false),
            (2 * block, true),
            (bytes.len() - 100, true),
        ] {
            let read = file.read_exact_at(&mut some, offset as u64);
            assert_eq!(read.is_ok(), is_whole, "at {offset}");
        }
        let error = file.read_exact_at(&mut some, BLOCK_BYTES).unwrap_err().to_string();
        assert_eq!(error, "bytes 16384 to 32768 changed after writing: the checksum differs");
        assert!(cache.check(&path, &[0..10, BLOCK_BYTES - 1..BLOCK_BYTES]).is_ok());
        assert!(cache.check(&path, &[0..10, BLOCK_BYTES..BLOCK_BYTES + 1]).is_err());
    }

    #[test]
    fn files_without_checksums_stay_readable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old");
        for bytes in [&b""[..], b"PAR1", b"PAR1 weir-checksums-1:xyz and more text PAR1"] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read_all(&path).unwrap(), bytes);
        }
    }
}
