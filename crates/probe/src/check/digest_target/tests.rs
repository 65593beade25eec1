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
    targets.iter().map(line).collect()
}

fn line(target: &DigestTarget) -> String {
    let once = if target.is_trial { ", once" } else { "" };
    format!("{} as {}{once}\n", target.address, target.host_header)
}

/// Targets without an upstream; ports and names that are excluded.
fn targets(listeners: &[ListenerSummary], procfs: &Path, exclude: &[&str]) -> Vec<DigestTarget> {
    let exclude = exclude.iter().map(|text| (*text).to_owned()).collect();
    digest_targets(listeners, &[], &DigestSearch { procfs: procfs.to_owned(), exclude })
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
/// (a probe got its host blocked by MySQL), eHealthAfrica/aether#458 and edenhill/trivup#3 (Kafka),
/// openhab/openhab-addons#256 and eclipse-che/che#17566 (debuggers of Java), skyhook-io/radar#1271.
#[test]
fn ports_of_other_protocols_are_never_queried() {
    let procfs = procfs(&[
        (10, "redis-server 127.0.0.1:6379"),
        (11, "java|-cp|/opt/kafka/libs/*|kafka.Kafka|server.properties"),
        (12, "node|/srv/mqtt.js"),
        (13, "python3|-m|aiosmtpd"),
        (14, "java|-agentlib:jdwp=transport=dt_socket,server=y,address=*:8787|-jar|shop.jar"),
        (15, "/usr/bin/java|-Dcom.sun.management.jmxremote.port=7091|-jar|shop.jar"),
        (16, "node|--inspect=127.0.0.1:9228|shop.js"),
        (17, "python3|-m|debugpy|--listen|127.0.0.1:5679|shop.py"),
        (18, "python3|shop.py"),
        (19, "java|-jar|broker.jar"),
        (20, "/usr/sbin/postgres|-D|/data"),
        (21, "php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)"),
        (22, "/usr/local/bin/shop"),
        (23, "beam.smp"),
    ]);
    let of_python = [22, 25, 5432, 6379, 9092, 16_379, 27_017, 33_060, 40_001].into_iter();
    let of_python = of_python.map(|port| listener("127.0.0.1", port, "python3", 18));
    let of_broker = [8161, 8162, 8163, 8164, 8165].into_iter();
    let of_broker = of_broker.map(|port| listener("127.0.0.1", port, "java", 19));
    let mut listeners = vec![
        listener("127.0.0.1", 6379, "redis-server", 10),
        listener("127.0.0.1", 8092, "java", 11),
        listener("0.0.0.0", 1884, "node", 12),
        listener("127.0.0.1", 8025, "python3", 13),
        listener("127.0.0.1", 8787, "java", 14),
        listener("127.0.0.1", 7091, "java", 15),
        listener("127.0.0.1", 9228, "node", 16),
        listener("127.0.0.1", 5679, "python3", 17),
        listener("127.0.0.1", 8432, "postgres", 20),
        listener("127.0.0.1", 9000, "php-fpm8.2", 21),
        listener("127.0.0.1", 8080, "shop", 22),
        listener("127.0.0.1", 8081, "beam.smp", 23),
    ];
    listeners.extend(of_broker);
    expect![""].assert_eq(&shown(&targets(&listeners, procfs.path(), &[])));
    // One at a time, so that the number of ports is not the reason.
    for one in of_python {
        assert_eq!(targets(std::slice::from_ref(&one), procfs.path(), &[]), [], "{one:?}");
    }
}

/// codecentric/spring-boot-admin#437 and twinformatics/eureka-consul-adapter#14: health is at a port
/// of its own, to which no proxy sends anything.
#[test]
fn ports_of_applications_in_runtimes_are_tried_once() {
    let procfs = procfs(&[
        (30, "java|-agentlib:jdwp=transport=dt_socket,server=y,address=*:8787|-jar|shop.jar"),
        (31, "node|/srv/shop/worker.js"),
        (32, "/usr/bin/python3.11|/srv/gunicorn-stats.py"),
        (33, "python3|manage.py|rqworker"),
        (34, "gunicorn: master [app]"),
        (35, "/usr/bin/php8.2|health.php"),
    ]);
    let listeners = [
        listener("::", 8081, "java", 30),
        listener("127.0.0.1", 9201, "MainThread", 31),
        listener("0.0.0.0", 9202, "python3", 32),
        listener("::", 9202, "python3", 32),
        listener("127.0.0.1", 9203, "python3", 33),
        listener("127.0.0.1", 8001, "gunicorn", 34),
        listener("127.0.0.1", 9204, "php", 35),
        listener("192.0.2.7", 9205, "python3", 33),
        ListenerSummary { netns: "blue".into(), ..listener("127.0.0.1", 9206, "node", 31) },
    ];
    expect![[r#"
        127.0.0.1:8001 as localhost:8001
        127.0.0.1:9201 as localhost:9201, once
        127.0.0.1:9202 as localhost:9202, once
        127.0.0.1:9203 as localhost:9203, once
        127.0.0.1:9204 as localhost:9204, once
        [::1]:8081 as localhost:8081, once
    "#]]
    .assert_eq(&shown(&targets(&listeners, procfs.path(), &[])));
    let exclude = ["8001", "9203", "Main*", "java", "920"];
    expect![[r#"
        127.0.0.1:9202 as localhost:9202, once
        127.0.0.1:9204 as localhost:9204, once
    "#]]
    .assert_eq(&shown(&targets(&listeners, procfs.path(), &exclude)));
}

#[test]
fn owner_of_an_address_is_the_same_in_any_order_of_its_processes() {
    let procfs = procfs(&[(40, "node|shop.js"), (41, "node|shop.js")]);
    let mut listeners =
        [listener("0.0.0.0", 9301, "node", 41), listener("0.0.0.0", 9301, "node", 40)];
    for _ in 0..2 {
        assert_eq!(targets(&listeners, procfs.path(), &[])[0].process_id, Some(40));
        listeners.reverse();
    }
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
    .assert_eq(&shown(&targets(&listeners, procfs.path(), &[])));
}

/// GovReady/govready-q#271 and mozilla/fx-private-relay#1557: a request for an address or for
/// `localhost` is an error mail of Django, and freelawproject/courtlistener#2059: 400 for a probe.
#[test]
fn address_that_a_proxy_sends_http_to_is_queried_by_its_name_and_the_proxy_is_not() {
    let search = DigestSearch { procfs: "/nonexistent".into(), exclude: Vec::new() };
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
    .assert_eq(&shown(&digest_targets(&listeners, &upstreams, &search)));
}
