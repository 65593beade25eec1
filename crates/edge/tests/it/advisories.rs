//! Advisories and reports of 2025 and 2026 about other proxies, tried at this one.

use std::sync::mpsc::channel;

use crate::h2_frames::{FrameClient, HEADERS, get};
use crate::hops::websocket;
use crate::lab::{Lab, PATIENCE, backend, settings};

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
