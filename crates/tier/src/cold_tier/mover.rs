//! Background thread for slow operations on the cold tier, one job at a time.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use weir_datafile::{DataFile, ErrorKind, FileSeal, FileSource, StoreError, seal_of};

use super::ColdTier;

/// Job of the mover thread.
pub enum MoverJob {
    /// Check the tier; if `known` is given, also delete all files outside it.
    Look {
        /// Whether the manifest names a file in the tier.
        is_used: bool,
        /// Paths to keep; `None` deletes nothing.
        known: Option<HashSet<String>>,
    },
    /// Copy a local file to a new path in the tier.
    Copy {
        /// The file on the fast disk.
        file: Arc<DataFile>,
        /// Full path of the local file.
        from: PathBuf,
        /// Number of the copy.
        id: i64,
        /// Path of the copy in the tier.
        path: String,
    },
    /// Delete files by their paths.
    Delete(Vec<String>),
}

/// Result of a job.
pub enum MoverReport {
    /// Whether the tier can be used.
    Looked(Result<(), StoreError>),
    /// Result of a copy.
    Copied {
        /// The file on the fast disk.
        file: Arc<DataFile>,
        /// Number of the copy.
        id: i64,
        /// Path of the copy in the tier.
        path: String,
        /// Checksum of the copy once it is durable; `None` for a file of an older weir.
        outcome: Result<Option<FileSeal>, StoreError>,
    },
    /// Paths of deleted files.
    Deleted(Result<Vec<String>, StoreError>),
}

/// Handle of the mover thread; dropping it stops the thread, even during a copy.
pub struct TierMover {
    jobs: Option<Sender<MoverJob>>,
    done: Receiver<MoverReport>,
    stop: Arc<AtomicBool>,
    slow: Arc<ColdTier>,
    thread: Option<JoinHandle<()>>,
}

impl TierMover {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Io`: the system cannot start a thread.
    pub fn start(slow: Arc<ColdTier>) -> Result<Self, StoreError> {
        let (jobs, waiting) = channel();
        let (report, done) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (is_stopped, place) = (Arc::clone(&stop), Arc::clone(&slow));
        let thread = std::thread::Builder::new().name("weir-slow".into()).spawn(move || {
            let _ = rustix::process::nice(5);
            for job in waiting {
                if report.send(run(&place, job, &is_stopped)).is_err() {
                    return;
                }
            }
        });
        let thread = thread.map_err(|error| {
            StoreError::new(ErrorKind::Io, format!("cannot start a thread: {error}"))
        })?;
        Ok(Self { jobs: Some(jobs), done, stop, slow, thread: Some(thread) })
    }

    /// Queues a job.
    pub fn send(&self, job: MoverJob) {
        if let Some(jobs) = &self.jobs {
            // A failed send means that the thread has ended; then no report arrives either.
            let _ = jobs.send(job);
        }
    }

    /// Next report, if any.
    pub fn take(&self) -> Option<MoverReport> {
        self.done.try_recv().ok()
    }
}

impl Drop for TierMover {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.slow.place.stop();
        self.jobs.take();
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn run(slow: &ColdTier, job: MoverJob, stop: &AtomicBool) -> MoverReport {
    match job {
        MoverJob::Look { is_used, known } => {
            MoverReport::Looked(look(slow, is_used, known.as_ref()))
        }
        MoverJob::Copy { file, from, id, path } => {
            let outcome = match from.metadata() {
                Ok(found) if found.len() == file.byte_count => {
                    copy(slow, &file, (&from, &path), stop)
                }
                Ok(found) => Err(damaged(&file, &format!("has {} bytes", found.len()))),
                Err(error) => Err(damaged(&file, &format!("cannot be read: {error}"))),
            };
            MoverReport::Copied { file, id, path, outcome }
        }
        MoverJob::Delete(paths) => MoverReport::Deleted(slow.delete_each(paths, |path| path)),
    }
}

/// Copies a file; damage of its end, which tells what the rest has to be, is found before.
fn copy(
    slow: &ColdTier,
    file: &DataFile,
    (from, to): (&Path, &str),
    stop: &AtomicBool,
) -> Result<Option<FileSeal>, StoreError> {
    let seal = File::open(from).and_then(FileSource::of_file).and_then(|source| seal_of(&source));
    let seal = seal.map_err(|error| damaged(file, &format!("cannot be read: {error}")))?;
    if file.seal.is_some() && seal != file.seal {
        return Err(damaged(file, "is another file: its checksum is not that of the manifest"));
    }
    slow.place.put(from, to, stop).map(|()| seal)
}

fn look(slow: &ColdTier, is_used: bool, known: Option<&HashSet<String>>) -> Result<(), StoreError> {
    slow.take(is_used)?;
    let Some(known) = known else { return Ok(()) };
    slow.place.keep_only(known);
    slow.delete_each(slow.unknown(|path| known.contains(path))?, |path| path).map(drop)
}

fn damaged(file: &DataFile, why: &str) -> StoreError {
    let text = format!("cannot move `{}` to the cold tier: it {why}", file.path);
    StoreError::new(ErrorKind::Corrupt, text).with_hint("`weir store repair` sets it aside")
}
