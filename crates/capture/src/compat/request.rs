//! Stage 1: lines of `tcpdump -tttt`, or packets, to requests: `id start end elapsed client`.
//!
//! One request at a time per client address and port; any segment with data counts, retransmits
//! included:
//!
//! ```text
//!              to the watched port              to the client
//!  (none) ──────────────────────────► asking ──────────────────► answered
//!                     ▲   │ ts = now           end = end1 = now     │  │ end1 = now
//!                     │   └──┘                                      └──┘
//!                     └───────── printed, and a new one begins ────────┘
//! ```
//!
//! At the end, answered requests are printed and unanswered ones dropped. The old tool printed the
//! rest in hash order, which differed from run to run; here it is ordered by id.

use hashbrown::HashMap;
use rustc_hash::FxSeededState;

use super::CompatError;
use super::line::{self, TcpdumpLine};
use super::number::{self, FixedFormat, SIX_DECIMALS};
use crate::packet::Packet;
use crate::text::{LocalMinute, MINUTE, Zone};

/// Sessions kept at once, one per client address and port: about 3 GiB. The old tool was limited by
/// memory only.
pub const SESSIONS_MAX: usize = 16 << 20;

/// Packets sampled to find the busiest port, which is named when the watched port has none.
const PORTS_FROM_PACKETS: u64 = 10_000;

/// Timestamp that begins a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartStamp {
    /// `ts0`: its first packet.
    First,
    /// `ts`: its last packet.
    #[default]
    Last,
}

/// Timestamp that ends a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndStamp {
    /// `end`: the first packet of the response.
    #[default]
    First,
    /// `end1`: the last packet of the response.
    Last,
}

/// Port and timestamps to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestOptions {
    /// The server's port as in the text: a number, or a name when tcpdump ran without `-nn`.
    pub port: String,
    /// Timestamp that begins a request.
    pub start: StartStamp,
    /// Timestamp that ends a request.
    pub end: EndStamp,
}

/// Counts of the input; the old tool skips the same lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Lines of text, or packets of a capture.
    pub seen: u64,
    /// Lines or packets that count.
    pub counted: u64,
    /// Requests printed.
    pub requests: u64,
    /// Requests without a response at the end, which are not printed.
    pub unanswered: u64,
    /// IPv6 packets, which the old tool could not read.
    pub ipv6: u64,
    /// Lines with interface and direction: `-i any` of tcpdump 4.99 and later.
    pub with_interface: u64,
    /// Lines without a date: tcpdump ran without `-tttt`.
    pub undated: u64,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    id: u64,
    first_asked: f64,
    last_asked: f64,
    answered: Option<(f64, f64)>,
}

/// Stage 1.
pub struct RequestExtractor {
    options: RequestOptions,
    zone: Zone,
    sessions: HashMap<Box<[u8]>, Session, FxSeededState>,
    next_id: u64,
    counts: RequestCounts,
    /// Last minute converted, with its result.
    minute: ([u8; MINUTE], Option<i64>),
    ports: HashMap<Vec<u8>, u32, FxSeededState>,
}

impl RequestExtractor {
    /// Creates an empty extractor. `seed` seeds the session table's hash; results do not depend on
    /// it.
    pub fn new(options: RequestOptions, zone: Zone, seed: usize) -> Self {
        let hash = FxSeededState::with_seed(seed);
        Self {
            options,
            zone,
            sessions: HashMap::with_hasher(hash.clone()),
            next_id: 0,
            counts: RequestCounts::default(),
            minute: ([0; MINUTE], None),
            ports: HashMap::with_hasher(hash),
        }
    }

    /// Processes one line without its line end; appends completed requests to `out`.
    ///
    /// # Errors
    /// When there are too many client ports.
    pub fn line(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), CompatError> {
        self.counts.seen += 1;
        let Some(line) = line::read(text) else {
            self.passed_over(text);
            return Ok(());
        };
        match self.time(&line) {
            Some(at) => self.segment(at, [line.from, line.to], out),
            None => Ok(()),
        }
    }

    /// Processes one packet of a capture. Counts what the old tool's capture filter
    /// passed: IPv4 with data.
    ///
    /// # Errors
    /// When there are too many client ports.
    pub fn packet(&mut self, packet: &Packet<'_>, out: &mut Vec<u8>) -> Result<(), CompatError> {
        self.counts.seen += 1;
        let (from, to) = (packet.from.ip(), packet.to.ip());
        if from.is_ipv6() || to.is_ipv6() {
            self.counts.ipv6 += 1;
            return Ok(());
        }
        if packet.payload_length == 0 {
            return Ok(());
        }
        let at = packet.ts_ns.div_euclid(1000) as f64 / 1e6;
        let from = format!("{from}.{}", packet.from.port);
        let to = format!("{to}.{}", packet.to.port);
        self.segment(at, [from.as_bytes(), to.as_bytes()], out)
    }

    /// Ends the input: prints answered requests by id and returns the counts.
    pub fn finish(mut self, out: &mut Vec<u8>) -> RequestCounts {
        let mut rest: Vec<(Box<[u8]>, Session)> = self.sessions.drain().collect();
        rest.sort_unstable_by_key(|(_, session)| session.id);
        for (client, session) in &rest {
            match session.answered {
                Some(_) => print(&self.options, client, session, out),
                None => self.counts.unanswered += 1,
            }
        }
        self.counts.requests += rest.len() as u64 - self.counts.unanswered;
        self.counts
    }

    /// The port that most of the first packets went to.
    pub fn busiest_port(&self) -> Option<String> {
        let most =
            self.ports.iter().max_by_key(|(port, count)| (**count, std::cmp::Reverse(*port)));
        most.map(|(port, _)| String::from_utf8_lossy(port).into_owned())
    }

    fn passed_over(&mut self, text: &[u8]) {
        let head = &text[..text.len().min(64)];
        if memchr::memmem::find(head, b" IP6 ").is_some() {
            self.counts.ipv6 += 1;
        } else if memchr::memmem::find(head, b" IP ").is_some() {
            let is_dated = text.get(4) == Some(&b'-');
            self.counts.with_interface += u64::from(is_dated);
            self.counts.undated += u64::from(!is_dated);
        }
    }

    fn time(&mut self, line: &TcpdumpLine<'_>) -> Option<f64> {
        if self.minute.0 != *line.minute {
            self.minute = (*line.minute, (self.zone)(LocalMinute::of(line.minute)));
        }
        let whole = self.minute.1? + i64::try_from(line.seconds).ok()?;
        let is_exact = line.digits == 6 && (0..1 << 32).contains(&whole);
        if is_exact {
            // Both numbers are exact, so this is the double that parsing the decimal text gives.
            return Some((whole * 1_000_000 + i64::try_from(line.fraction).ok()?) as f64 / 1e6);
        }
        number::parse(
            format!("{whole}.{:0digits$}", line.fraction, digits = line.digits).as_bytes(),
        )
    }

    fn segment(
        &mut self,
        at: f64,
        [from, to]: [&[u8]; 2],
        out: &mut Vec<u8>,
    ) -> Result<(), CompatError> {
        self.counts.counted += 1;
        let port = line::port(to);
        if self.counts.counted <= PORTS_FROM_PACKETS {
            *self.ports.entry_ref(port).or_insert(0) += 1;
        }
        if port == self.options.port.as_bytes() {
            return self.asked(at, from, out);
        }
        if let Some(session) = self.sessions.get_mut(to) {
            let first = session.answered.map_or(at, |(first, _)| first);
            session.answered = Some((first, at));
        }
        Ok(())
    }

    fn asked(&mut self, at: f64, client: &[u8], out: &mut Vec<u8>) -> Result<(), CompatError> {
        let begun = Session { id: self.next_id, first_asked: at, last_asked: at, answered: None };
        let is_full = self.sessions.len() >= SESSIONS_MAX;
        match self.sessions.get_mut(client) {
            Some(session) if session.answered.is_none() => {
                session.last_asked = at;
                return Ok(());
            }
            Some(session) => {
                print(&self.options, client, session, out);
                self.counts.requests += 1;
                *session = begun;
            }
            None if is_full => return Err(CompatError::TooManySessions),
            None => {
                self.sessions.insert(client.into(), begun);
            }
        }
        self.next_id += 1;
        Ok(())
    }
}

/// `%6d %.6f %.6f %9.6f ip:port`.
fn print(options: &RequestOptions, client: &[u8], session: &Session, out: &mut Vec<u8>) {
    let Some((first, last)) = session.answered else { return };
    let start = match options.start {
        StartStamp::First => session.first_asked,
        StartStamp::Last => session.last_asked,
    };
    let end = match options.end {
        EndStamp::First => first,
        EndStamp::Last => last,
    };
    let id = session.id.to_string();
    out.resize(out.len() + 6_usize.saturating_sub(id.len()), b' ');
    out.extend_from_slice(id.as_bytes());
    out.push(b' ');
    number::push_fixed(out, start, SIX_DECIMALS);
    out.push(b' ');
    number::push_fixed(out, end, SIX_DECIMALS);
    out.push(b' ');
    number::push_fixed(out, end - start, FixedFormat { width: 9, decimals: 6 });
    out.push(b' ');
    let port = line::port(client);
    let address = &client[..client.len() - port.len()];
    match address.split_last() {
        Some((_dot, address)) => {
            out.extend_from_slice(address);
            out.push(b':');
            out.extend_from_slice(port);
        }
        None => out.extend_from_slice(client),
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// UTC; only April 2011, where day 1 began at 1301616000.
    fn utc() -> Zone {
        Box::new(|minute| {
            let is_known = minute.year == 2011 && minute.month == 4;
            let (day, hour, minute) = (minute.day, minute.hour, minute.minute);
            is_known.then(|| {
                1_301_616_000
                    + (i64::from(day) - 1) * 86_400
                    + i64::from(hour) * 3600
                    + i64::from(minute) * 60
            })
        })
    }

    /// Each line between bars, since `expect` strips leading blanks.
    fn barred(text: &str) -> String {
        text.lines().map(|line| format!("|{line}|\n")).collect()
    }

    fn run(text: &str, start: StartStamp, end: EndStamp) -> (String, RequestCounts) {
        let options = RequestOptions { port: "3306".to_owned(), start, end };
        let mut requests = RequestExtractor::new(options, utc(), 1);
        let mut out = Vec::new();
        for line in text.lines() {
            requests.line(line.as_bytes(), &mut out).expect("few sessions");
        }
        let counts = requests.finish(&mut out);
        (barred(std::str::from_utf8(&out).expect("text")), counts)
    }

    #[track_caller]
    fn check(text: &str, expect: Expect) {
        expect.assert_eq(&run(text, StartStamp::Last, EndStamp::First).0);
    }

    /// A client that sends a request in two packets, receives a response in two, then sends
    /// another.
    const TWO: &str = "\
2011-04-04 22:57:43.820001 IP 127.0.0.1.56737 > 127.0.0.1.3306: tcp 40
2011-04-04 22:57:43.820101 IP 127.0.0.1.56737 > 127.0.0.1.3306: tcp 40
2011-04-04 22:57:43.820169 IP 127.0.0.1.3306 > 127.0.0.1.56737: tcp 11
2011-04-04 22:57:43.821000 IP 127.0.0.1.3306 > 127.0.0.1.56737: tcp 11
2011-04-04 22:57:44.000000 IP 127.0.0.1.56737 > 127.0.0.1.3306: tcp 40
2011-04-04 22:57:44.000250 IP 127.0.0.1.3306 > 127.0.0.1.56737: tcp 40
";

    #[test]
    fn a_request_is_from_its_last_packet_to_the_first_of_the_answer() {
        check(
            TWO,
            expect![[r#"
                |     0 1301957863.820101 1301957863.820169  0.000068 127.0.0.1:56737|
                |     1 1301957864.000000 1301957864.000250  0.000250 127.0.0.1:56737|
            "#]],
        );
    }

    #[test]
    fn the_stamps_can_be_chosen() {
        let (text, counts) = run(TWO, StartStamp::First, EndStamp::Last);
        expect![[r#"
            |     0 1301957863.820001 1301957863.821000  0.000999 127.0.0.1:56737|
            |     1 1301957864.000000 1301957864.000250  0.000250 127.0.0.1:56737|
        "#]]
        .assert_eq(&text);
        assert_eq!(
            counts,
            RequestCounts { seen: 6, counted: 6, requests: 2, ..RequestCounts::default() }
        );
    }

    #[test]
    fn the_server_is_a_port_and_the_rest_is_printed_by_id() {
        check(
            "\
2011-04-04 22:57:43.000001 IP 10.0.0.1.1000 > 10.0.0.9.3306: tcp 40
2011-04-04 22:57:43.000002 IP 10.0.0.2.1000 > 10.0.0.8.3306: tcp 40
2011-04-04 22:57:43.000003 IP 10.0.0.3.1000 > 10.0.0.8.3306: tcp 40
2011-04-04 22:57:43.000010 IP 10.0.0.8.3306 > 10.0.0.2.1000: tcp 40
2011-04-04 22:57:43.000020 IP 10.0.0.7.3306 > 10.0.0.1.1000: tcp 40
2011-04-04 22:57:43.000030 IP 10.0.0.7.3306 > 10.0.0.5.1000: tcp 40
",
            expect![[r#"
                |     0 1301957863.000001 1301957863.000020  0.000019 10.0.0.1:1000|
                |     1 1301957863.000002 1301957863.000010  0.000008 10.0.0.2:1000|
            "#]],
        );
    }

    #[test]
    fn what_the_old_tool_could_not_read_is_counted() {
        let (text, counts) = run(
            "\
2011-04-04 22:57:43.000001 IP6 ::1.1000 > ::1.3306: tcp 40
2011-04-04 22:57:43.000001 lo    In  IP 127.0.0.1.1000 > 127.0.0.1.3306: tcp 40
22:57:43.000001 IP 127.0.0.1.1000 > 127.0.0.1.3306: tcp 40
2011-13-01 22:57:43.000001 IP 127.0.0.1.1000 > 127.0.0.1.3306: tcp 40
listening on lo, link-type EN10MB (Ethernet)
2011-04-04 22:57:43.000009 IP 127.0.0.1.7 > 127.0.0.1.3306: tcp 40
",
            StartStamp::Last,
            EndStamp::First,
        );
        assert_eq!(text, "");
        let expected = RequestCounts {
            seen: 6,
            counted: 1,
            unanswered: 1,
            ipv6: 1,
            with_interface: 1,
            undated: 1,
            ..RequestCounts::default()
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn the_busiest_port_is_known() {
        let options =
            RequestOptions { port: "1".to_owned(), start: StartStamp::Last, end: EndStamp::First };
        let mut requests = RequestExtractor::new(options, utc(), 1);
        assert_eq!(requests.busiest_port(), None);
        let mut out = Vec::new();
        for line in TWO.lines() {
            requests.line(line.as_bytes(), &mut out).expect("few sessions");
        }
        assert_eq!(requests.busiest_port().as_deref(), Some("3306"));
    }
}
