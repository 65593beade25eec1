//! Backends that end streams and connections of HTTP/2 early, which is not always a failure.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_edge::{BackendSettings, Settings};

use crate::h2_frames::{
    DATA, END_HEADERS, END_STREAM, Frame, FrameClient, GOAWAY, HEADERS, MAX_CONCURRENT_STREAMS,
    RST_STREAM, block, get,
};
use crate::hops::websocket;
use crate::lab::{Lab, PATIENCE, backend, h2c_settings, read_all, settings};

const NO_ERROR: [u8; 4] = [0; 4];
const CANCEL: [u8; 4] = [0, 0, 0, 8];
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];

/// A backend that calls `react` with each frame of a stream and the number of its connection, until
/// that returns false.
pub(crate) fn frame_backend(
    react: impl Fn(&mut FrameClient, &Frame, u32) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    frame_backend_with(&[], react)
}

/// The same with settings.
fn frame_backend_with(
    settings: &'static [(u16, u32)],
    react: impl Fn(&mut FrameClient, &Frame, u32) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (react, count) = (Arc::new(react), Arc::new(AtomicU32::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            let react = Arc::clone(&react);
            std::thread::spawn(move || {
                let Some(mut server) = FrameClient::accept(stream, settings) else { return };
                while let Some(frame) = server.next() {
                    if !react(&mut server, &frame, number) {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn lab(address: SocketAddr) -> Lab {
    Lab::start(h2c_to(address))
}

/// Settings of an edge whose backend speaks HTTP/2.
pub(crate) fn h2c_to(address: SocketAddr) -> Settings {
    let mut settings = settings(&[]);
    settings.backends =
        vec![BackendSettings::parse(&format!("h2c://{address}")).expect("an address")];
    settings
}

/// Sends a whole response.
pub(crate) fn answer(server: &mut FrameClient, stream: u32, status: &str, body: &[u8]) {
    let fields = block(&[(":status", status), ("content-type", "text/plain")]);
    server.send(HEADERS, END_HEADERS, stream, &fields);
    server.send(DATA, END_STREAM, stream, body);
}

/// hyperium/hyper#2872, dotnet/corefx PR 39882, h2o/h2o PR 3566, anmonteiro/ocaml-h2 PR 119: a server
/// that has answered may end the upload without an error (RFC 9113 §8.1).
#[test]
fn an_answer_before_the_upload_has_ended_is_whole() {
    let lab = lab(frame_backend(|server, frame, _| {
        if frame.kind == HEADERS {
            answer(server, frame.stream, "413", b"too large for here");
            server.send(RST_STREAM, 0, frame.stream, &NO_ERROR);
        }
        true
    }));
    for _ in 0..10 {
        let mut client = lab.connect();
        let head =
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4000000\r\n\r\n";
        client.write_all(head.as_bytes()).expect("it is open");
        let _ = client.write_all(&vec![b'x'; 4_000_000]);
        let text = read_all(&mut client);
        assert!(text.starts_with("HTTP/1.1 413 "), "{text}");
        assert!(text.contains("too large for here"), "{text}");
    }
    let rows = lab.rows("request", 10);
    assert!(rows.iter().all(|row| row["upstream_tries"] == "1"), "{rows:#?}");
}

fn post(lab: &Lab, body: &str) -> String {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    lab.say(&format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
}

/// nginx/nginx PR 1724, HoneyryderChuck/httpx PR 149, dotnet/corefx#39013: what a server has not
/// begun goes to another connection, whatever the method (RFC 9113 §8.7).
#[test]
fn streams_that_a_backend_has_not_begun_are_sent_again() {
    for refuses_stream in [true, false] {
        let lab = lab(frame_backend(move |server, frame, connection| {
            if frame.kind != HEADERS {
                return true;
            }
            let last_stream = if connection == 1 { 1 } else { u32::MAX };
            if frame.stream <= last_stream {
                answer(server, frame.stream, "200", b"done");
                return true;
            }
            if refuses_stream {
                server.send(RST_STREAM, 0, frame.stream, &REFUSED_STREAM);
                return true;
            }
            let last = last_stream.to_be_bytes();
            server.send(GOAWAY, 0, 0, &[last, NO_ERROR].concat());
            true
        }));
        for n in 0..3 {
            let text = if n == 1 { post(&lab, "") } else { lab.get("/") };
            assert!(
                text.contains(" 200 ") && text.contains("done"),
                "{refuses_stream} {n}: {text}"
            );
        }
        let rows = lab.rows("request", 3);
        assert!(rows.iter().all(|row| !row.contains_key("failure")), "{rows:#?}");
    }
}

/// A backend with a limit of streams per connection; it answers when `burst` are open.
fn refusing_backend(settings: &'static [(u16, u32); 1], burst: usize) -> SocketAddr {
    let open = Mutex::new(Vec::<(u32, u32, FrameClient)>::new());
    frame_backend_with(settings, move |server, frame, connection| {
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if frame.kind != HEADERS {
            return true;
        }
        let of_connection = open.iter().filter(|(one, ..)| *one == connection).count();
        if of_connection >= settings[0].1 as usize {
            server.send(RST_STREAM, 0, frame.stream, &REFUSED_STREAM);
            return true;
        }
        open.push((connection, frame.stream, server.sender()));
        if open.len() == burst {
            for (_, stream, mut server) in open.drain(..) {
                answer(&mut server, stream, "200", b"done");
            }
        }
        true
    })
}

/// haproxy/haproxy#2853: a burst on a new connection, to a backend that refuses streams beyond its limit.
#[test]
fn a_burst_keeps_to_the_limit_of_streams_of_a_new_connection() {
    const BURST: usize = 6;
    for settings in [&[(MAX_CONCURRENT_STREAMS, 1)], &[(MAX_CONCURRENT_STREAMS, 4)]] {
        let lab = lab(refusing_backend(settings, BURST));
        let answers: Vec<String> = std::thread::scope(|scope| {
            let clients = [(); BURST].map(|()| scope.spawn(|| lab.get("/")));
            clients.into_iter().map(|client| client.join().expect("an answer")).collect()
        });
        assert!(answers.iter().all(|text| text.contains("done")), "{settings:?} {answers:#?}");
        let rows = lab.rows("request", BURST);
        assert!(rows.iter().all(|row| row["upstream_tries"] == "1"), "{rows:#?}");
    }
}

/// Ends of a stream without its last frame.
const CUTS: [&str; 4] = ["reset", "cancel", "goaway", "close"];

/// Cuts stream 1; returns whether its connection stays open.
fn cut(peer: &mut FrameClient, how: &str) -> bool {
    match how {
        "reset" => peer.send(RST_STREAM, 0, 1, &NO_ERROR),
        "cancel" => peer.send(RST_STREAM, 0, 1, &CANCEL),
        "goaway" => peer.send(GOAWAY, 0, 0, &[[0, 0, 0, 1], NO_ERROR].concat()),
        _ => {}
    }
    matches!(how, "reset" | "cancel")
}

/// connectrpc/connect-es#1751, h2o/h2o PR 1031: a stream is complete with its last frame only (RFC 9113 §8.1).
#[test]
fn a_response_that_is_cut_without_an_error_is_not_complete() {
    for how in CUTS {
        let lab = lab(frame_backend(move |server, frame, _| {
            if frame.kind != HEADERS {
                return true;
            }
            server.send(HEADERS, END_HEADERS, frame.stream, &block(&[(":status", "200")]));
            server.send(DATA, 0, frame.stream, b"part");
            cut(server, how)
        }));
        let answer = lab.get("/");
        assert!(!answer.ends_with("0\r\n\r\n"), "{how}: {answer}");
        assert!(lab.request().contains_key("failure"), "{how}");
    }
}

/// The same of a client, whose upload a backend would store.
#[test]
fn an_upload_that_is_cut_without_an_error_is_not_complete() {
    for how in CUTS {
        let (seen, bodies) = channel();
        let settings = h2c_settings(&[backend(move |asked| {
            let (mut body, mut piece) = (Vec::new(), [0; 512]);
            while let Ok(count @ 1..) = asked.stream.read(&mut piece) {
                body.extend(&piece[..count]);
                let _ = seen.send((String::from_utf8_lossy(&body).into_owned(), false));
            }
            let _ = seen.send((String::from_utf8_lossy(&body).into_owned(), true));
            false
        })]);
        let lab = Lab::start(settings);
        let mut client = FrameClient::connect(lab.address, &[]);
        let mut fields = get("/up");
        fields[0].1 = "POST";
        client.ask(1, &fields, false);
        client.data(1, b"part", false);
        let next = || bodies.recv_timeout(PATIENCE).unwrap_or_else(|why| panic!("{how}: {why}"));
        while !next().0.contains("part") {}
        let client = cut(&mut client, how).then_some(client);
        let body = std::iter::repeat_with(next).find(|(_, is_over)| *is_over);
        let body = body.expect("it is over").0;
        assert!(!body.ends_with("0\r\n\r\n"), "{how}: {body}");
        drop(client);
    }
}

/// golang/go#36026 and #63422, hyperium/hyper#4186, influxdata/telegraf PR 7517: the network may drop all
/// packets of a connection and report none.
#[test]
fn a_connection_that_was_silent_for_too_long_gets_no_more_requests() {
    for has_begun in [true, false] {
        let mut settings = h2c_to(frame_backend(move |server, frame, connection| {
            if frame.kind == HEADERS && connection > 1 {
                answer(server, frame.stream, "200", b"done");
            } else if frame.kind == HEADERS && has_begun {
                server.send(HEADERS, END_HEADERS, frame.stream, &block(&[(":status", "200")]));
                server.send(DATA, 0, frame.stream, b"part");
            }
            true
        }));
        settings.upstream.answer = Duration::from_millis(300);
        let lab = Lab::start(settings);
        let answer = lab.get("/");
        let status = if has_begun { "HTTP/1.1 200 " } else { "HTTP/1.1 504 " };
        assert!(answer.starts_with(status) && !answer.ends_with("0\r\n\r\n"), "{answer}");
        assert!(lab.get("/").contains("done"));
        let rows = lab.rows("request", 2);
        assert_eq!(rows[0]["failure"], "response_timeout");
    }
}

/// cloudflare/cloudflared#1273, golang/go#18112: a connection that ends while it is idle costs no request,
/// not even one with a body.
#[test]
fn a_request_with_a_body_follows_the_end_of_an_idle_connection() {
    let lab = lab(frame_backend(|server, frame, _| {
        if frame.is_last {
            answer(server, frame.stream, "200", b"done");
            server.send(GOAWAY, 0, 0, &[[0x7f, 255, 255, 255], NO_ERROR].concat());
        }
        true
    }));
    for _ in 0..3 {
        let text = post(&lab, "hello");
        assert!(text.contains(" 200 ") && text.contains("done"), "{text}");
    }
}

/// Start9Labs/start-technologies#3775: a backend with HTTP/2 offers no WebSockets, and clients get an answer.
#[test]
fn a_websocket_to_a_backend_with_http2_is_refused_at_once() {
    let mut settings = h2c_to(frame_backend(|server, frame, _| {
        if frame.kind == HEADERS {
            answer(server, frame.stream, "200", b"page");
        }
        true
    }));
    settings.listeners[0].is_h2c = true;
    let lab = Lab::start(settings);
    let mut client = FrameClient::connect(lab.address, &[]);
    client.ask(1, &websocket("/ws"), false);
    let refused = client.wait_for(HEADERS);
    // `:status: 200` is the eighth entry of HPACK's table.
    assert!(refused.payload.first() != Some(&0x88), "{refused:?}");
}
