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
//! The last checksum covers all others, so it stands for the whole file: the manifest has it as
//! the file's seal, which tells another file in its place from the right one.

use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

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

/// Checksum of a whole data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSeal(pub u32);

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

    /// Writes the checksum of the rest into the footer's entry; returns the file and its seal.
    ///
    /// # Errors
    /// As for any write.
    pub(crate) fn finish(self) -> Result<(File, Option<FileSeal>)> {
        let file = self.inner.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        let rest = self.rest.unwrap_or_default();
        let Some(entry) = Entry::find(&rest) else { return Ok((file, None)) };
        let seal = crc32fast::hash(&rest);
        let digits = format!("{seal:08x}");
        file.write_all_at(digits.as_bytes(), self.written + entry.sum_at as u64)?;
        Ok((file, Some(FileSeal(seal))))
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

/// Checksums of one file.
#[derive(Debug)]
pub struct FileChecksums {
    start: u64,
    blocks: Vec<u32>,
    seal: FileSeal,
    /// Offset of the seal's digits behind `start`.
    seal_at: usize,
    /// Whether everything behind the data is as it was written.
    is_sealed: bool,
    length: u64,
}

/// What the end of a file tells of its checksums.
#[derive(Debug)]
pub enum TailReading {
    /// The file has to be read from this offset to its end.
    From(u64),
    /// The checksums; `None` for a file of an older weir.
    Known(Option<FileChecksums>),
}

impl FileChecksums {
    /// Reads the checksums in `tail`, the last bytes of a file of this length, and checks everything
    /// behind the data. Begin with an empty tail, and read again from where it says.
    ///
    /// # Errors
    /// `InvalidData`: the end of the file is damaged.
    pub fn of_tail(tail: &[u8], length: u64) -> Result<TailReading> {
        match Self::parse(tail, length)? {
            TailReading::Known(Some(sums)) if !sums.is_sealed => {
                Err(damaged("the footer or an index"))
            }
            reading => Ok(reading),
        }
    }

    /// As [`of_tail`](Self::of_tail), also where what is behind the data has changed.
    pub(crate) fn parse(tail: &[u8], length: u64) -> Result<TailReading> {
        let Some((_, end)) = tail.split_last_chunk::<8>() else {
            return Ok(match length {
                0..8 => TailReading::Known(None),
                _ => TailReading::From(length.saturating_sub(SEARCH_BYTES)),
            });
        };
        let footer = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]])) + 8;
        let footer = if footer > length { SEARCH_BYTES } else { footer };
        let searched = footer.max(SEARCH_BYTES).min(length);
        if (tail.len() as u64) < searched {
            return Ok(TailReading::From(length - searched));
        }
        let searched_at = tail.len() - usize::try_from(searched).unwrap_or(tail.len());
        let Some(entry) = Entry::find(&tail[searched_at..]) else {
            let is_damaged = find_last(&tail[searched_at..], METADATA_KEY.as_bytes()).is_some();
            let known = || Ok(TailReading::Known(None));
            return if is_damaged { Err(damaged("the footer")) } else { known() };
        };
        if entry.start > length {
            return Err(damaged("the footer"));
        }
        if (tail.len() as u64) < length - entry.start {
            return Ok(TailReading::From(entry.start));
        }
        let skipped = tail.len() - usize::try_from(length - entry.start).unwrap_or(tail.len());
        let seal_at = (searched_at + entry.sum_at).checked_sub(skipped);
        let seal_at = seal_at.ok_or_else(|| damaged("the footer"))?;
        let rest = &tail[skipped..];
        let count = usize::try_from(entry.start.div_ceil(BLOCK_BYTES)).unwrap_or(usize::MAX);
        let (blocks, _) = rest.as_chunks::<4>();
        let blocks = blocks.iter().take(count).map(|sum| u32::from_le_bytes(*sum)).collect();
        let seal = FileSeal(entry.sum);
        let is_sealed = sum_of_rest(rest, seal_at) == Some(entry.sum);
        let (start, known) = (entry.start, TailReading::Known);
        Ok(known(Some(Self { start, blocks, seal, seal_at, is_sealed, length })))
    }

    /// The checksum that stands for the whole file.
    pub fn seal(&self) -> FileSeal {
        self.seal
    }

    /// Number of the block at an offset of the data.
    pub(crate) fn block_at(offset: u64) -> usize {
        usize::try_from(offset / BLOCK_BYTES).unwrap_or(usize::MAX)
    }

    /// Number of blocks.
    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Offset at which the data ends.
    pub(crate) fn data_end(&self) -> u64 {
        self.start
    }

    /// The smallest range around `range` that checksums cover.
    #[must_use]
    pub fn covering(&self, range: &Range<u64>) -> Range<u64> {
        if range.start >= self.start {
            return self.start..self.length;
        }
        let from = range.start / BLOCK_BYTES * BLOCK_BYTES;
        let to = range.end.min(self.start).div_ceil(BLOCK_BYTES) * BLOCK_BYTES;
        from..if range.end > self.start { self.length } else { to.min(self.start) }
    }

    /// The blocks around a range of a file of this length, whose checksums are not known yet.
    pub fn blocks_around(range: &Range<u64>, length: u64) -> Range<u64> {
        let end = range.end.div_ceil(BLOCK_BYTES) * BLOCK_BYTES;
        range.start / BLOCK_BYTES * BLOCK_BYTES..end.min(length)
    }

    /// Checks bytes that were read from `from` on, a range of [`covering`](Self::covering).
    ///
    /// # Errors
    /// `InvalidData`: the bytes changed since they were written.
    pub fn verify(&self, bytes: &[u8], from: u64) -> Result<()> {
        let data = usize::try_from(self.start.saturating_sub(from)).unwrap_or(usize::MAX);
        let (data, rest) = bytes.split_at(data.min(bytes.len()));
        for (at, bytes) in data.chunks(BLOCK).enumerate() {
            let at = Self::block_at(from) + at;
            if self.blocks.get(at) != Some(&crc32fast::hash(bytes)) {
                let from = at as u64 * BLOCK_BYTES;
                return Err(damaged(&format!("bytes {from} to {}", from + bytes.len() as u64)));
            }
        }
        if !rest.is_empty() && sum_of_rest(rest, self.seal_at) != Some(self.seal.0) {
            return Err(damaged("the footer or an index"));
        }
        Ok(())
    }
}

/// Checksum of everything behind the data, with the digits of the checksum itself as zeros.
fn sum_of_rest(rest: &[u8], seal_at: usize) -> Option<u32> {
    let (before, digits) = rest.split_at_checked(seal_at)?;
    let (_, after) = digits.split_at_checked(SUM_DIGITS)?;
    let mut sum = crc32fast::Hasher::new();
    [before, &[b'0'; SUM_DIGITS], after].into_iter().for_each(|part| sum.update(part));
    Some(sum.finalize())
}

/// The error for bytes that changed since they were written.
pub(crate) fn damaged(part: &str) -> Error {
    let text = format!("{part} changed after writing: the checksum differs");
    Error::new(ErrorKind::InvalidData, text)
}
