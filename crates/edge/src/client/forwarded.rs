//! The client behind other proxies: `X-Forwarded-*`, `X-Real-IP` and `Forwarded` (RFC 7239).
//!
//! Anyone can send these fields, so they are kept from connections of trusted proxies only. From
//! others, the edge's own values take their place: otherwise a client could choose the address that
//! a backend sees, or the host that it writes into links.
//!
//! ```text
//!   client 203.0.113.9 ─► proxy 10.1.0.4 ─► proxy 10.1.0.9 ─► edge     X-Forwarded-For:
//!                                                                     198.51.100.1, 203.0.113.9, 10.1.0.4
//!                                                                          │            │          └ trusted
//!                                                     written by the client┘            └ the client
//! ```
//! The list grows at its end, so the client is the last address that is no trusted proxy.

use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};
use weir_tables::IpNetwork;

use crate::client::state::{ClientState, network_of};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
/// Addresses of one list that are looked at, from its end.
const HOPS_MAX: usize = 64;

/// The client of a request, as trusted proxies name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForwardedClient {
    pub(crate) address: IpAddr,
    /// `address` as rows show it.
    pub(crate) text: String,
    /// The scheme of the client's request; `None` if the proxy does not say.
    pub(crate) scheme: Option<&'static str>,
    network: OnceCell<String>,
}

impl ForwardedClient {
    /// The network of the address, see [`network_of`].
    pub(crate) fn network(&self) -> &str {
        self.network.get_or_init(|| network_of(self.address).to_string())
    }
}

/// Whether a field says something about the client and is written by proxies.
pub(crate) fn is_forwarded_field(name: &str) -> bool {
    name.starts_with("x-forwarded-") || name == REAL_IP.as_str() || name == FORWARDED.as_str()
}

/// The client of a request that the trusted proxy `peer` has sent; `None` if it says nothing.
pub(crate) fn client_of(
    headers: &HeaderMap,
    peer: IpAddr,
    trusted: &[IpNetwork],
) -> Option<ForwardedClient> {
    let (address, scheme) = (client_address(headers, trusted), scheme_of(headers));
    if address.is_none() && scheme.is_none() {
        return None;
    }
    let address = address.unwrap_or(peer).to_canonical();
    Some(ForwardedClient { address, text: address.to_string(), scheme, network: OnceCell::new() })
}

fn client_address(headers: &HeaderMap, trusted: &[IpNetwork]) -> Option<IpAddr> {
    if headers.contains_key(&FORWARDED_FOR) {
        return last_untrusted(hops(headers, &FORWARDED_FOR).map(parse_address), trusted);
    }
    if headers.contains_key(FORWARDED) {
        let named = hops(headers, &FORWARDED).map(|hop| parse_address(parameter([hop, "for"])?));
        return last_untrusted(named, trusted);
    }
    let nearest = headers.get_all(&REAL_IP).iter().next_back()?;
    parse_address(nearest.to_str().ok()?)
}

/// The elements of a list, last first. Empty elements are skipped (RFC 9110 §5.6.1.2).
fn hops<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().rev();
    let elements = lines.flat_map(elements).map(str::trim);
    elements.filter(|element| !element.is_empty()).take(HOPS_MAX)
}

/// The elements of a line, last first, up to the last one that is not text, which is [`UNREADABLE`].
/// A client can send such bytes; they must not hide the address that a proxy appends.
fn elements(line: &HeaderValue) -> impl Iterator<Item = &str> {
    let bytes = line.as_bytes();
    let is_text = |byte: &u8| *byte == b'\t' || (b' '..=b'~').contains(byte);
    let odd = bytes.iter().rposition(|byte| !is_text(byte));
    let begin = match odd {
        None => Some(0),
        Some(odd) => {
            bytes[odd..].iter().position(|byte| *byte == b',').map(|comma| odd + comma + 1)
        }
    };
    let text = begin.and_then(|begin| std::str::from_utf8(&bytes[begin..]).ok());
    let readable = text.into_iter().flat_map(|text| rsplit_unquoted(text, b','));
    readable.chain(odd.map(|_| UNREADABLE))
}

/// An element that is neither an address nor a list of parameters.
const UNREADABLE: &str = "?";

/// The parts of `text` between separators that do not stand in quotes, the last one first. Quotes do
/// not count if one is left open: a client must not hide what a proxy appends.
fn rsplit_unquoted(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let has_quotes = text.contains('"') && scan_quotes(text, separator).1;
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let all = rest?;
        let at = if has_quotes {
            scan_quotes(all, separator).0
        } else {
            all.bytes().rposition(|byte| byte == separator)
        };
        rest = at.map(|at| &all[..at]);
        Some(at.map_or(all, |at| &all[at + 1..]))
    })
}

/// Where the last separator outside of quotes is, and whether all quotes are closed; a quote or
/// backslash may be escaped by a backslash.
fn scan_quotes(text: &str, separator: u8) -> (Option<usize>, bool) {
    let (mut is_quoted, mut is_escaped, mut found) = (false, false, None);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if byte == separator && !is_quoted => found = Some(at),
            _ => {}
        }
    }
    (found, !is_quoted)
}

/// What stands before the first element that is no address is not believed: the proxy that wrote
/// it hides its client, or it is forged.
fn last_untrusted(
    hops: impl Iterator<Item = Option<IpAddr>>,
    trusted: &[IpNetwork],
) -> Option<IpAddr> {
    let mut nearest = None;
    for hop in hops {
        let Some(address) = hop else { return nearest };
        nearest = Some(address);
        if !is_in(trusted, address) {
            return nearest;
        }
    }
    nearest
}

/// Whether one of the networks contains the address.
pub(crate) fn is_in(networks: &[IpNetwork], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// An address with an optional port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `"[2001:db8::1]:80"`.
/// A proxy may hide the port: `"192.0.2.1:_gate"` (RFC 7239 §6.3).
fn parse_address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let text = match text.rsplit_once(":_") {
        Some((address, name)) if is_hidden_name(name) => address,
        _ => text,
    };
    let address = text.parse().ok().or_else(|| {
        let with_port = text.parse::<SocketAddr>().ok().map(|address| address.ip());
        with_port.or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok())
    });
    address.map(|address: IpAddr| address.to_canonical())
}

fn is_hidden_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// A parameter of one element of `Forwarded`.
fn parameter([element, name]: [&str; 2]) -> Option<&str> {
    let pairs = rsplit_unquoted(element, b';');
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// The scheme that the proxy nearest to the edge has written; some write `wss` for WebSockets.
fn scheme_of(headers: &HeaderMap) -> Option<&'static str> {
    let named = if headers.contains_key(&FORWARDED_PROTO) {
        hops(headers, &FORWARDED_PROTO).next()
    } else {
        hops(headers, &FORWARDED).next().and_then(|hop| parameter([hop, "proto"]))
    };
    let named = named?.trim_matches('"');
    let known = [("http", "http"), ("https", "https"), ("ws", "http"), ("wss", "https")];
    let mut known = known.into_iter().filter(|(name, _)| named.eq_ignore_ascii_case(name));
    known.next().map(|(_, scheme)| scheme)
}

/// Sets the fields about the client for a backend. `client` is the one that a trusted proxy names.
pub(crate) fn set_fields(
    headers: &mut HeaderMap,
    conn: &ClientState,
    client: Option<&ForwardedClient>,
    has_forwarded: bool,
) {
    if has_forwarded && !conn.is_proxy_trusted {
        remove_fields(headers);
    }
    let list = forwarded_for(headers, conn);
    headers.insert(FORWARDED_FOR, list);
    let own = if conn.listener.settings.is_tls { "https" } else { "http" };
    match client.and_then(|client| client.scheme) {
        // It stays as the proxy has written it.
        Some(_) if headers.contains_key(&FORWARDED_PROTO) => {}
        scheme => {
            let scheme = scheme.unwrap_or(own);
            headers.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme));
        }
    }
    if has_forwarded && conn.is_proxy_trusted && headers.contains_key(FORWARDED) {
        extend_forwarded(headers, conn);
    }
}

fn remove_fields(headers: &mut HeaderMap) {
    let found: Vec<HeaderName> =
        headers.keys().filter(|name| is_forwarded_field(name.as_str())).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// Appends the address of the connection to those in the request, joining several lines into one.
fn forwarded_for(headers: &HeaderMap, conn: &ClientState) -> HeaderValue {
    if !headers.contains_key(&FORWARDED_FOR) {
        return conn.client_value().clone();
    }
    let mut list = Vec::new();
    for line in headers.get_all(&FORWARDED_FOR) {
        list.extend_from_slice(line.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(conn.client_text().as_bytes());
    HeaderValue::from_bytes(&list).expect("header values and an address form a header value")
}

/// Appends the hop from the proxy to `Forwarded`, so that the list has no gap.
fn extend_forwarded(headers: &mut HeaderMap, conn: &ClientState) {
    let address = conn.client_text();
    let hop = if address.contains(':') {
        format!("for=\"[{address}]\"")
    } else {
        format!("for={address}")
    };
    headers.append(FORWARDED, HeaderValue::try_from(hop).expect("an address is ASCII"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(fields: &[(&'static str, &'static str)]) -> Option<(String, Option<&'static str>)> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        let trusted: Vec<IpNetwork> = IpNetwork::parse("10.0.0.0/8").into_iter().collect();
        let peer = "10.1.0.9".parse().expect("an address");
        client_of(&headers, peer, &trusted).map(|client| (client.text, client.scheme))
    }

    /// dotnet/aspnetcore#36537, xorbitsai/xagent#1185: a client sends the header, and a proxy appends to the
    /// same line.
    #[test]
    fn what_a_client_sends_hides_nothing_that_a_proxy_appends() {
        let (list, forwarded) = ("x-forwarded-for", "forwarded");
        for (fields, expected) in [
            (vec![(list, "\"2.2.2.2, 203.0.113.9")], "203.0.113.9"),
            (vec![(list, "2.2.2.2\", 203.0.113.9, 10.1.0.4")], "203.0.113.9"),
            (vec![(list, "1.1.1.1, [fe80::1%eth0]:80, 203.0.113.9")], "203.0.113.9"),
            (vec![(list, "1.1.1.1, [fe80::1%eth0]:80, 10.1.0.4")], "10.1.0.4"),
            (vec![(list, "2.2\"2.2, 203.0.113.9")], "203.0.113.9"),
            (vec![(list, "é, 203.0.113.9, 10.1.0.4")], "203.0.113.9"),
            (vec![(list, "1.1.1.1, é1.1.1.1, 10.1.0.4")], "10.1.0.4"),
            (vec![(list, "203.0.113.9, 10.1.0.é"), (list, "10.1.0.4")], "10.1.0.4"),
            (vec![(forwarded, "for=\"1.1.1.1, for=203.0.113.9;proto=http")], "203.0.113.9"),
            (vec![(forwarded, r#"for="x\", for="[2001:db8::9]:80""#)], "2001:db8::9"),
            (vec![(forwarded, "host=\"é, x\", for=203.0.113.9")], "203.0.113.9"),
            (vec![("x-real-ip", "1.1.1.1"), ("x-real-ip", "203.0.113.9")], "203.0.113.9"),
        ] {
            let found = client(&fields).map(|(address, _)| address);
            assert_eq!(found.as_deref(), Some(expected), "{fields:?}");
        }
    }

    #[test]
    fn the_last_address_that_is_no_trusted_proxy_is_the_client() {
        let (list, proto, real) = ("x-forwarded-for", "x-forwarded-proto", "x-real-ip");
        for (fields, expected, scheme) in [
            (vec![(list, "203.0.113.9")], "203.0.113.9", None),
            (vec![(list, "1.1.1.1, 203.0.113.9, 10.1.0.4")], "203.0.113.9", None),
            (
                vec![(list, "1.1.1.1"), (list, "203.0.113.9"), (list, "10.1.0.4")],
                "203.0.113.9",
                None,
            ),
            (vec![(list, "203.0.113.9:4711")], "203.0.113.9", None),
            (vec![(list, "[2001:db8::1]:4711")], "2001:db8::1", None),
            (vec![(list, "::ffff:203.0.113.9")], "203.0.113.9", None),
            // All are proxies: the farthest one is as near to the client as can be told.
            (vec![(list, "10.2.0.1, 10.1.0.4")], "10.2.0.1", None),
            // What stands before something unreadable is not believed.
            (vec![(list, "203.0.113.9, unknown, 10.1.0.4")], "10.1.0.4", None),
            (vec![(list, "203.0.113.9"), (proto, "https")], "203.0.113.9", Some("https")),
            (vec![(list, "203.0.113.9"), (proto, "http, https")], "203.0.113.9", Some("https")),
            (vec![(list, "203.0.113.9"), (proto, "gopher")], "203.0.113.9", None),
            (vec![(real, "203.0.113.9")], "203.0.113.9", None),
            (vec![(proto, "https")], "10.1.0.9", Some("https")),
            (
                vec![(
                    "forwarded",
                    "for=1.1.1.1, For=\"[2001:db8::9]:80\";proto=https, for=10.1.0.4;proto=https",
                )],
                "2001:db8::9",
                Some("https"),
            ),
            // dotnet/yarp#763, junkurihara/rust-rpxy PR 619: hidden ports.
            (vec![("forwarded", "for=\"203.0.113.9:_gate\"")], "203.0.113.9", None),
            (vec![("forwarded", "for=\"[2001:db8::9]:_p.1\"")], "2001:db8::9", None),
            // playframework/playframework PR 14084: separators in quotes.
            (
                vec![(
                    "forwarded",
                    r#"for=203.0.113.9;by="_a,b\";x";proto=https, for=10.1.0.4;host="a;b, for=1.1.1.1""#,
                )],
                "203.0.113.9",
                None,
            ),
            // Empty elements.
            (vec![(list, "203.0.113.9, , 10.1.0.4,")], "203.0.113.9", None),
            (vec![(list, ""), (list, "203.0.113.9"), (list, "")], "203.0.113.9", None),
            // rack/rack#1227, un33k/django-ipware PR 87, hoytech/strfry#50, rustfs/rustfs PR 4461.
            (vec![(list, "203.0.113.9:17085, 10.0.0.6")], "203.0.113.9", None),
            (vec![(list, "2001:db8:ca43::aaaa, 10.0.0.1")], "2001:db8:ca43::aaaa", None),
            (
                vec![("forwarded", "for=1.1.1.1;proto=https, for=2001:db8::9;proto=http")],
                "2001:db8::9",
                Some("http"),
            ),
            // traefik/traefik#6388, Kludex/uvicorn PR 2258.
            (vec![(list, "203.0.113.9"), (proto, "wss")], "203.0.113.9", Some("https")),
            (vec![(list, "203.0.113.9"), (proto, "WS")], "203.0.113.9", Some("http")),
        ] {
            assert_eq!(client(&fields), Some((expected.to_owned(), scheme)), "{fields:?}");
        }
        for fields in [
            vec![],
            vec![(list, "unknown")],
            vec![("forwarded", "for=_hidden")],
            vec![("forwarded", "for=\"203.0.113.9:_\"")],
            vec![("forwarded", "for=\"203.0.113.9:-1\"")],
        ] {
            assert_eq!(client(&fields), None, "{fields:?}");
        }
    }
}
