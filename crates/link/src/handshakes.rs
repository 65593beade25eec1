//! Places for handshakes: shared by all, with a share for each address.
//!
//! A peer that connects and sends nothing costs a place for as long as the hub is patient, and
//! anybody can connect. An address that has used its share gives up its oldest connection for the
//! newest: an honest handshake takes milliseconds, so it ends before its turn comes. Peers that have
//! sent their first bytes count in a second share, which silent ones do not touch.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Concurrent handshakes; more clients wait in the kernel's accept queue.
const HANDSHAKES: usize = 64;
/// HandshakePlaces of one address in each phase.
const ADDRESS_HANDSHAKES: usize = 8;
/// Timeout of TLS and the first message,
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// and while others wait for a place.
const PATIENCE_SCARCE: Duration = Duration::from_secs(3);
/// How often it is checked whether others wait.
const CHECK: Duration = Duration::from_millis(200);

/// What a peer has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum HandshakePhase {
    Silent,
    Speaking,
}

/// Numbers of an address' handshakes, and what ends each when it is dropped.
type AddressShare = VecDeque<(u64, oneshot::Sender<()>)>;

/// Places for handshakes.
pub(crate) struct HandshakePlaces {
    places: Arc<Semaphore>,
    /// HandshakePlaces of each address, oldest first.
    shares: Mutex<HashMap<(IpAddr, HandshakePhase), AddressShare>>,
}

impl Default for HandshakePlaces {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(HANDSHAKES)), shares: Mutex::default() }
    }
}

impl HandshakePlaces {
    /// Waits for a place.
    pub(crate) async fn place(&self) -> OwnedSemaphorePermit {
        let places = Arc::clone(&self.places);
        places.acquire_owned().await.expect("the semaphore is never closed")
    }

    /// The result of a peer's first step, which waits for its first bytes; `None` when the place is
    /// needed for a newer connection of the same address, or time is up.
    pub(crate) async fn silent<T>(
        &self,
        address: IpAddr,
        since: Instant,
        step: impl Future<Output = T>,
    ) -> Option<T> {
        self.run((share(address), HandshakePhase::Silent), since, step).await
    }

    /// The result of the rest of a handshake; `None` as for [`HandshakePlaces::silent`].
    pub(crate) async fn speaking<T>(
        &self,
        address: IpAddr,
        since: Instant,
        step: impl Future<Output = T>,
    ) -> Option<T> {
        self.run((share(address), HandshakePhase::Speaking), since, step).await
    }

    async fn run<T>(
        &self,
        key: (IpAddr, HandshakePhase),
        since: Instant,
        step: impl Future<Output = T>,
    ) -> Option<T> {
        let (mut is_evicted, id) = self.enter(key);
        let _entry = ShareEntry { handshakes: self, key, id };
        let mut check = tokio::time::interval(CHECK);
        tokio::pin!(step);
        loop {
            tokio::select! {
                done = &mut step => return Some(done),
                _ = &mut is_evicted => return None,
                _ = check.tick() => {
                    let is_scarce = self.places.available_permits() == 0;
                    let patience = if is_scarce { PATIENCE_SCARCE } else { PATIENCE };
                    if since.elapsed() >= patience {
                        return None;
                    }
                }
            }
        }
    }

    /// Enters a handshake into its address' share, in place of the oldest if the share is used up.
    fn enter(&self, key: (IpAddr, HandshakePhase)) -> (oneshot::Receiver<()>, u64) {
        let (sender, is_evicted) = oneshot::channel();
        let mut shares = self.shares.lock();
        let share = shares.entry(key).or_default();
        if share.len() >= ADDRESS_HANDSHAKES {
            share.pop_front(); // dropping the sender ends it
        }
        let id = share.back().map_or(0, |(id, _)| id + 1);
        share.push_back((id, sender));
        (is_evicted, id)
    }
}

/// Leaves the share when a handshake ends.
struct ShareEntry<'a> {
    handshakes: &'a HandshakePlaces,
    key: (IpAddr, HandshakePhase),
    id: u64,
}

impl Drop for ShareEntry<'_> {
    fn drop(&mut self) {
        let mut shares = self.handshakes.shares.lock();
        if let Some(share) = shares.get_mut(&self.key) {
            share.retain(|(id, _)| *id != self.id);
            if share.is_empty() {
                shares.remove(&self.key);
            }
        }
    }
}

/// A host has at least a /64 of IPv6 to itself.
fn share(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) >> 64 << 64).into(),
        v4 => v4,
    }
}
