//! Echo requests (ping): RFC 792 and RFC 4443, icmp(7).
//!
//! An ICMP socket of the kernel needs no right where `net.ipv4.ping_group_range` contains a group
//! of the agent; a raw one needs `CAP_NET_RAW`. The surprising thing: a raw socket of IPv4 receives
//! the IP header as well, and every other program's replies.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use super::deadline::{Deadline, resolve};
use super::{CheckOutcome, CheckState};

/// Requests until one is answered; a single lost packet is no outage.
const ATTEMPTS: u16 = 3;
const PAYLOAD: &[u8; 16] = b"weir echo probe ";

/// A host that must answer echo requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpCheck {
    /// The name or address.
    pub address: String,
}

/// A socket for echo requests; it is connected before the first one.
struct EchoSocket {
    socket: UdpSocket,
    is_raw: bool,
    is_ipv6: bool,
    identifier: u16,
}

impl IcmpCheck {
    pub(super) fn run(&self, timeout: Duration) -> CheckOutcome {
        let deadline = Deadline::after(timeout);
        let host = self.address.trim_matches(['[', ']']);
        let address = match resolve(host, 0) {
            Ok(addresses) => addresses.first().map(SocketAddr::ip),
            Err(error) => return CheckOutcome::new(CheckState::Critical, error.to_string()),
        };
        let Some(address) = address else {
            return CheckOutcome::new(CheckState::Critical, "the name has no address");
        };
        let socket = match EchoSocket::open(address) {
            Ok(socket) => socket,
            Err(error) => {
                let text = format!(
                    "cannot open an ICMP socket: {error}; hint: let `net.ipv4.ping_group_range` \
                     contain the agent's group, or give the agent CAP_NET_RAW"
                );
                return CheckOutcome::new(CheckState::Unknown, text);
            }
        };
        if let Err(error) = socket.socket.connect((address, 0)) {
            let text = format!("cannot reach {address}: {error}");
            return CheckOutcome::new(CheckState::Critical, text);
        }
        for attempt in 1..=ATTEMPTS {
            let Ok(left) = deadline.left() else { break };
            match socket.ping(attempt, left / u32::from(ATTEMPTS + 1 - attempt)) {
                Ok(Some(round_trip)) => {
                    let text = match attempt {
                        1 => format!("{address} answers"),
                        _ => format!("{address} answers; requests lost before: {}", attempt - 1),
                    };
                    let outcome = CheckOutcome::new(CheckState::Ok, text);
                    return outcome.with_value(round_trip.as_secs_f64(), "s");
                }
                Ok(None) => {}
                Err(error) => {
                    let text = format!("cannot reach {address}: {error}");
                    return CheckOutcome::new(CheckState::Critical, text);
                }
            }
        }
        let seconds = timeout.as_secs_f64();
        let text = format!("no echo reply from {address} within {seconds} s ({ATTEMPTS} requests)");
        CheckOutcome::new(CheckState::Critical, text)
    }
}

impl EchoSocket {
    fn open(address: IpAddr) -> io::Result<Self> {
        let is_ipv6 = address.is_ipv6();
        let (family, protocol) = if is_ipv6 {
            (AddressFamily::INET6, ipproto::ICMPV6)
        } else {
            (AddressFamily::INET, ipproto::ICMP)
        };
        let flags = SocketFlags::CLOEXEC;
        let plain = socket_with(family, SocketType::DGRAM, flags, Some(protocol));
        let (socket, is_raw) = match plain {
            Ok(socket) => (socket, false),
            Err(error) => {
                let raw = socket_with(family, SocketType::RAW, flags, Some(protocol));
                (raw.map_err(|_| error)?, true)
            }
        };
        // What std does with a datagram socket is what both kinds of socket can do.
        let socket = UdpSocket::from(socket);
        // Several threads of this process may use raw sockets at one time.
        let identifier = fold(&std::process::id().to_be_bytes()) ^ identity_of_thread();
        Ok(Self { socket, is_raw, is_ipv6, identifier })
    }

    /// The round trip of one request; `None` if no reply arrives in time.
    fn ping(&self, sequence: u16, wait: Duration) -> io::Result<Option<Duration>> {
        let started = Instant::now();
        self.socket.send(&self.request(sequence))?;
        let mut buffer = [0; 1500];
        loop {
            let left = wait.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            match self.socket.recv(&mut buffer) {
                Ok(length) if self.is_reply(&buffer[..length], sequence) => {
                    return Ok(Some(started.elapsed()));
                }
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::TimedOut
                            | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn request(&self, sequence: u16) -> Vec<u8> {
        let mut bytes = vec![if self.is_ipv6 { 128 } else { 8 }, 0, 0, 0];
        bytes.extend(self.identifier.to_be_bytes());
        bytes.extend(sequence.to_be_bytes());
        bytes.extend(PAYLOAD);
        // The kernel fills in the checksum of ICMPv6, which covers addresses.
        if !self.is_ipv6 {
            let checksum = !fold(&bytes);
            bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
        bytes
    }

    fn is_reply(&self, bytes: &[u8], sequence: u16) -> bool {
        let header = match bytes.first() {
            Some(first) if self.is_raw && !self.is_ipv6 => usize::from(first & 0x0f) * 4,
            _ => 0,
        };
        let Some(message) = bytes.get(header..) else { return false };
        let reply = if self.is_ipv6 { 129 } else { 0 };
        // The kernel replaces the identifier of a plain socket, and delivers only its replies.
        message.len() >= 8
            && message[0] == reply
            && (!self.is_raw || message[4..6] == self.identifier.to_be_bytes())
            && message[6..8] == sequence.to_be_bytes()
            && message[8..].starts_with(PAYLOAD)
    }
}

/// The sum of 16-bit words in one's complement (RFC 1071).
fn fold(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or_default()));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("the loop ends below 65536")
}

fn identity_of_thread() -> u16 {
    let id = rustix::thread::gettid().as_raw_nonzero().get();
    fold(&id.to_be_bytes())
}

/// Whether this process may send echo requests.
#[cfg(test)]
fn may_ping() -> bool {
    EchoSocket::open(std::net::Ipv4Addr::LOCALHOST.into()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(is_raw: bool) -> EchoSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        EchoSocket { socket, is_raw, is_ipv6: false, identifier: 0x1234 }
    }

    #[test]
    fn checksum_of_a_request_adds_up_to_all_ones() {
        // RFC 1071 §3: the sum over a message with its checksum is all ones.
        let request = socket(true).request(7);
        assert_eq!(fold(&request), 0xffff);
        assert_eq!((request[0], request.len()), (8, 24));
    }

    #[test]
    fn replies_of_others_are_not_taken() {
        let own = socket(true);
        let mut reply = vec![0x45; 20];
        reply.extend(own.request(3));
        assert!(!own.is_reply(&reply, 3), "a request is no reply");
        reply[20] = 0;
        assert!(own.is_reply(&reply, 3));
        assert!(!own.is_reply(&reply, 4));
        reply[24] ^= 1;
        assert!(!own.is_reply(&reply, 3), "of another program");
        assert!(!own.is_reply(&reply[..22], 3));
        assert!(!own.is_reply(&[], 3));
    }

    #[test]
    fn loopback_answers_and_a_name_without_an_address_is_a_failure() {
        let check = IcmpCheck { address: "127.0.0.1".into() };
        let outcome = check.run(Duration::from_secs(5));
        if !may_ping() {
            assert_eq!(outcome.state, CheckState::Unknown, "{outcome:?}");
            println!("skipped: this account may open no ICMP socket (run as root)");
            return;
        }
        assert_eq!(outcome.state, CheckState::Ok, "{outcome:?}");
        assert!(outcome.value.is_some_and(|seconds| seconds < 5.0), "{outcome:?}");
        let check = IcmpCheck { address: "no-such-name.invalid".into() };
        let outcome = check.run(Duration::from_secs(5));
        assert_eq!(outcome.state, CheckState::Critical, "{outcome:?}");
        assert!(outcome.output.starts_with("cannot resolve "), "{outcome:?}");
        let outcome = IcmpCheck { address: "::1".into() }.run(Duration::from_secs(5));
        println!("::1: {outcome:?}");
        assert_ne!(outcome.state, CheckState::Warning);
    }
}
