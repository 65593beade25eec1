//! HTTP between versions and hops: what a proxy has to translate, forward or keep to itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use weir_edge::{BackendSettings, RouteSettings};

use crate::h2_frames::{DATA, Field, FrameClient, HEADERS, get};
use crate::lab::{
    BackendRequest, Lab, OK, SWITCH, backend, connect, h2c_settings, next_head, read_all,
    read_answer, reporting, settings,
};

/// Reads up to the end of a text.
fn read_until(reader: &mut impl BufRead, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after `{text}`"));
        text.push(char::from(byte[0]));
    }
    text
}

/// cloudflare/pingora #892, haproxy/haproxy #127 and #135, varnishcache/varnish-cache #2291,
/// jdx/pitchfork PR 845, tempesta-tech/tempesta #1396.
#[test]
fn cookies_of_http2_are_one_field_for_http1() {
    let (app, heads) = reporting(OK);
    let lab = Lab::start(h2c_settings(&[app]));
    let mut client = FrameClient::connect(lab.address, &[]);
    let mut fields = get("/");
    fields.extend([("cookie", "a=1"), ("x-a", "1"), ("cookie", "b=2"), ("cookie", "c=3; d=4")]);
    client.ask(1, &fields, true);
    client.wait_for(HEADERS);
    let head = next_head(&heads);
    assert_eq!(head.matches("cookie:").count(), 1, "{head}");
    assert!(head.contains("cookie: a=1; b=2; c=3; d=4\r\n"), "{head}");
}

/// apache/apisix #2666, alibaba/tengine #1073, envoyproxy/envoy #4827.
#[test]
fn http10_without_host_gets_the_name_of_the_backend() {
    let (app, heads) = reporting(OK);
    let lab = Lab::start(settings(&[app]));
    let answer = lab.say("GET / HTTP/1.0\r\n\r\n");
    assert!(answer.contains(" 200 ") && answer.ends_with("ok"), "{answer}");
    let head = next_head(&heads);
    assert!(head.starts_with("get / http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: {app}\r\n")), "{head}");
}

/// caddyserver/caddy #6041, h2o/h2o #1771, envoyproxy/envoy #25881, freenginx/nginx #3.
#[test]
fn interim_responses_are_forwarded_before_the_response_and_not_to_http10() {
    let lab = Lab::with_backend(|asked| {
        asked.answer("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: x\r\nX: y\r\n\r\n");
        asked.answer("HTTP/1.1 102 Processing\r\n\r\n");
        asked.ok("page")
    });
    for _ in 0..3 {
        let answer = lab.get("/");
        let early =
            "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n";
        let rest = answer.strip_prefix(early).unwrap_or_else(|| panic!("{answer}"));
        assert!(rest.starts_with("HTTP/1.1 200 OK\r\n") && rest.ends_with("page"), "{answer}");
    }
    let old = lab.say("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert!(old.contains(" 200 ") && !old.contains("103"), "{old}");
    let rows = lab.rows("request", 4);
    assert!(rows.iter().all(|row| row["http_response_status_code"] == "200"), "{rows:#?}");
}

/// An interim response comes while the backend still works, and on each of several requests that a
/// client has sent at once.
#[test]
fn interim_responses_are_not_held_back_and_stay_with_their_request() {
    let (go, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let lab = Lab::with_backend(move |asked| {
        let path = asked.head.split(' ').nth(1).expect("a path").to_owned();
        asked.answer(&format!("HTTP/1.1 103 Early Hints\r\nLink: <{path}>\r\n\r\n"));
        let _ = wait.lock().expect("no panic").recv();
        asked.ok(&path)
    });
    let mut reader = BufReader::new(lab.connect());
    let both = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n";
    reader.get_mut().write_all(both.as_bytes()).expect("it is open");
    for path in ["/1", "/2"] {
        let early = read_until(&mut reader, "\r\n\r\n");
        assert_eq!(early, format!("HTTP/1.1 103 Early Hints\r\nlink: <{path}>\r\n\r\n"));
        go.send(()).expect("the backend waits");
        assert!(read_answer(&mut reader).ends_with(path));
    }
}

/// sozu-proxy/sozu #10, apache/httpd PR 319, h2o/h2o PR 3316, titanium-web-proxy #553.
#[test]
fn a_body_that_the_client_offers_waits_until_the_backend_wants_it() {
    let lab = Lab::with_backend(|asked| {
        assert!(asked.head.to_ascii_lowercase().contains("expect: 100-continue\r\n"));
        if asked.head.contains("/refused") {
            asked.answer("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno");
            return false;
        }
        if !asked.head.contains("/silent") {
            asked.answer("HTTP/1.1 100 Continue\r\n\r\n");
        }
        let mut body = [0; 5];
        asked.stream.read_exact(&mut body).expect("a body");
        asked.ok("taken")
    });
    // A backend that sends no 100 is not waited for without end.
    for path in ["/wanted", "/silent"] {
        let (first, mut reader) = offer(&lab, path);
        assert_eq!(first, "HTTP/1.1 100 Continue\r\n\r\n");
        reader.get_mut().write_all(b"hello").expect("it is open");
        assert!(read_answer(&mut reader).ends_with("taken"));
    }
    let (first, _) = offer(&lab, "/refused");
    assert!(first.starts_with("HTTP/1.1 417 "), "{first}");
}

/// Offers a body; returns the first response.
fn offer(lab: &Lab, path: &str) -> (String, BufReader<TcpStream>) {
    let mut reader = BufReader::new(lab.connect());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n"
    );
    reader.get_mut().write_all(head.as_bytes()).expect("it is open");
    let first = read_until(&mut reader, "\r\n\r\n");
    (first, reader)
}

/// felipenoris/hyper-reverse-proxy #51, agentgateway/agentgateway #3431, httpwg/http-core #793.
#[test]
fn trailers_pass_in_both_directions_and_cannot_change_the_head() {
    let (seen, bodies) = channel();
    let lab = Lab::with_backend(move |asked| {
        let head = asked.head.to_ascii_lowercase();
        if head.starts_with("post") {
            let _ = seen.send(head + &read_until(asked.stream, "\r\n\r\n"));
        }
        asked.answer(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Connection\r\n\r\n\
             2\r\nok\r\n0\r\nX-Sum: abc\r\nConnection: close\r\n\r\n",
        );
        true
    });
    let answer =
        lab.say("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n");
    let lower = answer.to_ascii_lowercase();
    assert!(lower.contains("trailer: x-sum, connection\r\n"), "{answer}");
    assert!(lower.ends_with("2\r\nok\r\n0\r\nx-sum: abc\r\n\r\n"), "{answer}");
    lab.say(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\
         Trailer: X-Sum, X-Forwarded-For, Content-Length\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\
         X-Forwarded-For: 1.1.1.1\r\nContent-Length: 3\r\n\r\n",
    );
    let request = bodies.recv_timeout(crate::lab::PATIENCE).expect("a request");
    assert!(request.ends_with("5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n"), "{request}");
}

#[test]
fn trailers_over_http2_cannot_change_the_head() {
    let trailers = ["", "Content-Length: 3\r\nConnection: close\r\n"].map(|more| {
        let lab = Lab::start(h2c_settings(&[backend(move |asked| {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
            asked.answer(&format!("{head}X-Sum: 1\r\n{more}\r\n"));
            true
        })]));
        let mut client = FrameClient::connect(lab.address, &[]);
        client.ask(1, &get("/"), true);
        client.wait_for(DATA);
        client.wait_for(HEADERS).payload
    });
    assert_eq!(trailers[0], trailers[1]);
}

/// zalando/skipper PR 1863, envoyproxy/envoy #3515, bytedance/g3 #720.
#[test]
fn hosts_with_default_port_or_root_dot_are_the_same_host() {
    let (shop, _heads) = reporting(OK);
    let mut settings = settings(&[]);
    settings.backends = vec![BackendSettings::parse(&format!("shop={shop}")).expect("a backend")];
    settings.routes = vec![RouteSettings::parse("shop.example=shop").expect("a route")];
    let lab = Lab::start(settings);
    for (target, host) in [
        ("/", "shop.example"),
        ("/", "shop.example."),
        ("/", "Shop.Example.:80"),
        ("http://shop.example/", "shop.example:80"),
        ("http://shop.example.:80/", "SHOP.example"),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = lab.say(&text);
        assert!(answer.starts_with("HTTP/1.1 200"), "{target} {host}: {answer}");
    }
    let rows = lab.rows("request", 5);
    let names = rows.iter().map(|row| row["server_address"].to_ascii_lowercase());
    assert!(names.into_iter().all(|name| name == "shop.example"), "{rows:#?}");
}

/// villadora/express-http-proxy #546, true-async/server #287, libevent/libevent #321,
/// benoitc/livery PR 64.
#[test]
fn a_client_that_still_sends_reads_the_early_response_and_not_a_reset() {
    let (app, _heads) = reporting("HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge");
    let mut with_limit = settings(&[app]);
    with_limit.limits.body_bytes = 64 << 20;
    let lab = Lab::start(with_limit);
    // By the backend, by the edge's own limit, and for a head that cannot be read.
    for (head, status) in [
        ("Content-Length: 8000000", " 413 "),
        ("Content-Length: 800000000000", " 413 "),
        ("Content-Length: x", " 400 "),
    ] {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n");
        let mut stream = lab.connect();
        stream.write_all(head.as_bytes()).expect("it is open");
        // More than the buffers of both sides hold, and most of it after the response.
        let piece = vec![b'x'; 64 << 10];
        for number in 0..64 {
            if number == 2 {
                std::thread::park_timeout(Duration::from_millis(100));
            }
            if stream.write_all(&piece).is_err() {
                panic!("reset after {number} pieces: {head}");
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        let answer = read_all(&mut stream);
        assert!(answer.contains(status), "{head}: {answer}");
    }
}

/// sozu-proxy/sozu #16, http-party/node-http-proxy #59: the version in a response is the edge's own.
#[test]
fn a_backend_with_http10_does_not_end_the_clients_connection() {
    let lab = Lab::with_backend(|asked| {
        asked.answer("HTTP/1.0 200 OK\r\n\r\nuntil the end");
        false
    });
    let mut reader = BufReader::new(lab.connect());
    for _ in 0..2 {
        reader.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
        let answer = read_until(&mut reader, "\r\n0\r\n\r\n").to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 200 ok\r\n"), "{answer}");
        assert!(answer.contains("transfer-encoding: chunked\r\n"), "{answer}");
        assert!(answer.contains("d\r\nuntil the end\r\n"), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
}

/// dotnet/yarp #877, traefik/traefik #9341, haproxy/haproxy #2928, golang/go #45785.
#[test]
fn only_websockets_are_switched_to() {
    let lab = Lab::with_backend(|asked| {
        let head = asked.head.to_ascii_lowercase();
        if head.contains("upgrade: websocket\r\n") {
            asked.answer(SWITCH);
            return echo(asked);
        }
        assert!(!head.contains("upgrade") && !head.contains("http2-settings"), "{head}");
        asked.ok("plain")
    });
    for protocol in ["h2c", "TLS/1.0", "websocket, h2c", "h2c\r\nUpgrade: websocket", "foo"] {
        let answer = lab.say(&format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\
             HTTP2-Settings: AAMAAABk\r\nUpgrade: {protocol}\r\n\r\n"
        ));
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("plain"), "{answer}");
    }
    let mut reader = BufReader::new(lab.connect());
    let switch = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n";
    reader.get_mut().write_all(switch.as_bytes()).expect("it is open");
    assert!(read_until(&mut reader, "\r\n\r\n").starts_with("HTTP/1.1 101 "));
    reader.get_mut().write_all(b"hello\n").expect("a tunnel");
    assert_eq!(read_until(&mut reader, "\n"), "hello\n");
}

/// Sends each line back, until the end.
fn echo(asked: &mut BackendRequest<'_>) -> bool {
    let mut line = String::new();
    while asked.stream.read_line(&mut line).is_ok_and(|count| count > 0) {
        asked.answer(&line);
        line.clear();
    }
    false
}

#[test]
fn a_backend_that_switches_to_another_protocol_is_refused() {
    let (app, _heads) = reporting(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    );
    let lab = Lab::start(settings(&[app]));
    let answer = lab.say(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
}

/// The head of a WebSocket over HTTP/2.
pub(crate) fn websocket(path: &str) -> [Field<'_>; 6] {
    [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", path),
        ("sec-websocket-version", "13"),
    ]
}

/// vercel-labs/portless PR 363, caddyserver/caddy PR 6740, unjs/httpxy PR 150, apple/swift-nio-http2
/// #92; envoyproxy/envoy#38645 (only the first one of a connection).
#[test]
fn websockets_over_http2_become_upgrades() {
    let (seen, heads) = channel();
    let app = backend(move |asked| {
        let _ = seen.send(asked.head.to_ascii_lowercase());
        if asked.head.starts_with("GET /no ") {
            return asked.ok("no websocket");
        }
        asked.answer(SWITCH);
        echo(asked)
    });
    let lab = Lab::start(h2c_settings(&[app]));
    let mut client = FrameClient::connect(lab.address, &[]);
    client.ask(1, &websocket("/ws?x=1"), false);
    // Clients that save a round trip (elazarl/goproxy#801).
    client.data(1, b"early\n", false);
    let answer = client.wait_for(HEADERS);
    // `:status: 200` is the eighth entry of HPACK's table.
    assert_eq!((answer.payload.first(), answer.is_last), (Some(&0x88), false));
    let text = next_head(&heads);
    assert!(text.starts_with("get /ws?x=1 http/1.1\r\n"), "{text}");
    for field in
        ["upgrade: websocket", "connection: upgrade", "host: a", "sec-websocket-version: 13"]
    {
        assert!(text.contains(&format!("{field}\r\n")), "{field}: {text}");
    }
    let key = text.split("sec-websocket-key: ").nth(1).and_then(|rest| rest.lines().next());
    assert!(key.is_some_and(|key| key.len() == 24 && key.ends_with("==")), "{text}");
    assert_eq!(client.wait_for(DATA).payload, b"early\n");
    client.ask(7, &websocket("/ws?x=2"), false);
    assert_eq!(client.wait_for(HEADERS).payload.first(), Some(&0x88));
    for (stream, line) in [(1, "hello\n"), (7, "again\n"), (1, "once more\n")] {
        client.data(stream, line.as_bytes(), false);
        let echoed = client.wait_for(DATA);
        assert_eq!((echoed.stream, &echoed.payload[..]), (stream, line.as_bytes()));
    }
    // Other requests pass on the same connection, and a response without a switch is no tunnel.
    client.ask(9, &websocket("/no"), false);
    let refused = client.wait_for(HEADERS);
    assert_ne!(refused.payload.first(), Some(&0x88), "502");
    let mut other = websocket("/ws");
    other[1] = (":protocol", "connect-udp");
    client.ask(11, &other, false);
    loop {
        let frame = client.next().expect("an answer");
        if frame.stream == 11 && frame.kind == HEADERS {
            assert_ne!(frame.payload.first(), Some(&0x88), "400");
            break;
        }
    }
    client.data(1, b"still\n", true);
    loop {
        let frame = client.next().expect("the rest of the tunnel");
        if frame.stream == 1 && frame.kind == DATA {
            assert_eq!(frame.payload, b"still\n");
            break;
        }
    }
}

#[test]
fn options_of_the_whole_server_pass_on() {
    let (app, heads) = reporting(OK);
    let lab = Lab::start(settings(&[app]));
    let answer = lab.say("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(next_head(&heads).starts_with("options * http/1.1\r\n"));
    // RFC 9112 §3.2.4: an absolute target without a path; the last proxy before the server ends it.
    for (target, expected) in [("http://a", "*"), ("http://a/", "/"), ("http://a?q", "/?q")] {
        let text = format!("OPTIONS {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(lab.say(&text).starts_with("HTTP/1.1 200"), "{target}");
        let seen = next_head(&heads);
        assert!(seen.starts_with(&format!("options {expected} http/1.1\r\n")), "{seen}");
        assert!(seen.contains("\nhost: a\r\n"), "{seen}");
    }
    assert!(lab.say("GET * HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 400"));
    let lab = Lab::start(h2c_settings(&[app]));
    let mut client = FrameClient::connect(lab.address, &[]);
    client.ask(
        1,
        &[(":method", "OPTIONS"), (":scheme", "http"), (":authority", "a"), (":path", "*")],
        true,
    );
    client.wait_for(HEADERS);
    assert!(next_head(&heads).starts_with("options * http/1.1\r\n"));
}

#[test]
fn an_unfinished_upload_does_not_poison_the_next_request() {
    // The backend answers early and keeps its connection: it must not get another request there.
    let lab = Lab::with_backend(|asked| {
        let is_upload = asked.head.starts_with("POST");
        assert!(is_upload || asked.head.starts_with("GET"), "{}", asked.head);
        asked.ok(if is_upload { "early" } else { "fine" })
    });
    let mut stream = connect(lab.address);
    let upload = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nbegin";
    stream.write_all(upload.as_bytes()).expect("it is open");
    let mut reader = BufReader::new(stream);
    assert!(read_answer(&mut reader).ends_with("early"));
    for _ in 0..3 {
        assert!(lab.get("/").ends_with("fine"));
    }
}
