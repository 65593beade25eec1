//! Slow is not stalled: long polls, second tries, and limits that hold in each version of HTTP.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use weir_edge::BackendSettings;

use crate::h2_backends::h2c_to;
use crate::h2_frames::{DATA, FrameClient, HEADERS, INITIAL_WINDOW_SIZE, RST_STREAM, get};
use crate::lab::{
    Lab, PATIENCE, backend, connect, h2c_settings, read_all, read_answer, settings, wait_until,
};

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
    let mut settings = h2c_settings(&[app]);
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
    let mut settings = h2c_settings(&[app]);
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
    let mut settings = h2c_settings(&[app]);
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

/// tempesta-tech/tempesta-test PR 994, expressjs/body-parser#389: a body that comes byte by byte makes
/// no pause, and yet has an end. traefik/traefik#10654, loculus-project/loculus#7147: another one may
/// have more time, and a stream all of it.
#[test]
fn bodies_have_a_time_limit_and_streams_have_none() {
    let app = || {
        backend(|asked| {
            if asked.head.contains("/stream") {
                asked.answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nnews\r\n");
            }
            let is_whole = asked.stream.read_exact(&mut [0; 40]).is_ok();
            match asked.head.contains("/stream") {
                true => asked.answer("0\r\n\r\n"),
                false if is_whole => return asked.ok("stored"),
                false => {}
            }
            false
        })
    };
    let mut settings = settings(&[app()]);
    settings.backends.push(BackendSettings::parse(&format!("big={}", app())).expect("a backend"));
    settings.routes.push(weir_edge::RouteSettings::parse("/big=big").expect("a route"));
    settings.limits.body = Duration::from_millis(500);
    settings.pool_body = vec![("big".into(), Duration::ZERO)];
    settings.upstream.failures = 1;
    let lab = Lab::start(settings);
    for (target, kind, status) in [
        ("/up", "text/plain", "408"),
        ("/big/up", "text/plain", "200"),
        ("/up", "application/grpc", "200"),
        ("/stream", "text/plain", "200"),
    ] {
        let mut client = connect(lab.address);
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {kind}\r\n\
             Content-Length: 40\r\n\r\n"
        );
        client.write_all(head.as_bytes()).expect("it is open");
        for _ in 0..40 {
            std::thread::park_timeout(Duration::from_millis(25));
            if client.write_all(b"x").is_err() {
                break;
            }
        }
        let answer = read_all(&mut client);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {kind}: {answer}");
    }
    let rows = lab.rows("request", 4);
    let failures: Vec<_> = rows.iter().filter_map(|row| row.get("failure")).collect();
    assert_eq!(failures, ["client_slow"], "{rows:#?}");
    let states = lab.end("edge_backend");
    assert!(states.iter().all(|row| row["state"] == "up"), "{states:#?}");
}

/// dotnet/yarp#2062: clients that give up prove nothing, whichever version of HTTP they speak.
#[test]
fn clients_that_leave_put_no_backend_out() {
    for is_h2 in [false, true] {
        let (gate, polls) = (Arc::<Gate>::default(), Arc::<AtomicUsize>::default());
        let mut settings = settings(&[polling(&gate, &polls)]);
        settings.listeners[0].is_h2c = is_h2;
        settings.upstream.failures = 1;
        settings.limits.half_closed = Duration::ZERO;
        let lab = Lab::start(settings);
        let mut h2 = is_h2.then(|| FrameClient::connect(lab.address, &[]));
        for n in 1..=10 {
            let mut plain = connect(lab.address);
            match &mut h2 {
                Some(client) => client.ask(2 * n - 1, &get("/poll"), true),
                None => {
                    plain.write_all(b"GET /poll HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open")
                }
            }
            wait_until("the request", || polls.load(Relaxed) == n as usize);
            if let Some(client) = &mut h2 {
                client.send(RST_STREAM, 0, 2 * n - 1, &8_u32.to_be_bytes());
            }
        }
        drop(h2);
        let rows = lab.rows("request", 10);
        assert!(rows.iter().all(|row| row["failure"] == "client_closed"), "{is_h2}: {rows:#?}");
        gate.open();
        let states = lab.end("edge_backend");
        assert!(states.iter().all(|row| row["state"] == "up"), "{is_h2}: {states:#?}");
    }
}

/// envoyproxy/envoy#25487: what the edge itself refuses is no failure of a backend.
#[test]
fn a_full_queue_puts_no_backend_out() {
    let (gate, polls) = (Arc::<Gate>::default(), Arc::<AtomicUsize>::default());
    let mut settings = settings(&[polling(&gate, &polls)]);
    settings.upstream.failures = 1;
    (settings.upstream.in_flight, settings.upstream.queue) = (1, 0);
    let lab = Lab::start(settings);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| lab.get("/poll"));
        wait_until("the first one", || polls.load(Relaxed) == 1);
        for _ in 0..10 {
            assert!(lab.get("/poll").starts_with("HTTP/1.1 503 "));
        }
        gate.open();
        assert!(first.join().expect("no panic").ends_with("news"));
    });
    assert!(lab.get("/page").ends_with("quick"));
    let states = lab.end("edge_backend");
    assert!(states.iter().all(|row| row["state"] == "up"), "{states:#?}");
}

/// tinfoilsh/confidential-model-router PR 485: a backend that hangs, and clients with less patience than
/// any limit, so that no request ever fails.
#[test]
fn a_backend_that_hangs_is_ejected_though_its_clients_leave() {
    let is_hung = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_hung);
    let hung = backend(move |asked| {
        if flag.load(Relaxed) {
            let _ = asked.stream.read(&mut [0]);
            return false;
        }
        asked.ok("quick")
    });
    let mut settings = settings(&[hung, backend(|asked| asked.ok("quick"))]);
    settings.upstream.stall = Duration::from_millis(200);
    settings.limits.half_closed = Duration::ZERO;
    let lab = Lab::start(settings);
    (0..200).for_each(|_| assert!(lab.get("/page").ends_with("quick")));
    is_hung.store(true, Relaxed);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    let mut client = connect(lab.address);
                    client.set_read_timeout(Some(Duration::from_millis(450))).expect("a socket");
                    client
                        .write_all(b"POST /page HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
                        .expect("it is open");
                    let _ = client.read(&mut [0; 512]);
                }
            });
        }
        wait_until("the ejection", || {
            lab.rows("edge_backend", 1).iter().any(|row| row["state"] == "stalled")
        });
        is_over.store(true, Relaxed);
    });
}

/// An edge in front of a backend, and one in front of that edge over HTTP/2.
fn edges_by_h2(app: SocketAddr) -> (Lab, Lab) {
    let inner = Lab::start(h2c_settings(&[app]));
    let outer = Lab::start(h2c_to(inner.address));
    (inner, outer)
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

/// nginx/nginx-gateway-fabric#5701, openhab/openhab-cloud#623, Soju06/codex-lb#1718, kortix-ai/suna#536:
/// streams that are silent for longer than an answer may take go on, and put no backend out.
#[test]
fn silent_streams_go_on_and_put_no_backend_out() {
    for kind in ["text/event-stream", "application/x-ndjson", "application/grpc+proto"] {
        let gate = Arc::<Gate>::default();
        let own = Arc::clone(&gate);
        let app = backend(move |asked| {
            if asked.head.starts_with("GET /late") {
                own.wait();
                return false;
            }
            asked.answer(&format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\nfirst"));
            own.wait();
            asked.answer("last");
            false
        });
        let mut settings = settings(&[app]);
        settings.upstream.answer = Duration::from_millis(200);
        settings.upstream.stall = Duration::from_secs(60);
        settings.upstream.failures = 3;
        let lab = Lab::start(settings);
        let mut streams: Vec<TcpStream> = (0..4).map(|_| lab.connect()).collect();
        for stream in &mut streams {
            stream.write_all(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n").expect("it reads");
            stream.read_exact(&mut [0; 12]).expect("the stream has begun");
        }
        // After the second of these, the streams have been silent for longer than an answer may take.
        for _ in 0..2 {
            assert!(lab.get("/late").starts_with("HTTP/1.1 504"), "{kind}");
        }
        assert_eq!(lab.edge.as_ref().expect("it runs").state().backends[0].state, "up", "{kind}");
        gate.open();
        for stream in &mut streams {
            let answer = read_all(stream);
            assert!(answer.contains("first") && answer.contains("last"), "{kind}: {answer}");
        }
    }
}
