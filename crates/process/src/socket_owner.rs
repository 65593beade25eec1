//! The user of the socket at the other end of a connection within this host: the user id in
//! `/proc/net/tcp` and `tcp6` (man 5 proc).
//!
//! An address of loopback proves that a peer is on this host, not that it may change something:
//! every account and every container with the host's network can connect. The kernel knows the
//! account.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The user id that owns the peer's end of a connection, below the root `root`; `None` when the
/// socket is in another network namespace, or closed.
pub fn peer_user(root: &Path, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    // A client of IPv4 may have a socket of IPv6, with mapped addresses.
    let pairs = [(peer, local), (mapped(peer), mapped(local))];
    let texts = pairs.map(|(peer, local)| format!("{} {}", kernel_text(peer), kernel_text(local)));
    ["tcp", "tcp6"].into_iter().find_map(|name| {
        let table = std::fs::read_to_string(root.join("proc/net").join(name)).ok()?;
        table.lines().skip(1).find_map(|line| user_of(line, &texts))
    })
}

/// The user id of a line if it has one of these pairs of addresses.
fn user_of(line: &str, pairs: &[String; 2]) -> Option<u32> {
    let (_number, rest) = line.split_once(": ")?;
    let is_pair = pairs.iter().any(|pair| rest.starts_with(pair.as_str()));
    // local, remote, state, queues, timer, retransmits, user
    if is_pair { rest.split_ascii_whitespace().nth(6)?.parse().ok() } else { None }
}

fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(ip) => SocketAddr::new(IpAddr::V6(ip).to_canonical(), address.port()),
    }
}

/// An address as the kernel prints it: words of 32 bits in this machine's byte order.
fn kernel_text(address: SocketAddr) -> String {
    let bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = bytes.chunks_exact(4).map(|word| {
        format!("{:08X}", u32::from_ne_bytes(word.try_into().expect("a chunk has 4 bytes")))
    });
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn own_connections_have_the_own_user() {
        let own = std::fs::metadata("/proc/self").expect("a process").uid();
        for listen in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else {
                println!("skipped: {listen} cannot be bound (IPv6 is off)");
                continue;
            };
            let port = listener.local_addr().expect("it is bound").port();
            let ip = if listen.starts_with("[::1]") { "::1" } else { "127.0.0.1" };
            let client = TcpStream::connect((ip, port)).expect("it listens");
            let (server, peer) = listener.accept().expect("a connection");
            let local = server.local_addr().expect("it is open");
            assert_eq!(peer_user(Path::new("/"), peer, local), Some(own), "{listen}");
            let other = SocketAddr::new(peer.ip(), peer.port() ^ 1);
            assert_eq!(peer_user(Path::new("/"), other, local), None, "{listen}");
            drop(client);
        }
    }

    #[test]
    fn other_users_are_read_from_the_table() {
        let root = std::env::temp_dir().join(format!("weir-owner-{}", std::process::id()));
        std::fs::create_dir_all(root.join("proc/net")).expect("a directory");
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   0: 0100007F:12A2 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 1\n   1: 0100007F:D431 0100007F:12A2 01 00000000:00000000 00:00000000 00000000 65534        0 2\n";
        std::fs::write(root.join("proc/net/tcp"), table).expect("a file");
        let [peer, local] =
            ["127.0.0.1:54321", "127.0.0.1:4770"].map(|text| text.parse().expect("an address"));
        assert_eq!(peer_user(&root, peer, local), Some(65534));
        std::fs::remove_dir_all(&root).expect("it is ours");
    }
}
