//! A data file that can be read from any offset, wherever it is.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::data_file::DataFile;

/// Bytes read at once where somebody reads on and on.
const PIECE_BYTES: usize = 1 << 20;

/// What a place has to be able to do with a file.
pub trait ReadAt: Send + Sync {
    /// Bytes of the file.
    fn length(&self) -> u64;
    /// Fills `bytes` from `offset` on.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()>;
}

/// Opens data files, wherever they are.
pub trait FileOpener {
    /// The file, open.
    ///
    /// # Errors
    /// As the system has them; `NotFound` only when the place is there and the file is not.
    fn open_file(&self, file: &DataFile) -> std::io::Result<FileSource>;
}

/// The file, open.
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

    /// A file of this machine.
    pub fn of_file(file: File) -> std::io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self::new(LocalFile { file, length }))
    }

    /// Size of the file.
    pub fn length(&self) -> u64 {
        self.0.length()
    }

    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    /// As the system has them; `UnexpectedEof` when the file is shorter.
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.0.read_exact_at(bytes, offset)
    }

    /// Reads on from `start`.
    pub fn reader(&self, start: u64) -> BufReader<SourceReader> {
        let reader = SourceReader { source: self.clone(), at: start };
        BufReader::with_capacity(PIECE_BYTES, reader)
    }

    /// Reads all of it, so many bytes at a time.
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

/// Reads a source from front to back.
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
