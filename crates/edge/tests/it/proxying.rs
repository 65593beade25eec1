//! Requests and responses that pass unchanged, and their rows.

use std::io::{BufReader, Read, Write};
use std::time::Duration;

use weir_edge::ProxyHeader;
use weir_tables::IpNetwork;

use crate::lab::{Lab, Row, backend, connect, read_all, read_answer, settings};

fn seconds(row: &Row, column: &str) -> f64 {
    row[column].parse().expect("a number")
}

#[test]
fn a_request_is_proxied_and_its_row_is_complete() {
    let app = backend(|asked| asked.ok(asked.head));
    let lab = Lab::start(settings(&[app]));
    let text = "GET /a/b?c=d HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: test\r\nReferer: r\r\n\
        X-Request-Id: id-1\r\nConnection: close\r\n\r\n";
    let answer = lab.say(text);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("GET /a/b?c=d HTTP/1.1\r\n"), "{answer}");
    assert!(answer.contains("\r\nx-forwarded-for: 127.0.0.1\r\n"), "{answer}");
    assert!(answer.contains("\r\nx-request-id: id-1\r\n"), "{answer}");
    let row = lab.request();
    for (column, value) in [
        ("host", "edge1"),
        ("tier", "edge"),
        ("request_id", "id-1"),
        ("client_address", "127.0.0.1"),
        ("server_address", "shop.example"),
        ("http_request_method", "GET"),
        ("url_path", "/a/b"),
        ("url_query", "c=d"),
        ("url_scheme", "http"),
        ("network_protocol_version", "1.1"),
        ("http_response_status_code", "200"),
        ("user_agent_original", "test"),
        ("http_request_header_referer", "r"),
        ("upstream_status_code", "200"),
        ("upstream_tries", "1"),
        ("connection_requests", "1"),
        ("queue_seconds", "0"),
    ] {
        assert_eq!(row.get(column).map(String::as_str), Some(value), "{column} of {row:#?}");
    }
    assert_eq!(row["upstream_address"], app.to_string());
    assert_eq!(row["request_bytes"], text.len().to_string());
    assert_eq!(row["response_bytes"], answer.len().to_string());
    assert!(seconds(&row, "upstream_connect_seconds") > 0.0);
    assert!(seconds(&row, "upstream_header_seconds") >= seconds(&row, "upstream_connect_seconds"));
    assert!(seconds(&row, "upstream_response_seconds") >= seconds(&row, "upstream_header_seconds"));
    assert!(seconds(&row, "duration_seconds") >= seconds(&row, "upstream_response_seconds"));
    assert!(!row.contains_key("failure") && !row.contains_key("tls_handshake_seconds"));
}

#[test]
fn connections_are_kept_on_both_sides_and_each_request_is_a_row() {
    let lab = Lab::with_backend(|asked| asked.ok(&asked.number.to_string()));
    let mut reader = BufReader::new(lab.connect());
    for number in 1..=5 {
        reader.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
        assert!(read_answer(&mut reader).ends_with(&format!("\r\n\r\n{number}")));
    }
    let rows = lab.rows("request", 5);
    let orders: Vec<_> = rows.iter().map(|row| row["connection_requests"].as_str()).collect();
    assert_eq!(orders, ["1", "2", "3", "4", "5"]);
    // The edge connected to the backend once.
    let reused = rows.iter().filter(|row| row["upstream_connect_seconds"] == "0").count();
    assert_eq!(reused, 4);
    for row in &rows {
        assert_eq!(row["request_bytes"], "27", "{row:#?}");
    }
}

#[test]
fn bodies_pass_in_both_directions_whatever_their_framing() {
    let lab = Lab::with_backend(|asked| {
        let is_chunked = asked.head.contains("transfer-encoding: chunked");
        let length = if is_chunked { 12 + 5 } else { 7 };
        let mut body = vec![0; length];
        asked.stream.read_exact(&mut body).expect("a body");
        let text = String::from_utf8_lossy(&body).replace("\r\n", "|");
        asked.answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        asked.answer(&format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len()));
        true
    });
    let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    let sized = lab.say(&format!("{head}Content-Length: 7\r\n\r\n1234567"));
    assert!(sized.contains("\r\n7\r\n1234567\r\n0\r\n"), "{sized}");
    let chunked =
        lab.say(&format!("{head}Transfer-Encoding: chunked\r\n\r\n7;x=y\r\n1234567\r\n0\r\n\r\n"));
    assert!(chunked.contains("7|1234567|0||"), "{chunked}");
    let rows = lab.rows("request", 2);
    assert!(
        rows.iter().all(|row| row["response_body_bytes"] != "0" && !row.contains_key("failure"))
    );
}

#[test]
fn a_large_answer_is_streamed_and_counted() {
    const BYTES: usize = 8 << 20;
    let lab = Lab::with_backend(|asked| asked.ok(&"x".repeat(BYTES)));
    let answer = lab.get("/");
    assert!(answer.len() > BYTES);
    let row = lab.request();
    assert_eq!(row["response_body_bytes"], BYTES.to_string());
    assert_eq!(row["response_bytes"], answer.len().to_string());
}

/// elazarl/goproxy#801: the client's first message comes in the segment of its request.
#[test]
fn a_websocket_becomes_a_tunnel() {
    let lab = Lab::with_backend(|asked| {
        assert!(asked.head.contains("\r\nupgrade: websocket\r\n"), "{}", asked.head);
        // The first bytes of the new protocol come with the answer.
        asked.answer("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello");
        let mut bytes = [0; 4];
        asked.stream.read_exact(&mut bytes).expect("the client speaks");
        asked.answer("echo ");
        let _ = asked.stream.get_mut().write_all(&bytes);
        false
    });
    let mut stream = lab.connect();
    let head = b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    stream.write_all(&[head, &b"ping"[..]].concat()).expect("it is open");
    let answer = read_all(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhelloecho ping"), "{answer}");
    let row = lab.request();
    assert_eq!(row["http_response_status_code"], "101");
    assert_eq!(row["request_bytes"], (head.len() + 4).to_string());
    assert!(!row.contains_key("failure"), "{row:#?}");
}

#[test]
fn a_head_request_has_no_body_and_the_connection_goes_on() {
    let lab = Lab::with_backend(|asked| {
        asked.answer("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        true
    });
    let mut stream = lab.connect();
    let head = "HEAD / HTTP/1.1\r\nHost: a\r\n";
    let text = format!("{head}\r\n{head}Connection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).expect("it is open");
    let answer = read_all(&mut stream);
    assert_eq!(answer.matches("content-length: 1000").count(), 2, "{answer}");
    assert_eq!(lab.rows("request", 2).len(), 2);
}

#[test]
fn a_parked_connection_serves_again() {
    let lab = Lab::with_backend(|asked| asked.ok("x"));
    let mut reader = BufReader::new(lab.connect());
    for pause in [0, 2500, 1700] {
        // Long enough for the connection to be parked.
        std::thread::park_timeout(Duration::from_millis(pause));
        reader.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
        assert!(read_answer(&mut reader).ends_with("\r\n\r\nx"));
    }
    let rows = lab.rows("request", 3);
    assert_eq!(rows[2]["connection_requests"], "3");
    for row in rows {
        assert!(row["duration_seconds"].parse::<f64>().expect("a number") < 1.5, "{row:#?}");
    }
}

#[test]
fn proxy_headers_carry_the_client_address_in_both_directions() {
    let app = backend(|asked| {
        let first = asked.head.lines().next().expect("a line").to_owned();
        asked.ok(&first);
        false
    });
    let mut settings = settings(&[app]);
    settings.listeners[0].has_proxy_header = true;
    settings.listeners[0].proxy_networks.extend(IpNetwork::parse("127.0.0.0/8"));
    settings.upstream.proxy_header = ProxyHeader::V1;
    let lab = Lab::start(settings);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = lab.say(&format!("PROXY TCP4 192.0.2.9 192.0.2.1 5000 80\r\n{request}"));
    assert!(answer.ends_with("PROXY TCP4 192.0.2.9 192.0.2.1 5000 80"), "{answer}");
    assert_eq!(lab.request()["client_address"], "192.0.2.9");
    // A header in two pieces, then an invalid one.
    let mut stream = connect(lab.address);
    stream.write_all(b"PROXY TCP4 192.0.").expect("it is open");
    std::thread::park_timeout(Duration::from_millis(100));
    stream
        .write_all(format!("2.10 192.0.2.1 5001 80\r\n{request}").as_bytes())
        .expect("it is open");
    assert!(read_all(&mut stream).contains("PROXY TCP4 192.0.2.10 192.0.2.1 5001"));
    assert_eq!(lab.say(request), "");
    assert_eq!(lab.rows("edge_refusal", 1)[0]["reason"], "proxy_header");
}

#[test]
fn a_client_that_is_no_balancer_cannot_name_another_address() {
    let app = backend(|asked| {
        asked.ok("hello");
        false
    });
    let mut settings = settings(&[app]);
    settings.listeners[0].has_proxy_header = true;
    settings.listeners[0].proxy_networks.extend(IpNetwork::parse("192.0.2.0/24"));
    let lab = Lab::start(settings);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert!(lab.say(request).ends_with("hello"), "a client itself needs no header");
    assert_eq!(lab.request()["client_address"], "127.0.0.1");
    let answer = lab.say(&format!("PROXY TCP4 192.0.2.9 192.0.2.1 5000 80\r\n{request}"));
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}
