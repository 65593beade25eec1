//! Beacons: a few numbers of a visitor's browser in the query or the body of a request, answered with as little as can be.
//!
//! GET gets a picture of 43 bytes, or 204 with the parameter `e`; POST (`navigator.sendBeacon`, any origin) gets 204, each
//! line of its body is a beacon. Parameters are those of the table `beacon`, times in milliseconds.

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
use crate::proxy::body::ResponseBody;
use crate::proxy::own_answer;
use crate::record::RequestFailure;
use crate::time::now_ns;

/// A transparent pixel, the smallest that every browser takes.
const GIF: &[u8; 43] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff\x21\xf9\x04\x01\0\0\0\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b";
/// The script that sends them.
pub const SCRIPT: &str = include_str!("weir.js");
/// Largest body of a POST.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Most beacons in one body.
const LINES_MAX: usize = 64;
/// No page takes longer; what says so is wrong.
const HOUR_MS: f64 = 3_600_000.0;
/// How programs call themselves that are no visitors.
const BOTS: [&[u8]; 8] =
    [b"bot", b"crawl", b"spider", b"curl/", b"wget", b"python", b"headless", b"http-client"];

/// Answers a request to the beacon's path that is no POST.
pub(crate) fn answer(
    serving: &ClientSession,
    record: OpenRecord,
    parts: request::Parts,
) -> Response<ResponseBody> {
    let mut record = record;
    record.is_beacon = true;
    match parts.method {
        _ if parts.uri.path().ends_with("/weir.js") => script(record),
        Method::GET | Method::HEAD => {
            let query = parts.uri.query().unwrap_or_default();
            let is_empty = keep(serving, record.head, query, agent(&parts.headers));
            if is_empty {
                no_content(record, parts.headers)
            } else {
                picture(record, parts.headers)
            }
        }
        Method::OPTIONS => no_content(record, parts.headers),
        _ => own_answer(record, StatusCode::METHOD_NOT_ALLOWED, "beacons are GET or POST"),
    }
}

/// Answers a POST to the beacon's path.
pub(crate) async fn answer_post(
    serving: &ClientSession,
    mut record: OpenRecord,
    parts: request::Parts,
    body: Incoming,
) -> Response<ResponseBody> {
    record.is_beacon = true;
    match read(body).await {
        Ok(text) => {
            let now = now_ns();
            for line in text.lines().filter(|line| !line.is_empty()).take(LINES_MAX) {
                keep(serving, now, line, agent(&parts.headers));
            }
            no_content(record, parts.headers)
        }
        Err(failure) => {
            record.failure = Some(failure);
            own_answer(record, StatusCode::PAYLOAD_TOO_LARGE, failure.as_str())
        }
    }
}

fn agent(headers: &HeaderMap) -> Option<&str> {
    headers.get(USER_AGENT).and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
}

/// An answer in the map of the request's fields: hyper takes it for the next request, so none is made.
fn answer_in(mut headers: HeaderMap, body: Option<Bytes>) -> Response<ResponseBody> {
    headers.clear();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let mut response = Response::new(ResponseBody::Own(body));
    *response.headers_mut() = headers;
    response
}

fn picture(mut record: OpenRecord, headers: HeaderMap) -> Response<ResponseBody> {
    record.status = 200;
    record.body_bytes = GIF.len() as u64;
    let mut response = answer_in(headers, Some(Bytes::from_static(GIF)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("image/gif"));
    record.finish();
    response
}

fn no_content(mut record: OpenRecord, headers: HeaderMap) -> Response<ResponseBody> {
    record.status = 204;
    let mut response = answer_in(headers, None);
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

/// The whole body as text; what is no UTF-8 is replaced.
async fn read(mut body: Incoming) -> Result<String, RequestFailure> {
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| RequestFailure::ClientClosed)?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        if bytes.len() > BODY_BYTES_MAX {
            return Err(RequestFailure::BodyTooLarge);
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Keeps one beacon that came at `now`; whether it wants no picture.
fn keep(serving: &ClientSession, now: u64, query: &str, agent: Option<&str>) -> bool {
    let said = BeaconParams::parse(query);
    let is_program = agent.is_none_or(|agent| serving.is_bot(agent, is_bot));
    let row = said.row(serving.conn.network(), agent, is_program);
    serving.worker.recorder.borrow_mut().beacon(now, &row);
    said.wants_nothing
}

/// What a beacon says.
#[derive(Debug, Default)]
struct BeaconParams<'a> {
    site: Option<Cow<'a, str>>,
    page: Option<Cow<'a, str>>,
    visit: Option<Cow<'a, str>>,
    request_id: Option<Cow<'a, str>>,
    kind: &'static str,
    sequence: Option<i64>,
    visible: Option<f64>,
    /// DNS, connecting, first byte, last byte, document ready, loaded, first paint, largest paint, interaction.
    times: [Option<f64>; 9],
    layout_shift: Option<f64>,
    wants_nothing: bool,
    is_absurd: bool,
}

impl<'a> BeaconParams<'a> {
    fn parse(query: &'a str) -> Self {
        let mut said = Self { kind: "other", ..Self::default() };
        let mut rest = query;
        while !rest.is_empty() {
            let end = ampersand(rest.as_bytes());
            let pair = &rest[..end];
            // All names are one or two letters.
            if let [name, b'=', ..] = pair.as_bytes() {
                said.take(&[*name], &pair[2..]);
            } else if let [first, second, b'=', ..] = pair.as_bytes() {
                said.take(&[*first, *second], &pair[3..]);
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        said.times_in_order();
        said
    }

    fn take(&mut self, name: &[u8], value: &'a str) {
        match name {
            b"h" => self.site = short(value, 255),
            b"p" => self.page = short(value, 2048),
            b"v" => self.visit = short(value, 64),
            b"i" => self.request_id = short(value, 128),
            b"n" => self.sequence = value.parse().ok().filter(|n| (0..1 << 40).contains(n)),
            b"e" => self.wants_nothing = true,
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

    /// Milliseconds; negative ones and those of hours are absurd. How long a page was visible may be long.
    fn time(&mut self, text: &str) -> Option<f64> {
        let ms = number(text)?;
        let is_sane = (0.0..HOUR_MS * 24.0).contains(&ms);
        self.is_absurd |= !is_sane;
        is_sane.then_some(ms)
    }

    /// First byte, last byte, document, load come in this order; else the browser's clock has jumped.
    fn times_in_order(&mut self) {
        let is_late = self.times.iter().flatten().any(|ms| *ms > HOUR_MS);
        if is_late || !self.times[2..6].iter().flatten().is_sorted() {
            self.is_absurd = true;
        }
        if self.is_absurd {
            self.times = [None; 9];
        }
    }

    fn row<'b>(&'b self, network: &'b str, agent: Option<&'b str>, is_bot: bool) -> Beacon<'b> {
        let seconds = |at: usize| self.times[at].map(|ms| ms / 1000.0);
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
            dns_seconds: seconds(0),
            connect_seconds: seconds(1),
            first_byte_seconds: seconds(2),
            response_seconds: seconds(3),
            dom_ready_seconds: seconds(4),
            load_seconds: seconds(5),
            first_paint_seconds: seconds(6),
            largest_paint_seconds: seconds(7),
            interaction_seconds: seconds(8),
            layout_shift: self.layout_shift,
            request_id: self.request_id.as_deref(),
            ..Beacon::default()
        }
    }
}

/// Where the first `&` is, or the end: eight bytes at a time, since most of a query is looked through for nothing else.
fn ampersand(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let words = bytes.as_chunks::<8>().0;
    for (at, word) in words.iter().enumerate() {
        // The byte is 0 where it was an `&`, and the subtraction borrows into its highest bit.
        let word = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'&'));
        let found = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if found > 0 {
            return at * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let rest = &bytes[words.len() * 8..];
    words.len() * 8 + rest.iter().position(|byte| *byte == b'&').unwrap_or(rest.len())
}

/// A number; most are whole ones of a few digits.
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

/// A value without its encoding, if it is there and not too long. Most have none and are not copied.
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

/// A value of a form (URL Standard §5.1): `+` is a space, `%2F` a slash; what is no UTF-8 then is replaced.
fn decoded(value: &str) -> String {
    let spaced =
        if value.contains('+') { value.replace('+', " ").into() } else { Cow::Borrowed(value) };
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// Whether a user agent says that it is a program.
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
        let said = BeaconParams::parse(
            "h=example.org&e=&p=%2Fa%20b&v=x1&n=4&k=load&s=15000&d=1&c=2&b=80&r=90.5&o=200&l=300&ls=0.05&zz=1",
        );
        let row = said.row("192.0.2.0", Some("Mozilla/5.0"), false);
        assert_eq!(
            (row.site, row.page, row.visit),
            (Some("example.org"), Some("/a b"), Some("x1"))
        );
        assert_eq!((row.sequence, row.kind, row.visible_seconds), (Some(4), "load", Some(15.0)));
        assert_eq!((row.response_seconds, row.load_seconds), (Some(0.0905), Some(0.3)));
        assert_eq!((row.layout_shift, row.is_bot, row.is_absurd), (Some(0.05), false, false));
    }

    #[test]
    fn absurd_timings_are_said_to_be_and_not_kept() {
        for query in ["b=-5&l=3", "b=90&r=80", "l=4000000", "r=NaN", "r=1e300"] {
            let said = BeaconParams::parse(query);
            let row = said.row("", None, true);
            assert!(
                row.is_absurd && row.load_seconds.is_none() && row.response_seconds.is_none(),
                "{query}"
            );
        }
    }

    #[test]
    fn programs_are_no_visitors() {
        for agent in ["Googlebot/2.1", "curl/8.0", "Mozilla/5.0 HeadlessChrome/1", "Python-urllib"]
        {
            assert!(is_bot(agent), "{agent}");
        }
        assert!(!is_bot("Mozilla/5.0 (X11; Linux x86_64) Chrome/130.0 Safari/537.36"));
    }

    #[test]
    fn values_are_decoded_as_those_of_forms() {
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
            // As random bytes rarely do: high bits, and bytes that differ from it by one.
            let near: Vec<u8> = bytes.iter().map(|byte| 0x24 + byte % 4 + (byte & 0x80)).collect();
            let expected = near.iter().position(|byte| *byte == b'&').unwrap_or(near.len());
            assert_eq!(ampersand(&near), expected);
            Ok(())
        });
    }

    #[test]
    fn any_text_comes_back_when_it_is_encoded() {
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
            let said = BeaconParams::parse(u.arbitrary::<&str>()?);
            let row = said.row("", Some(u.arbitrary::<&str>()?), false);
            assert!(row.load_seconds.is_none_or(|load| (0.0..=3600.0).contains(&load)));
            is_bot(u.arbitrary::<&str>()?);
            Ok(())
        });
    }
}
