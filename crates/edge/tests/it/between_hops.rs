//! What a proxy has to translate, to bound or to finish between two hops, as reports about other
//! proxies describe it.

use std::io::Read;
use std::sync::mpsc::channel;
use std::time::Duration;

use weir_edge::{CheckKind, CheckSettings};

use crate::h2_backends::{frame_backend, h2c_to};
use crate::h2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, FrameClient, HEADERS, RST_STREAM, block, get,
};
use crate::lab::{
    Lab, OK, PATIENCE, backend, h2c_settings, next_head, reporting, settings, unused_address,
};
use crate::vectors::{SeenRequests, strict_backend};

/// envoyproxy/envoy#13827, h2o/h2o#1733: size limits an answer's head, not the number of its fields.
#[test]
fn answers_with_many_fields_pass() {
    for count in [90, 150, 400] {
        let links = "Link: </a.css>; rel=preload\r\n".repeat(count);
        let lab = Lab::start(settings(&[backend(move |asked| {
            asked.answer(&format!("HTTP/1.1 200 OK\r\n{links}Content-Length: 2\r\n\r\nok"));
            true
        })]));
        let answer = lab.get("/");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{count}: {answer}");
        assert_eq!(answer.matches("link: ").count(), count);
    }
}

/// icing/mod_h2#201: HTTP/2 splits a cookie into crumbs, which are one field for HTTP/1.1.
#[test]
fn a_cookie_in_many_crumbs_is_one_field() {
    let (app, heads) = reporting(OK);
    let lab = Lab::start(h2c_settings(&[app]));
    let mut client = FrameClient::connect(lab.address, &[]);
    let crumbs: Vec<String> = (0..180).map(|n| format!("name_{n}=5ea9ed9999b9")).collect();
    let mut fields = get("/");
    fields.extend(crumbs.iter().map(|crumb| ("cookie", crumb.as_str())));
    client.ask(1, &fields, true);
    client.wait_for(HEADERS);
    let head = next_head(&heads);
    assert!(head.contains(&format!("cookie: {}\r\n", crumbs.join("; "))), "{head}");
}

/// apache/apisix#5969 and PR 13743, envoyproxy/envoy#2450, Kong/kong#4159: a backend that was
/// written as a name is a virtual host of that name for its checks.
#[test]
fn checks_ask_for_the_name_of_the_backend() {
    let (app, heads) = reporting(OK);
    let port = app.port();
    let mut settings = settings(&[]);
    settings.backends =
        vec![weir_edge::BackendSettings::parse(&format!("localhost:{port}")).expect("a name")];
    let [every, within] = [100, 5000].map(Duration::from_millis);
    let kind = CheckKind::Ask("/health".into());
    settings.check = Some(CheckSettings { kind, every, within, rise: 1, fall: 1 });
    let lab = Lab::start(settings);
    assert!(next_head(&heads).contains(&format!("host: localhost:{port}\r\n")));
    lab.say("GET / HTTP/1.0\r\n\r\n");
    let asked =
        std::iter::repeat_with(|| next_head(&heads)).find(|head| head.starts_with("get / "));
    let asked = asked.expect("it does not end");
    assert!(asked.contains(&format!("host: localhost:{port}\r\n")), "{asked}");
}

/// golang/go#71988, nginx/nginx PR 1016, oven-sh/bun PR 32887: where trailers end is read in two ways when
/// a line of them ends without return, so nothing follows trailers on a connection.
#[test]
fn nothing_follows_trailers() {
    let seen = SeenRequests::default();
    let mut settings = settings(&[strict_backend(&seen)]);
    settings.beacon = Some("/ping".into());
    let lab = Lab::start(settings);
    for end in ["\n", "X-Sum: 1\n\r\n", "X-Sum: 1\n\n", "X-Sum: 1\r\n\r\n"] {
        // To a backend, to the edge's own beacons, and one whose body the edge does not read.
        for head in
            ["POST /p HTTP/1.1", "POST /ping HTTP/1.1", "OPTIONS /o HTTP/1.1\r\nMax-Forwards: 0"]
        {
            let text = format!(
                "{head}\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n{end}\
                 GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
            );
            let answer = lab.say(&text);
            assert_eq!(answer.matches("HTTP/1.1 2").count(), 1, "{head} {end:?}: {answer}");
            assert!(answer.contains("connection: close\r\n"), "{head} {end:?}: {answer}");
        }
    }
    assert_eq!(*seen.lock().expect("no panic"), ["POST /p 5"; 4]);
}

/// zoxy-io/zoxy#240, getlantern/http-proxy-archived#35: each hop takes one from the number of an
/// OPTIONS or TRACE and answers at 0 (RFC 9110 §7.6.2); other methods keep theirs.
#[test]
fn options_and_trace_go_as_far_as_they_say() {
    let (app, heads) = reporting(OK);
    let lab = Lab::start(settings(&[app]));
    for (method, sent, expected) in [
        ("OPTIONS", "10", "9"),
        ("OPTIONS", "1", "0"),
        ("OPTIONS", "012", "11"),
        ("OPTIONS", "999999999999999999999", "18446744073709551614"),
        ("OPTIONS", "-1", "-1"),
        ("TRACE", "2", "1"),
        ("GET", "5", "5"),
        ("GET", "0", "0"),
    ] {
        lab.say(&format!(
            "{method} /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: {sent}\r\n\r\n"
        ));
        let head = next_head(&heads);
        assert!(head.contains(&format!("max-forwards: {expected}\r\n")), "{method} {sent}: {head}");
    }
    for (method, status) in [("OPTIONS", "200"), ("TRACE", "501")] {
        let answer = lab.say(&format!(
            "{method} /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: 0\r\n\r\n"
        ));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{method}: {answer}");
        assert!(heads.try_recv().is_err(), "{method} reached the backend");
    }
}

/// daurnimator/lua-http PR 41: a request of HTTP/1.0 that expects 100 gets none (RFC 9110 §10.1.1), and
/// its body arrives.
#[test]
fn old_clients_get_no_100() {
    let (seen, bodies) = channel();
    let lab = Lab::start(settings(&[backend(move |asked| {
        let mut body = [0; 5];
        asked.stream.read_exact(&mut body).expect("a body");
        let _ = seen.send((asked.head.to_ascii_lowercase(), body));
        asked.ok("stored")
    })]));
    let text =
        "POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello";
    let answer = lab.say(text);
    assert!(answer.ends_with("stored") && !answer.contains(" 100 "), "{answer}");
    assert_eq!(&bodies.recv_timeout(PATIENCE).expect("a body").1, b"hello");
}

/// h2o/h2o PR 1080, varnishcache/varnish-cache#4331, cloudflare/cloudflared#5: browsers with HTTP/2 leave
/// the length out, and many backends want one (411).
#[test]
fn a_post_without_body_has_a_length() {
    let (app, heads) = reporting(OK);
    let lab = Lab::start(h2c_settings(&[app]));
    let mut client = FrameClient::connect(lab.address, &[]);
    for (stream, method) in [(1, "POST"), (3, "PUT"), (5, "PATCH"), (7, "DELETE")] {
        let mut fields = get("/");
        fields[0].1 = method;
        client.ask(stream, &fields, true);
        client.wait_for(HEADERS);
        let head = next_head(&heads);
        assert_eq!(head.contains("content-length: 0\r\n"), method != "DELETE", "{method}: {head}");
    }
}

/// nginx/nginx PR 1604, golang/go#81319: interim responses have no content, so they have no length; fields
/// of the connection stay on it.
#[test]
fn interim_responses_have_neither_length_nor_fields_of_the_connection() {
    let lab = Lab::start(settings(&[backend(|asked| {
        asked.answer(
            "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\
             Connection: close, X-Named\r\nX-Named: 1\r\nKeep-Alive: timeout=5\r\n\
             Link: </a.css>\r\n\r\n",
        );
        asked.ok("page")
    })]));
    let answer = lab.get("/");
    assert!(answer.starts_with("HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n"), "{answer}");
    assert!(answer.ends_with("page"), "{answer}");
}

/// hyperium/h2#167, nginx/nginx PR 1604, kazu-yamamoto/http2 PR 168: interim responses of a backend with
/// HTTP/2 come before the response and are none; the body that waits for one is sent.
#[test]
fn interim_responses_of_http2_are_not_the_response() {
    let app = frame_backend(|server, frame, _| {
        if frame.kind == HEADERS {
            for status in ["100", "103", "102"] {
                let fields = block(&[(":status", status), ("link", "</a.css>")]);
                server.send(HEADERS, END_HEADERS, frame.stream, &fields);
            }
        }
        if frame.is_last {
            server.send(HEADERS, END_HEADERS, frame.stream, &block(&[(":status", "200")]));
            server.send(DATA, END_STREAM, frame.stream, b"page");
        }
        true
    });
    let lab = Lab::start(h2c_to(app));
    let answer = lab.get("/");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("page"), "{answer}");
    let answer = lab.say(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\n\
         Content-Length: 5\r\n\r\nhello",
    );
    assert!(answer.contains("HTTP/1.1 200 ") && answer.contains("page"), "{answer}");
}

/// icing/mod_h2 PR 297, eclipse-vertx/vert.x PR 4212: a head that passes over HTTP/1.1 passes over HTTP/2.
#[test]
fn heads_are_as_long_over_http2_as_over_http1() {
    const FIELD: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let app = frame_backend(|server, frame, _| {
        if frame.kind == HEADERS {
            let fields = std::iter::once((":status", "204"));
            let fields: Vec<_> = fields.chain((0..400).map(|_| ("x-policy", FIELD))).collect();
            let block = block(&fields);
            let mut pieces = block.chunks(16 << 10).peekable();
            let first = pieces.next().expect("a head");
            server.send(HEADERS, END_STREAM, frame.stream, first);
            while let Some(piece) = pieces.next() {
                let flags = if pieces.peek().is_none() { END_HEADERS } else { 0 };
                server.send(CONTINUATION, flags, frame.stream, piece);
            }
        }
        true
    });
    let answer = Lab::start(h2c_to(app)).get("/");
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    assert_eq!(answer.matches(FIELD).count(), 400);
}

/// litespeedtech/openlitespeed#457, mitmproxy/mitmproxy#659, varnishcache/varnish-cache#4245,
/// hyperium/hyper#2835: the length in the answer to HEAD is the content's, or is not there.
#[test]
fn answers_to_head_keep_their_length_and_get_none() {
    for (framing, expected) in [
        ("Content-Length: 9757", Some("content-length: 9757\r\n")),
        ("Content-Length: 0", Some("content-length: 0\r\n")),
        ("Transfer-Encoding: chunked", None),
        ("X-Framing: none", None),
    ] {
        let app = backend(move |asked| {
            asked.answer(&format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
            true
        });
        let lab = Lab::start(settings(&[app]));
        let twice = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let answer = lab.say(twice);
        assert_eq!(answer.matches("HTTP/1.1 200 ").count(), 2, "{framing}: {answer}");
        let found = answer.matches("content-length").count();
        assert_eq!(found, if expected.is_some() { 2 } else { 0 }, "{framing}: {answer}");
        assert!(expected.is_none_or(|field| answer.contains(field)), "{framing}: {answer}");
        let lab = Lab::start(h2c_settings(&[app]));
        let mut client = FrameClient::connect(lab.address, &[]);
        let mut fields = get("/");
        fields[0].1 = "HEAD";
        client.ask(1, &fields, true);
        let head = client.wait_for(HEADERS);
        assert!(head.is_last, "{framing}: nothing follows the head");
    }
}

/// haproxy/haproxy#172, caddyserver/caddy#1589, linkerd/linkerd2#986, nghttp2/nghttp2#156: a client that
/// cancels its request ends it at the backend, too.
#[test]
fn a_cancelled_request_ends_at_the_backend() {
    let (seen, ends) = channel();
    let over = seen.clone();
    let plain = backend(move |asked| {
        let _ = seen.send("begun");
        let left = asked.stream.read_to_end(&mut Vec::new());
        let _ = seen.send(if left.is_ok() { "ended" } else { "reset" });
        false
    });
    let framed = frame_backend(move |_, frame, _| {
        let what = if frame.kind == RST_STREAM { "reset" } else { "begun" };
        let _ = over.send(what);
        true
    });
    for address in [plain.to_string(), format!("h2c://{framed}")] {
        let mut h2 = settings(&[]);
        h2.backends = vec![weir_edge::BackendSettings::parse(&address).expect("an address")];
        h2.listeners[0].is_h2c = true;
        let lab = Lab::start(h2);
        let mut client = FrameClient::connect(lab.address, &[]);
        client.ask(1, &get("/slow"), true);
        assert_eq!(ends.recv_timeout(PATIENCE), Ok("begun"));
        client.send(RST_STREAM, 0, 1, &[0, 0, 0, 8]);
        let end = ends.recv_timeout(PATIENCE).expect("the end of the request");
        assert!(end == "ended" || end == "reset", "{end}");
        assert_eq!(lab.request()["failure"], "client_closed");
        let state = lab.edge.as_ref().expect("it runs").state();
        assert_eq!((state.backends[0].in_flight, state.backends[0].state), (0, "up"));
    }
}

/// kemalcr/kemal PR 767, http-party/node-http-proxy#624: a backend that refuses a WebSocket opens no tunnel;
/// what the client sends next is a request with its own route and row.
#[test]
fn a_refused_websocket_is_no_tunnel() {
    let (app, heads) = reporting("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno");
    let mut settings = settings(&[]);
    settings.backends =
        vec![weir_edge::BackendSettings::parse(&format!("chat={app}")).expect("an address")];
    settings.routes = vec![weir_edge::RouteSettings::parse("/ws=chat").expect("a route")];
    let lab = Lab::start(settings);
    let answer = lab.say(
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 777\r\n\r\nGET /secret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 2, "{answer}");
    assert!(answer.contains("HTTP/1.1 426 ") && answer.contains("HTTP/1.1 404 "), "{answer}");
    assert!(next_head(&heads).starts_with("get /ws "));
    assert!(heads.try_recv().is_err(), "the second request has no backend");
    assert_eq!(lab.rows("request", 2).len(), 2);
}

/// golang/go#46313 (CVE-2021-33197), apache/httpd PR 320 (CVE-2022-31813): each line of `Connection` counts,
/// and names no field that says who the client is.
#[test]
fn every_connection_field_counts_and_none_hides_the_client() {
    let (app, heads) = reporting(OK);
    let lab = Lab::start(settings(&[app]));
    lab.say(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection:\r\nConnection: X-Hop\r\nConnection: ,, close,\r\n\
         Connection: X-Forwarded-For, X-Real-IP, X-Request-Id, X-Forwarded-Proto, Host\r\nX-Hop: 1\r\n\r\n",
    );
    let head = next_head(&heads);
    assert!(!head.contains("x-hop") && !head.contains("connection:"), "{head}");
    for field in [
        "x-forwarded-for: 127.0.0.1\r\n",
        "x-forwarded-proto: http\r\n",
        "x-request-id: ",
        "host: a\r\n",
    ] {
        assert!(head.contains(field), "{field}: {head}");
    }
}

/// nghttp2/nghttp2 PR 2144 and #1142, icing/mod_h2#167: clients take such a body for an error.
#[test]
fn the_edges_own_answers_to_head_have_no_body() {
    let mut settings = h2c_settings(&[unused_address()]);
    settings.beacon = Some("/ping".into());
    let lab = Lab::start(settings);
    let mut client = FrameClient::connect(lab.address, &[]);
    for (stream, path) in [(1, "/"), (3, "/ping?a=1"), (5, "/ping/weir.js")] {
        let mut fields = get(path);
        fields[0].1 = "HEAD";
        client.ask(stream, &fields, true);
        assert!(client.wait_for(HEADERS).is_last, "{path}: nothing follows the head");
    }
}
