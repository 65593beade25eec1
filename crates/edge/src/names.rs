//! Addresses of backends that are written as names: all of them, looked up again and again.
//!
//! A name that does not resolve takes its own backend out and nothing else. An address that was
//! there stays until a lookup succeeds: a name server that is down moves no traffic.
//!
//! ```text
//!   app:8080 ─► 10.0.0.5, 10.0.0.6, fd00::5 ─► two backends; fd00::5 is their other way in
//! ```
//! Addresses of one family are servers, each a backend. Those of the other family usually lead to
//! the same servers (`localhost` is both 127.0.0.1 and ::1), so they are tried only when connecting
//! fails (RFC 8305).

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::settings::destination::BackendSettings;
use crate::time::MonoTime;

/// How long a start or a change waits for names; those that take longer follow later.
pub(crate) const START_WAIT: Duration = Duration::from_secs(3);
/// Most addresses of one name.
const ADDRESSES_MAX: usize = 64;

/// What the names of backends resolved to at the last successful lookup.
#[derive(Debug, Default)]
pub(crate) struct ResolvedNames {
    known: Mutex<FxHashMap<String, Vec<SocketAddr>>>,
    /// Names whose lookup has not ended: a slow name server gets one query at a time, and an old
    /// answer replaces no newer one.
    pending: Mutex<FxHashSet<String>>,
}

impl ResolvedNames {
    /// Looks up the names among `backends`, all at once, for at most [`START_WAIT`].
    pub(crate) fn look_up(self: &Arc<Self>, backends: &[BackendSettings]) {
        let (done, finished) = channel();
        for name in names(backends) {
            if !self.pending.lock().insert(name.clone()) {
                continue;
            }
            let (this, done, own) = (Arc::clone(self), done.clone(), name.clone());
            let thread = std::thread::Builder::new().name("weir-edge-names".into());
            let thread = thread.spawn(move || {
                this.look_up_one(&own);
                this.pending.lock().remove(&own);
                let _ = done.send(());
            });
            if let Err(error) = thread {
                self.pending.lock().remove(&name);
                tracing::warn!("cannot look up the backend `{name}`: no thread: {error}");
            }
        }
        drop(done);
        let started = MonoTime::now();
        loop {
            let waited = Duration::from(MonoTime::now().since(started));
            // Fails also when all threads have dropped their sender.
            if finished.recv_timeout(START_WAIT.saturating_sub(waited)).is_err() {
                break;
            }
        }
    }

    fn look_up_one(&self, name: &str) {
        let found = match name.to_socket_addrs() {
            Ok(found) => found.filter_map(usable).take(ADDRESSES_MAX).collect(),
            Err(error) => return self.warn(name, &error.to_string()),
        };
        self.set(name, found);
    }

    fn warn(&self, name: &str, why: &str) {
        let is_known = self.known.lock().contains_key(name);
        let effect = if is_known { "it keeps its addresses" } else { "it gets no requests" };
        tracing::warn!("cannot resolve the backend `{name}`: {why}; {effect}");
    }

    fn set(&self, name: &str, mut found: Vec<SocketAddr>) {
        if found.is_empty() {
            return self.warn(name, "the name has no address of a host");
        }
        // Name servers rotate the addresses; their order must not look like a change. The family
        // that the host prefers stays first.
        let is_four = found[0].is_ipv4();
        found.sort_unstable_by_key(|address| (address.is_ipv4() != is_four, *address));
        found.dedup();
        self.known.lock().insert(name.to_owned(), found);
    }

    /// The backends with their addresses: one for each address of the preferred family, or one
    /// without any.
    pub(crate) fn expand(&self, backends: &[BackendSettings]) -> Vec<BackendSettings> {
        let known = self.known.lock();
        let mut all: Vec<BackendSettings> = Vec::new();
        for backend in backends {
            let found = known.get(&backend.name).filter(|_| backend.address.is_none());
            let Some(found) = found else {
                all.push(backend.clone());
                continue;
            };
            let (own, others): (Vec<SocketAddr>, Vec<SocketAddr>) =
                found.iter().partition(|address| address.is_ipv4() == found[0].is_ipv4());
            for address in own {
                // Two names of one server are one backend of a pool; in two pools, they may be two
                // sites of a server that many share.
                let is_same = |one: &BackendSettings| {
                    one.address == Some(address) && one.pool == backend.pool
                };
                if !all.iter().any(is_same) {
                    let (address, alternates) = (Some(address), others.clone());
                    all.push(BackendSettings { address, alternates, ..backend.clone() });
                }
            }
        }
        all
    }
}

/// The address, unless no server can have it: filtering name servers return 0.0.0.0, which is this
/// host.
fn usable(mut address: SocketAddr) -> Option<SocketAddr> {
    let ip = address.ip().to_canonical();
    let is_broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    if ip.is_ipv4() {
        address.set_ip(ip);
    }
    (!ip.is_unspecified() && !ip.is_multicast() && !is_broadcast).then_some(address)
}

fn names(backends: &[BackendSettings]) -> impl Iterator<Item = String> {
    backends.iter().filter(|one| one.address.is_none()).map(|one| one.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(names: &ResolvedNames, backends: &[&str]) -> Vec<String> {
        let backends: Vec<BackendSettings> =
            backends.iter().map(|text| BackendSettings::parse(text).unwrap()).collect();
        let all = names.expand(&backends).into_iter();
        all.map(|one| format!("{} {:?} {:?}", one.name, one.address, one.alternates)).collect()
    }

    fn at(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_name_is_a_backend_for_each_address_of_its_first_family() {
        let names = ResolvedNames::default();
        let backends = ["app:80", "10.0.0.9:80"];
        let without = ["app:80 None []", "10.0.0.9:80 Some(10.0.0.9:80) []"];
        assert_eq!(expanded(&names, &backends), without);
        names.set("app:80", at(&["10.0.0.6:80", "[fd00::5]:80", "10.0.0.5:80", "10.0.0.5:80"]));
        let with = [
            "app:80 Some(10.0.0.5:80) [[fd00::5]:80]",
            "app:80 Some(10.0.0.6:80) [[fd00::5]:80]",
            "10.0.0.9:80 Some(10.0.0.9:80) []",
        ];
        assert_eq!(expanded(&names, &backends), with);
        // Rotated addresses are no change, and neither is a failed lookup.
        names.set("app:80", at(&["10.0.0.5:80", "[fd00::5]:80", "10.0.0.6:80"]));
        names.set("app:80", vec![]);
        assert_eq!(expanded(&names, &backends), with);
    }

    #[test]
    fn two_names_of_one_server_are_one_backend() {
        let names = ResolvedNames::default();
        names.set("a:80", at(&["10.0.0.5:80"]));
        names.set("b:80", at(&["10.0.0.5:80", "10.0.0.6:80"]));
        let expected = ["a:80 Some(10.0.0.5:80) []", "b:80 Some(10.0.0.6:80) []"];
        assert_eq!(expanded(&names, &["a:80", "b:80"]), expected);
        // A second site on a shared server, with its own route.
        let expected = ["a:80 Some(10.0.0.5:80) []", "b:80 Some(10.0.0.5:80) []"];
        assert_eq!(expanded(&names, &["a:80", "shop=b:80"])[..2], expected);
    }

    /// AdguardTeam/AdGuardDNS#60, TechnitiumSoftware/DnsServer#181: filtered names.
    #[test]
    fn addresses_that_no_server_has_are_left_out() {
        let addresses = at(&[
            "0.0.0.0:80",
            "[::]:80",
            "255.255.255.255:80",
            "224.0.0.251:80",
            "[ff02::fb]:80",
            "[::ffff:0.0.0.0]:80",
        ]);
        assert!(addresses.into_iter().filter_map(usable).next().is_none());
        let addresses = at(&["[::ffff:10.0.0.5]:80", "[fd00::5]:80"]);
        let expected = at(&["10.0.0.5:80", "[fd00::5]:80"]);
        assert_eq!(addresses.into_iter().filter_map(usable).collect::<Vec<_>>(), expected);
    }

    /// A lookup that hangs is not begun again, and the others are not held up by it.
    #[test]
    fn a_lookup_that_has_not_ended_is_not_begun_again() {
        let names = Arc::<ResolvedNames>::default();
        names.pending.lock().insert("slow.invalid:80".into());
        let backends =
            ["slow.invalid:80", "localhost:80"].map(|text| BackendSettings::parse(text).unwrap());
        names.look_up(&backends);
        assert!(names.known.lock().contains_key("localhost:80"));
        assert_eq!(names.pending.lock().len(), 1, "only the slow one");
    }

    #[test]
    fn names_are_looked_up_at_once_and_a_missing_one_stays_without_address() {
        let names = Arc::<ResolvedNames>::default();
        let backends =
            ["localhost:80", "name.invalid:80"].map(|text| BackendSettings::parse(text).unwrap());
        names.look_up(&backends);
        let all = names.expand(&backends);
        assert!(all[0].address.is_some_and(|address| address.ip().is_loopback()), "{all:?}");
        assert_eq!(all.last().expect("the missing one").address, None);
    }
}
