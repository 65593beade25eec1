//! One query to each name server of `/etc/resolv.conf`: RFC 1035 over UDP, resolv.conf(5).
//!
//! The query is for the name servers of the root, which every recursive resolver has in its cache:
//! so the reply measures the server and the network path, and costs almost nothing. Its content
//! does not matter, only its latency: a lookup goes to the first server and waits `timeout` seconds
//! before it tries the next.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use weir_tables::{Micros, ResolverProbe, ResolverProbeRows};

/// Reply timeout; a lookup would wait 5 s.
const WAIT: Duration = Duration::from_secs(2);
const SERVER_LIMIT: usize = 3;
const SEARCH_LIMIT: usize = 6;
const FILE_LIMIT_BYTES: usize = 64 << 10;
pub(super) const HEADER_BYTES: usize = 12;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResolverConfig {
    pub(super) servers: Vec<IpAddr>,
    pub(super) timeout_seconds: i64,
    pub(super) attempts: i64,
    /// Domains that are appended to short names.
    pub(super) search: Vec<String>,
    /// Dots from which a name counts as complete.
    pub(super) ndots: usize,
}

/// Queries all servers; no rows without the file.
pub(super) fn probe(root: &Path, host: &str, now: Micros) -> ResolverProbeRows {
    let mut rows = ResolverProbeRows::default();
    let Ok(bytes) = std::fs::read(root.join("etc/resolv.conf")) else { return rows };
    let settings = parse(&bytes[..bytes.len().min(FILE_LIMIT_BYTES)]);
    let server_count = i64::try_from(settings.servers.len()).unwrap_or(i64::MAX);
    let servers = &settings.servers[..settings.servers.len().min(SERVER_LIMIT)];
    let id = u16::try_from(now.0.rem_euclid(1 << 16)).unwrap_or_default();
    let answers: Vec<io::Result<(Duration, u8)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = servers
            .iter()
            .map(|&server| scope.spawn(move || ask(SocketAddr::new(server, 53), id, WAIT)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                let joined = thread.join();
                joined.unwrap_or_else(|_| Err(io::Error::other("the probe thread panicked")))
            })
            .collect()
    });
    for (position, (server, answer)) in (1..).zip(servers.iter().zip(answers)) {
        let error = answer.as_ref().err().map(reason);
        let answer = answer.ok();
        rows.push(&ResolverProbe {
            ts: now,
            host,
            server_address: &server.to_string(),
            position,
            duration_seconds: answer.map(|(duration, _)| duration.as_secs_f64()),
            response_code: answer.map(|(_, code)| code_name(code)),
            error: error.as_deref(),
            timeout_seconds: settings.timeout_seconds,
            attempts: settings.attempts,
            server_count,
        });
    }
    rows
}

/// The server that a lookup queries first.
pub(super) fn first_server(root: &Path) -> Option<IpAddr> {
    config(root)?.servers.first().copied()
}

/// Contents of `/etc/resolv.conf`.
pub(super) fn config(root: &Path) -> Option<ResolverConfig> {
    let bytes = std::fs::read(root.join("etc/resolv.conf")).ok()?;
    Some(parse(&bytes[..bytes.len().min(FILE_LIMIT_BYTES)]))
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer within {} s", WAIT.as_secs())
        }
        io::ErrorKind::ConnectionRefused => "no name server listens on port 53".to_owned(),
        _ => error.to_string().to_lowercase(),
    }
}

fn parse(bytes: &[u8]) -> ResolverConfig {
    let mut settings =
        ResolverConfig { timeout_seconds: 5, attempts: 2, ndots: 1, ..ResolverConfig::default() };
    for line in String::from_utf8_lossy(bytes).lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            // An address may have a zone: `fe80::1%eth0`.
            Some("nameserver") => settings.servers.extend(
                words.next().and_then(|word| word.split('%').next()?.parse::<IpAddr>().ok()),
            ),
            // Of `domain` and `search`, the last one counts.
            Some("search" | "domain") => {
                let domains = words.map(|word| word.trim_end_matches('.').to_ascii_lowercase());
                settings.search = domains.filter(|d| !d.is_empty()).take(SEARCH_LIMIT).collect();
            }
            Some("options") => {
                for word in words {
                    match word.split_once(':') {
                        Some(("timeout", value)) => {
                            settings.timeout_seconds = value.parse().unwrap_or(5).clamp(1, 30);
                        }
                        Some(("attempts", value)) => {
                            settings.attempts = value.parse().unwrap_or(2).clamp(1, 5);
                        }
                        Some(("ndots", value)) => {
                            settings.ndots = value.parse().unwrap_or(1).min(15);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    settings
}

/// Sends a query; returns the time until the reply with this id, and its response code.
fn ask(server: SocketAddr, id: u16, wait: Duration) -> io::Result<(Duration, u8)> {
    let own: IpAddr = match server {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((own, 0))?;
    socket.connect(server)?;
    let started = Instant::now();
    socket.send(&question(id))?;
    let mut answer = [0_u8; 1500];
    loop {
        let left = wait.saturating_sub(started.elapsed()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left))?;
        let length = socket.recv(&mut answer)?;
        if let Some(code) = response_code(&answer[..length], id) {
            return Ok((started.elapsed(), code));
        }
        if started.elapsed() >= wait {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Encodes id, recursion desired, one question: the root name (one zero byte), type NS, class IN.
fn question(id: u16) -> [u8; HEADER_BYTES + 5] {
    let mut bytes = [0; HEADER_BYTES + 5];
    bytes[..2].copy_from_slice(&id.to_be_bytes());
    bytes[2] = 1;
    bytes[5] = 1;
    bytes[HEADER_BYTES + 2] = 2;
    bytes[HEADER_BYTES + 4] = 1;
    bytes
}

/// Response code of the reply to the query with this id; `None` for other messages.
fn response_code(answer: &[u8], id: u16) -> Option<u8> {
    let is_ours = answer.len() >= HEADER_BYTES && answer[..2] == id.to_be_bytes();
    (is_ours && answer[2] & 0x80 != 0).then(|| answer[3] & 0x0f)
}

pub(super) fn code_name(code: u8) -> &'static str {
    match code {
        0 => "NOERROR",
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        _ => "OTHER",
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
        let read = parse(text);
        assert_eq!(read.servers, servers);
        assert_eq!((read.timeout_seconds, read.attempts), (1, 5));
        let usual = ResolverConfig { timeout_seconds: 5, attempts: 2, ndots: 1, ..<_>::default() };
        assert_eq!(parse(b""), usual);
        let search = parse(b"search a.example. B.example\noptions ndots:5\n");
        assert_eq!((search.search.join(" "), search.ndots), ("a.example b.example".into(), 5));
    }

    #[test]
    fn reply_is_timed_and_replies_to_other_queries_are_skipped() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = server.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let mut bytes = [0; 64];
            let (length, from) = server.recv_from(&mut bytes).unwrap();
            assert_eq!(length, 17);
            bytes[2] |= 0x80;
            bytes[3] = 5;
            let mut other = bytes;
            other[0] ^= 1;
            server.send_to(&other[..length], from).unwrap();
            server.send_to(&bytes[..length], from).unwrap();
        });
        let (duration, code) = ask(at, 0x1234, Duration::from_secs(5)).unwrap();
        answering.join().unwrap();
        assert_eq!(code_name(code), "REFUSED");
        assert!(duration < Duration::from_secs(5));
    }

    #[test]
    fn timeout_and_refusal_are_distinguished() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = silent.local_addr().unwrap();
        let error = ask(at, 7, Duration::from_millis(50)).unwrap_err();
        assert_eq!(reason(&error), "no answer within 2 s");
        drop(silent);
        let error = ask(at, 7, Duration::from_millis(500)).unwrap_err();
        assert_eq!(reason(&error), "no name server listens on port 53");
    }
}
