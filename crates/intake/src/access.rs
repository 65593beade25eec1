//! Who may send: a login where the protocol has one, else networks that are named.

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, header};

/// An address and how many of its leading bits count, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Reads `10.0.0.0/8`, `::1` and the like; `None` when it is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits.parse().ok()?)),
            None => (text.parse::<IpAddr>().ok()?, None),
        };
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(all);
        (bits <= all).then_some(Self { address, bits })
    }

    fn contains(self, peer: IpAddr) -> bool {
        match (self.address, peer) {
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

/// The rules for senders.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The login of protocols over HTTP; when set, it is needed from everywhere.
    pub token: Option<String>,
    /// Networks that may send besides this machine itself, by protocols that have no login.
    pub allow: Vec<Network>,
}

impl Access {
    /// Whether an address may send without a login.
    pub fn allows(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        peer.is_loopback() || self.allow.iter().any(|network| network.contains(peer))
    }

    /// Whether a request may be answered: by its login where one is set, else by its address.
    pub(crate) fn admits(&self, headers: &HeaderMap, peer: IpAddr) -> bool {
        match &self.token {
            Some(token) => has_login(headers, token),
            None => self.allows(peer),
        }
    }
}

/// Bearer, HTTP Basic (the password counts), Elasticsearch's `ApiKey` (Base64 of `id:key`, the key counts).
fn has_login(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((scheme, secret)) = value.and_then(|value| value.split_once(' ')) else {
        return false;
    };
    let secret = secret.trim();
    let behind_colon = || {
        let pair = BASE64_STANDARD.decode(secret).ok()?;
        let colon = pair.iter().position(|byte| *byte == b':')?;
        Some(pair[colon + 1..].to_vec())
    };
    let given = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => Some(secret.as_bytes().to_vec()),
        "basic" => behind_colon(),
        "apikey" => behind_colon().or_else(|| Some(secret.as_bytes().to_vec())),
        _ => None,
    };
    given.is_some_and(|given| is_same(&given, token.as_bytes()))
}

/// Compares in a time that depends on the length only.
pub(crate) fn is_same(given: &[u8], expected: &[u8]) -> bool {
    let differing = given.iter().zip(expected).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(differing) == 0 && given.len() == expected.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses_only() {
        let check = |network: &str, peer: &str| {
            let access =
                Access { token: None, allow: vec![Network::parse(network).expect("a network")] };
            access.allows(peer.parse().expect("an address"))
        };
        assert!(check("10.0.0.0/8", "10.200.1.1"));
        assert!(!check("10.0.0.0/8", "11.0.0.1"));
        assert!(check("0.0.0.0/0", "8.8.8.8"));
        assert!(check("192.0.2.7", "192.0.2.7"));
        assert!(!check("192.0.2.7", "192.0.2.8"));
        assert!(check("10.0.0.0/8", "::ffff:10.1.1.1"), "a mapped address");
        assert!(check("2001:db8::/32", "2001:db8:1::1"));
        assert!(!check("2001:db8::/32", "2001:db9::1"));
        assert!(check("10.0.0.0/8", "127.0.0.1"), "the machine itself");
        assert!(check("10.0.0.0/8", "::1"), "the machine itself");
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "web1", "10.0.0.0/"] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_token_comes_in_three_schemes_and_is_needed_from_everywhere() {
        let access = Access { token: Some("sesame".into()), allow: Vec::new() };
        let check = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
            access.admits(&headers, "127.0.0.1".parse().expect("an address"))
        };
        assert!(check("Bearer sesame"));
        assert!(check("Basic bWU6c2VzYW1l")); // me:sesame
        assert!(check("ApiKey bWU6c2VzYW1l"));
        assert!(check("ApiKey sesame"));
        for bad in
            ["Bearer sesam", "Basic !", "Basic c2VzYW1l", "Digest sesame", "sesame", "ApiKey "]
        {
            assert!(!check(bad), "{bad}");
        }
        assert!(!access.admits(&HeaderMap::new(), "127.0.0.1".parse().expect("an address")));
    }
}
