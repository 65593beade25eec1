//! A hub enters its cluster: who it is, what of its data directory it can go on with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_datafile::{ErrorKind, StoreError, data_files};
use weir_tables::StreamId;

use super::{Cluster, ClusterOptions, PurgedStream};
use crate::directory::Directory;
use crate::manifest::{Manifest, ManifestContent, PostgresManifest};

/// In the data directory: which hub it is of.
const IDENTITY: &str = "cluster";
/// Numbers of files are the hub's number, and so many bits of its own.
const OWN_BITS: u32 = 40;

/// A hub that is in.
pub(crate) struct ClusterEntry {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) manifest: Manifest,
    /// For the follower.
    pub(crate) follows: PostgresManifest,
}

impl ClusterEntry {
    /// Enters with a data directory.
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
        // Rows of files that did not get into the manifest are in the log.
        for path in data_files(&directory.root, "parquet") {
            drop(std::fs::remove_file(directory.file(&path)));
        }
        let (claims, follows) = (manifest.again(options)?, manifest.again(options)?);
        let cluster = Arc::new(Cluster::new(options, claims));
        Ok(Self { cluster, manifest: Manifest::Shared(Box::new(manifest)), follows })
    }
}

impl Cluster {
    /// From what the manifest says, and the first segment of the log that is written from now on.
    pub(crate) fn begin(&self, snapshot: i64, lost: &[StreamId], segment: u64) {
        self.seen().snapshot = snapshot;
        self.purged().extend(lost.iter().map(|stream| PurgedStream { stream: *stream, segment }));
    }
}

/// The first number that a file of a new hub has.
pub(crate) fn first_id(manifest: &PostgresManifest) -> i64 {
    (manifest.hub() << OWN_BITS) + 1
}

/// The first number that a file of this hub may have.
pub(crate) fn next_id(
    manifest: &PostgresManifest,
    content: &ManifestContent,
) -> Result<i64, StoreError> {
    let first = first_id(manifest);
    let pending = manifest.pending(false)?;
    let number = |path: &String| path.rsplit('/').next()?.split('.').next()?.parse::<i64>().ok();
    let pending = pending.iter().filter_map(number).map(|id| id + 1);
    Ok(pending.fold(content.next_file_id.max(first), i64::max))
}

/// Whose number a file's number begins with; 0: of a hub alone.
pub(crate) fn hub_of(file: i64) -> i64 {
    file >> OWN_BITS
}

/// Rows of a hub alone would be left behind.
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

/// A hub alone must not begin anew beside the log of one that was in a cluster.
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
