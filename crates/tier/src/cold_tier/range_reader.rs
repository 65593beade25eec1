//! Benchmark access to cold storage: reads byte ranges through the path that queries use.

use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use object_store::path::Path;
use tokio::runtime::Runtime;
use weir_datafile::{ErrorKind, StoreError};

use super::requests::{RequestScheduler, explain, is_missing};
use crate::options::SlowPlace;

/// Storage under measurement.
#[derive(Debug)]
pub struct RangeReader {
    name: String,
    reads: ReadPath,
}

#[derive(Debug)]
enum ReadPath {
    Directory(PathBuf),
    Bucket { requests: RequestScheduler, bucket: String, runtime: Option<Runtime> },
}

impl RangeReader {
    /// Opens the storage; sends no request yet.
    ///
    /// # Errors
    /// `Io`: an option is invalid.
    pub fn open(place: &SlowPlace) -> Result<Self, StoreError> {
        let options = match place {
            SlowPlace::Directory(root) => {
                let (name, root) = (root.display().to_string(), root.clone());
                return Ok(Self { name, reads: ReadPath::Directory(root) });
            }
            SlowPlace::Bucket(options) => options,
        };
        let runtime = super::bucket::runtime()?;
        let requests = RequestScheduler::new(options, runtime.handle().clone())?;
        let bucket = options.bucket.bucket.clone();
        let name = format!("s3://{bucket}/{}", options.prefix);
        Ok(Self { name, reads: ReadPath::Bucket { requests, bucket, runtime: Some(runtime) } })
    }

    /// Size of an object; `None` if it does not exist.
    ///
    /// # Errors
    /// `Io`: the size cannot be determined.
    pub async fn size(&self, object: &str) -> Result<Option<u64>, StoreError> {
        match &self.reads {
            ReadPath::Directory(root) => match tokio::fs::metadata(root.join(object)).await {
                Ok(found) => Ok(Some(found.len())),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(StoreError::io("read", &root.join(object), &error)),
            },
            ReadPath::Bucket { requests, .. } => match requests.head(&Path::from(object)).await {
                Ok(found) => Ok(Some(found.size)),
                Err(error) if is_missing(&error) => Ok(None),
                Err(error) => Err(self.told("ask", &error)),
            },
        }
    }

    /// Writes an object.
    ///
    /// # Errors
    /// `Io`: the object was not written.
    pub async fn write(&self, object: &str, bytes: Bytes) -> Result<(), StoreError> {
        match &self.reads {
            ReadPath::Directory(root) => {
                let path = root.join(object);
                let fail = |error| StoreError::io("write", &path, &error);
                if let Some(parent) = path.parent() {
                    tokio::fs::create_dir_all(parent).await.map_err(fail)?;
                }
                tokio::fs::write(&path, &bytes).await.map_err(fail)
            }
            ReadPath::Bucket { requests, .. } => {
                let put = requests.put(&Path::from(object), bytes).await;
                put.map_err(|error| self.told("write to", &error))
            }
        }
    }

    /// Removes an object, if it exists.
    ///
    /// # Errors
    /// `Io`: the object was not removed.
    pub async fn delete(&self, object: &str) -> Result<(), StoreError> {
        match &self.reads {
            ReadPath::Directory(root) => match tokio::fs::remove_file(root.join(object)).await {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(StoreError::io("remove", &root.join(object), &error))
                }
                _ => Ok(()),
            },
            ReadPath::Bucket { requests, .. } => {
                let delete = requests.delete(&Path::from(object)).await;
                delete.map_err(|error| self.told("delete from", &error))
            }
        }
    }

    /// Reads a range of an object; returns the number of bytes received.
    ///
    /// # Errors
    /// `Io`: all tries failed.
    pub async fn read(&self, object: &str, range: Range<u64>) -> Result<usize, StoreError> {
        match &self.reads {
            ReadPath::Directory(root) => {
                let path = root.join(object);
                let told = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path, range)).await;
                let read = read.unwrap_or_else(|error| Err(std::io::Error::other(error)));
                read.map_err(|error| StoreError::io("read", &told, &error))
            }
            ReadPath::Bucket { requests, .. } => {
                let read = requests.get_range(&Path::from(object), range).await;
                read.map(|bytes| bytes.len()).map_err(|error| self.told("read", &error))
            }
        }
    }

    /// Failed tries so far: disconnected, rejected, or timed out.
    pub fn failed(&self) -> u64 {
        match &self.reads {
            ReadPath::Directory(_) => 0,
            ReadPath::Bucket { requests, .. } => requests.stats().failed,
        }
    }

    fn told(&self, what: &str, error: &object_store::Error) -> StoreError {
        let bucket = match &self.reads {
            ReadPath::Directory(_) => "",
            ReadPath::Bucket { bucket, .. } => bucket,
        };
        let text = format!("cannot {what} `{}`: {}", self.name, explain(error, bucket));
        StoreError::new(ErrorKind::Io, text)
    }
}

/// Dropping a runtime blocks, which is not allowed inside another runtime.
impl Drop for RangeReader {
    fn drop(&mut self) {
        if let ReadPath::Bucket { runtime, .. } = &mut self.reads
            && let Some(runtime) = runtime.take()
        {
            runtime.shutdown_background();
        }
    }
}

fn read_file(path: &std::path::Path, range: Range<u64>) -> std::io::Result<usize> {
    use std::os::unix::fs::FileExt;
    let length = usize::try_from(range.end - range.start).map_err(std::io::Error::other)?;
    let mut bytes = vec![0; length];
    std::fs::File::open(path)?.read_exact_at(&mut bytes, range.start)?;
    Ok(length)
}
