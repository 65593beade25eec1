//! Spill space of queries: files below `spill/`, limited in total, removed with the query.
//!
//! Leftovers of a killed weir are removed at the next start. New rows have priority: spilling stops
//! long before free disk space falls to the level at which writing stops.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use weir_datafile::{StoreError, space};

use super::memory::MemoryBudget;
use super::{LimitKind, QueryUsage};

/// Read size.
const CHUNK_BYTES: usize = 256 << 10;
/// Free disk space is checked each time this many bytes are written.
const LOOK_BYTES: u64 = 16 << 20;

/// Spill directory, shared by all queries.
#[derive(Debug)]
pub struct SpillSpace {
    dir: PathBuf,
    budget: Arc<MemoryBudget>,
    /// Bytes of free disk space to preserve.
    reserve: u64,
    next: AtomicU64,
    closed: AtomicBool,
}

impl SpillSpace {
    /// Opens and empties `dir`, which belongs to this process.
    ///
    /// # Errors
    /// `Io`, `Full`.
    pub fn open(dir: PathBuf, limit: usize, reserve: u64) -> Result<Arc<Self>, StoreError> {
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io("empty", &dir, &error));
            }
            _ => {}
        }
        std::fs::create_dir(&dir).map_err(|error| StoreError::io("make", &dir, &error))?;
        Ok(Arc::new(Self {
            dir,
            budget: MemoryBudget::new(limit),
            reserve,
            next: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }))
    }

    /// Removes the files of cancelled queries that are still running; creates no new ones.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // Files that cannot be removed now are removed at the next start.
        for file in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let _ = std::fs::remove_file(file.path());
        }
    }

    fn has_room(&self) -> bool {
        space(&self.dir).is_none_or(|(free, _)| free > self.reserve)
    }
}

/// Creates the spill files of one query.
pub(super) struct SpillFactory {
    pub(super) space: Arc<SpillSpace>,
    pub(super) usage: Arc<QueryUsage>,
}

impl TempFileFactory for SpillFactory {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        if self.space.closed.load(Ordering::SeqCst) {
            return Err(DataFusionError::External(Box::new(StoreError::closed())));
        }
        let number = self.space.next.fetch_add(1, Ordering::Relaxed);
        let path = self.space.dir.join(format!("{number}.arrow"));
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.inspect_err(|_| self.usage.meet(LimitKind::Spill))?;
        let (space, usage) = (Arc::clone(&self.space), Arc::clone(&self.usage));
        let bytes = AtomicUsize::new(0);
        Ok(Arc::new(SpilledFile(Arc::new(SpillFileState { path, file, bytes, space, usage }))))
    }
}

/// One spill file; removed when the last reference is dropped.
struct SpilledFile(Arc<SpillFileState>);

struct SpillFileState {
    path: PathBuf,
    file: File,
    bytes: AtomicUsize,
    space: Arc<SpillSpace>,
    usage: Arc<QueryUsage>,
}

impl Drop for SpillFileState {
    fn drop(&mut self) {
        // Files that cannot be removed now are removed at the next start.
        let _ = std::fs::remove_file(&self.path);
        self.space.budget.give_back(self.bytes.load(Ordering::Relaxed));
    }
}

impl SpillFile for SpilledFile {
    fn path(&self) -> Option<&Path> {
        Some(&self.0.path)
    }

    fn size(&self) -> Option<u64> {
        Some(self.0.bytes.load(Ordering::Relaxed) as u64)
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let reader = (File::open(&self.0.path)?, Arc::clone(&self.0));
        let chunks = futures::stream::try_unfold(reader, |(mut file, inner)| async move {
            let read = tokio::task::spawn_blocking(move || {
                let mut chunk = vec![0; CHUNK_BYTES];
                let length = file.read(&mut chunk)?;
                chunk.truncate(length);
                std::io::Result::Ok((chunk, file))
            });
            let read = read.await.map_err(|error| DataFusionError::External(error.into()))?;
            let (chunk, file) = read?;
            Ok((!chunk.is_empty()).then(|| (Bytes::from(chunk), (file, inner))))
        });
        Ok(Box::pin(chunks))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        let mut file = self.0.file.try_clone()?;
        file.seek(SeekFrom::End(0))?;
        Ok(Box::new(SpillFileWriter { file, inner: Arc::clone(&self.0), unseen: LOOK_BYTES }))
    }
}

struct SpillFileWriter {
    file: File,
    inner: Arc<SpillFileState>,
    /// Bytes written since free disk space was checked.
    unseen: u64,
}

impl SpillFileWriter {
    fn refuse(&self) -> std::io::Error {
        self.inner.usage.meet(LimitKind::Spill);
        std::io::Error::from(std::io::ErrorKind::StorageFull)
    }
}

impl Write for SpillFileWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let SpillFileState { space, usage, .. } = &*self.inner;
        if self.unseen >= LOOK_BYTES {
            self.unseen = 0;
            if !space.has_room() {
                return Err(self.refuse());
            }
        }
        if !space.budget.take(bytes.len()) {
            return Err(self.refuse());
        }
        self.inner.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        self.unseen += bytes.len() as u64;
        usage.spilled_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_all(bytes).inspect_err(|_| usage.meet(LimitKind::Spill))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl SpillWriter for SpillFileWriter {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
