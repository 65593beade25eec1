//! State that all threads of an edge share.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use weir_tables::Clock;

use crate::acme::challenge::ChallengeStore;
use crate::client::listener::Listener;
use crate::live::{LiveConfig, LiveParts};
use crate::names::ResolvedNames;
use crate::record::Sink;
use crate::settings::Settings;
use crate::tls::session_tickets::TicketKeys;

pub(crate) struct SharedState {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sink: Sink,
    pub(crate) live: Mutex<Arc<LiveConfig>>,
    /// Held while `live` is replaced.
    pub(crate) changing: Mutex<()>,
    /// Addresses of backends that are written as names.
    pub(crate) names: Arc<ResolvedNames>,
    /// Incremented with each change of `live`.
    pub(crate) generation: AtomicU64,
    pub(crate) open: AtomicUsize,
    /// Open connections by client address.
    pub(crate) addresses: Mutex<FxHashMap<IpAddr, usize>>,
    /// The edge accepts no more connections and closes the open ones.
    pub(crate) is_ending: AtomicBool,
    /// Another edge has taken over and nothing waits for the end: let clients finish idling.
    pub(crate) is_gentle: AtomicBool,
    pub(crate) tickets: Arc<TicketKeys>,
    pub(crate) challenges: Arc<ChallengeStore>,
    pub(crate) listeners: Mutex<Vec<Arc<Listener>>>,
}

impl SharedState {
    pub(crate) fn listeners(&self) -> Vec<Arc<Listener>> {
        self.listeners.lock().clone()
    }

    /// What a configuration is built with.
    pub(crate) fn parts(&self) -> LiveParts<'_> {
        LiveParts { names: &self.names, tickets: &self.tickets, challenges: &self.challenges }
    }

    pub(crate) fn live(&self) -> Arc<LiveConfig> {
        Arc::clone(&self.live.lock())
    }

    /// Counts a connection; when the limit is reached, returns its name.
    pub(crate) fn admit(&self, settings: &Settings) -> Result<(), &'static str> {
        if self.open.fetch_add(1, Relaxed) >= settings.limits.connections {
            self.open.fetch_sub(1, Relaxed);
            return Err("connections");
        }
        Ok(())
    }

    /// Counts a connection of the client `address`; when the limit is reached, returns its name.
    pub(crate) fn admit_address(
        &self,
        address: IpAddr,
        settings: &Settings,
    ) -> Result<(), &'static str> {
        let mut addresses = self.addresses.lock();
        let count = addresses.entry(counted_address(address)).or_default();
        if *count >= settings.limits.address_connections {
            return Err("address_connections");
        }
        *count += 1;
        Ok(())
    }

    /// Undoes [`SharedState::admit`], and [`SharedState::admit_address`] if there is an address.
    pub(crate) fn dismiss(&self, address: Option<IpAddr>) {
        self.open.fetch_sub(1, Relaxed);
        let Some(address) = address else { return };
        let mut addresses = self.addresses.lock();
        if let Some(count) = addresses.get_mut(&counted_address(address)) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                addresses.remove(&counted_address(address));
            }
        }
    }
}

/// What a limit per address counts: all of an IPv6 /64, because one client has 2^64 addresses there.
fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        four => four,
    }
}
