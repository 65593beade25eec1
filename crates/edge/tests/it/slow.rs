//! Slow is not stalled: long polls, second tries, and limits that hold in each version of HTTP.

use std::io::{BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use weir_edge::BackendSettings;

use crate::h2_frames::{DATA, FrameClient, HEADERS, INITIAL_WINDOW_SIZE, RST_STREAM, get};
use crate::lab::{Lab, PATIENCE, backend, connect, read_all, read_answer, settings, wait_until};

/// Holds answers back until it is opened.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = self.opened.wait_timeout_while(is_open, PATIENCE, |is_open| !*is_open);
        drop(waiting.expect("no panic"));
    }
}

/// A backend with a long poll, whose answers come when the gate opens, and quick pages.
fn polling(gate: &Arc<Gate>, polls: &Arc<AtomicUsize>) -> SocketAddr {
    let (gate, polls) = (Arc::clone(gate), Arc::clone(polls));
    backend(move |asked| {
        let is_poll = asked.head.contains("/poll") || asked.head.contains("feed=longpoll");
        if !is_poll {
            // Long enough that requests overlap: the least loaded of idle backends is never one
            // that still owes an answer.
            std::thread::park_timeout(Duration::from_millis(10));
            return asked.ok("quick");
        }
        polls.fetch_add(1, Relaxed);
        gate.wait();
        asked.ok("news")
    })
}

/// Requests quick pages from several clients until `is_over`; returns how many there were.
fn quick_requests(address: SocketAddr, is_over: &AtomicBool) -> usize {
    let mut reader = BufReader::new(connect(address));
    let mut count = 0;
    while !is_over.load(Relaxed) {
        reader.get_mut().write_all(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
        assert!(read_answer(&mut reader).ends_with("quick"));
        count += 1;
        std::thread::park_timeout(Duration::from_millis(10));
    }
    count
}

/// caddyserver/caddy #667, apple/servicetalk PR 3551, medic/cht-core #7183, sky-uk/feed PR 74.
#[test]
fn long_polls_beside_quick_requests_stall_no_backend() {
    let (gate, polls) = (Arc::<Gate>::default(), Arc::<AtomicUsize>::default());
    let mut settings = settings(&[polling(&gate, &polls), polling(&gate, &polls)]);
    settings.upstream.stall = Duration::from_millis(100);
    let lab = Lab::start(settings);
    let is_over = AtomicBool::new(false);
    let targets = ["/poll", "/poll", "/poll", "/_changes?feed=longpoll", "/poll?since=7"];
    std::thread::scope(|scope| {
        let pages: Vec<_> =
            (0..3).map(|_| scope.spawn(|| quick_requests(lab.address, &is_over))).collect();
        let waiting: Vec<_> =
            targets.iter().map(|target| scope.spawn(|| lab.get(target))).collect();
        wait_until("all polls", || polls.load(Relaxed) == targets.len());
        // Twelve times as long as a stall takes.
        std::thread::park_timeout(Duration::from_millis(1200));
        gate.open();
        for poll in waiting {
            assert!(poll.join().expect("no panic").ends_with("news"));
        }
        is_over.store(true, Relaxed);
        assert!(pages.into_iter().map(|one| one.join().expect("no panic")).sum::<usize>() > 50);
    });
    assert_eq!(polls.load(Relaxed), targets.len(), "no poll was asked twice");
    let states = lab.end("edge_backend");
    assert!(states.iter().all(|row| row["state"] == "up"), "{states:#?}");
}

/// A hung backend is still found when long polls wait there as well.
#[test]
fn a_backend_that_hangs_is_ejected_in_spite_of_its_long_polls() {
    let (gate, polls) = (Arc::<Gate>::default(), Arc::<AtomicUsize>::default());
    let is_hung = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_hung);
    let hung = backend(move |asked| {
        if flag.load(Relaxed) || asked.head.contains("/poll") {
            let _ = asked.stream.read(&mut [0]);
            return false;
        }
        asked.ok("quick")
    });
    let mut settings = settings(&[hung, polling(&gate, &polls), polling(&gate, &polls)]);
    settings.upstream.stall = Duration::from_millis(200);
    let lab = Lab::start(settings);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pages: Vec<_> =
            (0..6).map(|_| scope.spawn(|| quick_requests(lab.address, &is_over))).collect();
        std::thread::park_timeout(Duration::from_millis(500));
        is_hung.store(true, Relaxed);
        wait_until("the ejection", || {
            lab.rows("edge_backend", 1).iter().any(|row| row["state"] == "stalled")
        });
        is_over.store(true, Relaxed);
        gate.open();
        for one in pages {
            one.join().expect("every request was answered");
        }
    });
}

/// varnishcache/varnish-cache #4413, cloudflare/pingora #979, envoyproxy/envoy #2747.
#[test]
fn requests_that_may_have_had_an_effect_are_not_repeated() {
    for (method, tries) in [("GET", 2), ("HEAD", 2), ("DELETE", 1), ("PUT", 1), ("POST", 1)] {
        let asked = Arc::<AtomicUsize>::default();
        let backends = [(); 2].map(|()| {
            let asked = Arc::clone(&asked);
            backend(move |_| {
                asked.fetch_add(1, Relaxed);
                false
            })
        });
        let lab = Lab::start(settings(&backends));
        let answer =
            lab.say(&format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 502"), "{method}: {answer}");
        assert!(asked.load(Relaxed) >= 1 && (asked.load(Relaxed) == 1) == (tries == 1), "{method}");
    }
}

/// varnishcache/varnish-cache PR 2549, shekyan/slowhttptest #70, alibaba/tengine PR 779,
/// nodejs/node PR 17944.
#[test]
fn http2_streams_whose_window_stays_closed_are_ended() {
    let app = backend(|asked| {
        let body = "x".repeat(200_000);
        if asked.head.contains("/small") { asked.ok("small") } else { asked.ok(&body) }
    });
    let mut settings = settings(&[app]);
    settings.listeners[0].is_h2c = true;
    settings.limits.client_pause = Duration::from_secs(1);
    let lab = Lab::start(settings);
    let mut client = FrameClient::connect(lab.address, &[(INITIAL_WINDOW_SIZE, 0)]);
    let streams: Vec<u32> = (0..10).map(|n| 2 * n + 1).collect();
    for stream in &streams {
        client.ask(*stream, &get(if *stream == 1 { "/small" } else { "/" }), true);
    }
    let mut ended = Vec::new();
    while ended.len() < streams.len() {
        let frame = client.next().expect("the connection stays");
        assert!(frame.kind != DATA || frame.payload.is_empty(), "the window is closed: {frame:?}");
        if frame.kind == RST_STREAM {
            ended.push(frame.stream);
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, streams);
    let rows = lab.rows("request", streams.len());
    let slow = rows.iter().filter(|row| row.get("failure").is_some_and(|why| why == "client_slow"));
    assert_eq!(slow.count(), streams.len() - 1, "the small one was complete: {rows:#?}");
    let state = lab.edge.as_ref().expect("it runs").state();
    assert_eq!(state.backends[0].in_flight, 0);
}

/// The other direction: a body that stops, while another stream of the connection is busy.
#[test]
fn http2_streams_whose_body_stops_are_ended_one_by_one() {
    let app = backend(|asked| {
        if asked.head.starts_with("POST") {
            let _ = asked.stream.read_to_end(&mut Vec::new());
            return false;
        }
        asked.ok("fine")
    });
    let mut settings = settings(&[app]);
    settings.listeners[0].is_h2c = true;
    settings.limits.client_pause = Duration::from_secs(1);
    let lab = Lab::start(settings);
    let mut client = FrameClient::connect(lab.address, &[]);
    let mut post = get("/upload");
    post[0] = (":method", "POST");
    client.ask(1, &post, false);
    client.data(1, b"begin", false);
    let mut stream = 3;
    loop {
        client.ask(stream, &get("/"), true);
        let frame = client.next().expect("the connection stays");
        if frame.kind == RST_STREAM {
            assert_eq!(frame.stream, 1);
            break;
        }
        assert!(frame.kind == HEADERS || frame.kind == DATA, "{frame:?}");
        assert!(stream < 4000, "the upload was not ended");
        stream += 2;
        std::thread::park_timeout(Duration::from_millis(20));
    }
    wait_until("its row", || {
        let rows = lab.rows("request", 1);
        let row = rows.iter().find(|row| row["url_path"] == "/upload");
        row.is_some_and(|row| row.get("failure").is_some_and(|why| why == "client_slow"))
    });
}

/// A client that reads slowly, but reads, is not ended: a frame within the limit is enough.
#[test]
fn http2_streams_that_move_are_not_ended() {
    let app = backend(|asked| asked.ok(&"x".repeat(300_000)));
    let mut settings = settings(&[app]);
    settings.listeners[0].is_h2c = true;
    settings.limits.client_pause = Duration::from_secs(2);
    let lab = Lab::start(settings);
    let mut client = FrameClient::connect(lab.address, &[(INITIAL_WINDOW_SIZE, 20_000)]);
    client.ask(1, &get("/"), true);
    let mut received = 0;
    loop {
        let frame = client.next().expect("the stream goes on");
        assert_ne!(frame.kind, RST_STREAM, "ended after {received} bytes");
        if frame.kind != DATA {
            continue;
        }
        received += frame.payload.len();
        if frame.is_last {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(20));
        client.open_window(1, u32::try_from(frame.payload.len()).expect("a short frame"));
    }
    assert_eq!(received, 300_000);
}

/// Sends a POST whose body comes in pieces, `pause` apart; returns the answer.
fn drip(address: SocketAddr, pieces: usize, pause: Duration) -> String {
    let mut client = connect(address);
    let head = format!(
        "POST /up HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        4 * pieces
    );
    client.write_all(head.as_bytes()).expect("it is open");
    for _ in 0..pieces {
        std::thread::park_timeout(pause);
        if client.write_all(b"part").is_err() {
            break;
        }
    }
    read_all(&mut client)
}

/// traefik/traefik#12668, litl/galaxy#191, mastodon/mastodon PR 30599: an upload that takes longer than
/// the backend may wait with its answer is no late answer, and no symptom of a stall.
#[test]
fn slow_uploads_are_no_late_answers() {
    let app = || {
        backend(|asked| {
            if asked.head.starts_with("GET") {
                return asked.ok("quick");
            }
            asked.stream.read_exact(&mut [0; 32]).is_ok() && asked.ok("stored")
        })
    };
    let mut settings = settings(&[app(), app()]);
    settings.upstream.answer = Duration::from_secs(1);
    settings.upstream.stall = Duration::from_millis(200);
    settings.upstream.stall_late = Duration::from_millis(400);
    let lab = Lab::start(settings);
    let (address, is_over) = (lab.address, Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&is_over);
    let quick = std::thread::spawn(move || quick_requests(address, &over));
    let uploads: Vec<_> = (0..6)
        .map(|_| std::thread::spawn(move || drip(address, 8, Duration::from_millis(300))))
        .collect();
    for upload in uploads {
        let answer = upload.join().expect("no panic");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("stored"), "{answer}");
    }
    is_over.store(true, Relaxed);
    quick.join().expect("no panic");
    let rows = lab.end("edge_backend");
    assert!(rows.iter().all(|row| row["state"] == "up"), "{rows:#?}");
}

/// envoyproxy/envoy#33289 and #4374: a stream of messages in both directions stays open while one of them
/// has none; the client that is silent there is not slow.
#[test]
fn a_stream_in_both_directions_outlasts_the_silence_of_one() {
    for is_h2 in [true, false] {
        let app = backend(|asked| {
            asked.answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for _ in 0..14 {
                std::thread::park_timeout(Duration::from_millis(250));
                asked.answer("4\r\nnews\r\n");
            }
            asked.answer("0\r\n\r\n");
            false
        });
        let mut settings = settings(&[app]);
        settings.listeners[0].is_h2c = is_h2;
        settings.limits.client_pause = Duration::from_secs(1);
        let lab = Lab::start(settings);
        let body = if is_h2 {
            let mut client = FrameClient::connect(lab.address, &[]);
            let mut post = get("/watch");
            post[0] = (":method", "POST");
            client.ask(1, &post, false);
            client.data(1, b"begin", false);
            let mut body = Vec::new();
            loop {
                let frame = client.next().expect("the connection stays");
                assert!(frame.kind != RST_STREAM || body.len() == 56, "after {} bytes", body.len());
                if frame.kind == DATA {
                    body.extend(frame.payload);
                }
                if frame.is_last || frame.kind == RST_STREAM {
                    break body;
                }
            }
        } else {
            let head = "POST /watch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                        5\r\nbegin\r\n";
            lab.say(head).into_bytes()
        };
        let text = String::from_utf8_lossy(&body);
        assert_eq!(text.matches("news").count(), 14, "{is_h2}: {text}");
        assert_eq!(lab.request().get("failure"), None);
    }
}

/// An edge in front of a backend, and one in front of that edge over HTTP/2.
fn edges_by_h2(app: SocketAddr) -> (Lab, Lab) {
    let mut inner = settings(&[app]);
    inner.listeners[0].is_h2c = true;
    let inner = Lab::start(inner);
    let mut outer = settings(&[]);
    outer.backends =
        vec![BackendSettings::parse(&format!("h2c://{}", inner.address)).expect("an address")];
    (inner, Lab::start(outer))
}

/// golang/go#16510, nghttp2/nghttp2#713, httpwg/http2-spec#784: clients that do not read block no
/// other client's response, though all share one connection to the backend.
#[test]
fn clients_that_do_not_read_leave_others_their_window() {
    let app = backend(|asked| {
        let body = "x".repeat(12 << 20);
        if asked.head.contains("/small") { asked.ok(&body[..100_000]) } else { asked.ok(&body) }
    });
    let (inner, outer) = edges_by_h2(app);
    let idle: Vec<_> = (0..12)
        .map(|_| {
            let mut client = outer.connect();
            client.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
            let mut first = [0; 1000];
            client.read_exact(&mut first).expect("the beginning");
            client
        })
        .collect();
    // Until nothing moves any more.
    let mut sent = 0;
    wait_until("full windows", || {
        std::thread::park_timeout(Duration::from_millis(1100));
        let state = inner.edge.as_ref().expect("it runs").state();
        let before = std::mem::replace(&mut sent, state.listeners[0].sent_bytes);
        sent == before && sent > 1 << 20
    });
    let answer = outer.get("/small");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.len() > 100_000, "{}", answer.len());
    drop(idle);
}

/// Uploads that a backend does not read do not block others.
#[test]
fn uploads_that_are_not_read_leave_others_their_window() {
    let app = backend(|asked| {
        if asked.head.starts_with("POST /stuck") {
            std::thread::park_timeout(PATIENCE);
            return false;
        }
        let mut body = vec![0; 30_000];
        asked.stream.read_exact(&mut body).is_ok() && asked.ok("stored")
    });
    let (_inner, outer) = edges_by_h2(app);
    let address = outer.address;
    let stuck = (0..12).map(|_| {
        std::thread::spawn(move || {
            let mut client = connect(address);
            client.set_write_timeout(Some(Duration::from_secs(1))).expect("a socket");
            let head = b"POST /stuck HTTP/1.1\r\nHost: a\r\nContent-Length: 900000000\r\n\r\n";
            client.write_all(head).expect("it is open");
            // Until nothing moves any more.
            while client.write_all(&[b'x'; 64 << 10]).is_ok() {}
            client
        })
    });
    let stuck: Vec<_> = stuck.collect();
    let stuck: Vec<_> = stuck.into_iter().map(|one| one.join().expect("no panic")).collect();
    let head = "POST /fine HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 30000\r\n";
    let answer = outer.say(&format!("{head}\r\n{}", "x".repeat(30_000)));
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("stored"), "{answer}");
    drop(stuck);
}
