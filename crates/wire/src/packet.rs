//! One TCP segment as any reader found it: pcap, pcapng, a live tap or tcpdump's text. Everything after the readers
//! sees packets only.
//!
//! Fields are RFC 9293's, options RFC 7323's (timestamps, window scale) and RFC 2018's and 2883's (SACK, DSACK). The one
//! surprise: `payload` is what the capture holds, `payload_length` what the network carried. A snap length of 96 bytes
//! makes the first shorter, and text has none at all.

use std::net::{IpAddr, Ipv6Addr};

/// One TCP segment; what a reader cannot know is `None`, or as its field says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When the tap saw it: nanoseconds since 1970, UTC.
    pub ts_ns: i64,
    /// Who sent it.
    pub from: Endpoint,
    /// Who should receive it.
    pub to: Endpoint,
    /// Number of the first byte of the payload (of the SYN itself, when it is one). Meaningless unless
    /// `is_sequence_known`.
    pub seq: u32,
    /// The next byte that the sender of this segment waits for; meaningless without [`Flags::ACK`].
    pub ack: u32,
    /// False where the text says neither `seq` nor `ack` (`tcpdump -q`): then nothing can be said about retransmits.
    pub is_sequence_known: bool,
    /// Control bits.
    pub flags: Flags,
    /// The window as the header has it: not scaled.
    pub window: u16,
    /// The sender's window scale: only on SYN and SYN-ACK.
    pub window_scale: Option<u8>,
    /// The timestamps option.
    pub timestamps: Option<Timestamps>,
    /// How many SACK blocks there are, DSACK included.
    pub sack_blocks: u8,
    /// The first SACK block, if it reports bytes that arrived twice: it ends at or before `ack`, or lies in the second.
    pub dsack: Option<SackBlock>,
    /// The IPv4 identification; `None` for IPv6 and where text has none.
    pub ip_id: Option<u16>,
    /// Bytes of payload that the network carried, by the IP header's length.
    pub payload_length: u32,
    /// The bytes of payload that the capture holds: at most `payload_length`.
    pub payload: &'a [u8],
    /// Which interface: pcapng's number in its section, SLL2's index, 0 where there is but one.
    pub interface: u32,
    /// What the link header says of the way it went; only SLL and SLL2, and text of `-i any`, say it.
    pub direction: Direction,
}

/// An address and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// IPv6, or IPv4 mapped into it (`::ffff:192.0.2.1`), as one number: compared and hashed fast.
    pub address: u128,
    /// The TCP port.
    pub port: u16,
}

impl Endpoint {
    /// An endpoint of either family.
    pub fn new(address: IpAddr, port: u16) -> Endpoint {
        let mapped = match address {
            IpAddr::V4(four) => four.to_ipv6_mapped(),
            IpAddr::V6(six) => six,
        };
        Endpoint { address: mapped.to_bits(), port }
    }

    /// The address in its own family: what was mapped is IPv4 again.
    pub fn ip(self) -> IpAddr {
        Ipv6Addr::from_bits(self.address).to_canonical()
    }
}

/// `192.0.2.1:80`, `[2001:db8::1]:80`.
impl std::fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::net::SocketAddr::new(self.ip(), self.port).fmt(formatter)
    }
}

/// TCP's control bits, as the 14th byte of the header has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender has no more to send.
    pub const FIN: Flags = Flags(0x01);
    /// Opens a connection.
    pub const SYN: Flags = Flags(0x02);
    /// Breaks a connection.
    pub const RST: Flags = Flags(0x04);
    /// The receiver should hand over what it has.
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

/// The timestamps option: the sender's clock, and the last value that it saw from the other side. Ticks are the
/// sender's own: 1 ms on Linux, 1 to 10 ms elsewhere.
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

/// Which way a packet went, seen from the host that captured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// The capture does not say.
    #[default]
    Unknown,
    /// Received by the host.
    In,
    /// Sent by the host.
    Out,
}
