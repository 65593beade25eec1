//! Which name servers a host queries, and for which names: resolv.conf(5).

use std::net::IpAddr;
use std::path::Path;

/// Name servers that the C library queries, at most.
pub const SERVERS_MAX: usize = 3;
const SEARCH_MAX: usize = 6;
const FILE_BYTES_MAX: usize = 64 << 10;
const NAME_BYTES_MAX: usize = 253;

/// Contents of `/etc/resolv.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverConfig {
    /// Name servers, in the order of the file.
    pub servers: Vec<IpAddr>,
    /// How long one answer of a server is waited for.
    pub timeout_seconds: i64,
    /// How often each server is queried.
    pub attempts: i64,
    /// Domains that are appended to short names.
    pub search: Vec<String>,
    /// Dots from which a name counts as complete.
    pub ndots: usize,
}

impl Default for ResolverConfig {
    fn default() -> Self {
        Self { servers: Vec::new(), timeout_seconds: 5, attempts: 2, search: Vec::new(), ndots: 1 }
    }
}

impl ResolverConfig {
    /// Reads the file below `root`; `None` without one.
    pub fn read(root: &Path) -> Option<Self> {
        let bytes = std::fs::read(root.join("etc/resolv.conf")).ok()?;
        Some(Self::parse(&bytes[..bytes.len().min(FILE_BYTES_MAX)]))
    }

    /// Parses the contents of the file. Lines that are not understood are skipped, as the C library does.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut config = Self::default();
        for line in String::from_utf8_lossy(bytes).lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                // An address may have a zone: `fe80::1%eth0`.
                Some("nameserver") => config.servers.extend(
                    words.next().and_then(|word| word.split('%').next()?.parse::<IpAddr>().ok()),
                ),
                // Of `domain` and `search`, the last one counts.
                Some("search" | "domain") => {
                    let domains = words.map(|word| word.trim_end_matches('.').to_ascii_lowercase());
                    config.search = domains.filter(|d| !d.is_empty()).take(SEARCH_MAX).collect();
                }
                Some("options") => words.for_each(|word| config.set_option(word)),
                _ => {}
            }
        }
        config
    }

    fn set_option(&mut self, word: &str) {
        match word.split_once(':') {
            Some(("timeout", value)) => {
                self.timeout_seconds = value.parse().unwrap_or(5).clamp(1, 30);
            }
            Some(("attempts", value)) => self.attempts = value.parse().unwrap_or(2).clamp(1, 5),
            Some(("ndots", value)) => self.ndots = value.parse().unwrap_or(1).min(15),
            _ => {}
        }
    }

    /// Names in the order in which the C library queries them. A name that ends in a dot is complete.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(complete) = name.strip_suffix('.') {
            return vec![complete.to_owned()];
        }
        let dots = name.bytes().filter(|byte| *byte == b'.').count();
        let longer = self.search.iter().map(|domain| format!("{name}.{domain}"));
        let longer: Vec<String> = longer.filter(|name| name.len() <= NAME_BYTES_MAX).collect();
        let plain = vec![name.to_owned()];
        if dots >= self.ndots { [plain, longer].concat() } else { [longer, plain].concat() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_options_are_read() {
        let text =
            b"# a comment\nsearch example.org\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\n\
            options timeout:1 attempts:9 rotate\nnameserver x\n";
        let servers: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(), "fe80::1".parse().unwrap()];
        let read = ResolverConfig::parse(text);
        assert_eq!(read.servers, servers);
        assert_eq!((read.timeout_seconds, read.attempts), (1, 5));
        assert_eq!(ResolverConfig::parse(b""), ResolverConfig::default());
        let search = ResolverConfig::parse(b"search a.example. B.example\noptions ndots:5\n");
        assert_eq!((search.search.join(" "), search.ndots), ("a.example b.example".into(), 5));
    }

    #[test]
    fn names_are_queried_in_the_order_of_the_c_library() {
        let config =
            |ndots| ResolverConfig { search: vec!["a.example".into()], ndots, ..<_>::default() };
        assert_eq!(config(1).candidates("db"), ["db.a.example", "db"]);
        assert_eq!(config(1).candidates("db.b"), ["db.b", "db.b.a.example"]);
        assert_eq!(config(5).candidates("db.b"), ["db.b.a.example", "db.b"]);
        assert_eq!(config(5).candidates("db.b."), ["db.b"]);
    }
}
