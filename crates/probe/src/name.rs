//! Addresses of the names that this host serves, as resolvers see them, queried once a minute.
//!
//! RFC 1035 over UDP. All queries of a round go out on one socket and share one timeout. An address
//! is local when a socket can be bound to it.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use weir_tables::{Micros, NameProbe, NameProbeRows, Program};

use super::resolver::{self, HEADER_BYTES};
use weir_collect::logs::FoundDirective;

const NAME_LIMIT: usize = 64;
const WAIT: Duration = Duration::from_secs(2);
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const CLASS_IN: u16 = 1;

/// Names that nginx serves here, without duplicates: full names with a dot, no patterns.
pub(super) fn names(directives: &[FoundDirective]) -> Vec<String> {
    let words = directives
        .iter()
        .filter(|line| line.program == Program::Nginx && line.directive == "server_name")
        .flat_map(|line| line.arguments.split(' '));
    let names: BTreeSet<String> =
        words.filter(|name| is_public_name(name)).map(str::to_ascii_lowercase).collect();
    names.into_iter().take(NAME_LIMIT).collect()
}

/// Whether this is a full name with a dot and no address.
fn is_public_name(name: &str) -> bool {
    name.contains('.')
        && name.len() < 254
        && name.parse::<IpAddr>().is_err()
        && name.split('.').all(is_label)
}

pub(crate) fn is_label(label: &str) -> bool {
    let mut bytes = label.bytes();
    (1..64).contains(&label.len())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Queries all names; no rows without a name server.
pub(super) fn probe(root: &Path, host: &str, now: Micros, names: &[String]) -> NameProbeRows {
    let mut rows = NameProbeRows::default();
    let Some(server) = resolver::first_server(root).filter(|_| !names.is_empty()) else {
        return rows;
    };
    let answers = ask(SocketAddr::new(server, 53), now.0, names, WAIT).unwrap_or_default();
    for (at, name) in names.iter().enumerate() {
        let of_name = answers.get(2 * at..2 * at + 2).unwrap_or_default();
        let found: Vec<&DnsAnswer> = of_name.iter().flatten().collect();
        let addresses: BTreeSet<IpAddr> =
            found.iter().flat_map(|answer| answer.addresses.iter().copied()).collect();
        let shown: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        // One of two replies could lack the local address.
        let is_whole = found.len() == 2;
        rows.push(&NameProbe {
            ts: now,
            host,
            name,
            server_address: &server.to_string(),
            addresses: &shown.join(", "),
            is_here: is_whole.then(|| addresses.iter().any(|&address| is_own(address))),
            ttl_seconds: found.iter().filter_map(|answer| answer.ttl_seconds).min(),
            response_code: found.first().map(|answer| resolver::code_name(answer.code)),
        });
    }
    rows
}

fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DnsAnswer {
    pub(super) code: u8,
    pub(super) addresses: Vec<IpAddr>,
    ttl_seconds: Option<i64>,
}

/// An answer, and the time until it came.
#[derive(Clone, Debug)]
pub(super) struct TimedAnswer {
    pub(super) answer: DnsAnswer,
    pub(super) duration: Duration,
}

fn ask(
    server: SocketAddr,
    seed: i64,
    names: &[String],
    wait: Duration,
) -> io::Result<Vec<Option<DnsAnswer>>> {
    let answers = ask_timed(server, seed, names, wait)?;
    Ok(answers.into_iter().map(|timed| timed.map(|timed| timed.answer)).collect())
}

/// Queries A then AAAA for each name; `None` where no reply came.
pub(super) fn ask_timed(
    server: SocketAddr,
    seed: i64,
    names: &[String],
    wait: Duration,
) -> io::Result<Vec<Option<TimedAnswer>>> {
    let own: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((own, 0))?;
    socket.connect(server)?;
    let base = u16::try_from(seed.rem_euclid(1 << 16)).unwrap_or_default();
    let questions = names.iter().flat_map(|name| [(name, TYPE_A), (name, TYPE_AAAA)]);
    let mut answers = Vec::new();
    let started = Instant::now();
    for ((name, kind), number) in questions.zip(0_u16..) {
        socket.send(&question(base.wrapping_add(number), name, kind))?;
        answers.push(None);
    }
    let mut bytes = [0_u8; 4096];
    while answers.iter().any(Option::is_none) && started.elapsed() < wait {
        let left = wait.saturating_sub(started.elapsed()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left))?;
        // On a timeout or refusal, keep what came so far.
        let Ok(length) = socket.recv(&mut bytes) else { break };
        let Some((id, answer)) = parse(&bytes[..length]) else { continue };
        if let Some(slot) = answers.get_mut(usize::from(id.wrapping_sub(base))) {
            *slot = Some(TimedAnswer { answer, duration: started.elapsed() });
        }
    }
    Ok(answers)
}

/// Encodes a query: recursion desired, one question.
fn question(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..2].copy_from_slice(&id.to_be_bytes());
    bytes[2] = 1;
    bytes[5] = 1;
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or_default());
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&CLASS_IN.to_be_bytes());
    bytes
}

/// Parses a reply into its id and contents; `None` when it is no complete reply.
fn parse(bytes: &[u8]) -> Option<(u16, DnsAnswer)> {
    if bytes.get(2)? & 0x80 == 0 {
        return None;
    }
    let mut answer = DnsAnswer { code: bytes.get(3)? & 0x0f, ..DnsAnswer::default() };
    let mut at = HEADER_BYTES;
    for _ in 0..u16_at(bytes, 4)? {
        at = after_name(bytes, at)? + 4;
    }
    for _ in 0..u16_at(bytes, 6)? {
        at = after_name(bytes, at)?;
        let (kind, length) = (u16_at(bytes, at)?, usize::from(u16_at(bytes, at + 8)?));
        let ttl = i64::from(u16_at(bytes, at + 4)?) << 16 | i64::from(u16_at(bytes, at + 6)?);
        let data = bytes.get(at + 10..at + 10 + length)?;
        let address = match kind {
            TYPE_A => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
            TYPE_AAAA => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
            _ => None,
        };
        answer.addresses.extend(address);
        // The TTL of an alias in between applies too.
        answer.ttl_seconds = Some(answer.ttl_seconds.map_or(ttl, |known| known.min(ttl)));
        at += 10 + length;
    }
    Some((u16_at(bytes, 0)?, answer))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Offset behind a name, which ends at its zero byte or its first pointer.
fn after_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_full_and_have_a_dot() {
        assert!(is_public_name("www.example.org"));
        for other in ["_", "localhost", "*.example.org", "~^www", "10.0.0.1", "a..b", "", "$host"] {
            assert!(!is_public_name(other), "{other}");
        }
    }

    #[test]
    fn addresses_and_the_shortest_time_to_live_are_read() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = server.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let mut bytes = [0; 512];
            for _ in 0..2 {
                let (length, from) = server.recv_from(&mut bytes).unwrap();
                let mut answer = bytes[..length].to_vec();
                answer[2] |= 0x80;
                if bytes[length - 3] == 1 {
                    answer[7] = 2;
                    // An alias to a name that is a pointer, then its address.
                    answer.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 30, 0, 2, 0xc0, 12]);
                    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 127, 0, 0, 1]);
                } else {
                    answer[3] = 3;
                }
                server.send_to(&answer, from).unwrap();
            }
        });
        let found = ask(at, 65_535, &["www.example.org".to_owned()], Duration::from_secs(5));
        answering.join().unwrap();
        let home = DnsAnswer {
            code: 0,
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            ttl_seconds: Some(30),
        };
        let none = DnsAnswer { code: 3, ..DnsAnswer::default() };
        assert_eq!(found.unwrap(), [Some(home), Some(none)]);
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own(Ipv4Addr::new(192, 0, 2, 77).into()));
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let _ = parse(&bytes);
            Ok(())
        });
    }
}
