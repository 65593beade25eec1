//! The model: packets in time order go in; requests, connections, slices and verdicts come out.
//!
//! `track` follows TCP, `talk` follows requests, `tier` and `slice` hold what was counted. Memory is bounded: by live
//! connections, by slices, by URL templates; each limit says what happens behind it.

mod exchange;
mod pair;
mod ripe;
mod seen;
mod slice;
mod talk;
mod tier;
mod track;
mod urls;

pub use seen::{ConnectionSeen, End, RequestSeen, Sink, WireTier};

pub(crate) use ripe::Ripe;
pub(crate) use slice::{Sealed, Slice};
pub(crate) use tier::{Tier, Traffic};

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::net::IpAddr;

use rustc_hash::FxHasher;

use crate::flow::{Arena, Connection};
use crate::packet::{Endpoint, Packet};
use crate::skip::{Skip, Skipped};
use exchange::Pool;
use pair::Pairs;
use urls::Urls;

/// What to look at, and how finely.
#[derive(Debug, Clone)]
pub struct Options {
    /// Width of a slice in nanoseconds.
    pub slice_ns: i64,
    /// Server ports to look at; all when empty.
    pub ports: Vec<u16>,
    /// The one server to look at.
    pub server: Option<IpAddr>,
    /// Packets before are left out, nanoseconds since 1970.
    pub from_ns: Option<i64>,
    /// Packets from then on are left out.
    pub to_ns: Option<i64>,
    /// Connections that are followed at once; when there are more, idle ones are given up.
    pub connections_max: usize,
    /// Seeds the hash of connections.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slice_ns: 1_000_000_000,
            ports: Vec::new(),
            server: None,
            from_ns: None,
            to_ns: None,
            connections_max: 1_000_000,
            seed: 0,
        }
    }
}

/// Slices of one capture, at most: more than a day of seconds.
pub(crate) const SLICES_MAX: i64 = 100_000;
/// Slices of all tiers together in which something happened, at most.
const FILLED_SLICES_MAX: u32 = 400_000;
/// Packets may be so much older than the first: several processors write a capture.
const DISORDER_NS: i64 = 10_000_000_000;
/// The year 2223: what is later is no time, and sums of times stay far from the end of numbers.
const LATEST_NS: i64 = 8_000_000_000_000_000_000;
/// Ports that are told apart; the rest is one tier.
const TIERS_MAX: usize = 64;
/// How long a closed connection is remembered for what still comes.
const LINGER_NS: i64 = 2_000_000_000;
/// Servers that are remembered by their address.
const SERVERS_MAX: usize = 65_536;

/// Makes sense of packets.
pub struct Model {
    pub(crate) connections: Arena,
    /// Closed connections, oldest first: when they are forgotten, their slot and number.
    closing: VecDeque<(i64, u32, u64)>,
    pub(crate) world: World,
}

/// Everything but the connections.
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) pool: Pool,
    pub(crate) pairs: Pairs,
    pub(crate) urls: Urls,
    pub(crate) tiers: Vec<Tier>,
    tier_of_port: HashMap<u16, u16, BuildHasherDefault<FxHasher>>,
    servers: HashSet<Endpoint, BuildHasherDefault<FxHasher>>,
    server_addresses: HashSet<u128, BuildHasherDefault<FxHasher>>,
    pub(crate) skipped: Skipped,
    pub(crate) sink: Option<Box<dyn Sink>>,
    pub(crate) first_ts: Option<i64>,
    /// Where slice 0 begins.
    pub(crate) start_ns: i64,
    pub(crate) last_ts: i64,
    pub(crate) slice: u32,
    slice_begin: i64,
    filled: u32,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    pub(crate) connections: u64,
    pub(crate) given_up: u64,
    pub(crate) worst: Vec<ConnectionSeen>,
    /// Slices that were taken out, for numbers that stay their own.
    pub(crate) taken: u32,
}

impl Model {
    /// A model that has seen nothing; `sink` gets rows when somebody wants them.
    pub fn new(options: Options, sink: Option<Box<dyn Sink>>) -> Self {
        let connections = Arena::new(options.connections_max, options.seed);
        Self { connections, closing: VecDeque::new(), world: World::new(options, sink) }
    }

    /// Takes in the next packet.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let world = &mut self.world;
        if !world.is_asked_for(packet) {
            return world.skipped.add(Skip::Filter);
        }
        if !world.enter_slice(packet.ts_ns) {
            return world.skipped.add(Skip::Time);
        }
        self.forget_closed(packet.ts_ns);
        let Self { connections, closing, world } = self;
        let slot = match connections.find(packet.from, packet.to) {
            Some(slot) => {
                let connection = connections.get(slot);
                if track::is_new_incarnation(connection, packet) {
                    track::finish(connection, world, false);
                    // The ends may have changed their parts, but the index does not care which is first.
                    *connection = world.open(packet);
                }
                slot
            }
            None => {
                if connections.is_full()
                    && let Some(idle) = connections.idle()
                {
                    track::finish(connections.get(idle), world, false);
                    connections.remove(idle);
                    world.given_up += 1;
                }
                connections.insert(world.open(packet))
            }
        };
        let connection = connections.get(slot);
        track::packet(connection, world, packet);
        if connection.is_closing_now() {
            closing.push_back((packet.ts_ns + LINGER_NS, slot, connection.number));
        }
    }

    /// Closed connections are over when nothing more can come for them.
    #[inline]
    fn forget_closed(&mut self, now: i64) {
        let Self { connections, closing, world } = self;
        while let Some((until, slot, number)) = closing.front().copied() {
            if until > now {
                break;
            }
            closing.pop_front();
            let connection = connections.get(slot);
            if connection.is_live() && connection.number == number {
                track::finish(connection, world, false);
                connections.remove(slot);
            }
        }
    }

    /// The end of the capture: what is under way is cut, everything is counted.
    pub(crate) fn end(&mut self) {
        for slot in self.connections.slots() {
            track::finish(self.connections.get(slot), &mut self.world, true);
        }
        let World { tiers, start_ns, options, .. } = &mut self.world;
        for tier in tiers {
            let Tier { slices, idle, .. } = tier;
            idle.drain(&mut |from, to| {
                each_slice(*start_ns, options.slice_ns, from, to, |slice, ns| {
                    slices.at(slice).idle_ns += ns;
                });
            });
            slices.seal_all();
        }
    }
}

/// Calls `each` with every slice that `[from, to)` crosses, and how much of it lies there.
pub(crate) fn each_slice(
    start_ns: i64,
    width_ns: i64,
    from: i64,
    to: i64,
    mut each: impl FnMut(u32, i64),
) {
    let mut at = from.max(start_ns);
    while at < to {
        let number = (at - start_ns) / width_ns;
        if number >= SLICES_MAX {
            return;
        }
        let end = (start_ns + (number + 1) * width_ns).min(to);
        each(u32::try_from(number).unwrap_or(0), end - at);
        at = end;
    }
}

impl World {
    fn new(options: Options, sink: Option<Box<dyn Sink>>) -> Self {
        // Tier 0 is what has no port of its own.
        Self {
            options,
            pool: Pool::default(),
            pairs: Pairs::default(),
            urls: Urls::default(),
            tiers: vec![Tier::default()],
            tier_of_port: HashMap::default(),
            servers: HashSet::default(),
            server_addresses: HashSet::default(),
            skipped: Skipped::default(),
            sink,
            first_ts: None,
            start_ns: 0,
            last_ts: i64::MIN,
            slice: 0,
            slice_begin: 0,
            filled: 0,
            packets: 0,
            bytes: 0,
            requests: 0,
            connections: 0,
            given_up: 0,
            worst: Vec::new(),
            taken: 0,
        }
    }

    #[inline]
    fn is_asked_for(&self, packet: &Packet<'_>) -> bool {
        let options = &self.options;
        let has_port = |end: Endpoint| options.ports.contains(&end.port);
        let is_server = |end: Endpoint, server: IpAddr| end.ip() == server.to_canonical();
        (options.ports.is_empty() || has_port(packet.from) || has_port(packet.to))
            && options
                .server
                .is_none_or(|server| is_server(packet.from, server) || is_server(packet.to, server))
            && options.from_ns.is_none_or(|from| packet.ts_ns >= from)
            && options.to_ns.is_none_or(|to| packet.ts_ns < to)
    }

    /// Makes the slice of `ts` the present one; false when it is too far away.
    #[inline]
    fn enter_slice(&mut self, ts: i64) -> bool {
        let width = self.options.slice_ns;
        let earliest = self.first_ts.map_or(0, |first| first - DISORDER_NS);
        if !(earliest..LATEST_NS).contains(&ts) {
            return false;
        }
        if self.first_ts.is_none() {
            self.first_ts = Some(ts);
            self.start_ns = ts.div_euclid(width).saturating_mul(width);
            self.slice_begin = self.start_ns;
        }
        self.last_ts = self.last_ts.max(ts);
        if (0..width).contains(&ts.saturating_sub(self.slice_begin)) {
            return true;
        }
        // Packets of several processors may be a little out of order, even before the first.
        let number = ts.saturating_sub(self.start_ns).max(0) / width;
        if number >= SLICES_MAX || self.filled >= FILLED_SLICES_MAX {
            self.last_ts = self.start_ns + (i64::from(self.slice) + 1) * width - 1;
            return false;
        }
        self.filled += 1;
        self.slice = u32::try_from(number).unwrap_or(0);
        self.slice_begin = self.start_ns + number * width;
        for tier in &mut self.tiers {
            tier.slices.seal_old(self.slice, width);
        }
        true
    }

    /// The slice of a time that may lie in the past.
    pub(crate) fn slice_of(&self, ts: i64) -> u32 {
        if ts >= self.slice_begin {
            return self.slice;
        }
        u32::try_from((ts - self.start_ns).max(0) / self.options.slice_ns).unwrap_or(0)
    }

    /// A connection that begins with this packet.
    fn open(&mut self, packet: &Packet<'_>) -> Connection {
        use crate::packet::Flags;
        let is_from_server = match packet.flags {
            flags if flags.has(Flags::SYN | Flags::ACK) => true,
            flags if flags.has(Flags::SYN) => false,
            _ => self.looks_like_server(packet.from, packet.to),
        };
        let (client, server) =
            if is_from_server { (packet.to, packet.from) } else { (packet.from, packet.to) };
        self.connections += 1;
        let mut connection = Connection::new(client, server, packet.ts_ns, self.connections);
        connection.interface = packet.interface;
        connection
    }

    /// In the middle of a connection: is `a` the server rather than `b`?
    fn looks_like_server(&self, a: Endpoint, b: Endpoint) -> bool {
        const KNOWN: [u16; 14] =
            [80, 443, 8080, 8000, 8443, 8081, 3000, 5000, 9000, 9200, 3306, 5432, 6379, 27017];
        let rank = |end: Endpoint| {
            if self.options.ports.contains(&end.port) {
                4
            } else if self.servers.contains(&end) {
                3
            } else if KNOWN.contains(&end.port) {
                2
            } else {
                0
            }
        };
        match (rank(a), rank(b)) {
            (0, 0) => a.port < b.port,
            (a, b) => a > b,
        }
    }

    /// Remembers who answers connections.
    pub(crate) fn learn_server(&mut self, server: Endpoint) {
        if self.servers.len() < SERVERS_MAX {
            self.servers.insert(server);
            self.server_addresses.insert(server.address);
        }
    }

    pub(crate) fn is_server_address(&self, address: u128) -> bool {
        self.server_addresses.contains(&address)
    }

    /// The tier of a port; made when there is room.
    pub(crate) fn tier(&mut self, port: u16) -> u16 {
        if let Some(tier) = self.tier_of_port.get(&port) {
            return *tier;
        }
        if self.tiers.len() >= TIERS_MAX {
            return 0;
        }
        let number = u16::try_from(self.tiers.len()).expect("there are few");
        self.tiers.push(Tier { port, ..Tier::default() });
        self.tier_of_port.insert(port, number);
        number
    }

    #[inline]
    pub(crate) fn tier_mut(&mut self, tier: u16) -> &mut Tier {
        &mut self.tiers[usize::from(tier)]
    }

    /// The present slice of a tier.
    #[inline]
    pub(crate) fn now(&mut self, tier: u16) -> &mut Slice {
        let slice = self.slice;
        self.tiers[usize::from(tier)].slices.at(slice)
    }
}

#[cfg(test)]
mod tests;
