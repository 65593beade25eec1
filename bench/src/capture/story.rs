//! Simulates a story: requests arrive, go to an upstream, and get responses.
//!
//! Arrivals are independent of responses (except in `usl-steps`, a closed loop) and use any idle
//! connection.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::rc::Rc;

use super::connection::{Connection, Passage, PathDelays, PathFaults};
use super::file::Format;
use super::recipe::{Recipe, Story};
use super::truth::RequestRecord;
use super::wire::{Summary, Tap};
use crate::random::{Random, index};

/// 2026-11-20 10:00:00 UTC.
const BEGIN_NS: i64 = 1_795_168_800_000_000_000;
const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const EDGE: u32 = 0x0a09_0001;
const UPSTREAM: u32 = 0x0a09_0002;
/// Idle connections that a request checks.
const LOOK_AT: usize = 64;

const PATHS: &[&str] =
    &["/", "/app/search", "/app/item/1234", "/app/cart", "/static/style.css", "/api/v1/users/77"];

/// A request and its cost.
struct RequestPlan {
    path: &'static str,
    think_ns: i64,
    body_bytes: u32,
}

/// State of a story.
struct StoryPlayer<W, T> {
    recipe: Recipe,
    tap: Tap<W>,
    truth: T,
    random: Random,
    faults: PathFaults,
    way: PathDelays,
    /// Least recently used first; some may still be busy at the next request.
    idle: VecDeque<Connection>,
    idle_upstream: VecDeque<Connection>,
    /// Client ports used so far.
    ports: u32,
    upstream_ports: u32,
}

/// Writes the capture and its true figures.
pub(super) fn play<W: Write, T: Write>(
    recipe: Recipe,
    format: Format,
    capture: W,
    truth: T,
) -> io::Result<Summary> {
    let rtt = match recipe.story {
        Story::LossAfterFar | Story::LossBeforeFar | Story::ClientRace => 40 * MILLI,
        _ => 2 * MILLI,
    };
    let mut play = StoryPlayer {
        recipe,
        tap: Tap::new(capture, format, recipe.seed)?,
        truth,
        random: Random::new(recipe.seed),
        faults: faults(recipe.story),
        way: PathDelays { client_ns: rtt / 2, server_ns: 0 },
        idle: VecDeque::new(),
        idle_upstream: VecDeque::new(),
        ports: 0,
        upstream_ports: 0,
    };
    if recipe.story == Story::UslSteps {
        play.closed_loop()?
    } else {
        play.open_loop()?
    }
    play.truth.flush()?;
    play.tap.finish()
}

fn faults(story: Story) -> PathFaults {
    let calm = PathFaults { probed: 2_000, ..PathFaults::default() };
    match story {
        Story::NetworkHold => {
            PathFaults { held: Some((BEGIN_NS + SECOND, 1200 * MILLI, 2 * SECOND)), ..calm }
        }
        Story::LossAfter | Story::LossAfterFar => PathFaults { lost_after: 10_000, ..calm },
        Story::LossBefore | Story::LossBeforeFar => PathFaults { lost_before: 20_000, ..calm },
        Story::Smooth | Story::Bulk => calm,
        _ => PathFaults::default(),
    }
}

impl<W: Write, T: Write> StoryPlayer<W, T> {
    /// Sends requests at random times, on average `rate` per second.
    fn open_loop(&mut self) -> io::Result<()> {
        let end = BEGIN_NS + i64::from(self.recipe.seconds) * SECOND;
        let mut due = BEGIN_NS;
        loop {
            let wait = -(1.0 - self.random.share()).ln() / f64::from(self.recipe.rate.max(1));
            due += nanos(wait);
            if due >= end {
                return Ok(());
            }
            let sent = self.sent(due);
            // Delayed requests keep their order.
            self.tap.advance(sent.min(due))?;
            self.visit(sent)?;
        }
    }

    /// Runs 1, 2, 4 … clients for three seconds each, which repeat after each response.
    fn closed_loop(&mut self) -> io::Result<()> {
        let levels = 7;
        let span = i64::from(self.recipe.seconds) * SECOND / levels;
        for level in 0..levels {
            let (begin, clients) = (BEGIN_NS + level * span, 1_i64 << level);
            let count = clients as f64;
            let seconds = (1.0 + 0.1 * (count - 1.0) + 0.001 * count * (count - 1.0)) / 100.0;
            let mut next: BinaryHeap<Reverse<i64>> =
                (0..clients).map(|client| Reverse(begin + client * 100_000)).collect();
            while let Some(Reverse(at)) = next.pop().filter(|next| next.0 < begin + span) {
                self.tap.advance(at)?;
                let spread = 0.9 + 0.2 * self.random.share();
                let think_ns = (nanos(seconds * spread) - 3 * MILLI).max(MILLI);
                let free = self
                    .request(at, &RequestPlan { path: "/app/cart", think_ns, body_bytes: 900 })?;
                next.push(Reverse(free));
            }
        }
        Ok(())
    }

    /// When a sender with pauses sends a request that is due.
    fn sent(&mut self, due: i64) -> i64 {
        let since = (due - BEGIN_NS) % (2 * SECOND);
        if self.recipe.story == Story::SenderBursts && since < SECOND {
            // All at once, 50 µs apart.
            return due - since + SECOND + since / 20_000;
        }
        due
    }

    fn visit(&mut self, at: i64) -> io::Result<()> {
        match self.recipe.story {
            Story::Framing => self.framed(at),
            Story::ClientRace if self.random.chance([1, 4]) => self.client_race(at),
            _ => {
                let work = self.work(at);
                self.request(at, &work).map(drop)
            }
        }
    }

    fn work(&mut self, at: i64) -> RequestPlan {
        let path = PATHS[index(self.random.below(PATHS.len() as u64))];
        let quick = nanos(self.random.lognormal([0.008, 0.5])).min(80 * MILLI);
        let since = at - BEGIN_NS;
        let is_slow = self.recipe.story == Story::SlowApp
            && path == "/app/search"
            && since > i64::from(self.recipe.seconds) * SECOND / 2;
        let think_ns = if is_slow { 900 * MILLI } else { quick };
        let body_bytes = match self.recipe.story {
            Story::SlowReader => 400_000,
            Story::Bulk => 1_000,
            _ => 500 + u32::try_from(self.random.below(8_000)).expect("it is small"),
        };
        RequestPlan { path, think_ns, body_bytes }
    }

    /// Takes an idle connection or opens one. Returns it, when it can be used, and the wait of its
    /// SYN.
    fn connection(&mut self, at: i64) -> (Option<Connection>, i64, Option<i64>) {
        let is_once = matches!(
            self.recipe.story,
            Story::Churn | Story::AcceptQueue | Story::AcceptQueueLinear
        );
        let found = if is_once { None } else { take(&mut self.idle, at) };
        if let Some(connection) = found {
            return (Some(connection), at, None);
        }
        let number = self.ports;
        self.ports += 1;
        let port = 1024 + u16::try_from(number % 64_000).expect("a port");
        let client = 0x0a01_0000 + number / 64_000 * 256 + number % 200 + 1;
        let mut connection =
            Connection::new((client, port), (EDGE, 80), self.way, &mut self.random);
        let (deaf_until, backoff): (_, &[i64]) = match self.recipe.story {
            Story::AcceptQueue => (deaf_until(at), &[1, 3, 7, 15]),
            Story::AcceptQueueLinear => (deaf_until(at), &[1, 2, 3, 4, 5, 7, 11]),
            _ => (0, &[]),
        };
        let backoff: Vec<i64> = backoff.iter().map(|seconds| seconds * SECOND).collect();
        match connection.open(&mut self.tap, [at, deaf_until], &backoff) {
            Some(ready) => {
                let wait = ready - at - connection.round_trip_ns();
                (Some(connection), ready, Some(wait))
            }
            None => (None, at, None),
        }
    }

    /// Sends a request over any connection. Returns when the client has the response.
    fn request(&mut self, at: i64, work: &RequestPlan) -> io::Result<i64> {
        let (connection, ready, syn_wait_ns) = self.connection(at);
        let Some(mut connection) = connection else { return Ok(ready) };
        let message = head([work.path, "GET", ""]);
        let asked = connection.ask(&mut self.tap, ready, &message, &self.faults, &mut self.random);
        let (status, done) = self.serve(asked.arrived_ns, work)?;
        let body = if status == 200 { work.body_bytes } else { 150 };
        let answer = answer(status, body);
        let passage = if self.recipe.story == Story::SlowReader {
            connection.answer_slowly(&mut self.tap, done, answer, 250 * MILLI)
        } else {
            connection.answer(&mut self.tap, done, answer, &self.faults, &mut self.random)
        };
        self.note(80, work.path, status, asked, Some(passage), syn_wait_ns)?;
        self.leave(connection, passage.arrived_ns);
        Ok(passage.arrived_ns + 50_000)
    }

    /// Returns a connection to the pool, or closes it.
    fn leave(&mut self, mut connection: Connection, arrived_ns: i64) {
        connection.requests += 1;
        connection.free_ns = arrived_ns + MILLI;
        let is_once = matches!(
            self.recipe.story,
            Story::Churn | Story::AcceptQueue | Story::AcceptQueueLinear
        );
        if is_once || connection.requests >= 1000 {
            connection.close(&mut self.tap, true, connection.free_ns);
        } else {
            self.idle.push_back(connection);
        }
    }

    /// Proxies the request to the upstream. Returns the status and when the response can be sent.
    fn serve(&mut self, at: i64, work: &RequestPlan) -> io::Result<(u16, i64)> {
        let begin = at + 80_000 + i64::try_from(self.random.below(60_000)).expect("it is small");
        if self.recipe.story == Story::Bulk {
            return Ok((200, begin + work.think_ns));
        }
        let (mut connection, ready) = match take(&mut self.idle_upstream, begin) {
            Some(connection) => (connection, begin),
            None => {
                self.upstream_ports += 1;
                let port = 1024 + u16::try_from(self.upstream_ports % 64_000).expect("a port");
                let way = PathDelays { client_ns: 0, server_ns: 150_000 };
                let mut connection =
                    Connection::new((EDGE, port), (UPSTREAM, 8080), way, &mut self.random);
                let ready = connection.open(&mut self.tap, [begin, 0], &[]).unwrap_or(begin);
                (connection, ready)
            }
        };
        let message = head([work.path, "GET", ""]);
        let calm = PathFaults::default();
        let is_race = self.recipe.story == Story::UpstreamRace
            && connection.requests > 0
            && self.random.chance([1, 10]);
        if is_race {
            let (at, known) = connection.race(&mut self.tap, [ready - 100_000, ready], &message);
            let asked = Passage { first_ns: at, last_ns: at, arrived_ns: at };
            self.note(8080, work.path, 0, asked, None, None)?;
            return Ok((502, known + 50_000));
        }
        let asked = connection.ask(&mut self.tap, ready, &message, &calm, &mut self.random);
        let done = asked.arrived_ns + work.think_ns;
        let answer = answer(200, work.body_bytes);
        let passage = connection.answer(&mut self.tap, done, answer, &calm, &mut self.random);
        self.note(8080, work.path, 200, asked, Some(passage), None)?;
        connection.requests += 1;
        connection.free_ns = passage.arrived_ns + MILLI;
        self.idle_upstream.push_back(connection);
        Ok((200, passage.arrived_ns + 60_000))
    }

    /// The edge closes an idle connection while a request is in flight; the client retries on
    /// another.
    fn client_race(&mut self, at: i64) -> io::Result<()> {
        let work = self.work(at);
        let (Some(mut connection), ready, syn_wait_ns) = self.connection(at) else {
            return Ok(());
        };
        if connection.requests == 0 {
            let message = head([work.path, "GET", ""]);
            let asked =
                connection.ask(&mut self.tap, ready, &message, &self.faults, &mut self.random);
            let (status, done) = self.serve(asked.arrived_ns, &work)?;
            let passage = connection.answer(
                &mut self.tap,
                done,
                answer(status, work.body_bytes),
                &self.faults,
                &mut self.random,
            );
            self.note(80, work.path, status, asked, Some(passage), syn_wait_ns)?;
            self.leave(connection, passage.arrived_ns);
            return Ok(());
        }
        let message = head([work.path, "GET", ""]);
        // The FIN is half way to the client when the request leaves.
        let (passed, known) = connection.race(&mut self.tap, [ready, ready + 10 * MILLI], &message);
        let asked = Passage { first_ns: passed, last_ns: passed, arrived_ns: passed };
        self.note(80, work.path, 0, asked, None, None)?;
        self.request(known + MILLI, &work).map(drop)
    }

    /// Sends three pipelined requests, a POST that waits for `100 Continue`, or a request in six
    /// pieces.
    fn framed(&mut self, at: i64) -> io::Result<()> {
        let (Some(mut connection), ready, syn_wait_ns) = self.connection(at) else {
            return Ok(());
        };
        let mut wait = syn_wait_ns;
        let mut free = ready;
        match self.random.below(3) {
            0 => {
                let paths = ["/a/1", "/a/2", "/a/3"];
                let all: String = paths.iter().map(|path| text([path, "GET", ""])).collect();
                let asked = connection.piece(&mut self.tap, true, ready, all.as_bytes());
                let mut done = asked.arrived_ns + 3 * MILLI;
                for path in paths {
                    let answer = answer(200, 700);
                    let calm = PathFaults::default();
                    let passage =
                        connection.answer(&mut self.tap, done, answer, &calm, &mut self.random);
                    self.note(80, path, 200, asked, Some(passage), wait.take())?;
                    done += 2 * MILLI;
                    free = passage.arrived_ns;
                }
            }
            1 => {
                let expecting = "Expect: 100-continue\r\nContent-Length: 3000\r\n";
                let head = text(["/upload", "POST", expecting]);
                let first = connection.piece(&mut self.tap, true, ready, head.as_bytes());
                let proceed = b"HTTP/1.1 100 Continue\r\n\r\n";
                let told =
                    connection.piece(&mut self.tap, false, first.arrived_ns + MILLI, proceed);
                let mut last = told;
                for part in 0..3 {
                    let sent = told.arrived_ns + (part + 1) * MILLI;
                    last = connection.piece(&mut self.tap, true, sent, &[b'y'; 1000]);
                }
                let asked = Passage { first_ns: first.first_ns, ..last };
                free = self.framed_answer(&mut connection, "/upload", asked, wait)?;
            }
            _ => {
                let whole = text(["/slow/typing", "GET", ""]);
                let (mut first, mut last) = (None, Passage::default());
                for (number, piece) in (0..).zip(whole.as_bytes().chunks(whole.len().div_ceil(6))) {
                    let sent = ready + number * 20 * MILLI;
                    last = connection.piece(&mut self.tap, true, sent, piece);
                    first.get_or_insert(last.first_ns);
                }
                let asked = Passage { first_ns: first.unwrap_or(ready), ..last };
                free = self.framed_answer(&mut connection, "/slow/typing", asked, wait)?;
            }
        }
        self.leave(connection, free);
        Ok(())
    }

    fn framed_answer(
        &mut self,
        connection: &mut Connection,
        path: &str,
        asked: Passage,
        wait: Option<i64>,
    ) -> io::Result<i64> {
        let (done, calm) = (asked.arrived_ns + 5 * MILLI, PathFaults::default());
        let passage =
            connection.answer(&mut self.tap, done, answer(200, 700), &calm, &mut self.random);
        self.note(80, path, 200, asked, Some(passage), wait)?;
        Ok(passage.arrived_ns)
    }

    fn note(
        &mut self,
        port: u16,
        path: &str,
        status: u16,
        asked: Passage,
        answered: Option<Passage>,
        syn_wait_ns: Option<i64>,
    ) -> io::Result<()> {
        if port == 80 {
            self.tap.summary.requests += 1;
            self.tap.summary.unanswered += u64::from(answered.is_none());
        } else {
            self.tap.summary.upstream_requests += 1;
        }
        RequestRecord { port, path, status, asked, answered, syn_wait_ns }.write(&mut self.truth)
    }
}

/// Takes a connection that is idle at `at`.
fn take(idle: &mut VecDeque<Connection>, at: i64) -> Option<Connection> {
    let place = idle.iter().take(LOOK_AT).position(|idle| idle.free_ns <= at)?;
    idle.remove(place)
}

/// End of the current overflow: the accept queue is full from second 3 to 7 of every 10.
fn deaf_until(at: i64) -> i64 {
    let since = (at - BEGIN_NS) % (10 * SECOND);
    if (3 * SECOND..7 * SECOND).contains(&since) { at - since + 7 * SECOND } else { 0 }
}

fn nanos(seconds: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "seconds of a capture")]
    let nanos = (seconds * 1e9) as i64;
    nanos
}

fn text([path, method, more]: [&str; 3]) -> String {
    let mut out = String::new();
    let _infallible = write!(
        out,
        "{method} {path} HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: truth/1\r\nAccept: */*\r\n{more}\r\n"
    );
    out
}

fn head(parts: [&str; 3]) -> Rc<[u8]> {
    text(parts).into_bytes().into()
}

/// Head and total length of a response.
fn answer(status: u16, body: u32) -> (Rc<[u8]>, u32) {
    let reason = if status == 200 { "OK" } else { "Bad Gateway" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nServer: truth\r\nContent-Type: text/plain\r\nContent-Length: {body}\r\n\r\n"
    );
    let total = u32::try_from(head.len()).expect("it is small") + body;
    (head.into_bytes().into(), total)
}
