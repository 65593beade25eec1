//! Names of hosts as requests carry them: `Shop.Example.:443` and `shop.example` are one host.
//!
//! The port that a scheme has by default may be left out (RFC 9110 §4.2), and so may the dot of
//! DNS' root (RFC 3986 §3.2.2).

use std::net::Ipv6Addr;

/// Whether this is a host with an optional port (RFC 3986 §3.2), and not a path, a user or a list: a
/// name, or an IPv6 address in brackets, and a port below 65,536.
pub(crate) fn is_authority(bytes: &[u8]) -> bool {
    let (host, port) = match bytes.iter().rposition(|byte| *byte == b':') {
        Some(at) if !bytes[at..].contains(&b']') => (&bytes[..at], &bytes[at + 1..]),
        _ => (bytes, &b""[..]),
    };
    let port = std::str::from_utf8(port).ok();
    let is_port = port.is_some_and(|port| {
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        is_number && (port.is_empty() || port.parse::<u16>().is_ok())
    });
    let is_host = match host {
        [b'[', address @ .., b']'] => is_ipv6(address),
        _ => host
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')),
    };
    !host.is_empty() && bytes.len() <= 255 && is_host && is_port
}

/// Without a zone: it means something on its own host only.
fn is_ipv6(address: &[u8]) -> bool {
    std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// Whether two authorities name the same host and port.
pub(crate) fn is_same_host([one, other]: [&[u8]; 2], is_https: bool) -> bool {
    if one.eq_ignore_ascii_case(other) {
        return true;
    }
    let default_port: &[u8] = if is_https { b"443" } else { b"80" };
    let [(one, one_port), (other, other_port)] = [split(one), split(other)]
        .map(|(name, port)| (without_dot(name), port.filter(|port| *port != default_port)));
    one_port == other_port && one.eq_ignore_ascii_case(other)
}

/// The host without its port and the dot at its end; IPv6 addresses keep their brackets.
pub(crate) fn name_of(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

/// An empty port counts as none.
fn split(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let colon = authority.iter().rposition(|byte| *byte == b':');
    match colon {
        Some(at) if !authority[at..].contains(&b']') => {
            (&authority[..at], Some(&authority[at + 1..]).filter(|port| !port.is_empty()))
        }
        _ => (authority, None),
    }
}

fn without_dot(name: &[u8]) -> &[u8] {
    name.strip_suffix(b".").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_ports_and_the_dot_at_the_end_make_no_difference() {
        for (one, other, is_https, expected) in [
            ("a", "A", false, true),
            ("a:80", "a", false, true),
            ("a:443", "a", true, true),
            ("a:443", "a", false, false),
            ("a:80", "a", true, false),
            ("a.", "a", false, true),
            ("a.:80", "a:80", false, true),
            ("a:", "a", false, true),
            ("a:8080", "a:8080", false, true),
            ("a:8080", "a:8081", false, false),
            ("[::1]:80", "[::1]", false, true),
            ("[::1]", "[::2]", false, false),
            ("a", "b", false, false),
            ("a..", "a", false, false),
        ] {
            let is_same = is_same_host([one.as_bytes(), other.as_bytes()], is_https);
            assert_eq!(is_same, expected, "{one} {other} {is_https}");
        }
    }

    #[test]
    fn hosts_have_names_or_addresses_and_ports_that_exist() {
        for host in [
            "a",
            "a:80",
            "a:",
            "a.",
            "a.:80",
            "_a-b.c",
            "10.0.0.1:65535",
            "[::1]",
            "[::1]:80",
            "[::ffff:1.2.3.4]",
            "a:0",
        ] {
            assert!(is_authority(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            ":",
            ":80",
            "a:b",
            "a:+80",
            "a:-1",
            "a:65536",
            "a:99999999999",
            "a:80:80",
            "::1",
            "[::1",
            "::1]",
            "[]",
            "[a]",
            "[::1]a",
            "[::1]:x",
            "[fe80::1%25eth0]",
            "a]",
            "[a",
            "a[b]",
            "u@a",
            "a/b",
            "a%00",
            "a,b",
        ] {
            assert!(!is_authority(host.as_bytes()), "{host}");
        }
        assert!(!is_authority(&[b'a'; 256]));
    }

    #[test]
    fn names_are_kept_without_ports() {
        let hosts = [
            "shop.example",
            "shop.example:8443",
            "shop.example.",
            "shop.example.:80",
            "[::1]",
            "[::1]:80",
            "10.0.0.1:80",
            "",
        ];
        let expected = [
            "shop.example",
            "shop.example",
            "shop.example",
            "shop.example",
            "[::1]",
            "[::1]",
            "10.0.0.1",
            "",
        ];
        assert_eq!(hosts.map(name_of), expected);
    }
}
