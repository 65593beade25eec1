//! Beacons: measurements from a browser in a query or body, answered as cheaply as possible.
//!
//! GET returns a 43-byte image, or 204 with the parameter `e`. POST (`navigator.sendBeacon`, any
//! origin) returns 204; each line of its body is a beacon. The parameters are the columns of table
//! `beacon`, times in milliseconds.

use std::borrow::Cow;
use std::pin::Pin;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT,
};
use http::{Method, Response, StatusCode, request};
use http_body::Body;
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use weir_tables::Beacon;

use crate::client::session::{ClientSession, OpenRecord};
use crate::client::state::ClientState;
use crate::proxy::own_response::own_response;
use crate::proxy::response_body::ResponseBody;
use crate::record::RequestFailure;
use crate::time::MonoTime;

/// A transparent pixel, the smallest image that every browser accepts.
const GIF: &[u8; 43] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff\x21\xf9\x04\x01\0\0\0\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b";
/// The script that sends beacons.
pub const SCRIPT: &str = include_str!("weir.js");
/// Largest body of a POST, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Most beacons in one body.
const LINES_MAX: usize = 64;
/// Longer page timings are implausible.
const HOUR_MS: f64 = 3_600_000.0;
/// Substrings of user agents of bots.
const BOTS: [&[u8]; 8] =
    [b"bot", b"crawl", b"spider", b"curl/", b"wget", b"python", b"headless", b"http-client"];

/// Answers a request to the beacon path with any method but POST.
pub(crate) fn answer(
    session: &ClientSession,
    record: OpenRecord,
    parts: request::Parts,
) -> Response<ResponseBody> {
    let mut record = record;
    record.is_beacon = true;
    match parts.method {
        _ if parts.uri.path().ends_with("/weir.js") => script(record),
        Method::GET | Method::HEAD => {
            let query = parts.uri.query().unwrap_or_default();
            let (network, agent) = (record.network(), agent(&parts.headers));
            let is_empty = keep(session, BeaconSender { network, agent }, record.head, query);
            if is_empty {
                no_content(record, parts.headers)
            } else {
                picture(record, parts.headers)
            }
        }
        Method::OPTIONS => no_content(record, parts.headers),
        _ => own_response(record, StatusCode::METHOD_NOT_ALLOWED, "beacons must be GET or POST"),
    }
}

/// Answers a POST to the beacon path.
pub(crate) async fn answer_post(
    session: &ClientSession,
    mut record: OpenRecord,
    parts: request::Parts,
    body: Incoming,
) -> Response<ResponseBody> {
    record.is_beacon = true;
    match read(body, &session.conn).await {
        Ok(text) => {
            let now = MonoTime::now();
            let sender = BeaconSender { network: record.network(), agent: agent(&parts.headers) };
            for line in text.lines().filter(|line| !line.is_empty()).take(LINES_MAX) {
                keep(session, sender, now, line);
            }
            no_content(record, parts.headers)
        }
        Err(failure) => {
            record.failure = Some(failure);
            own_response(record, StatusCode::PAYLOAD_TOO_LARGE, failure.as_str())
        }
    }
}

fn agent(headers: &HeaderMap) -> Option<&str> {
    headers.get(USER_AGENT).and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
}

/// Builds a response in the request's header map, which hyper reuses for the next request; this
/// saves an allocation.
fn response_in(mut headers: HeaderMap, body: Option<Bytes>) -> Response<ResponseBody> {
    headers.clear();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let mut response = Response::new(ResponseBody::Own(body));
    *response.headers_mut() = headers;
    response
}

fn picture(mut record: OpenRecord, headers: HeaderMap) -> Response<ResponseBody> {
    record.status = 200;
    record.body_bytes = GIF.len() as u64;
    let mut response = response_in(headers, Some(Bytes::from_static(GIF)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("image/gif"));
    record.finish();
    response
}

fn no_content(mut record: OpenRecord, headers: HeaderMap) -> Response<ResponseBody> {
    record.status = 204;
    let mut response = response_in(headers, None);
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("content-type"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    record.finish();
    response
}

fn script(mut record: OpenRecord) -> Response<ResponseBody> {
    record.status = 200;
    record.body_bytes = SCRIPT.len() as u64;
    let mut response =
        Response::new(ResponseBody::Own(Some(Bytes::from_static(SCRIPT.as_bytes()))));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/javascript"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
    record.finish();
    response
}

/// Reads the whole body as text, replacing invalid UTF-8.
async fn read(mut body: Incoming, conn: &ClientState) -> Result<String, RequestFailure> {
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| RequestFailure::ClientClosed)?;
        if frame.is_trailers() {
            conn.note_trailers();
        }
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        if bytes.len() > BODY_BYTES_MAX {
            return Err(RequestFailure::BodyTooLarge);
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Where a beacon comes from.
#[derive(Clone, Copy)]
struct BeaconSender<'a> {
    network: &'a str,
    agent: Option<&'a str>,
}

/// Records one beacon; returns whether its client wants no image.
fn keep(session: &ClientSession, sender: BeaconSender<'_>, now: MonoTime, query: &str) -> bool {
    let (params, agent) = (BeaconParams::parse(query), sender.agent);
    let is_bot = agent.is_none_or(|agent| session.is_bot(agent, is_bot));
    let row = params.row(sender.network, agent, is_bot);
    session.worker.recorder.borrow_mut().record_beacon(now, &row);
    params.wants_no_content
}

/// The parameters of a beacon.
#[derive(Debug, Default)]
struct BeaconParams<'a> {
    site: Option<Cow<'a, str>>,
    page: Option<Cow<'a, str>>,
    visit: Option<Cow<'a, str>>,
    request_id: Option<Cow<'a, str>>,
    kind: &'static str,
    sequence: Option<i64>,
    visible: Option<f64>,
    /// DNS, connect, first byte, last byte, document ready, load, first paint, largest paint,
    /// interaction; milliseconds.
    times: [Option<f64>; 9],
    layout_shift: Option<f64>,
    wants_no_content: bool,
    is_absurd: bool,
}

impl<'a> BeaconParams<'a> {
    fn parse(query: &'a str) -> Self {
        let mut params = Self { kind: "other", ..Self::default() };
        let mut rest = query;
        while !rest.is_empty() {
            let end = ampersand(rest.as_bytes());
            let pair = &rest[..end];
            // Parameter names have one or two letters.
            if let [name, b'=', ..] = pair.as_bytes() {
                params.take(&[*name], &pair[2..]);
            } else if let [first, second, b'=', ..] = pair.as_bytes() {
                params.take(&[*first, *second], &pair[3..]);
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        params.validate_times();
        params
    }

    fn take(&mut self, name: &[u8], value: &'a str) {
        match name {
            b"h" => self.site = short(value, 255),
            b"p" => self.page = short(value, 2048),
            b"v" => self.visit = short(value, 64),
            b"i" => self.request_id = short(value, 128),
            b"n" => self.sequence = value.parse().ok().filter(|n| (0..1 << 40).contains(n)),
            b"e" => self.wants_no_content = true,
            b"k" => {
                let kinds = ["load", "ping", "end"];
                self.kind = kinds.into_iter().find(|kind| *kind == value).unwrap_or("other");
            }
            b"s" => self.visible = self.time(value).map(|ms| ms / 1000.0),
            b"ls" => self.layout_shift = number(value).filter(|n| (0.0..1e6).contains(n)),
            b"d" => self.times[0] = self.time(value),
            b"c" => self.times[1] = self.time(value),
            b"b" => self.times[2] = self.time(value),
            b"r" => self.times[3] = self.time(value),
            b"o" => self.times[4] = self.time(value),
            b"l" => self.times[5] = self.time(value),
            b"fp" => self.times[6] = self.time(value),
            b"lp" => self.times[7] = self.time(value),
            b"ix" => self.times[8] = self.time(value),
            _ => {}
        }
    }

    /// Parses milliseconds. Negative values and those over a day are implausible; a page may be
    /// visible for hours.
    fn time(&mut self, text: &str) -> Option<f64> {
        let ms = number(text)?;
        let is_sane = (0.0..HOUR_MS * 24.0).contains(&ms);
        self.is_absurd |= !is_sane;
        is_sane.then_some(ms)
    }

    /// Drops all times if they are out of order: the browser's clock has jumped.
    fn validate_times(&mut self) {
        let is_late = self.times.iter().flatten().any(|ms| *ms > HOUR_MS);
        if is_late || !self.times[2..6].iter().flatten().is_sorted() {
            self.is_absurd = true;
        }
        if self.is_absurd {
            self.times = [None; 9];
        }
    }

    fn row<'b>(&'b self, network: &'b str, agent: Option<&'b str>, is_bot: bool) -> Beacon<'b> {
        let [
            dns,
            connect,
            first_byte,
            response,
            dom_ready,
            load,
            first_paint,
            largest,
            interaction,
        ] = self.times.map(|time| time.map(|ms| ms / 1000.0));
        Beacon {
            site: self.site.as_deref(),
            page: self.page.as_deref(),
            visit: self.visit.as_deref(),
            sequence: self.sequence,
            kind: self.kind,
            visible_seconds: self.visible,
            client_address: network,
            user_agent_original: agent,
            is_bot,
            is_absurd: self.is_absurd,
            dns_seconds: dns,
            connect_seconds: connect,
            first_byte_seconds: first_byte,
            response_seconds: response,
            dom_ready_seconds: dom_ready,
            load_seconds: load,
            first_paint_seconds: first_paint,
            largest_paint_seconds: largest,
            interaction_seconds: interaction,
            layout_shift: self.layout_shift,
            request_id: self.request_id.as_deref(),
            ..Beacon::default()
        }
    }
}

/// The position of the first `&`, or the end. Searches eight bytes at a time, because this search
/// is most of the work of parsing a query.
fn ampersand(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let words = bytes.as_chunks::<8>().0;
    for (at, word) in words.iter().enumerate() {
        // A byte is 0 where it was an `&`; the subtraction then borrows into its highest bit.
        let word = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'&'));
        let found = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if found > 0 {
            return at * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let rest = &bytes[words.len() * 8..];
    words.len() * 8 + rest.iter().position(|byte| *byte == b'&').unwrap_or(rest.len())
}

/// Parses a number; fast for whole numbers of a few digits, which most are.
fn number(text: &str) -> Option<f64> {
    if !(1..=9).contains(&text.len()) {
        return text.parse().ok();
    }
    let mut number = 0;
    for byte in text.bytes() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return text.parse().ok();
        }
        number = number * 10 + u32::from(digit);
    }
    Some(number.into())
}

/// A decoded value, unless it is empty or too long. Most values need no decoding and no copy.
fn short(value: &str, bytes_max: usize) -> Option<Cow<'_, str>> {
    if value.is_empty() || value.len() > bytes_max * 3 {
        return None;
    }
    let text = if value.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        Cow::Owned(decoded(value))
    } else {
        Cow::Borrowed(value)
    };
    (text.len() <= bytes_max).then_some(text)
}

/// Decodes a form value (URL Standard §5.1): `+` is a space, `%2F` a slash; invalid UTF-8 is
/// replaced.
fn decoded(value: &str) -> String {
    let spaced =
        if value.contains('+') { value.replace('+', " ").into() } else { Cow::Borrowed(value) };
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// Whether a user agent identifies itself as a bot.
fn is_bot(agent: &str) -> bool {
    let bytes = agent.as_bytes();
    (0..bytes.len()).any(|at| {
        matches!(bytes[at] | 0x20, b'b' | b'c' | b's' | b'w' | b'p' | b'h')
            && BOTS.iter().any(|bot| {
                bytes[at..].get(..bot.len()).is_some_and(|part| part.eq_ignore_ascii_case(bot))
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_columns() {
        let params = BeaconParams::parse(
            "h=example.org&e=&p=%2Fa%20b&v=x1&n=4&k=load&s=15000&d=1&c=2&b=80&r=90.5&o=200&l=300&ls=0.05&zz=1",
        );
        let row = params.row("192.0.2.0", Some("Mozilla/5.0"), false);
        assert_eq!(
            (row.site, row.page, row.visit),
            (Some("example.org"), Some("/a b"), Some("x1"))
        );
        assert_eq!((row.sequence, row.kind, row.visible_seconds), (Some(4), "load", Some(15.0)));
        assert_eq!((row.response_seconds, row.load_seconds), (Some(0.0905), Some(0.3)));
        assert_eq!((row.layout_shift, row.is_bot, row.is_absurd), (Some(0.05), false, false));
    }

    #[test]
    fn implausible_timings_are_marked_and_dropped() {
        for query in ["b=-5&l=3", "b=90&r=80", "l=4000000", "r=NaN", "r=1e300"] {
            let params = BeaconParams::parse(query);
            let row = params.row("", None, true);
            assert!(
                row.is_absurd && row.load_seconds.is_none() && row.response_seconds.is_none(),
                "{query}"
            );
        }
    }

    #[test]
    fn bots_are_recognized() {
        for agent in ["Googlebot/2.1", "curl/8.0", "Mozilla/5.0 HeadlessChrome/1", "Python-urllib"]
        {
            assert!(is_bot(agent), "{agent}");
        }
        assert!(!is_bot("Mozilla/5.0 (X11; Linux x86_64) Chrome/130.0 Safari/537.36"));
    }

    #[test]
    fn values_are_decoded_like_form_values() {
        for (value, text) in [
            ("%2Fa+b", "/a b"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz%41", "%zzA"),
            ("%C3%A9", "é"),
            ("%FFx", "\u{fffd}x"),
        ] {
            assert_eq!(short(value, 99).unwrap(), text);
        }
        for (text, value) in [("0", Some(0.0)), ("999999999", Some(999_999_999.0)), ("", None)] {
            assert_eq!(number(text), value, "{text}");
        }
        assert_eq!((number("-1.5"), number("1e3"), number("x")), (Some(-1.5), Some(1000.0), None));
    }

    #[test]
    fn an_ampersand_is_found_wherever_it_is() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let expected = bytes.iter().position(|byte| *byte == b'&').unwrap_or(bytes.len());
            assert_eq!(ampersand(&bytes), expected);
            // Cases that random bytes rarely hit: high bits, and neighbours of `&`.
            let near: Vec<u8> = bytes.iter().map(|byte| 0x24 + byte % 4 + (byte & 0x80)).collect();
            let expected = near.iter().position(|byte| *byte == b'&').unwrap_or(near.len());
            assert_eq!(ampersand(&near), expected);
            Ok(())
        });
    }

    #[test]
    fn encoded_text_decodes_to_itself() {
        arbtest::arbtest(|u| {
            let text = u.arbitrary::<&str>()?;
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            assert_eq!(decoded(&encoded), text);
            Ok(())
        });
    }

    #[test]
    fn no_query_makes_it_panic() {
        arbtest::arbtest(|u| {
            let params = BeaconParams::parse(u.arbitrary::<&str>()?);
            let row = params.row("", Some(u.arbitrary::<&str>()?), false);
            assert!(row.load_seconds.is_none_or(|load| (0.0..=3600.0).contains(&load)));
            is_bot(u.arbitrary::<&str>()?);
            Ok(())
        });
    }
}
