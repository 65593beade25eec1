//! Whose connection it is: forwarded fields of trusted proxies, PROXY headers, and the limits and
//! rows that follow from them.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use weir_edge::{CheckKind, CheckSettings, ListenerSettings, ProxyHeader, Settings};
use weir_tables::IpNetwork;

use crate::lab::{Lab, OK, connect, read_all, read_answer, reporting, reset, settings, wait_until};

/// The fields about the client that reach the backend, sorted.
fn fields(heads: &Receiver<String>) -> Vec<String> {
    let head = heads.recv_timeout(crate::lab::PATIENCE).expect("a request reaches the backend");
    let lines = head.lines().filter(|line| {
        line.starts_with("x-forwarded") || line.starts_with("forwarded") || line.contains("real")
    });
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

const FORWARDED: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
    X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\n\
    X-Forwarded-Host: shop.example\r\nForwarded: for=203.0.113.9;proto=https\r\n\
    X-Real-IP: 203.0.113.66\r\nX_Forwarded_Host: evil.example\r\n\r\n";

/// stacklok/toolhive #5567, traefik/traefik #9112, fabiolb/fabio PR 466, symfony/symfony #13603,
/// tatsuhiro-t/spdylay #121.
#[test]
fn forwarded_fields_of_trusted_proxies_stay_and_rows_show_their_client() {
    let (app, heads) = reporting(OK);
    let mut settings = settings(&[app]);
    settings.trusted_proxies.extend(IpNetwork::parse("127.0.0.0/8"));
    let lab = Lab::start(settings);
    lab.say(FORWARDED);
    assert_eq!(
        fields(&heads),
        [
            "forwarded: for=127.0.0.1",
            "forwarded: for=203.0.113.9;proto=https",
            "x-forwarded-for: 203.0.113.9, 127.0.0.1",
            "x-forwarded-host: shop.example",
            "x-forwarded-port: 443",
            "x-forwarded-proto: https",
            "x-real-ip: 203.0.113.66",
        ]
    );
    let row = lab.request();
    assert_eq!(
        (row["client_address"].as_str(), row["url_scheme"].as_str()),
        ("203.0.113.9", "https")
    );
    assert!(!row.contains_key("client_port"), "the port is the proxy's: {row:#?}");
}

/// A client that is no proxy cannot choose how it is seen.
#[test]
fn forwarded_fields_of_others_are_replaced() {
    for trusted in [None, Some("198.51.100.0/24")] {
        let (app, heads) = reporting(OK);
        let mut settings = settings(&[app]);
        settings.trusted_proxies.extend(trusted.and_then(IpNetwork::parse));
        let lab = Lab::start(settings);
        lab.say(FORWARDED);
        assert_eq!(fields(&heads), ["x-forwarded-for: 127.0.0.1", "x-forwarded-proto: http"]);
        let row = lab.request();
        assert_eq!(
            (row["client_address"].as_str(), row["url_scheme"].as_str()),
            ("127.0.0.1", "http")
        );
    }
}

/// The last address that is no trusted proxy counts; a client writes at the other end.
#[test]
fn a_forged_beginning_of_the_list_changes_nothing() {
    let (app, _heads) = reporting(OK);
    let mut settings = settings(&[app]);
    for network in ["127.0.0.0/8", "10.0.0.0/8"] {
        settings.trusted_proxies.extend(IpNetwork::parse(network));
    }
    let lab = Lab::start(settings);
    lab.say(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
         X-Forwarded-For: 192.0.2.1, 203.0.113.9\r\nX-Forwarded-For: 10.0.0.7\r\n\r\n",
    );
    assert_eq!(lab.request()["client_address"], "203.0.113.9");
}

/// Settings of an edge that takes PROXY headers from this host.
fn behind_balancer() -> (Settings, Receiver<String>) {
    let (app, heads) = reporting(OK);
    let mut settings = settings(&[app]);
    settings.listeners[0].has_proxy_header = true;
    settings.listeners[0].proxy_networks.extend(IpNetwork::parse("127.0.0.0/8"));
    (settings, heads)
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn v2(command: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    bytes.extend([0x20 | command, 0x11]);
    bytes.extend(u16::try_from(body.len()).expect("a length").to_be_bytes());
    bytes.extend(body);
    bytes
}

fn v2_from(client: [u8; 4], tlv_bytes: u16) -> Vec<u8> {
    let mut body = client.to_vec();
    body.extend([198, 51, 100, 2, 0x13, 0x88, 0, 80]);
    if tlv_bytes > 0 {
        body.push(0xee);
        body.extend((tlv_bytes - 3).to_be_bytes());
        body.resize(12 + usize::from(tlv_bytes), b'x');
    }
    v2(1, &body)
}

/// apache/trafficserver #12191, SChernykh/p2pool PR 399, envoyproxy/envoy PR 3668, neondatabase/neon
/// PR 5028.
#[test]
fn headers_with_values_of_any_length_are_read() {
    let (settings, _heads) = behind_balancer();
    let lab = Lab::start(settings);
    for (number, tlv_bytes) in [0, 84, 600, 4096, 65_000, 65_523].into_iter().enumerate() {
        let mut stream = lab.connect();
        stream.write_all(&v2_from([203, 0, 113, 9], tlv_bytes)).expect("it is open");
        stream.write_all(GET.as_bytes()).expect("it is open");
        assert!(read_all(&mut stream).ends_with("ok"), "{tlv_bytes}");
        let rows = lab.rows("request", number + 1);
        assert_eq!(rows[number]["client_address"], "203.0.113.9", "{tlv_bytes}");
    }
}

/// nginx/nginx #1400: a header may come in several segments, cut anywhere.
#[test]
fn headers_may_be_cut_anywhere() {
    let (settings, _heads) = behind_balancer();
    let lab = Lab::start(settings);
    let header = v2_from([203, 0, 113, 9], 200);
    for cut in [1, 11, 12, 15, 16, 17, 28, 100] {
        let mut stream = lab.connect();
        stream.set_nodelay(true).expect("a socket");
        stream.write_all(&header[..cut]).expect("it is open");
        std::thread::park_timeout(Duration::from_millis(20));
        stream.write_all(&header[cut..]).expect("it is open");
        stream.write_all(GET.as_bytes()).expect("it is open");
        assert!(read_all(&mut stream).ends_with("ok"), "{cut}");
    }
}

/// pires/go-proxyproto PR 12: checks of a balancer in front have addresses that mean nothing.
#[test]
fn local_headers_leave_the_peer_as_the_client() {
    let (settings, _heads) = behind_balancer();
    let lab = Lab::start(settings);
    let dummy = [9, 9, 9, 9, 8, 8, 8, 8, 0, 1, 0, 2];
    for header in [v2(0, &[]), v2(0, &dummy), b"PROXY UNKNOWN\r\n".to_vec()] {
        let mut stream = lab.connect();
        stream.write_all(&header).expect("it is open");
        stream.write_all(GET.as_bytes()).expect("it is open");
        assert!(read_all(&mut stream).ends_with("ok"), "{header:?}");
    }
    let rows = lab.rows("request", 3);
    assert!(rows.iter().all(|row| row["client_address"] == "127.0.0.1"), "{rows:#?}");
}

/// kubernetes/ingress-nginx#6996: a balancer that checks whether the port is open sends nothing, and
/// closes or resets.
#[test]
fn checks_that_send_nothing_are_no_refusals() {
    let (settings, heads) = behind_balancer();
    let lab = Lab::start(settings);
    for header in [&b""[..], b"PROXY UNKNOWN\r\n"] {
        let mut check = lab.connect();
        check.write_all(header).expect("it is open");
        check.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(read_all(&mut check), "");
        let mut check = lab.connect();
        check.write_all(header).expect("it is open");
        reset(check);
    }
    assert!(read_answer(&mut ask_from(&lab, 9)).ends_with("ok"));
    fields(&heads);
    let rows = lab.end("edge_refusal");
    assert!(rows.is_empty(), "{rows:#?}");
}

/// Sends a request through the balancer, from the client with this last byte.
fn ask_from(lab: &Lab, client: u8) -> BufReader<TcpStream> {
    let mut stream = lab.connect();
    let header = format!("PROXY TCP4 203.0.113.{client} 198.51.100.2 5000 80\r\n");
    let _ = stream.write_all(header.as_bytes());
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    BufReader::new(stream)
}

/// tylerbutler/beryl #247, hashicorp/consul #10505.
#[test]
fn the_limit_of_connections_counts_the_client_and_not_the_balancer() {
    let (mut settings, _heads) = behind_balancer();
    settings.limits.address_connections = 2;
    let lab = Lab::start(settings);
    let mut kept = Vec::new();
    for client in 1..=6 {
        let mut reader = ask_from(&lab, client);
        assert!(read_answer(&mut reader).ends_with("ok"), "{client}");
        kept.push(reader);
    }
    let mut second = ask_from(&lab, 1);
    assert!(read_answer(&mut second).ends_with("ok"));
    let mut third = ask_from(&lab, 1);
    let mut answer = Vec::new();
    let _ = third.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    let rows = lab.rows("edge_refusal", 1);
    let refusal = (rows[0]["reason"].as_str(), rows[0]["client_address"].as_str());
    assert_eq!(refusal, ("address_connections", "203.0.113.1"));
    // A connection that has ended makes room again.
    drop((second, kept));
    wait_until("room for another", || {
        let mut reader = ask_from(&lab, 1);
        let mut first = [0];
        reader.read_exact(&mut first).is_ok()
    });
}

/// sozu-proxy/sozu#1270, WordPress/wordpress-playground PR 1923, ZcashFoundation/zebra PR 11256: one
/// client has all addresses of an IPv6 /64, in IPv4 one.
#[test]
fn the_limit_of_connections_counts_a_network_of_ipv6() {
    let (mut settings, _heads) = behind_balancer();
    settings.limits.address_connections = 3;
    let lab = Lab::start(settings);
    let from = |client: &str, server: &str| {
        let mut stream = lab.connect();
        let family = if client.contains(':') { "TCP6" } else { "TCP4" };
        let header = format!("PROXY {family} {client} {server} 5000 80\r\n");
        let _ = stream.write_all(header.as_bytes());
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut first = [0];
        stream.read_exact(&mut first).is_ok().then_some(stream)
    };
    let one = (1..=8).filter_map(|n| from(&format!("2001:db8:0:7::{n}"), "2001:db8::2"));
    let one: Vec<TcpStream> = one.collect();
    assert_eq!(one.len(), 3);
    let others = (8..=15).filter_map(|n| from(&format!("2001:db8:0:{n}::1"), "2001:db8::2"));
    assert_eq!(others.count(), 8);
    let four = (1..=8).filter_map(|n| from(&format!("203.0.113.{n}"), "198.51.100.2"));
    assert_eq!(four.count(), 8);
    drop(one);
    wait_until("room for another", || from("2001:db8:0:7::9", "2001:db8::2").is_some());
}

/// A backend that demands a PROXY header of version 2 and reports it with the request's first line.
fn demanding() -> (SocketAddr, Receiver<(Vec<u8>, String)>) {
    let (seen, headers) = channel();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let seen = seen.clone();
            std::thread::spawn(move || {
                serve_demanding(&mut stream, |request| seen.send(request).is_ok())
            });
        }
    });
    (address, headers)
}

fn serve_demanding(
    stream: &mut TcpStream,
    report: impl Fn((Vec<u8>, String)) -> bool,
) -> Option<()> {
    let mut header = vec![0; 16];
    stream.read_exact(&mut header).ok()?;
    if !header.starts_with(b"\r\n\r\n\0\r\nQUIT\n") {
        let _ = stream.shutdown(Shutdown::Both);
        return None;
    }
    let length = usize::from(u16::from_be_bytes([header[14], header[15]]));
    header.resize(16 + length, 0);
    stream.read_exact(&mut header[16..]).ok()?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        request.push(byte[0]);
    }
    let line = String::from_utf8_lossy(&request).lines().next()?.to_owned();
    report((header, line));
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").ok()
}

/// varnishcache/varnish-cache #2151, haproxy/haproxy #511, envoyproxy/envoy PR 31691,
/// bokysan/docker-postfix #226.
#[test]
fn checks_speak_proxy_where_requests_do() {
    let (app, headers) = demanding();
    let mut settings = settings(&[app]);
    settings.upstream.proxy_header = ProxyHeader::V2;
    let (every, within) = (Duration::from_millis(100), Duration::from_secs(5));
    let kind = CheckKind::Ask("/health".into());
    settings.check = Some(CheckSettings { kind, every, within, rise: 1, fall: 1 });
    let lab = Lab::start(settings);
    for _ in 0..3 {
        let (header, line) = headers.recv_timeout(crate::lab::PATIENCE).expect("a check");
        assert_eq!(line, "GET /health HTTP/1.1");
        assert_eq!(&header[12..], [0x20, 0, 0, 0], "LOCAL");
    }
    assert!(lab.get("/").ends_with("ok"));
    let states = lab.end("edge_backend");
    assert!(states.iter().all(|row| row["state"] == "up"), "{states:#?}");
}

/// A wildcard listener has no address of its own, but its connections have. A balancer in front
/// names the address that the client has connected to.
#[test]
fn backends_receive_the_address_that_the_client_has_connected_to() {
    let (app, headers) = demanding();
    let mut settings = settings(&[app]);
    settings.upstream.proxy_header = ProxyHeader::V2;
    settings.listeners = vec![ListenerSettings::parse("0.0.0.0:0", false, 16).expect("an address")];
    let lab = Lab::start(settings.clone());
    let port = lab.address.port();
    let mut stream = connect(SocketAddr::from(([127, 0, 0, 2], port)));
    stream.write_all(GET.as_bytes()).expect("it is open");
    assert!(read_all(&mut stream).ends_with("ok"));
    let (header, _) = headers.recv_timeout(crate::lab::PATIENCE).expect("a request");
    assert_eq!(header[20..24], [127, 0, 0, 2]);
    assert_eq!(header[26..28], port.to_be_bytes());

    settings.listeners[0].has_proxy_header = true;
    settings.listeners[0].proxy_networks.extend(IpNetwork::parse("127.0.0.0/8"));
    let lab = Lab::start(settings);
    let mut stream = connect(SocketAddr::from(([127, 0, 0, 1], lab.address.port())));
    stream.write_all(&v2_from([203, 0, 113, 9], 0)).expect("it is open");
    stream.write_all(GET.as_bytes()).expect("it is open");
    assert!(read_all(&mut stream).ends_with("ok"));
    let (header, _) = headers.recv_timeout(crate::lab::PATIENCE).expect("a request");
    assert_eq!(header[16..28], [203, 0, 113, 9, 198, 51, 100, 2, 0x13, 0x88, 0, 80]);
}
