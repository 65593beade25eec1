//! The PROXY protocol, versions 1 and 2: the client of a load balancer in front.
//!
//! Source: HAProxy's `proxy-protocol.txt`. UNKNOWN and LOCAL headers (health checks of the load
//! balancer) leave the peer as the client. Version 2 may carry more after the addresses, which is
//! skipped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::settings::ProxyHeader;

/// Longest accepted header. Version 1 has at most 107 bytes; longer version 2 headers are invalid.
pub(crate) const HEADER_BYTES_MAX: usize = 536;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The first bytes of a connection, parsed.
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedHeader {
    /// The header is incomplete.
    Partial,
    /// A complete header.
    Whole {
        /// Bytes of the header.
        length: usize,
        /// The client it names; without one, the peer is the client.
        client: Option<SocketAddr>,
    },
    /// The bytes are no PROXY header.
    Invalid,
}

/// Parses the header at the beginning of `bytes`.
pub fn parse(bytes: &[u8]) -> ParsedHeader {
    if bytes.len() < SIGNATURE.len() && SIGNATURE.starts_with(bytes) {
        return ParsedHeader::Partial;
    }
    if bytes.starts_with(SIGNATURE) {
        return parse_v2(bytes);
    }
    let magic = b"PROXY ";
    if bytes.starts_with(&magic[..bytes.len().min(magic.len())]) {
        return parse_v1(bytes);
    }
    ParsedHeader::Invalid
}

fn parse_v1(bytes: &[u8]) -> ParsedHeader {
    let Some(end) = bytes.iter().take(107).position(|byte| *byte == b'\n') else {
        return if bytes.len() >= 107 { ParsedHeader::Invalid } else { ParsedHeader::Partial };
    };
    let length = end + 1;
    let line = std::str::from_utf8(&bytes[..end]).ok().and_then(|line| line.strip_suffix('\r'));
    let Some(line) = line else { return ParsedHeader::Invalid };
    let mut words = line.split(' ').skip(1);
    let family = words.next();
    if family == Some("UNKNOWN") {
        return ParsedHeader::Whole { length, client: None };
    }
    let client = client_v1(family, words);
    client.map_or(ParsedHeader::Invalid, |client| ParsedHeader::Whole {
        length,
        client: Some(client),
    })
}

fn client_v1<'a>(
    family: Option<&str>,
    mut words: impl Iterator<Item = &'a str>,
) -> Option<SocketAddr> {
    let source: IpAddr = words.next()?.parse().ok()?;
    let destination: IpAddr = words.next()?.parse().ok()?;
    let is_four = match family? {
        "TCP4" => true,
        "TCP6" => false,
        _ => return None,
    };
    if source.is_ipv4() != is_four || destination.is_ipv4() != is_four {
        return None;
    }
    let port = words.next()?.parse().ok()?;
    words.next()?.parse::<u16>().ok()?;
    words.next().is_none().then_some(SocketAddr::new(source, port))
}

fn parse_v2(bytes: &[u8]) -> ParsedHeader {
    let Some(&[version, family, high, low]) = bytes.get(12..16) else {
        return ParsedHeader::Partial;
    };
    let length = 16 + usize::from(u16::from_be_bytes([high, low]));
    if version >> 4 != 2 || version & 15 > 1 || length > HEADER_BYTES_MAX {
        return ParsedHeader::Invalid;
    }
    let Some(rest) = bytes.get(16..length) else { return ParsedHeader::Partial };
    if version & 15 == 0 {
        return ParsedHeader::Whole { length, client: None };
    }
    let client = match family {
        0x11 => rest.first_chunk::<12>().map(|all| {
            let address = Ipv4Addr::new(all[0], all[1], all[2], all[3]);
            SocketAddr::new(address.into(), u16::from_be_bytes([all[8], all[9]]))
        }),
        0x21 => rest.first_chunk::<36>().map(|all| {
            let address: [u8; 16] = all[..16].try_into().expect("16 of 36");
            SocketAddr::new(Ipv6Addr::from(address).into(), u16::from_be_bytes([all[32], all[33]]))
        }),
        // Datagrams, unix sockets, unspecified: the peer is the client.
        _ => return ParsedHeader::Whole { length, client: None },
    };
    client.map_or(ParsedHeader::Invalid, |client| ParsedHeader::Whole {
        length,
        client: Some(client),
    })
}

/// The header that tells a backend the client's address.
pub fn write(version: ProxyHeader, client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let (source, destination) = (client.ip().to_canonical(), server.ip().to_canonical());
    let both = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Some((1, [source.octets(), destination.octets()].concat()))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Some((2, [source.octets(), destination.octets()].concat()))
        }
        _ => None,
    };
    match (version, both) {
        (ProxyHeader::Off, _) => Vec::new(),
        (ProxyHeader::V1, None) => b"PROXY UNKNOWN\r\n".to_vec(),
        (ProxyHeader::V1, Some((family, _))) => {
            let family = if family == 1 { "TCP4" } else { "TCP6" };
            let (from, to) = (client.port(), server.port());
            format!("PROXY {family} {source} {destination} {from} {to}\r\n").into_bytes()
        }
        (ProxyHeader::V2, both) => {
            let mut out = SIGNATURE.to_vec();
            let (family, mut addresses) = both.unwrap_or_default();
            if family == 0 {
                out.extend([0x20, 0, 0, 0]);
                return out;
            }
            addresses.extend(client.port().to_be_bytes());
            addresses.extend(server.port().to_be_bytes());
            let length = u8::try_from(addresses.len()).expect("12 or 36");
            out.extend([0x21, family << 4 | 1, 0, length]);
            out.extend(addresses);
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn both_versions_round_trip() {
        for version in [ProxyHeader::V1, ProxyHeader::V2] {
            for (client, server) in
                [("192.0.2.1:5000", "198.51.100.2:80"), ("[2001:db8::1]:5000", "[2001:db8::2]:80")]
            {
                let mut bytes = write(version, at(client), at(server));
                let length = bytes.len();
                for cut in 0..length {
                    assert_eq!(parse(&bytes[..cut]), ParsedHeader::Partial, "{version:?} {cut}");
                }
                bytes.extend(b"GET / HTTP/1.1");
                assert_eq!(parse(&bytes), ParsedHeader::Whole { length, client: Some(at(client)) });
            }
            let mixed = write(version, at("192.0.2.1:5000"), at("[2001:db8::2]:80"));
            assert_eq!(parse(&mixed), ParsedHeader::Whole { length: mixed.len(), client: None });
        }
    }

    #[test]
    fn invalid_headers_are_refused() {
        for wrong in [
            "GET / HTTP/1.1\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 5000\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 5000 80 7\r\n",
            "PROXY TCP4 2001:db8::1 198.51.100.2 5000 80\r\n",
            "PROXY TCP6 192.0.2.1 198.51.100.2 5000 80\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 5000 80\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 70000 80\r\n",
        ] {
            assert_eq!(parse(wrong.as_bytes()), ParsedHeader::Invalid, "{wrong}");
        }
        let long = format!("PROXY TCP4 {}", "1".repeat(200));
        assert_eq!(parse(long.as_bytes()), ParsedHeader::Invalid);
        let mut short = SIGNATURE.to_vec();
        short.extend([0x21, 0x11, 0, 4, 1, 2, 3, 4]);
        assert_eq!(parse(&short), ParsedHeader::Invalid);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        arbtest::arbtest(|u| {
            let mut bytes = match u.arbitrary::<u8>()? % 3 {
                0 => SIGNATURE.to_vec(),
                1 => b"PROXY ".to_vec(),
                _ => Vec::new(),
            };
            bytes.extend(u.arbitrary::<Vec<u8>>()?);
            if let ParsedHeader::Whole { length, .. } = parse(&bytes) {
                assert!(length <= bytes.len());
            }
            Ok(())
        });
    }
}
