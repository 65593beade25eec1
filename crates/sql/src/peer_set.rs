//! Peer set of a cluster, as queries use it: the current members, and which of them were
//! unreachable at the last attempt.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use crate::distributed::QueryChannel;
use crate::peers::{Peer, Peers};

/// An unreachable hub is retried after this.
const GONE: Duration = Duration::from_secs(1);

/// Other hubs of the cluster.
pub struct PeerSet {
    /// URL at which other hubs reach this one.
    pub(crate) address: String,
    /// Transport to the other hubs.
    pub(crate) peers: Arc<dyn Peers>,
    /// A query that reads more bytes than this is distributed over all hubs.
    pub(crate) spread_bytes: u64,
    members: RwLock<PeerMembers>,
    /// Channels for subplans, by address.
    channels: Mutex<HashMap<String, QueryChannel>>,
    /// Subplans received from other hubs.
    pieces: AtomicU64,
}

/// Members at one time.
#[derive(Default)]
struct PeerMembers {
    peers: Vec<Peer>,
    /// Unreachable hubs, with the time of the last attempt.
    gone: HashMap<String, Instant>,
}

impl PeerSet {
    /// An empty set; this hub is at `address`.
    pub fn new(address: String, peers: Arc<dyn Peers>, spread_bytes: u64) -> Self {
        Self {
            address,
            peers,
            spread_bytes,
            members: RwLock::default(),
            channels: Mutex::default(),
            pieces: AtomicU64::new(0),
        }
    }

    /// All current members.
    pub fn all(&self) -> Vec<Peer> {
        self.members.read().peers.clone()
    }

    /// Replaces the members; connections to removed hubs are closed.
    pub fn replace(&self, peers: Vec<Peer>) {
        let mut channels = self.channels.lock();
        channels.retain(|address, _| peers.iter().any(|peer| peer.address == *address));
        drop(channels);
        let mut members = self.members.write();
        members.gone.retain(|name, _| peers.iter().any(|peer| peer.name == *name));
        members.peers = peers;
    }

    /// Members that were not found unreachable within the last second.
    pub(crate) fn reachable(&self) -> Vec<Peer> {
        let members = self.members.read();
        let is_gone =
            |peer: &&Peer| members.gone.get(&peer.name).is_some_and(|at| at.elapsed() < GONE);
        members.peers.iter().filter(|peer| !is_gone(peer)).cloned().collect()
    }

    /// Channel to a hub for subplans.
    pub(crate) fn channel(&self, peer: &Peer) -> QueryChannel {
        let mut channels = self.channels.lock();
        let make = || self.peers.channel(peer);
        channels.entry(peer.address.clone()).or_insert_with(make).clone()
    }

    /// Records whether a hub was reached, or the error; logs a change.
    pub(crate) fn note_reached(&self, peer: &Peer, gone: Option<&str>) {
        let is_known = |members: &PeerMembers| members.gone.contains_key(&peer.name);
        if gone.is_none() && !is_known(&self.members.read()) {
            return;
        }
        let mut members = self.members.write();
        match gone {
            Some(why) => {
                if members.gone.insert(peer.name.clone(), Instant::now()).is_none() {
                    tracing::warn!(
                        "answers are without the newest rows of the hub `{}`: {why}",
                        peer.name
                    );
                }
            }
            None => {
                members.gone.remove(&peer.name);
                tracing::info!("the hub `{}` can be reached again", peer.name);
            }
        }
    }

    /// Name of an unreachable hub, if there is one.
    pub fn unreachable(&self) -> Option<String> {
        let members = self.members.read();
        let peer = members.peers.iter().find(|peer| members.gone.contains_key(&peer.name))?;
        Some(peer.name.clone())
    }

    /// Counts a subplan of another hub's query.
    pub(crate) fn count_piece(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of subplans received from other hubs.
    pub fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed)
    }
}
