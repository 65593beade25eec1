//! Request smuggling: what two servers could read in two ways must never reach a backend as it came.
//!
//! The cases are those that Watchfire (2005), Kettle (*HTTP Desync Attacks*, 2019) and RFC 9112 §11.2 name, made again here.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use crate::lab::{Lab, backend, read_all, settings};

/// Sends `text` and a whole request after it; what came back, and the request lines that the backend saw.
fn attack(text: &str) -> (String, Vec<String>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let app = backend(move |asked| {
        let line = asked.head.lines().next().expect("a line").to_owned();
        noted.lock().expect("no panic").push(line);
        let lower = asked.head.to_ascii_lowercase();
        assert!(
            !(lower.contains("content-length:") && lower.contains("transfer-encoding:")),
            "both framings reached the backend: {lower}"
        );
        if lower.contains("transfer-encoding: chunked") {
            let mut body = Vec::new();
            while !body.ends_with(b"0\r\n\r\n") {
                let mut byte = [0];
                if asked.stream.read_exact(&mut byte).is_err() {
                    return false;
                }
                body.push(byte[0]);
            }
        } else if let Some((_, rest)) = lower.split_once("content-length: ") {
            let length = rest.lines().next().expect("a value").parse().expect("a number");
            let mut body = vec![0; length];
            if asked.stream.read_exact(&mut body).is_err() {
                return false;
            }
        }
        asked.ok("seen")
    });
    let lab = Lab::start(settings(&[app]));
    let mut stream = lab.connect();
    stream.write_all(text.as_bytes()).expect("it is open");
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let answer = read_all(&mut stream);
    drop(lab);
    let seen = seen.lock().expect("no panic").clone();
    (answer, seen)
}

#[test]
fn what_is_ambiguous_is_refused_and_reaches_no_backend() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for (name, head) in [
        ("two lengths", "Content-Length: 0\r\nContent-Length: 42\r\n"),
        ("a list of lengths", "Content-Length: 0, 42\r\n"),
        ("a signed length", "Content-Length: +42\r\n"),
        ("a hexadecimal length", "Content-Length: 0x10\r\n"),
        ("a length over all numbers", "Content-Length: 99999999999999999999999\r\n"),
        ("a space before the colon", "Content-Length : 42\r\n"),
        ("a folded line", "X: y\r\n Content-Length: 42\r\n"),
        ("another coding", "Transfer-Encoding: gzip\r\n"),
        ("chunked and then another", "Transfer-Encoding: chunked, identity\r\n"),
        ("another and then chunked", "Transfer-Encoding: identity, chunked\r\n"),
        ("chunked twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        ("nearly chunked", "Transfer-Encoding: xchunked\r\n"),
        ("chunked after a tab", "Transfer-Encoding:\tchunked, x\r\n"),
        ("a nul in a name", "X\0: y\r\n"),
        ("a bare carriage return", "X: y\rContent-Length: 42\r\n"),
        ("two hosts", "Host: b\r\n"),
        ("no colon", "nonsense\r\n"),
    ] {
        let (answer, seen) = attack(&format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n{smuggled}"));
        assert!(seen.iter().all(|line| !line.starts_with("POST")), "{name}: {seen:?}");
        assert!(answer.starts_with("HTTP/1.1 400"), "{name}: {answer}");
    }
}

#[test]
fn transfer_encoding_wins_over_length_and_only_one_is_passed_on() {
    // CL.TE and TE.CL: hyper reads by chunks; what follows them is a request of its own and not a part of the body.
    for order in [
        "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n",
    ] {
        let (answer, seen) = attack(&format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{order}\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n"
        ));
        assert!(seen.len() <= 2 && seen[0] == "POST / HTTP/1.1", "{seen:?}");
        assert!(seen.get(1).is_none_or(|line| line == "GET /next HTTP/1.1"), "{seen:?}");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[test]
fn chunks_that_lie_end_the_request() {
    for (name, body) in [
        ("a size that is no number", "zz\r\nabc\r\n0\r\n\r\n"),
        ("a negative size", "-1\r\nabc\r\n0\r\n\r\n"),
        ("a size over all numbers", "fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
        ("no line end after the data", "3\r\nabcX0\r\n\r\n"),
        ("a line end without return in an extension", "3;a\nb\r\nabc\r\n0\r\n\r\n"),
    ] {
        let (answer, _) = attack(&format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
        ));
        assert!(!answer.contains("seen"), "{name}: {answer}");
    }
}

#[test]
fn an_old_version_cannot_send_chunks() {
    let (answer, seen) =
        attack("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.0 400"), "{answer}");
    assert!(seen.is_empty());
}

#[test]
fn an_answer_with_two_lengths_is_not_passed_on() {
    let app = backend(|asked| {
        asked.answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nabcde");
        false
    });
    let lab = Lab::start(settings(&[app]));
    let answer = lab.get("/");
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert_eq!(lab.request()["failure"], "invalid_answer");
}

#[test]
fn what_cannot_be_read_is_a_refusal_with_its_reason() {
    let app = backend(|asked| asked.ok("x"));
    let lab = Lab::start(settings(&[app]));
    assert!(lab.say("nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    let rows = lab.rows("edge_refusal", 1);
    assert_eq!(
        (rows[0]["reason"].as_str(), rows[0]["received_bytes"].as_str()),
        ("malformed", "12")
    );
    assert_eq!(rows[0]["client_address"], "127.0.0.1");
}
