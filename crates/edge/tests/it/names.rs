//! Backends that are written as names: several addresses, both families, and names that do not
//! resolve.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_edge::{BackendSettings, Settings};

use crate::lab::{Lab, backend, backend_on, read_all, settings, wait_until};
use crate::name_server::{NameServer, Question, Reply};

/// NginxProxyManager/nginx-proxy-manager #633 and #3970, vozlt/nginx-module-vts #90,
/// ZoeyVid/NPMplus #3485, GUI/nginx-upstream-dynamic-servers #32.
#[test]
fn a_name_that_does_not_resolve_takes_only_its_own_backend_out() {
    let mut settings = settings(&[backend(|asked| asked.ok("there"))]);
    settings.backends.push(BackendSettings::parse("gone.invalid:80").expect("a backend"));
    settings.upstream.panic_percent = 0;
    let lab = Lab::start(settings);
    for _ in 0..5 {
        assert!(lab.get("/").ends_with("there"));
    }
    let rows = lab.rows("edge_backend", 2);
    let gone = rows.iter().find(|row| row["backend"] == "gone.invalid:80").expect("a row");
    assert_eq!(gone["state"], "unresolved");
    assert_eq!(gone["reason"], "its name does not resolve");
    let requests = lab.rows("request", 5);
    assert!(requests.iter().all(|row| row["upstream_tries"] == "1"), "{requests:#?}");
}

#[test]
fn an_edge_whose_only_name_does_not_resolve_starts_and_answers_503() {
    let mut settings = settings(&[]);
    settings.backends = vec![BackendSettings::parse("gone.invalid:80").expect("a backend")];
    let lab = Lab::start(settings);
    assert!(lab.get("/").starts_with("HTTP/1.1 503"));
    assert_eq!(lab.request()["failure"], "no_backend");
}

/// A service that listens in one family only is reached, whichever comes first.
#[test]
fn both_families_of_a_name_are_tried() {
    let mut families = 0;
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(address) else { continue };
        let address = listener.local_addr().expect("it is bound");
        let port = address.port();
        let own = ("localhost", port).to_socket_addrs().expect("every host has it");
        if !own.into_iter().any(|one| one == address) {
            continue;
        }
        backend_on(listener, |asked| asked.ok("here"));
        let mut settings = settings(&[]);
        let name = format!("localhost:{port}");
        settings.backends = vec![BackendSettings::parse(&name).expect("a backend")];
        families += 1;
        let lab = Lab::start(settings);
        for _ in 0..3 {
            assert!(lab.get("/").ends_with("here"), "{address}");
        }
        let rows = lab.rows("request", 3);
        assert!(rows.iter().all(|row| !row.contains_key("failure")), "{rows:#?}");
        assert_eq!(lab.edge.as_ref().expect("it runs").state().backends.len(), 1);
    }
    assert!(families > 0, "this host has no loopback");
}

/// Looking names up again closes no connection and loses nothing that was learnt.
#[test]
fn names_are_looked_up_again_while_requests_pass() {
    let app = backend(|asked| asked.ok("here"));
    let mut settings = settings(&[]);
    let name = format!("localhost:{}", app.port());
    settings.backends = vec![BackendSettings::parse(&name).expect("a backend")];
    settings.resolve = Duration::from_millis(50);
    let lab = Lab::start(settings);
    let edge = lab.edge.as_ref().expect("it runs");
    let mut total = 0;
    wait_until("many requests", || {
        assert!(lab.get("/").ends_with("here"));
        total += 1;
        total >= 30
    });
    assert_eq!(edge.state().backends[0].requests, 30);
    assert_eq!(edge.backend_name(&edge.state().backends[0].backend), Some(name));
}

/// Two servers with one port, which answer `one` and `two`.
fn two_servers() -> u16 {
    for _ in 0..100 {
        let one = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = one.local_addr().expect("it is bound").port();
        if let Ok(two) = TcpListener::bind(("127.0.0.2", port)) {
            backend_on(one, |asked| asked.ok("one"));
            backend_on(two, |asked| asked.ok("two"));
            return port;
        }
    }
    panic!("no port is free on both addresses");
}

/// The settings of an edge whose only backend is `app.example.net`, which `server` resolves.
fn settings_with(server: &NameServer, port: u16) -> Settings {
    let name = format!("app.example.net:{port}");
    Settings {
        backends: vec![BackendSettings::parse(&name).expect("a backend")],
        resolver: server.resolver(),
        ..settings(&[])
    }
}

/// A name server whose answers are those of a phase.
fn phases(
    options: &str,
    script: impl Fn(usize, &Question) -> Reply + Send + Sync + 'static,
) -> (NameServer, Arc<AtomicUsize>) {
    let phase = Arc::<AtomicUsize>::default();
    let own = Arc::clone(&phase);
    (NameServer::start(options, move |asked| script(own.load(Relaxed), asked)), phase)
}

fn backends_of(lab: &Lab) -> Vec<String> {
    let state = lab.edge.as_ref().expect("it runs").state();
    state.backends.iter().map(|one| one.backend.clone()).collect()
}

/// haproxy/haproxy#1278, envoyproxy/envoy#28925, caddyserver/caddy#4853, nigoroll/libvmod-dynamic#21:
/// the name is looked up again when its alias ends, long before the configured time.
#[test]
fn traffic_follows_a_name_by_its_ttl() {
    let (server, phase) = phases("", |phase, asked| match phase {
        0 => Reply::of(asked, 86_400, &["127.0.0.1"]).alias(1),
        1 => Reply::of(asked, 0, &["127.0.0.2", "127.0.0.1"]),
        _ => Reply::of(asked, 0, &["127.0.0.2"]),
    });
    let port = two_servers();
    let mut settings = settings_with(&server, port);
    settings.resolve = Duration::from_secs(3600);
    let lab = Lab::start(settings);
    assert!(lab.get("/").ends_with("one"));
    phase.store(1, Relaxed);
    wait_until("the second address", || lab.get("/").ends_with("two"));
    assert_eq!(backends_of(&lab), [format!("127.0.0.1:{port}"), format!("127.0.0.2:{port}")]);
    phase.store(2, Relaxed);
    wait_until("the first one's end", || backends_of(&lab).len() == 1);
    // Threads take the change up within a sweep.
    let mut in_a_row = 0;
    wait_until("answers of the second one only", || {
        in_a_row = if lab.get("/").ends_with("two") { in_a_row + 1 } else { 0 };
        in_a_row == 20
    });
    let rows = lab.end("request");
    assert!(rows.iter().all(|row| row["http_response_status_code"] == "200"), "{rows:#?}");
}

/// caddyserver/caddy#5816, haproxy/haproxy#345, haproxy/haproxy#3400: failures, denials and silence of
/// a name server, and an empty answer before all addresses are new.
#[test]
fn a_name_server_that_fails_moves_no_traffic() {
    let (server, phase) = phases("options timeout:1 attempts:1", |phase, asked| match phase {
        0 => Reply::of(asked, 1, &["127.0.0.1"]),
        1 => Reply::code(2),
        2 => Reply::code(3),
        3 => Reply::silent(),
        4 => Reply::default(),
        _ => Reply::of(asked, 1, &["127.0.0.2"]),
    });
    let port = two_servers();
    let mut settings = settings_with(&server, port);
    settings.resolve = Duration::from_millis(50);
    let lab = Lab::start(settings);
    for next in 1..=4 {
        phase.store(next, Relaxed);
        let before = server.asked().len();
        // Two lookups of both families: the first one has ended when the second one begins.
        wait_until("lookups that fail", || server.asked().len() >= before + 4);
        assert!(lab.get("/").ends_with("one"), "phase {next}");
        assert_eq!(backends_of(&lab), [format!("127.0.0.1:{port}")], "phase {next}");
    }
    phase.store(5, Relaxed);
    wait_until("the new address", || lab.get("/").ends_with("two"));
    let rows = lab.end("request");
    assert!(rows.iter().all(|row| row["http_response_status_code"] == "200"), "{rows:#?}");
}

/// hashicorp/consul#1054, apache/apisix#6694: each answer has one of two servers, and both stay.
#[test]
fn servers_that_an_answer_omits_stay_where_answers_are_parts() {
    let number = AtomicUsize::new(0);
    let server = NameServer::start("", move |asked| {
        let is_even = !asked.is_ipv6 && number.fetch_add(1, Relaxed).is_multiple_of(2);
        Reply::of(asked, 0, if is_even { &["127.0.0.1"] } else { &["127.0.0.2"] })
    });
    let mut settings = settings_with(&server, two_servers());
    settings.resolve = Duration::from_millis(50);
    let lab = Lab::start(settings);
    wait_until("both servers", || backends_of(&lab).len() == 2);
    let before = server.asked().len();
    let mut answers = BTreeSet::new();
    wait_until("more lookups, and requests to both", || {
        assert_eq!(backends_of(&lab).len(), 2);
        answers.insert(lab.get("/").ends_with("one"));
        server.asked().len() >= before + 12 && answers.len() == 2
    });
}

/// A server that leaves ends what it has begun.
#[test]
fn a_response_of_a_server_that_leaves_is_not_cut() {
    let (server, phase) = phases("", |phase, asked| match phase {
        0 => Reply::of(asked, 0, &["127.0.0.1"]),
        _ => Reply::of(asked, 0, &["127.0.0.2"]),
    });
    let (open, gate) = channel();
    let gate = Mutex::new(gate);
    let app = backend(move |asked| {
        asked.answer("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
        let _ = gate.lock().expect("one request at a time").recv();
        asked.answer("full");
        true
    });
    let mut settings = settings_with(&server, app.port());
    settings.resolve = Duration::from_millis(50);
    let lab = Lab::start(settings);
    let mut stream = lab.connect();
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("the edge reads");
    stream.read_exact(&mut [0; 12]).expect("the response has begun");
    phase.store(1, Relaxed);
    let other = format!("127.0.0.2:{}", app.port());
    wait_until("the other address", || backends_of(&lab) == [other.clone()]);
    open.send(()).expect("the backend waits");
    assert!(read_all(&mut stream).ends_with("halffull"));
}

/// nigoroll/libvmod-dynamic#21, haproxy/haproxy#69: a container that starts after its proxy.
#[test]
fn a_name_that_appears_later_is_taken_up() {
    let (server, phase) = phases("options timeout:1 attempts:1", |phase, asked| match phase {
        0 => Reply::code(3),
        _ => Reply::of(asked, 5, &["127.0.0.1"]),
    });
    let mut settings = settings_with(&server, two_servers());
    settings.resolve = Duration::from_millis(50);
    let lab = Lab::start(settings);
    assert!(lab.get("/").starts_with("HTTP/1.1 503"));
    phase.store(1, Relaxed);
    wait_until("a backend", || lab.get("/").ends_with("one"));
}

/// haproxy/haproxy#341: more addresses than an answer over UDP has.
#[test]
fn truncated_addresses_come_over_tcp() {
    let (server, _) = phases("", |_, asked| match asked.is_tcp {
        true => Reply::of(asked, 60, &["127.0.0.1", "127.0.0.2"]),
        false => Reply::of(asked, 60, &["127.0.0.1"]).truncated(),
    });
    let lab = Lab::start(settings_with(&server, two_servers()));
    assert_eq!(backends_of(&lab).len(), 2);
}

/// A name is looked up as a whole: two ports of one host are two backends.
#[test]
fn addresses_have_the_port_of_their_backend() {
    let (server, _) = phases("search example.net", |_, asked| match asked.name.as_str() {
        "app.example.net" => Reply::of(asked, 60, &["127.0.0.1"]),
        _ => Reply::code(3),
    });
    let (one, two) = (backend(|asked| asked.ok("a")), backend(|asked| asked.ok("b")));
    let mut settings = settings_with(&server, one.port());
    let short = format!("app:{}", two.port());
    settings.backends.push(BackendSettings::parse(&short).expect("a backend"));
    let lab = Lab::start(settings);
    let expected = [one, two].map(|address: SocketAddr| address.to_string());
    assert_eq!(backends_of(&lab), expected);
}
