//! What the intake holds about results of checks: which sender may report about which host, and how often each check
//! reports.
//!
//! NSCA has no field for freshness, and a wrong guess is a false alarm. So a result expires only if its sender states a
//! time, the configuration does, or its rhythm is regular:
//!
//! ```text
//!   gaps 300 300 60 60 300 s     longest 300; half of them are near it: next one within 3 × 300 s
//!   gaps 9 4000 70 12 800 s      one is near the longest: no rhythm, never overdue
//! ```

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use parking_lot::Mutex;
use weir_tables::{IpNetwork, Micros, matches_wildcard};

use crate::window::Identity;

/// Longest time until the next result, in seconds: `check.stale` reads results of that age and a day.
pub(crate) const MAX_TTL_SECONDS: i64 = 2 * 86_400;
/// Checks whose rhythm is held at one time; further ones have none.
const MAX_RHYTHMS: usize = 20_000;
/// Gaps of a rhythm, and how many make one.
const MAX_GAPS: usize = 16;
const MIN_GAPS: usize = 4;
/// Results that are nearer to each other are one: a repeat, or several of one run.
const MIN_GAP_SECONDS: i64 = 2;
/// Usual gaps that may pass, the least time, and the longest gap of a rhythm.
const MISSED_GAPS: i64 = 3;
const MIN_WAIT_SECONDS: i64 = 15 * 60;
const MAX_GAP_SECONDS: i64 = 25 * 3_600;

/// Which sender may report about which hosts, and when results expire.
#[derive(Clone, Debug, Default)]
pub struct CheckRules {
    /// Senders and patterns of hosts; without any, every sender may report about every host.
    pub speakers: Vec<(IpNetwork, String)>,
    /// Seconds until a result expires whose sender states no time; `None` goes by its rhythm.
    pub ttl_seconds: Option<i64>,
}

/// Host and name of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckName<'a> {
    /// The host that it is about.
    pub host: &'a str,
    /// Its name.
    pub check: &'a str,
}

/// Rules, and the rhythms of checks.
#[derive(Debug, Default)]
pub(crate) struct CheckBook {
    rules: CheckRules,
    rhythms: Mutex<HashMap<Identity, CheckRhythm>>,
}

/// When a check reported.
#[derive(Debug, Default)]
struct CheckRhythm {
    last: Micros,
    gaps: VecDeque<i64>,
}

impl CheckBook {
    pub(crate) fn new(rules: CheckRules) -> Self {
        Self { rules, rhythms: Mutex::default() }
    }

    /// Whether a sender may report about a host. This machine may report about all.
    pub(crate) fn allows(&self, peer: Option<IpAddr>, host: &str) -> bool {
        let speakers = &self.rules.speakers;
        let Some(peer) = peer.map(|peer| peer.to_canonical()) else { return speakers.is_empty() };
        let mut own = speakers.iter().filter(|(network, _)| network.contains(peer));
        speakers.is_empty()
            || peer.is_loopback()
            || own.any(|(_, pattern)| matches_wildcard(pattern, host))
    }

    /// Notes a result, and returns when it expires if its sender states no time.
    pub(crate) fn expiry(&self, name: CheckName<'_>, at: Micros) -> Option<Micros> {
        let wait = self.observe(name, at);
        let seconds = self.rules.ttl_seconds.or(wait)?;
        Some(Micros(at.0 + seconds.clamp(1, MAX_TTL_SECONDS) * 1_000_000))
    }

    /// Notes a result; the seconds until the next one is overdue, if the check has a rhythm.
    pub(crate) fn observe(&self, name: CheckName<'_>, at: Micros) -> Option<i64> {
        let key = Identity::of(&[name.host.as_bytes(), name.check.as_bytes()]);
        let mut rhythms = self.rhythms.lock();
        if rhythms.len() >= MAX_RHYTHMS && !rhythms.contains_key(&key) {
            return None;
        }
        let rhythm = rhythms.entry(key).or_default();
        rhythm.observe(at);
        rhythm.wait_seconds()
    }
}

impl CheckRhythm {
    fn observe(&mut self, at: Micros) {
        let gap = (at.0 - self.last.0) / 1_000_000;
        if self.last.0 > 0 && gap < MIN_GAP_SECONDS {
            return;
        }
        if self.last.0 > 0 {
            self.gaps.push_back(gap);
            if self.gaps.len() > MAX_GAPS {
                self.gaps.pop_front();
            }
        }
        self.last = at;
    }

    /// Seconds until the next result is overdue; `None` without a rhythm.
    fn wait_seconds(&self) -> Option<i64> {
        let longest = self.gaps.iter().copied().max()?;
        let near = self.gaps.iter().filter(|gap| **gap * 2 >= longest).count();
        let is_regular = self.gaps.len() >= MIN_GAPS && near * 2 >= self.gaps.len();
        let wait = (MISSED_GAPS * longest).max(MIN_WAIT_SECONDS);
        (is_regular && longest <= MAX_GAP_SECONDS).then(|| wait.min(MAX_TTL_SECONDS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: CheckName<'_> = CheckName { host: "db1", check: "backup" };
    const START: i64 = 1_795_176_000;

    fn wait_after(gaps: &[i64]) -> Option<i64> {
        let book = CheckBook::default();
        let mut at = START;
        let mut wait = book.observe(NAME, Micros(at * 1_000_000));
        for gap in gaps {
            at += gap;
            wait = book.observe(NAME, Micros(at * 1_000_000));
        }
        wait
    }

    /// Icinga/icinga-core#802: results every 300 s, a threshold of 20 min, and stale after 60 s.
    /// Icinga/icinga2#7191: results every 5 minutes, and nothing is reported when they end.
    #[test]
    fn a_regular_check_is_overdue_after_three_of_its_usual_gaps() {
        assert_eq!(wait_after(&[300; 4]), Some(900));
        assert_eq!(wait_after(&[300, 301, 299, 330, 302]), Some(990));
        assert_eq!(wait_after(&[10; 6]), Some(900), "at least 15 min");
        assert_eq!(wait_after(&[86_400; 4]), Some(172_800), "a daily job");
        // Retries after a failure are nearer to each other.
        assert_eq!(wait_after(&[300, 300, 300, 60, 60, 300]), Some(900));
    }

    #[test]
    fn an_irregular_check_is_never_overdue() {
        assert_eq!(wait_after(&[]), None);
        assert_eq!(wait_after(&[300, 300, 300]), None, "too few");
        assert_eq!(wait_after(&[9, 4_000, 70, 12, 800]), None, "traps");
        assert_eq!(wait_after(&[7 * 86_400; 5]), None, "a weekly job");
        assert_eq!(wait_after(&[300, 300, 300, 300, 50_000]), None, "after an outage");
        assert_eq!(wait_after(&[0, 0, 0, 1, 0]), None, "several of one run");
        assert_eq!(wait_after(&[300, -500, 0, 0, 0]), None, "the clock was set back");
    }

    #[test]
    fn senders_report_about_the_hosts_that_are_listed_for_them() {
        let network = |text| IpNetwork::parse(text).expect("a network");
        let speakers = vec![
            (network("10.0.0.0/8"), "web*".to_owned()),
            (network("2001:db8::/32"), "db1".to_owned()),
        ];
        let book = CheckBook::new(CheckRules { speakers, ttl_seconds: None });
        for (peer, host, is_allowed) in [
            ("10.1.2.3", "web7", true),
            ("::ffff:10.1.2.3", "web7", true),
            ("10.1.2.3", "db1", false),
            ("192.0.2.1", "web7", false),
            ("2001:db8::9", "db1", true),
            ("127.0.0.1", "any", true),
        ] {
            let peer = Some(peer.parse().expect("an address"));
            assert_eq!(book.allows(peer, host), is_allowed, "{peer:?} {host}");
        }
        assert!(!book.allows(None, "web7"));
        assert!(CheckBook::default().allows(Some([192, 0, 2, 1].into()), "any"));
    }

    #[test]
    fn a_configured_time_takes_precedence_and_is_bounded() {
        let at = Micros(START * 1_000_000);
        for (ttl, expected) in [(600, 600), (0, 1), (i64::MAX, MAX_TTL_SECONDS)] {
            let rules = CheckRules { speakers: Vec::new(), ttl_seconds: Some(ttl) };
            let expires = CheckBook::new(rules).expiry(NAME, at).expect("it expires");
            assert_eq!((expires.0 - at.0) / 1_000_000, expected);
        }
        assert_eq!(CheckBook::default().expiry(NAME, at), None);
    }

    #[test]
    fn rhythms_are_limited() {
        let book = CheckBook::default();
        for number in 0..MAX_RHYTHMS + 5 {
            let check = number.to_string();
            let _ = book.observe(CheckName { host: "a", check: &check }, Micros(1));
        }
        assert_eq!(book.rhythms.lock().len(), MAX_RHYTHMS);
    }
}
