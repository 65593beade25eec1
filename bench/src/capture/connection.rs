//! A simulated TCP connection: what each side sends, when it passes the tap, and when it arrives.
//!
//! ```text
//!  client ──client_ns──► tap ──server_ns──► server
//! ```
//!
//! The tap is at one of the ends, so one of the two delays is 0. A side's timestamps are its own
//! clock in milliseconds.

use std::io::Write;
use std::rc::Rc;

use super::segment::{Endpoint, Payload, Segment, flag};
use super::wire::Tap;
use crate::random::Random;

/// Payload of a full segment with timestamps.
const FULL: u32 = 1448;
/// Initial congestion window in segments (RFC 6928).
const FIRST_WINDOW: u32 = 10;
/// Delay between receiving a segment and replying.
const REACTION_NS: i64 = 20_000;
/// Spacing of back-to-back segments at 10 Gbit/s.
const SPACING_NS: i64 = 1_200;
/// The smallest retransmission timeout of Linux.
const TIMEOUT_NS: i64 = 200_000_000;

/// One-way delays to the tap, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathDelays {
    pub(super) client_ns: i64,
    pub(super) server_ns: i64,
}

/// Faults of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathFaults {
    /// Data segments of the server lost after the tap, per million.
    pub(super) lost_after: u64,
    /// Data segments of clients lost before the tap, per million.
    pub(super) lost_before: u64,
    /// Messages whose last segment is sent twice although it arrived (tail loss probes), per
    /// million.
    pub(super) probed: u64,
    /// Holds: start of the first, length, and period. Segments pass the tap at the end of a hold.
    pub(super) held: Option<(i64, i64, i64)>,
}

impl PathFaults {
    /// Delays a client's segment that would pass at `at`.
    fn release(self, at: i64) -> i64 {
        match self.held {
            Some((begin, length, period)) if at >= begin => {
                let since = (at - begin) % period;
                if since < length { at - since + length } else { at }
            }
            _ => at,
        }
    }
}

/// Counters of a side.
#[derive(Clone, Copy, Debug)]
struct PeerState {
    next: u32,
    ip_id: u16,
    clock: u32,
    /// The other side's last timestamp.
    heard: u32,
}

/// State of a connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    client: Endpoint,
    server: Endpoint,
    way: PathDelays,
    is_tap_at_server: bool,
    sides: [PeerState; 2],
    /// When the client may send the next request.
    pub(super) free_ns: i64,
    /// Requests so far.
    pub(super) requests: u32,
}

/// When a message passed the tap, and when it arrived completely.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passage {
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
    pub(super) arrived_ns: i64,
}

impl PeerState {
    fn draw(random: &mut Random) -> Self {
        let drawn = random.next().to_le_bytes();
        Self {
            next: u32::from_le_bytes([drawn[0], drawn[1], drawn[2], drawn[3]]),
            ip_id: u16::from_le_bytes([drawn[4], drawn[5]]),
            clock: u32::from(drawn[6]) << 22 | u32::from(drawn[7]) << 3,
            heard: 0,
        }
    }
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

impl Connection {
    pub(super) fn new(
        client: Endpoint,
        server: Endpoint,
        way: PathDelays,
        random: &mut Random,
    ) -> Self {
        let is_tap_at_server = way.server_ns == 0;
        let sides = [(); 2].map(|()| PeerState::draw(random));
        Self { client, server, way, is_tap_at_server, sides, free_ns: 0, requests: 0 }
    }

    /// Time from one end to the other and back.
    pub(super) fn round_trip_ns(&self) -> i64 {
        2 * (self.way.client_ns + self.way.server_ns)
    }

    fn one_way_ns(&self) -> i64 {
        self.way.client_ns + self.way.server_ns
    }

    fn to_tap_ns(&self, from: usize) -> i64 {
        if from == CLIENT { self.way.client_ns } else { self.way.server_ns }
    }

    /// Creates a segment of `from`, sent at `sent_ns`, with the current counters.
    fn segment(&mut self, from: usize, sent_ns: i64, flags: u8) -> Segment {
        let other = self.sides[1 - from];
        let own = &mut self.sides[from];
        own.ip_id = own.ip_id.wrapping_add(1);
        let millis = u32::try_from(sent_ns / 1_000_000 % (1 << 32)).expect("32 bits");
        let ack = if flags & flag::ACK == 0 { 0 } else { other.next };
        let segment = Segment {
            at_ns: sent_ns,
            order: 0,
            is_from_client: from == CLIENT,
            client: self.client,
            server: self.server,
            is_tap_at_server: self.is_tap_at_server,
            seq: own.next,
            ack,
            flags,
            window: 502,
            ts_value: own.clock.wrapping_add(millis),
            ts_echo: own.heard,
            sack: None,
            ip_id: own.ip_id,
            payload: Payload::default(),
        };
        let value = segment.ts_value;
        self.sides[1 - from].heard = value;
        segment
    }

    /// Puts a segment on the wire and returns when it passes the tap.
    fn pass<W: Write>(&self, tap: &mut Tap<W>, mut segment: Segment, faults: &PathFaults) -> i64 {
        let from = if segment.is_from_client { CLIENT } else { SERVER };
        segment.at_ns += self.to_tap_ns(from);
        if from == CLIENT {
            segment.at_ns = faults.release(segment.at_ns);
        }
        let at = segment.at_ns;
        tap.push(segment);
        at
    }

    /// Runs the handshake from `at_ns`. A server with a full accept queue until `deaf_until_ns`
    /// drops SYNs, which the client repeats after `backoff_ns`. Returns when the client may send.
    pub(super) fn open<W: Write>(
        &mut self,
        tap: &mut Tap<W>,
        [at_ns, deaf_until_ns]: [i64; 2],
        backoff_ns: &[i64],
    ) -> Option<i64> {
        let calm = PathFaults::default();
        let first = self.segment(CLIENT, at_ns, flag::SYN);
        let mut sent = at_ns;
        self.pass(tap, first.clone(), &calm);
        let mut waits = backoff_ns.iter();
        while sent + self.one_way_ns() < deaf_until_ns {
            sent = at_ns + waits.next()?;
            let again = self.segment(CLIENT, sent, flag::SYN);
            self.pass(tap, again, &calm);
            tap.summary.syn_retries += 1;
        }
        tap.summary.connections += u64::from(self.is_tap_at_server);
        self.sides[CLIENT].next = self.sides[CLIENT].next.wrapping_add(1);
        let answered = sent + self.one_way_ns() + REACTION_NS;
        let answer = self.segment(SERVER, answered, flag::SYN | flag::ACK);
        self.pass(tap, answer, &calm);
        self.sides[SERVER].next = self.sides[SERVER].next.wrapping_add(1);
        let ready = answered + self.one_way_ns() + REACTION_NS;
        let last = self.segment(CLIENT, ready, flag::ACK);
        self.pass(tap, last, &calm);
        Some(ready + SPACING_NS)
    }

    /// Sends a request in one segment. It may be lost before the tap, or held until it is
    /// retransmitted.
    pub(super) fn ask<W: Write>(
        &mut self,
        tap: &mut Tap<W>,
        sent_ns: i64,
        message: &Rc<[u8]>,
        faults: &PathFaults,
        random: &mut Random,
    ) -> Passage {
        let timeout = TIMEOUT_NS + self.round_trip_ns();
        let length = u32::try_from(message.len()).expect("requests are small");
        let part = Payload { head: Rc::clone(message), offset: 0, length };
        let mut sent = sent_ns;
        let mut segment = self.data(CLIENT, sent, part.clone());
        if random.chance([faults.lost_before, 1_000_000]) {
            tap.summary.lost_before += 1;
            sent += timeout;
            segment = self.data(CLIENT, sent, part.clone());
        }
        let sequence = segment.seq;
        let first_ns = self.pass(tap, segment, faults);
        if first_ns > sent + self.to_tap_ns(CLIENT) + timeout {
            let mut again = self.data(CLIENT, sent + timeout, part);
            again.seq = sequence;
            let second_ns = self.pass(tap, again, faults);
            tap.summary.retransmits += 1;
            tap.summary.spurious += 1;
            self.sides[CLIENT].next = sequence.wrapping_add(length);
            let mut doubled = self.segment(SERVER, second_ns + REACTION_NS, flag::ACK);
            doubled.sack = Some((sequence, sequence.wrapping_add(length)));
            self.pass(tap, doubled, &PathFaults::default());
        } else {
            self.sides[CLIENT].next = sequence.wrapping_add(length);
            let received =
                self.segment(SERVER, first_ns + self.way.server_ns + REACTION_NS, flag::ACK);
            self.pass(tap, received, &PathFaults::default());
        }
        let arrived_ns = first_ns + self.way.server_ns;
        Passage { first_ns, last_ns: first_ns, arrived_ns }
    }

    fn data(&mut self, from: usize, sent_ns: i64, part: Payload) -> Segment {
        let mut segment = self.segment(from, sent_ns, flag::PSH | flag::ACK);
        segment.payload = part;
        segment
    }

    /// Sends a piece of a message in a separate segment.
    pub(super) fn piece<W: Write>(
        &mut self,
        tap: &mut Tap<W>,
        from_client: bool,
        sent_ns: i64,
        bytes: &[u8],
    ) -> Passage {
        let from = if from_client { CLIENT } else { SERVER };
        let length = u32::try_from(bytes.len()).expect("pieces are small");
        let segment = self.data(from, sent_ns, Payload { head: bytes.into(), offset: 0, length });
        self.sides[from].next = self.sides[from].next.wrapping_add(length);
        let at = self.pass(tap, segment, &PathFaults::default());
        let arrived_ns = sent_ns + self.one_way_ns();
        let received = self.segment(1 - from, arrived_ns + REACTION_NS, flag::ACK);
        self.pass(tap, received, &PathFaults::default());
        Passage { first_ns: at, last_ns: at, arrived_ns }
    }

    /// Sends a response of `total` bytes that starts with `head`, in slow start.
    pub(super) fn answer<W: Write>(
        &mut self,
        tap: &mut Tap<W>,
        sent_ns: i64,
        (head, total): (Rc<[u8]>, u32),
        faults: &PathFaults,
        random: &mut Random,
    ) -> Passage {
        let base = self.sides[SERVER].next;
        let (mut offset, mut round, mut sent) = (0, FIRST_WINDOW, sent_ns);
        let mut passage = Passage { first_ns: sent_ns + self.way.server_ns, ..Passage::default() };
        while offset < total {
            let round_end = total.min(offset.saturating_add(round * FULL));
            while offset < round_end {
                let length = FULL.min(round_end - offset);
                let part = Payload { head: Rc::clone(&head), offset, length };
                let segment = self.data(SERVER, sent, part.clone());
                let is_last = offset + length == total;
                let lost = random.chance([faults.lost_after, 1_000_000]);
                let probed = is_last && random.chance([faults.probed, 1_000_000]);
                passage.last_ns = self.pass(tap, segment.clone(), faults);
                let mut arrived = sent + self.one_way_ns();
                if lost || probed {
                    let wait = if lost && is_last { TIMEOUT_NS } else { 2_000_000 };
                    sent += self.round_trip_ns() + wait;
                    self.resend(tap, segment, sent, !lost);
                    arrived = if lost { sent + self.one_way_ns() } else { arrived };
                }
                passage.arrived_ns = passage.arrived_ns.max(arrived);
                offset += length;
                self.sides[SERVER].next = base.wrapping_add(offset);
                sent += SPACING_NS;
                let is_acknowledged = is_last || (offset / FULL).is_multiple_of(2) || lost;
                if is_acknowledged {
                    let received = sent + self.one_way_ns() + REACTION_NS;
                    let ack = self.segment(CLIENT, received, flag::ACK);
                    self.pass(tap, ack, faults);
                }
            }
            if offset < total {
                sent += self.round_trip_ns() + 2 * REACTION_NS;
                round = (round * 2).min(512);
            }
        }
        passage
    }

    /// Retransmits a segment; the receiver reports a spurious one by DSACK.
    fn resend<W: Write>(
        &mut self,
        tap: &mut Tap<W>,
        lost: Segment,
        sent_ns: i64,
        is_spurious: bool,
    ) {
        let end = lost.seq.wrapping_add(lost.payload.length);
        let again = Segment { seq: lost.seq, ..self.data(SERVER, sent_ns, lost.payload.clone()) };
        tap.summary.retransmits += 1;
        self.pass(tap, again, &PathFaults::default());
        if is_spurious {
            tap.summary.spurious += 1;
            self.sides[SERVER].next = end;
            let mut doubled =
                self.segment(CLIENT, sent_ns + self.one_way_ns() + REACTION_NS, flag::ACK);
            doubled.sack = Some((lost.seq, end));
            self.pass(tap, doubled, &PathFaults::default());
        }
    }

    /// Sends a response to a client that reads in portions: its window closes after each.
    pub(super) fn answer_slowly<W: Write>(
        &mut self,
        tap: &mut Tap<W>,
        sent_ns: i64,
        (head, total): (Rc<[u8]>, u32),
        pause_ns: i64,
    ) -> Passage {
        let calm = PathFaults::default();
        let (mut offset, mut sent) = (0, sent_ns);
        let mut passage = Passage { first_ns: sent_ns + self.way.server_ns, ..Passage::default() };
        while offset < total {
            let end = total.min(offset + 44 * FULL);
            while offset < end {
                let length = FULL.min(end - offset);
                let segment =
                    self.data(SERVER, sent, Payload { head: Rc::clone(&head), offset, length });
                passage.last_ns = self.pass(tap, segment, &calm);
                passage.arrived_ns = sent + self.one_way_ns();
                offset += length;
                self.sides[SERVER].next = self.sides[SERVER].next.wrapping_add(length);
                sent += SPACING_NS;
            }
            let received = passage.arrived_ns + REACTION_NS;
            let mut full = self.segment(CLIENT, received, flag::ACK);
            if offset < total {
                full.window = 0;
                tap.summary.zero_windows += 1;
            }
            self.pass(tap, full, &calm);
            if offset < total {
                let open = self.segment(CLIENT, received + pause_ns, flag::ACK);
                self.pass(tap, open, &calm);
                sent = received + pause_ns + self.one_way_ns() + REACTION_NS;
            }
        }
        passage
    }

    /// Closes the connection, from one side at `sent_ns`.
    pub(super) fn close<W: Write>(&mut self, tap: &mut Tap<W>, by_client: bool, sent_ns: i64) {
        let calm = PathFaults::default();
        let (first, second) = if by_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let segment = self.segment(first, sent_ns, flag::FIN | flag::ACK);
        self.pass(tap, segment, &calm);
        self.sides[first].next = self.sides[first].next.wrapping_add(1);
        let answered = sent_ns + self.one_way_ns() + REACTION_NS;
        let segment = self.segment(second, answered, flag::FIN | flag::ACK);
        self.pass(tap, segment, &calm);
        self.sides[second].next = self.sides[second].next.wrapping_add(1);
        let segment = self.segment(first, answered + self.one_way_ns() + REACTION_NS, flag::ACK);
        self.pass(tap, segment, &calm);
    }

    /// The server closes an idle connection at `closed_ns` and resets a request in flight. Returns
    /// when the request passed, and when the reset arrived.
    pub(super) fn race<W: Write>(
        &mut self,
        tap: &mut Tap<W>,
        [closed_ns, asked_ns]: [i64; 2],
        message: &Rc<[u8]>,
    ) -> (i64, i64) {
        let calm = PathFaults::default();
        let fin = self.segment(SERVER, closed_ns, flag::FIN | flag::ACK);
        self.pass(tap, fin, &calm);
        let length = u32::try_from(message.len()).expect("requests are small");
        let part = Payload { head: Rc::clone(message), offset: 0, length };
        // The FIN has not reached the client yet.
        let request = self.data(CLIENT, asked_ns, part);
        let at = self.pass(tap, request, &calm);
        self.sides[SERVER].next = self.sides[SERVER].next.wrapping_add(1);
        let reset_ns = asked_ns + self.one_way_ns() + REACTION_NS;
        let reset = self.segment(SERVER, reset_ns, flag::RST);
        self.pass(tap, reset, &calm);
        tap.summary.resets += 1;
        (at, reset_ns + self.one_way_ns())
    }
}
