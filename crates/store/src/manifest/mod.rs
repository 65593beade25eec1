//! The manifest: which files are the tables, where every stream stands, where the log begins. One transaction per change,
//! of SQLite for one hub, of PostgreSQL for several that share their files. Layout: `docs/formats/manifest.md`.
//!
//! It is the only truth: a file that it does not name does not exist, however complete it looks on the disk.

mod mending;
mod moving;
mod postgres;
mod shared_files;
mod sqlite;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_datafile::{DataFile, StoreError, Tier};
use weir_tables::{Micros, StreamId};

pub use moving::Hubs;
pub(crate) use moving::Moving;
pub(crate) use postgres::{ClaimOutcome, ClusterPulse, LEASE, ManifestNews, PostgresManifest};
pub(crate) use sqlite::{SqliteManifest, fail};

/// What the manifest calls the tiers.
const TIERS: [(&str, Tier); 2] = [("local", Tier::Local), ("slow", Tier::Slow)];

/// A file that waits to be deleted.
#[derive(Debug)]
pub(crate) struct QueuedDeletion {
    pub(crate) id: i64,
    pub(crate) path: String,
    pub(crate) tier: Tier,
    pub(crate) since: Micros,
}

/// What the manifest says at start.
#[derive(Debug)]
pub(crate) struct ManifestContent {
    pub(crate) files: Vec<Arc<DataFile>>,
    pub(crate) positions: HashMap<StreamId, u64>,
    /// Of several hubs: the streams that go through this one.
    pub(crate) owned: Option<HashSet<StreamId>>,
    /// Of several hubs: streams that another one took over; what the log has of them is not to be shown.
    pub(crate) lost: HashSet<StreamId>,
    /// The last change that is in it.
    pub(crate) snapshot: i64,
    pub(crate) wal_floor: u64,
    /// Every path that the manifest names, also of tables that this weir does not know.
    pub(crate) paths: Vec<String>,
    pub(crate) next_file_id: i64,
}

/// What one transaction changes.
#[derive(Debug, Default)]
pub(crate) struct ManifestChange<'a> {
    pub(crate) reason: &'static str,
    pub(crate) now: Micros,
    pub(crate) add: &'a [Arc<DataFile>],
    pub(crate) remove: &'a [Arc<DataFile>],
    pub(crate) positions: &'a [(StreamId, u64)],
    pub(crate) wal_floor: Option<u64>,
    /// Of several hubs: lost streams of which `add` has no rows,
    pub(crate) purged: &'a [StreamId],
    /// and those of which the log has none from `wal_floor` on.
    pub(crate) cleared: &'a [StreamId],
}

/// The open manifest.
#[derive(Debug)]
pub(crate) enum Manifest {
    /// Of one hub alone.
    Own(SqliteManifest),
    /// Of several hubs.
    Shared(Box<PostgresManifest>),
}

impl Manifest {
    /// Everything that is needed to start.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub(crate) fn load(&self) -> Result<ManifestContent, StoreError> {
        match self {
            Self::Own(manifest) => manifest.load(),
            Self::Shared(manifest) => manifest.load(),
        }
    }

    /// Makes a change, all or nothing, durable when it returns.
    ///
    /// # Errors
    /// `Full`, `Io`, `Corrupt`; nothing was changed. Until the next change that succeeds this one may still come back
    /// with a restart: when a sync fails, nobody knows what is on the disk. `Moved`: another hub has changed the same.
    pub(crate) fn commit(&mut self, change: &ManifestChange<'_>) -> Result<(), StoreError> {
        match self {
            Self::Own(manifest) => manifest.commit(change),
            Self::Shared(manifest) => manifest.commit(change).map(drop),
        }
    }

    /// Forgets files that were deleted.
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

    /// Every path that the manifest names, also of tables that this weir does not know, and where it is.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn places(&self) -> Result<Vec<(String, Tier)>, StoreError> {
        match self {
            Self::Own(manifest) => manifest.places(),
            Self::Shared(manifest) => manifest.places(),
        }
    }

    /// The number of the slow tier's mark; `None`: there never was one.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn slow_id(&self) -> Result<Option<i64>, StoreError> {
        match self {
            Self::Own(manifest) => manifest.slow_id(),
            Self::Shared(manifest) => manifest.slow_id(),
        }
    }

    /// From here on there is a slow tier, with this number unless it has one.
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

fn tier_of(name: &str) -> Tier {
    TIERS.iter().find(|tier| tier.0 == name).map_or(Tier::Local, |tier| tier.1)
}

fn name_of(tier: Tier) -> &'static str {
    TIERS.iter().find(|entry| entry.1 == tier).map_or("local", |entry| entry.0)
}
