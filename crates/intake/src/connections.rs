//! Limits connections by sender and protocol, so that early senders cannot use all of them.
//!
//! All protocols share `intake.connections`. An address has a quarter of them for one protocol and
//! three quarters in all; a protocol has three quarters.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::counts::{BatchAmount, BatchOrigin, IntakeOutcome};
use crate::intake::Intake;

/// An address may always open this many connections of one protocol, if they are free.
const MIN_SHARE: usize = 16;

/// Open connections.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections(Mutex<OpenCounts>);

#[derive(Debug, Default)]
struct OpenCounts {
    all: usize,
    by_protocol: HashMap<&'static str, usize>,
    by_peer: HashMap<IpAddr, usize>,
    by_origin: HashMap<BatchOrigin, usize>,
}

/// Why a connection is closed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// The address is in no network of `intake.allow`.
    NotAllowed,
    /// The address or the protocol has its share already.
    TooMany,
}

/// The place of one connection, free when dropped.
pub struct ConnectionPlace {
    intake: Arc<Intake>,
    origin: BatchOrigin,
}

impl Intake {
    /// Admits a connection as soon as it is accepted. `has_login`: the protocol itself decides who
    /// may send. `room` has the free connections.
    ///
    /// # Errors
    /// Why it has to be closed; it was counted.
    pub fn admit_connection(
        self: &Arc<Self>,
        protocol: &'static str,
        peer: IpAddr,
        has_login: bool,
        room: &Semaphore,
    ) -> Result<ConnectionPlace, ConnectionRefusal> {
        let peer = peer.to_canonical();
        let origin = BatchOrigin { protocol, peer: Some(peer) };
        let refusal = if !has_login && !self.settings.access.allows(peer) {
            ConnectionRefusal::NotAllowed
        } else if !self.connections.0.lock().open(origin, peer, room.available_permits()) {
            ConnectionRefusal::TooMany
        } else {
            return Ok(ConnectionPlace { intake: Arc::clone(self), origin });
        };
        let amount = BatchAmount { batches: 1, rows: 0, bytes: 0 };
        self.counts.add(origin, IntakeOutcome::Refused, Some(refusal.as_str()), amount);
        Err(refusal)
    }
}

impl ConnectionRefusal {
    /// The reason in `intake_run`.
    fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "not_allowed",
            Self::TooMany => "too_many_connections",
        }
    }
}

impl OpenCounts {
    /// Counts one more, if its shares allow it.
    fn open(&mut self, origin: BatchOrigin, peer: IpAddr, free: usize) -> bool {
        let total = self.all + free;
        let most = (total / 4 * 3).max(MIN_SHARE);
        let of_origin = self.by_origin.entry(origin).or_default();
        let of_peer = self.by_peer.entry(peer).or_default();
        let of_protocol = self.by_protocol.entry(origin.protocol).or_default();
        let fits =
            *of_origin < (total / 4).max(MIN_SHARE) && *of_peer < most && *of_protocol < most;
        if fits {
            *of_origin += 1;
            *of_peer += 1;
            *of_protocol += 1;
            self.all += 1;
        }
        self.forget_unused(origin, peer);
        fits
    }

    fn close(&mut self, origin: BatchOrigin) {
        self.all = self.all.saturating_sub(1);
        less(self.by_origin.get_mut(&origin));
        less(self.by_protocol.get_mut(origin.protocol));
        if let Some(peer) = origin.peer {
            less(self.by_peer.get_mut(&peer));
            self.forget_unused(origin, peer);
        }
    }

    fn forget_unused(&mut self, origin: BatchOrigin, peer: IpAddr) {
        if self.by_origin.get(&origin) == Some(&0) {
            self.by_origin.remove(&origin);
        }
        if self.by_peer.get(&peer) == Some(&0) {
            self.by_peer.remove(&peer);
        }
    }
}

fn less(count: Option<&mut usize>) {
    if let Some(count) = count {
        *count = count.saturating_sub(1);
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.intake.connections.0.lock().close(self.origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_addresses_and_protocols_leave_places_to_others() {
        let mut counts = OpenCounts::default();
        let mut free = 4000;
        let mut open = |protocol, last: u8| {
            let peer = IpAddr::from([192, 0, 2, last]);
            let is_open = counts.open(BatchOrigin { protocol, peer: Some(peer) }, peer, free);
            free -= usize::from(is_open);
            is_open
        };
        for protocol in ["http", "syslog_tcp", "fluent"] {
            assert_eq!((0..1030).filter(|_| open(protocol, 1)).count(), 1000, "a quarter");
        }
        assert!(!open("gelf_tcp", 1), "an address has three quarters in all");
        assert!(open("gelf_tcp", 2));
        let origin = |protocol| BatchOrigin { protocol, peer: Some([192, 0, 2, 1].into()) };
        (0..1000).for_each(|_| counts.close(origin("fluent")));
        assert_eq!((counts.all, counts.by_origin.contains_key(&origin("fluent"))), (2001, false));
    }

    #[test]
    fn a_protocol_leaves_a_quarter_to_others() {
        let mut counts = OpenCounts::default();
        for last in 1..=4 {
            let peer = IpAddr::from([192, 0, 2, last]);
            for _ in 0..1000 {
                let free = 4000 - counts.all;
                counts.open(BatchOrigin { protocol: "http", peer: Some(peer) }, peer, free);
            }
        }
        assert_eq!(counts.all, 3000);
    }
}
