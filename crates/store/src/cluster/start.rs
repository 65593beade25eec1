//! Joins a hub to its cluster: determines its identity and what of its data directory can be
//! reused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_datafile::{ErrorKind, StoreError, data_files};
use weir_tables::StreamId;

use super::{Cluster, ClusterOptions, PurgedStream};
use crate::directory::Directory;
use crate::manifest::{Manifest, ManifestContent, PostgresManifest};

/// File in the data directory that identifies the hub.
const IDENTITY: &str = "cluster";
/// File numbers consist of the hub's number and this many bits of a local counter.
const OWN_BITS: u32 = 40;

/// A hub that has joined the cluster.
pub(crate) struct ClusterEntry {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) manifest: Manifest,
    /// Connection for the follower.
    pub(crate) follows: PostgresManifest,
}

impl ClusterEntry {
    /// Joins with a data directory.
    ///
    /// # Errors
    /// `Io`, `NewerVersion`, `Locked`.
    pub(crate) fn new(directory: &Directory, options: &ClusterOptions) -> Result<Self, StoreError> {
        refuse_own_manifest(directory)?;
        let path = directory.root.join(IDENTITY);
        let known = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        let manifest = PostgresManifest::enter(options, known)?;
        if known.is_some_and(|known: i64| known != manifest.hub()) {
            let text = format!(
                "cannot open `{}`: it is of another hub of the cluster than `{}`",
                directory.root.display(),
                options.name
            );
            return Err(StoreError::new(ErrorKind::Locked, text).with_hint(
                "give the hub the name that it had, `cluster.name`, or an empty directory",
            ));
        }
        std::fs::write(&path, format!("{}\n", manifest.hub()))
            .map_err(|error| StoreError::io("write", &path, &error))?;
        if manifest.slow_id()?.is_none() {
            manifest.set_slow_id(super::random("place"))?;
        }
        // Rows of files that did not reach the manifest are still in the log.
        for path in data_files(&directory.root, "parquet") {
            drop(std::fs::remove_file(directory.file(&path)));
        }
        let (claims, follows) = (manifest.again(options)?, manifest.again(options)?);
        let cluster = Arc::new(Cluster::new(options, claims));
        Ok(Self { cluster, manifest: Manifest::Shared(Box::new(manifest)), follows })
    }
}

impl Cluster {
    /// Sets the starting point: the manifest's snapshot, the lost streams, and the first log
    /// segment written from now on.
    pub(crate) fn begin(&self, snapshot: i64, lost: &[StreamId], segment: u64) {
        self.seen().snapshot = snapshot;
        self.purged().extend(lost.iter().map(|stream| PurgedStream { stream: *stream, segment }));
    }
}

/// The first file number of a new hub.
pub(crate) fn first_id(manifest: &PostgresManifest) -> i64 {
    (manifest.hub() << OWN_BITS) + 1
}

/// The next free file number of this hub.
pub(crate) fn next_id(
    manifest: &PostgresManifest,
    content: &ManifestContent,
) -> Result<i64, StoreError> {
    let first = first_id(manifest);
    let pending = manifest.pending(false)?;
    let pending = pending
        .iter()
        .filter_map(|path| path.rsplit('/').next()?.split('.').next()?.parse::<i64>().ok())
        .map(|id| id + 1);
    Ok(pending.fold(content.next_file_id.max(first), i64::max))
}

/// Hub that wrote a file, from the file's number; 0 for a single hub.
pub(crate) fn hub_of(file: i64) -> i64 {
    file >> OWN_BITS
}

/// Rejects a data directory of a single hub: its rows would be left behind.
fn refuse_own_manifest(directory: &Directory) -> Result<(), StoreError> {
    let path = directory.manifest();
    if !path.exists() {
        return Ok(());
    }
    let text = format!(
        "cannot enter the cluster with `{}`: it has rows of a hub alone",
        directory.root.display()
    );
    Err(StoreError::new(ErrorKind::Io, text)
        .with_hint("begin with an empty directory: `store.dir`"))
}

/// Rejects a data directory of a cluster's hub: a single hub must not start beside its log.
///
/// # Errors
/// `Io`.
pub(crate) fn refuse_cluster(root: &Path) -> Result<(), StoreError> {
    let path: PathBuf = root.join(IDENTITY);
    if !path.exists() {
        return Ok(());
    }
    let text = format!("cannot open `{}`: it is of a hub in a cluster", root.display());
    Err(StoreError::new(ErrorKind::Io, text)
        .with_hint("set `cluster.manifest` as it was, or name another directory"))
}
