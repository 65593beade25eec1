//! Where connections of this host lead, and the processes that hold them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_tables::Micros;

use super::View;
use super::process::SocketOwner;
use super::run::{DutyCycle, Stopwatch};

/// Pace of searching the descriptors of all processes.
const DUTY_CYCLE: DutyCycle = DutyCycle { cost_ratio: 0.0008, pause_seconds: (5.0, 600.0) };
/// How long a found process is kept; the next connection is another socket.
const OWNER_SECONDS: f64 = 60.0;
/// Destinations whose process is searched at once.
const SEARCH_LIMIT: usize = 50;

/// The server's end of connections, seen from a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Destination {
    pub(super) netns: Arc<str>,
    pub(super) address: IpAddr,
    pub(super) port: u16,
}

/// The process behind a socket of each destination, searched rarely.
#[derive(Debug, Default)]
pub(super) struct DestinationOwners {
    owners: HashMap<Destination, (Micros, SocketOwner)>,
    next_search: Option<Micros>,
}

impl DestinationOwners {
    /// The process that was found for a destination; `None` while unknown.
    pub(super) fn get(&self, to: &Destination) -> Option<&SocketOwner> {
        self.owners.get(to).map(|(_, owner)| owner)
    }

    /// Searches the owners of these sockets (destination and inode) that are not known yet.
    pub(super) fn search<'a>(
        &mut self,
        view: &View,
        wanted: impl Iterator<Item = (&'a Destination, u32)>,
        now: Micros,
    ) {
        self.owners.retain(|_, (at, _)| now.seconds_since(*at).abs() < OWNER_SECONDS);
        let unknown = wanted.filter(|(to, inode)| *inode > 0 && !self.owners.contains_key(to));
        let sockets: Vec<(&Destination, u32)> = unknown.take(SEARCH_LIMIT).collect();
        if sockets.is_empty() || !DUTY_CYCLE.is_due(self.next_search, now) {
            return;
        }
        let stopwatch = Stopwatch::start();
        let mut owners: HashMap<u32, Option<SocketOwner>> =
            sockets.iter().map(|(_, inode)| (*inode, None)).collect();
        // Without the right to read descriptors, the columns stay NULL.
        let _ = view.processes.find_owners(&mut owners);
        for (to, inode) in sockets {
            if let Some(owner) = owners.remove(&inode).flatten() {
                self.owners.insert(to.clone(), (now, owner));
            }
        }
        self.next_search = Some(DUTY_CYCLE.next_run(stopwatch.stop(), now));
    }
}
