//! One direction of a connection: its bytes in order, and what TCP reveals about losses.
//!
//! ```text
//!            next                     held
//!  delivered  |  hole (not yet seen)  [####]  hole  [##]
//! ```
//! A hole is either filled (the segment was reordered, or lost *before* the tap and retransmitted),
//! or acknowledged by the receiver although the tap never saw it (lost by the *tap*). A segment
//! that arrives twice was copied by the capture (`model/copies.rs`) or sent twice: lost *behind* the
//! tap, or spuriously retransmitted, which the receiver reports by DSACK (RFC 2883).
//!
//! Example: bytes 0–99 and 200–299 arrive, so 200–299 are held. If 100–199 arrive next, all are
//! delivered in order (`Filled`). If instead the peer acknowledges 300, the tap lost 100–199: a gap
//! is delivered, then 200–299.

use std::collections::VecDeque;

use crate::http::Framer;
use crate::partial_head::PartialHead;
use weir_capture::SequenceNumber;
use weir_capture::packet::Packet;

#[derive(Debug, Default)]
pub(crate) struct HalfConnection {
    timed_ts: i64,
    /// Time of the last new payload.
    pub(crate) last_data_ts: i64,
    pub(crate) bytes: u64,
    pub(crate) framer: Framer,
    /// Start of an incomplete head.
    pub(crate) partial: Option<Box<PartialHead>>,
    /// State that most connections never need.
    rare: Option<Box<RareState>>,
    pub(crate) next: u32,
    /// Highest acknowledgement of the peer.
    acked: u32,
    timed_end: u32,
    /// Minimum time from data to its acknowledgement, µs; `u32::MAX` when not measured.
    pub(crate) rtt_us: u32,
    pub(crate) packets: u32,
    pub(crate) id: IdCounter,
    flags: u8,
}

/// Rarely needed state of one direction.
#[derive(Debug, Default)]
struct RareState {
    held: Option<HeldSegments>,
    troubles: TroubleCounters,
}

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct TroubleCounters {
    /// Since when this side's receive window is zero; 0 when it is open.
    pub(crate) shut_since: i64,
    /// Time with a zero receive window, µs.
    pub(crate) shut_us: u32,
    pub(crate) shut_count: u16,
    pub(crate) retransmits: u32,
    pub(crate) dsacks: u32,
    /// When the last one came, and the end of its block.
    last_dsack: (i64, u32),
    pub(crate) filled: u32,
}

/// IPv4 identifications: Linux increments them by one per packet and connection, so a step of two
/// is a packet that the tap has not seen, and a repeated one is a copy made by the capture.
///
/// Packed, since two of them are in each connection.
#[derive(Debug, Default, Clone, Copy)]
#[repr(Rust, packed(2))]
pub(crate) struct IdCounter {
    pub(crate) steps: u32,
    pub(crate) by_one: u32,
    pub(crate) missing: u32,
    /// Which of the last 32 were seen; bit 0 is `last`.
    seen: u32,
    last: u16,
}

const HAS_NEXT: u8 = 1;
const HAS_ACKED: u8 = 2;
const HAS_ID: u8 = 4;
const FIN: u8 = 8;
/// The last packet was several merged segments, each of which took an identification.
const MANY: u8 = 16;
/// The SYN carried payload (TCP Fast Open), which the peer may refuse.
const SYN_DATA: u8 = 32;
/// The peer's last acknowledgement reported a hole (SACK).
const HOLE: u8 = 64;

/// How far back an identification is still one of this connection's.
const IDS_BACK_MAX: u16 = 4096;

/// Segments of one direction held behind a hole.
const HELD_MAX: usize = 64;
/// A larger hole than any window is no hole: the sender changed.
const HOLE_MAX: u32 = 1 << 30;

#[derive(Debug, Default)]
struct HeldSegments {
    since_ts: i64,
    segments: VecDeque<Segment>,
}

#[derive(Debug)]
struct Segment {
    ts: i64,
    seq: u32,
    length: u32,
    bytes: Box<[u8]>,
}

/// The next in-order piece of what was held.
#[derive(Debug)]
pub(crate) enum OrderedChunk {
    /// Bytes: `length` on the wire, of which `bytes` were captured.
    Bytes { ts: i64, bytes: Box<[u8]>, overlap: u32, length: u32 },
    /// Bytes missed by the tap.
    Gap { length: u32 },
}

/// How to process a segment: skip a gap, then deliver its payload from `overlap` on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveOutcome {
    pub(crate) arrival: SegmentArrival,
    pub(crate) gap: u32,
    pub(crate) overlap: u32,
    /// 0 when none of it is in order and new.
    pub(crate) length: u32,
}

impl ReceiveOutcome {
    fn nothing(arrival: SegmentArrival) -> Self {
        Self { arrival, gap: 0, overlap: 0, length: 0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentArrival {
    New,
    Again,
    /// Keep-alive probe: one byte before the expected one.
    KeepAlive,
    Ahead,
    /// Fills a hole this many nanoseconds after it appeared.
    Filled(i64),
}

impl HalfConnection {
    /// A direction that has not sent anything.
    pub(crate) fn new() -> Self {
        Self { rtt_us: u32::MAX, ..Self::default() }
    }

    pub(crate) fn open(&mut self, isn: u32) {
        self.next = isn.wrapping_add(1);
        self.flags |= HAS_NEXT;
    }

    #[inline]
    pub(crate) fn troubles(&self) -> TroubleCounters {
        self.rare.as_ref().map_or_else(TroubleCounters::default, |rare| rare.troubles)
    }

    /// Counters of problems, allocated on first use.
    pub(crate) fn troubles_mut(&mut self) -> &mut TroubleCounters {
        &mut self.rare.get_or_insert_default().troubles
    }

    /// Since when its receive window is zero; 0 when it is open.
    #[inline]
    pub(crate) fn shut_since(&self) -> i64 {
        self.rare.as_ref().map_or(0, |rare| rare.troubles.shut_since)
    }

    #[inline]
    fn held(&self) -> Option<&HeldSegments> {
        self.rare.as_ref()?.held.as_ref()
    }

    #[inline]
    fn drop_held(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.held = None;
        }
    }

    pub(crate) fn close(&mut self) {
        self.flags |= FIN;
    }

    pub(crate) fn has_closed(&self) -> bool {
        self.flags & FIN != 0
    }

    /// Learns the position from a packet without payload, if still unknown.
    pub(crate) fn start(&mut self, seq: u32) {
        if self.flags & HAS_NEXT == 0 {
            self.flags |= HAS_NEXT;
            self.next = seq;
        }
    }

    /// Sorts in payload. The caller processes what is in order now; then [`Self::ready`] may have
    /// more.
    #[inline]
    pub(crate) fn receive(&mut self, packet: &Packet<'_>) -> ReceiveOutcome {
        let (ts, seq, length) = (packet.ts_ns, packet.data_seq(), packet.payload_length);
        self.start(seq);
        if seq == self.next && self.held().is_none() {
            // The common case.
            self.advance(length);
            if self.timed_ts == 0 {
                (self.timed_ts, self.timed_end) = (ts, self.next);
            }
            return ReceiveOutcome { arrival: SegmentArrival::New, gap: 0, overlap: 0, length };
        }
        if seq.is_after(self.next) { self.receive_ahead(packet) } else { self.receive_old(packet) }
    }

    /// Handles payload seen before, in part or in full, or payload that fills a hole.
    fn receive_old(&mut self, packet: &Packet<'_>) -> ReceiveOutcome {
        let (ts, seq, length) = (packet.ts_ns, packet.data_seq(), packet.payload_length);
        let end = seq.wrapping_add(length);
        if !end.is_after(self.next) {
            if length <= 1 && end == self.next {
                return ReceiveOutcome::nothing(SegmentArrival::KeepAlive);
            }
            self.timed_ts = 0;
            return ReceiveOutcome::nothing(SegmentArrival::Again);
        }
        let overlap = seq.distance_to(self.next);
        let arrival = match self.held().map(|held| held.since_ts) {
            Some(since_ts) => {
                self.troubles_mut().filled += 1;
                SegmentArrival::Filled(ts - since_ts)
            }
            None => {
                self.timed_ts = 0;
                SegmentArrival::Again
            }
        };
        self.advance(length - overlap);
        ReceiveOutcome { arrival, gap: 0, overlap, length: length - overlap }
    }

    fn receive_ahead(&mut self, packet: &Packet<'_>) -> ReceiveOutcome {
        let (ts, seq, length) = (packet.ts_ns, packet.data_seq(), packet.payload_length);
        let hole = self.next.distance_to(seq);
        let was_received = self.flags & HAS_ACKED != 0 && !self.acked.is_before(seq);
        if hole > HOLE_MAX || (was_received && self.held().is_none()) {
            self.timed_ts = 0;
            self.drop_held();
            self.next = seq;
            self.advance(length);
            let gap = hole.min(HOLE_MAX);
            return ReceiveOutcome { arrival: SegmentArrival::New, gap, overlap: 0, length };
        }
        let held = &mut self.rare.get_or_insert_default().held;
        let held =
            held.get_or_insert_with(|| HeldSegments { since_ts: ts, segments: VecDeque::new() });
        let at = held.segments.partition_point(|other| other.seq.is_before(seq));
        let is_known =
            held.segments.get(at).is_some_and(|other| other.seq == seq && other.length >= length);
        if is_known {
            self.timed_ts = 0;
            return ReceiveOutcome::nothing(SegmentArrival::Again);
        }
        held.segments.insert(at, Segment { ts, seq, length, bytes: packet.payload.into() });
        ReceiveOutcome::nothing(SegmentArrival::Ahead)
    }

    /// Counts a segment that its sender sent again.
    pub(crate) fn note_retransmit(&mut self) {
        self.troubles_mut().retransmits += 1;
    }

    /// Counts a DSACK of the peer, unless the capture has copied it within `copy_ns`.
    pub(crate) fn note_dsack(&mut self, ts: i64, right: u32, copy_ns: i64) -> bool {
        let troubles = self.troubles_mut();
        let (last_ts, last_right) = std::mem::replace(&mut troubles.last_dsack, (ts, right));
        let is_copy = last_right == right && ts - last_ts < copy_ns;
        troubles.dsacks += u32::from(!is_copy);
        !is_copy
    }

    /// Whether this payload was seen before, in order or behind a hole.
    #[inline]
    pub(crate) fn has_payload(&self, packet: &Packet<'_>) -> bool {
        let (seq, length) = (packet.data_seq(), packet.payload_length);
        if self.flags & HAS_NEXT == 0 {
            return false;
        }
        if !seq.wrapping_add(length).is_after(self.next) {
            return true;
        }
        self.held().is_some_and(|held| {
            held.segments.iter().any(|other| other.seq == seq && other.length >= length)
        })
    }

    /// Remembers that the SYN carried payload.
    pub(crate) fn note_syn_data(&mut self) {
        self.flags |= SYN_DATA;
    }

    /// True once, when payload from `first` on repeats that of the SYN, which the peer refused.
    pub(crate) fn take_refused_syn_data(&mut self, seq: u32, first: u32) -> bool {
        let is_refused = self.flags & (SYN_DATA | HAS_ACKED) == SYN_DATA | HAS_ACKED
            && seq == first
            && self.acked == first;
        if is_refused {
            self.flags &= !SYN_DATA;
        }
        is_refused
    }

    /// Remembers whether the peer's last acknowledgement reported a hole.
    #[inline]
    pub(crate) fn set_hole(&mut self, has_hole: bool) {
        self.flags = if has_hole { self.flags | HOLE } else { self.flags & !HOLE };
    }

    pub(crate) fn has_hole(&self) -> bool {
        self.flags & HOLE != 0
    }

    #[inline]
    fn advance(&mut self, length: u32) {
        self.next = self.next.wrapping_add(length);
        self.bytes += u64::from(length);
    }

    /// The next held segment, if it is in order, if the peer has acknowledged what is missing, or
    /// if too much is held.
    #[inline]
    pub(crate) fn ready(&mut self) -> Option<OrderedChunk> {
        self.held()?;
        self.ready_of_held(false)
    }

    /// The next held segment regardless of holes: nothing more will come.
    pub(crate) fn rest(&mut self) -> Option<OrderedChunk> {
        self.held()?;
        self.ready_of_held(true)
    }

    fn ready_of_held(&mut self, is_over: bool) -> Option<OrderedChunk> {
        loop {
            let held = self.rare.as_mut()?.held.as_mut()?;
            let Some(first) = held.segments.front() else {
                self.drop_held();
                return None;
            };
            if first.seq.is_after(self.next) {
                let was_received = self.flags & HAS_ACKED != 0 && !self.acked.is_before(first.seq);
                let is_full = held.segments.len() > HELD_MAX;
                if !(is_over || was_received || is_full) {
                    return None;
                }
                let length = self.next.distance_to(first.seq);
                self.next = first.seq;
                self.timed_ts = 0;
                return Some(OrderedChunk::Gap { length });
            }
            let Segment { ts, seq, length, bytes } = held.segments.pop_front()?;
            let overlap = seq.distance_to(self.next);
            if overlap < length {
                self.advance(length - overlap);
                return Some(OrderedChunk::Bytes { ts, bytes, overlap, length: length - overlap });
            }
        }
    }

    /// Processes the peer's acknowledgement; returns the round trip it measures, µs. Then
    /// [`Self::ready`] may have more.
    #[inline]
    pub(crate) fn acknowledge(&mut self, ts: i64, ack: u32) -> Option<u32> {
        if self.flags & HAS_ACKED == 0 || ack.is_after(self.acked) {
            self.acked = ack;
            self.flags |= HAS_ACKED;
        }
        if self.timed_ts == 0 || ack.is_before(self.timed_end) {
            return None;
        }
        let rtt = u32::try_from((ts - self.timed_ts).max(0) / 1000).unwrap_or(u32::MAX);
        self.timed_ts = 0;
        self.rtt_us = self.rtt_us.min(rtt);
        Some(rtt)
    }

    /// Bytes that the tap missed before a packet without payload, if the peer has acknowledged
    /// them.
    pub(crate) fn missed_before(&mut self, seq: u32) -> u32 {
        self.start(seq);
        let was_received = self.flags & HAS_ACKED != 0 && !self.acked.is_before(seq);
        if self.held().is_some() || !was_received || self.has_closed() || !seq.is_after(self.next) {
            return 0;
        }
        let gap = self.next.distance_to(seq).min(HOLE_MAX);
        self.next = seq;
        self.timed_ts = 0;
        gap
    }

    /// Whether the peer acknowledged payload that the tap never saw.
    pub(crate) fn is_ahead_of_tap(&self) -> bool {
        let reach = self.next.wrapping_add(u32::from(self.has_closed()));
        self.flags & (HAS_ACKED | HAS_NEXT) == HAS_ACKED | HAS_NEXT && self.acked.is_after(reach)
    }

    /// Skips to the peer's position, past what the tap missed.
    pub(crate) fn catch_up(&mut self) {
        self.drop_held();
        self.next = self.acked;
        self.timed_ts = 0;
    }

    /// Missing identifications, if they are usable.
    pub(crate) fn missing_ids(&self) -> Option<u32> {
        self.id.is_usable().then_some(self.id.missing)
    }

    /// Whether the peer has acknowledged as much before.
    #[inline]
    pub(crate) fn has_acknowledged(&self, ack: u32) -> bool {
        self.flags & HAS_ACKED != 0 && !ack.is_after(self.acked)
    }

    /// Whether an earlier packet of this side had this identification.
    #[inline]
    pub(crate) fn has_seen_id(&self, id: u16) -> bool {
        self.flags & HAS_ID != 0 && self.id.has_seen(id)
    }

    /// Compares the identification of a packet of so many segments with the previous one; returns
    /// the number of missing packets.
    #[inline]
    pub(crate) fn identify(&mut self, id: u16, segments: u16) -> u16 {
        let was_many = self.flags & MANY != 0;
        if self.flags & HAS_ID == 0 {
            self.flags |= HAS_ID;
            self.set_many(segments > 1);
            self.id.advance(id, u16::MAX, segments);
            return 0;
        }
        let step = id.wrapping_sub(self.id.last).cast_signed();
        let missing = match step {
            // A copy, or reordered and not lost; the next step counts from the highest.
            -31..=0 => {
                self.id.fill(step.unsigned_abs());
                return 0;
            }
            _ if was_many => 0,
            1 => {
                self.id.by_one = self.id.by_one.saturating_add(1);
                0
            }
            2..=32 => step.unsigned_abs() - 1,
            _ => 0,
        };
        self.id.steps = self.id.steps.saturating_add(u32::from(!was_many));
        self.id.missing = self.id.missing.saturating_add(missing.into());
        self.set_many(segments > 1);
        self.id.advance(id, step.cast_unsigned(), segments);
        missing
    }

    #[inline]
    fn set_many(&mut self, is_many: bool) {
        self.flags = if is_many { self.flags | MANY } else { self.flags & !MANY };
    }
}

impl IdCounter {
    /// Moves to `id`, `step` further than the last, and to the end of its segments.
    #[inline]
    fn advance(&mut self, id: u16, step: u16, segments: u16) {
        let span = u32::from(segments.clamp(1, 32));
        self.seen = self.seen.checked_shl(step.into()).unwrap_or(0);
        self.seen = self.seen.checked_shl(span - 1).unwrap_or(0) | u32::MAX >> (32 - span);
        self.last = id.wrapping_add(segments.max(1) - 1);
    }

    /// Marks an earlier one as seen; it was counted as missing if it was not.
    fn fill(&mut self, back: u16) {
        let bit = 1 << back;
        if self.seen & bit == 0 {
            self.seen |= bit;
            self.missing = self.missing.saturating_sub(1);
        }
    }

    /// Whether it is one of the last 32 and was seen, or is older where the counter runs by one.
    #[inline]
    fn has_seen(&self, id: u16) -> bool {
        match self.last.wrapping_sub(id) {
            back @ 0..32 => self.seen >> back & 1 == 1,
            32..=IDS_BACK_MAX => self.is_usable(),
            _ => false,
        }
    }

    /// Whether nearly all steps are one; otherwise the sender's identifications are meaningless.
    pub(crate) fn is_usable(&self) -> bool {
        self.steps >= 2 && u64::from(self.by_one) * 10 >= u64::from(self.steps) * 9
    }
}

#[cfg(test)]
mod tests {
    use super::{HalfConnection, OrderedChunk, SegmentArrival};
    use weir_capture::packet::{Direction, Endpoint, Flags, Packet};

    fn packet(ts_ns: i64, seq: u32, payload: &[u8]) -> Packet<'_> {
        let end = Endpoint { address: 1, port: 2 };
        Packet {
            ts_ns,
            from: end,
            to: end,
            seq,
            ack: 0,
            is_sequence_known: true,
            flags: Flags::ACK,
            window: 0,
            window_scale: None,
            segment_bytes_max: None,
            is_join: false,
            timestamps: None,
            sack_blocks: 0,
            dsack: None,
            ip_id: None,
            payload_length: u32::try_from(payload.len()).expect("short"),
            payload,
            interface: 0,
            direction: Direction::Unknown,
        }
    }

    /// Feeds segments `(seq, bytes)` and acks (`bytes` empty); returns the stream with `_` for each
    /// missed byte.
    fn run(segments: &[(u32, &str)]) -> (String, Vec<SegmentArrival>) {
        let (mut half, mut out, mut arrivals) =
            (HalfConnection::default(), String::new(), Vec::new());
        half.open(segments[0].0.wrapping_sub(1));
        for (ts, (seq, text)) in (0_i64..).zip(segments) {
            if text.is_empty() {
                half.acknowledge(ts, *seq);
            } else {
                let received = half.receive(&packet(ts, *seq, text.as_bytes()));
                out += &"_".repeat(received.gap as usize);
                let from = received.overlap as usize;
                out += &text[from..from + received.length as usize];
                arrivals.push(received.arrival);
            }
            while let Some(piece) = half.ready() {
                match piece {
                    OrderedChunk::Bytes { bytes, overlap, .. } => {
                        out += &String::from_utf8_lossy(&bytes[overlap as usize..]);
                    }
                    OrderedChunk::Gap { length } => out += &"_".repeat(length as usize),
                }
            }
        }
        (out, arrivals)
    }

    #[test]
    fn bytes_come_in_order_whatever_the_packets_do() {
        use SegmentArrival::{Again, Ahead, Filled, KeepAlive, New};
        let check = |segments: &[(u32, &str)], stream: &str, expected: &[SegmentArrival]| {
            assert_eq!(run(segments), (stream.to_owned(), expected.to_vec()));
        };
        check(&[(10, "ab"), (12, "cd")], "abcd", &[New, New]);
        check(&[(10, "ab"), (10, "ab"), (11, "b")], "ab", &[New, Again, KeepAlive]);
        check(&[(10, "ab"), (11, "bcd")], "abcd", &[New, Again]);
        check(&[(10, "ab"), (14, "ef"), (12, "cd")], "abcdef", &[New, Ahead, Filled(1)]);
        check(
            &[(10, "ab"), (16, "gh"), (14, "ef"), (14, "ef"), (12, "cd"), (18, "i")],
            "abcdefghi",
            &[New, Ahead, Ahead, Again, Filled(3), New],
        );
        // The receiver has what the tap missed.
        check(&[(10, "ab"), (14, "ef"), (14, "")], "ab__ef", &[New, Ahead]);
        check(&[(10, "ab"), (14, ""), (14, "ef")], "ab__ef", &[New, New]);
        // Across the wrap.
        check(&[(u32::MAX, "ab"), (3, "ef"), (1, "cd")], "abcdef", &[New, Ahead, Filled(1)]);
    }

    #[test]
    fn any_order_and_any_overlap_give_the_same_bytes() {
        arbtest::arbtest(|u| {
            let text: String = ('a'..='z').chain('A'..='Z').collect();
            let start: u32 = u.arbitrary()?;
            let mut segments: Vec<(u32, &str)> = Vec::new();
            let mut at = 0;
            while at < text.len() {
                let end = (at + u.int_in_range(1..=6)?).min(text.len());
                let from = at - u.int_in_range(0..=at.min(3))?;
                segments.push((
                    start.wrapping_add(u32::try_from(from).expect("short")),
                    &text[from..end],
                ));
                at = end;
            }
            for at in 1..segments.len() {
                let other = u.int_in_range(1..=segments.len() - 1)?;
                segments.swap(at, other);
            }
            assert_eq!(run(&segments).0, text);
            Ok(())
        });
    }

    #[test]
    fn identifications_are_counted_on_connections_of_many_packets() {
        let mut half = HalfConnection::default();
        for number in (0..200_000_u32).filter(|number| number % 100 != 0) {
            let id = u16::try_from(number & 0xffff).expect("16 bits");
            assert_eq!(half.identify(id, 1), u16::from(number % 100 == 1 && number > 1));
        }
        assert!(half.id.is_usable());
        assert_eq!((half.id.missing, half.id.steps), (1999, 197_999));
    }

    #[test]
    fn identifications_tell_what_was_lost_before_the_tap() {
        let mut half = HalfConnection::default();
        let missing: u16 =
            [65_534, 65_535, 0, 3, 4, 2, 5].map(|id| half.identify(id, 1)).iter().sum();
        assert_eq!((missing, half.id.missing), (2, 1));
    }
}
