//! Files whose reads are checked against the file's own checksums, and against the seal that the
//! manifest has of it.
//!
//! A file of the data directory is checked once per block, before the first read from it. What a
//! cold tier sends is checked each time: its bytes come from another disk and over a network.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::checksums::{BLOCK_BYTES, FileChecksums, FileSeal, TailReading, damaged};
use crate::file_source::{FileSource, ReadAt};

/// Files whose checksums stay in memory.
const FILES_MAX: usize = 10_000;
/// Blocks that are read at once.
const BLOCKS_AT_ONCE: usize = 64;

/// Checksums of the files that were opened so far, by path.
#[derive(Default)]
pub struct ChecksumCache(Mutex<HashMap<PathBuf, LoadedChecksums>>);

/// Checksums of a file of this length; `None` for a file of an older weir.
type LoadedChecksums = (u64, Option<Arc<CheckedBlocks>>);

/// Checksums of a file, and which of its blocks were checked.
#[derive(Debug)]
pub struct CheckedBlocks {
    sums: FileChecksums,
    checked: Vec<AtomicBool>,
}

/// What the manifest has of a file's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpectedContent {
    /// Size in bytes.
    pub byte_count: Option<u64>,
    /// Checksum; `None` where an older weir wrote the entry.
    pub seal: Option<FileSeal>,
}

impl std::fmt::Debug for ChecksumCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChecksumCache").finish_non_exhaustive()
    }
}

impl ExpectedContent {
    /// Compares what was found with what the manifest has.
    ///
    /// # Errors
    /// `InvalidData`: it is not the file that was written.
    pub fn check(self, byte_count: u64, sums: Option<&FileChecksums>) -> Result<()> {
        if self.byte_count.is_some_and(|expected| expected != byte_count) {
            let expected = self.byte_count.unwrap_or_default();
            let text = format!("the file has {byte_count} bytes, not {expected}");
            return Err(Error::new(ErrorKind::InvalidData, text));
        }
        match (self.seal, sums.map(FileChecksums::seal)) {
            (Some(expected), found) if found != Some(expected) => Err(Error::new(
                ErrorKind::InvalidData,
                "the file is not the one that was written: its checksum is not that of the manifest",
            )),
            _ => Ok(()),
        }
    }
}

impl ChecksumCache {
    /// Opens a local file whose reads are checked.
    ///
    /// # Errors
    /// The underlying I/O error. Reads of damaged parts, and all reads of a file with a damaged
    /// footer or another content than expected, end with `InvalidData`.
    pub fn open(self: &Arc<Self>, path: &Path, expected: ExpectedContent) -> Result<FileSource> {
        let source = FileSource::of_file(File::open(path)?)?;
        let (cache, path) = (Arc::clone(self), path.to_owned());
        Ok(FileSource::new(CheckedFile { source, path, expected, cache }))
    }

    /// Checks parts of a local file before they are read by other means.
    ///
    /// # Errors
    /// The underlying I/O error; `InvalidData` for damaged parts, a damaged footer or another content
    /// than expected.
    pub fn check(
        &self,
        path: &Path,
        expected: ExpectedContent,
        ranges: &[Range<u64>],
    ) -> Result<()> {
        let source = FileSource::of_file(File::open(path)?)?;
        let Some(sums) = self.of_file(path, &source, expected)? else { return Ok(()) };
        ranges.iter().try_for_each(|range| sums.check(&source, range))
    }

    /// Opens a file of a cold tier: every read is checked.
    ///
    /// # Errors
    /// The underlying I/O error; `InvalidData` as for [`open`](Self::open), at once where the end of
    /// the file is concerned.
    pub fn verified(
        &self,
        path: &str,
        source: FileSource,
        expected: ExpectedContent,
    ) -> Result<FileSource> {
        match self.of_file(Path::new(path), &source, expected)? {
            Some(sums) => Ok(FileSource::new(VerifiedFile { source, sums })),
            None => Ok(source),
        }
    }

    /// Checksums of a file that are in memory; the inner `None` is for a file of an older weir.
    pub fn known(&self, path: &Path, byte_count: u64) -> Option<Option<Arc<CheckedBlocks>>> {
        let known = self.0.lock().expect("no thread panics while it holds the lock");
        known.get(path).filter(|known| known.0 == byte_count).map(|known| known.1.clone())
    }

    /// Keeps checksums that were read by other means.
    pub fn keep(
        &self,
        path: &Path,
        byte_count: u64,
        sums: Option<FileChecksums>,
    ) -> Option<Arc<CheckedBlocks>> {
        let sums = sums.map(|sums| Arc::new(CheckedBlocks::new(sums)));
        let mut known = self.0.lock().expect("no thread panics while it holds the lock");
        if known.len() >= FILES_MAX {
            known.clear();
        }
        known.insert(path.to_owned(), (byte_count, sums.clone()));
        sums
    }

    fn of_file(
        &self,
        path: &Path,
        source: &FileSource,
        expected: ExpectedContent,
    ) -> Result<Option<Arc<CheckedBlocks>>> {
        let length = source.length();
        if let Some(sums) = self.known(path, length) {
            expected.check(length, sums.as_ref().map(|sums| &sums.sums))?;
            return Ok(sums);
        }
        let sums = load(source)?;
        // Those of another file are not kept: the right one may come back under this name.
        expected.check(length, sums.as_ref())?;
        Ok(self.keep(path, length, sums))
    }
}

/// Checksum of a whole file; `None` for a file of an older weir.
///
/// # Errors
/// The underlying I/O error; `InvalidData`: the end of the file is damaged.
pub fn seal_of(source: &FileSource) -> Result<Option<FileSeal>> {
    Ok(load(source)?.map(|sums| sums.seal()))
}

/// Offset of the checksums in a file, behind its data; `None` for a file of an older weir.
///
/// # Errors
/// As for [`seal_of`].
pub fn checksums_at(source: &FileSource) -> Result<Option<u64>> {
    Ok(load(source)?.map(|sums| sums.data_end()))
}

fn load(source: &FileSource) -> Result<Option<FileChecksums>> {
    load_with(source, FileChecksums::of_tail)
}

/// Reads the end of a file until it tells its checksums.
pub(crate) fn load_with(
    source: &FileSource,
    reading: fn(&[u8], u64) -> Result<TailReading>,
) -> Result<Option<FileChecksums>> {
    let length = source.length();
    let mut tail = Vec::new();
    loop {
        match reading(&tail, length)? {
            TailReading::From(start) => tail = read(source, start..length)?,
            TailReading::Known(sums) => return Ok(sums),
        }
    }
}

pub(crate) fn read(source: &FileSource, range: Range<u64>) -> Result<Vec<u8>> {
    let length = usize::try_from(range.end - range.start).map_err(Error::other)?;
    let mut bytes = vec![0; length];
    source.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

impl CheckedBlocks {
    fn new(sums: FileChecksums) -> Self {
        let checked = (0..sums.block_count()).map(|_| AtomicBool::new(false)).collect();
        Self { sums, checked }
    }

    /// The checksums.
    pub fn sums(&self) -> &FileChecksums {
        &self.sums
    }

    /// Checks the blocks of `range` that were not checked before.
    fn check(&self, source: &FileSource, range: &Range<u64>) -> Result<()> {
        let mut at = FileChecksums::block_at(range.start);
        let end = range.end.min(self.sums.data_end()).saturating_add(BLOCK_BYTES - 1);
        let end = FileChecksums::block_at(end).min(self.checked.len());
        while at < end {
            let is_new = |at: &usize| !self.checked[*at].load(Ordering::Relaxed);
            let count = (at..end).take(BLOCKS_AT_ONCE).take_while(is_new).count();
            if count > 0 {
                let from = at as u64 * BLOCK_BYTES;
                let to = ((at + count) as u64 * BLOCK_BYTES).min(self.sums.data_end());
                self.sums.verify(&read(source, from..to)?, from)?;
                let checked = &self.checked[at..at + count];
                checked.iter().for_each(|block| block.store(true, Ordering::Relaxed));
            }
            at += count.max(1);
        }
        Ok(())
    }
}

struct CheckedFile {
    source: FileSource,
    path: PathBuf,
    expected: ExpectedContent,
    cache: Arc<ChecksumCache>,
}

impl ReadAt for CheckedFile {
    fn length(&self) -> u64 {
        self.source.length()
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        if let Some(sums) = self.cache.of_file(&self.path, &self.source, self.expected)? {
            let end = offset.saturating_add(bytes.len() as u64);
            sums.check(&self.source, &(offset..end))?;
        }
        self.source.read_exact_at(bytes, offset)
    }
}

struct VerifiedFile {
    source: FileSource,
    sums: Arc<CheckedBlocks>,
}

impl ReadAt for VerifiedFile {
    fn length(&self) -> u64 {
        self.source.length()
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        let range = offset..offset.saturating_add(bytes.len() as u64);
        if range.is_empty() {
            return Ok(());
        }
        if range.end > self.length() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let covering = self.sums.sums.covering(&range);
        let read = read(&self.source, covering.clone())?;
        self.sums.sums.verify(&read, covering.start)?;
        let at = usize::try_from(offset - covering.start).map_err(Error::other)?;
        let found = read.get(at..at + bytes.len()).ok_or_else(|| damaged("a range"))?;
        bytes.copy_from_slice(found);
        Ok(())
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
        let file = Arc::new(ChecksumCache::default()).open(path, ExpectedContent::default())?;
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
        let block = usize::try_from(BLOCK_BYTES).unwrap();
        assert!(bytes.len() > 3 * block, "{} bytes", bytes.len());
        bytes[block + 9] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let cache = Arc::new(ChecksumCache::default());
        let file = cache.open(&path, ExpectedContent::default()).unwrap();
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
        assert!(
            cache
                .check(&path, ExpectedContent::default(), &[0..10, BLOCK_BYTES - 1..BLOCK_BYTES])
                .is_ok()
        );
        assert!(
            cache
                .check(&path, ExpectedContent::default(), &[0..10, BLOCK_BYTES..BLOCK_BYTES + 1])
                .is_err()
        );
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
