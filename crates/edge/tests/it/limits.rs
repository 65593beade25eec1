//! Limits are enforced, and refused connections are counted by reason.

use std::io::{Read, Write};
use std::time::Duration;

use crate::lab::{Lab, backend, connect, read_all, settings};

#[test]
fn heads_have_a_size_and_a_time() {
    let app = backend(|asked| asked.ok("x"));
    let mut settings = settings(&[app]);
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
    let app = backend(|asked| asked.ok(&"x".repeat(16 << 20)));
    let mut settings = settings(&[app]);
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
    let app = backend(|asked| asked.ok("x"));
    let mut settings = settings(&[app]);
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

#[test]
fn a_connection_carries_a_limited_number_of_requests() {
    let app = backend(|asked| asked.ok("x"));
    let mut settings = settings(&[app]);
    settings.limits.connection_requests = 2;
    let lab = Lab::start(settings);
    let answer = lab.say(&"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
    assert_eq!(answer.matches("connection: close").count(), 1, "{answer}");
}

#[test]
fn sampled_rows_carry_their_ratio() {
    let app = backend(|asked| asked.ok("x"));
    let mut settings = settings(&[app]);
    settings.record_one_of = 4;
    let lab = Lab::start(settings);
    (0..400).for_each(|_| assert!(lab.get("/").ends_with('x')));
    let rows = lab.end("request");
    // Sampled by random ids: 100 expected, standard deviation 9.
    assert!((55..145).contains(&rows.len()), "{}", rows.len());
    assert!(rows.iter().all(|row| row["sampled_ratio"] == "0.25"), "{rows:#?}");
}
