//! Networks of IP addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

/// An address and its prefix length, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    address: IpAddr,
    bits: u32,
}

impl IpNetwork {
    /// Parses `10.0.0.0/8`, `::1` and the like.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits.parse().ok()?)),
            None => (text.parse::<IpAddr>().ok()?, None),
        };
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(all);
        (bits <= all).then_some(Self { address, bits })
    }

    /// Whether an address is in it. Addresses of IPv4 that are mapped into IPv6 are those of IPv4.
    pub fn contains(self, peer: IpAddr) -> bool {
        match (self.address, peer.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(peer)) => {
                u32::from(own).checked_shr(32 - self.bits).unwrap_or(0)
                    == u32::from(peer).checked_shr(32 - self.bits).unwrap_or(0)
            }
            (IpAddr::V6(own), IpAddr::V6(peer)) => {
                u128::from(own).checked_shr(128 - self.bits).unwrap_or(0)
                    == u128::from(peer).checked_shr(128 - self.bits).unwrap_or(0)
            }
            _ => false,
        }
    }
}

impl Display for IpNetwork {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_networks_of_their_own_kind() {
        let is_in = |network: &str, address: &str| {
            let network = IpNetwork::parse(network).expect("a network");
            network.contains(address.parse().expect("an address"))
        };
        assert!(is_in("10.0.0.0/8", "10.255.0.1") && is_in("10.0.0.0/8", "::ffff:10.0.0.1"));
        assert!(is_in("0.0.0.0/0", "203.0.113.7") && is_in("fc00::/7", "fd12::1"));
        assert!(is_in("192.0.2.1", "192.0.2.1") && !is_in("192.0.2.1", "192.0.2.2"));
        assert!(!is_in("10.0.0.0/8", "11.0.0.1") && !is_in("::/0", "10.0.0.1"));
        for bad in ["10.0.0.0/33", "10.0.0/8", "::/129", "", "10.0.0.0/", "10.0.0.0/-1"] {
            assert_eq!(IpNetwork::parse(bad), None, "{bad}");
        }
    }
}
