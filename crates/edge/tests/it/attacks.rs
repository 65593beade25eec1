//! Request smuggling: a request that two servers could read in two ways must not reach a backend
//! unchanged.
//!
//! The cases come from Watchfire (2005), Kettle (*HTTP Desync Attacks*, 2019) and RFC 9112 §11.2.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use crate::lab::{Lab, backend, read_all, settings};

/// Sends `text`; returns the response and the request lines that the backend saw.
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
    // Without `close`, end our side, so that the edge does not wait for more.
    if !text.contains("close\r\n") {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
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
        ("chunked after a vertical tab", "Transfer-Encoding: \u{b}chunked\r\n"),
        ("chunked on the next line", "Transfer-Encoding:\n chunked\r\n"),
        ("chunked before a semicolon", "Transfer-Encoding: chunked;q=1\r\n"),
        ("chunked in quotes", "Transfer-Encoding: \"chunked\"\r\n"),
        ("chunked before a comma", "Transfer-Encoding: chunked,\r\n"),
        ("chunked behind a comma", "Transfer-Encoding: ,chunked\r\n"),
        ("an empty coding", "Transfer-Encoding:\r\n"),
        ("chunked, and a length that lies", "Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n"),
        ("a length with a sign", "Content-Length: -1\r\n"),
        ("a length with a point", "Content-Length: 4.0\r\n"),
        ("a length in parts", "Content-Length: 4 2\r\n"),
        ("a length with an underline", "Content-Length: 4_2\r\n"),
        ("an empty length", "Content-Length:\r\n"),
        ("a name of nothing", ": 42\r\n"),
        ("a space in a name", "Content Length: 42\r\n"),
        ("a space before a name", " Content-Length: 42\r\n"),
        ("a host with a path", "Host: a/b\r\n"),
        ("no colon", "nonsense\r\n"),
    ] {
        let (answer, seen) = attack(&format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n{smuggled}"));
        assert!(seen.iter().all(|line| !line.starts_with("POST")), "{name}: {seen:?}");
        assert!(answer.starts_with("HTTP/1.1 400"), "{name}: {answer}");
    }
}

#[test]
fn transfer_encoding_wins_over_length_and_only_one_is_passed_on() {
    // CL.TE and TE.CL: hyper reads by chunks; the bytes after them are a separate request.
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
fn a_client_cannot_take_the_framing_away() {
    // Fields that `Connection` names are removed: what frames the body must be there nevertheless.
    for named in ["Content-Length", "content-length, x", "Transfer-Encoding", "Host"] {
        let body = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
        let (answer, seen) = attack(&format!(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: {named}, close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert!(answer.starts_with("HTTP/1.1 200"), "{named}: {answer}");
        assert_eq!(seen, ["POST / HTTP/1.1"], "{named}");
    }
    // A GET with a body: its bytes are no request either.
    let (_, seen) = attack(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 28\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(seen, ["GET / HTTP/1.1"]);
}

#[test]
fn request_lines_that_two_servers_could_read_in_two_ways_are_refused() {
    for line in [
        "GET / x HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\u{0} HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET / HTTP/1.2",
        "GET / HTTP/2.0",
        "GET / HTTP/11",
        "GET / http/1.1",
        "GET /",
        "G(T / HTTP/1.1",
        "GET http://b/ HTTP/1.1",
        "GET //b:x@c:99999/../ ftp HTTP/1.1",
        "CONNECT b:80 HTTP/1.1",
    ] {
        let (answer, seen) = attack(&format!("{line}\r\nHost: a\r\n\r\n"));
        assert!(seen.is_empty(), "{line:?}: {seen:?}");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{line:?}: {answer}");
    }
}

#[test]
fn chunks_that_lie_end_the_request() {
    for (name, body) in [
        ("a size that is no number", "zz\r\nabc\r\n0\r\n\r\n"),
        ("a negative size", "-1\r\nabc\r\n0\r\n\r\n"),
        ("a size over all numbers", "fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
        ("a size with a sign", "+3\r\nabc\r\n0\r\n\r\n"),
        ("a size in C's way", "0x3\r\nabc\r\n0\r\n\r\n"),
        ("a size of nothing", "\r\nabc\r\n0\r\n\r\n"),
        ("too little data", "5\r\nabc\r\n0\r\n\r\n"),
        ("too much data", "2\r\nabc\r\n0\r\n\r\n"),
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

/// CVE-2021-40346 (haproxytech/vmware-haproxy#19): a name so long that its length overflowed ended in a
/// `Content-Length` of the sender's choice, and the body was another request.
#[test]
fn long_names_of_headers_do_not_move_the_end_of_a_body() {
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\nX: ";
    for length in [255, 256, 257, 270, 511, 1024, 4096, 70_000] {
        let name = format!("Content-Length0{}", "a".repeat(length - 15));
        let (answer, seen) = attack(&format!(
            "POST /first HTTP/1.1\r\nHost: a\r\n{name}:\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{smuggled}",
            smuggled.len()
        ));
        assert!(seen.iter().all(|line| line.starts_with("POST /first ")), "{length}: {seen:?}");
        assert!(seen.len() <= 1, "{length}: {seen:?}");
        assert!(length > 1024 || answer.contains("seen"), "{length}: {answer}");
    }
}

/// CVE-2022-0711 (NixOS/nixpkgs#166651): a `Set-Cookie2` in an answer was an endless loop.
#[test]
fn odd_cookies_of_an_answer_are_passed_on() {
    let app = backend(|asked| {
        asked.answer(
            "HTTP/1.1 200 OK\r\nSet-Cookie2: a=b\r\nSet-Cookie2:\r\nSet-Cookie2: =;;\r\nContent-Length: 2\r\n\r\nok",
        );
        false
    });
    let lab = Lab::start(settings(&[app]));
    let answer = lab.get("/");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    assert_eq!(answer.to_ascii_lowercase().matches("set-cookie2:").count(), 3, "{answer}");
}
