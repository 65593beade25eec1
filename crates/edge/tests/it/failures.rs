//! Failing backends: the response, whether another backend was tried, and the failure in the row.

use std::io::{BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weir_edge::{BackendSettings, CheckKind, CheckSettings, Settings};

use crate::lab::{
    BackendRequest, Lab, Row, backend, read_answer, settings, unused_address, wait_until,
};

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

/// Sends a request to a backend that does `what`; returns the response and the row.
fn one(what: impl Fn(&mut BackendRequest<'_>) -> bool + Send + Sync + 'static) -> (String, Row) {
    let mut settings = settings(&[backend(what)]);
    settings.upstream.answer = Duration::from_secs(1);
    let lab = Lab::start(settings);
    let answer = lab.get("/");
    (answer, lab.request())
}

#[test]
fn each_failure_has_its_reason() {
    const CUT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this";
    for (text, closes, expected) in [
        ("", true, ("502", "empty_answer")),
        ("garbage\r\n\r\n", true, ("502", "invalid_answer")),
        (CUT, true, ("200", "answer_cut")),
        ("", false, ("504", "response_timeout")),
        (CUT, false, ("200", "response_timeout")),
    ] {
        let (answer, row) = one(move |asked| {
            asked.answer(text);
            let _ = !closes && asked.stream.read(&mut [0]).is_ok();
            false
        });
        assert_eq!((status(&answer), row["failure"].as_str()), expected, "{text}");
        assert!(closes || row["upstream_tries"] == "1", "{row:#?}");
        assert!(text != CUT || answer.ends_with("only this"), "{answer}");
        assert!(text != CUT || row["response_body_bytes"] == "9", "{row:#?}");
    }
}

#[test]
fn a_reset_within_a_body_is_recorded() {
    let (_, row) = one(|asked| {
        asked.answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
        let linger =
            rustix::net::sockopt::set_socket_linger(asked.stream.get_ref(), Some(Duration::ZERO));
        linger.expect("a socket");
        false
    });
    assert!(matches!(row["failure"].as_str(), "answer_cut" | "empty_answer"), "{row:#?}");
}

#[test]
fn a_request_that_no_backend_accepts_is_recorded() {
    let lab = Lab::start(settings(&[unused_address()]));
    assert_eq!(status(&lab.get("/")), "502");
    let row = lab.request();
    assert_eq!(
        (row["failure"].as_str(), row["http_response_status_code"].as_str()),
        ("connect_refused", "502")
    );
    assert!(!row.contains_key("upstream_status_code"));
}

#[test]
fn a_dead_backend_costs_no_request_and_gets_no_more() {
    let app = backend(|asked| asked.ok("x"));
    let mut settings = settings(&[app, unused_address(), backend(|asked| asked.ok("y"))]);
    settings.upstream.ejection = Duration::from_secs(60);
    let lab = Lab::start(settings);
    for _ in 0..30 {
        assert_eq!(status(&lab.get("/")), "200");
    }
    let rows = lab.rows("request", 30);
    let retried = rows.iter().filter(|row| row["upstream_tries"] == "2").count();
    assert!((1..=3).contains(&retried), "out after three failures, but {retried} were tried there");
    assert!(rows.iter().all(|row| !row.contains_key("failure")));
    let states = lab.rows("edge_backend", 4);
    assert!(states.iter().any(|row| row["state"] == "ejected"), "{states:#?}");
}

#[test]
fn a_request_with_a_body_is_not_repeated() {
    let bad = backend(|_| false);
    let lab = Lab::start(settings(&[bad, bad_twin()]));
    let answer =
        lab.say("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(status(&answer), "502");
    assert_eq!(lab.request()["upstream_tries"], "1");
}

fn bad_twin() -> SocketAddr {
    backend(|_| false)
}

#[test]
fn a_hung_backend_is_ejected_and_its_requests_go_elsewhere() {
    let is_hung = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_hung);
    let hung = backend(move |asked| {
        if flag.load(Ordering::Relaxed) {
            let _ = asked.stream.read(&mut [0]);
            return false;
        }
        asked.ok("x")
    });
    let [one, two, three] = [(); 3].map(|()| backend(|asked| asked.ok("y")));
    let lab = Lab::start(settings(&[hung, one, two, three]));
    let (address, is_over) = (lab.address, AtomicBool::new(false));
    let answers: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..8).map(|_| scope.spawn(|| answers_until(address, &is_over))).collect();
        std::thread::park_timeout(Duration::from_secs(1));
        is_hung.store(true, Ordering::Relaxed);
        wait_until("the stall", || {
            lab.rows("edge_backend", 1).iter().any(|row| row["state"] == "stalled")
        });
        std::thread::park_timeout(Duration::from_secs(1));
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|one| one.join().expect("no panic")).collect()
    });
    let failed = answers.iter().filter(|(status, _)| status != "200").count();
    // Far below the response timeout of 60 s.
    let slowest = answers.iter().map(|(_, took)| *took).max().expect("there were some");
    assert_eq!(failed, 0, "of {}", answers.len());
    assert!(slowest < Duration::from_secs(20), "{slowest:?}");
    let rows = lab.rows("request", answers.len());
    assert_eq!(rows.len(), answers.len());
}

/// Sends requests on one connection; returns each status and how long it took.
fn answers_until(address: SocketAddr, is_over: &AtomicBool) -> Vec<(String, Duration)> {
    let mut reader = BufReader::new(crate::lab::connect(address));
    let mut answers = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        reader.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
        answers.push((status(&read_answer(&mut reader)).to_owned(), asked.elapsed()));
        std::thread::park_timeout(Duration::from_millis(5));
    }
    answers
}

#[test]
fn a_client_that_leaves_is_not_a_backend_failure() {
    let app = backend(|asked| {
        let _ = asked.stream.read(&mut [0]);
        false
    });
    let mut settings = settings(&[app]);
    settings.limits.half_closed = Duration::ZERO;
    let lab = Lab::start(settings);
    let mut stream = lab.connect();
    stream.write_all(b"GET /left HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
    std::thread::park_timeout(Duration::from_millis(200));
    drop(stream);
    let row = lab.request();
    assert_eq!((row["failure"].as_str(), row["url_path"].as_str()), ("client_closed", "/left"));
    assert!(!row.contains_key("http_response_status_code"));
}

#[test]
fn the_idle_mismatch_costs_no_answer_and_is_learnt() {
    // The backend closes idle connections after 600 ms, before the load balancer does.
    let lab = Lab::with_backend(|asked| {
        asked.ok("x");
        let stream = asked.stream.get_ref();
        stream.set_read_timeout(Some(Duration::from_millis(600))).expect("a socket");
        true
    });
    for pause in [700, 700, 700, 550, 100, 50] {
        assert_eq!(status(&lab.get("/")), "200");
        std::thread::park_timeout(Duration::from_millis(pause));
    }
    let rows = lab.end("edge_backend");
    let last = rows.last().expect("one at the end");
    let idle: f64 = last["idle_timeout_seconds"].parse().expect("a number");
    assert!(idle < 2.0, "four seconds are configured, less was learnt: {last:#?}");
    assert_ne!(last["idle_closed_total"], "0");
    assert_eq!(last["failures_total"], "0");
}

#[test]
fn a_backend_that_fails_its_checks_gets_nothing_until_it_passes() {
    let is_ill = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&is_ill);
    let ill = backend(move |asked| {
        let is_check = asked.head.starts_with("GET /health ");
        if is_check && flag.load(Ordering::Relaxed) {
            asked.answer("HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n");
            return true;
        }
        asked.ok("ill")
    });
    let mut settings = settings(&[ill, healthy(), healthy()]);
    settings.check = check(CheckKind::Ask("/health".into()));
    gets_nothing_until_healthy(settings, &is_ill);
}

fn healthy() -> SocketAddr {
    backend(|asked| asked.ok("well"))
}

/// Checks that the backend `ill` gets requests only after its checks pass.
fn gets_nothing_until_healthy(settings: Settings, is_ill: &AtomicBool) {
    let lab = Lab::start(settings);
    wait_until("the failed check", || {
        lab.rows("edge_backend", 1).iter().any(|row| row["state"] == "check_failed")
    });
    for _ in 0..20 {
        assert!(lab.get("/").ends_with("well"));
    }
    is_ill.store(false, Ordering::Relaxed);
    wait_until("its return", || lab.get("/").ends_with("ill"));
}

/// Settings of a check every 0.1 s.
fn check(kind: CheckKind) -> Option<CheckSettings> {
    let (every, within) = (Duration::from_millis(100), Duration::from_secs(5));
    Some(CheckSettings { kind, every, within, rise: 2, fall: 2 })
}

#[test]
fn a_backend_whose_health_body_reports_a_failure_gets_nothing() {
    let is_ill = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&is_ill);
    let ill = backend(move |asked| {
        if !asked.head.starts_with("GET /health ") {
            return asked.ok("ill");
        }
        let digest = format!(
            "{{\"checks\": [{{\"name\": \"feed\", \"ok\": {}}}]}}",
            !flag.load(Ordering::Relaxed)
        );
        asked.answer(&format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/health+json\r\nContent-Length: {}\r\n\r\n{digest}",
            digest.len()
        ));
        true
    });
    let mut settings = settings(&[ill, healthy(), healthy()]);
    settings.check = check(CheckKind::Ask("/health".into()));
    gets_nothing_until_healthy(settings, &is_ill);
}

/// A backend whose health response is Spring's with the database down; it counts its checks.
fn backend_without_database(checks: &Arc<AtomicUsize>) -> SocketAddr {
    const DIGEST: &str =
        r#"{"status":"DOWN","components":{"db":{"status":"DOWN","details":{"error":"refused"}}}}"#;
    let checks = Arc::clone(checks);
    backend(move |asked| {
        if !asked.head.starts_with("GET /health ") {
            return asked.ok("well");
        }
        checks.fetch_add(1, Ordering::Relaxed);
        asked.answer(&format!(
            "HTTP/1.1 503 x\r\nContent-Type: application/vnd.spring-boot.actuator.v3+json\r\nContent-Length: {}\r\n\r\n{DIGEST}",
            DIGEST.len()
        ));
        true
    })
}

#[test]
fn shared_database_that_is_down_ejects_no_backend_and_is_in_the_rows() {
    let checks = Arc::new(AtomicUsize::new(0));
    let mut settings = settings(&[(); 3].map(|()| backend_without_database(&checks)));
    settings.check = check(CheckKind::Ask("/health".into()));
    let lab = Lab::start(settings);
    wait_until("ten checks of each", || checks.load(Ordering::Relaxed) >= 30);
    assert!(lab.get("/").ends_with("well"));
    let rows = lab.end("edge_backend");
    let last = &rows[rows.len() - 3..];
    for row in last {
        assert_eq!((row["state"].as_str(), row["failed_checks"].as_str()), ("up", "db (refused)"));
    }
}

#[test]
fn a_connect_check_sends_no_request() {
    let was_asked = Arc::new(AtomicBool::new(false));
    let [one, two] = [(); 2].map(|()| {
        let flag = Arc::clone(&was_asked);
        backend(move |asked| {
            flag.fetch_or(asked.head.contains("weir-edge-check"), Ordering::Relaxed);
            asked.ok("well")
        })
    });
    let mut settings = settings(&[unused_address(), one, two]);
    settings.check = check(CheckKind::parse("connect").expect("it is one"));
    let lab = Lab::start(settings);
    wait_until("the failed check", || {
        lab.rows("edge_backend", 1).iter().any(|row| row["state"] == "check_failed")
    });
    for _ in 0..20 {
        assert!(lab.get("/").ends_with("well"));
    }
    let rows = lab.end("request");
    assert!(rows.iter().all(|row| row["upstream_tries"] == "1"), "{rows:#?}");
    assert!(!was_asked.load(Ordering::Relaxed));
    assert!(CheckKind::parse("health").is_err());
}

#[test]
fn the_row_of_a_queued_request_has_its_wait() {
    let is_open = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&is_open);
    let app = backend(move |asked| {
        wait_until("the gate", || gate.load(Ordering::Relaxed));
        asked.ok("x")
    });
    let mut settings = settings(&[app]);
    settings.upstream.in_flight = 1;
    settings.upstream.queue = 1;
    settings.upstream.queue_wait = Duration::from_secs(60);
    let lab = Lab::start(settings);
    let (address, gate) = (lab.address, Arc::clone(&is_open));
    let threads = [(); 3].map(|()| {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(crate::lab::connect(address));
            let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
            reader.get_mut().write_all(request).expect("it is open");
            let status = status(&read_answer(&mut reader)).to_owned();
            // The first response goes to the request that found the queue full.
            gate.store(true, Ordering::Relaxed);
            status
        })
    });
    let mut answers: Vec<_> =
        threads.into_iter().map(|one| one.join().expect("no panic")).collect();
    answers.sort();
    assert_eq!(answers, ["200", "200", "503"]);
    let rows = lab.rows("request", 3);
    let refused = rows.iter().find(|row| row.contains_key("failure")).expect("one");
    assert_eq!(refused["failure"], "queue_full");
    let waits = rows.iter().filter_map(|row| row.get("queue_seconds"));
    let queued = waits.filter(|text| text.parse::<f64>().expect("a number") > 0.0);
    assert_eq!(queued.count(), 1, "{rows:#?}");
}

/// Settings of zone `a` with a backend there and one in zone `b`.
fn zoned([near, far]: [SocketAddr; 2]) -> Settings {
    let texts = [format!("{near}@a"), format!("{far}@b")];
    let backends = texts.iter().map(|text| BackendSettings::parse(text).expect("an address"));
    Settings { backends: backends.collect(), zone: Some("a".into()), ..settings(&[]) }
}

#[test]
fn a_zone_without_backends_costs_no_request() {
    let (near, far) = (backend(|asked| asked.ok("near")), backend(|asked| asked.ok("far")));
    let lab = Lab::start(zoned([near, far]));
    assert!((0..20).all(|_| lab.get("/").ends_with("near")));
    // The zone's backend is down: requests go to the other zone, the first one after a try.
    let lost = Lab::start(zoned([unused_address(), far]));
    assert!((0..20).all(|_| lost.get("/").ends_with("far")));
    let rows = lost.end("request");
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().all(|row| !row.contains_key("failure")), "{rows:#?}");
    assert_eq!(rows[0]["upstream_tries"], "2");
    assert_eq!(rows[19]["upstream_tries"], "1");
}
