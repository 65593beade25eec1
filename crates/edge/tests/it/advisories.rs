//! Advisories and reports of 2025 and 2026 about other proxies, tried at this one.

use std::sync::mpsc::channel;

use crate::h2_backends::{frame_backend, h2c_to};
use crate::h2_frames::{
    DATA, END_HEADERS, FrameClient, HEADERS, INITIAL_WINDOW_SIZE, RST_STREAM, block, get,
};
use crate::hops::websocket;
use crate::lab::{Lab, PATIENCE, backend, h2c_settings, settings};

/// golang/vulndb#6201 (GHSA-3ccp-42pg-hgv6 of Traefik): what a client sends on a tunnel that the backend refuses
/// never reaches the backend's connection, which serves others.
#[test]
fn bytes_for_a_refused_tunnel_reach_no_backend() {
    let (seen, heads) = channel();
    let app = backend(move |asked| {
        let _ = seen.send(asked.head.to_ascii_lowercase());
        asked.answer("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
        true
    });
    let mut settings = settings(&[app]);
    settings.listeners[0].is_h2c = true;
    let lab = Lab::start(settings);
    let mut client = FrameClient::connect(lab.address, &[]);
    for stream in [1, 5] {
        client.ask(stream, &websocket("/ws"), false);
        client.data(stream, b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n", true);
        client.wait_for(HEADERS);
        client.ask(stream + 2, &get("/next"), true);
        client.wait_for(HEADERS);
    }
    for expected in ["get /ws ", "get /next ", "get /ws ", "get /next "] {
        let head = heads.recv_timeout(PATIENCE).expect("a request");
        assert!(head.starts_with(expected), "{head}");
    }
    assert!(heads.try_recv().is_err());
}

/// golang/vulndb#6467 (CVE-2026-88004) and CVE-2026-35051 of Traefik: no spelling and no place of a field that
/// proxies write comes through from a client.
#[test]
fn fields_of_proxies_come_from_no_client_in_any_spelling() {
    let (seen, requests) = channel();
    let app = backend(move |asked| {
        let mut body = String::new();
        let end = "\r\n\r\n";
        while asked.head.starts_with("POST") && !body.ends_with(end) {
            let mut byte = [0];
            if std::io::Read::read_exact(asked.stream, &mut byte).is_err() {
                break;
            }
            body.push(char::from(byte[0]));
        }
        let _ = seen.send((asked.head.to_owned() + &body).to_ascii_lowercase());
        asked.ok("ok")
    });
    let lab = Lab::start(settings(&[app]));
    let names = [
        "X-Forwarded-Prefix",
        "X_Forwarded_Prefix",
        "X-Forwarded_For",
        "X-Real_IP",
        "X-Forwarded-Method",
    ];
    let fields: String = names.iter().map(|name| format!("{name}: /forged\r\n")).collect();
    lab.say(&format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"));
    let chunks = format!("5\r\nhello\r\n0\r\nX-Sum: 1\r\n{fields}\r\n");
    lab.say(&format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, {}\r\n\r\n{chunks}",
        names.join(", ")
    ));
    for _ in 0..2 {
        let request = requests.recv_timeout(PATIENCE).expect("a request");
        assert!(!request.contains("/forged"), "{request}");
    }
}

/// nginx/nginx#1427: every response of 1xx but 101 is followed by another, and its length means nothing. What
/// a backend sends behind its response answers no request.
#[test]
fn interim_responses_of_any_status_and_length_shift_no_response() {
    for status in ["100 Continue", "102 Processing", "104 Upload Resumption", "199 Odd"] {
        let lab = Lab::start(h2c_settings(&[backend(move |asked| {
            if asked.head.starts_with("GET /first") {
                asked.answer(&format!(
                    "HTTP/1.1 {status}\r\nContent-Length: 168\r\n\r\n\
                     HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst\
                     HTTP/1.1 301 Moved\r\nLocation: http://b/\r\nContent-Length: 0\r\n\r\n"
                ));
                return true;
            }
            asked.ok("next")
        })]));
        let mut client = FrameClient::connect(lab.address, &[]);
        for (stream, path, body) in [(1, "/first", "first"), (3, "/next", "next")] {
            client.ask(stream, &get(path), true);
            assert_eq!(body_of(&mut client, stream), (body.into(), None), "{status}, {path}");
        }
    }
}

/// The body that a client of HTTP/2 gets next, and the code of the reset that ends it.
fn body_of(client: &mut FrameClient, stream: u32) -> (String, Option<Vec<u8>>) {
    let mut body = Vec::new();
    loop {
        let frame = client.next().expect("the stream ends before the connection");
        if frame.stream != stream {
            continue;
        }
        match frame.kind {
            DATA => {
                let length = u32::try_from(frame.payload.len()).expect("short");
                if length > 0 && !frame.is_last {
                    client.open_window(frame.stream, length);
                }
                body.extend(frame.payload);
            }
            RST_STREAM => {
                return (String::from_utf8_lossy(&body).into(), Some(frame.payload));
            }
            _ => {}
        }
        if frame.is_last {
            return (String::from_utf8_lossy(&body).into(), None);
        }
    }
}

/// nginx/nginx#1115 (trailers became part of the body), traefik/traefik#13568 (an error's text did) and
/// envoyproxy/envoy#36200 (a stream that is cut ends as if it were whole).
#[test]
fn a_body_over_http2_is_the_backends_whole_or_cut() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";
    let lab = Lab::start(h2c_settings(&[backend(|asked| {
        let announced = if asked.head.contains("/announced") { "Trailer: X-Sum\r\n" } else { "" };
        asked.answer(&format!("{HEAD}{announced}\r\n5\r\nhello\r\n"));
        if asked.head.contains("/cut") {
            return false;
        }
        asked.answer("0\r\nContent-Length: 0\r\nX-Sum: 1\r\n\r\n");
        true
    })]));
    let mut client = FrameClient::connect(lab.address, &[]);
    for (stream, path) in [(1, "/plain"), (3, "/announced"), (5, "/cut"), (7, "/plain")] {
        client.ask(stream, &get(path), true);
        let (body, reset) = body_of(&mut client, stream);
        assert_eq!(body, "hello", "{path}");
        assert_eq!(reset.is_some(), path == "/cut", "{path}: {reset:?}");
        assert_ne!(reset, Some(vec![0; 4]), "{path}");
    }
}

/// haproxy/haproxy#2836: the coding in an answer to HEAD announces no chunks.
#[test]
fn a_coding_in_an_answer_to_head_is_no_body() {
    let lab = Lab::with_backend(|asked| {
        if asked.head.starts_with("HEAD") {
            asked.answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: x\r\n\r\n");
            return true;
        }
        asked.ok("page")
    });
    let get = "HTTP/1.1\r\nHost: a\r\n";
    let answers = lab.say(&format!("HEAD / {get}\r\nGET / {get}Connection: close\r\n\r\n"));
    let (head, rest) = answers.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("etag: x"), "{answers}");
    assert!(rest.starts_with("HTTP/1.1 200 ") && rest.ends_with("\r\n\r\npage"), "{answers}");
}

/// envoyproxy/envoy#38206: a backend resets the stream with `NO_ERROR` after its complete answer, during the
/// upload. The client still receives all of the answer.
#[test]
fn an_answer_that_waits_for_the_client_survives_a_reset_without_an_error() {
    const BODY: usize = 200_000;
    let mut settings = h2c_to(frame_backend(|server, frame, _| {
        if frame.kind == HEADERS {
            server.send(HEADERS, END_HEADERS, frame.stream, &block(&[(":status", "200")]));
            for sent in (0..BODY).step_by(10_000) {
                server.data(frame.stream, &[b'x'; 10_000], sent + 10_000 == BODY);
            }
            server.send(RST_STREAM, 0, frame.stream, &[0; 4]);
        }
        true
    }));
    settings.listeners[0].is_h2c = true;
    let lab = Lab::start(settings);
    let mut client = FrameClient::connect(lab.address, &[(INITIAL_WINDOW_SIZE, 20_000)]);
    let fields = [&[(":method", "POST")][..], &get("/upload")[1..]].concat();
    for stream in [1, 3] {
        client.ask(stream, &fields, false);
        let (body, reset) = body_of(&mut client, stream);
        assert_eq!(body.len(), BODY, "{reset:?}");
        assert!(reset.is_none_or(|code| code == [0; 4]));
    }
}

/// cloudflare/pingora PR 713: clients that close their connection do not close the backend's.
#[test]
fn a_backend_keeps_its_connection_when_clients_close_theirs() {
    let (seen, heads) = channel();
    let app = backend(move |asked| {
        let _ =
            seen.send((asked.head.to_ascii_lowercase(), asked.stream.get_ref().peer_addr().ok()));
        asked.ok("ok")
    });
    let lab = Lab::start(settings(&[app]));
    let fields =
        "Connection: close, Keep-Alive\r\nKeep-Alive: timeout=1\r\nProxy-Connection: close\r\n";
    let mut peers = std::collections::BTreeSet::new();
    for _ in 0..3 {
        assert!(lab.say(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).ends_with("ok"));
        let (head, peer) = heads.recv_timeout(PATIENCE).expect("a request");
        assert!(!head.contains("close") && !head.contains("timeout=1"), "{head}");
        peers.extend(peer);
    }
    assert_eq!(peers.len(), 1, "{peers:?}");
}
