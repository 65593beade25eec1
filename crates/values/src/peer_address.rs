//! Addresses of clients as proxies write them: with ports, in brackets, IPv4 mapped to IPv6, lists
//! of `X-Forwarded-For`, and `unix:` for a socket.
//!
//! From RFC 4291 §2.2, RFC 3986 §3.2.2, nginx's `$remote_addr` and HAProxy's `%ci`. The surprising
//! thing: `2001:db8::1:443` is an address and not one with a port; only brackets can tell.

use std::net::IpAddr;

use crate::number;

/// An address and the port that some proxies add to it: `192.0.2.1:5000`, `[2001:db8::1]:5000`,
/// `::ffff:192.0.2.1:5000`. HAProxy's `unix:2` has the number of a socket there, which is no port.
pub fn split_port(text: &str) -> (&str, Option<i64>) {
    if memchr::memchr(b':', text.as_bytes()).is_none() {
        return (without_brackets(text), None);
    }
    if let Some(behind) = text.strip_prefix("unix:") {
        let is_number = !behind.is_empty() && behind.bytes().all(|byte| byte.is_ascii_digit());
        return (if is_number { "unix" } else { text }, None);
    }
    if let Some((address, behind)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match behind.strip_prefix(':').map(port) {
            _ if behind.is_empty() => (address, None),
            Some(Some(port)) if !address.is_empty() => (address, Some(port)),
            _ => (text, None),
        };
    }
    if is_address(text) {
        return (text, None);
    }
    match text.rsplit_once(':') {
        Some((address, digits)) if is_address(address) || is_name(address) => match port(digits) {
            Some(port) => (address, Some(port)),
            None => (text, None),
        },
        _ => (text, None),
    }
}

/// Whether a text is an address, with or without a port, or a socket.
pub fn is_peer(text: &str) -> bool {
    let (address, _) = split_port(text);
    is_address(address) || address.starts_with("unix")
}

/// The client of a list: the first entry that is not `-`.
pub fn first_of_list(list: &str) -> &str {
    let mut entries = list.split(',').map(|entry| entry.trim_ascii().trim_matches('"'));
    let known = entries.find(|entry| !matches!(*entry, "" | "-"));
    known.unwrap_or_else(|| list.trim_ascii())
}

fn port(digits: &str) -> Option<i64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    number::integer(digits).filter(|port| is_number && (0..=65_535).contains(port))
}

fn without_brackets(text: &str) -> &str {
    text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(':')
}

/// Whether a text is an address; a zone such as `%eth0` may follow one of IPv6.
pub fn is_address(text: &str) -> bool {
    let address = match text.split_once('%') {
        Some((address, zone)) if !zone.is_empty() && !zone.contains(':') => address,
        _ => text,
    };
    address.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// elastic/logstash#11203, logstash-plugins/logstash-patterns-core#161 and
    /// coreruleset/coreruleset#1929.
    #[test]
    fn ports_are_split_off_and_addresses_stay_whole() {
        for (text, address, port) in [
            ("192.0.2.1", "192.0.2.1", None),
            ("192.0.2.1:42918", "192.0.2.1", Some(42_918)),
            ("[2001:db8::1]:443", "2001:db8::1", Some(443)),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("2001:db8::1", "2001:db8::1", None),
            ("2001:db8::1:443", "2001:db8::1:443", None),
            ("2001:db8:0:0:0:0:0:1:443", "2001:db8:0:0:0:0:0:1", Some(443)),
            ("::ffff:127.0.0.1:35606", "::ffff:127.0.0.1", Some(35_606)),
            ("64:ff9b::158.38.213.52", "64:ff9b::158.38.213.52", None),
            ("[::ffff:192.0.2.1]:1", "::ffff:192.0.2.1", Some(1)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0]:53", "fe80::1%eth0", Some(53)),
            ("client.example:5000", "client.example", Some(5000)),
            ("unix:", "unix:", None),
            ("unix:2", "unix", None),
            ("unix:/run/a.sock", "unix:/run/a.sock", None),
            ("192.0.2.1:", "192.0.2.1:", None),
            ("192.0.2.1:99999", "192.0.2.1:99999", None),
            ("192.0.2.1:+5", "192.0.2.1:+5", None),
            (":5000", ":5000", None),
            ("[]:5", "[]:5", None),
            ("", "", None),
        ] {
            assert_eq!(split_port(text), (address, port), "{text}");
        }
    }

    #[test]
    fn the_client_of_a_list_is_its_first_known_entry() {
        for (list, first) in [
            ("203.0.113.7, 10.0.0.1", "203.0.113.7"),
            (" 203.0.113.7,10.0.0.1", "203.0.113.7"),
            ("-, 203.0.113.8", "203.0.113.8"),
            ("\"[2001:db8::1]:5\", 10.0.0.1", "[2001:db8::1]:5"),
            ("unknown, 10.0.0.1", "unknown"),
            ("-", "-"),
        ] {
            assert_eq!(first_of_list(list), first, "{list}");
        }
    }
}
