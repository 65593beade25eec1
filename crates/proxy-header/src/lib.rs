//! Headers of the PROXY protocol, versions 1 and 2: the client of a load balancer in front.
//!
//! Source: HAProxy's `proxy-protocol.txt`. UNKNOWN and LOCAL headers (health checks of the load
//! balancer) leave the peer as the client. Version 2 may carry up to 64 KiB of further values (TLVs)
//! after the addresses, such as those of AWS and of TLS; they are skipped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header of version 1, with its line end.
pub const V1_BYTES_MAX: usize = 107;
/// The part of a version 2 header that has the length of the rest.
pub const V2_BYTES_MIN: usize = 16;
/// First bytes of a header of version 2.
pub const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// How a header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// The first bytes of a connection, parsed.
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedHeader {
    /// The header is incomplete.
    Partial,
    /// A complete header.
    Whole {
        /// Bytes of the header.
        length: usize,
        /// The ends of the client's connection that it names; without them, the peer is the client.
        addresses: Option<ProxiedAddresses>,
    },
    /// The bytes are no PROXY header.
    Invalid,
}

/// The ends of a connection to a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxiedAddresses {
    /// The client.
    pub client: SocketAddr,
    /// The address that the client has connected to; `None` without a load balancer.
    pub server: Option<SocketAddr>,
}

impl ProxiedAddresses {
    /// The addresses of a connection without load balancer.
    #[must_use]
    pub fn direct(peer: SocketAddr) -> Self {
        Self { client: peer, server: None }
    }
}

/// Parses the header at the beginning of `bytes`.
#[must_use]
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
    let Some(end) = bytes.iter().take(V1_BYTES_MAX).position(|byte| *byte == b'\n') else {
        return if bytes.len() >= V1_BYTES_MAX {
            ParsedHeader::Invalid
        } else {
            ParsedHeader::Partial
        };
    };
    let length = end + 1;
    let line = std::str::from_utf8(&bytes[..end]).ok().and_then(|line| line.strip_suffix('\r'));
    let Some(line) = line else { return ParsedHeader::Invalid };
    let mut words = line.split(' ').skip(1);
    let family = words.next();
    if family == Some("UNKNOWN") {
        return ParsedHeader::Whole { length, addresses: None };
    }
    whole(length, addresses_v1(family, words))
}

fn whole(length: usize, addresses: Option<ProxiedAddresses>) -> ParsedHeader {
    addresses.map_or(ParsedHeader::Invalid, |addresses| ParsedHeader::Whole {
        length,
        addresses: Some(addresses),
    })
}

fn addresses_v1<'a>(
    family: Option<&str>,
    mut words: impl Iterator<Item = &'a str>,
) -> Option<ProxiedAddresses> {
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
    let client = SocketAddr::new(source, port(words.next()?)?);
    let server = Some(SocketAddr::new(destination, port(words.next()?)?));
    words.next().is_none().then_some(ProxiedAddresses { client, server })
}

/// A port in digits alone, without zeros before it.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros = text.len() > 1 && text.starts_with('0');
    text.parse().ok().filter(|_| is_plain && !has_zeros)
}

fn parse_v2(bytes: &[u8]) -> ParsedHeader {
    let Some(&[version, family, high, low]) = bytes.get(12..16) else {
        return ParsedHeader::Partial;
    };
    let length = V2_BYTES_MIN + usize::from(u16::from_be_bytes([high, low]));
    if version >> 4 != 2 || version & 15 > 1 {
        return ParsedHeader::Invalid;
    }
    let Some(rest) = bytes.get(V2_BYTES_MIN..length) else { return ParsedHeader::Partial };
    if version & 15 == 0 {
        return ParsedHeader::Whole { length, addresses: None };
    }
    match family {
        0x11 => whole(length, rest.first_chunk().map(addresses_of_four)),
        0x21 => whole(length, rest.first_chunk().map(addresses_of_six)),
        // Datagrams, unix sockets, unspecified: the peer is the client.
        _ => ParsedHeader::Whole { length, addresses: None },
    }
}

fn addresses_of_four(all: &[u8; 12]) -> ProxiedAddresses {
    let client = Ipv4Addr::new(all[0], all[1], all[2], all[3]);
    let server = Ipv4Addr::new(all[4], all[5], all[6], all[7]);
    let client_port = u16::from_be_bytes([all[8], all[9]]);
    let server_port = u16::from_be_bytes([all[10], all[11]]);
    ProxiedAddresses {
        client: SocketAddr::new(client.into(), client_port),
        server: Some(SocketAddr::new(server.into(), server_port)),
    }
}

fn addresses_of_six(all: &[u8; 36]) -> ProxiedAddresses {
    let client: [u8; 16] = all[..16].try_into().expect("16 of 36");
    let server: [u8; 16] = all[16..32].try_into().expect("16 of 36");
    let client_port = u16::from_be_bytes([all[32], all[33]]);
    let server_port = u16::from_be_bytes([all[34], all[35]]);
    ProxiedAddresses {
        client: SocketAddr::new(Ipv6Addr::from(client).into(), client_port),
        server: Some(SocketAddr::new(Ipv6Addr::from(server).into(), server_port)),
    }
}

/// The header of a connection that has no client, such as a health check.
#[must_use]
pub fn write_local(version: HeaderVersion) -> Vec<u8> {
    match version {
        HeaderVersion::V1 => b"PROXY UNKNOWN\r\n".to_vec(),
        HeaderVersion::V2 => [&SIGNATURE[..], &[0x20, 0, 0, 0]].concat(),
    }
}

/// The header that tells a backend the client's address.
#[must_use]
pub fn write(version: HeaderVersion, client: SocketAddr, server: SocketAddr) -> Vec<u8> {
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
        (_, None) => write_local(version),
        (HeaderVersion::V1, Some((family, _))) => {
            let family = if family == 1 { "TCP4" } else { "TCP6" };
            let (from, to) = (client.port(), server.port());
            format!("PROXY {family} {source} {destination} {from} {to}\r\n").into_bytes()
        }
        (HeaderVersion::V2, Some((family, mut addresses))) => {
            let mut out = SIGNATURE.to_vec();
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
        for version in [HeaderVersion::V1, HeaderVersion::V2] {
            for (client, server) in
                [("192.0.2.1:5000", "198.51.100.2:80"), ("[2001:db8::1]:5000", "[2001:db8::2]:80")]
            {
                let mut bytes = write(version, at(client), at(server));
                let length = bytes.len();
                for cut in 0..length {
                    assert_eq!(parse(&bytes[..cut]), ParsedHeader::Partial, "{version:?} {cut}");
                }
                bytes.extend(b"GET / HTTP/1.1");
                let addresses =
                    Some(ProxiedAddresses { client: at(client), server: Some(at(server)) });
                assert_eq!(parse(&bytes), ParsedHeader::Whole { length, addresses });
            }
            let mixed = write(version, at("192.0.2.1:5000"), at("[2001:db8::2]:80"));
            let local = ParsedHeader::Whole { length: mixed.len(), addresses: None };
            assert_eq!(parse(&mixed), local);
            assert_eq!(write_local(version), mixed);
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
            "PROXY TCP4 192.0.2.1 198.51.100.2 +5000 80\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 -1 80\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 05000 80\r\n",
            "PROXY TCP4 192.0.2.01 198.51.100.2 5000 80\r\n",
            "PROXY TCP4 192.0.2.256 198.51.100.2 5000 80\r\n",
            "PROXY TCP4  192.0.2.1 198.51.100.2 5000 80\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 5000 80 \r\n",
            "PROXY TCP6 fe80::1%eth0 2001:db8::2 5000 80\r\n",
            "PROXY tcp4 192.0.2.1 198.51.100.2 5000 80\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.2 5000 80\r\n",
            "PROXY \r\n",
        ] {
            assert_eq!(parse(wrong.as_bytes()), ParsedHeader::Invalid, "{wrong}");
        }
        let long = format!("PROXY TCP4 {}", "1".repeat(200));
        assert_eq!(parse(long.as_bytes()), ParsedHeader::Invalid);
        // Addresses that are too short, another version, and a command that does not exist.
        for rest in [
            &[0x21, 0x11, 0, 4, 1, 2, 3, 4][..],
            &[0x21, 0x21, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
            &[0x11, 0x11, 0, 0],
            &[0x31, 0x11, 0, 0],
            &[0x22, 0x11, 0, 0],
        ] {
            assert_eq!(parse(&[&SIGNATURE[..], rest].concat()), ParsedHeader::Invalid, "{rest:?}");
        }
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
