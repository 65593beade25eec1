//! Changes under load: no request is refused or broken.

use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_edge::{BackendSettings, InheritedState, Limits, ListenerSettings, Settings};

use crate::lab::{Lab, backend, connect, read_answer, settings, unused_address, wait_until};

#[test]
fn backends_and_listeners_change_under_load_without_a_lost_request() {
    let (first, second) = (backend(|asked| asked.ok("first")), backend(|asked| asked.ok("second")));
    let mut settings = settings(&[first]);
    settings.threads = 2;
    let lab = Lab::start(settings.clone());
    let (address, is_over) = (lab.address, Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..4)
        .map(|at| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(connect(address));
                let mut count = 0;
                while !is_over.load(Ordering::Relaxed) {
                    if at % 2 == 0 {
                        reader = BufReader::new(connect(address));
                    }
                    reader
                        .get_mut()
                        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                        .expect("it is open");
                    assert!(read_answer(&mut reader).starts_with("HTTP/1.1 200"));
                    count += 1;
                }
                count
            })
        })
        .collect();
    let edge = lab.edge.as_ref().expect("it runs");
    settings.backends = vec![BackendSettings::parse(&second.to_string()).expect("an address")];
    let free = unused_address();
    settings
        .listeners
        .push(ListenerSettings::parse(&free.to_string(), false, 16).expect("an address"));
    let lines = edge.change(&settings).expect("good settings");
    assert_eq!(lines.len(), 3, "{lines:?}");
    wait_until("the other backend", || lab.get("/").ends_with("second"));
    assert_eq!(edge.addresses(), [address, free]);
    wait_until("the other listener", || std::net::TcpStream::connect(free).is_ok());
    settings.listeners.pop();
    edge.change(&settings).expect("good settings");
    wait_until("its end", || std::net::TcpStream::connect(free).is_err());
    is_over.store(true, Ordering::Relaxed);
    let counts: u64 = clients.into_iter().map(|one| one.join().expect("no request failed")).sum();
    let rows = lab.end("request");
    assert!(rows.len() as u64 > counts);
    assert!(rows.iter().all(|row| !row.contains_key("failure")));
}

#[test]
fn an_invalid_change_has_no_effect() {
    let lab = Lab::with_backend(|asked| asked.ok("x"));
    let edge = lab.edge.as_ref().expect("it runs");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut wrong = settings(&[]);
    wrong.beacon = Some("/b".into());
    let taken = taken.local_addr().expect("it is bound").to_string();
    wrong.listeners.push(ListenerSettings::parse(&taken, false, 16).expect("an address"));
    let error = edge.change(&wrong).expect_err("the port is taken").to_string();
    assert!(
        error.contains("cannot listen on") && error.contains("hint: another program"),
        "{error}"
    );
    assert!(lab.get("/").ends_with("x"));
    assert_eq!(edge.addresses(), [lab.address]);
}

#[test]
fn shutdown_waits_for_requests_and_delivers_every_row() {
    let app = backend(|asked| {
        std::thread::park_timeout(Duration::from_millis(500));
        asked.ok("late")
    });
    let mut lab = Lab::start(settings(&[app]));
    let mut reader = BufReader::new(lab.connect());
    reader.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
    std::thread::park_timeout(Duration::from_millis(100));
    lab.edge.take().expect("it runs").end();
    assert!(read_answer(&mut reader).ends_with("late"));
    let rows = lab.rows("request", 1);
    assert!(!rows[0].contains_key("failure"), "{rows:#?}");
    assert_eq!(lab.rows("edge_listener", 1).last().expect("one")["requests_total"], "1");
}

/// Clients that send requests until stopped; every second one opens a connection per request.
struct ClientLoad {
    is_over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<u64>>,
}

impl ClientLoad {
    fn start(address: SocketAddr) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let clients = (0..4_usize).map(|at| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(connect(address));
                let mut count = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
                    reader.get_mut().write_all(request).expect("it is open");
                    let answer = read_answer(&mut reader);
                    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
                    count += 1;
                    if at.is_multiple_of(2) || answer.contains("connection: close") {
                        reader = BufReader::new(connect(address));
                    }
                }
                count
            })
        });
        let clients = clients.collect();
        Self { is_over, clients }
    }

    /// Stops the clients; returns the number of requests, all successful.
    fn end(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        let counts = self.clients.into_iter().map(|one| one.join().expect("no request failed"));
        usize::try_from(counts.sum::<u64>()).expect("a count")
    }
}

fn requests_of(lab: &Lab) -> u64 {
    lab.edge.as_ref().expect("it runs").state().listeners[0].requests
}

#[test]
fn another_edge_takes_the_sockets_and_no_client_notices() {
    let app = backend(|asked| asked.ok("x"));
    let mut settings = Settings { threads: 3, ..settings(&[app]) };
    let mut lab = Lab::start(settings.clone());
    let load = ClientLoad::start(lab.address);
    let mut before = Vec::new();
    // Fewer threads than sockets, then more.
    for threads in [1, 4] {
        wait_until("requests", || requests_of(&lab) > 100);
        settings.threads = threads;
        let old = lab.edge.take().expect("it runs");
        let inherited =
            InheritedState { sockets: old.sockets().expect("copies"), learnt: old.learnt() };
        assert_eq!(inherited.learnt.backends[0].backend, app.to_string());
        assert!(!inherited.learnt.backends[0].latency.is_zero());
        let new = Lab::start_with(settings.clone(), inherited);
        assert_eq!(new.address, lab.address);
        let began = Instant::now();
        old.leave();
        assert!(began.elapsed() < Duration::from_secs(9), "it waited for idle connections");
        before.extend(std::mem::replace(&mut lab, new).rows("request", 1));
    }
    wait_until("requests", || requests_of(&lab) > 100);
    let count = load.end();
    before.extend(lab.end("request"));
    assert_eq!(before.len(), count);
    assert!(before.iter().all(|row| !row.contains_key("failure")));
}

#[test]
fn a_listener_with_other_settings_keeps_its_sockets_and_its_totals() {
    let app = backend(|asked| asked.ok("x"));
    let mut settings = settings(&[app]);
    let lab = Lab::start(settings.clone());
    let edge = lab.edge.as_ref().expect("it runs");
    let load = ClientLoad::start(lab.address);
    for backlog in 1..=40 {
        settings.listeners[0].backlog = 128 + backlog;
        edge.change(&settings).expect("good settings");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert_eq!(edge.addresses(), [lab.address]);
    let count = load.end();
    wait_until("all requests", || usize::try_from(edge.state().listeners[0].requests) == Ok(count));
}

#[test]
fn keep_alive_is_set_for_one_listener_and_changes_while_connections_idle() {
    let app = backend(|asked| asked.ok("x"));
    let mut settings = settings(&[app]);
    let lab = Lab::start(settings.clone());
    let edge = lab.edge.as_ref().expect("it runs");
    let mut reader = BufReader::new(lab.connect());
    reader.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
    assert!(read_answer(&mut reader).ends_with('x'));
    let configured = settings.listeners[0].address;
    let listener_idle = vec![(configured, Duration::from_secs(1))];
    settings.limits = Limits { listener_idle, ..settings.limits };
    settings.pool_idle = vec![(String::new(), Duration::from_millis(1500))];
    edge.change(&settings).expect("good settings");
    let state = edge.state();
    assert_eq!(state.listeners[0].idle, Duration::from_secs(1));
    assert_eq!(state.backends[0].idle_timeout_seconds, 1.5);
    let began = Instant::now();
    assert_eq!(read_answer(&mut reader), "", "the edge closes it");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    wait_until("the backend's connection is closed too", || {
        edge.state().backends[0].connections == 0
    });
    settings.pool_idle[0].0 = "other".into();
    let error = edge.change(&settings).expect_err("no such pool").to_string();
    assert!(error.contains("keep-alive of the pool `other`"), "{error}");
}

#[test]
fn learnt_state_is_adopted_and_connections_are_opened_ahead() {
    let app = backend(|asked| asked.ok("x"));
    let one = Lab::start(settings(&[app]));
    assert!(one.get("/").ends_with('x'));
    let mut learnt = one.edge.as_ref().expect("it runs").learnt();
    learnt.backends[0].connections = 5;
    learnt.backends[0].keeps_idle = Some(Duration::from_secs(2));
    let other = Lab::start(Settings { threads: 2, ..settings(&[app]) });
    let edge = other.edge.as_ref().expect("it runs");
    assert_eq!(edge.state().backends[0].latency_seconds, None);
    edge.teach(&learnt);
    wait_until("connections", || edge.state().backends[0].connections == 5);
    let state = &edge.state().backends[0];
    assert!(state.latency_seconds.is_some());
    assert_eq!(state.idle_timeout_seconds, 1.6);
    assert_eq!(edge.learnt().ticket_keys[0].name, learnt.ticket_keys[0].name);
}
