//! Several hubs over one manifest and one place for files: each takes rows in, each answers for all.
//!
//! ```text
//!   agents ──► hub 1: log, rows in memory ──files──►┌─────────────┐◄──files── hub 2: log, rows in memory ◄── agents
//!                  │        ▲                       │ bucket      │               ▲        │
//!                  │        └───── rows in memory, asked by queries ──────────────┘        │
//!                  └──────── files, positions ─────►│ PostgreSQL  │◄─── files, positions ──┘
//! ```
//!
//! A stream goes through one hub at a time. Whoever an agent turns to takes its streams over, from where files have them;
//! the hub that had them before learns it, leaves out what it has beyond, and cannot commit until it did.
//!
//! A query sees each row once: it looks at the files of change N, and asks every other hub for the rows that were not in
//! files at change N. So a hub keeps rows for a moment after they came into files.

mod follow;
mod intake;
mod peers;
mod reader_lease;
mod start;
mod work;

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use weir_datafile::StoreError;
use weir_sql::{Peer, PeerSet};
use weir_tables::StreamId;

use crate::manifest::{ClaimOutcome, LEASE, PostgresManifest};
use crate::write_path::shared::StoreState;

pub(crate) use crate::options::{ClusterOptions, ManifestOptions};
pub(crate) use follow::ClusterFollower;
pub(crate) use reader_lease::ReaderLease;
pub(crate) use start::{ClusterEntry, first_id, hub_of, next_id, refuse_cluster};
pub(crate) use work::{SharedWork, grace};

/// This hub as one of several.
pub(crate) struct Cluster {
    /// For what senders wait for; maintenance and the follower have connections of their own.
    claims: PostgresManifest,
    /// The others, as queries reach them.
    pub(crate) peer_set: Arc<PeerSet>,
    lease: RwLock<Lease>,
    is_leader: AtomicBool,
    /// Appends that wait for a stream to be theirs come one by one, in their order; how many there are.
    pub(crate) turn: tokio::sync::Mutex<()>,
    pub(crate) waiting: AtomicUsize,
    /// Held while the view is brought from one change to the next.
    seen: Mutex<ViewProgress>,
    /// Streams that were taken from this hub, whose rows are left out by now.
    purged: Mutex<Vec<PurgedStream>>,
}

/// What the server said last.
#[derive(Default)]
struct Lease {
    /// When the lease was last renewed; before the first time there is none.
    renewed: Option<Instant>,
    trouble: Option<String>,
}

/// How far the view is.
#[derive(Debug)]
pub(crate) struct ViewProgress {
    /// The last change in it.
    pub(crate) snapshot: i64,
    /// A commit of this hub has no answer: the follower must not show what may be of it.
    pub(crate) is_in_doubt: bool,
}

/// A stream that was left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PurgedStream {
    pub(crate) stream: StreamId,
    /// Segments of the log from this one on have none of its rows.
    pub(crate) segment: u64,
}

impl Cluster {
    pub(crate) fn new(options: &ClusterOptions, claims: PostgresManifest) -> Self {
        let seen = ViewProgress { snapshot: 0, is_in_doubt: false };
        let (address, peers) = (options.address.clone(), Arc::clone(&options.peers));
        let peer_set = Arc::new(PeerSet::new(address, peers, options.spread_bytes));
        Self {
            claims,
            peer_set,
            lease: RwLock::default(),
            is_leader: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
            waiting: AtomicUsize::new(0),
            seen: Mutex::new(seen),
            purged: Mutex::default(),
        }
    }

    /// Whether this hub does what only one does: merging, deleting, rules.
    pub(crate) fn is_leader(&self) -> bool {
        let lease = self.lease.read().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = lease.renewed.is_some_and(|at| at.elapsed() < LEASE / 2);
        self.is_leader.load(Ordering::Relaxed) && is_fresh
    }

    /// The hubs that are there.
    pub(crate) fn peers(&self) -> Vec<Peer> {
        self.peer_set.all()
    }

    /// What a person should know.
    pub(crate) fn trouble(&self) -> Option<String> {
        let lease = self.lease.read().unwrap_or_else(PoisonError::into_inner);
        let gone = || {
            let name = self.peer_set.unreachable()?;
            Some(format!("the hub `{name}` cannot be reached: answers are without its newest rows"))
        };
        lease.trouble.clone().or_else(gone)
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, ViewProgress> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether streams wait to be over: their rows are left out of memory and not yet of the log.
    pub(crate) fn has_purged(&self) -> bool {
        !self.purged().is_empty()
    }

    pub(crate) fn purged(&self) -> MutexGuard<'_, Vec<PurgedStream>> {
        self.purged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has streams go through this hub; blocks. With a position also such that no hub has seen, from there on.
    /// `false`: not yet, since they were taken from it a moment ago.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn claim(
        &self,
        shared: &StoreState,
        streams: &[(StreamId, Option<u64>)],
    ) -> Result<bool, StoreError> {
        match self.claims.claim(streams)? {
            ClaimOutcome::Stale => Ok(false),
            ClaimOutcome::Ours(ours) => {
                shared.positions().own(&ours);
                Ok(true)
            }
        }
    }

    /// Where streams stand in files, also those of other hubs; blocks.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn filed(&self, streams: &[StreamId]) -> Result<Vec<(StreamId, u64)>, StoreError> {
        self.claims.filed(streams)
    }

    /// Small files that all hubs have; blocks.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn shared_files(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.claims.shared_files()
    }

    /// As [`PostgresManifest::share_file`].
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn share_file(
        &self,
        name: &str,
        before: Option<&[u8]>,
        content: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        self.claims.share_file(name, before, content)
    }
}

/// Drawn anew.
pub(crate) fn random(what: &str) -> i64 {
    std::hash::RandomState::new().hash_one(what).cast_signed()
}
