//! HTTP/2 to backends: one connection carries many requests, which do not affect each other.

use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use crate::h2_backends::h2c_to;
use crate::lab::{BackendRequest, Lab, backend, h2c_settings, unused_address, wait_until};

/// An outer edge that speaks HTTP/2 to an inner one, which has a backend that does `what`.
fn pair(what: impl Fn(&mut BackendRequest<'_>) -> bool + Send + Sync + 'static) -> (Lab, Lab) {
    let inner = Lab::start(h2c_settings(&[backend(what)]));
    (Lab::start(h2c_to(inner.address)), inner)
}

/// Sends `count` requests at once; returns the responses.
fn ask_together(lab: &Lab, count: usize) -> Vec<String> {
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..count).map(|_| scope.spawn(|| lab.get("/"))).collect();
        asking.into_iter().map(|one| one.join().expect("no panic")).collect()
    })
}

fn connections(lab: &Lab) -> u64 {
    lab.edge.as_ref().expect("it runs").state().listeners[0].accepted
}

#[test]
fn many_requests_share_one_connection_and_more_take_another() {
    for (count, expected) in [(60, 1), (130, 2)] {
        // The backend responds after all requests have arrived, so they are in progress together.
        let all = Arc::new(Barrier::new(count));
        let (outer, inner) = pair(move |asked| {
            all.wait();
            asked.ok("x")
        });
        let answers = ask_together(&outer, count);
        assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 200")), "{answers:#?}");
        assert_eq!(connections(&inner), expected);
        let rows = outer.rows("request", count);
        assert!(rows.iter().all(|row| !row.contains_key("failure")), "{rows:#?}");
        let tries = rows.iter().filter(|row| row["upstream_tries"] == "1").count();
        assert_eq!(tries, count);
    }
}

#[test]
fn a_stream_that_hangs_or_fails_does_not_affect_the_others() {
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let (outer, inner) = pair(move |asked| {
        if asked.head.starts_with("GET /hang") {
            let _ = released.lock().expect("no panic").recv();
            return asked.ok("late");
        }
        if asked.head.starts_with("GET /cut") {
            asked.answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
            return false;
        }
        asked.ok("x")
    });
    std::thread::scope(|scope| {
        let hanging = scope.spawn(|| outer.get("/hang"));
        wait_until("the request that hangs", || connections(&inner) == 1);
        for _ in 0..5 {
            assert!(outer.get("/").ends_with("\r\n\r\nx"));
        }
        assert!(outer.get("/cut").ends_with("only this"));
        assert!(outer.get("/").ends_with("\r\n\r\nx"));
        release.send(()).expect("the backend waits");
        assert!(hanging.join().expect("no panic").ends_with("late"));
    });
    assert_eq!(connections(&inner), 1);
    let rows = outer.rows("request", 8);
    let failures: Vec<_> = rows.iter().filter_map(|row| row.get("failure")).collect();
    assert_eq!(failures, ["answer_cut"], "{rows:#?}");
}

#[test]
fn an_idle_connection_closes_and_the_next_request_opens_another() {
    let (outer, inner) = pair(|asked| asked.ok("x"));
    let mut settings = h2c_to(inner.address);
    settings.upstream.idle = Duration::from_secs(1);
    outer.edge.as_ref().expect("it runs").change(&settings).expect("good settings");
    for expected in [1, 2] {
        assert!(outer.get("/").ends_with("\r\n\r\nx"));
        assert!(outer.get("/").ends_with("\r\n\r\nx"));
        assert_eq!(connections(&inner), expected);
        wait_until("the end of the idle connection", || {
            inner.edge.as_ref().expect("it runs").state().listeners[0].connections == 0
        });
    }
}

#[test]
fn a_failed_connect_fails_all_waiting_requests_at_once() {
    let lab = Lab::start(h2c_to(unused_address()));
    let answers = ask_together(&lab, 20);
    assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 50")), "{answers:#?}");
    assert_eq!(lab.rows("request", 20).len(), 20);
}
