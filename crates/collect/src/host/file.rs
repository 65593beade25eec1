//! A file that is read every second: opened once, then read with `pread` into one buffer.
//!
//! The kernel regenerates the text of a `/proc` file on each read from offset 0. A handle can
//! outlive its subject: reading a removed cgroup fails with `ENODEV`, a dead process with `ESRCH`;
//! the handle is then dropped and reopened on the next read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::CollectError;

/// Size limit; the remainder of a longer file is not read.
const LIMIT_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct KeptFile {
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
}

impl KeptFile {
    /// Creates a handle for `path`; the file is opened on the first read.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None, buffer: Vec::new() }
    }

    /// Wraps a file that is already open, such as one of another network namespace.
    pub(crate) fn opened(path: PathBuf, file: Option<File>) -> Self {
        Self { path, file, buffer: Vec::new() }
    }

    pub(crate) fn read(&mut self) -> Result<&[u8], CollectError> {
        match self.fill() {
            Ok(()) => Ok(&self.buffer),
            Err(error) => {
                self.file = None;
                Err(CollectError::reading(&self.path, &error))
            }
        }
    }

    /// Reads the whole current content; `None` if the file is missing or unreadable.
    pub(crate) fn read_if_any(&mut self) -> Option<&[u8]> {
        if self.fill().is_err() {
            self.file = None;
            return None;
        }
        Some(&self.buffer)
    }

    fn fill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(File::open(&self.path)?),
        };
        if self.buffer.is_empty() {
            self.buffer.resize(1024, 0);
        }
        let capacity = self.buffer.capacity();
        self.buffer.resize(capacity, 0);
        let mut length = 0;
        loop {
            let count = file.read_at(&mut self.buffer[length..], length as u64)?;
            length += count;
            if count == 0 || length >= LIMIT_BYTES {
                break;
            }
            if length == self.buffer.len() {
                self.buffer.resize(length * 2, 0);
            }
        }
        self.buffer.truncate(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_reread_each_time_and_a_missing_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stat");
        let mut file = KeptFile::new(path.clone());
        assert!(file.read().unwrap_err().message.contains("no such file"));
        std::fs::write(&path, vec![b'a'; 5000]).unwrap();
        assert_eq!(file.read().unwrap().len(), 5000);
        std::fs::write(&path, b"bb").unwrap();
        assert_eq!(file.read().unwrap(), b"bb");
        assert_eq!(file.read_if_any(), Some(&b"bb"[..]));
    }
}
