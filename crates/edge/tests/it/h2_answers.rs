//! Answers of backends with HTTP/2 that have no content, another length than they declare, or no reader.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::h2_backends::{answer, frame_backend, h2c_to};
use crate::h2_frames::{
    DATA, END_HEADERS, END_STREAM, Field, FrameClient, GOAWAY, HEADERS, RST_STREAM, block, get,
};
use crate::lab::{Lab, PATIENCE};

/// What follows the status in the head of an answer, pieces of its body, and whether its head is its end.
type Script = (&'static [Field<'static>], &'static [&'static str], bool);

/// An edge before a backend that sends this status and answer to each request.
fn answering(status: &'static str, (fields, pieces, ends): Script) -> Lab {
    Lab::start(h2c_to(frame_backend(move |server, frame, _| {
        if frame.kind != HEADERS {
            return true;
        }
        let head = block(&[&[(":status", status)][..], fields].concat());
        let end = if ends { END_STREAM } else { 0 };
        server.send(HEADERS, END_HEADERS | end, frame.stream, &head);
        for (at, piece) in pieces.iter().enumerate() {
            let is_last = at + 1 == pieces.len();
            server.data(frame.stream, piece.as_bytes(), is_last);
        }
        true
    })))
}

/// nginx/nginx#1568 and PR 1591, netty/netty PR 17468, nodejs/undici PR 5816, elixir-mint/mint PR 505: the
/// frames of an answer have the length that its head declares, or it is cut (RFC 9113 §8.1.1).
#[test]
fn an_answer_of_another_length_than_it_declares_is_not_complete() {
    let five: &[Field<'_>] = &[("content-length", "5")];
    let scripts: [Script; 7] = [
        (five, &[], true),
        (
            &[("content-type", "application/grpc"), ("content-length", "5"), ("grpc-status", "0")],
            &[],
            true,
        ),
        (&[("content-length", "5"), ("content-length", "6")], &["hello"], false),
        (&[("content-length", "five")], &["hello"], false),
        (five, &["hel"], false),
        (five, &["hel", ""], false),
        (five, &["hel", "lo!"], false),
    ];
    for (at, script) in scripts.into_iter().enumerate() {
        let lab = answering("200", script);
        let text = lab.get("/");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        // The head may have been sent when the cut shows.
        let is_refused = head.starts_with("HTTP/1.1 502 ");
        let is_cut = head.contains("content-length: 5") && body.len() < 5;
        assert!(is_refused || at >= 4 && is_cut, "{script:?}: {text}");
        let row = lab.request();
        let failure = if is_refused { "invalid_answer" } else { "answer_cut" };
        assert_eq!(row["failure"], failure, "{script:?}: {row:#?}");
        assert_eq!(row["upstream_tries"], "1", "an invalid answer is not retried");
    }
}

/// elazarl/goproxy#800: answers that have no content end with their head, and leave nothing on the
/// connection that the next answer would begin with.
#[test]
fn answers_of_http2_without_content_end_with_their_head() {
    for (method, status, script) in [
        ("GET", "204", (&[][..], &[][..], true)),
        ("GET", "204", (&[], &[""], false)),
        ("GET", "304", (&[("etag", "x")], &[], true)),
        ("GET", "304", (&[("content-length", "512"), ("etag", "x")], &[], true)),
        ("GET", "304", (&[("etag", "x")], &[""], false)),
        ("HEAD", "200", (&[("content-type", "text/html")], &[], true)),
        ("HEAD", "200", (&[("content-length", "512")], &[], true)),
        ("HEAD", "200", (&[("content-type", "text/html")], &[""], false)),
    ] {
        let lab = answering(status, script);
        let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n");
        let text = lab.say(&format!("{head}\r\n{head}Connection: close\r\n\r\n"));
        let answers: Vec<&str> = text.split_inclusive("\r\n\r\n").collect();
        assert_eq!(answers.len(), 2, "{method} {script:?}: {text:?}");
        for answer in answers {
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{script:?}: {text:?}");
            assert!(!answer.contains("transfer-encoding"), "{script:?}: {text:?}");
            let length = answer.contains("content-length").then(|| script.0[0]);
            assert!(length.is_none_or(|field| field == ("content-length", "512")), "{text:?}");
        }
    }
}

/// nodejs/undici#5089, oven-sh/bun#26719: a backend that announces its end still answers what it has begun.
#[test]
fn requests_that_a_leaving_backend_has_begun_are_answered() {
    let lab = Lab::start(h2c_to(frame_backend(|server, frame, connection| {
        if frame.kind != HEADERS {
            return true;
        }
        if connection > 1 {
            answer(server, frame.stream, "200", b"new");
        } else if frame.stream == 5 {
            server.send(GOAWAY, 0, 0, &[[0x7f, 255, 255, 255], [0; 4]].concat());
            for stream in [1, 3, 5] {
                answer(server, stream, "200", b"begun");
            }
        }
        true
    })));
    let answers: Vec<String> = std::thread::scope(|scope| {
        let clients = [(); 3].map(|()| scope.spawn(|| lab.get("/")));
        clients.into_iter().map(|client| client.join().expect("an answer")).collect()
    });
    assert!(answers.iter().all(|text| text.contains("begun")), "{answers:#?}");
    assert!(lab.get("/").contains("new"));
}

/// haproxy/haproxy#2751: clients that give up cost others nothing, though their answers were on their way
/// and nothing of them is left at the edge.
#[test]
fn answers_that_were_given_up_do_not_end_the_connection_of_others() {
    const CLIENTS: usize = 24;
    const STREAMS: u32 = 90;
    let (report, reports) = channel();
    let given_up = Mutex::new(BTreeSet::new());
    let mut settings = h2c_to(frame_backend(move |server, frame, connection| {
        match (frame.kind, frame.stream) {
            (HEADERS, 1) => {
                server.send(HEADERS, END_HEADERS, 1, &block(&[(":status", "200")]));
                server.data(1, b"begin ", false);
            }
            // The answer was written before the reset came, and the edge may reset it once more.
            (RST_STREAM, stream) if given_up.lock().expect("no panic").insert(stream) => {
                answer(server, stream, "200", b"late");
            }
            (RST_STREAM, _) => return true,
            _ => {}
        }
        let _ = report.send((connection, frame.kind, server.sender()));
        true
    }));
    settings.listeners[0].is_h2c = true;
    let lab = Lab::start(settings);
    let next = || reports.recv_timeout(PATIENCE).expect("a frame reaches the backend");
    let ask = |streams: u32| {
        let mut client = FrameClient::connect(lab.address, &[]);
        (0..streams).for_each(|at| client.ask(2 * at + 1, &get("/"), true));
        client
    };
    let mut long = ask(1);
    let (.., mut server) = next();
    for _ in 0..CLIENTS {
        let client = ask(STREAMS);
        for _ in 0..STREAMS {
            let (connection, kind, _) = next();
            assert_eq!((connection, kind), (1, HEADERS), "one connection has enough streams");
        }
        drop(client);
        (0..STREAMS).for_each(|_| assert_eq!(next().1, RST_STREAM));
    }
    server.data(1, b"end", true);
    assert!(!long.wait_for(DATA).is_last);
    let end = long.wait_for(DATA);
    assert!(end.is_last && end.payload == b"end", "{end:?}");
}
