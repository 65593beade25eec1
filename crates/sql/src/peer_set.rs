//! The other hubs of a cluster as queries of this hub reach them: who is there, who could not be reached a moment ago.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::distributed::QueryChannel;
use crate::peers::{Peer, Peers};

/// A hub that could not be reached is asked again after this.
const GONE: Duration = Duration::from_secs(1);

/// The other hubs.
pub struct PeerSet {
    /// Where other hubs reach this one: a URL.
    pub(crate) address: String,
    /// How this hub reaches the others.
    pub(crate) peers: Arc<dyn Peers>,
    /// A query that reads more bytes than this is dealt out to all hubs.
    pub(crate) spread_bytes: u64,
    members: RwLock<PeerMembers>,
    /// Ways to others for pieces of queries, by address.
    channels: Mutex<HashMap<String, QueryChannel>>,
    /// Pieces of others' queries that this hub was asked for.
    pieces: AtomicU64,
}

/// The others, as of some moment.
#[derive(Default)]
struct PeerMembers {
    peers: Vec<Peer>,
    /// Hubs that could not be reached, and when that was last tried.
    gone: HashMap<String, Instant>,
}

impl PeerSet {
    /// Nobody yet; this hub is at `address`.
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

    /// The hubs that are there.
    pub fn all(&self) -> Vec<Peer> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).peers.clone()
    }

    /// From now on these are there; connections to others are closed.
    pub fn replace(&self, peers: Vec<Peer>) {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.retain(|address, _| peers.iter().any(|peer| peer.address == *address));
        drop(channels);
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        members.gone.retain(|name, _| peers.iter().any(|peer| peer.name == *name));
        members.peers = peers;
    }

    /// Those that it makes sense to ask: not the ones that could not be reached a moment ago.
    pub(crate) fn reachable(&self) -> Vec<Peer> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let is_gone =
            |peer: &&Peer| members.gone.get(&peer.name).is_some_and(|at| at.elapsed() < GONE);
        members.peers.iter().filter(|peer| !is_gone(peer)).cloned().collect()
    }

    /// The way to a hub for pieces of queries.
    pub(crate) fn channel(&self, peer: &Peer) -> QueryChannel {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || self.peers.channel(peer);
        channels.entry(peer.address.clone()).or_insert_with(make).clone()
    }

    /// Whether a hub could be reached, and if not, why; said when it changes.
    pub(crate) fn note_reached(&self, peer: &Peer, gone: Option<&str>) {
        let is_known = |members: &PeerMembers| members.gone.contains_key(&peer.name);
        if gone.is_none() && !is_known(&self.members.read().unwrap_or_else(PoisonError::into_inner))
        {
            return;
        }
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
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

    /// The name of a hub that could not be reached, if there is one.
    pub fn unreachable(&self) -> Option<String> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let peer = members.peers.iter().find(|peer| members.gone.contains_key(&peer.name))?;
        Some(peer.name.clone())
    }

    /// Counts a piece of another hub's query.
    pub(crate) fn count_piece(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
    }

    /// How many pieces of others' queries this hub was asked for.
    pub fn pieces(&self) -> u64 {
        self.pieces.load(Ordering::Relaxed)
    }
}
