//! Which listeners are queried, and which never.

use expect_test::expect;

use super::*;

fn listener(address: &str, port: u16, name: &str, process_id: u32) -> ListenerSummary {
    ListenerSummary {
        netns: OWN_NETNS.into(),
        address: address.into(),
        port,
        process_name: Some(name.into()),
        process_id: Some(process_id),
    }
}

fn upstream(port: u16, name: &str) -> HttpUpstream {
    let address = Ipv4Addr::LOCALHOST.into();
    HttpUpstream { address, port, server_name: Some(name.to_owned()) }
}

/// A directory as `/proc`, with the command lines of these processes.
fn procfs(lines: &[(u32, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (id, line) in lines {
        let process = dir.path().join(id.to_string());
        std::fs::create_dir(&process).unwrap();
        std::fs::write(process.join("cmdline"), line.replace('|', "\0")).unwrap();
    }
    dir
}

fn shown(targets: &[DigestTarget]) -> String {
    targets.iter().map(|target| format!("{} as {}\n", target.address, target.host_header)).collect()
}

#[test]
fn upstreams_of_proxies_are_found_with_the_name_that_they_serve() {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in [
        (
            "etc/nginx/nginx.conf",
            "http { upstream app { server 127.0.0.1:8001; server 10.0.0.9:8001; server unix:/x; }
              upstream other { server 127.0.0.1:9999; }
              server { listen 80; server_name shop.example *.shop.example; location / { proxy_pass http://app; }
                location /api { proxy_pass http://localhost:8002/v1/; } location /f { fastcgi_pass 127.0.0.1:9000; }
                location /s { proxy_pass https://127.0.0.1:8443; } location /v { proxy_pass http://$backend; } } }",
        ),
        (
            "etc/haproxy/haproxy.cfg",
            "defaults\n  mode tcp\nbackend web\n  mode http\n  server a 127.0.0.1:8003 check\n\
             backend db\n  server b 127.0.0.1:3306\n",
        ),
    ] {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let found = http_upstreams(&weir_collect::logs::discover(root.path()).directives);
    let shown: String = found
        .iter()
        .map(|one| format!("{} {} {:?}\n", one.address, one.port, one.server_name))
        .collect();
    expect![[r#"
        127.0.0.1 8001 Some("shop.example")
        127.0.0.1 8002 Some("shop.example")
        127.0.0.1 8003 None
    "#]]
    .assert_eq(&shown);
}

/// Ports where a GET does harm: a database's, and those of other protocols, whatever their process
/// is called: redis/redis#12007 (a request of HTTP is logged as an attack),
/// OT-CONTAINER-KIT/redis-operator#1657 (a monitoring tool did that), prometheus/blackbox_exporter#505
/// (a probe got its host blocked by MySQL).
#[test]
fn ports_without_evidence_of_http_are_never_queried() {
    let procfs = procfs(&[
        (10, "redis-server 127.0.0.1:6379"),
        (11, "java|-jar|kafka.jar"),
        (12, "node|/srv/mqtt.js"),
        (13, "python3|/srv/gunicorn-stats.py"),
        (14, "python3|-m|aiosmtpd"),
        (15, "python3|tool.py|gunicorn"),
        (16, "python3|manage.py|rqworker"),
    ]);
    let listeners = [
        listener("127.0.0.1", 6379, "redis-server", 10),
        listener("127.0.0.1", 9092, "java", 11),
        listener("0.0.0.0", 1883, "node", 12),
        listener("127.0.0.1", 5000, "python3", 13),
        listener("127.0.0.1", 8025, "python3", 14),
        listener("127.0.0.1", 5001, "python3", 15),
        listener("127.0.0.1", 5002, "python3", 16),
    ];
    expect![""].assert_eq(&shown(&digest_targets(&listeners, &[], procfs.path())));
}

#[test]
fn servers_of_applications_are_queried_on_the_loopback_only() {
    let procfs = procfs(&[
        (20, "/usr/bin/python3|/usr/local/bin/gunicorn|app:app"),
        (21, "gunicorn: master [app]"),
        (22, "python3|-u|-m|http.server|8003"),
        (23, "puma 6.4.0 (tcp://127.0.0.1:3000) [shop]"),
        (24, "python|manage.py|runserver|8005"),
    ]);
    let listeners = [
        listener("127.0.0.1", 8001, "gunicorn", 20),
        listener("0.0.0.0", 8002, "gunicorn", 21),
        listener("::", 8003, "python3", 22),
        listener("::1", 3000, "ruby", 23),
        listener("127.0.0.1", 3000, "ruby", 23),
        listener("10.0.0.5", 8001, "gunicorn", 20),
        listener("127.0.0.1", 8005, "python", 24),
        ListenerSummary { netns: "blue".into(), ..listener("127.0.0.1", 8004, "gunicorn", 20) },
        ListenerSummary { process_id: None, ..listener("127.0.0.1", 8006, "gunicorn", 20) },
    ];
    expect![[r#"
        127.0.0.1:3000 as localhost:3000
        127.0.0.1:8001 as localhost:8001
        127.0.0.1:8002 as localhost:8002
        127.0.0.1:8005 as localhost:8005
        [::1]:8003 as localhost:8003
    "#]]
    .assert_eq(&shown(&digest_targets(&listeners, &[], procfs.path())));
}

/// GovReady/govready-q#271 and mozilla/fx-private-relay#1557: a request for an address or for
/// `localhost` is an error mail of Django, and freelawproject/courtlistener#2059: 400 for a probe.
#[test]
fn address_that_a_proxy_sends_http_to_is_queried_by_its_name_and_the_proxy_is_not() {
    let upstreams =
        [upstream(8080, "shop.example"), upstream(81, "inner.example"), upstream(82, "x")];
    let listeners = [
        listener("::", 8080, "java", 30),
        listener("127.0.0.1", 8081, "java", 30),
        listener("127.0.0.1", 81, "nginx", 31),
        listener("127.0.0.1", 82, "check_test", std::process::id()),
    ];
    expect![[r#"
        [::1]:8080 as shop.example
    "#]]
    .assert_eq(&shown(&digest_targets(&listeners, &upstreams, Path::new("/nonexistent"))));
}
