//! Backends that answer before the request has ended, or without any: whose answer it is, and whether it
//! arrives.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use weir_edge::BackendSettings;

use crate::h2_backends::{frame_backend, h2c_to};
use crate::h2_frames::{
    DATA, END_HEADERS, END_STREAM, FrameClient, GOAWAY, HEADERS, RST_STREAM, block, get,
};
use crate::lab::{Lab, backend, connect, h2c_settings, read_all, settings, wait_until};

const UPLOAD_BYTES: usize = 3_000_000;

/// Uploads a body on a new connection, and reads to the end.
fn upload(lab: &Lab, framing: &str) -> String {
    let mut client = lab.connect();
    let head = format!("POST /up HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
    client.write_all(head.as_bytes()).expect("it is open");
    let mut sender = client.try_clone().expect("a socket");
    let is_chunked = framing.starts_with("Transfer-Encoding");
    let sending = std::thread::spawn(move || {
        let piece = [b'x'; 16 << 10];
        for _ in 0..UPLOAD_BYTES / piece.len() {
            let chunk = format!("{:x}\r\n", piece.len());
            let whole = [chunk.as_bytes(), &piece[..], b"\r\n"].concat();
            if sender.write_all(if is_chunked { &whole } else { &piece }).is_err() {
                return;
            }
        }
    });
    let answer = read_all(&mut client);
    drop(client);
    let _ = sending.join();
    answer
}

/// apache/apisix#13366, envoyproxy/envoy#2929 and #18213, rwf2/Rocket#2783, haproxy/haproxy#188: the
/// backend refuses an upload that it does not read, and its close resets the connection.
#[test]
fn an_answer_before_the_reset_of_an_upload_arrives() {
    for (text, end) in [
        (
            "HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large",
            "too large",
        ),
        ("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "\r\n\r\n"),
        (
            "HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbad\r\n0\r\n\r\n",
            "3\r\nbad\r\n0\r\n\r\n",
        ),
    ] {
        let lab = Lab::start(settings(&[backend(move |asked| {
            asked.answer(text);
            false
        })]));
        let length = format!("Content-Length: {UPLOAD_BYTES}");
        for n in 0..20 {
            let framing = if n % 2 == 0 { length.as_str() } else { "Transfer-Encoding: chunked" };
            let answer = upload(&lab, framing);
            assert!(answer.starts_with(&text[..12]) && answer.ends_with(end), "{n}: {answer}");
            assert!(answer.to_ascii_lowercase().contains("\r\nconnection: close\r\n"), "{answer}");
        }
        for row in lab.rows("request", 20) {
            assert_eq!(row["upstream_tries"], "1");
            assert_eq!(row["http_response_status_code"], &text[9..12]);
            assert_eq!(row.get("failure"), None, "{row:#?}");
        }
    }
}

/// The same for a client with HTTP/2, whose stream ends without an error (RFC 9113 §8.1).
#[test]
fn an_early_answer_reaches_a_client_of_http2() {
    let lab = Lab::start(h2c_settings(&[backend(|asked| {
        asked.answer("HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large");
        false
    })]));
    for _ in 0..10 {
        let mut client = FrameClient::connect(lab.address, &[]);
        let mut fields = get("/up");
        fields[0].1 = "POST";
        client.ask(1, &fields, false);
        for _ in 0..3 {
            client.data(1, &[b'x'; 16 << 10], false);
        }
        client.wait_for(HEADERS);
        let mut body = Vec::new();
        loop {
            let frame = client.next().expect("the connection stays");
            match frame.kind {
                DATA => body.extend(frame.payload),
                RST_STREAM => {
                    assert_eq!(frame.payload, [0; 4]);
                    break;
                }
                _ => {}
            }
            if frame.is_last {
                break;
            }
        }
        assert_eq!(body, b"too large");
    }
    let rows = lab.rows("request", 10);
    assert!(rows.iter().all(|row| !row.contains_key("failure")), "{rows:#?}");
}

/// Backends with HTTP/2 may close the whole connection after the answer, uploads unread.
#[test]
fn an_early_answer_of_a_backend_with_http2_survives_the_end_of_its_connection() {
    let app = frame_backend(|server, frame, _| {
        if frame.kind != HEADERS {
            return true;
        }
        let fields = block(&[(":status", "413"), ("content-type", "text/plain")]);
        server.send(HEADERS, END_HEADERS, frame.stream, &fields);
        server.send(DATA, END_STREAM, frame.stream, b"too large");
        server.send(GOAWAY, 0, 0, &[frame.stream.to_be_bytes(), [0; 4]].concat());
        false
    });
    let lab = Lab::start(h2c_to(app));
    for n in 0..20 {
        let answer = upload(&lab, &format!("Content-Length: {UPLOAD_BYTES}"));
        assert!(answer.starts_with("HTTP/1.1 413 "), "{n}: {answer}");
        assert!(answer.contains("too large"), "{n}: {answer}");
    }
}

/// A reset is no end: an answer that lasts until the close is complete only with one (RFC 9112 §8).
#[test]
fn an_answer_without_a_length_is_not_complete_when_it_ends_by_a_reset() {
    let lab = Lab::start(settings(&[backend(|asked| {
        asked.answer("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nwhy");
        // The upload fills the buffers of both sides, so there is something unread at the close.
        std::thread::park_timeout(Duration::from_millis(200));
        false
    })]));
    let answer = upload(&lab, &format!("Content-Length: {UPLOAD_BYTES}"));
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("why"), "{answer}");
    assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
    assert_eq!(lab.request()["failure"], "answer_cut");
}

/// The same over TLS, where an answer is read after the socket can no longer be written to.
#[test]
fn an_early_answer_of_a_backend_with_tls_arrives() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let dir = tempfile::tempdir().expect("a directory");
    let authority = dir.path().join("own.pem");
    std::fs::write(&authority, made.cert.pem()).expect("a directory");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a certificate");
    let config = Arc::new(config);
    let (app, _) = connections(move |stream, _| {
        let socket = stream.get_ref().try_clone().expect("a socket");
        // What waits for an acknowledgement is lost when the socket closes with unread bytes.
        socket.set_nodelay(true).expect("a socket");
        let tls = ServerConnection::new(Arc::clone(&config)).expect("a configuration");
        let mut stream = BufReader::new(StreamOwned::new(tls, socket));
        let mut line = String::new();
        while line != "\r\n" && stream.read_line(&mut line).is_ok_and(|count| count > 2) {
            line.clear();
        }
        let answer = b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large";
        let _ = stream.get_mut().write_all(answer);
        let _ = stream.get_mut().flush();
    });
    let mut tls = settings(&[]);
    let backend = format!("https://localhost:{}", app.port());
    tls.backends = vec![BackendSettings::parse(&backend).expect("an address")];
    tls.backend_tls.authorities = authority;
    let lab = Lab::start(tls);
    for n in 0..10 {
        let answer = upload(&lab, &format!("Content-Length: {UPLOAD_BYTES}"));
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with("large"), "{n}: {answer}");
    }
}

const LATE: &str = "HTTP/1.0 408 Request Time-out\r\nCache-Control: no-cache\r\n\
    Connection: close\r\nContent-Type: text/html\r\n\r\nlate";

/// Answers a request, and says on which connection.
fn answer_on(stream: &mut BufReader<TcpStream>, connection: usize, after: &str) {
    let body = format!("c{connection}");
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let _ = stream.get_mut().write_all(format!("{answer}{after}").as_bytes());
}

/// Reads a head; false at the end of the stream.
fn skip_head(stream: &mut BufReader<TcpStream>) -> bool {
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if !stream.read_line(&mut line).is_ok_and(|count| count > 0) {
            return false;
        }
    }
    true
}

/// A backend that calls `serve` with each connection and its number.
fn connections(
    serve: impl Fn(&mut BufReader<TcpStream>, usize) + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (serve, count) = (Arc::new(serve), Arc::new(AtomicUsize::new(0)));
    let opened = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(&mut BufReader::new(stream), number));
        }
    });
    (address, opened)
}

/// openshift/release#378, golang/go's "unsolicited response on idle channel": servers end an idle
/// connection with a 408, some with more. It answers no request, whatever the method.
#[test]
fn a_response_on_an_idle_connection_answers_no_request() {
    for late in [LATE, "HTTP/1.1 408", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad", "\r\n"] {
        for is_at_once in [true, false] {
            let (app, opened) = connections(move |stream, number| {
                while skip_head(stream) {
                    answer_on(stream, number, if is_at_once { late } else { "" });
                    if !is_at_once {
                        std::thread::park_timeout(Duration::from_millis(5));
                        let _ = stream.get_mut().write_all(late.as_bytes());
                    }
                }
            });
            let lab = Lab::start(settings(&[app]));
            for n in 1..=6 {
                let answer = if n % 2 == 0 {
                    lab.get("/")
                } else {
                    lab.say(
                        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
                         Content-Length: 0\r\n\r\n",
                    )
                };
                assert!(answer.ends_with(&format!("\r\n\r\nc{n}")), "{late:?}: {answer}");
                wait_until("the late response", || opened.load(Ordering::Relaxed) == n);
                std::thread::park_timeout(Duration::from_millis(20));
            }
        }
    }
}

/// A 408 that crosses the request (RFC 9110 §15.5.9): a safe request goes to a new connection. A 408 on a
/// connection's first request is the answer.
#[test]
fn a_408_that_crosses_a_request_answers_it_only_if_it_may_not_be_repeated() {
    let (app, opened) = connections(|stream, number| {
        if !skip_head(stream) {
            return;
        }
        answer_on(stream, number, "");
        if skip_head(stream) {
            let _ = stream.get_mut().write_all(LATE.as_bytes());
        }
    });
    let lab = Lab::start(settings(&[app]));
    assert!(lab.get("/").ends_with("c1"));
    assert!(lab.get("/").ends_with("c2"), "the 408 of the first connection is no answer");
    let posted =
        lab.say("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert!(posted.starts_with("HTTP/1.1 408 "), "it may have had an effect: {posted}");
    assert_eq!(opened.load(Ordering::Relaxed), 2);
    let rows = lab.rows("request", 3);
    let tries: Vec<_> = rows.iter().map(|row| row["upstream_tries"].as_str()).collect();
    assert_eq!(tries, ["1", "2", "1"]);
    assert!(rows.iter().all(|row| !row.contains_key("failure")), "{rows:#?}");
    let first = Lab::start(settings(&[backend(|asked| {
        asked.answer(
            "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        );
        false
    })]));
    assert!(first.get("/").starts_with("HTTP/1.1 408 "));
}

/// Several pooled connections that have all been closed cost a request one attempt, not three.
#[test]
fn a_request_that_met_a_stale_connection_gets_a_new_one() {
    let (app, _) = connections(|stream, number| {
        if skip_head(stream) {
            std::thread::park_timeout(Duration::from_millis(100));
            answer_on(stream, number, "");
        }
        // Closed without an answer.
        if number <= 5 {
            skip_head(stream);
        }
    });
    let lab = Lab::start(settings(&[app]));
    let address = lab.address;
    let first = (0..5).map(|_| {
        std::thread::spawn(move || {
            let mut client = connect(address);
            let _ = client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            read_all(&mut client)
        })
    });
    for one in first.collect::<Vec<_>>() {
        assert!(one.join().expect("no panic").starts_with("HTTP/1.1 200 "));
    }
    let answer = lab.get("/");
    assert!(answer.ends_with("c6"), "{answer}");
    let rows = lab.rows("request", 6);
    assert_eq!(rows.last().expect("six")["upstream_tries"], "2");
}
