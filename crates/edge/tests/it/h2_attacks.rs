//! HTTP/2 that attacks: heads that become two requests in HTTP/1.1, and floods of frames.
//!
//! The heads are of the kinds of Kettle (*HTTP/2: The Sequel is Always Worse*, 2021) and RFC 9113 §8.2
//! and §8.3; the floods of Netflix' advisory of 2019, and those of 2023 (rapid reset) and 2024
//! (CONTINUATION).

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::PoisonError;

use crate::h2_frames::{
    DATA, END_HEADERS, END_STREAM, Field, FrameClient, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block, frame, get,
};
use crate::lab::{Lab, h2c_settings};
use crate::vectors::{SeenRequests, strict_backend, unescape};

const PRIORITY: u8 = 2;
const CONTINUATION: u8 = 9;

/// An edge for HTTP/2 without TLS before a strict HTTP/1.1 backend.
fn lab() -> (Lab, SeenRequests) {
    let seen = SeenRequests::default();
    let settings = h2c_settings(&[strict_backend(&seen)]);
    (Lab::start(settings), seen)
}

/// What becomes of a request: what the backend has read, and how the edge answers.
fn outcome(lab: &Lab, seen: &SeenRequests, fields: &[Field<'_>], body: &str) -> String {
    let mut client = FrameClient::connect(lab.address, &[]);
    client.ask(1, fields, body.is_empty());
    if !body.is_empty() {
        client.data(1, body.as_bytes(), true);
    }
    let answer = loop {
        match client.next() {
            None => break "closed",
            Some(frame) if frame.kind == RST_STREAM => break "reset",
            // Entries of HPACK's table: 200 and 400.
            Some(frame) if frame.kind == HEADERS => match frame.payload.first() {
                Some(0x88) => break "200",
                Some(0x8c) => break "400",
                _ => break "another status",
            },
            Some(_) => {}
        }
    };
    let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    format!("{answer}: {}", seen.join("; "))
}

fn is_refusal(outcome: &str) -> bool {
    ["closed: ", "reset: ", "400: "].contains(&outcome)
}

/// The head of `GET /p` with other fields in place of those of the same name, and further ones.
fn head<'a>(other: &[Field<'a>]) -> Vec<Field<'a>> {
    let is_replaced = |name: &str| other.iter().any(|(own, _)| *own == name);
    let kept = get("/p").into_iter().filter(|(name, _)| !is_replaced(name));
    let (pseudo, plain): (Vec<_>, Vec<_>) =
        other.iter().copied().partition(|(name, _)| name.starts_with(':'));
    kept.chain(pseudo).chain(plain).collect()
}

fn unescaped(text: &str) -> String {
    String::from_utf8(unescape(text)).expect("heads are text")
}

/// OWASP/ASVS #1154 lists what a translation to HTTP/1.1 must refuse.
#[test]
fn heads_that_http1_reads_differently_reach_no_backend() {
    let (lab, seen) = lab();
    let mut passed = Vec::new();
    for line in include_str!("vectors/heads.txt").lines().filter(|line| !line.starts_with('#')) {
        let texts: Vec<String> = line.split(" | ").map(unescaped).collect();
        let fields = texts.iter().map(|field| field.split_once('=').expect("a name and a value"));
        let fields: Vec<Field<'_>> = fields.collect();
        let outcome = outcome(&lab, &seen, &head(&fields), "");
        if !is_refusal(&outcome) {
            passed.push(format!("{fields:?}: {outcome}"));
        }
    }
    for missing in [":method", ":scheme", ":path", ":authority"] {
        let fields: Vec<_> = get("/p").into_iter().filter(|(name, _)| *name != missing).collect();
        let outcome = outcome(&lab, &seen, &fields, "");
        if !is_refusal(&outcome) {
            passed.push(format!("without {missing}: {outcome}"));
        }
    }
    let late = [&get("/p")[..3], &[("x", "1")], &get("/p")[3..]].concat();
    let outcome = outcome(&lab, &seen, &late, "");
    if !is_refusal(&outcome) {
        passed.push(format!("a late pseudo-header: {outcome}"));
    }
    assert!(passed.is_empty(), "{}:\n{}", passed.len(), passed.join("\n"));
}

#[test]
fn lengths_that_differ_from_the_data_reach_no_backend() {
    let (lab, seen) = lab();
    for lengths in "4|6|0|+5|0x5|5, 5|5;5|5;6||-5|5 |18446744073709551621".split('|') {
        let mut fields = vec![(":method", "POST")];
        fields.extend(lengths.split(';').map(|length| ("content-length", length)));
        let outcome = outcome(&lab, &seen, &head(&fields), "hello");
        let is_harmless = is_refusal(&outcome) || !outcome.contains(": POST");
        assert!(is_harmless, "{lengths:?}: {outcome}");
    }
    let fields = head(&[(":method", "POST"), ("content-length", "5")]);
    assert_eq!(outcome(&lab, &seen, &fields, "hello"), "200: POST /p 5");
}

/// cloudflare/pingora#935: frames without data end no body in chunks, and not twice.
#[test]
fn frames_without_data_are_no_chunks() {
    let (lab, seen) = lab();
    let mut client = FrameClient::connect(lab.address, &[]);
    for stream in [1, 3, 5] {
        client.ask(stream, &head(&[(":method", "POST")]), false);
        for part in ["", "hel", "", "lo", ""] {
            client.data(stream, part.as_bytes(), false);
        }
        client.data(stream, b"", true);
        assert_eq!(client.wait_for(HEADERS).payload.first(), Some(&0x88));
    }
    assert_eq!(*seen.lock().expect("no panic"), ["POST /p 5"; 3]);
}

#[test]
fn usual_heads_pass() {
    let (lab, seen) = lab();
    for fields in [
        head(&[]),
        head(&[("te", "trailers")]),
        head(&[("host", "a")]),
        head(&[(":authority", "A:80"), ("host", "a")]),
        head(&[(":authority", "[::1]:8080")]),
        head(&[(":authority", "sub_domain.example.:8443")]),
        head(&[("cookie", "a=1"), ("cookie", "b=2")]),
        head(&[("x", "")]),
        head(&[("http2-settings", "AAMAAABk")]),
        head(&[("proxy", "b:3128")]),
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/p"), ("host", "a")],
    ] {
        assert_eq!(outcome(&lab, &seen, &fields, ""), "200: GET /p 0", "{fields:?}");
    }
}

/// Sends frames on a connection until the edge closes it or `count` are sent; whether the edge has
/// sent GOAWAY.
fn flood(lab: &Lab, count: u32, frames: impl Fn(u32) -> Vec<u8>) -> bool {
    let mut stream = lab.connect();
    let mut reading = stream.try_clone().expect("a socket");
    // The edge must not wait for a client that reads nothing: that would stop the flood.
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = reading.read_to_end(&mut bytes);
        bytes
    });
    let hello = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame([SETTINGS, 0], 0, &[])].concat();
    let is_open = stream.write_all(&hello).is_ok();
    let sent = (0..count).take_while(|number| stream.write_all(&frames(*number)).is_ok()).count();
    let _ = stream.shutdown(Shutdown::Write);
    let bytes = reader.join().expect("no panic");
    assert!(is_open && sent > 0);
    let mut rest = &bytes[..];
    while let Some((head, more)) = rest.split_at_checked(9) {
        if head[3] == GOAWAY {
            return true;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        rest = more.get(length..).unwrap_or_default();
    }
    sent < count as usize
}

/// Frames that cost a server more than their sender.
struct Flood {
    name: &'static str,
    count: u32,
    /// Whether the connection must end; other floods may only cost others nothing.
    must_end: bool,
    frames: Box<dyn Fn(u32) -> Vec<u8>>,
}

impl Flood {
    fn new(name: &'static str, frames: impl Fn(u32) -> Vec<u8> + 'static) -> Self {
        Self { name, count: 20_000, must_end: false, frames: Box::new(frames) }
    }

    fn that_ends(name: &'static str, frames: impl Fn(u32) -> Vec<u8> + 'static) -> Self {
        Self { must_end: true, ..Self::new(name, frames) }
    }
}

/// A request that stays open.
fn asking(number: u32) -> Vec<u8> {
    frame([HEADERS, END_HEADERS], 2 * number + 1, &block(&get("/p")))
}

/// HEADERS, and then CONTINUATION without end.
fn endless(number: u32, fields: &[u8]) -> Vec<u8> {
    frame([if number == 0 { HEADERS } else { CONTINUATION }, 0], 1, fields)
}

/// A request, and its reset.
fn reset(number: u32) -> Vec<u8> {
    [asking(number), frame([RST_STREAM, 0], 2 * number + 1, &[0, 0, 0, 8])].concat()
}

/// A request, and a window update that makes the edge reset it.
fn made_reset(number: u32) -> Vec<u8> {
    let overflow = frame([WINDOW_UPDATE, 0], 2 * number + 1, &[0x7f, 255, 255, 255]);
    [asking(number), overflow].concat()
}

/// Frames within one request.
fn within(number: u32, kind: u8, payload: &[u8]) -> Vec<u8> {
    if number == 0 { asking(0) } else { frame([kind, 0], 1, payload) }
}

fn floods() -> [Flood; 10] {
    // An entry of 4,000 bytes in the header table, and references to it.
    let entry = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'y'; 4000]].concat();
    let bomb = [&block(&get("/p"))[..], &entry, &[0xbe; 12_000]].concat();
    [
        Flood::that_ends("continuations", |number| endless(number, &block(&[("x", "y")]))),
        Flood::that_ends("empty continuations", |number| endless(number, &[])),
        Flood::that_ends("rapid resets", reset),
        Flood::that_ends("made resets", made_reset),
        Flood {
            count: 50,
            ..Flood::new("header bombs", move |number| {
                frame([HEADERS, END_HEADERS | END_STREAM], 2 * number + 1, &bomb)
            })
        },
        Flood::new("settings", |_| frame([SETTINGS, 0], 0, &[0, 4, 0, 0, 255, 255])),
        Flood::new("pings", |_| frame([PING, 0], 0, &[7; 8])),
        Flood::new("priorities", |_| frame([PRIORITY, 0], 1, &[0, 0, 0, 3, 1])),
        Flood::new("empty data", |number| within(number, DATA, &[])),
        Flood::new("window updates", |number| within(number, WINDOW_UPDATE, &[0, 0, 0, 1])),
    ]
}

/// netty/netty #13969, envoyproxy/envoy PR 33513, google/bumble #681 (CONTINUATION), apache/trafficserver
/// PR 11345 and netty/netty PR 9461 (empty frames), amphp/http-server #101 and httpwg/http2-spec #112
/// (PING), tempesta-tech/tempesta #1346 (WINDOW_UPDATE), rapid resets, and resets that the client makes the
/// edge send (CVE-2025-8671).
#[test]
fn a_flood_of_frames_ends_or_costs_others_nothing() {
    let (lab, seen) = lab();
    for Flood { name, count, must_end, frames } in floods() {
        let has_ended = flood(&lab, count, frames);
        assert!(has_ended || !must_end, "{name}: the connection was kept");
        seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
        assert_eq!(outcome(&lab, &seen, &get("/other"), ""), "200: GET /other 0", "{name}");
    }
}
