//! Random access to an open data file, in any tier.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::data_file::DataFile;

/// Read size of sequential reads.
const PIECE_BYTES: usize = 1 << 20;

/// Positioned reads that a tier implements for its files.
pub trait ReadAt: Send + Sync {
    /// File size in bytes.
    fn length(&self) -> u64;
    /// Fills `bytes` from `offset`.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()>;
}

/// Opens data files in any tier.
pub trait FileOpener {
    /// Opens the file.
    ///
    /// # Errors
    /// The underlying I/O error; `NotFound` only if the tier is available and the file is missing.
    fn open_file(&self, file: &DataFile) -> std::io::Result<FileSource>;
}

/// An open data file.
#[derive(Clone)]
pub struct FileSource(Arc<dyn ReadAt>);

impl fmt::Debug for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({} bytes)", self.0.length())
    }
}

impl FileSource {
    /// Wraps an open file.
    pub fn new(file: impl ReadAt + 'static) -> Self {
        Self(Arc::new(file))
    }

    /// Wraps a local file.
    pub fn of_file(file: File) -> std::io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self::new(LocalFile { file, length }))
    }

    /// File size in bytes.
    pub fn length(&self) -> u64 {
        self.0.length()
    }

    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// The underlying I/O error; `UnexpectedEof` if the file is shorter.
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    /// A sequential reader from `start`.
    pub fn reader(&self, start: u64) -> BufReader<SourceReader> {
        let reader = SourceReader { source: self.clone(), at: start };
        BufReader::with_capacity(PIECE_BYTES, reader)
    }

    /// A sequential reader of the whole file that reads `piece_bytes` at a time.
    pub fn reader_of(&self, piece_bytes: usize) -> BufReader<SourceReader> {
        BufReader::with_capacity(piece_bytes, SourceReader { source: self.clone(), at: 0 })
    }
}

struct LocalFile {
    file: File,
    length: u64,
}

impl ReadAt for LocalFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }
}

/// Sequential reader of a [`FileSource`].
pub struct SourceReader {
    source: FileSource,
    at: u64,
}

impl Read for SourceReader {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let left = self.source.length().saturating_sub(self.at);
        let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if count > 0 {
            self.source.read_exact_at(&mut bytes[..count], self.at)?;
            self.at += count as u64;
        }
        Ok(count)
    }
}

impl Length for FileSource {
    fn len(&self) -> u64 {
        self.length()
    }
}

impl ChunkReader for FileSource {
    type T = BufReader<SourceReader>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(self.reader(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.saturating_add(length as u64);
        if end > self.length() {
            let text = format!("needs bytes up to {end}, the file has {}", self.length());
            return Err(ParquetError::EOF(text));
        }
        let mut bytes = vec![0; length];
        let read = self.read_exact_at(&mut bytes, start);
        read.map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(bytes.into())
    }
}
