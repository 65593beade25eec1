//! A captured frame: its bytes, their link type, and when they passed.

/// One captured frame of any file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds since 1970, UTC.
    pub ts_ns: i64,
    /// Link type of `bytes`.
    pub link: LinkType,
    /// pcapng's interface number in its section.
    pub interface: u32,
    /// Length on the wire: at least `bytes.len()`.
    pub wire_length: u32,
    /// Captured bytes.
    pub bytes: &'a [u8],
}

/// Link type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkType {
    /// Ethernet.
    Ethernet,
    /// Linux cooked: `tcpdump -i any` before libpcap 1.10.
    Sll,
    /// Linux cooked version 2: `tcpdump -i any` today.
    Sll2,
    /// Raw IP.
    Raw,
    /// BSD loopback: four bytes of address family in either order.
    Loopback,
    /// PPP, with or without the framing of HDLC.
    Ppp,
    /// A PPPoE session without its Ethernet header.
    PppoeSession,
    /// Cisco's HDLC.
    CiscoHdlc,
    /// Linux' netfilter log.
    Nflog,
    /// Any other.
    Other(u32),
}

impl LinkType {
    /// Converts the number in the file; some systems use 12 and 14 for raw IP.
    pub fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Ethernet,
            113 => Self::Sll,
            276 => Self::Sll2,
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            0 | 108 => Self::Loopback,
            9 | 50 | 166 => Self::Ppp,
            51 => Self::PppoeSession,
            104 => Self::CiscoHdlc,
            239 => Self::Nflog,
            other => Self::Other(other),
        }
    }
}
