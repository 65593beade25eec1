//! Addresses of the names that this host serves, as resolvers see them, queried once a minute.
//!
//! RFC 1035 over UDP. All queries of a round go out on one socket and share one timeout. An address
//! is local when a socket can be bound to it.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use weir_collect::logs::FoundDirective;
use weir_resolver::{Answer, RecordType, code_name, encode_question, parse_answer};
use weir_tables::{Micros, NameProbe, NameProbeRows, Program};

use super::resolver;

const NAME_LIMIT: usize = 64;
const WAIT: Duration = Duration::from_secs(2);

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
        let found: Vec<&Answer> = of_name.iter().flatten().collect();
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
            ttl_seconds: found.iter().filter_map(|answer| answer.ttl_seconds).min().map(i64::from),
            response_code: found.first().map(|answer| code_name(answer.code)),
        });
    }
    rows
}

fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// An answer, and the time until it came.
#[derive(Clone, Debug)]
pub(super) struct TimedAnswer {
    pub(super) answer: Answer,
    pub(super) duration: Duration,
}

fn ask(
    server: SocketAddr,
    seed: i64,
    names: &[String],
    wait: Duration,
) -> io::Result<Vec<Option<Answer>>> {
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
    let questions = names.iter().flat_map(|name| [(name, RecordType::A), (name, RecordType::Aaaa)]);
    let mut answers = Vec::new();
    let started = Instant::now();
    for ((name, kind), number) in questions.zip(0_u16..) {
        socket.send(&encode_question(base.wrapping_add(number), name, kind))?;
        answers.push(None);
    }
    let mut bytes = [0_u8; 4096];
    while answers.iter().any(Option::is_none) && started.elapsed() < wait {
        let left = wait.saturating_sub(started.elapsed()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left))?;
        // On a timeout or refusal, keep what came so far.
        let Ok(length) = socket.recv(&mut bytes) else { break };
        let Some(answer) = parse_answer(&bytes[..length]) else { continue };
        if let Some(slot) = answers.get_mut(usize::from(answer.id.wrapping_sub(base))) {
            *slot = Some(TimedAnswer { answer, duration: started.elapsed() });
        }
    }
    Ok(answers)
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
        let home = Answer {
            id: 65_535,
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            ttl_seconds: Some(30),
            ..Answer::default()
        };
        let none = Answer { code: 3, ..Answer::default() };
        assert_eq!(found.unwrap(), [Some(home), Some(none)]);
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own(Ipv4Addr::new(192, 0, 2, 77).into()));
    }
}
