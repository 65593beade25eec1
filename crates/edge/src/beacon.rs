//! Beacons: a few numbers of a visitor's browser in the query or the body of a request, answered with as little as can be.
//!
//! GET gets a picture of 43 bytes, or 204 with the parameter `e`; POST (`navigator.sendBeacon`, any origin) gets 204, each
//! line of its body is a beacon. Parameters are those of the table `beacon`, times in milliseconds.

use std::borrow::Cow;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_TYPE, HeaderValue,
};
use http::{Method, Response, StatusCode, request};
use http_body::Body;
use hyper::body::Incoming;
use weir_tables::Beacon;

use crate::body::Answer;
use crate::proxy::own_answer;
use crate::record::Failure;
use crate::serving::{OpenRecord, Serving};
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

/// Answers a request to the beacon's path.
pub(crate) async fn answer(
    serving: &Rc<Serving>,
    mut record: OpenRecord,
    parts: &request::Parts,
    body: Incoming,
) -> Response<Answer> {
    record.is_beacon = true;
    if parts.uri.path().ends_with("/weir.js") {
        return script(record);
    }
    let agent = parts.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
    match parts.method {
        Method::GET | Method::HEAD => {
            let query = parts.uri.query().unwrap_or_default();
            let is_empty = keep(serving, query, agent);
            if is_empty { no_content(record) } else { picture(record) }
        }
        Method::POST => match read(body).await {
            Ok(text) => {
                for line in text.lines().filter(|line| !line.is_empty()).take(LINES_MAX) {
                    keep(serving, line, agent);
                }
                no_content(record)
            }
            Err(failure) => {
                record.failure = Some(failure);
                own_answer(record, StatusCode::PAYLOAD_TOO_LARGE, failure.as_str())
            }
        },
        Method::OPTIONS => no_content(record),
        _ => own_answer(record, StatusCode::METHOD_NOT_ALLOWED, "beacons are GET or POST"),
    }
}

fn picture(mut record: OpenRecord) -> Response<Answer> {
    record.status = 200;
    record.body_bytes = GIF.len() as u64;
    let mut response = Response::new(Answer::Own(Some(Bytes::from_static(GIF))));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("image/gif"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    record.finish();
    response
}

fn no_content(mut record: OpenRecord) -> Response<Answer> {
    record.status = 204;
    let mut response = Response::new(Answer::Own(None));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("content-type"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    record.finish();
    response
}

fn script(mut record: OpenRecord) -> Response<Answer> {
    record.status = 200;
    record.body_bytes = SCRIPT.len() as u64;
    let mut response = Response::new(Answer::Own(Some(Bytes::from_static(SCRIPT.as_bytes()))));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/javascript"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
    record.finish();
    response
}

/// The whole body as text; what is no UTF-8 is replaced.
async fn read(mut body: Incoming) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| Failure::ClientClosed)?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        if bytes.len() > BODY_BYTES_MAX {
            return Err(Failure::BodyTooLarge);
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Keeps one beacon; whether it wants no picture.
fn keep(serving: &Serving, query: &str, agent: Option<&str>) -> bool {
    let said = Said::parse(query);
    let row = said.row(serving.conn.network(), agent);
    serving.worker.recorder.borrow_mut().beacon(now_ns(), &row);
    said.wants_nothing
}

/// What a beacon says.
#[derive(Debug, Default)]
struct Said<'a> {
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

/// Names of [`Said::times`].
const TIMES: [&str; 9] = ["d", "c", "b", "r", "o", "l", "fp", "lp", "ix"];

impl<'a> Said<'a> {
    fn parse(query: &'a str) -> Self {
        let mut said = Self { kind: "other", ..Self::default() };
        for pair in query.split('&') {
            if let Some((key, value)) = pair.split_once('=') {
                said.take(key, value);
            }
        }
        said.times_in_order();
        said
    }

    fn take(&mut self, key: &str, value: &'a str) {
        match key {
            "h" => self.site = short(value, 255),
            "p" => self.page = short(value, 2048),
            "v" => self.visit = short(value, 64),
            "i" => self.request_id = short(value, 128),
            "n" => self.sequence = value.parse().ok().filter(|n| (0..1 << 40).contains(n)),
            "e" => self.wants_nothing = true,
            "k" => {
                let kinds = ["load", "ping", "end"];
                self.kind = kinds.into_iter().find(|kind| *kind == value).unwrap_or("other");
            }
            "s" => self.visible = self.time(value).map(|ms| ms / 1000.0),
            "ls" => self.layout_shift = value.parse().ok().filter(|n: &f64| (0.0..1e6).contains(n)),
            // All names of times are one or two letters.
            _ if key.len() <= 2 => {
                if let Some(at) = TIMES.iter().position(|name| *name == key) {
                    self.times[at] = self.time(value);
                }
            }
            _ => {}
        }
    }

    /// Milliseconds; negative ones and those of hours are absurd. How long a page was visible may be long.
    fn time(&mut self, text: &str) -> Option<f64> {
        let ms: f64 = text.parse().ok()?;
        let is_sane = (0.0..HOUR_MS * 24.0).contains(&ms);
        self.is_absurd |= !is_sane;
        is_sane.then_some(ms)
    }

    /// First byte, last byte, document, load come in this order; else the browser's clock has jumped.
    fn times_in_order(&mut self) {
        let order: Vec<f64> = self.times[2..6].iter().copied().flatten().collect();
        let is_late = self.times.iter().flatten().any(|ms| *ms > HOUR_MS);
        if is_late || order.windows(2).any(|pair| pair[0] > pair[1]) {
            self.is_absurd = true;
        }
        if self.is_absurd {
            self.times = [None; 9];
        }
    }

    fn row<'b>(&'b self, network: &'b str, agent: Option<&'b str>) -> Beacon<'b> {
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
            is_bot: agent.is_none_or(is_bot),
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

/// A value without its encoding, if it is there and not too long. Most have none and are not copied.
fn short(value: &str, bytes_max: usize) -> Option<Cow<'_, str>> {
    if value.is_empty() || value.len() > bytes_max * 3 {
        return None;
    }
    let text = if value.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        // The decoder takes pairs; a value alone is the key of one.
        form_urlencoded::parse(value.as_bytes()).next().map(|(text, _)| text)?
    } else {
        Cow::Borrowed(value)
    };
    (text.len() <= bytes_max).then_some(text)
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
        let said = Said::parse(
            "h=example.org&e=&p=%2Fa%20b&v=x1&n=4&k=load&s=15000&d=1&c=2&b=80&r=90.5&o=200&l=300&ls=0.05&zz=1",
        );
        let row = said.row("192.0.2.0", Some("Mozilla/5.0"));
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
            let said = Said::parse(query);
            let row = said.row("", None);
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
    fn no_query_makes_it_panic() {
        arbtest::arbtest(|u| {
            let said = Said::parse(u.arbitrary::<&str>()?);
            let row = said.row("", Some(u.arbitrary::<&str>()?));
            assert!(row.load_seconds.is_none_or(|load| (0.0..=3600.0).contains(&load)));
            Ok(())
        });
    }
}
