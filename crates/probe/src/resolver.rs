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

use weir_resolver::{HEADER_BYTES, ResolverConfig, SERVERS_MAX, code_name};
use weir_tables::{Micros, ResolverProbe, ResolverProbeRows};

/// Reply timeout; a lookup would wait 5 s.
const WAIT: Duration = Duration::from_secs(2);

/// Queries all servers; no rows without the file.
pub(super) fn probe(root: &Path, host: &str, now: Micros) -> ResolverProbeRows {
    let mut rows = ResolverProbeRows::default();
    let Some(settings) = ResolverConfig::read(root) else { return rows };
    let server_count = i64::try_from(settings.servers.len()).unwrap_or(i64::MAX);
    let servers = &settings.servers[..settings.servers.len().min(SERVERS_MAX)];
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
    ResolverConfig::read(root)?.servers.first().copied()
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

#[cfg(test)]
mod tests {
    use super::*;

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
