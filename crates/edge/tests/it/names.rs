//! Backends that are written as names: several addresses, both families, and names that do not
//! resolve.

use std::net::{TcpListener, ToSocketAddrs};
use std::time::Duration;

use weir_edge::BackendSettings;

use crate::lab::{Lab, backend, settings, wait_until};

/// NginxProxyManager/nginx-proxy-manager #633 and #3970, vozlt/nginx-module-vts #90,
/// ZoeyVid/NPMplus #3485, GUI/nginx-upstream-dynamic-servers #32.
#[test]
fn a_name_that_does_not_resolve_takes_only_its_own_backend_out() {
    let app = backend(|asked| asked.ok("there"));
    let mut settings = settings(&[app]);
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
        crate::lab::backend_on(listener, |asked| asked.ok("here"));
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
