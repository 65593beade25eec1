//! What a proxy has to translate, to bound or to finish between two hops, as reports about other
//! proxies describe it.

use std::io::Read;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use weir_edge::{CheckKind, CheckSettings, Settings};

use crate::h2_frames::{FrameClient, HEADERS, get};
use crate::lab::{Lab, PATIENCE, backend, settings};

/// Settings of an edge whose backend reports each head and answers with `text`.
fn reporting(text: &'static str) -> (Settings, Receiver<String>) {
    let (seen, heads) = channel();
    let app = backend(move |asked| {
        let _ = seen.send(asked.head.to_ascii_lowercase());
        asked.answer(text);
        true
    });
    (settings(&[app]), heads)
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn next(heads: &Receiver<String>) -> String {
    heads.recv_timeout(PATIENCE).expect("a request reaches the backend")
}

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
    let (mut settings, heads) = reporting(OK);
    settings.listeners[0].is_h2c = true;
    let lab = Lab::start(settings);
    let mut client = FrameClient::connect(lab.address, &[]);
    let crumbs: Vec<String> = (0..180).map(|n| format!("name_{n}=5ea9ed9999b9")).collect();
    let mut fields = get("/");
    fields.extend(crumbs.iter().map(|crumb| ("cookie", crumb.as_str())));
    client.ask(1, &fields, true);
    client.wait_for(HEADERS);
    let head = next(&heads);
    assert!(head.contains(&format!("cookie: {}\r\n", crumbs.join("; "))), "{head}");
}

/// apache/apisix#5969 and PR 13743, envoyproxy/envoy#2450, Kong/kong#4159: a backend that was
/// written as a name is a virtual host of that name for its checks.
#[test]
fn checks_ask_for_the_name_of_the_backend() {
    let (mut settings, heads) = reporting(OK);
    let port = settings.backends[0].address.expect("an address").port();
    settings.backends =
        vec![weir_edge::BackendSettings::parse(&format!("localhost:{port}")).expect("a name")];
    let [every, within] = [100, 5000].map(Duration::from_millis);
    let kind = CheckKind::Ask("/health".into());
    settings.check = Some(CheckSettings { kind, every, within, rise: 1, fall: 1 });
    let lab = Lab::start(settings);
    assert!(next(&heads).contains(&format!("host: localhost:{port}\r\n")));
    lab.say("GET / HTTP/1.0\r\n\r\n");
    let asked = std::iter::repeat_with(|| next(&heads)).find(|head| head.starts_with("get / "));
    let asked = asked.expect("it does not end");
    assert!(asked.contains(&format!("host: localhost:{port}\r\n")), "{asked}");
}

/// zoxy-io/zoxy#240, getlantern/http-proxy-archived#35: each hop takes one from the number of an
/// OPTIONS or TRACE and answers at 0 (RFC 9110 §7.6.2); other methods keep theirs.
#[test]
fn options_and_trace_go_as_far_as_they_say() {
    let (settings, heads) = reporting(OK);
    let lab = Lab::start(settings);
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
        let head = next(&heads);
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
    let (mut settings, heads) = reporting(OK);
    settings.listeners[0].is_h2c = true;
    let lab = Lab::start(settings);
    let mut client = FrameClient::connect(lab.address, &[]);
    for (stream, method) in [(1, "POST"), (3, "PUT"), (5, "PATCH"), (7, "DELETE")] {
        let mut fields = get("/");
        fields[0].1 = method;
        client.ask(stream, &fields, true);
        client.wait_for(HEADERS);
        let head = next(&heads);
        assert_eq!(head.contains("content-length: 0\r\n"), method != "DELETE", "{method}: {head}");
    }
}
