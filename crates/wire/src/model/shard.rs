//! A shard: the connections of one part of the capture and all counts that need no other part.
//!
//! A connection's shard depends on its two endpoints only, and the number of shards is constant; so
//! results do not depend on the number of threads. What needs the packet order of the whole capture
//! is sent to the sequencer as events.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

use super::admission::PacketHints;
use super::event::{EventBuffer, ShardEvent, StampedEvent};
use super::exchange::ExchangePool;
use super::slice::{RecentSlices, TimeSlice};
use super::tier::TransportCounters;
use super::{LINGER_NS, ModelOptions, SHARDS, TIERS_MAX, connection_tracker};
use crate::flow::{Connection, ConnectionArena};
use crate::packet::{Flags, Packet};
use crate::skip::SkipCounts;

/// Connections that share a hash value.
pub(crate) struct Shard {
    connections: ConnectionArena,
    /// Closed connections by expiry, oldest first: time, slot and number.
    closing: VecDeque<(i64, u32, u32)>,
    pub(crate) context: ShardContext,
}

/// State of a shard besides its connections.
pub(crate) struct ShardContext {
    pub(crate) ports: Vec<u16>,
    pub(crate) wants_rows: bool,
    /// Start of slice 0.
    start_ns: i64,
    width_ns: i64,
    pub(crate) pool: ExchangePool,
    pub(crate) parts: Vec<PortCounters>,
    part_of_port: HashMap<u16, u16, BuildHasherDefault<FxHasher>>,
    pub(crate) skipped: SkipCounts,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) given_up: u64,
    /// Connections so far: distinguishes connections that reuse a slot.
    connections: u32,
    /// Slices removed so far; makes slice numbers unique.
    pub(crate) taken: u32,
    /// Index of the current packet in its block.
    at: u32,
    pub(crate) hints: PacketHints,
    /// Slot of the current connection.
    pub(crate) slot: u32,
    pub(crate) out: EventBuffer,
}

/// Counters of one server port.
#[derive(Default)]
pub(crate) struct PortCounters {
    pub(crate) transport: TransportCounters,
    pub(crate) recent: RecentSlices,
}

/// Index of events at the end of a block.
pub(crate) const AT_END: u32 = u32::MAX;

impl Shard {
    /// Creates shard `number`; all shards together follow `connections_max` connections.
    pub(crate) fn new(number: usize, options: &ModelOptions, wants_rows: bool) -> Self {
        let limit = (options.connections_max + SHARDS - 1 - number) / SHARDS;
        let connections = ConnectionArena::new(limit, options.seed);
        Self {
            connections,
            closing: VecDeque::new(),
            context: ShardContext::new(options, wants_rows),
        }
    }

    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Processes the shard's next packet; `at` is its index in the block, and slice 0 begins at
    /// `start_ns`.
    pub(crate) fn packet(
        &mut self,
        at: u32,
        packet: &Packet<'_>,
        hints: PacketHints,
        start_ns: i64,
    ) {
        let Self { connections, closing, context } = self;
        (context.at, context.hints, context.start_ns) = (at, hints, start_ns);
        let slot = match connections.find(packet.from, packet.to) {
            Some(slot) => {
                let connection = connections.get(slot);
                if connection_tracker::is_new_incarnation(connection, packet)
                    || connection.is_forgotten(packet.ts_ns, LINGER_NS)
                {
                    context.finish(connection, slot, false);
                    // The ends may have swapped roles; the index ignores their order.
                    *connection = context.open(packet);
                    context.emit(ShardEvent::Open { slot });
                }
                slot
            }
            None => {
                if connections.is_full()
                    && let Some(idle) = connections.idle()
                {
                    context.finish(connections.get(idle), idle, false);
                    connections.remove(idle);
                    context.given_up += 1;
                }
                let slot = connections.insert(context.open(packet));
                context.emit(ShardEvent::Open { slot });
                slot
            }
        };
        let connection = connections.get(slot);
        context.slot = slot;
        connection_tracker::packet(connection, context, packet);
        if connection.is_closing_now() {
            closing.push_back((packet.ts_ns + LINGER_NS, slot, connection.number));
        }
    }

    /// Ends a block whose latest packet passed at `now`: forgets connections closed long ago.
    pub(crate) fn end_block(&mut self, now: i64) {
        let Self { connections, closing, context } = self;
        context.at = AT_END;
        while let Some((until, slot, number)) = closing.front().copied() {
            if until > now {
                break;
            }
            closing.pop_front();
            let connection = connections.get(slot);
            if connection.is_live() && connection.number == number {
                context.finish(connection, slot, false);
                connections.remove(slot);
            }
        }
    }

    /// Removes the slices older than `present`; tiers have the shard's local numbers.
    pub(crate) fn take_slices(&mut self, present: u32) -> Vec<(u16, u32, Box<TimeSlice>)> {
        let mut taken = Vec::new();
        for (local, part) in (0..).zip(&mut self.context.parts) {
            let slices = part.recent.take_before(present);
            taken.extend(slices.into_iter().map(|(number, slice)| (local, number, slice)));
        }
        taken
    }

    /// Renumbers slices: slice 0 now begins at `start_ns`, `count` slices later. All slices must
    /// have been taken.
    pub(crate) fn begin_at(&mut self, start_ns: i64, count: u32) {
        let context = &mut self.context;
        context.taken = context.taken.wrapping_add(count);
        context.hints.slice = context.hints.slice.saturating_sub(count);
        context.start_ns = start_ns;
    }

    /// Ends the capture: cuts requests in flight and finishes all counts.
    pub(crate) fn end(&mut self) {
        self.context.at = AT_END;
        for slot in self.connections.slots() {
            self.context.finish(self.connections.get(slot), slot, true);
        }
    }
}

impl ShardContext {
    fn new(options: &ModelOptions, wants_rows: bool) -> Self {
        Self {
            ports: options.ports.clone(),
            wants_rows,
            start_ns: 0,
            width_ns: options.slice_ns,
            pool: ExchangePool::default(),
            // Part 0 collects ports without a tier.
            parts: vec![PortCounters::default()],
            part_of_port: HashMap::default(),
            skipped: SkipCounts::default(),
            packets: 0,
            bytes: 0,
            given_up: 0,
            connections: 0,
            taken: 0,
            at: 0,
            hints: PacketHints::default(),
            slot: 0,
            out: EventBuffer::default(),
        }
    }

    fn finish(&mut self, connection: &mut Connection, slot: u32, is_end: bool) {
        self.slot = slot;
        connection_tracker::finish(connection, self, is_end);
    }

    #[inline]
    pub(crate) fn emit(&mut self, event: ShardEvent) {
        self.out.events.push(StampedEvent { at: self.at, slice: self.hints.slice, event });
    }

    /// Creates the connection that begins with this packet.
    fn open(&mut self, packet: &Packet<'_>) -> Connection {
        let is_from_server = match packet.flags {
            flags if flags.has(Flags::SYN | Flags::ACK) => true,
            flags if flags.has(Flags::SYN) => false,
            _ => self.hints.is_from_server,
        };
        let (client, server) =
            if is_from_server { (packet.to, packet.from) } else { (packet.from, packet.to) };
        self.connections = self.connections.wrapping_add(1);
        let mut connection = Connection::new(client, server, packet.ts_ns, self.connections);
        connection.interface = packet.interface;
        connection
    }

    /// Slice of a time that may lie in the past.
    pub(crate) fn slice_of(&self, ts: i64) -> u32 {
        let slice = self.hints.slice;
        let slice_begin = self.start_ns + i64::from(slice) * self.width_ns;
        if ts >= slice_begin {
            return slice;
        }
        let before = (slice_begin - ts + self.width_ns - 1) / self.width_ns;
        slice.saturating_sub(u32::try_from(before).unwrap_or(u32::MAX))
    }

    /// Tier of a port, created unless the limit is reached.
    pub(crate) fn tier(&mut self, port: u16) -> u16 {
        if let Some(tier) = self.part_of_port.get(&port) {
            return *tier;
        }
        if self.parts.len() >= TIERS_MAX {
            return 0;
        }
        let local = u16::try_from(self.parts.len()).expect("there are few");
        self.parts.push(PortCounters::default());
        self.part_of_port.insert(port, local);
        self.emit(ShardEvent::Tier { local, port });
        local
    }

    #[inline]
    pub(crate) fn tier_mut(&mut self, tier: u16) -> &mut TransportCounters {
        &mut self.parts[usize::from(tier)].transport
    }

    /// The current slice of a tier.
    #[inline]
    pub(crate) fn now(&mut self, tier: u16) -> &mut TimeSlice {
        let slice = self.hints.slice;
        self.parts[usize::from(tier)].recent.at(slice)
    }
}
