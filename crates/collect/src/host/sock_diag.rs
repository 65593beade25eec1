//! Sockets of one network namespace: listeners, connections of ports, and counts by state.
//!
//! Source: sock_diag(7), `linux/inet_diag.h`, `net/ipv4/inet_diag.c`. The request is the older
//! `TCPDIAG_GETSOCK`, which dumps IPv4 and IPv6 in one walk over the kernel's hash;
//! `SOCK_DIAG_BY_FAMILY` needs one walk for each. Never dump all sockets in TIME_WAIT or
//! ESTABLISHED: their counts are in `/proc/net/sockstat` and `snmp`, and copying them is what makes
//! a dump expensive. Those of some ports are dumped through a filter that the kernel runs. The
//! netlink socket belongs to the namespace in which it was created.
//!
//! ```text
//! nlmsghdr            inet_diag_msg
//! 0  length  u32      16 family u8, state u8, timer u8, retrans u8
//! 4  type    u16      20 source port be16, destination port be16
//! 6  flags   u16      24 source address 16 bytes, 40 destination address 16 bytes
//! 8  seq     u32      56 interface u32, cookie 2 x u32
//! 12 port id u32      68 expires u32, 72 rqueue u32, 76 wqueue u32, 80 uid u32, 84 inode u32
//! ```
//!
//! Attributes follow; `INET_DIAG_INFO` is the `tcp_info` of `linux/tcp.h`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::net;

use super::netlink::{HEADER_LENGTH, Netlink, attributes, u32_at};

const TCPDIAG_GETSOCK: u16 = 18;
const BODY_LENGTH: usize = 60;
const MESSAGE_LENGTH: usize = 88;

/// Request attribute: the filter.
const REQUEST_BYTECODE: u16 = 1;
/// Reply attribute, and as a bit of a request: `tcp_info`.
const INFO: u16 = 2;
const INFO_BIT: u8 = 1 << (INFO - 1);
/// Offsets in `tcp_info`: retransmits of the oldest segment in flight (a byte), retransmission
/// timeout in microseconds, which doubles with each of them, and segments in flight.
const INFO_BACKOFF: usize = 2;
const INFO_TIMEOUT: usize = 8;
const INFO_UNACKNOWLEDGED: usize = 24;
/// Offset in `tcp_info` of the milliseconds since data was last sent.
const INFO_SENT_AT: usize = 44;
/// Offset in `tcp_info` of the milliseconds since data was last received.
const INFO_RECEIVED_AT: usize = 52;
/// Offset in `tcp_info` of the milliseconds since an acknowledgment was last received.
const INFO_ACKNOWLEDGED_AT: usize = 56;
/// Offsets in `tcp_info`: round-trip time, retransmitted segments, data segments received and sent,
/// DSACKs.
const INFO_RTT: usize = 68;
const INFO_RETRANSMITS: usize = 100;
const INFO_SEGMENTS_RECEIVED: usize = 152;
const INFO_SEGMENTS: usize = 156;
const INFO_SPURIOUS: usize = 216;
const JUMP: u8 = 1;
const PORT_FROM: u8 = 2;
const PORT_TO: u8 = 3;
/// Bytes of the filter for one port: two comparisons with their operands, and a jump to the end.
const PORT_FILTER_LENGTH: u16 = 20;
pub(crate) const PORT_LIMIT: usize = 64;

const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;
const FIN_WAIT_1: u8 = 4;
const FIN_WAIT_2: u8 = 5;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const TIME_WAIT: u8 = 6;
const LISTEN: u8 = 10;
const CLOSING: u8 = 11;
const NEW_SYN_RECV: u8 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenSocket {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) queue_length: u32,
    pub(crate) queue_limit: u32,
    pub(crate) user_id: u32,
    pub(crate) inode: u32,
}

/// Addresses and ports of a connection, in the kernel's layout (`inet_diag_sockid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketId {
    family: u8,
    /// Ports and addresses, local first: bytes 20 to 56 of a message.
    id: [u8; 36],
}

impl SocketId {
    fn of(message: &[u8]) -> Self {
        let mut id = [0; 36];
        id.copy_from_slice(&message[20..56]);
        Self { family: message[HEADER_LENGTH], id }
    }

    pub(crate) fn port(&self) -> u16 {
        u16::from_be_bytes([self.id[0], self.id[1]])
    }

    pub(crate) fn peer_port(&self) -> u16 {
        u16::from_be_bytes([self.id[2], self.id[3]])
    }

    /// Local address; an IPv4-mapped IPv6 address is returned as IPv4.
    pub(crate) fn address(&self) -> IpAddr {
        self.address_at(4)
    }

    pub(crate) fn peer(&self) -> IpAddr {
        self.address_at(20)
    }

    fn address_at(&self, at: usize) -> IpAddr {
        let bytes: [u8; 16] = self.id[at..at + 16].try_into().expect("the slice has sixteen bytes");
        if i32::from(self.family) == libc::AF_INET {
            return Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into();
        }
        IpAddr::V6(bytes.into()).to_canonical()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateCounts {
    pub(crate) syn_sent: i64,
    pub(crate) syn_recv: i64,
    pub(crate) fin_wait: i64,
    pub(crate) close_wait: i64,
    /// Sockets of `close_wait` that the program has not come to yet: not accepted (no inode), or with
    /// unread data before the end, which counts as one byte.
    pub(crate) close_wait_unread: i64,
    pub(crate) last_ack: i64,
}

/// A socket in SYN_SENT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectAttempt {
    pub(crate) peer: IpAddr,
    pub(crate) port: u16,
    /// How often the SYN was sent again: after 1 s, 3 s, 7 s ….
    pub(crate) retransmits: u8,
    pub(crate) inode: u32,
}

/// The kernel's account of a connection since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionInfo {
    /// Identity of the socket while it lives.
    pub(crate) cookie: u64,
    pub(crate) inode: u32,
    /// Whether neither side has closed it.
    pub(crate) is_established: bool,
    /// Received bytes that the program has not read.
    pub(crate) unread: u32,
    /// Segments sent that the peer's kernel has not acknowledged.
    pub(crate) unacknowledged: u32,
    /// Milliseconds since new data was last sent: since its first transmission.
    pub(crate) sent_ago: u32,
    /// Milliseconds since data was last received, or since the connection was opened.
    pub(crate) received_ago: u32,
    /// Milliseconds since an acknowledgment was last received, with or without data.
    pub(crate) acknowledged_ago: u32,
    /// Data segments received.
    pub(crate) segments_received: u32,
    /// Data segments sent, including retransmitted ones.
    pub(crate) segments: u32,
    pub(crate) retransmits: u32,
    /// Retransmits that the peer had already; `None` before Linux 4.19.
    pub(crate) spurious: Option<u32>,
    pub(crate) rtt_micros: u32,
}

#[derive(Debug)]
pub(crate) struct SockDiag(pub(super) Netlink);

impl SockDiag {
    /// Opens a socket in the network namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        Netlink::open(Some(net::netlink::SOCK_DIAG)).map(Self)
    }

    /// Appends at most `limit` listening TCP sockets to `out`; returns their total number.
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

    /// Counts sockets by state and passes each one in SYN_SENT to `take`.
    pub(crate) fn count_states(
        &mut self,
        mut take: impl FnMut(ConnectAttempt),
    ) -> io::Result<StateCounts> {
        let opening = 1_u32 << SYN_SENT | 1 << SYN_RECV | 1 << NEW_SYN_RECV;
        let closing =
            1 << FIN_WAIT_1 | 1 << FIN_WAIT_2 | 1 << CLOSE_WAIT | 1 << LAST_ACK | 1 << CLOSING;
        let mut counts = StateCounts::default();
        self.dump(opening | closing, |message| match message[HEADER_LENGTH + 1] {
            SYN_SENT => {
                counts.syn_sent += 1;
                let id = SocketId::of(message);
                take(ConnectAttempt {
                    peer: id.peer(),
                    port: id.peer_port(),
                    retransmits: message[HEADER_LENGTH + 3],
                    inode: u32_at(message, 84),
                });
            }
            SYN_RECV | NEW_SYN_RECV => counts.syn_recv += 1,
            FIN_WAIT_1 | FIN_WAIT_2 => counts.fin_wait += 1,
            CLOSE_WAIT => {
                counts.close_wait += 1;
                let (unread, inode) = (u32_at(message, 72), u32_at(message, 84));
                counts.close_wait_unread += i64::from(inode == 0 || unread > 1);
            }
            LAST_ACK | CLOSING => counts.last_ack += 1,
            _ => {}
        })?;
        Ok(counts)
    }

    /// Passes open connections of these local ports (at most [`PORT_LIMIT`]) to `take`, with the
    /// milliseconds since the last byte in either direction.
    pub(crate) fn established(
        &mut self,
        ports: &[u16],
        mut take: impl FnMut(SocketId, u32),
    ) -> io::Result<()> {
        let mut body = request(1 << ESTABLISHED).to_vec();
        body[3] = INFO_BIT;
        body.extend(port_filter(ports));
        self.0.dump(TCPDIAG_GETSOCK, &body, MESSAGE_LENGTH, |message| {
            if let Some(idle) = idle_milliseconds(message) {
                take(SocketId::of(message), idle);
            }
        })
    }

    /// Passes every connection that may still send data to `take`.
    pub(crate) fn connections(
        &mut self,
        mut take: impl FnMut(SocketId, ConnectionInfo),
    ) -> io::Result<()> {
        let states = 1 << ESTABLISHED | 1 << FIN_WAIT_1 | 1 << CLOSE_WAIT | 1 << LAST_ACK;
        let mut body = request(states);
        body[3] = INFO_BIT;
        self.0.dump(TCPDIAG_GETSOCK, &body, MESSAGE_LENGTH, |message| {
            if let Some(info) = connection_info(message) {
                take(SocketId::of(message), info);
            }
        })
    }

    /// Milliseconds that a connection stays in TIME_WAIT; `None` when it is in another state.
    pub(crate) fn time_wait(&mut self, ends: &SocketId) -> io::Result<Option<u32>> {
        let mut body = request(u32::MAX);
        body[0] = ends.family;
        body[4..40].copy_from_slice(&ends.id);
        // Any cookie.
        body[44..52].fill(0xff);
        let answer = self.0.ask(TCPDIAG_GETSOCK, &body, MESSAGE_LENGTH)?;
        let waits = answer.filter(|message| message[HEADER_LENGTH + 1] == TIME_WAIT);
        Ok(waits.map(|message| u32_at(&message, 68)))
    }

    fn dump(&mut self, states: u32, take: impl FnMut(&[u8])) -> io::Result<()> {
        self.0.dump(TCPDIAG_GETSOCK, &request(states), MESSAGE_LENGTH, take)
    }
}

/// An `inet_diag_req`: family, lengths, extensions (4), socket id (48), then the states.
fn request(states: u32) -> [u8; BODY_LENGTH] {
    let mut body = [0; BODY_LENGTH];
    body[52..56].copy_from_slice(&states.to_ne_bytes());
    body
}

/// Builds the filter attribute that passes sockets of these local ports.
///
/// Each operation is a code, the bytes to skip when it matches, and the bytes to skip when it does
/// not; the operand of a comparison follows it. A socket passes if the program ends exactly at its
/// end, not beyond.
/// Example for one port: `PORT_FROM p; PORT_TO p; JUMP end`, where a mismatch jumps behind the end.
fn port_filter(ports: &[u16]) -> Vec<u8> {
    let count = u16::try_from(ports.len().min(PORT_LIMIT)).unwrap_or_default();
    let length = count * PORT_FILTER_LENGTH;
    let mut filter = Vec::with_capacity(usize::from(length) + 4);
    for half in [length + 4, REQUEST_BYTECODE] {
        filter.extend(half.to_ne_bytes());
    }
    for (&port, index) in ports.iter().zip(0..count) {
        let to_end = length - index * PORT_FILTER_LENGTH;
        // To the next port, or behind the end.
        let next = if index + 1 == count { to_end + 4 } else { PORT_FILTER_LENGTH };
        let upper = if index + 1 == count { next - 8 } else { PORT_FILTER_LENGTH - 8 };
        for (code, on_match, otherwise) in [
            (PORT_FROM, 8, next),
            (0, 0, port),
            (PORT_TO, 8, upper),
            (0, 0, port),
            (JUMP, 4, to_end - 16),
        ] {
            filter.extend([code, on_match]);
            filter.extend(otherwise.to_ne_bytes());
        }
    }
    filter
}

/// Milliseconds since the last byte in either direction, for a message with a `tcp_info`.
fn idle_milliseconds(message: &[u8]) -> Option<u32> {
    let mut found = attributes(message.get(MESSAGE_LENGTH..)?);
    let (_, info) = found.find(|(kind, _)| *kind == INFO)?;
    let _whole = info.get(..INFO_RECEIVED_AT + 4)?;
    Some(u32_at(info, INFO_SENT_AT).min(u32_at(info, INFO_RECEIVED_AT)))
}

fn connection_info(message: &[u8]) -> Option<ConnectionInfo> {
    let mut found = attributes(message.get(MESSAGE_LENGTH..)?);
    let (_, info) = found.find(|(kind, _)| *kind == INFO)?;
    let _known = info.get(..INFO_SEGMENTS + 4)?;
    Some(ConnectionInfo {
        cookie: u64::from(u32_at(message, 60)) | u64::from(u32_at(message, 64)) << 32,
        inode: u32_at(message, 84),
        is_established: message.get(HEADER_LENGTH + 1) == Some(&ESTABLISHED),
        unread: u32_at(message, 72),
        unacknowledged: u32_at(info, INFO_UNACKNOWLEDGED),
        sent_ago: u32_at(info, INFO_SENT_AT).saturating_add(backoff_milliseconds(info)),
        received_ago: u32_at(info, INFO_RECEIVED_AT),
        acknowledged_ago: u32_at(info, INFO_ACKNOWLEDGED_AT),
        segments_received: u32_at(info, INFO_SEGMENTS_RECEIVED),
        segments: u32_at(info, INFO_SEGMENTS),
        retransmits: u32_at(info, INFO_RETRANSMITS),
        spurious: info.get(INFO_SPURIOUS..INFO_SPURIOUS + 4).map(|_| u32_at(info, INFO_SPURIOUS)),
        rtt_micros: u32_at(info, INFO_RTT),
    })
}

/// Time between the first transmission and the last retransmit: each waits twice as long as the one
/// before, and the timeout in force is the next one.
fn backoff_milliseconds(info: &[u8]) -> u32 {
    let (retransmits, timeout) = (info[INFO_BACKOFF], u32_at(info, INFO_TIMEOUT) / 1000);
    timeout - timeout.checked_shr(retransmits.into()).unwrap_or(0)
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
        assert!(diag.count_states(|_| {}).unwrap().close_wait >= 1);
    }

    #[test]
    fn close_wait_of_a_busy_program_is_told_from_a_leak() {
        let mut diag = SockDiag::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let leave = |request: &[u8]| {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            io::Write::write_all(&mut client, request).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            client
        };
        // Read to the end and kept, accepted and not read, not accepted.
        let mut is_told_apart = || {
            let before = diag.count_states(|_| {}).unwrap();
            let _clients = [leave(b""), leave(b"GET / HTTP/1.0"), leave(b"")];
            let (kept, _) = listener.accept().unwrap();
            let (_unread, _) = listener.accept().unwrap();
            io::Read::read(&mut &kept, &mut [0; 1]).unwrap();
            let after = diag.count_states(|_| {}).unwrap();
            let unread = after.close_wait_unread - before.close_wait_unread;
            let (_waiting, _) = listener.accept().unwrap();
            after.close_wait - before.close_wait == 3 && unread == 2
        };
        // Other tests of this process open and close sockets meanwhile.
        assert!((0..500).any(|_| is_told_apart()), "3 sockets in CLOSE_WAIT, 2 of them unread");
    }

    #[test]
    fn segments_of_a_connection_are_counted() {
        let mut diag = SockDiag::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (server, _) = listener.accept().unwrap();
        for _ in 0..5 {
            io::Write::write_all(&mut &client, b"request").unwrap();
            io::Read::read_exact(&mut &server, &mut [0; 7]).unwrap();
        }
        let mut found = Vec::new();
        diag.connections(|id, info| {
            if id.peer_port() == port {
                found.push(info);
            }
        })
        .unwrap();
        assert_eq!((found[0].segments, found[0].retransmits, found[0].spurious), (5, 0, Some(0)));
        assert!(found[0].cookie > 0 && found[0].rtt_micros > 0);
    }

    #[test]
    fn connections_of_any_number_of_ports_are_found_and_no_others() {
        let mut diag = SockDiag::open().unwrap();
        let bind = |_| TcpListener::bind("127.0.0.1:0").unwrap();
        let listeners: Vec<TcpListener> = (0..PORT_LIMIT + 1).map(bind).collect();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let connect = |listener| TcpStream::connect(("127.0.0.1", port(listener))).unwrap();
        let _clients: Vec<TcpStream> = listeners.iter().map(connect).collect();
        for count in [1, 2, PORT_LIMIT] {
            let mut ports: Vec<u16> = listeners[..count].iter().map(port).collect();
            let mut found = Vec::new();
            diag.established(&ports, |ends, idle| {
                assert!(idle < 60_000, "{idle}");
                assert_eq!(ends.address(), ends.peer());
                found.push(ends.port());
            })
            .unwrap();
            ports.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, ports);
        }
    }

    #[test]
    fn broken_replies_do_not_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let _ = walk(&bytes, 0, MESSAGE_LENGTH, &mut |message| {
                (_, _) = (listen_socket(message), idle_milliseconds(message));
                let _ = connection_info(message);
            });
            Ok(())
        });
    }
}
