//! Access control: a login where the protocol has one, else allowed networks.

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, header};
use weir_tables::IpNetwork;

/// Rules for senders.
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    /// Login for protocols over HTTP; when set, it is required from every address.
    pub token: Option<String>,
    /// Networks that may send without a login, besides this machine itself.
    pub allow: Vec<IpNetwork>,
}

impl AccessRules {
    /// Whether an address may send without a login.
    pub fn allows(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        peer.is_loopback() || self.allow.iter().any(|network| network.contains(peer))
    }

    /// Whether a request is accepted: by its login if a token is set, else by its address.
    pub(crate) fn admits(&self, headers: &HeaderMap, peer: IpAddr) -> bool {
        match &self.token {
            Some(token) => has_login(headers, token),
            None => self.allows(peer),
        }
    }
}

/// Checks Bearer, HTTP Basic (the password) and Elasticsearch's `ApiKey` (Base64 of `id:key`, the
/// key).
fn has_login(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((scheme, secret)) = value.and_then(|value| value.split_once(' ')) else {
        return false;
    };
    let secret = secret.trim();
    let given = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => Some(secret.as_bytes().to_vec()),
        "basic" => decoded_password(secret),
        "apikey" => decoded_password(secret).or_else(|| Some(secret.as_bytes().to_vec())),
        _ => None,
    };
    given.is_some_and(|given| is_secret(&given, token))
}

/// The part after the colon of a Base64 pair.
fn decoded_password(pair: &str) -> Option<Vec<u8>> {
    let pair = BASE64_STANDARD.decode(pair).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

/// Compares with a secret in constant time for a given length.
pub(crate) fn is_secret(given: &[u8], secret: &str) -> bool {
    let differing = given.iter().zip(secret.as_bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(differing) == 0 && given.len() == secret.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses_only() {
        for (network, peer, expected) in [
            ("10.0.0.0/8", "10.200.1.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            // A mapped address.
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            // The machine itself.
            ("10.0.0.0/8", "127.0.0.1", true),
            ("10.0.0.0/8", "::1", true),
        ] {
            let allow = vec![IpNetwork::parse(network).expect("a network")];
            let access = AccessRules { token: None, allow };
            let is_allowed = access.allows(peer.parse().expect("an address"));
            assert_eq!(is_allowed, expected, "{peer} in {network}");
        }
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "web1", "10.0.0.0/"] {
            assert_eq!(IpNetwork::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_token_has_three_schemes_and_is_required_from_every_address() {
        let access = AccessRules { token: Some("sesame".into()), allow: Vec::new() };
        for (value, expected) in [
            ("Bearer sesame", true),
            ("Basic bWU6c2VzYW1l", true), // me:sesame
            ("ApiKey bWU6c2VzYW1l", true),
            ("ApiKey sesame", true),
            ("Bearer sesam", false),
            ("Basic !", false),
            ("Basic c2VzYW1l", false),
            ("Digest sesame", false),
            ("sesame", false),
            ("ApiKey ", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
            let is_admitted = access.admits(&headers, "127.0.0.1".parse().expect("an address"));
            assert_eq!(is_admitted, expected, "{value}");
        }
        assert!(!access.admits(&HeaderMap::new(), "127.0.0.1".parse().expect("an address")));
    }
}
