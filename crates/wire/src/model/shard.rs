//! A shard: the connections of one part of the capture, and all that can be counted of them without knowing the others.
//!
//! Which shard a connection belongs to depends on its two ends only, and there are always as many shards; so the answer
//! is the same whether one thread works on all of them or each has a thread. What needs the order of the whole capture is
//! told to the ledger as events.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

use super::event::{Event, Out, Told};
use super::exchange::Pool;
use super::gate::Pass;
use super::slice::{Recent, Slice};
use super::tier::Transport;
use super::{LINGER_NS, Options, SHARDS, TIERS_MAX, track};
use crate::flow::{Arena, Connection};
use crate::packet::{Flags, Packet};
use crate::skip::Skipped;

/// Connections that share a hash.
pub(crate) struct Shard {
    connections: Arena,
    /// Closed connections, oldest first: when they are forgotten, their slot and number.
    closing: VecDeque<(i64, u32, u32)>,
    pub(crate) world: World,
}

/// Everything of a shard but the connections.
pub(crate) struct World {
    pub(crate) ports: Vec<u16>,
    pub(crate) wants_rows: bool,
    /// Where slice 0 begins.
    start_ns: i64,
    width_ns: i64,
    pub(crate) pool: Pool,
    pub(crate) parts: Vec<Part>,
    part_of_port: HashMap<u16, u16, BuildHasherDefault<FxHasher>>,
    pub(crate) skipped: Skipped,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) given_up: u64,
    /// Connections so far: tells those apart that use a slot one after the other.
    connections: u32,
    /// Slices by which slice 0 has moved: with it, numbers of slices are never used again.
    pub(crate) taken: u32,
    /// The present packet: its place in the block, and what the gate knows of it.
    at: u32,
    pub(crate) pass: Pass,
    /// The slot of the present connection.
    pub(crate) slot: u32,
    pub(crate) out: Out,
}

/// What was counted at one server port.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) transport: Transport,
    pub(crate) recent: Recent,
}

/// The place of events that belong to the end of a block.
pub(crate) const AT_END: u32 = u32::MAX;

impl Shard {
    /// The shard with this number; all of them together follow as many connections as the options say.
    pub(crate) fn new(number: usize, options: &Options, wants_rows: bool) -> Self {
        let limit = (options.connections_max + SHARDS - 1 - number) / SHARDS;
        let connections = Arena::new(limit, options.seed);
        Self { connections, closing: VecDeque::new(), world: World::new(options, wants_rows) }
    }

    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Takes in the next packet of the shard; `at` is its place in the block, and slices begin at `start_ns`.
    pub(crate) fn packet(&mut self, at: u32, packet: &Packet<'_>, pass: Pass, start_ns: i64) {
        let Self { connections, closing, world } = self;
        (world.at, world.pass, world.start_ns) = (at, pass, start_ns);
        let slot = match connections.find(packet.from, packet.to) {
            Some(slot) => {
                let connection = connections.get(slot);
                if track::is_new_incarnation(connection, packet)
                    || connection.is_forgotten(packet.ts_ns, LINGER_NS)
                {
                    world.finish(connection, slot, false);
                    // The ends may have changed their parts, but the index does not care which is first.
                    *connection = world.open(packet);
                    world.tell(Event::Open { slot });
                }
                slot
            }
            None => {
                if connections.is_full()
                    && let Some(idle) = connections.idle()
                {
                    world.finish(connections.get(idle), idle, false);
                    connections.remove(idle);
                    world.given_up += 1;
                }
                let slot = connections.insert(world.open(packet));
                world.tell(Event::Open { slot });
                slot
            }
        };
        let connection = connections.get(slot);
        world.slot = slot;
        track::packet(connection, world, packet);
        if connection.is_closing_now() {
            closing.push_back((packet.ts_ns + LINGER_NS, slot, connection.number));
        }
    }

    /// The end of a block whose latest packet passed at `now`: what has closed long ago is forgotten.
    pub(crate) fn end_block(&mut self, now: i64) {
        let Self { connections, closing, world } = self;
        world.at = AT_END;
        while let Some((until, slot, number)) = closing.front().copied() {
            if until > now {
                break;
            }
            closing.pop_front();
            let connection = connections.get(slot);
            if connection.is_live() && connection.number == number {
                world.finish(connection, slot, false);
                connections.remove(slot);
            }
        }
    }

    /// The slices of the shard that are older than `present`, by its own numbers of tiers.
    pub(crate) fn take_slices(&mut self, present: u32) -> Vec<(u16, u32, Box<Slice>)> {
        let mut taken = Vec::new();
        for (local, part) in (0..).zip(&mut self.world.parts) {
            let slices = part.recent.take_before(present);
            taken.extend(slices.into_iter().map(|(number, slice)| (local, number, slice)));
        }
        taken
    }

    /// Slice 0 begins at `start_ns` from now on: `count` slices later. None may be left to be taken.
    pub(crate) fn begin_at(&mut self, start_ns: i64, count: u32) {
        let world = &mut self.world;
        world.taken = world.taken.wrapping_add(count);
        world.pass.slice = world.pass.slice.saturating_sub(count);
        world.start_ns = start_ns;
    }

    /// The end of the capture: what is under way is cut, everything is counted.
    pub(crate) fn end(&mut self) {
        self.world.at = AT_END;
        for slot in self.connections.slots() {
            self.world.finish(self.connections.get(slot), slot, true);
        }
    }
}

impl World {
    fn new(options: &Options, wants_rows: bool) -> Self {
        Self {
            ports: options.ports.clone(),
            wants_rows,
            start_ns: 0,
            width_ns: options.slice_ns,
            pool: Pool::default(),
            // Part 0 is what has no port of its own.
            parts: vec![Part::default()],
            part_of_port: HashMap::default(),
            skipped: Skipped::default(),
            packets: 0,
            bytes: 0,
            given_up: 0,
            connections: 0,
            taken: 0,
            at: 0,
            pass: Pass::default(),
            slot: 0,
            out: Out::default(),
        }
    }

    fn finish(&mut self, connection: &mut Connection, slot: u32, is_end: bool) {
        self.slot = slot;
        track::finish(connection, self, is_end);
    }

    #[inline]
    pub(crate) fn tell(&mut self, event: Event) {
        self.out.events.push(Told { at: self.at, slice: self.pass.slice, event });
    }

    /// A connection that begins with this packet.
    fn open(&mut self, packet: &Packet<'_>) -> Connection {
        let is_from_server = match packet.flags {
            flags if flags.has(Flags::SYN | Flags::ACK) => true,
            flags if flags.has(Flags::SYN) => false,
            _ => self.pass.is_from_server,
        };
        let (client, server) =
            if is_from_server { (packet.to, packet.from) } else { (packet.from, packet.to) };
        self.connections = self.connections.wrapping_add(1);
        let mut connection = Connection::new(client, server, packet.ts_ns, self.connections);
        connection.interface = packet.interface;
        connection
    }

    /// The slice of a time that may lie in the past.
    pub(crate) fn slice_of(&self, ts: i64) -> u32 {
        let slice = self.pass.slice;
        let slice_begin = self.start_ns + i64::from(slice) * self.width_ns;
        if ts >= slice_begin {
            return slice;
        }
        let before = (slice_begin - ts + self.width_ns - 1) / self.width_ns;
        slice.saturating_sub(u32::try_from(before).unwrap_or(u32::MAX))
    }

    /// The tier of a port; made when there is room.
    pub(crate) fn tier(&mut self, port: u16) -> u16 {
        if let Some(tier) = self.part_of_port.get(&port) {
            return *tier;
        }
        if self.parts.len() >= TIERS_MAX {
            return 0;
        }
        let local = u16::try_from(self.parts.len()).expect("there are few");
        self.parts.push(Part::default());
        self.part_of_port.insert(port, local);
        self.tell(Event::Tier { local, port });
        local
    }

    #[inline]
    pub(crate) fn tier_mut(&mut self, tier: u16) -> &mut Transport {
        &mut self.parts[usize::from(tier)].transport
    }

    /// The present slice of a tier.
    #[inline]
    pub(crate) fn now(&mut self, tier: u16) -> &mut Slice {
        let slice = self.pass.slice;
        self.parts[usize::from(tier)].recent.at(slice)
    }
}
