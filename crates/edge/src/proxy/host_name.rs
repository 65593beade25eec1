//! Names of hosts as requests carry them: `Shop.Example.:443` and `shop.example` are one host.
//!
//! The port that a scheme has by default may be left out (RFC 9110 §4.2), and so may the dot of
//! DNS' root (RFC 3986 §3.2.2).

/// Whether this is a host with an optional port, and not a path, a user or a list.
pub(crate) fn is_authority(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes.len() <= 255
        && bytes.iter().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']')
        })
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
