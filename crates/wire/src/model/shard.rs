//! A shard: the connections of one part of the capture and all counts that need no other part.
//!
//! A connection's shard depends on its two endpoints only, and the number of shards is constant; so
//! results do not depend on the number of threads. What needs the packet order of the whole capture
//! is sent to the sequencer as events.

use std::collections::VecDeque;

use super::admission::PacketHints;
use super::event::ShardEvent;
use super::shard_context::{AT_END, ShardContext};
use super::slice::TimeSlice;
use super::{ModelOptions, SHARDS, connection_tracker};
use crate::flow::{Connection, ConnectionArena, LINGER_NS};
use weir_capture::packet::Packet;

pub(crate) struct Shard {
    connections: ConnectionArena,
    /// Closed connections by expiry, oldest first: time, slot and number.
    closing: VecDeque<(i64, u32, u32)>,
    pub(crate) context: ShardContext,
}

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
                    || connection.is_forgotten(packet.ts_ns)
                {
                    finish(connection, context, slot, false);
                    // The ends may have swapped roles; the index ignores their order.
                    *connection = context.open(packet);
                    context.restart_clock(slot);
                    context.emit(ShardEvent::Open { slot });
                }
                slot
            }
            None => {
                if connections.is_full()
                    && let Some(idle) = connections.idle()
                {
                    finish(connections.get(idle), context, idle, false);
                    connections.remove(idle);
                    context.given_up += 1;
                }
                let slot = connections.insert(context.open(packet));
                context.restart_clock(slot);
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
                finish(connection, context, slot, false);
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
    pub(crate) fn end(&mut self, last_ts: i64) {
        self.context.at = AT_END;
        self.context.end_ts = last_ts;
        for slot in self.connections.slots() {
            finish(self.connections.get(slot), &mut self.context, slot, true);
        }
    }
}

fn finish(connection: &mut Connection, context: &mut ShardContext, slot: u32, is_end: bool) {
    context.slot = slot;
    connection_tracker::finish(connection, context, is_end);
}
