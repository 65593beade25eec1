//! What is known of a name after several lookups.
//!
//! An answer that lacks an address does not always mean that a server has gone. A name server may
//! fail for one family, and some return another part of the addresses each time (Consul, weighted or
//! multivalue records of Route 53, headless services with too many pods):
//!
//! ```text
//!   answer   1      2      3      4      5        three answers of one size had addresses that had
//!            a b    b d    c d    a c    b d      left before (3, 4, 5): the answers are parts, and
//!   use      a b    b d    c d    a c    a b c d  all that was seen lately is in use
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;

use crate::lookup::{FamilyAnswer, Lookup};
use crate::order::prefers_ipv4;

/// Most addresses of one family of a name.
const ADDRESSES_MAX: usize = 64;
/// Answers in which addresses came back that make the answers of a name parts of all addresses.
const RETURNS_MIN: usize = 3;
/// Over how many answers these are counted, and how long an address is remembered at least.
const RETURN_ANSWERS: u64 = 32;
/// An address of a part is in use until it is missing for this many times as many answers as a tour
/// of all addresses takes: a server that answers at random omits one of them for so long once in
/// 3,000 times.
const TOURS: u64 = 8;
/// Most answers in a row that may lack an address in use.
const MISSING_MAX: u64 = 128;

/// The addresses of a name, from the answers to several lookups.
#[derive(Debug, Default)]
pub struct KnownName {
    /// The complete name that the addresses belong to.
    query_name: String,
    ipv4: KnownFamily,
    ipv6: KnownFamily,
    /// Usable addresses of both families; those of the preferred one come first.
    addresses: Vec<IpAddr>,
}

impl KnownName {
    /// Takes the outcome of a lookup on the host with this root directory; returns why addresses are
    /// missing.
    pub fn take(&mut self, found: Lookup, root: &Path) -> Option<String> {
        let is_same = self.query_name == found.query_name || self.addresses.is_empty();
        if !found.has_addresses() || !is_same && found.is_doubtful {
            return found.problem.or_else(|| Some("the name has no address".into()));
        }
        if self.query_name != found.query_name {
            (self.ipv4, self.ipv6) = Default::default();
        }
        self.ipv4.take(found.ipv4);
        self.ipv6.take(found.ipv6);
        self.query_name = found.query_name;
        self.merge(root);
        if self.addresses.is_empty() {
            return Some("the name has no address of a host".into());
        }
        found.problem
    }

    /// Usable addresses of both families, at most 64 of each; those of the preferred one come first.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// The addresses with a port.
    pub fn with_port(&self, port: u16) -> impl Iterator<Item = SocketAddr> {
        self.addresses.iter().map(move |ip| SocketAddr::new(*ip, port))
    }

    fn merge(&mut self, root: &Path) {
        let used: HashSet<IpAddr> = self.addresses.iter().copied().collect();
        let known = self.ipv4.members.iter().chain(&self.ipv6.members);
        let (mut four, mut six): (Vec<IpAddr>, Vec<IpAddr>) =
            known.copied().filter_map(usable).partition(IpAddr::is_ipv4);
        // Name servers rotate the addresses; their order must not look like a change.
        for family in [&mut four, &mut six] {
            family.sort_unstable_by_key(|ip| (!used.contains(ip), *ip));
            family.dedup();
            family.truncate(ADDRESSES_MAX);
            family.sort_unstable();
        }
        let is_six_first =
            !six.is_empty() && (four.is_empty() || has_route(six[0]) && !prefers_ipv4(root));
        self.addresses = if is_six_first { [six, four].concat() } else { [four, six].concat() };
    }
}

/// The addresses of one family.
#[derive(Debug, Default)]
struct KnownFamily {
    /// The addresses in use, as they were received.
    members: Vec<IpAddr>,
    /// The last answer that had an address.
    seen: HashMap<IpAddr, u64>,
    /// Complete answers so far.
    answers: u64,
    /// Addresses in the last one.
    last_count: usize,
    /// The last answers in which an address came back.
    returns: VecDeque<u64>,
}

impl KnownFamily {
    /// Takes an answer, unless a failure may hide more.
    fn take(&mut self, found: FamilyAnswer) {
        if !found.is_whole && !self.members.is_empty() {
            return;
        }
        let addresses: HashSet<IpAddr> = found.addresses.into_iter().collect();
        self.answers += 1;
        let now = self.answers;
        self.note_returns(&addresses);
        addresses.iter().for_each(|ip| {
            self.seen.insert(*ip, now);
        });
        self.last_count = addresses.len();
        let missing_max = if self.has_parts() { self.tour() } else { 0 };
        self.seen.retain(|_, last| now - *last <= missing_max.max(RETURN_ANSWERS));
        let members = self.seen.iter().filter(|(_, last)| now - **last <= missing_max);
        self.members = members.map(|(ip, _)| *ip).collect();
    }

    /// Notes whether an address is back. A server that went away and returned makes the answer longer,
    /// and an answer with all that is known is no part.
    fn note_returns(&mut self, addresses: &HashSet<IpAddr>) {
        let now = self.answers;
        self.returns.retain(|at| now - at < RETURN_ANSWERS);
        let is_back = |ip: &IpAddr| self.seen.get(ip).is_some_and(|last| last + 1 < now);
        if self.seen.keys().all(|ip| addresses.contains(ip)) {
            self.returns.clear();
        } else if addresses.len() == self.last_count && addresses.iter().any(is_back) {
            self.returns.push_back(now);
        }
    }

    /// Whether each answer has a part of the addresses only.
    fn has_parts(&self) -> bool {
        self.returns.len() >= RETURNS_MIN && self.last_count > 0
    }

    /// In how many answers in a row an address may be missing.
    fn tour(&self) -> u64 {
        let answers = self.seen.len().div_ceil(self.last_count.max(1)) as u64;
        (TOURS * answers).min(MISSING_MAX)
    }
}

/// Whether this host could send packets to an address; sends none.
fn has_route(address: IpAddr) -> bool {
    let own = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((own, 0));
    socket.is_ok_and(|socket| socket.connect((address, 9)).is_ok())
}

/// The address, unless no server can have it: filtering name servers return 0.0.0.0, which is this
/// host.
fn usable(address: IpAddr) -> Option<IpAddr> {
    let ip = address.to_canonical();
    let is_broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    (!ip.is_unspecified() && !ip.is_multicast() && !is_broadcast).then_some(ip)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use tempfile::TempDir;

    use super::*;

    fn whole(texts: &[&str]) -> FamilyAnswer {
        let addresses = texts.iter().map(|text| text.parse().unwrap()).collect();
        FamilyAnswer { addresses, is_whole: true }
    }

    fn found(four: &[&str], six: &[&str]) -> Lookup {
        let query_name = "a.example".to_owned();
        Lookup { query_name, ipv4: whole(four), ipv6: whole(six), ..Lookup::default() }
    }

    /// A host that prefers IPv4: fd00::/8 may have a route here.
    static ROOT: LazyLock<TempDir> = LazyLock::new(|| {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        let text = "precedence ::ffff:0:0/96 100";
        std::fs::write(root.path().join("etc/gai.conf"), text).unwrap();
        root
    });

    /// Takes a lookup; returns the addresses.
    fn take(known: &mut KnownName, found: Lookup) -> Vec<String> {
        known.take(found, ROOT.path());
        known.addresses().iter().map(ToString::to_string).collect()
    }

    /// imperviousinc/fingertip#21, iijlab/dnsext#146: a failure for one family is no change of it.
    #[test]
    fn a_family_whose_lookup_fails_keeps_its_addresses() {
        let mut known = KnownName::default();
        take(&mut known, found(&["10.0.0.5"], &["fd00::5"]));
        let mut half = found(&["10.0.0.6"], &[]);
        half.ipv6.is_whole = false;
        assert_eq!(take(&mut known, half), ["10.0.0.6", "fd00::5"]);
        let mut half = found(&[], &["fd00::6"]);
        half.ipv4.is_whole = false;
        assert_eq!(take(&mut known, half), ["10.0.0.6", "fd00::6"]);
        // Without AAAA from now on, and that is certain.
        assert_eq!(take(&mut known, found(&["10.0.0.6"], &[])), ["10.0.0.6"]);
    }

    /// A search domain whose name server fails for a while does not move traffic to the name's
    /// namesake in the next domain.
    #[test]
    fn a_namesake_is_taken_only_where_nothing_else_is_known() {
        let mut known = KnownName::default();
        let namesake = Lookup {
            query_name: "db.b.example".into(),
            is_doubtful: true,
            ..found(&["10.0.0.9"], &[])
        };
        assert_eq!(take(&mut known, namesake.clone()), ["10.0.0.9"]);
        assert_eq!(take(&mut known, found(&["10.0.0.5"], &[])), ["10.0.0.5"]);
        assert_eq!(take(&mut known, namesake), ["10.0.0.5"]);
    }

    /// coredns/coredns#5362: 410 addresses in an order that changes.
    #[test]
    fn of_many_addresses_the_same_ones_are_kept() {
        let mut known = KnownName::default();
        let all: Vec<String> =
            (0..410).map(|at| format!("10.0.{}.{}", at / 250, at % 250)).collect();
        let mut all: Vec<&str> = all.iter().map(String::as_str).collect();
        let before = take(&mut known, found(&all[10..], &[]));
        assert_eq!(before.len(), ADDRESSES_MAX);
        all.reverse();
        assert_eq!(take(&mut known, found(&all, &[])), before);
    }

    /// AdguardTeam/AdGuardDNS#60, TechnitiumSoftware/DnsServer#181: filtered names.
    #[test]
    fn addresses_that_no_server_has_are_left_out() {
        let mut known = KnownName::default();
        let four = ["0.0.0.0", "255.255.255.255", "224.0.0.251"];
        let filtered = found(&four, &["::", "ff02::fb", "::ffff:0.0.0.0"]);
        assert_eq!(take(&mut known, filtered), [""; 0]);
        let mapped = found(&[], &["::ffff:10.0.0.5", "fd00::5"]);
        assert_eq!(take(&mut known, mapped), ["10.0.0.5", "fd00::5"]);
    }

    /// Takes `count` of `pool` at random; returns how many addresses are in use.
    fn take_part(known: &mut KnownName, random: &mut u64, pool: &[String], count: usize) -> usize {
        let mut left: Vec<&str> = pool.iter().map(String::as_str).collect();
        let part: Vec<&str> = (0..count)
            .map(|_| {
                *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = usize::try_from(*random >> 33).unwrap() % left.len();
                left.swap_remove(at)
            })
            .collect();
        take(known, found(&part, &[])).len()
    }

    /// hashicorp/consul#1054, apache/apisix#6694, scylladb/alternator-load-balancing#14.
    #[test]
    fn parts_of_all_addresses_add_up_and_servers_that_are_gone_leave() {
        for (all, count) in [(40, 8), (9, 8), (5, 3), (2, 1), (60, 3)] {
            let (mut known, mut random) = (KnownName::default(), 7);
            let old: Vec<String> = (0..all).map(|at| format!("10.0.0.{at}")).collect();
            for _ in 0..200 {
                take_part(&mut known, &mut random, &old, count);
            }
            let changes =
                (0..200).filter(|_| take_part(&mut known, &mut random, &old, count) != all).count();
            assert!(changes <= 10, "{count} of {all}: {changes} answers of 200 moved members");
            // Half of the servers are replaced.
            let new: Vec<String> = (all / 2..all).map(|at| format!("10.0.1.{at}")).collect();
            let new = [&old[..all / 2], &new].concat();
            for _ in 0..400 {
                take_part(&mut known, &mut random, &new, count);
            }
            let gone = known.addresses().iter().filter(|ip| !new.contains(&ip.to_string()));
            assert_eq!(gone.count(), 0, "{count} of {all}");
        }
    }

    /// A pod that fails its readiness probe at times, a deployment, and a failover with its return.
    #[test]
    fn servers_that_leave_are_out_at_once() {
        let mut known = KnownName::default();
        for turn in 0..20 {
            take(&mut known, found(&["10.0.0.5", "10.0.0.6", "10.0.0.7"], &[]));
            let without = take(&mut known, found(&["10.0.0.5", "10.0.0.6"], &[]));
            assert_eq!(without, ["10.0.0.5", "10.0.0.6"], "turn {turn}");
        }
        let new = take(&mut known, found(&["10.0.0.8", "10.0.0.9"], &[]));
        assert_eq!(new, ["10.0.0.8", "10.0.0.9"]);
        let mut known = KnownName::default();
        for one in ["10.0.0.5", "10.0.0.6", "10.0.0.5"] {
            for _ in 0..5 {
                assert_eq!(take(&mut known, found(&[one], &[])), [one]);
            }
        }
    }
}
