//! Several hubs over one manifest and one place for files: each ingests rows, each answers queries
//! over all rows.
//!
//! ```text
//! agents ─► hub 1: log, memtable ──files──►┌────────────┐◄──files── hub 2: log, memtable ◄─ agents
//!             │            ▲               │   bucket   │                         ▲   │
//!             │            └─────────── queries read the memtables of other hubs ─┘   │
//!             └───── files, positions ────►│ PostgreSQL │◄───── files, positions ─────┘
//!                                          └────────────┘
//! ```
//!
//! A stream belongs to one hub at a time. The hub that an agent connects to claims its streams,
//! starting at their position in files. The previous hub learns of it, purges the rows beyond that
//! position, and cannot commit until it has.
//!
//! A query sees each row once: it reads the files of snapshot N, and asks every other hub for the
//! rows that were in memory at snapshot N. A hub therefore keeps rows in memory for a while after
//! the flush.

mod follow;
mod intake;
mod peers;
mod reader_lease;
mod shared_ledger;
mod start;
mod work;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard, RwLock};
use weir_datafile::StoreError;
use weir_sql::{Peer, PeerSet};
use weir_tables::StreamId;

use crate::manifest::{ClaimOutcome, LEASE, PostgresManifest};
use crate::write_path::shared::StoreState;

pub(crate) use crate::options::{ClusterOptions, ManifestOptions};
pub(crate) use follow::ClusterFollower;
pub(crate) use reader_lease::ReaderLease;
pub use shared_ledger::SharedLedger;
pub(crate) use start::{ClusterEntry, first_id, hub_of, next_id, refuse_cluster};
pub(crate) use work::{SharedWork, grace};

/// This hub's state as a member of a cluster.
pub(crate) struct Cluster {
    /// Connection for claims, on which senders wait; maintenance and the follower use separate
    /// connections.
    claims: PostgresManifest,
    /// Connections of queries to other hubs.
    pub(crate) peer_set: Arc<PeerSet>,
    lease: RwLock<Lease>,
    is_leader: AtomicBool,
    /// Serializes appends that wait for a claim, in arrival order, and counts them.
    pub(crate) turn: tokio::sync::Mutex<()>,
    pub(crate) waiting: AtomicUsize,
    /// Held while the view advances from one snapshot to the next.
    seen: Mutex<ViewProgress>,
    /// Streams lost to other hubs whose rows are purged.
    purged: Mutex<Vec<PurgedStream>>,
}

/// Lease state from the last heartbeat.
#[derive(Default)]
struct Lease {
    /// Time of the last renewal; `None` before the first.
    renewed: Option<Instant>,
    trouble: Option<String>,
}

#[derive(Debug)]
pub(crate) struct ViewProgress {
    /// The newest snapshot in the view.
    pub(crate) snapshot: i64,
    /// A commit of this hub has no response: the follower must not show files that may be part of
    /// it.
    pub(crate) is_in_doubt: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PurgedStream {
    pub(crate) stream: StreamId,
    /// Log segments from this one on have no rows of the stream.
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

    /// Whether this hub does the work that only one hub does: merging, deleting, rules.
    pub(crate) fn is_leader(&self) -> bool {
        let lease = self.lease.read();
        let is_fresh = lease.renewed.is_some_and(|at| at.elapsed() < LEASE / 2);
        self.is_leader.load(Ordering::Relaxed) && is_fresh
    }

    /// Live hubs other than this one.
    pub(crate) fn peers(&self) -> Vec<Peer> {
        self.peer_set.all()
    }

    /// Problem to show to the operator.
    pub(crate) fn trouble(&self) -> Option<String> {
        let lease = self.lease.read();
        lease.trouble.clone().or_else(|| {
            let name = self.peer_set.unreachable()?;
            Some(format!("the hub `{name}` cannot be reached: answers are without its newest rows"))
        })
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, ViewProgress> {
        self.seen.lock()
    }

    /// Whether purged streams still have rows in the log.
    pub(crate) fn has_purged(&self) -> bool {
        !self.purged().is_empty()
    }

    pub(crate) fn purged(&self) -> MutexGuard<'_, Vec<PurgedStream>> {
        self.purged.lock()
    }

    /// Claims streams for this hub; blocks. A stream with a position is created if no hub knows it,
    /// starting there. `false`: retry later, because they were just taken from this hub.
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

    /// Positions of streams in files, including streams of other hubs; blocks.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn filed(&self, streams: &[StreamId]) -> Result<Vec<(StreamId, u64)>, StoreError> {
        self.claims.filed(streams)
    }

    /// Small files that all hubs share; blocks.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn shared_files(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.claims.shared_files()
    }

    /// Blocking form of [`PostgresManifest::share_file`].
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

/// Draws a random number.
pub(crate) fn random(what: &str) -> i64 {
    std::hash::RandomState::new().hash_one(what).cast_signed()
}
