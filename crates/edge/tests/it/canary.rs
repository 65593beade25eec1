//! A canary that keeps its connections is faster and must not attract the other members' share.

use std::io::{BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_edge::BackendSettings;

use crate::lab::{Lab, backend, connect, read_answer, settings, wait_until};

/// Time per request; a member serves one at a time, like a process with one worker.
const WORK: Duration = Duration::from_millis(4);
/// Extra time of a new connection, which the canary saves.
const HANDSHAKE: Duration = Duration::from_millis(2);
const CLIENTS: usize = 12;
/// Requests per window in which shares are counted.
const WINDOW: usize = 150;
const WINDOWS: usize = 10;
/// Short, so that the test measures load balancing rather than slow start.
const SLOW_START: Duration = Duration::from_millis(400);

/// A member with one worker, which responds with its name.
fn member(name: &'static str, is_keeping: bool) -> std::net::SocketAddr {
    let worker = Mutex::new(());
    backend(move |asked| {
        let _turn = worker.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::park_timeout(WORK);
        if is_keeping {
            return asked.ok(name);
        }
        std::thread::park_timeout(HANDSHAKE);
        let length = name.len();
        asked.answer(&format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{name}"
        ));
        false
    })
}

fn count(answers: &Mutex<Vec<bool>>) -> usize {
    answers.lock().unwrap_or_else(PoisonError::into_inner).len()
}

#[test]
fn a_canary_that_keeps_connections_gets_a_steady_share() {
    let mut settings = settings(&[member("a", false), member("b", false), member("c", false)]);
    settings.upstream.slow_start = SLOW_START;
    let lab = Lab::start(settings.clone());
    let (address, is_over) = (lab.address, Arc::<AtomicBool>::default());
    let answers = Arc::<Mutex<Vec<bool>>>::default();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (is_over, answers) = (Arc::clone(&is_over), Arc::clone(&answers));
            std::thread::spawn(move || {
                let mut reader = BufReader::new(connect(address));
                while !is_over.load(Ordering::Relaxed) {
                    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
                    reader.get_mut().write_all(request).expect("it is open");
                    let answer = read_answer(&mut reader);
                    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                    let is_canary = answer.ends_with("canary");
                    answers.lock().unwrap_or_else(PoisonError::into_inner).push(is_canary);
                }
            })
        })
        .collect();
    wait_until("warm members", || count(&answers) >= WINDOW);
    let canary = member("canary", true).to_string();
    settings.backends.push(BackendSettings::parse(&canary).expect("an address"));
    lab.edge.as_ref().expect("it runs").change(&settings).expect("good settings");
    let joined = count(&answers);
    wait_until("enough requests after the canary joined", || {
        count(&answers) >= joined + WINDOW * WINDOWS
    });
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("no request failed");
    }
    let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    let windows = answers[joined..].chunks_exact(WINDOW);
    let shares: Vec<usize> =
        windows.map(|window| window.iter().filter(|is_canary| **is_canary).count()).collect();
    println!("the canary's requests of each {WINDOW}: {shares:?}");
    // Its share is a quarter by count, and 6 of 18 by capacity.
    let most = *shares.iter().max().expect("windows");
    assert!(most <= WINDOW / 2, "it got {most} of {WINDOW}: {shares:?}");
    let settled = &shares[shares.len() / 2..];
    let (least, most) = (settled.iter().min().expect("some"), settled.iter().max().expect("some"));
    assert!(*least >= WINDOW / 10, "its share swings: {shares:?}");
    assert!(most - least <= WINDOW / 4, "its share swings: {shares:?}");
}
