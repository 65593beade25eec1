//! Header fields of forwarded requests: hop-by-hop fields are removed (RFC 9110 §7.6.1), forwarded
//! fields added, and ambiguous requests rejected (RFC 9112 §11.2).
//!
//! The other half of safe framing is hyper's: it parses each message, drops a `Content-Length`
//! beside `Transfer-Encoding`, rejects conflicting lengths, and frames the message itself.

use http::header::{
    CONNECTION, CONTENT_TYPE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Uri, Version, request};

use crate::client::state::ClientState;
use crate::settings::destination::Protocol;

pub(crate) const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Fields that backends trust. CGI and WSGI read the spelling with `_` as the same field
/// (`HTTP_X_…`).
const TRUSTED: [HeaderName; 4] = [FORWARDED_FOR, FORWARDED_PROTO, FORWARDED_HOST, REQUEST_ID];
/// Longest request id accepted from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The response text for a request that cannot be forwarded.
pub(crate) type RejectReason = &'static str;

/// Rejects requests that two servers could read in two ways.
pub(crate) fn check(parts: &request::Parts) -> Result<(), RejectReason> {
    if parts.method == Method::CONNECT {
        return Err("CONNECT is not supported");
    }
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err("more than one Host");
    }
    match (host, parts.version) {
        (Some(host), _) if !is_authority(host.as_bytes()) => return Err("invalid Host"),
        (None, Version::HTTP_11) => return Err("missing Host"),
        (None, Version::HTTP_2) if parts.uri.host().is_none() => return Err("missing :authority"),
        _ => {}
    }
    if let (Some(authority), Some(host)) = (parts.uri.authority(), host)
        && !authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes())
    {
        return Err("Host does not match the target");
    }
    if parts.uri.scheme_str().is_some_and(|scheme| scheme != "http" && scheme != "https") {
        return Err("unsupported scheme");
    }
    check_transfer_encoding(parts)
}

/// Allows a single `chunked` only: servers disagree about other codings and combinations.
fn check_transfer_encoding(parts: &request::Parts) -> Result<(), RejectReason> {
    let mut codings = parts.headers.get_all(TRANSFER_ENCODING).iter();
    let Some(first) = codings.next() else { return Ok(()) };
    if codings.next().is_some() || !first.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err("Transfer-Encoding is not chunked");
    }
    Ok(())
}

/// Whether this is a host with an optional port, and not a path, a user or a list.
fn is_authority(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes.len() <= 255
        && bytes.iter().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']')
        })
}

/// Rewrites a head for the backend; keeps the upgrade fields if `wants_upgrade`.
pub(crate) fn prepare(
    parts: &mut request::Parts,
    conn: &ClientState,
    wants_upgrade: bool,
    request_id: &HeaderValue,
) {
    let host = own_host(parts);
    let headers = &mut parts.headers;
    let upgrade = if wants_upgrade { headers.get(UPGRADE).cloned() } else { None };
    let has_trailers = headers
        .get(TE)
        .is_some_and(|te| te.to_str().is_ok_and(|te| te.to_ascii_lowercase().contains("trailers")));
    let has_lookalike = strip_hop_by_hop(headers);
    if has_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    headers.remove(EXPECT);
    if has_lookalike {
        drop_lookalikes(headers);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(UPGRADE, upgrade);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    if let Some(host) = host {
        headers.insert(HOST, host);
    }
    let client = forwarded_for(headers, conn);
    headers.insert(FORWARDED_FOR, client);
    let scheme = if conn.listener.settings.is_tls { "https" } else { "http" };
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme));
    headers.insert(REQUEST_ID, request_id.clone());
    parts.version = Version::HTTP_11;
    if parts.uri.scheme().is_some() {
        parts.uri = origin_form(&parts.uri);
    }
}

/// Appends the client's address to those in the request, joining several lines into one.
fn forwarded_for(headers: &HeaderMap, conn: &ClientState) -> HeaderValue {
    if !headers.contains_key(&FORWARDED_FOR) {
        return conn.client_value().clone();
    }
    let before = headers.get_all(&FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let mut list = before.fold(String::new(), |list, value| list + value + ", ");
    list.push_str(conn.client_text());
    HeaderValue::try_from(list).expect("header values and an address form a header value")
}

/// The host of an absolute or HTTP/2 target, if there is no `Host` field.
fn own_host(parts: &request::Parts) -> Option<HeaderValue> {
    if parts.headers.contains_key(HOST) {
        return None;
    }
    HeaderValue::try_from(parts.uri.authority()?.as_str()).ok()
}

/// Moves the host where the protocol expects it: `Host`, or the target (RFC 9113 §8.3.1).
pub(crate) fn set_target(parts: &mut request::Parts, protocol: Protocol) {
    if !protocol.is_h2() {
        return;
    }
    parts.version = Version::HTTP_2;
    let host = parts.headers.remove(HOST);
    parts.headers.remove(CONNECTION);
    parts.headers.remove(UPGRADE);
    let authority = host.as_ref().map_or(&b"localhost"[..], HeaderValue::as_bytes);
    let mut target = parts.uri.clone().into_parts();
    target.scheme = Some(if protocol.is_tls() { Scheme::HTTPS } else { Scheme::HTTP });
    target.authority = Authority::try_from(authority).ok();
    if target.path_and_query.is_none() {
        target.path_and_query = Some(PathAndQuery::from_static("/"));
    }
    // `check` has rejected hosts that cannot be in a target.
    parts.uri = Uri::from_parts(target).unwrap_or_default();
}

fn origin_form(uri: &Uri) -> Uri {
    let target = uri.path_and_query().cloned();
    target.map_or_else(|| Uri::from_static("/"), Uri::from)
}

/// Removes hop-by-hop fields and the fields that `Connection` names; returns whether a name with
/// `_` may imitate a trusted field.
///
/// Most heads contain none of these, and one pass over the names finds out.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) -> bool {
    let (mut has_connection, mut has_hop, mut has_lookalike) = (false, false, false);
    for name in headers.keys() {
        let name = name.as_str();
        match name {
            "connection" => has_connection = true,
            "keep-alive"
            | "proxy-connection"
            | "te"
            | "transfer-encoding"
            | "upgrade"
            | "trailer"
            | "proxy-authenticate"
            | "proxy-authorization" => has_hop = true,
            _ => has_lookalike |= name.starts_with('x') && name.contains('_'),
        }
    }
    if has_connection {
        let named: Vec<HeaderName> = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(',').map(str::trim))
            // The usual options are not field names.
            .filter(|name| !name.eq_ignore_ascii_case("keep-alive"))
            .filter(|name| !name.eq_ignore_ascii_case("close"))
            .filter_map(|name| HeaderName::try_from(name).ok())
            // A client must not remove fields that the edge or the backend relies on.
            .filter(|name| *name != HOST && !TRUSTED.contains(name))
            .collect();
        for name in named {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    let hops = [
        KEEP_ALIVE,
        PROXY_CONNECTION,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
        TRAILER,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
    ];
    for name in hops.iter().filter(|_| has_hop) {
        headers.remove(name);
    }
    has_lookalike
}

fn drop_lookalikes(headers: &mut HeaderMap) {
    let found: Vec<HeaderName> =
        headers.keys().filter(|name| is_lookalike(name)).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

fn is_lookalike(name: &HeaderName) -> bool {
    name.as_str().contains('_')
        && TRUSTED.iter().any(|one| one.as_str() == name.as_str().replace('_', "-"))
}

/// Whether the request asks for a protocol upgrade.
pub(crate) fn wants_upgrade(parts: &request::Parts) -> bool {
    parts.version == Version::HTTP_11
        && parts.headers.contains_key(UPGRADE)
        && parts.headers.get_all(CONNECTION).iter().any(|value| {
            value.to_str().is_ok_and(|value| {
                value.split(',').any(|token| token.trim().eq_ignore_ascii_case("upgrade"))
            })
        })
}

/// The client's request id, if it is printable and short enough for logs.
pub(crate) fn given_request_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(&REQUEST_ID).filter(|id| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&id.len())
            && id.as_bytes().iter().all(u8::is_ascii_graphic)
    })
}

/// Adds the request id to a page (Server Timing, W3C), so that its beacons can refer to it.
pub(crate) fn add_server_timing(headers: &mut HeaderMap, id: Option<&HeaderValue>) {
    let is_page =
        headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if let Some(id) = id.filter(|_| is_page).and_then(|id| id.to_str().ok())
        && !id.contains(['"', '\\'])
        && let Ok(value) = HeaderValue::try_from(format!("weir;desc=\"{id}\""))
    {
        headers.append("server-timing", value);
    }
}

/// The seconds of `Keep-Alive: timeout=5`, the idle timeout that a backend announces.
pub(crate) fn keep_alive_timeout(value: &HeaderValue) -> Option<u64> {
    let parameters = value.to_str().ok()?.split(',');
    parameters.filter_map(|one| one.trim().strip_prefix("timeout=")).find_map(|n| n.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::listener::Listener;
    use crate::settings::listener::ListenerSettings;
    use http::Request;
    use std::sync::Arc;

    fn conn() -> ClientState {
        let settings = ListenerSettings::parse("127.0.0.1:80", false, 1).unwrap();
        let listener = Arc::new(Listener::new(settings.clone(), settings.address, Arc::default()));
        ClientState::new(listener, "192.0.2.7:5000".parse().unwrap(), false)
    }

    fn parts(target: &str, headers: &[(&'static str, &'static str)]) -> request::Parts {
        let mut parts = Request::builder().uri(target).body(()).unwrap().into_parts().0;
        for (name, value) in headers {
            parts.headers.append(*name, HeaderValue::from_static(value));
        }
        parts
    }

    fn prepared(headers: &[(&'static str, &'static str)], is_upgrade: bool) -> String {
        let mut parts = parts("/x?y", headers);
        prepare(&mut parts, &conn(), is_upgrade, &HeaderValue::from_static("id"));
        let lines = parts
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines.join("\n")
    }

    #[test]
    fn hop_by_hop_fields_are_removed() {
        let headers = [
            ("host", "a"),
            ("connection", "close, X-Secret, X-Forwarded-For, Host"),
            ("x-secret", "1"),
            ("keep-alive", "5"),
            ("te", "trailers, gzip"),
            ("upgrade", "h2c"),
            ("proxy-connection", "x"),
            ("x-forwarded-for", "198.51.100.9"),
            ("x_forwarded_for", "1.1.1.1"),
            ("x_request_id", "forged"),
            ("x_own", "stays"),
            ("expect", "100-continue"),
        ];
        expect_test::expect![[r"
            host: a
            te: trailers
            x-forwarded-for: 198.51.100.9, 192.0.2.7
            x-forwarded-proto: http
            x-request-id: id
            x_own: stays"]]
        .assert_eq(&prepared(&headers, false));
    }

    #[test]
    fn an_upgrade_is_forwarded() {
        let headers = [("host", "a"), ("connection", "Upgrade"), ("upgrade", "websocket")];
        let text = prepared(&headers, true);
        assert!(text.contains("connection: upgrade\n") && text.contains("upgrade: websocket"));
        assert!(wants_upgrade(&parts("/", &headers)));
        assert!(!wants_upgrade(&parts("/", &headers[..2])));
    }

    #[test]
    fn requests_that_could_be_read_in_two_ways_are_refused() {
        let host = ("host", "a");
        for (target, headers) in [
            ("/", vec![]),
            ("/", vec![host, host]),
            ("/", vec![("host", "a, b")]),
            ("/", vec![("host", "a/../b")]),
            ("/", vec![("host", "user@a")]),
            ("/", vec![("host", "")]),
            ("http://b/", vec![host]),
            ("ftp://a/", vec![host]),
            ("/", vec![host, ("transfer-encoding", "gzip, chunked")]),
            ("/", vec![host, ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")]),
            ("/", vec![host, ("transfer-encoding", "xchunked")]),
        ] {
            assert!(check(&parts(target, &headers)).is_err(), "{target} {headers:?}");
        }
        for (target, headers) in [
            ("/", vec![host]),
            ("http://a:80/", vec![("host", "A:80")]),
            ("/", vec![("host", "[::1]:80"), ("transfer-encoding", "chunked")]),
        ] {
            assert!(check(&parts(target, &headers)).is_ok(), "{target} {headers:?}");
        }
    }

    #[test]
    fn only_pages_get_the_request_id() {
        for (kind, id, expected) in [
            ("text/html; charset=utf-8", "x1", Some("weir;desc=\"x1\"")),
            ("image/png", "x1", None),
            ("text/html", "a\"b", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            add_server_timing(&mut headers, Some(&HeaderValue::from_static(id)));
            let timing = headers.get("server-timing").map(|value| value.to_str().unwrap());
            assert_eq!(timing, expected);
        }
    }

    #[test]
    fn a_backend_announces_its_idle_timeout() {
        for (text, expected) in [("timeout=5, max=100", Some(5)), ("max=100", None)] {
            assert_eq!(keep_alive_timeout(&HeaderValue::from_static(text)), expected);
        }
    }
}
