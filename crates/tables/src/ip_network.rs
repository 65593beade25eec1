//! Networks of IP addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address and its prefix length, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    address: IpAddr,
    bits: u32,
}

impl IpNetwork {
    /// Parses `10.0.0.0/8`, `::1` and the like. A network of IPv4 that is mapped into IPv6
    /// (`::ffff:10.0.0.0/104`) is that of IPv4, as its addresses are.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits)),
            None => (text.parse::<IpAddr>().ok()?, None),
        };
        let most = bits_of(address);
        let bits = match bits {
            None => most,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok()?
            }
            Some(_) => return None,
        };
        let (own, shift) = (address.to_canonical(), most - bits_of(address.to_canonical()));
        match bits.checked_sub(shift) {
            _ if bits > most => None,
            Some(bits) => Some(Self { address: own, bits }),
            None => Some(Self { address, bits }),
        }
    }

    /// Parses each text of a list.
    ///
    /// # Errors
    /// The first text that is no network.
    pub fn parse_each<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Self>, &'a str> {
        texts.into_iter().map(|text| Self::parse(text).ok_or(text)).collect()
    }

    /// The network with this prefix length around an address; `None` if the prefix is too long.
    pub fn around(address: IpAddr, bits: u32) -> Option<Self> {
        let cut = bits_of(address).checked_sub(bits)?;
        let address = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(cut).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(cut).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Some(Self { address, bits })
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

/// Bits of an address.
fn bits_of(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
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
        for bad in [
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "/8",
            "10.0.0.0/8/8",
            "10.0.0.0/8 ",
            "010.0.0.0/8",
            "0x0a.0.0.0/8",
            "::ffff:10.0.0.0/129",
            "fe80::1%eth0",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/99999999999",
        ] {
            assert_eq!(IpNetwork::parse(bad), None, "{bad}");
        }
    }

    /// openclaw/openclaw#137665 and JanssenProject/jans#15098: such a network matched nothing.
    /// 3proxy/3proxy#807: addresses in this form passed a list of IPv4.
    #[test]
    fn networks_of_mapped_addresses_are_those_of_ipv4() {
        for (text, shown) in [
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
            ("::ffff:0.0.0.0/96", "0.0.0.0/0"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(IpNetwork::parse(text).unwrap().to_string(), shown);
        }
        let around = |address: &str, bits| {
            IpNetwork::around(address.parse().unwrap(), bits).map(|network| network.to_string())
        };
        assert_eq!(around("10.1.2.3", 24).as_deref(), Some("10.1.2.0/24"));
        assert_eq!(around("10.1.2.3", 0).as_deref(), Some("0.0.0.0/0"));
        assert_eq!(around("2001:db8:1:2::3", 48).as_deref(), Some("2001:db8:1::/48"));
        assert_eq!(around("10.1.2.3", 33), None);
        assert_eq!(IpNetwork::parse_each(["10.0.0.0/8", "x", "y"]), Err("x"));
    }
}
