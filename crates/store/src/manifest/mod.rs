//! The manifest: the files of the tables, the position of every stream, the start of the log. Each
//! change is one transaction, in SQLite for a single hub, in PostgreSQL for a cluster. Layout:
//! `docs/formats/manifest.md`.
//!
//! It is the only source of truth: a file that it does not name does not exist, however complete it
//! looks on disk.

mod digest;
mod mending;
mod moving;
mod postgres;
mod shared_files;
mod sqlite;
mod upgrade;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_datafile::{DataFile, ErrorKind, StoreError, Tier, file_number};
use weir_tables::{Micros, StreamId};

pub use moving::Hubs;
pub(crate) use moving::ManifestExport;
pub(crate) use postgres::{ClaimOutcome, ClusterPulse, LEASE, ManifestNews, PostgresManifest};
pub(crate) use sqlite::{SqliteManifest, fail};

/// Names of the tiers in the manifest.
const TIERS: [(&str, Tier); 2] = [("local", Tier::Local), ("slow", Tier::Slow)];

/// A file that waits to be deleted.
#[derive(Debug)]
pub(crate) struct QueuedDeletion {
    pub(crate) id: i64,
    pub(crate) path: String,
    pub(crate) tier: Tier,
    pub(crate) since: Micros,
    pub(crate) byte_count: u64,
    /// Whether it expired by its age, and can be restored.
    pub(crate) is_restorable: bool,
}

/// Content of the manifest at start.
#[derive(Debug)]
pub(crate) struct ManifestContent {
    pub(crate) files: Vec<Arc<DataFile>>,
    pub(crate) positions: HashMap<StreamId, u64>,
    /// Streams claimed by this hub; cluster only.
    pub(crate) owned: Option<HashSet<StreamId>>,
    /// Streams that another hub took over, whose rows in the log must stay hidden; cluster only.
    pub(crate) lost: HashSet<StreamId>,
    /// The newest snapshot.
    pub(crate) snapshot: i64,
    pub(crate) wal_floor: u64,
    /// Every path that the manifest names, including tables that this weir does not know.
    pub(crate) paths: Vec<String>,
    pub(crate) next_file_id: i64,
}

/// The changes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct ManifestChange<'a> {
    pub(crate) reason: &'static str,
    pub(crate) now: Micros,
    pub(crate) add: &'a [Arc<DataFile>],
    pub(crate) remove: &'a [Arc<DataFile>],
    pub(crate) positions: &'a [(StreamId, u64)],
    pub(crate) wal_floor: Option<u64>,
    /// Lost streams of which `add` has no rows; cluster only.
    pub(crate) purged: &'a [StreamId],
    /// Lost streams of which the log has no rows from `wal_floor` on.
    pub(crate) cleared: &'a [StreamId],
}

/// The open manifest.
#[derive(Debug)]
pub(crate) enum Manifest {
    /// Manifest of a single hub.
    Own(SqliteManifest),
    /// Manifest of a cluster.
    Shared(Box<PostgresManifest>),
}

impl Manifest {
    /// Loads everything that a start needs.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub(crate) fn load(&self) -> Result<ManifestContent, StoreError> {
        match self {
            Self::Own(manifest) => manifest.load(),
            Self::Shared(manifest) => manifest.load(),
        }
    }

    /// Commits a change atomically; durable on return.
    ///
    /// # Errors
    /// `Full`, `Io`, `Corrupt`; nothing was changed. A failed commit may still reappear after a
    /// restart until the next one succeeds: after a failed sync the content of the disk is unknown.
    /// `Moved`: another hub has changed the same data.
    pub(crate) fn commit(&mut self, change: &ManifestChange<'_>) -> Result<(), StoreError> {
        match self {
            Self::Own(manifest) => manifest.commit(change),
            Self::Shared(manifest) => manifest.commit(change).map(drop),
        }
    }

    /// Removes deleted files from the queue.
    ///
    /// # Errors
    /// `Full`, `Io`.
    pub(crate) fn forget(&mut self, ids: &[i64]) -> Result<(), StoreError> {
        match self {
            Self::Own(manifest) => manifest.forget(ids),
            Self::Shared(manifest) => manifest.forget(ids),
        }
    }

    /// Files that wait to be deleted.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn gc_queue(&self) -> Result<Vec<QueuedDeletion>, StoreError> {
        match self {
            Self::Own(manifest) => manifest.gc_queue(),
            Self::Shared(manifest) => manifest.gc_queue(),
        }
    }

    /// Compares the content with the checksum of the last commit, where it has one (PostgreSQL has
    /// its own), and the paths with the form of the paths of data files: a backup may be forged.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if let Self::Own(manifest) = self {
            manifest.check()?;
        }
        let Some(path) = odd_path(&self.load()?, &self.gc_queue()?) else { return Ok(()) };
        let path = path.escape_debug();
        let text = format!("cannot open the manifest: `{path}` in it is no path of its file");
        Err(StoreError::new(ErrorKind::Corrupt, text).with_hint(
            "`weir store repair` removes it if its table is known; use no backup of strangers",
        ))
    }

    /// Accepts the present content as right.
    ///
    /// # Errors
    /// `Full`, `Io`.
    pub(crate) fn seal(&self) -> Result<(), StoreError> {
        match self {
            Self::Own(manifest) => manifest.seal(),
            Self::Shared(_) => Ok(()),
        }
    }

    /// Puts expired files that wait to be deleted back into their tables.
    ///
    /// # Errors
    /// `Full`, `Io`; nothing was changed.
    pub(crate) fn undelete(&mut self, ids: &[i64], now: Micros) -> Result<(), StoreError> {
        match self {
            Self::Own(manifest) => manifest.undelete(ids, now),
            Self::Shared(manifest) => manifest.undelete(ids, now),
        }
    }

    /// Every path that the manifest names and its tier, including tables that this weir does not
    /// know.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn places(&self) -> Result<Vec<(String, Tier)>, StoreError> {
        match self {
            Self::Own(manifest) => manifest.places(),
            Self::Shared(manifest) => manifest.places(),
        }
    }

    /// Id of the cold tier, as in its marker; `None` if there never was one.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn slow_id(&self) -> Result<Option<i64>, StoreError> {
        match self {
            Self::Own(manifest) => manifest.slow_id(),
            Self::Shared(manifest) => manifest.slow_id(),
        }
    }

    /// Records a cold tier with this id, unless the manifest has one.
    ///
    /// # Errors
    /// `Io`, `Full`.
    pub(crate) fn set_slow_id(&mut self, id: i64) -> Result<(), StoreError> {
        match self {
            Self::Own(manifest) => manifest.set_slow_id(id),
            Self::Shared(manifest) => manifest.set_slow_id(id),
        }
    }
}

/// First path that a store would not give to its file.
pub(crate) fn odd_path(content: &ManifestContent, queue: &[QueuedDeletion]) -> Option<String> {
    let is_odd = |id: i64, path: &str| file_number(path) != Some(id);
    let file = content.files.iter().find(|file| is_odd(file.id, &file.path));
    let queued = queue.iter().find(|file| is_odd(file.id, &file.path));
    // Of tables that this weir does not know.
    let other = content.paths.iter().find(|path| file_number(path).is_none());
    file.map(|file| &file.path).or(queued.map(|file| &file.path)).or(other).cloned()
}

fn tier_of(name: &str) -> Tier {
    TIERS.iter().find(|tier| tier.0 == name).map_or(Tier::Local, |tier| tier.1)
}

fn name_of(tier: Tier) -> &'static str {
    TIERS.iter().find(|entry| entry.1 == tier).map_or("local", |entry| entry.0)
}
