//! Names looked up at a name server on loopback that answers as servers of public reports do.

mod name_server;

use std::net::IpAddr;
use std::time::Duration;

use name_server::{NameServer, Reply};
use weir_resolver::{Lookup, Resolver};

fn addresses(found: &Lookup) -> Vec<String> {
    let all = found.ipv4.addresses.iter().chain(&found.ipv6.addresses);
    all.map(IpAddr::to_string).collect()
}

/// envoyproxy/envoy#28925, nigoroll/libvmod-dynamic#21: the shortest TTL of a chain of aliases.
#[test]
fn both_families_and_the_shortest_ttl_are_found() {
    let server = NameServer::start("", |asked| {
        Reply::of(asked, 86_400, &["192.0.2.1", "192.0.2.2", "2001:db8::1"]).alias(600).alias(10)
    });
    let found = server.resolver().look_up("App.example.net");
    assert_eq!(addresses(&found), ["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
    assert_eq!(found.ttl, Some(Duration::from_secs(10)));
    assert!(found.ipv4.is_whole && found.ipv6.is_whole && found.problem.is_none());
    assert_eq!(server.asked().len(), 2, "one question for each family");
}

/// imperviousinc/fingertip#21, iijlab/dnsext#146: a failure for one family hides the other one no
/// more than it proves that it is empty.
#[test]
fn a_failure_for_one_family_is_known_as_one() {
    let server = NameServer::start("options timeout:1 attempts:1", |asked| match asked.is_ipv6 {
        true => Reply::code(2),
        false => Reply::of(asked, 60, &["192.0.2.1"]),
    });
    let found = server.resolver().look_up("app.example.net");
    assert_eq!(addresses(&found), ["192.0.2.1"]);
    assert!(found.ipv4.is_whole && !found.ipv6.is_whole, "{found:?}");
    assert!(found.problem.as_deref().is_some_and(|text| text.ends_with("SERVFAIL")), "{found:?}");
    // Some servers deny the whole name where they have no address of one family.
    let server = NameServer::start("", |asked| match asked.is_ipv6 {
        true => Reply::code(3),
        false => Reply::of(asked, 60, &["192.0.2.1"]),
    });
    let found = server.resolver().look_up("app.example.net");
    assert!(found.ipv6.is_whole && found.problem.is_none(), "{found:?}");
}

/// haproxy/haproxy#341, coredns/coredns#5362: 410 addresses.
#[test]
fn a_truncated_answer_is_fetched_over_tcp() {
    let script = |asked: &name_server::Question| {
        let all: Vec<String> =
            (0..410).map(|at| format!("10.0.{}.{}", at / 250, at % 250)).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        match (asked.is_ipv6, asked.is_tcp) {
            (true, _) => Reply::default(),
            (false, true) => Reply::of(asked, 60, &all),
            (false, false) => Reply::of(asked, 60, &all[..29]).truncated(),
        }
    };
    let server = NameServer::start("", script);
    let found = server.resolver().look_up("app.example.net");
    assert_eq!(found.ipv4.addresses.len(), 410);
    assert!(found.ipv4.is_whole && found.problem.is_none());
}

/// submariner-io/submariner-operator#3218, coredns/coredns#844: port 53 is open for UDP only.
#[test]
fn a_truncated_answer_without_tcp_is_a_part() {
    let server = NameServer::start("options timeout:1 attempts:1", |asked| match asked.is_tcp {
        true => Reply::silent(),
        false => Reply::of(asked, 60, &["192.0.2.1"]).truncated(),
    });
    let found = server.resolver().look_up("app.example.net");
    assert_eq!(addresses(&found), ["192.0.2.1"]);
    assert!(!found.ipv4.is_whole, "there may be more");
    assert!(found.problem.as_deref().is_some_and(|text| text.contains("truncated")), "{found:?}");
}

/// Kong/kong#1601, mcdonc/klangk#98: short names of services.
#[test]
fn search_domains_are_tried_in_order() {
    let options = "search default.svc.cluster.local svc.cluster.local\noptions ndots:5";
    let server = NameServer::start(options, |asked| match asked.name.as_str() {
        "ping.prod.svc.cluster.local" => Reply::of(asked, 5, &["10.96.0.7"]),
        _ => Reply::code(3),
    });
    let found = server.resolver().look_up("ping.prod");
    assert_eq!(found.query_name, "ping.prod.svc.cluster.local");
    assert_eq!(addresses(&found), ["10.96.0.7"]);
    assert!(!found.is_doubtful);
    let asked = server.asked();
    assert_eq!(asked[0].name, "ping.prod.default.svc.cluster.local");
    assert_eq!(asked.len(), 4);
    // A name with its dot is complete.
    assert!(!server.resolver().look_up("ping.prod.").has_addresses());
    assert_eq!(server.asked().len(), 6);
}

/// A search domain whose server fails may have the name: what another domain has is doubtful.
#[test]
fn what_a_later_domain_has_is_doubtful_after_a_failure() {
    let options = "search a.example b.example\noptions timeout:1 attempts:1";
    let server = NameServer::start(options, |asked| match asked.name.as_str() {
        "db.a.example" => Reply::code(2),
        "db.b.example" => Reply::of(asked, 5, &["192.0.2.9"]),
        _ => Reply::code(3),
    });
    let found = server.resolver().look_up("db");
    assert!(found.is_doubtful && found.query_name == "db.b.example", "{found:?}");
}

#[test]
fn a_name_that_is_absent_is_no_failure_and_a_failure_is_no_absence() {
    let server = NameServer::start("options timeout:1 attempts:2", |asked| {
        Reply::code(if asked.name.starts_with("none") { 3 } else { 5 })
    });
    let absent = server.resolver().look_up("none.example.net");
    assert!(absent.ipv4.is_whole && absent.ipv6.is_whole && !absent.has_addresses());
    let failed = server.resolver().look_up("app.example.net");
    assert!(!failed.ipv4.is_whole && !failed.ipv6.is_whole);
    assert!(failed.problem.as_deref().is_some_and(|text| text.ends_with("REFUSED")), "{failed:?}");
    assert_eq!(server.asked().len(), 2 + 4, "a server that fails is asked once more");
}

#[test]
fn a_lost_question_is_sent_again() {
    let lost = std::sync::atomic::AtomicBool::new(true);
    let server = NameServer::start("options timeout:1 attempts:2", move |asked| {
        match lost.swap(false, std::sync::atomic::Ordering::Relaxed) {
            true => Reply::silent(),
            false => Reply::of(asked, 60, &["192.0.2.1", "2001:db8::1"]),
        }
    });
    let found = server.resolver().look_up("app.example.net");
    assert_eq!(addresses(&found), ["192.0.2.1", "2001:db8::1"]);
    assert_eq!(server.asked().len(), 3, "only the lost one is repeated");
}

#[test]
fn the_hosts_file_comes_first_and_without_a_server_nothing_is_asked() {
    let server = NameServer::start("", |asked| Reply::of(asked, 5, &["192.0.2.1"]));
    server.write("hosts", "10.0.0.1 app.example.net app\nfd00::1 app\n");
    let found = server.resolver().look_up("app");
    assert_eq!((addresses(&found).len(), found.ttl), (2, None));
    assert!(found.ipv4.is_whole && found.ipv6.is_whole);
    server.write("nsswitch.conf", "hosts: files\n");
    assert!(!server.resolver().look_up("other.example.net").has_addresses());
    assert!(server.asked().is_empty());
    let nothing = Resolver { root: "/nonexistent".into(), port: 1 };
    assert!(!nothing.look_up("app").has_addresses());
    assert!(Resolver::default().look_up("localhost").has_addresses(), "every host has it");
}
