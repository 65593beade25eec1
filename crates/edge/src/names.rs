//! Addresses of backends that are written as names: all of them, looked up again by their TTL.
//!
//! A name that does not resolve takes its own backend out and nothing else. Which addresses stay
//! when an answer lacks them is decided by [`KnownName`].
//!
//! ```text
//!   app:8080 ─► 10.0.0.5, 10.0.0.6, fd00::5 ─► two backends; fd00::5 is their other way in
//! ```
//! Addresses of one family are servers, each a backend. Those of the other family usually lead to
//! the same servers (`localhost` is both 127.0.0.1 and ::1), so they are tried only when connecting
//! fails (RFC 8305).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use weir_resolver::{KnownName, Lookup, Resolver};

use crate::settings::Settings;
use crate::settings::destination::BackendSettings;
use crate::time::{MonoTime, Nanos};

/// How long a start or a change waits for names; those that take longer follow later.
const START_WAIT: Duration = Duration::from_secs(3);
/// Shortest pause between lookups of a name: a TTL of 0 must not flood the name server.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// What the names of backends resolved to.
#[derive(Debug, Default)]
pub(crate) struct ResolvedNames {
    known: Mutex<FxHashMap<String, ResolvedName>>,
    /// Names whose lookup has not ended: a slow name server gets one query at a time, and an old
    /// answer replaces no newer one.
    pending: Mutex<FxHashSet<String>>,
}

/// A name that was looked up at least once.
#[derive(Debug, Default)]
struct ResolvedName {
    known: KnownName,
    /// The same with the port.
    addresses: Vec<SocketAddr>,
    /// When it is looked up again.
    due: MonoTime,
    /// Why the last lookup brought less than all addresses.
    problem: Option<String>,
}

impl ResolvedNames {
    /// Looks up all names of `settings` at once, for at most [`START_WAIT`].
    pub(crate) fn look_up(self: &Arc<Self>, settings: &Settings) {
        self.look_up_each(settings, names(&settings.backends));
    }

    /// Looks up the names that are due, for at most [`START_WAIT`]; returns how long to wait for the
    /// next ones.
    pub(crate) fn look_up_due(self: &Arc<Self>, settings: &Settings) -> Duration {
        let now = MonoTime::now();
        let due: Vec<String> = {
            let known = self.known.lock();
            let all = names(&settings.backends);
            all.filter(|name| known.get(name).is_none_or(|one| one.due <= now)).collect()
        };
        self.look_up_each(settings, due.into_iter());
        let (known, now) = (self.known.lock(), MonoTime::now());
        // A name that is too slow is taken up soon.
        let pauses = names(&settings.backends).map(|name| match known.get(&name) {
            Some(one) => Duration::from(one.due.since(now)),
            None => START_WAIT,
        });
        pauses.min().unwrap_or(settings.resolve).max(PAUSE_MIN).min(settings.resolve)
    }

    fn look_up_each(self: &Arc<Self>, settings: &Settings, names: impl Iterator<Item = String>) {
        let (done, finished) = channel();
        for name in names {
            if !self.pending.lock().insert(name.clone()) {
                continue;
            }
            let (this, done, own) = (Arc::clone(self), done.clone(), name.clone());
            let (resolver, longest) = (settings.resolver.clone(), settings.resolve);
            let thread = std::thread::Builder::new().name("weir-edge-names".into());
            let thread = thread.spawn(move || {
                let host = own.rsplit_once(':').map_or(own.as_str(), |(host, _)| host);
                this.take(&own, resolver.look_up(host), &resolver, longest);
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

    /// Takes the outcome of a lookup of `name`, which is valid for its TTL and at most for `longest`.
    fn take(&self, name: &str, found: Lookup, resolver: &Resolver, longest: Duration) {
        let mut known = self.known.lock();
        let one = known.entry(name.to_owned()).or_default();
        // Without an address or a TTL there is nothing to go by.
        let pause = found.ttl.filter(|_| found.has_addresses()).unwrap_or(longest);
        one.due = MonoTime::now() + Nanos::from(pause.max(PAUSE_MIN).min(longest));
        let problem = one.known.take(found, &resolver.root);
        let port = name.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0);
        one.addresses = one.known.with_port(port).collect();
        one.note_problem(name, problem);
    }

    /// The backends with their addresses: one for each address of the preferred family, or one
    /// without any.
    pub(crate) fn expand(&self, backends: &[BackendSettings]) -> Vec<BackendSettings> {
        let known = self.known.lock();
        let mut all: Vec<BackendSettings> = Vec::new();
        for backend in backends {
            let found = known.get(&backend.name).filter(|_| backend.address.is_none());
            let Some(found) = found.map(|one| &one.addresses).filter(|all| !all.is_empty()) else {
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

impl ResolvedName {
    /// Reports a problem that is new, and its end.
    fn note_problem(&mut self, name: &str, problem: Option<String>) {
        match &problem {
            Some(why) if self.problem != problem => {
                let effect = if self.addresses.is_empty() {
                    "it gets no requests"
                } else {
                    "it keeps its addresses"
                };
                tracing::warn!("cannot resolve the backend `{name}`: {why}; {effect}");
            }
            None if self.problem.is_some() => tracing::info!("the backend `{name}` resolves again"),
            _ => {}
        }
        self.problem = problem;
    }
}

fn names(backends: &[BackendSettings]) -> impl Iterator<Item = String> {
    backends.iter().filter(|one| one.address.is_none()).map(|one| one.name.clone())
}

#[cfg(test)]
mod tests {
    use weir_resolver::FamilyAnswer;

    use super::*;

    fn expanded(names: &ResolvedNames, backends: &[&str]) -> Vec<String> {
        let backends: Vec<BackendSettings> =
            backends.iter().map(|text| BackendSettings::parse(text).unwrap()).collect();
        let all = names.expand(&backends).into_iter();
        all.map(|one| format!("{} {:?} {:?}", one.name, one.address, one.alternates)).collect()
    }

    fn whole(texts: &[&str]) -> FamilyAnswer {
        let addresses = texts.iter().map(|text| text.parse().unwrap()).collect();
        FamilyAnswer { addresses, is_whole: true }
    }

    fn found(four: &[&str], six: &[&str]) -> Lookup {
        let query_name = "a.example".to_owned();
        Lookup { query_name, ipv4: whole(four), ipv6: whole(six), ..Lookup::default() }
    }

    fn set(names: &ResolvedNames, name: &str, found: Lookup) {
        // fd00::/8 may have a route here: the host says that it prefers IPv4.
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        let text = "precedence ::ffff:0:0/96 100";
        std::fs::write(root.path().join("etc/gai.conf"), text).unwrap();
        let resolver = Resolver { root: root.path().to_owned(), port: 1 };
        names.take(name, found, &resolver, Duration::from_secs(10));
    }

    fn settings(backends: &[&str]) -> Settings {
        let backends = backends.iter().map(|text| BackendSettings::parse(text).unwrap());
        Settings { backends: backends.collect(), ..Settings::default() }
    }

    #[test]
    fn a_name_is_a_backend_for_each_address_of_its_first_family() {
        let names = ResolvedNames::default();
        let backends = ["app:80", "10.0.0.9:80"];
        let without = ["app:80 None []", "10.0.0.9:80 Some(10.0.0.9:80) []"];
        assert_eq!(expanded(&names, &backends), without);
        set(&names, "app:80", found(&["10.0.0.6", "10.0.0.5", "10.0.0.5"], &["fd00::5"]));
        let with = [
            "app:80 Some(10.0.0.5:80) [[fd00::5]:80]",
            "app:80 Some(10.0.0.6:80) [[fd00::5]:80]",
            "10.0.0.9:80 Some(10.0.0.9:80) []",
        ];
        assert_eq!(expanded(&names, &backends), with);
        // Rotated addresses are no change, and neither is a failed lookup.
        set(&names, "app:80", found(&["10.0.0.5", "10.0.0.6"], &["fd00::5"]));
        set(&names, "app:80", Lookup::default());
        set(&names, "app:80", found(&[], &[]));
        assert_eq!(expanded(&names, &backends), with);
    }

    /// envoyproxy/envoy#7808, ZoeyVid/NPMplus#3511, nigoroll/libvmod-dynamic#21: neither a TTL of 0 nor
    /// a name that is gone floods a name server, and a failure is not kept for the TTL.
    #[test]
    fn the_ttl_says_when_a_name_is_due_within_bounds() {
        let names = ResolvedNames::default();
        let due = |ttl: Option<u64>, addresses: &[&str]| {
            let now = MonoTime::now();
            let ttl = ttl.map(Duration::from_secs);
            set(&names, "app:80", Lookup { ttl, ..found(addresses, &[]) });
            Duration::from(names.known.lock()["app:80"].due.since(now)).as_secs()
        };
        assert_eq!(due(Some(0), &["10.0.0.5"]), 1);
        assert_eq!(due(Some(5), &["10.0.0.5"]), 5);
        assert_eq!(due(Some(600), &["10.0.0.5"]), 10, "Docker's name server says 600");
        assert_eq!(due(None, &["10.0.0.5"]), 10);
        assert_eq!(due(Some(0), &[]), 10);
    }

    #[test]
    fn two_names_of_one_server_are_one_backend() {
        let names = ResolvedNames::default();
        set(&names, "a:80", found(&["10.0.0.5"], &[]));
        set(&names, "b:80", found(&["10.0.0.5", "10.0.0.6"], &[]));
        let expected = ["a:80 Some(10.0.0.5:80) []", "b:80 Some(10.0.0.6:80) []"];
        assert_eq!(expanded(&names, &["a:80", "b:80"]), expected);
        // A second site on a shared server, with its own route.
        let expected = ["a:80 Some(10.0.0.5:80) []", "b:80 Some(10.0.0.5:80) []"];
        assert_eq!(expanded(&names, &["a:80", "shop=b:80"])[..2], expected);
    }

    /// A lookup that hangs is not begun again, and the others are not held up by it.
    #[test]
    fn a_lookup_that_has_not_ended_is_not_begun_again() {
        let names = Arc::<ResolvedNames>::default();
        names.pending.lock().insert("slow.invalid:80".into());
        names.look_up(&settings(&["slow.invalid:80", "localhost:80"]));
        assert!(names.known.lock().contains_key("localhost:80"));
        assert_eq!(names.pending.lock().len(), 1, "only the slow one");
    }

    #[test]
    fn names_are_looked_up_at_once_and_a_missing_one_stays_without_address() {
        let names = Arc::<ResolvedNames>::default();
        let settings = settings(&["localhost:80", "name.invalid:80"]);
        names.look_up(&settings);
        let all = names.expand(&settings.backends);
        assert!(all[0].address.is_some_and(|address| address.ip().is_loopback()), "{all:?}");
        assert_eq!(all.last().expect("the missing one").address, None);
    }
}
