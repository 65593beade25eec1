//! Sockets of one network namespace, asked of the kernel by netlink: who listens, and how many are in which state.
//!
//! Source: sock_diag(7), `linux/inet_diag.h`, `net/ipv4/inet_diag.c`. The request is the older `TCPDIAG_GETSOCK`,
//! which dumps IPv4 and IPv6 in one walk over the kernel's hash; `SOCK_DIAG_BY_FAMILY` needs a walk for each.
//! TIME_WAIT and ESTABLISHED are never asked for: the counts of these are in `/proc/net/sockstat` and `snmp`, and
//! copying them is what makes a dump dear. The netlink socket belongs to the namespace in which it was made.
//!
//! ```text
//! nlmsghdr            inet_diag_msg
//! 0  length  u32      16 family u8, state u8, timer u8, retrans u8
//! 4  type    u16      20 source port be16, destination port be16
//! 6  flags   u16      24 source address 16 bytes, 40 destination address 16 bytes
//! 8  seq     u32      56 interface u32, cookie 2 x u32
//! 12 port id u32      68 expires u32, 72 rqueue u32, 76 wqueue u32, 80 uid u32, 84 inode u32
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::net;

use super::netlink::{HEADER_LENGTH, Netlink, u32_at};

const TCPDIAG_GETSOCK: u16 = 18;
const BODY_LENGTH: usize = 60;
const MESSAGE_LENGTH: usize = 88;

const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;
const FIN_WAIT_1: u8 = 4;
const FIN_WAIT_2: u8 = 5;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const LISTEN: u8 = 10;
const CLOSING: u8 = 11;
const NEW_SYN_RECV: u8 = 12;

/// One listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenSocket {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) queue_length: u32,
    pub(crate) queue_limit: u32,
    pub(crate) user_id: u32,
    pub(crate) inode: u32,
}

/// How many sockets are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateCounts {
    pub(crate) syn_sent: i64,
    pub(crate) syn_recv: i64,
    pub(crate) fin_wait: i64,
    pub(crate) close_wait: i64,
    pub(crate) last_ack: i64,
}

/// A netlink socket that stays open.
#[derive(Debug)]
pub(crate) struct SockDiag(Netlink);

impl SockDiag {
    /// A socket in the network namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        Netlink::open(Some(net::netlink::SOCK_DIAG)).map(Self)
    }

    /// All listening TCP sockets into `out`, at most `limit`; returns how many there are.
    pub(crate) fn listeners(
        &mut self,
        limit: usize,
        out: &mut Vec<ListenSocket>,
    ) -> io::Result<usize> {
        let mut count = 0;
        self.dump(1 << LISTEN, |message| {
            count += 1;
            if count <= limit {
                out.extend(listen_socket(message));
            }
        })?;
        Ok(count)
    }

    /// Sockets by state, without ESTABLISHED, TIME_WAIT and LISTEN.
    pub(crate) fn count_states(&mut self) -> io::Result<StateCounts> {
        let wanted = [
            SYN_SENT,
            SYN_RECV,
            FIN_WAIT_1,
            FIN_WAIT_2,
            CLOSE_WAIT,
            LAST_ACK,
            CLOSING,
            NEW_SYN_RECV,
        ];
        let mask = wanted.iter().fold(0, |mask, state| mask | 1_u32 << state);
        let mut counts = StateCounts::default();
        self.dump(mask, |message| match message[HEADER_LENGTH + 1] {
            SYN_SENT => counts.syn_sent += 1,
            SYN_RECV | NEW_SYN_RECV => counts.syn_recv += 1,
            FIN_WAIT_1 | FIN_WAIT_2 => counts.fin_wait += 1,
            CLOSE_WAIT => counts.close_wait += 1,
            LAST_ACK | CLOSING => counts.last_ack += 1,
            _ => {}
        })?;
        Ok(counts)
    }

    fn dump(&mut self, states: u32, take: impl FnMut(&[u8])) -> io::Result<()> {
        let mut body = [0_u8; BODY_LENGTH];
        // inet_diag_req: family, lengths, extensions (4), socket id (48), then the states.
        body[52..56].copy_from_slice(&states.to_ne_bytes());
        self.0.dump(TCPDIAG_GETSOCK, &body, MESSAGE_LENGTH, take)
    }
}

fn listen_socket(message: &[u8]) -> Option<ListenSocket> {
    let address: [u8; 16] = message[24..40].try_into().ok()?;
    let address = match i32::from(message[HEADER_LENGTH]) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::new(address[0], address[1], address[2], address[3])),
        libc::AF_INET6 => IpAddr::V6(Ipv6Addr::from(address)),
        _ => return None,
    };
    Some(ListenSocket {
        address,
        port: u16::from_be_bytes([message[20], message[21]]),
        queue_length: u32_at(message, 72),
        queue_limit: u32_at(message, 76),
        user_id: u32_at(message, 80),
        inode: u32_at(message, 84),
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::super::netlink::walk;
    use super::*;

    #[test]
    fn own_listeners_of_both_families_are_found_with_their_limit() {
        let four = TcpListener::bind("127.0.0.1:0").unwrap();
        let six = TcpListener::bind("[::1]:0").unwrap();
        let mut found = Vec::new();
        SockDiag::open().unwrap().listeners(10_000, &mut found).unwrap();
        for listener in [&four, &six] {
            let at = listener.local_addr().unwrap();
            let socket = found.iter().find(|socket| socket.port == at.port()).unwrap();
            assert_eq!(socket.address, at.ip());
            assert_eq!((socket.queue_length, socket.queue_limit), (0, 128));
        }
    }

    #[test]
    fn close_wait_is_counted() {
        let mut diag = SockDiag::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut end = [0; 1];
        io::Read::read(&mut &server, &mut end).unwrap();
        assert!(diag.count_states().unwrap().close_wait >= 1);
    }

    #[test]
    fn broken_answers_are_no_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let _ = walk(&bytes, 0, MESSAGE_LENGTH, &mut |message| _ = listen_socket(message));
            Ok(())
        });
    }
}
