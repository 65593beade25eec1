//! Limits are enforced, and refused connections are counted by reason.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::h2_frames::{DATA, FrameClient, HEADERS, SETTINGS, frame, get};
use crate::lab::{Lab, SWITCH, backend, connect, h2c_settings, read_all, settings};

#[test]
fn heads_have_a_size_and_a_time() {
    let mut settings = settings(&[backend(|asked| asked.ok("x"))]);
    settings.limits.head_bytes = 8 << 10;
    settings.limits.head = Duration::from_secs(1);
    let lab = Lab::start(settings);
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(9 << 10));
    let answer = lab.say(&large);
    assert!(answer.starts_with("HTTP/1.1 431") || answer.is_empty(), "{answer}");
    // One byte at a time.
    let mut stream = lab.connect();
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    let mut is_open = true;
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".iter().chain(std::iter::repeat_n(&b'x', 200));
    for byte in head {
        is_open = stream.write_all(&[*byte]).is_ok() && stream.read(&mut [0; 64]).is_err();
        if !is_open {
            break;
        }
    }
    assert!(!is_open, "the edge waited for a slow head");
    let rows = lab.rows("edge_refusal", 2);
    let reasons: Vec<_> = rows.iter().map(|row| row["reason"].as_str()).collect();
    assert!(reasons.contains(&"head_too_large") && reasons.contains(&"slow_head"), "{rows:#?}");
}

#[test]
fn bodies_have_a_size_with_and_without_content_length() {
    let app = backend(|asked| {
        let mut body = [0; 64];
        let _ = asked.stream.read(&mut body);
        asked.stream.get_ref().set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
        while asked.stream.read(&mut body).is_ok_and(|count| count > 0) {}
        false
    });
    let mut settings = settings(&[app]);
    settings.limits.body_bytes = 1000;
    let lab = Lab::start(settings);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
    let said = lab.say(&format!("{head}Content-Length: 1001\r\n\r\n"));
    assert!(said.starts_with("HTTP/1.1 413"), "{said}");
    let chunk = format!("200\r\n{}\r\n", "x".repeat(0x200));
    let unsaid =
        lab.say(&format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}{chunk}{chunk}0\r\n\r\n"));
    assert!(unsaid.starts_with("HTTP/1.1 413") || unsaid.is_empty(), "{unsaid}");
    let rows = lab.rows("request", 2);
    assert!(rows.iter().all(|row| row["failure"] == "body_too_large"), "{rows:#?}");
}

#[test]
fn idle_connections_close_and_slow_clients_time_out() {
    let mut settings = settings(&[backend(|asked| asked.ok(&"x".repeat(16 << 20)))]);
    settings.limits.idle = Duration::from_secs(2);
    settings.limits.client_pause = Duration::from_secs(1);
    let lab = Lab::start(settings);
    let mut idle = lab.connect();
    assert_eq!(idle.read(&mut [0]).expect("it is closed, not reset"), 0);
    // A client that requests a large body and reads nothing.
    let mut slow = lab.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
    let row = lab.request();
    assert_eq!(row["failure"], "client_slow");
    assert!(row["response_body_bytes"].parse::<u64>().expect("a number") < 16 << 20);
}

#[test]
fn connections_of_one_address_are_limited() {
    let mut settings = settings(&[backend(|asked| asked.ok("x"))]);
    settings.limits.address_connections = 2;
    let lab = Lab::start(settings);
    let held = [lab.connect(), lab.connect()];
    for _ in 0..3 {
        let mut third = connect(lab.address);
        assert_eq!(read_all(&mut third), "");
    }
    crate::lab::wait_until("three refusals", || {
        let rows = lab.rows("edge_refusal", 1);
        assert!(rows.iter().all(|row| row["reason"] == "address_connections"));
        let counts = rows.iter().map(|row| row["connections"].parse::<u64>().expect("a number"));
        counts.sum::<u64>() == 3
    });
    drop(held);
    crate::lab::wait_until("a free slot", || lab.get("/").starts_with("HTTP/1.1 200"));
}

/// envoyproxy/envoy#19045: over HTTP/2 as well.
#[test]
fn a_connection_carries_a_limited_number_of_requests() {
    let mut settings = settings(&[backend(|asked| asked.ok("x"))]);
    settings.limits.connection_requests = 2;
    let lab = Lab::start(settings.clone());
    let answer = lab.say(&"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert_eq!(answer.matches("connection: close").count(), 1, "{answer}");
    settings.listeners[0].is_h2c = true;
    let lab = Lab::start(settings);
    let mut client = FrameClient::connect(lab.address, &[]);
    client.ask(1, &get("/"), true);
    client.wait_for(DATA);
    client.ask(3, &get("/"), true);
    // It ends with GOAWAY.
    while client.next().is_some() {}
    assert_eq!(lab.rows("request", 2).len(), 2);
}

/// userver-framework/userver#1303, haproxy/haproxy#1929, grpc/grpc PR 29050.
#[test]
fn clients_of_http2_that_do_not_begin_or_end_are_closed() {
    let mut settings = h2c_settings(&[backend(|asked| asked.ok("x"))]);
    settings.limits.idle = Duration::from_millis(300);
    settings.limits.client_pause = Duration::from_millis(300);
    let lab = Lab::start(settings);
    let begin = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame([SETTINGS, 0], 0, &[])].concat();
    // Nothing, a part of the beginning, all of it, after which GOAWAY is not acknowledged, and another one.
    let sent = [&b""[..], &begin[..10], &begin[..], b"INVALID CONNECTION PREFACE\r\n\r\n"];
    let clients = sent.map(|bytes| {
        let mut client = lab.connect();
        client.write_all(bytes).expect("it is open");
        client
    });
    for mut client in clients {
        client.read_to_end(&mut Vec::new()).expect("it is closed, not reset");
    }
}

/// icing/mod_h2#104, dotnet/aspnetcore PR 44668.
#[test]
fn fields_are_limited_over_http2() {
    let lab = Lab::start(h2c_settings(&[backend(|asked| asked.ok("x"))]));
    let mut client = FrameClient::connect(lab.address, &[]);
    for (stream, name, is_taken) in [(1, "x-a", false), (3, "cookie", true)] {
        let fields = [get("/"), vec![(name, "a=1"); 101]].concat();
        client.ask(stream, &fields, true);
        assert_eq!(client.wait_for(HEADERS).payload[0] == 0x88, is_taken, "{name}");
        client.wait_for(DATA);
    }
    assert_eq!(lab.rows("request", 2)[0]["http_response_status_code"], "431");
}

/// Never stops sending.
fn flood(mut stream: &TcpStream) {
    while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
}

/// Both sides of a tunnel send and do not read.
#[test]
fn a_tunnel_in_which_both_sides_wait_ends() {
    let mut settings = settings(&[backend(move |asked| {
        asked.answer(SWITCH);
        flood(asked.stream.get_ref());
        false
    })]);
    settings.limits.tunnel_idle = Duration::from_millis(500);
    let lab = Lab::start(settings);
    let mut client = lab.connect();
    let head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    client.write_all(head.as_bytes()).expect("it is open");
    client.read_exact(&mut [0; 100]).expect("a tunnel");
    flood(&client);
    assert_eq!(lab.request()["failure"], "answer_cut");
}

#[test]
fn sampled_rows_carry_their_ratio() {
    let mut settings = settings(&[backend(|asked| asked.ok("x"))]);
    settings.record_one_of = 4;
    let lab = Lab::start(settings);
    (0..400).for_each(|_| assert!(lab.get("/").ends_with('x')));
    let rows = lab.end("request");
    // Sampled by random ids: 100 expected, standard deviation 9.
    assert!((55..145).contains(&rows.len()), "{}", rows.len());
    assert!(rows.iter().all(|row| row["sampled_ratio"] == "0.25"), "{rows:#?}");
}

#[test]
fn what_cannot_be_read_is_a_refusal_with_its_reason() {
    let lab = Lab::with_backend(|asked| asked.ok("x"));
    assert!(lab.say("nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    let rows = lab.rows("edge_refusal", 1);
    assert_eq!(
        (rows[0]["reason"].as_str(), rows[0]["received_bytes"].as_str()),
        ("malformed", "12")
    );
    assert_eq!(rows[0]["client_address"], "127.0.0.1");
}
