//! Copies made by the capture: a mirror port, two taps, or `-i any` on a host that forwards.
//!
//! A copy has the sequence number, acknowledgement, timestamps and IPv4 identification of a packet
//! already seen; only TTL, addresses of the link and tags may differ. A retransmit has a new
//! identification where these are counted (Linux, Windows), a later timestamp, and comes no sooner
//! than a round trip. IPv6 and packets with identification 0 need what was seen before: the latest
//! of a shard are remembered.
//!
//! ```text
//! identification counted: seen before ─► copy   new ─► sent again
//! else, same packet remembered: within a round trip, or stamped alike without a reported hole ─► copy
//! ```

use weir_capture::packet::{Flags, Packet, Timestamps};

use super::shard_context::ShardContext;
use crate::flow::{Connection, HalfConnection, NONE, Side};

/// Minimum retransmission timeout of Linux, with a margin: a copy comes sooner.
pub(super) const COPY_NS: i64 = 150_000_000;
/// Without a measured round trip, a copy comes at most this late.
const ROUND_TRIP_NS: i64 = 300_000;
/// Sets of remembered packets, a power of two.
const SETS: usize = 512;
const WAYS: usize = 4;

/// The latest packets with payload whose identification says nothing.
#[derive(Default)]
pub(crate) struct RecentPackets {
    /// Per set, the newest first. Empty until the first packet.
    sets: Vec<[RememberedPacket; WAYS]>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct RememberedPacket {
    print: u32,
    /// Capture time in units of 1,024 ns, modulo 2^32.
    at: u32,
}

impl RecentPackets {
    /// Remembers a packet.
    fn add(&mut self, key: u64, ts_ns: i64) {
        if self.sets.is_empty() {
            self.sets = vec![Default::default(); SETS];
        }
        let set = &mut self.sets[set_of(key)];
        set.copy_within(..WAYS - 1, 1);
        set[0] = RememberedPacket { print: print_of(key), at: coarse(ts_ns) };
    }

    /// Time since the same packet passed, in nanoseconds.
    fn age(&self, key: u64, ts_ns: i64) -> Option<i64> {
        let set = self.sets.get(set_of(key))?;
        let found = set.iter().find(|packet| packet.print == print_of(key) && packet.at != 0)?;
        let age = coarse(ts_ns).wrapping_sub(found.at).cast_signed();
        Some(i64::from(age.unsigned_abs()) << 10)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low bits are taken on purpose")]
fn set_of(key: u64) -> usize {
    key as usize % SETS
}

fn print_of(key: u64) -> u32 {
    (key >> 32) as u32
}

/// Never 0, which marks an empty place.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the low bits are taken on purpose"
)]
fn coarse(ts_ns: i64) -> u32 {
    ((ts_ns >> 10) as u32).max(1)
}

/// Hash of what a packet and its copy share.
fn fingerprint(packet: &Packet<'_>, slot: u32, side: Side) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let Timestamps { value, echo } = packet.timestamps.unwrap_or(Timestamps { value: 0, echo: 0 });
    let id = u64::from(packet.ip_id.unwrap_or(0)) << 1 | u64::from(side == Side::Server);
    let words = [
        u64::from(packet.seq) << 32 | u64::from(packet.ack),
        u64::from(value) << 32 | u64::from(echo),
        u64::from(slot) << 32 | u64::from(packet.payload_length) ^ id << 20,
    ];
    words.iter().fold(ODD, |hash, word| (hash ^ word).wrapping_mul(ODD).rotate_left(29))
}

/// Whether the capture has this packet twice. Packets that may be copied later are remembered.
#[inline]
pub(super) fn is_copy(
    connection: &Connection,
    context: &mut ShardContext,
    packet: &Packet<'_>,
    side: Side,
) -> bool {
    if !packet.is_sequence_known {
        return false;
    }
    let half = &connection.halves[usize::from(side == Side::Server)];
    if packet.flags.has(Flags::SYN) {
        return is_copied_syn(connection, packet, side);
    }
    if packet.payload_length == 0 {
        let acknowledged = &connection.halves[usize::from(side == Side::Client)];
        return packet.ip_id.is_some_and(|id| id != 0 && half.has_seen_id(id))
            && acknowledged.has_acknowledged(packet.ack);
    }
    let is_seen = half.has_payload(packet);
    if half.id.is_usable() && packet.ip_id.is_some_and(|id| id != 0) {
        return is_seen && packet.ip_id.is_some_and(|id| half.has_seen_id(id));
    }
    let key = fingerprint(packet, context.slot, side);
    let age = if is_seen { context.recent.age(key, packet.ts_ns) } else { None };
    if age.is_some_and(|age| is_too_soon(half, packet, age, round_trip_ns(connection))) {
        return true;
    }
    context.recent.add(key, packet.ts_ns);
    false
}

/// Whether the same packet as `age` nanoseconds ago cannot have been sent again.
fn is_too_soon(half: &HalfConnection, packet: &Packet<'_>, age: i64, rtt: Option<i64>) -> bool {
    let has_id = packet.ip_id.is_some_and(|id| id != 0);
    has_id
        || age < rtt.unwrap_or(ROUND_TRIP_NS)
        || (packet.timestamps.is_some() && !half.has_hole() && age < COPY_NS)
}

/// The shortest way from one end to the other and back, as far as it was measured.
fn round_trip_ns(connection: &Connection) -> Option<i64> {
    let [client, server] =
        [connection.halves[0].rtt_us, connection.client_rtt_us().unwrap_or(NONE)];
    let measured = [client, server].into_iter().filter(|us| *us != NONE).map(i64::from);
    measured.reduce(|one, other| one + other).map(|us| us * 1000)
}

/// A SYN is sent again after a second, with a new identification and timestamp.
fn is_copied_syn(connection: &Connection, packet: &Packet<'_>, side: Side) -> bool {
    let is_soon = (packet.ts_ns - connection.last_ts).abs() < COPY_NS;
    if side == Side::Server || packet.flags.has(Flags::ACK) {
        return connection.synack_count > 0 && connection.syn_count <= 1 && is_soon;
    }
    if connection.syn_count == 0 || connection.client_isn != packet.seq {
        return false;
    }
    match (packet.ip_id, packet.timestamps) {
        (Some(id), _) if id != 0 => connection.halves[0].has_seen_id(id),
        (_, Some(stamps)) => is_soon && connection.clock.is_first(stamps.value),
        _ => is_soon,
    }
}

#[cfg(test)]
mod tests {
    use super::{RecentPackets, WAYS};

    #[test]
    fn the_latest_of_a_set_are_remembered_with_their_age() {
        let mut recent = RecentPackets::default();
        assert_eq!(recent.age(7, 5_000_000), None);
        for n in 0..=WAYS as u64 {
            recent.add(n << 32 | 7, 1_000_000);
        }
        assert_eq!(recent.age(7, 5_000_000), None);
        let age = recent.age(1 << 32 | 7, 5_000_000).expect("it is one of the latest");
        assert!((3_990_000..=4_010_000).contains(&age), "{age}");
    }
}
