//! A backup in a bucket. An object exists completely or not at all. The list of a snapshot is
//! written last and removed first, so a snapshot with a list is complete.
//!
//! Buckets have no locks. A writer creates the object `lock` with a conditional put and rewrites it
//! every few seconds; a lock that no longer changes belongs to a backup that was killed.
//!
//! ```text
//! lock ─► objects ─► manifest ─► still mine? ─► list ─► thin ─► lock deleted
//!                                     ▲ taken over after a long silence: no snapshot appears
//! ```

use std::collections::HashSet;
use std::fs::DirBuilder;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_datafile::{BackupObject, ErrorKind, SnapshotList, StoreError};
use weir_tier::{BucketTier, SlowBucketOptions};

use super::object::write_copy;
use super::target::{BackupTarget, OURS, VERSION, check_version, refuse_other, taken};
use crate::cluster::random;

/// Interval at which a held lock is rewritten.
const BEAT: Duration = Duration::from_secs(2);
/// A lock that stays unchanged for this many beats is abandoned.
const SILENT_BEATS: u32 = 8;
/// Bytes per ranged GET of an object: the latency of a request dominates, whatever its size.
const READ_BYTES: usize = 8 << 20;

pub(super) struct BucketTarget {
    bucket: Arc<BucketTier>,
    scratch: ScratchDir,
    /// Objects that exist when the snapshot is written.
    there: HashSet<String>,
    lock: Option<TargetLock>,
}

impl BucketTarget {
    pub(super) fn open(options: &SlowBucketOptions, is_written: bool) -> Result<Self, StoreError> {
        let bucket = Arc::new(BucketTier::open(options)?);
        let name = bucket.shown();
        let version = match bucket.read("VERSION")? {
            Some(text) => text,
            None if is_written => begin(&bucket, &name)?,
            None => {
                let text = format!("cannot use `{name}`: there is no `VERSION` in it");
                return Err(StoreError::new(ErrorKind::Io, text)
                    .with_hint("name the bucket and prefix of a backup"));
            }
        };
        check_version(&name, &String::from_utf8_lossy(&version))?;
        let scratch = ScratchDir::new()?;
        let lock = is_written.then(|| TargetLock::take(&bucket, &name)).transpose()?;
        let mut target = Self { bucket, scratch, there: HashSet::new(), lock };
        if is_written {
            let objects = target.bucket.list_below("objects")?.into_iter();
            target.there = objects.filter(|path| BackupObject::is_path(path)).collect();
            target.remove_halves()?;
        }
        Ok(target)
    }

    /// Removes manifests without a list: leftovers of a backup or of a removal that was killed.
    fn remove_halves(&self) -> Result<(), StoreError> {
        let whole = self.names()?;
        let paths = self.bucket.list_below("snapshots")?.into_iter();
        for path in paths.filter(|path| path.ends_with("/manifest.sqlite")) {
            if snapshot_of(&path).is_none_or(|name| !whole.iter().any(|whole| whole == name)) {
                self.bucket.remove(&path)?;
            }
        }
        Ok(())
    }

    fn check_lock(&self) -> Result<(), StoreError> {
        self.lock.as_ref().map_or(Ok(()), |lock| lock.check(&self.bucket.shown()))
    }
}

fn begin(bucket: &BucketTier, name: &str) -> Result<Vec<u8>, StoreError> {
    let names = bucket.list_below("")?;
    if let Some(other) =
        names.iter().map(|name| top_folder(name)).find(|top| !OURS.contains(&&**top))
    {
        return Err(refuse_other(name, &other));
    }
    let version = format!("{VERSION}\n").into_bytes();
    bucket.write("VERSION", version.clone())?;
    Ok(version)
}

fn top_folder(name: &str) -> String {
    name.split('/').next().unwrap_or_default().to_owned()
}

fn snapshot_of(path: &str) -> Option<&str> {
    path.strip_prefix("snapshots/")?.split('/').next()
}

impl BackupTarget for BucketTarget {
    fn name(&self) -> String {
        self.bucket.shown()
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        let paths = self.bucket.list_below("snapshots")?;
        let lists = paths.iter().filter(|path| path.ends_with("/list"));
        let mut names: Vec<String> =
            lists.filter_map(|path| snapshot_of(path)).map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    fn list(&self, snapshot: &str) -> Result<SnapshotList, StoreError> {
        let path = format!("snapshots/{snapshot}/list");
        let text = self.bucket.read(&path)?.unwrap_or_default();
        SnapshotList::read(
            format!("{}/{path}", self.bucket.shown()),
            &String::from_utf8_lossy(&text),
        )
    }

    fn manifest(&self, snapshot: &str) -> Result<PathBuf, StoreError> {
        let (path, to) =
            (format!("snapshots/{snapshot}/manifest.sqlite"), self.scratch.0.join("manifest"));
        let fail = |error: &std::io::Error| {
            let text = format!("cannot read `{}/{path}`: {error}", self.bucket.shown());
            StoreError::new(ErrorKind::Io, text)
        };
        let source = self.bucket.source(&path).map_err(|error| fail(&error))?;
        write_copy(&mut source.reader_of(READ_BYTES), &to, 0o600).map_err(|error| fail(&error))?;
        Ok(to)
    }

    fn place(&self, object: &BackupObject) -> String {
        format!("{}/{}", self.bucket.shown(), object.path())
    }

    fn has(&self, object: &BackupObject) -> bool {
        self.there.contains(&object.path())
    }

    fn open(&self, object: &BackupObject) -> std::io::Result<Box<dyn Read>> {
        let source = self.bucket.source(&object.path())?;
        Ok(Box::new(source.reader_of(READ_BYTES)))
    }

    fn whole(&self, object: &BackupObject) -> Result<PathBuf, String> {
        let (place, to) = (self.place(object), self.scratch.0.join("object"));
        let found = self.open(object).and_then(|mut bytes| write_copy(&mut bytes, &to, 0o600));
        let found = found.map_err(|error| format!("cannot read `{place}`: {error}"))?;
        object.compare(&place, &found)?;
        Ok(to)
    }

    fn take(
        &mut self,
        bytes: &mut dyn Read,
        source: &Path,
    ) -> Result<(BackupObject, bool), StoreError> {
        // The object's name is known only after all of it was read.
        let draft = self.scratch.0.join("object");
        let written = write_copy(bytes, &draft, 0o600);
        let object =
            written.map_err(|error| self.scratch.full(StoreError::io("copy", source, &error)))?;
        if self.has(&object) {
            return Ok((object, false));
        }
        self.bucket.send_file(&draft, &object.path())?;
        self.there.insert(object.path());
        Ok((object, true))
    }

    fn draft(&self) -> &Path {
        &self.scratch.0
    }

    fn publish(&mut self, snapshot: &str, list: &SnapshotList) -> Result<(), StoreError> {
        let text = list.text()?;
        let manifest = self.scratch.0.join("manifest.sqlite");
        self.bucket.send_file(&manifest, &format!("snapshots/{snapshot}/manifest.sqlite"))?;
        self.check_lock()?;
        self.bucket.write(&format!("snapshots/{snapshot}/list"), text.into_bytes())
    }

    fn remove(&mut self, snapshot: &str) -> Result<(), StoreError> {
        self.check_lock()?;
        self.bucket.remove(&format!("snapshots/{snapshot}/list"))?;
        self.bucket.remove(&format!("snapshots/{snapshot}/manifest.sqlite"))
    }

    fn remove_others(&mut self, needed: &HashSet<BackupObject>) -> Result<(), StoreError> {
        let needed: HashSet<String> = needed.iter().map(BackupObject::path).collect();
        for path in std::mem::take(&mut self.there) {
            if needed.contains(&path) {
                self.there.insert(path);
            } else {
                self.check_lock()?;
                self.bucket.remove(&path)?;
            }
        }
        Ok(())
    }
}

/// A private directory on this machine for one file at a time: the files include the fleet's keys.
struct ScratchDir(PathBuf);

impl ScratchDir {
    fn new() -> Result<Self, StoreError> {
        let name = format!("weir-backup-{}-{:x}", std::process::id(), random("scratch"));
        let path = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| StoreError::io("make", &path, &error))?;
        Ok(Self(path))
    }

    /// Adds a hint to an error about missing space.
    fn full(&self, error: StoreError) -> StoreError {
        match error.kind {
            ErrorKind::Full => error.with_hint(format!(
                "a file is copied to `{}` before it is sent: make room there, or name another directory with `TMPDIR`",
                self.0.parent().unwrap_or(&self.0).display()
            )),
            _ => error,
        }
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The object `lock`, rewritten at every beat.
struct TargetLock {
    bucket: Arc<BucketTier>,
    id: String,
    end: Option<Sender<()>>,
    beating: Option<JoinHandle<()>>,
}

impl TargetLock {
    fn take(bucket: &Arc<BucketTier>, name: &str) -> Result<Self, StoreError> {
        let id = format!("{:x}", random("lock"));
        if !make(bucket, &id)? {
            wait_for_silence(bucket, name)?;
            bucket.remove("lock")?;
            if !make(bucket, &id)? {
                return Err(taken(name));
            }
        }
        let (end, ended) = channel();
        let (own, text) = (Arc::clone(bucket), id.clone());
        let beat = move || {
            let mut number = 1_u64;
            while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                number += 1;
                // A lock that was taken over stays with its new owner. An unreadable lock is
                // checked again before the snapshot is published.
                if is_of(&own, &text).unwrap_or(false) {
                    drop(own.write("lock", format!("{text} {number}\n").into_bytes()));
                }
            }
        };
        let beating = std::thread::Builder::new().name("weir-lock".to_owned()).spawn(beat);
        let beating = beating.map_err(|error| {
            StoreError::new(ErrorKind::Io, format!("cannot start a thread: {error}"))
        })?;
        Ok(Self { bucket: Arc::clone(bucket), id, end: Some(end), beating: Some(beating) })
    }

    /// Fails unless this backup still holds the lock.
    fn check(&self, name: &str) -> Result<(), StoreError> {
        if is_of(&self.bucket, &self.id)? {
            return Ok(());
        }
        let text = format!(
            "cannot back up into `{name}`: another backup took over, since nothing was heard of this one"
        );
        Err(StoreError::new(ErrorKind::Locked, text).with_hint("run it again"))
    }
}

impl Drop for TargetLock {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(beating) = self.beating.take() {
            drop(beating.join());
        }
        if is_of(&self.bucket, &self.id).unwrap_or(false)
            && let Err(error) = self.bucket.remove("lock")
        {
            tracing::warn!("the next backup waits for a lock that nobody has: {error}");
        }
    }
}

/// Creates the lock if it does not exist.
fn make(bucket: &BucketTier, id: &str) -> Result<bool, StoreError> {
    // A service may not support conditional puts.
    if bucket.read("lock")?.is_some() {
        return Ok(false);
    }
    bucket.create("lock", format!("{id} 1\n").into_bytes())?;
    // The response may be lost although the lock was created.
    is_of(bucket, id)
}

fn is_of(bucket: &BucketTier, id: &str) -> Result<bool, StoreError> {
    let text = bucket.read("lock")?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&text).split(' ').next() == Some(id))
}

/// Blocks until the lock is gone or has not changed for long.
fn wait_for_silence(bucket: &BucketTier, name: &str) -> Result<(), StoreError> {
    let first = bucket.read("lock")?;
    tracing::warn!(
        "`{name}` has a lock: looking for {} s whether the backup that made it still runs",
        (BEAT * SILENT_BEATS).as_secs()
    );
    for _ in 0..SILENT_BEATS {
        pause(BEAT);
        let now = bucket.read("lock")?;
        if now.is_none() {
            break;
        }
        if now != first {
            return Err(taken(name));
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "only a command that waits for another one does")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}
