//! Half-closed connections (tcp(7), `shutdown`): a side that sends no more still gets its response.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::lab::{Lab, backend, read_all, settings};

fn pause(milliseconds: u64) {
    std::thread::park_timeout(Duration::from_millis(milliseconds));
}

/// Sends `text`, closes the sending side, and reads until the edge closes the other.
fn ask_and_close(lab: &Lab, text: &str) -> String {
    let mut stream = lab.connect();
    stream.write_all(text.as_bytes()).expect("the edge reads");
    stream.shutdown(Shutdown::Write).expect("it is open");
    read_all(&mut stream)
}

fn half_close(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
}

#[test]
fn a_client_that_closes_its_side_gets_its_answer() {
    let lab = Lab::with_backend(|asked| {
        pause(1500);
        asked.ok("late")
    });
    let answer = ask_and_close(&lab, "GET /late HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("late"), "{answer}");
    let row = lab.request();
    assert!(!row.contains_key("failure"), "{row:#?}");
    assert_eq!(row["response_bytes"], answer.len().to_string());
}

#[test]
fn all_requests_before_the_end_are_answered_in_order() {
    let lab = Lab::with_backend(|asked| {
        pause(50);
        let path = asked.head.split(' ').nth(1).unwrap_or_default().to_owned();
        asked.ok(&path)
    });
    let text: String = (1..=20).map(|n| format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    let answers = ask_and_close(&lab, &text);
    let bodies: Vec<&str> = answers.split("\r\n\r\n").skip(1).collect();
    let paths: Vec<&str> = bodies.iter().filter_map(|body| body.split("HTTP/").next()).collect();
    let expected: Vec<String> = (1..=20).map(|n| format!("/{n}")).collect();
    assert_eq!(paths, expected, "{answers}");
    let rows = lab.rows("request", 20);
    assert!(rows.len() == 20 && rows.iter().all(|row| !row.contains_key("failure")), "{rows:#?}");
}

#[test]
fn a_complete_body_is_forwarded_and_a_truncated_one_fails() {
    let lab = Lab::with_backend(|asked| {
        let mut body = [0; 5];
        if asked.stream.read_exact(&mut body).is_err() {
            return false;
        }
        pause(100);
        asked.ok(&String::from_utf8_lossy(&body))
    });
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:";
    let whole = ask_and_close(&lab, &format!("{head} 5\r\n\r\nhello"));
    assert!(whole.ends_with("\r\n\r\nhello"));
    let cut = ask_and_close(&lab, &format!("{head} 6\r\n\r\nhello"));
    assert!(!cut.starts_with("HTTP/1.1 2"), "{cut}");
    let rows = lab.rows("request", 2);
    let failures: Vec<_> = rows.iter().filter_map(|row| row.get("failure")).collect();
    assert_eq!(failures, ["client_closed"], "{rows:#?}");
}

#[test]
fn a_half_closed_client_is_given_up_after_the_limit() {
    let app = backend(|asked| {
        let _ = asked.stream.read(&mut [0]);
        false
    });
    let mut settings = settings(&[app]);
    settings.limits.half_closed = Duration::from_secs(1);
    let lab = Lab::start(settings);
    assert_eq!(ask_and_close(&lab, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "");
    let row = lab.request();
    assert_eq!(row["failure"], "client_closed");
    assert!(row["duration_seconds"].parse::<f64>().expect("a number") >= 1.0);
}

#[test]
fn a_half_closed_client_that_receives_data_is_kept() {
    let app = backend(|asked| {
        asked.answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
        for piece in ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] {
            pause(300);
            asked.answer(piece);
        }
        true
    });
    let mut settings = settings(&[app]);
    settings.limits.half_closed = Duration::from_secs(1);
    let lab = Lab::start(settings);
    let answer = ask_and_close(&lab, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\n0123456789"), "{answer}");
    assert!(!lab.request().contains_key("failure"));
}

#[test]
fn a_connection_that_the_backend_half_closed_is_not_reused() {
    let lab = Lab::with_backend(|asked| {
        asked.ok(&asked.number.to_string());
        half_close(asked.stream.get_ref());
        // It keeps reading: a request sent here would be lost.
        let mut more = Vec::new();
        let _ = asked.stream.read_to_end(&mut more);
        assert!(more.is_empty(), "a request after the end");
        false
    });
    for number in 1..=3 {
        let answer = lab.get("/");
        assert!(answer.ends_with(&format!("\r\n\r\n{number}")), "{answer}");
        pause(30);
    }
    let rows = lab.rows("request", 3);
    assert!(rows.iter().all(|row| !row.contains_key("failure")), "{rows:#?}");
}

#[test]
fn a_response_that_ends_by_closing_is_complete_and_an_empty_one_fails() {
    let lab = Lab::with_backend(|asked| {
        if asked.head.starts_with("GET /none") {
            half_close(asked.stream.get_ref());
            let _ = asked.stream.read(&mut [0]);
            return false;
        }
        asked.answer("HTTP/1.1 200 OK\r\n\r\nno length");
        pause(100);
        asked.answer(" at all");
        half_close(asked.stream.get_ref());
        let _ = asked.stream.read(&mut [0]);
        false
    });
    let answer = lab.get("/");
    assert!(answer.contains("no length") && answer.contains(" at all"), "{answer}");
    assert!(lab.get("/none").starts_with("HTTP/1.1 502 "));
    let rows = lab.rows("request", 2);
    let failures: Vec<_> = rows.iter().filter_map(|row| row.get("failure")).collect();
    assert_eq!(failures, ["empty_answer"], "{rows:#?}");
}
