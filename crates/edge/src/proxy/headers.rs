//! Header fields of forwarded requests: hop-by-hop fields are removed (RFC 9110 §7.6.1), forwarded
//! fields set, versions of HTTP translated, and ambiguous requests rejected (RFC 9112 §11.2).
//!
//! The other half of safe framing is hyper's: it parses each message, drops a `Content-Length`
//! beside `Transfer-Encoding`, rejects conflicting lengths, and frames the message itself.

use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue,
    MAX_FORWARDS, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SEC_WEBSOCKET_KEY, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Uri, Version, request};
use hyper::ext::Protocol as ConnectProtocol;

use crate::client::forwarded::{self, ForwardedClient};
use crate::client::state::ClientState;
use crate::pool::backend::Backend;
use crate::proxy::host_name::{is_authority, is_same_host};

pub(crate) const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
/// No field of HTTP: CGI would read it as the variable `HTTP_PROXY`, which names a proxy (CVE-2016-5385).
const PROXY: HeaderName = HeaderName::from_static("proxy");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The only protocol that a connection may switch to. Behind any other one, a client could reach
/// paths of the backend that no route leads to.
const WEBSOCKET: &str = "websocket";
/// Longest request id accepted from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The response text for a request that cannot be forwarded.
pub(crate) type RejectReason = &'static str;

/// Rejects requests that two servers could read in two ways.
pub(crate) fn check(parts: &request::Parts, conn: &ClientState) -> Result<(), RejectReason> {
    if parts.method == Method::CONNECT && !is_websocket_connect(parts) {
        return Err("CONNECT is not supported");
    }
    check_target(parts)?;
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
    if let Some(authority) = parts.uri.authority() {
        if !is_authority(authority.as_str().as_bytes()) {
            return Err("invalid target");
        }
        let is_https = match parts.uri.scheme_str() {
            Some(scheme) => scheme == "https",
            None => conn.listener.settings.is_tls,
        };
        let own = authority.as_str().as_bytes();
        if host.is_some_and(|host| !is_same_host([own, host.as_bytes()], is_https)) {
            return Err("Host does not match the target");
        }
    }
    check_content_length(parts)?;
    check_transfer_encoding(parts)
}

/// Allows a single number: hyper takes several that are equal, and forwards them all.
fn check_content_length(parts: &request::Parts) -> Result<(), RejectReason> {
    let mut lengths = parts.headers.get_all(CONTENT_LENGTH).iter();
    let Some(first) = lengths.next() else { return Ok(()) };
    if lengths.next().is_some() || !first.as_bytes().iter().all(u8::is_ascii_digit) {
        return Err("Content-Length is not one number");
    }
    Ok(())
}

/// Allows paths, and `*` for OPTIONS (RFC 9112 §3.2).
fn check_target(parts: &request::Parts) -> Result<(), RejectReason> {
    if parts.uri.scheme_str().is_some_and(|scheme| scheme != "http" && scheme != "https") {
        return Err("unsupported scheme");
    }
    let path = parts.uri.path();
    let is_asterisk = path == "*" && parts.method == Method::OPTIONS;
    if path.starts_with('/') || is_asterisk { Ok(()) } else { Err("the target is not a path") }
}

/// Makes `*` of the target of a request for the server as a whole.
pub(crate) fn set_whole_server(parts: &mut request::Parts) {
    if parts.method != Method::OPTIONS || parts.uri.path() != "/" || parts.uri.query().is_some() {
        return;
    }
    let mut uri = parts.uri.clone().into_parts();
    uri.path_and_query = Some(PathAndQuery::from_static("*"));
    if let Ok(uri) = Uri::from_parts(uri) {
        parts.uri = uri;
    }
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

/// How a request is forwarded, besides its head.
#[derive(Clone, Copy)]
pub(crate) struct ForwardedRequest<'a> {
    pub(crate) conn: &'a ClientState,
    /// The client that a trusted proxy names.
    pub(crate) client: Option<&'a ForwardedClient>,
    /// Whether the connection is to become a WebSocket.
    pub(crate) is_websocket: bool,
    pub(crate) request_id: &'a HeaderValue,
}

/// Rewrites a head for the backend.
pub(crate) fn prepare(parts: &mut request::Parts, request: ForwardedRequest<'_>) {
    if let Some(host) = own_host(parts) {
        parts.headers.insert(HOST, host);
    }
    let headers = &mut parts.headers;
    let takes_trailers = headers
        .get(TE)
        .is_some_and(|te| te.to_str().is_ok_and(|te| te.to_ascii_lowercase().contains("trailers")));
    let odd = strip_hop_by_hop(headers);
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if odd.has_lookalike {
        drop_lookalikes(headers);
    }
    if request.is_websocket {
        headers.insert(UPGRADE, HeaderValue::from_static(WEBSOCKET));
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    forwarded::set_fields(headers, request.conn, request.client, odd.has_forwarded);
    headers.insert(REQUEST_ID, request.request_id.clone());
    if is_counted(&parts.method) {
        count_hop(headers);
    }
    if parts.version == Version::HTTP_2 {
        join_cookies(&mut parts.headers);
    }
    parts.version = Version::HTTP_11;
    if parts.uri.scheme().is_some() || parts.uri.authority().is_some() {
        parts.uri = origin_form(&parts.uri);
    }
}

/// Whether requests of this method may say how many proxies forward them (RFC 9110 §7.6.2).
fn is_counted(method: &Method) -> bool {
    matches!(*method, Method::OPTIONS | Method::TRACE)
}

fn forwards_left(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(MAX_FORWARDS)?.to_str().ok()?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // More hops than any number holds are still many.
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

fn count_hop(headers: &mut HeaderMap) {
    if let Some(left) = forwards_left(headers) {
        headers.insert(MAX_FORWARDS, HeaderValue::from(left.saturating_sub(1)));
    }
}

/// Whether the client wants the edge itself to answer.
pub(crate) fn is_for_edge(parts: &request::Parts) -> bool {
    is_counted(&parts.method) && forwards_left(&parts.headers) == Some(0)
}

/// Fields of a head, with all cookies as the one that they become.
pub(crate) fn count_fields(parts: &request::Parts) -> usize {
    let cookies = parts.headers.get_all(COOKIE).iter().count();
    parts.headers.len() - cookies.saturating_sub(1)
}

/// Joins the cookies that HTTP/2 has split into several fields (RFC 9113 §8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(COOKIE).iter();
    let (Some(first), Some(second)) = (cookies.next(), cookies.next()) else { return };
    let mut joined = first.as_bytes().to_vec();
    for cookie in std::iter::once(second).chain(cookies) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(cookie.as_bytes());
    }
    let joined = HeaderValue::from_bytes(&joined).expect("joined header values are one");
    headers.insert(COOKIE, joined);
}

/// The host of an absolute or HTTP/2 target, which replaces `Host` (RFC 9112 §3.2.2).
fn own_host(parts: &request::Parts) -> Option<HeaderValue> {
    HeaderValue::try_from(parts.uri.authority()?.as_str()).ok()
}

/// Moves the host where the protocol expects it: `Host`, or the target (RFC 9113 §8.3.1). A client
/// with HTTP/1.0 may have sent none; the backend's own name stands for it.
pub(crate) fn set_target(parts: &mut request::Parts, backend: &Backend) {
    if !parts.headers.contains_key(HOST)
        && let Ok(own) = HeaderValue::try_from(backend.authority.as_str())
    {
        parts.headers.insert(HOST, own);
    }
    let protocol = backend.protocol;
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

/// Announces a body of unknown length where hyper takes it for absent, and drops it (RFC 9112 §6.1), and
/// the absence of one where a backend expects one: clients with HTTP/2 need not (RFC 9110 §8.6).
pub(crate) fn announce_body(parts: &mut request::Parts, has_body: bool) {
    let (name, value) = match (&parts.method, has_body) {
        (&Method::GET | &Method::HEAD, true) => (TRANSFER_ENCODING, "chunked"),
        (&Method::POST | &Method::PUT | &Method::PATCH, false) => (CONTENT_LENGTH, "0"),
        _ => return,
    };
    if !parts.headers.contains_key(CONTENT_LENGTH) {
        parts.headers.insert(name, HeaderValue::from_static(value));
    }
}

fn origin_form(uri: &Uri) -> Uri {
    let target = uri.path_and_query().cloned();
    target.map_or_else(|| Uri::from_static("/"), Uri::from)
}

/// Whether the edge removes all transfer codings of a response (RFC 9112 §6.1): it has asked for none
/// but `chunked`.
pub(crate) fn has_known_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked =
        codings.next().is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    is_chunked && codings.next().is_none()
}

/// Leaves one length in a response, or none with a transfer coding (RFC 9112 §6.3). hyper has compared
/// several, and reads a coded body by its coding.
pub(crate) fn unify_length(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
        return;
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let Some(first) = lengths.next() else { return };
    if lengths.next().is_none() && first.as_bytes().iter().all(u8::is_ascii_digit) {
        return;
    }
    let number = first.as_bytes().split(|byte| *byte == b',').next().unwrap_or_default();
    match HeaderValue::from_bytes(number.trim_ascii()) {
        Ok(length) => headers.insert(CONTENT_LENGTH, length),
        Err(_) => headers.remove(CONTENT_LENGTH),
    };
}

/// Fields that most heads lack and that need a second look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OddFields {
    /// A name with `_` may imitate a trusted field.
    has_lookalike: bool,
    /// Fields about the client that proxies add.
    has_forwarded: bool,
}

/// Removes hop-by-hop fields and the fields that `Connection` names. `Trailer` stays: it describes
/// the message, and hyper sends only the trailers that it announces.
///
/// Most heads contain none of these, and one pass over the names finds out.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) -> OddFields {
    let (mut has_connection, mut has_hop, mut odd) = (false, false, OddFields::default());
    for name in headers.keys() {
        let name = name.as_str();
        match name {
            "connection" => has_connection = true,
            "keep-alive"
            | "proxy-connection"
            | "te"
            | "transfer-encoding"
            | "upgrade"
            | "http2-settings"
            | "proxy"
            | "proxy-authenticate"
            | "proxy-authorization" => has_hop = true,
            _ if name.contains('_') => odd.has_lookalike = true,
            _ => odd.has_forwarded |= forwarded::is_forwarded_field(name),
        }
    }
    if has_connection {
        remove_named(headers);
    }
    let hops = [
        KEEP_ALIVE,
        PROXY_CONNECTION,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
        HTTP2_SETTINGS,
        PROXY,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
    ];
    for name in hops.iter().filter(|_| has_hop) {
        headers.remove(name);
    }
    odd
}

/// Whether a body is a stream of gRPC's messages.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Whether a response sends its parts when something happens, and is silent otherwise.
pub(crate) fn is_stream(headers: &HeaderMap) -> bool {
    const KINDS: [&[u8]; 3] =
        [b"text/event-stream", b"multipart/x-mixed-replace", b"application/x-ndjson"];
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let is_events = KINDS.iter().any(|known| {
        kind.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known))
    });
    is_events || is_grpc(headers)
}

/// Whether `Connection` says that this message is the last one.
pub(crate) fn says_close(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case("close"))
}

/// Removes `Connection` and the fields that it names.
fn remove_named(headers: &mut HeaderMap) {
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
        .filter(|name| *name != HOST && !is_trusted_field(name.as_str()))
        .collect();
    for name in named {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
}

/// Whether backends trust a field to be the edge's.
fn is_trusted_field(name: &str) -> bool {
    name == REQUEST_ID.as_str() || forwarded::is_forwarded_field(name)
}

/// Drops names that CGI and WSGI read as a trusted field, because both spellings are `HTTP_X_…`
/// there.
fn drop_lookalikes(headers: &mut HeaderMap) {
    let found: Vec<HeaderName> =
        headers.keys().filter(|name| is_lookalike(name)).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

fn is_lookalike(name: &HeaderName) -> bool {
    let name = name.as_str();
    let dashed = name.replace('_', "-");
    name.contains('_')
        && (is_trusted_field(&dashed)
            || [HOST.as_str(), CONTENT_LENGTH.as_str(), TRANSFER_ENCODING.as_str()]
                .contains(&dashed.as_str()))
}

/// Removes trailers that a receiver could merge into the head to change how it reads the message,
/// or which peers it trusts (RFC 9110 §6.5.1).
pub(crate) fn clean_trailers(trailers: &mut HeaderMap) {
    drop_lookalikes(trailers);
    strip_hop_by_hop(trailers);
    let found: Vec<HeaderName> = trailers
        .keys()
        .filter(|name| {
            is_trusted_field(name.as_str()) || [HOST, CONTENT_LENGTH, COOKIE].contains(name)
        })
        .cloned()
        .collect();
    for name in found {
        trailers.remove(name);
    }
}

/// Whether the request asks for a WebSocket over HTTP/1.1, which a GET does (RFC 6455 §4.1). Requests
/// for other protocols are answered as if they had not asked.
pub(crate) fn wants_websocket(parts: &request::Parts) -> bool {
    parts.version == Version::HTTP_11
        && parts.method == Method::GET
        && parts.headers.contains_key(UPGRADE)
        && is_websocket(&parts.headers)
        && parts.headers.get_all(CONNECTION).iter().any(|value| {
            value.to_str().is_ok_and(|value| {
                value.split(',').any(|token| token.trim().eq_ignore_ascii_case("upgrade"))
            })
        })
}

/// Whether `Upgrade` names the protocol `websocket` and nothing else.
pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    let mut protocols = headers.get_all(UPGRADE).iter();
    let first = protocols.next();
    first.is_some_and(|one| one.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()))
        && protocols.next().is_none()
}

/// Whether this is a WebSocket over HTTP/2 (RFC 8441).
pub(crate) fn is_websocket_connect(parts: &request::Parts) -> bool {
    parts.method == Method::CONNECT
        && parts.extensions.get::<ConnectProtocol>().is_some_and(|one| one.as_str() == WEBSOCKET)
}

/// Turns a WebSocket over HTTP/2 into the request that HTTP/1.1 has for it. `key` is 16 random
/// bytes in Base64, which prove nothing over HTTP/2 and are therefore absent there.
pub(crate) fn translate_connect(parts: &mut request::Parts, key: HeaderValue) {
    parts.method = Method::GET;
    parts.headers.insert(SEC_WEBSOCKET_KEY, key);
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
    use crate::client::state::ConnectionPeer;
    use crate::settings::listener::ListenerSettings;
    use http::Request;
    use std::sync::Arc;

    fn conn() -> ClientState {
        let settings = ListenerSettings::parse("127.0.0.1:80", false, 1).unwrap();
        let listener = Arc::new(Listener::new(settings.clone(), settings.address, Arc::default()));
        let (client, server) = ("192.0.2.7:5000".parse().unwrap(), settings.address);
        ClientState::new(listener, ConnectionPeer { client, server, is_trusted: false }, false)
    }

    fn parts(target: &str, headers: &[(&'static str, &'static str)]) -> request::Parts {
        let mut parts = Request::builder().uri(target).body(()).unwrap().into_parts().0;
        for (name, value) in headers {
            parts.headers.append(*name, HeaderValue::from_static(value));
        }
        parts
    }

    fn prepared(headers: &[(&'static str, &'static str)], is_websocket: bool) -> String {
        let mut parts = parts("/x?y", headers);
        let (conn, id) = (conn(), HeaderValue::from_static("id"));
        let request = ForwardedRequest { conn: &conn, client: None, is_websocket, request_id: &id };
        prepare(&mut parts, request);
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
            ("proxy", "192.0.2.9:3128"),
            ("x-forwarded-for", "198.51.100.9"),
            ("x_forwarded_for", "1.1.1.1"),
            ("x_request_id", "forged"),
            ("x_own", "stays"),
        ];
        expect_test::expect![[r"
            host: a
            te: trailers
            x-forwarded-for: 192.0.2.7
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
        assert!(wants_websocket(&parts("/", &headers)));
        assert!(!wants_websocket(&parts("/", &headers[..2])));
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
            assert!(check(&parts(target, &headers), &conn()).is_err(), "{target} {headers:?}");
        }
        for (target, headers) in [
            ("/", vec![host]),
            ("http://a:80/", vec![("host", "A:80")]),
            ("/", vec![("host", "[::1]:80"), ("transfer-encoding", "chunked")]),
        ] {
            assert!(check(&parts(target, &headers), &conn()).is_ok(), "{target} {headers:?}");
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
