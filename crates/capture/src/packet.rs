//! One TCP segment from any reader: pcap, pcapng, a live tap or tcpdump's text. Everything after
//! the readers sees packets only.
//!
//! Fields are RFC 9293's, options RFC 7323's (timestamps, window scale), RFC 2018's and 2883's (SACK,
//! DSACK) and RFC 8684's (Multipath TCP). One surprise: `payload` is what was captured, `payload_length` what the network
//! carried. A snap length of 96 bytes makes the first shorter, and text has almost no payload.

use std::net::{IpAddr, Ipv6Addr};

/// One TCP segment; a field that a reader cannot know is `None`, or as documented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Capture time: nanoseconds since 1970, UTC.
    pub ts_ns: i64,
    /// The sender.
    pub from: Endpoint,
    /// The receiver.
    pub to: Endpoint,
    /// Sequence number of the first payload byte, or of the SYN. Meaningless unless
    /// `is_sequence_known`.
    pub seq: u32,
    /// The next byte that the sender expects; meaningless without [`Flags::ACK`].
    pub ack: u32,
    /// False where the text has neither `seq` nor `ack` (`tcpdump -q`): then retransmits are not
    /// detectable.
    pub is_sequence_known: bool,
    /// Control bits.
    pub flags: Flags,
    /// The window as in the header: not scaled.
    pub window: u16,
    /// The sender's window scale, on SYN and SYN-ACK only.
    pub window_scale: Option<u8>,
    /// The largest segment that the sender accepts, on SYN and SYN-ACK only.
    pub segment_bytes_max: Option<u16>,
    /// Whether a SYN or SYN-ACK joins a connection of Multipath TCP as a further path (RFC 8684).
    pub is_join: bool,
    /// The timestamps option.
    pub timestamps: Option<Timestamps>,
    /// Number of SACK blocks, DSACK included.
    pub sack_blocks: u8,
    /// The first SACK block, if it reports duplicate bytes: it ends at or before `ack`, or lies in
    /// the second.
    pub dsack: Option<SackBlock>,
    /// The IPv4 identification; `None` for IPv6 and where the text lacks it.
    pub ip_id: Option<u16>,
    /// Payload bytes on the wire, by the IP header's length.
    pub payload_length: u32,
    /// Captured payload bytes: at most `payload_length`.
    pub payload: &'a [u8],
    /// Interface: pcapng's number in its section, SLL2's index, 0 otherwise.
    pub interface: u32,
    /// Direction from the link header; known only for SLL, SLL2 and text of `-i any`.
    pub direction: Direction,
}

impl Packet<'_> {
    /// Sequence number of the first payload byte: a SYN takes the number before it (RFC 7413).
    #[inline]
    pub fn data_seq(&self) -> u32 {
        self.seq.wrapping_add(u32::from(self.flags.has(Flags::SYN)))
    }
}

/// An address and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// IPv6, or mapped IPv4 (`::ffff:192.0.2.1`), as one number: fast to compare and hash.
    pub address: u128,
    /// The TCP port.
    pub port: u16,
}

impl Endpoint {
    /// Creates an endpoint of either address family.
    pub fn new(address: IpAddr, port: u16) -> Endpoint {
        let mapped = match address {
            IpAddr::V4(four) => four.to_ipv6_mapped(),
            IpAddr::V6(six) => six,
        };
        Endpoint { address: mapped.to_bits(), port }
    }

    /// The address in its own family: mapped addresses become IPv4.
    pub fn ip(self) -> IpAddr {
        Ipv6Addr::from_bits(self.address).to_canonical()
    }
}

/// Formats `192.0.2.1:80`, `[2001:db8::1]:80`.
impl std::fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::net::SocketAddr::new(self.ip(), self.port).fmt(formatter)
    }
}

/// TCP's control bits, as in the header's 14th byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender has no more data.
    pub const FIN: Flags = Flags(0x01);
    /// Opens a connection.
    pub const SYN: Flags = Flags(0x02);
    /// Resets a connection.
    pub const RST: Flags = Flags(0x04);
    /// The receiver should deliver what it has.
    pub const PSH: Flags = Flags(0x08);
    /// `ack` is valid.
    pub const ACK: Flags = Flags(0x10);

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The timestamps option: the sender's clock, and the last value received from the other side. The
/// tick is the sender's: 1 ms on Linux, anything from 1 µs to 1 s elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval.
    pub value: u32,
    /// TSecr.
    pub echo: u32,
}

/// Sequence numbers `[left, right)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SackBlock {
    /// The first byte of the block.
    pub left: u32,
    /// The byte after the last.
    pub right: u32,
}

/// Direction of a packet, seen from the capturing host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Unknown in this capture.
    #[default]
    Unknown,
    /// Received by the host.
    In,
    /// Sent by the host.
    Out,
}
