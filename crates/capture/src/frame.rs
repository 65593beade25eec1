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
    /// Wireless frames.
    Wireless,
    /// Wireless frames behind a radiotap header.
    Radiotap,
    /// Packets behind a header that names their link type: PPI, and macOS' PKTAP.
    Described(DescribedBy),
    /// Packets inside of IPsec: the `enc` interfaces of the BSDs.
    Ipsec,
    /// Juniper's Ethernet, with a header that says more about it.
    Juniper,
    /// The firewall log of the BSDs.
    Pflog,
    /// Ethernet with a switch tag of this many bytes after the addresses.
    SwitchTag(u8),
    /// Ethernet behind a switch's tag.
    SwitchTagFirst,
    /// Any other.
    Other(u32),
}

/// Header that names the link type of what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescribedBy {
    /// Per-packet information.
    Ppi,
    /// macOS' packet tap.
    Pktap,
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
            105 => Self::Wireless,
            127 => Self::Radiotap,
            192 => Self::Described(DescribedBy::Ppi),
            258 => Self::Described(DescribedBy::Pktap),
            109 => Self::Ipsec,
            178 => Self::Juniper,
            117 => Self::Pflog,
            281 | 284 => Self::SwitchTag(4),
            285 => Self::SwitchTag(8),
            282 => Self::SwitchTagFirst,
            other => Self::Other(other),
        }
    }
}
