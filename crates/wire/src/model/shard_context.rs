//! State of a shard besides its connections: counters, the current packet, and the events to emit.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

use super::admission::PacketHints;
use super::copies::RecentPackets;
use super::event::{EventBuffer, ShardEvent, StampedEvent};
use super::exchange::ExchangePool;
use super::slice::{RecentSlices, TimeSlice};
use super::tier::TransportCounters;
use super::{ModelOptions, TIERS_MAX};
use crate::flow::{Connection, SenderClock};
use weir_capture::SkipCounts;
use weir_capture::packet::{Flags, Packet};

pub(crate) struct ShardContext {
    pub(crate) ports: Vec<u16>,
    pub(crate) wants_rows: bool,
    pub(super) start_ns: i64,
    width_ns: i64,
    /// Time of the capture's last packet, once that is known.
    pub(super) end_ts: i64,
    pub(crate) pool: ExchangePool,
    pub(crate) parts: Vec<PortCounters>,
    part_of_port: HashMap<u16, u16, BuildHasherDefault<FxHasher>>,
    pub(crate) skipped: SkipCounts,
    pub(crate) recent: RecentPackets,
    /// Clocks of servers, for every eighth slot: what makes both sides late is the tap.
    server_clocks: Vec<SenderClock>,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) given_up: u64,
    /// Connections so far: distinguishes connections that reuse a slot.
    connections: u32,
    /// Slices removed so far; makes slice numbers unique.
    pub(crate) taken: u32,
    /// Index of the current packet in its block.
    pub(super) at: u32,
    pub(crate) hints: PacketHints,
    pub(crate) slot: u32,
    pub(crate) out: EventBuffer,
}

#[derive(Default)]
pub(crate) struct PortCounters {
    pub(crate) transport: TransportCounters,
    pub(crate) recent: RecentSlices,
}

/// Slots per followed clock of a server.
const CLOCK_SLOTS: u32 = 8;

/// Index of events at the end of a block.
pub(crate) const AT_END: u32 = u32::MAX;

impl ShardContext {
    pub(super) fn new(options: &ModelOptions, wants_rows: bool) -> Self {
        Self {
            ports: options.ports.clone(),
            wants_rows,
            start_ns: 0,
            width_ns: options.slice_ns,
            end_ts: 0,
            pool: ExchangePool::default(),
            // Part 0 collects ports without a tier.
            parts: vec![PortCounters::default()],
            part_of_port: HashMap::default(),
            skipped: SkipCounts::default(),
            recent: RecentPackets::default(),
            server_clocks: Vec::new(),
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

    #[inline]
    pub(crate) fn emit(&mut self, event: ShardEvent) {
        self.out.events.push(StampedEvent { at: self.at, slice: self.hints.slice, event });
    }

    pub(super) fn open(&mut self, packet: &Packet<'_>) -> Connection {
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

    /// Forgets the server's clock of the connection before in this slot.
    pub(super) fn restart_clock(&mut self, slot: u32) {
        if slot.is_multiple_of(CLOCK_SLOTS) {
            let at = (slot / CLOCK_SLOTS) as usize;
            if at >= self.server_clocks.len() {
                self.server_clocks.resize(at + 1, SenderClock::default());
            }
            self.server_clocks[at] = SenderClock::default();
        }
    }

    /// Adds a stamp of the current connection's server, if its clock is followed.
    #[inline]
    pub(crate) fn stamp_server(&mut self, tier: u16, ts_ns: i64, value: u32) {
        if !self.slot.is_multiple_of(CLOCK_SLOTS) {
            return;
        }
        let at = (self.slot / CLOCK_SLOTS) as usize;
        let clock = self.server_clocks.get_mut(at);
        if let Some(delay_us) = clock.and_then(|clock| clock.stamp(ts_ns, value)) {
            self.parts[usize::from(tier)].transport.server_delay.add(delay_us);
        }
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
