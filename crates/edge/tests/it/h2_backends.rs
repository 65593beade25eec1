//! Backends that end streams and connections of HTTP/2 early, which is not always a failure.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_edge::BackendSettings;

use crate::h2_frames::{
    DATA, END_HEADERS, END_STREAM, Frame, FrameClient, GOAWAY, HEADERS, RST_STREAM, block,
};
use crate::lab::{Lab, read_all, settings};

const NO_ERROR: [u8; 4] = [0; 4];
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];

/// A backend that calls `react` with each frame of a stream and the number of its connection, until
/// that returns false.
pub(crate) fn frame_backend(
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
                let Some(mut server) = FrameClient::accept(stream) else { return };
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
    let mut settings = settings(&[]);
    settings.backends =
        vec![BackendSettings::parse(&format!("h2c://{address}")).expect("an address")];
    Lab::start(settings)
}

fn answer(server: &mut FrameClient, stream: u32, status: &str, body: &[u8]) {
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
