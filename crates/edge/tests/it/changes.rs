//! Changes while requests are under way: nothing is refused, nothing breaks.

use std::io::{BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_edge::{BackendSettings, ListenerSettings};

use crate::lab::{Lab, backend, connect, nobody, read_answer, settings, wait_until};

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
    let free = nobody();
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
fn wrong_changes_change_nothing() {
    let app = backend(|asked| asked.ok("x"));
    let lab = Lab::start(settings(&[app]));
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
fn the_end_waits_for_requests_and_hands_over_every_row() {
    let app = backend(|asked| {
        std::thread::park_timeout(std::time::Duration::from_millis(500));
        asked.ok("late")
    });
    let mut lab = Lab::start(settings(&[app]));
    let mut reader = BufReader::new(lab.connect());
    reader.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
    std::thread::park_timeout(std::time::Duration::from_millis(100));
    lab.edge.take().expect("it runs").end();
    assert!(read_answer(&mut reader).ends_with("late"));
    let rows = lab.rows("request", 1);
    assert!(!rows[0].contains_key("failure"), "{rows:#?}");
    assert_eq!(lab.rows("edge_listener", 1).last().expect("one")["requests_total"], "1");
}
