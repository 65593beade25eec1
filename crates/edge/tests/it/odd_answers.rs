//! Answers that are odd but occur, and requests that need more care than most.

use std::io::{BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use crate::h2_frames::{DATA, FrameClient, HEADERS, get};
use crate::lab::{
    BackendRequest, Lab, PATIENCE, backend, h2c_settings, read_answer, settings, unused_address,
};

/// An edge before a backend that sends this text to each request.
fn answering(text: impl Into<String>) -> Lab {
    let text = text.into();
    Lab::with_backend(move |asked| {
        asked.answer(&text);
        true
    })
}

/// Sends two requests on one connection, so that the second shows whether the first one's answer
/// ended where the edge thinks.
fn twice(lab: &Lab) -> String {
    let get = "GET /a HTTP/1.1\r\nHost: a\r\n";
    lab.say(&format!("{get}\r\n{get}Connection: close\r\n\r\n"))
}

/// aspnet/Proxy #30, cherokee/webserver #265, chimurai/http-proxy-middleware #447: the coding counts,
/// and the length is not forwarded.
#[test]
fn a_length_beside_a_coding_is_dropped() {
    let lab = answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\n\r\n",
    );
    let answers = twice(&lab);
    assert_eq!(answers.matches("5\r\nhello\r\n0\r\n\r\n").count(), 2, "{answers}");
    assert!(!answers.contains("content-length"), "{answers}");
}

/// envoyproxy/envoy #3648, boostorg/beast #1880, nodejs/node #6517, python-hyper/h11 #92.
#[test]
fn equal_lengths_become_one() {
    for lengths in ["Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5, 5"] {
        let text = format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\nhello");
        let answers = twice(&answering(text));
        assert_eq!(answers.matches("content-length: 5\r\n").count(), 2, "{answers}");
        assert_eq!(answers.matches("hello").count(), 2, "{answers}");
    }
}

/// envoyproxy/envoy #31009, erlang/otp PR 798, psf/requests #4796 (folded lines), apache/trafficserver
/// #7176, seanmonstar/httparse #88 (a space before the colon).
#[test]
fn old_forms_of_fields_are_passed_on_in_the_new_form() {
    let lab = answering(
        "HTTP/1.1 200 OK\r\nX-Policy: default-src 'self';\r\n  img-src *\r\n\tx\r\nX-Old : 1\r\n\
         Content-Length : 2\r\n\r\nok",
    );
    let answers = twice(&lab);
    let fields = "x-policy: default-src 'self'; img-src * x\r\nx-old: 1\r\n";
    assert_eq!(answers.matches(fields).count(), 2, "{answers}");
    assert!(answers.ends_with("\r\n\r\nok"), "{answers}");
}

/// python/cpython #157951, elazarl/goproxy #732, envoyproxy/envoy #16071, sxhxliang/mcp-access-point
/// #16: answers that cannot have a body.
#[test]
fn answers_without_body_end_with_their_head() {
    for text in [
        "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\nETag: x\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 512\r\nETag: x\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
    ] {
        let answers = twice(&answering(text));
        let status = &text[..12];
        assert_eq!(answers.matches(status).count(), 2, "{text}: {answers}");
        assert!(answers.ends_with("\r\n\r\n"), "{text}: {answers}");
        assert!(!answers.contains("transfer-encoding"), "{text}: {answers}");
        assert!(!answers.contains("content-length: 0"), "{text}: {answers}");
    }
}

/// mar10/wsgidav #123, JuliaWeb/HTTP.jl #1112, tempesta-tech/tempesta #414: a body in the answer to
/// HEAD is not the next answer.
#[test]
fn a_body_after_an_answer_to_head_does_not_become_an_answer() {
    let lab = Lab::start(settings(&[backend(|asked| {
        if asked.head.starts_with("HEAD") {
            asked.answer(
                "HTTP/1.1 200 OK\r\nContent-Length: 45\r\n\r\n\
                 HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad....",
            );
            return true;
        }
        asked.ok("page")
    })]));
    for _ in 0..20 {
        let mut stream = BufReader::new(lab.connect());
        let requests = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\
                        Connection: close\r\n\r\n";
        stream.get_mut().write_all(requests.as_bytes()).expect("it is open");
        let mut answers = String::new();
        stream.read_to_string(&mut answers).expect("text");
        assert!(answers.contains("content-length: 45\r\n"), "{answers}");
        assert!(!answers.contains("bad"), "{answers}");
        assert!(answers.ends_with("page"), "{answers}");
    }
}

/// stoplightio/prism #2676, tallarium/reverse_proxy_plug #240, mitmproxy/mitmproxy #7423 (cookies);
/// ranges, variants and encodings are the backend's and the client's alone.
#[test]
fn what_describes_the_content_is_not_changed() {
    let head = "HTTP/1.1 206 Partial Content\r\nset-cookie: a=1, x; Path=/\r\nset-cookie: b=2\r\n\
                content-range: bytes 0-1/9\r\ncontent-encoding: gzip\r\nvary: accept, cookie\r\n\
                etag: W/\"1\"\r\ncontent-length: 2\r\n";
    let lab = Lab::start(settings(&[backend(move |asked| {
        asked.answer(&format!("{head}Connection: close\r\n\r\nok"));
        false
    })]));
    let mut client = BufReader::new(lab.connect());
    for _ in 0..2 {
        client.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it stays open");
        let answer = read_answer(&mut client);
        let lines = head.lines().filter(|line| !answer.contains(&format!("{line}\r\n")));
        assert_eq!(lines.collect::<Vec<_>>(), Vec::<&str>::new(), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
}

/// caddyserver/caddy #643, h2o/h2o #981, http-party/node-http-proxy #775, haproxy/haproxy #2785: the
/// path is the backend's to interpret.
#[test]
fn targets_reach_the_backend_as_they_are() {
    let (seen, targets) = channel();
    let lab = Lab::start(settings(&[backend(move |asked| {
        let _ = seen.send(asked.head.split(' ').nth(1).expect("a target").to_owned());
        asked.ok("ok")
    })]));
    for target in [
        "/api/queues/%2F/queue",
        "//cms//x",
        "/a/../b/./c",
        "/a;v=1;w=2/b;c",
        "/%E2%82%AC%2e%2E/%25",
        "/a?x=/../y&z=%00",
        "/?",
        "/a//",
    ] {
        lab.get(target);
        assert_eq!(targets.recv_timeout(PATIENCE).expect("a request"), target);
    }
}

/// diennea/carapaceproxy #346, linkerd/linkerd #1847, hyperium/hyper #1304 (no chunks),
/// envoyproxy/envoy #9797 (the connection stays only if both sides say so).
#[test]
fn clients_of_http10_get_no_chunks_and_may_keep_the_connection() {
    let chunked = answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    );
    let answer = chunked.say("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nabcde"), "{answer}");
    assert!(!answer.contains("transfer-encoding"), "{answer}");
    let sized = answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let mut client = BufReader::new(sized.connect());
    for _ in 0..2 {
        let request = b"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
        client.get_mut().write_all(request).expect("it stays open");
        let answer = read_answer(&mut client).to_ascii_lowercase();
        assert!(
            answer.contains("connection: keep-alive\r\n") && answer.ends_with("ok"),
            "{answer}"
        );
    }
    let closed = sized.say("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert!(closed.ends_with("ok"), "{closed}");
}

/// sozu-proxy/sozu #529, nginx/nginx PR 723, squid-cache/squid PR 422: HTTP/0.9 and other texts.
#[test]
fn what_is_no_answer_becomes_a_502() {
    for text in [
        "<html>old</html>\n",
        "x",
        "HTTP/1.1 0 Init\r\n\r\n",
        "HTTP/1.1 200OK\r\n\r\n",
        "HTTP/3.0 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nabcde",
    ] {
        let lab = Lab::start(settings(&[backend(move |asked| {
            asked.answer(text);
            false
        })]));
        let answer = lab.get("/");
        assert!(answer.starts_with("HTTP/1.1 502 "), "{text:?}: {answer}");
        assert_eq!(lab.request()["http_response_status_code"], "502");
    }
}

/// A backend that sends interim responses without end does not fill the memory, and the answer comes.
#[test]
fn a_flood_of_interim_responses_is_limited() {
    let lab = Lab::start(settings(&[backend(|asked| {
        let early = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n".repeat(1000);
        (0..50).for_each(|_| asked.answer(&early));
        asked.ok("page")
    })]));
    let answer = lab.get("/");
    let (early, last) = answer.split_once("HTTP/1.1 200 OK\r\n").expect("an answer");
    assert!(last.ends_with("\r\n\r\npage") && early.len() < 2_000_000, "{}", early.len());
    let [begun, whole] = ["HTTP/1.1 103 ", "link: </a.css>; rel=preload\r\n\r\n"]
        .map(|part| early.matches(part).count());
    assert_eq!(begun, whole, "each interim response is whole");
    assert_eq!(lab.request()["http_response_status_code"], "200");
}

/// traefik/traefik #4181, envoyproxy/envoy #14872, grpc/grpc-go #577: the status of gRPC in the only
/// head, which is the end of the stream as well.
#[test]
fn an_answer_of_grpc_without_messages_ends_with_its_head() {
    let inner = answering(
        "HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ngrpc-status: 5\r\n\
         content-length: 0\r\n\r\n",
    );
    let lab = Lab::start(h2c_settings(&[inner.address]));
    let mut client = FrameClient::connect(lab.address, &[]);
    let mut fields = get("/shop.Orders/Get");
    fields[0].1 = "POST";
    fields.extend([("te", "trailers"), ("content-type", "application/grpc")]);
    client.ask(1, &fields, true);
    assert!(client.wait_for(HEADERS).is_last, "nothing follows the head");
}

/// h2o/h2o #3306, bytedance/g3 #6, haga-rak/fluxzy.core PR 625: a client of HTTP/2 may offer its body,
/// too.
#[test]
fn a_body_that_is_offered_over_http2_arrives() {
    let (seen, bodies) = channel();
    let offered = h2c_settings(&[backend(move |asked: &mut BackendRequest<'_>| {
        if asked.head.to_ascii_lowercase().contains("expect: 100-continue") {
            asked.answer("HTTP/1.1 100 Continue\r\n\r\n");
        }
        let mut body = Vec::new();
        while !body.ends_with(b"0\r\n\r\n") && !body.ends_with(b"hello") {
            let mut byte = [0];
            asked.stream.read_exact(&mut byte).expect("a body");
            body.push(byte[0]);
        }
        let _ = seen.send(body);
        asked.ok("stored")
    })]);
    let lab = Lab::start(offered);
    let mut client = FrameClient::connect(lab.address, &[]);
    let mut fields = get("/up");
    fields[0].1 = "POST";
    fields.extend([("expect", "100-continue"), ("content-length", "5")]);
    client.ask(1, &fields, false);
    client.data(1, b"hello", true);
    client.wait_for(HEADERS);
    assert_eq!(bodies.recv_timeout(PATIENCE).expect("a body"), b"hello");
}

/// envoyproxy/envoy #26877, #3263 and #17504: when all backends fail, none is given up.
#[test]
fn a_fleet_that_fails_together_is_still_tried() {
    let is_ill = Arc::new(AtomicBool::new(true));
    let members = [(); 3].map(|()| {
        let is_ill = Arc::clone(&is_ill);
        backend(move |asked| !is_ill.load(Ordering::Relaxed) && asked.ok("well"))
    });
    let lab = Lab::start(settings(&members));
    for _ in 0..40 {
        let answer = lab.get("/");
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    }
    is_ill.store(false, Ordering::Relaxed);
    crate::lab::wait_until("an answer", || lab.get("/").ends_with("well"));
}

/// swisspost/gateleen PR 788, gawel/WSGIProxy2 #25, tinyproxy/tinyproxy #58: what is coded otherwise
/// cannot be passed on without its name.
#[test]
fn other_transfer_codings_become_a_502() {
    for coding in ["gzip, chunked", "gzip", "chunked, gzip", "chunked\r\nTransfer-Encoding: gzip"] {
        let text = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        );
        let answer = answering(text).get("/");
        assert!(answer.starts_with("HTTP/1.1 502 "), "{coding}: {answer}");
    }
}

/// caddyserver/caddy #5454, hipache/hipache #137, traefik/traefik #1008: a body that was not
/// sent goes to the next backend, whole.
#[test]
fn a_body_moves_on_when_a_backend_refuses_the_connection() {
    let app = backend(|asked| {
        let mut body = vec![0; 5000];
        asked.stream.read_exact(&mut body).is_ok() && asked.ok(&body.len().to_string())
    });
    let lab = Lab::start(settings(&[unused_address(), app]));
    for _ in 0..10 {
        let head =
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5000\r\n\r\n";
        let answer = lab.say(&format!("{head}{}", "x".repeat(5000)));
        assert!(answer.ends_with("\r\n\r\n5000"), "{answer}");
    }
}

/// habitat-sh/builder PR 1681, alibaba/tengine PR 285, agentzh/chunkin-nginx-module #2: the backend
/// reads an upload while the client still sends it.
#[test]
fn uploads_are_not_held_back() {
    let (seen, parts) = channel();
    let lab = Lab::start(settings(&[backend(move |asked| {
        for _ in 0..2 {
            let mut part = [0; 10];
            if asked.stream.read_exact(&mut part).is_err() {
                return false;
            }
            let _ = seen.send(part);
        }
        asked.ok("stored")
    })]));
    let mut client = BufReader::new(lab.connect());
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n";
    client.get_mut().write_all(head.as_bytes()).expect("it is open");
    for part in [b"aaaaaaaaaa", b"bbbbbbbbbb"] {
        client.get_mut().write_all(part).expect("it is open");
        assert_eq!(&parts.recv_timeout(PATIENCE).expect("the part"), part);
    }
    assert!(read_answer(&mut client).ends_with("stored"));
}

/// dotnet/yarp #583, envoyproxy/envoy #3788, nghttp2/nghttp2 #887, eclipse-vertx/vertx-http-proxy #152:
/// fields of the connection to the backend would end the stream of a client with HTTP/2.
#[test]
fn fields_of_the_backends_connection_reach_no_client_of_http2() {
    let lab = Lab::start(h2c_settings(&[backend(|asked| {
        asked.answer(
            "HTTP/1.1 200 OK\r\nConnection: Keep-Alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\n\
             Proxy-Connection: keep-alive\r\nUpgrade: h2,h2c\r\nContent-Length: 2\r\n\r\nok",
        );
        true
    })]));
    let mut client = FrameClient::connect(lab.address, &[]);
    client.ask(1, &get("/"), true);
    let head = client.wait_for(HEADERS);
    let data = client.wait_for(DATA);
    assert!(!head.is_last && data.payload == b"ok", "{head:?} {data:?}");
    let names = String::from_utf8_lossy(&head.payload).to_ascii_lowercase();
    assert!(!names.contains("x-hop") && !names.contains("upgrade"), "{names}");
}

/// CVE-2022-0711 (NixOS/nixpkgs#166651): a `Set-Cookie2` in an answer was an endless loop.
#[test]
fn odd_cookies_of_an_answer_are_passed_on() {
    let lab = Lab::with_backend(|asked| {
        asked.answer(
            "HTTP/1.1 200 OK\r\nSet-Cookie2: a=b\r\nSet-Cookie2:\r\nSet-Cookie2: =;;\r\nContent-Length: 2\r\n\r\nok",
        );
        false
    });
    let answer = lab.get("/");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    assert_eq!(answer.to_ascii_lowercase().matches("set-cookie2:").count(), 3, "{answer}");
}
