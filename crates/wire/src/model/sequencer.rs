//! The sequencer: everything that depends on the packet order of the whole capture. It numbers
//! requests and connections, pairs edge with upstream requests, measures arrivals, and emits rows.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

use super::event::{ClosedConnection, CompletedRequest, EventBuffer, RequestDetails, ShardEvent};
use super::exchange::{Exchange, RequestText};
use super::observed::{ObservedConnection, ObservedRequest, RequestEnd, RowSink, WireTier};
use super::pair::{OpenRequest, PairKey, RequestPairs};
use super::shard::Shard;
use super::slice::{RequestTimes, TimeSlice};
use super::tier::Tier;
use super::urls::{OTHER, UrlTable};
use super::{SHARDS, SliceGrid, TIERS_MAX};
use weir_capture::SkipCounts;
use weir_capture::packet::Endpoint;

/// A second tier must appear within this many requests to be paired.
const UNPAIRED_MAX: u64 = 10_000;
/// A wait of a second without a response is slow, however long it would have lasted.
const LEFT_US_MIN: u64 = 1_000_000;
/// Connections listed in the report.
const WORST_MAX: usize = 20;
/// Server addresses remembered.
const ADDRESSES_MAX: usize = 65_536;

pub(crate) struct Sequencer {
    pub(crate) slice_ns: i64,
    pub(crate) start_ns: i64,
    pub(crate) tiers: Vec<Tier>,
    tier_of_port: HashMap<u16, u16, BuildHasherDefault<FxHasher>>,
    pub(crate) urls: UrlTable,
    pairs: RequestPairs,
    registries: Vec<ShardRegistry>,
    server_addresses: HashSet<u128, BuildHasherDefault<FxHasher>>,
    /// Connections that did not open, by port and address of the server.
    unopened: HashMap<(u16, u128), UnopenedCount, BuildHasherDefault<FxHasher>>,
    sink: Option<Box<dyn RowSink>>,
    /// Slice of the packet whose events are processed.
    pub(crate) slice: u32,
    requests: u64,
    connections: u64,
    pub(crate) worst: Vec<ObservedConnection>,
    pub(crate) skipped: SkipCounts,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) given_up: u64,
    /// Slices removed so far.
    pub(crate) taken: u32,
}

/// Connections that were refused or ignored, and their SYNs after the first.
#[derive(Default, Clone, Copy)]
pub(crate) struct UnopenedCount {
    pub(crate) connections: u64,
    pub(crate) unopened: u64,
    pub(crate) late_syns: u64,
}

struct ShardRegistry {
    /// Tiers by the shard's local numbers.
    tiers: Vec<u16>,
    /// Requests by slot.
    requests: Vec<PendingRequest>,
    connections: Vec<u64>,
}

impl ShardRegistry {
    fn new() -> Self {
        Self { tiers: vec![0], requests: Vec::new(), connections: Vec::new() }
    }
}

#[derive(Default, Clone, Copy)]
struct PendingRequest {
    /// 0 once complete.
    number: u64,
    asked: i64,
    tier: u16,
    url: u32,
    keys: [u64; 2],
    /// Address of the server; 0 for unknown.
    server: u128,
    parent: Option<ParentRequest>,
    is_matched_by_header: bool,
    upstream: UpstreamTimes,
}

#[derive(Clone, Copy)]
struct ParentRequest {
    shard: u8,
    slot: u32,
    number: u64,
}

/// Times of the first upstream request of a request, and the number of tries.
#[derive(Default, Clone, Copy)]
struct UpstreamTimes {
    asked: i64,
    answered: [i64; 2],
    think_ns: i64,
    tries: u16,
}

/// A request that has an upstream request: when it was sent, its think time in microseconds, and whether
/// it is the first of its connection.
#[derive(Clone, Copy)]
struct SentRequest {
    sent: i64,
    think: u64,
    is_first: bool,
}

impl UpstreamTimes {
    /// Adds the upstream's part of a request's think time.
    fn add_to(&self, tier: &mut Tier, SentRequest { sent, think, is_first }: SentRequest) {
        if self.tries == 0 || self.answered[0] == 0 {
            return;
        }
        tier.with_upstream += 1;
        let stalls = if is_first { &mut tier.stall_first } else { &mut tier.stall_later };
        stalls.add(micros(self.asked - sent));
        let theirs = micros(self.think_ns);
        tier.upstream_think.add(theirs);
        tier.own_think.add(think.saturating_sub(theirs));
    }
}

/// Element at `at`, created if absent.
fn entry<T: Default + Clone>(items: &mut Vec<T>, at: u32) -> &mut T {
    let at = at as usize;
    if at >= items.len() {
        items.resize(at + 1, T::default());
    }
    &mut items[at]
}

impl Sequencer {
    pub(crate) fn new(slice_ns: i64, sink: Option<Box<dyn RowSink>>) -> Self {
        Self {
            slice_ns,
            start_ns: 0,
            // Tier 0 collects ports without a tier.
            tiers: vec![Tier::default()],
            tier_of_port: HashMap::default(),
            urls: UrlTable::default(),
            pairs: RequestPairs::default(),
            registries: (0..SHARDS).map(|_| ShardRegistry::new()).collect(),
            server_addresses: HashSet::default(),
            unopened: HashMap::default(),
            sink,
            slice: 0,
            requests: 0,
            connections: 0,
            worst: Vec::new(),
            skipped: SkipCounts::default(),
            packets: 0,
            bytes: 0,
            given_up: 0,
            taken: 0,
        }
    }

    pub(crate) fn has_sink(&self) -> bool {
        self.sink.is_some()
    }

    pub(crate) fn take(&mut self, shard: usize, out: &mut EventBuffer) {
        let EventBuffer { events, details, completed, closed, text } = out;
        let (mut details, mut completed) = (details.drain(..), completed.drain(..));
        let mut closed = closed.drain(..);
        for stamped in events.drain(..) {
            self.event(shard, stamped.event, &mut details, &mut completed, &mut closed, text);
        }
        text.clear();
    }

    /// Processes one event, taking its payload from the iterator of its kind.
    pub(crate) fn event(
        &mut self,
        shard: usize,
        event: ShardEvent,
        details: &mut impl Iterator<Item = RequestDetails>,
        completed: &mut impl Iterator<Item = CompletedRequest>,
        closed: &mut impl Iterator<Item = ClosedConnection>,
        text: &[u8],
    ) {
        match event {
            ShardEvent::Open { slot } => {
                self.connections += 1;
                *entry(&mut self.registries[shard].connections, slot) = self.connections;
            }
            ShardEvent::Tier { local, port } => {
                let tier = self.tier(port);
                *entry(&mut self.registries[shard].tiers, local.into()) = tier;
            }
            ShardEvent::Server(address) => {
                if self.server_addresses.len() < ADDRESSES_MAX {
                    self.server_addresses.insert(address);
                }
            }
            ShardEvent::Begin { slot, tier, ts } => self.begin(shard, slot, tier, ts),
            ShardEvent::Details => {
                let ask = details.next().expect("each such event comes with one");
                let (from, to) = ask.path;
                self.ask(shard, &ask, text.get(from as usize..to as usize).unwrap_or_default());
            }
            ShardEvent::Answered { slot, answered, think_ns } => {
                self.answered(shard, slot, answered, think_ns);
            }
            ShardEvent::Completed => {
                self.done(shard, completed.next().expect("each such event comes with one"))
            }
            ShardEvent::Closed => {
                let ClosedConnection { slot, mut observed } =
                    closed.next().expect("each such event comes with one");
                observed.number = *entry(&mut self.registries[shard].connections, slot);
                self.count_inner(&observed);
                self.count_unopened(&observed);
                keep_if_bad(&mut self.worst, &observed);
                if let Some(sink) = &mut self.sink {
                    sink.connection(&observed);
                }
            }
        }
    }

    /// Counts a connection that a server of this capture, or its own host, has opened.
    fn count_inner(&mut self, observed: &ObservedConnection) {
        let client = observed.client.address;
        let is_inner = client == observed.server.address || self.server_addresses.contains(&client);
        if let (true, Some(tier)) = (is_inner, self.tier_of_port.get(&observed.server.port)) {
            self.tiers[usize::from(*tier)].from_servers += 1;
        }
    }

    fn count_unopened(&mut self, observed: &ObservedConnection) {
        let key = (observed.server.port, observed.server.address);
        let is_known = self.unopened.len() < ADDRESSES_MAX || self.unopened.contains_key(&key);
        if observed.syns > 0 && observed.synacks == 0 && is_known {
            let count = self.unopened.entry(key).or_default();
            count.connections += 1;
            let is_refused = observed.rst_by.is_some();
            count.unopened += u64::from(is_refused || observed.syns > 1);
            count.late_syns += u64::from(observed.syns) - 1;
        }
    }

    /// Connections of a port to addresses that have accepted none in the capture: the SYNs that were sent
    /// again, and how many connections went to addresses that were tried once or twice, as by a scan.
    pub(crate) fn absent(&self, port: u16) -> UnopenedCount {
        const SCANNED_MAX: u64 = 2;
        let of_port = self
            .unopened
            .iter()
            .filter(|((of, address), _)| *of == port && !self.server_addresses.contains(address));
        let mut absent = UnopenedCount::default();
        for (_, count) in of_port {
            absent.late_syns += count.late_syns;
            if count.connections <= SCANNED_MAX {
                absent.connections += count.connections;
                absent.unopened += count.unopened;
            }
        }
        absent
    }

    /// Tier of a port, created unless the limit is reached.
    fn tier(&mut self, port: u16) -> u16 {
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

    pub(super) fn grid(&self) -> SliceGrid {
        SliceGrid { start_ns: self.start_ns, width_ns: self.slice_ns }
    }

    fn slice_of(&self, ts: i64) -> u32 {
        u32::try_from((ts - self.start_ns).max(0) / self.slice_ns).unwrap_or(0).min(self.slice)
    }

    fn begin(&mut self, shard: usize, slot: u32, tier: u16, ts: i64) {
        self.requests += 1;
        let slice = self.slice_of(ts);
        let registry = &mut self.registries[shard];
        let tier = registry.tiers[usize::from(tier)];
        let number = self.requests;
        let record =
            PendingRequest { number, asked: ts, tier, url: OTHER, ..PendingRequest::default() };
        *entry(&mut registry.requests, slot) = record;
        let tier = &mut self.tiers[usize::from(tier)];
        tier.requests += 1;
        let slice = tier.slices.at(slice);
        slice.arrivals += 1;
        tier.rhythm.arrive(ts, slice, ts - self.start_ns);
    }

    fn ask(&mut self, shard: usize, ask: &RequestDetails, path: &[u8]) {
        let url = self.urls.number(path, ask.hash);
        // Pairing costs as much as the rest of a request: skip it while only one tier exists.
        let has_tiers = self.tiers.len() > 2 || self.requests < UNPAIRED_MAX;
        let record = entry(&mut self.registries[shard].requests, ask.slot);
        (record.url, record.server) = (url, ask.server);
        if !has_tiers {
            return;
        }
        let (number, tier) = (record.number, record.tier);
        let by_header = self.pairs.parent(PairKey(ask.keys[0]), tier, ask.client);
        let parent =
            by_header.or_else(|| self.pairs.parent(PairKey(ask.keys[1]), tier, ask.client));
        record.keys = ask.keys;
        record.is_matched_by_header = by_header.is_some();
        record.parent = parent.map(|open| ParentRequest {
            shard: open.shard,
            slot: open.slot,
            number: open.number,
        });
        let asked = record.asked;
        if let Some(parent) = record.parent.and_then(|parent| self.under_way(parent)) {
            if parent.upstream.tries == 0 {
                parent.upstream.asked = asked;
            }
            parent.upstream.tries += 1;
        }
        let shard = u8::try_from(shard).expect("there are few shards");
        let open = OpenRequest {
            shard,
            slot: ask.slot,
            number,
            tier,
            server: ask.server,
            is_taken: false,
        };
        for key in ask.keys.into_iter().filter(|key| *key != 0) {
            self.pairs.open(PairKey(key), open);
        }
    }

    /// The request, if still in flight.
    fn under_way(&mut self, parent: ParentRequest) -> Option<&mut PendingRequest> {
        let record =
            self.registries[usize::from(parent.shard)].requests.get_mut(parent.slot as usize)?;
        (record.number == parent.number).then_some(record)
    }

    fn answered(&mut self, shard: usize, slot: u32, answered: [i64; 2], think_ns: i64) {
        let PendingRequest { tier, parent, .. } =
            *entry(&mut self.registries[shard].requests, slot);
        let tier = &mut self.tiers[usize::from(tier)];
        tier.responses += 1;
        tier.rhythm.answer([answered[0] - think_ns, answered[0]]);
        if let Some(parent) = parent.and_then(|parent| self.under_way(parent)) {
            parent.upstream.answered = answered;
            parent.upstream.think_ns += think_ns.max(0);
        }
    }

    /// Counts a completed request, emits its row and forgets it.
    fn done(&mut self, shard: usize, done: CompletedRequest) {
        let record = std::mem::take(entry(&mut self.registries[shard].requests, done.slot));
        for key in record.keys.into_iter().filter(|key| *key != 0) {
            self.pairs.close(PairKey(key), record.number);
        }
        self.count(&record, &done);
        if let Some(ends) = &done.ends {
            self.show(shard, &record, &done, **ends);
        }
    }

    fn count(&mut self, record: &PendingRequest, done: &CompletedRequest) {
        let exchange = &done.exchange;
        let ([asked, sent], [first, last]) = (exchange.asked, exchange.answered);
        let (began, ended) = (self.slice_of(asked), self.slice_of(last));
        let grid = self.grid();
        let tier = &mut self.tiers[usize::from(record.tier)];
        tier.with_parent += u64::from(record.parent.is_some());
        let is_unanswered = match done.end {
            RequestEnd::Unseen => {
                tier.unseen += 1;
                false
            }
            // A command that waits for news may wait when its client leaves.
            RequestEnd::Reset | RequestEnd::Closed | RequestEnd::Unanswered => {
                !exchange.has_own_pace
            }
            RequestEnd::Ok | RequestEnd::Cut => false,
        };
        tier.unanswered += u64::from(is_unanswered);
        tier.unfinished += u64::from(is_unanswered && done.end == RequestEnd::Unanswered);
        tier.truncated += u64::from(exchange.is_truncated);
        tier.doubtful += u64::from(exchange.is_doubtful);
        tier.slices.at(began).unanswered += u32::from(is_unanswered || exchange.is_truncated);
        tier.upload.add(micros(sent - asked));
        if first == 0 {
            return count_left(tier, record, exchange);
        }
        let think = micros(first - sent);
        let times = RequestTimes {
            think: (!exchange.has_own_pace).then_some(think),
            transfer: micros(last - first),
            total: micros(last - asked),
        };
        let RequestTimes { transfer, total, .. } = times;
        let is_error = exchange.is_failure();
        tier.errors_5xx += u64::from(is_error);
        tier.rejected += u64::from(matches!(exchange.status, 408 | 429));
        if let Some(think) = times.think {
            tier.add_think(think, exchange.order == 1, record.server);
        }
        if !exchange.is_stream {
            tier.transfer.add(transfer);
            tier.client_wait_us += micros(exchange.client_wait_ns);
            tier.server_pause_us += micros(exchange.server_pause_ns);
        }
        tier.total.add(total);
        let is_first = exchange.order == 1;
        record.upstream.add_to(tier, SentRequest { sent, think, is_first });
        let url = tier.urls.entry(record.url).or_default();
        url.requests += 1;
        url.streams += u64::from(exchange.is_stream);
        url.errors_5xx += u64::from(is_error);
        url.total.add(total);
        let slice = tier.slices.at(began);
        slice.time(times);
        if let Some(think) = times.think {
            url.add_think(think, is_first);
            slice.think_of(is_first, think);
        }
        slice.has_late |= asked < grid.start_ns;
        let slice = tier.slices.at(ended);
        slice.completions += 1;
        slice.errors_5xx += u32::from(is_error);
        let (slices, idle) = (&mut tier.slices, &mut tier.idle);
        grid.each_slice(asked..last, |slice, ns| slices.at(slice).weighted_ns += ns);
        idle.fill(asked..last, &mut |gap| {
            grid.each_slice(gap, |slice, ns| slices.at(slice).idle_ns += ns);
        });
    }

    fn show(
        &mut self,
        shard: usize,
        record: &PendingRequest,
        done: &CompletedRequest,
        [client, server]: [Endpoint; 2],
    ) {
        let exchange = &done.exchange;
        let is_local = client.address == server.address;
        let is_from_server = !is_local && self.server_addresses.contains(&client.address);
        let none = RequestText::default();
        let text = exchange.text.as_deref().unwrap_or(&none);
        let is_upstream = record.parent.is_some() || is_from_server;
        let connection = *entry(&mut self.registries[shard].connections, done.connection);
        let Some(sink) = &mut self.sink else { return };
        sink.request(&ObservedRequest {
            number: record.number,
            connection,
            order: exchange.order,
            tier: if is_upstream { WireTier::Upstream } else { WireTier::Edge },
            client,
            server,
            protocol: done.protocol,
            method: &text.method,
            host: &text.host,
            target: &text.target,
            request_id: &text.request_id,
            template: self.urls.name(record.url),
            status: Some(exchange.status).filter(|status| *status != 0),
            error: error_code(exchange),
            asked: exchange.asked,
            answered: Some(exchange.answered).filter(|answered| answered[0] != 0),
            acknowledged: done.acknowledged,
            request_bytes: exchange.request_bytes,
            response_bytes: exchange.response_bytes,
            request_retransmits: exchange.request_retransmits,
            response_retransmits: exchange.response_retransmits,
            spurious: exchange.spurious,
            interim: exchange.interim,
            parent: record.parent.map(|parent| parent.number),
            is_matched_by_header: record.is_matched_by_header,
            is_cut: exchange.is_cut,
            end: done.end,
        });
    }

    /// Merges slices of a shard; tiers have the shard's local numbers.
    pub(crate) fn add_slices(
        &mut self,
        shard: usize,
        slices: impl IntoIterator<Item = (u16, u32, Box<TimeSlice>)>,
    ) {
        for (local, number, slice) in slices {
            let tier = self.registries[shard].tiers[usize::from(local)];
            self.tiers[usize::from(tier)].slices.at(number).merge(*slice);
        }
    }

    /// Ends a block: seals old slices.
    pub(crate) fn end_block(&mut self, slice: u32) {
        for tier in &mut self.tiers {
            tier.slices.seal_old(slice, self.slice_ns);
        }
    }

    pub(crate) fn absorb(&mut self, number: usize, shard: &mut Shard) {
        let context = &mut shard.context;
        self.skipped.merge(&std::mem::take(&mut context.skipped));
        self.packets += std::mem::take(&mut context.packets);
        self.bytes += std::mem::take(&mut context.bytes);
        self.given_up += std::mem::take(&mut context.given_up);
        for (local, part) in context.parts.iter_mut().enumerate() {
            let tier = self.registries[number].tiers[local];
            let transport = std::mem::take(&mut part.transport);
            self.tiers[usize::from(tier)].transport.merge(&transport);
        }
    }

    /// Tier of the shard's local number `local`.
    pub(crate) fn tier_of(&mut self, shard: usize, local: u16) -> &mut Tier {
        let tier = self.registries[shard].tiers[usize::from(local)];
        &mut self.tiers[usize::from(tier)]
    }

    /// Forgets the templates, including those of requests in flight.
    pub(crate) fn forget_urls(&mut self) {
        self.urls = UrlTable::default();
        let requests = self.registries.iter_mut().flat_map(|registry| &mut registry.requests);
        requests.for_each(|record| record.url = OTHER);
    }

    pub(crate) fn flush(&mut self) {
        if let Some(sink) = &mut self.sink {
            sink.flush();
        }
    }

    /// Ends the capture; seals the remaining slices on up to `threads` threads.
    pub(crate) fn end(&mut self, threads: usize) {
        let grid = self.grid();
        let tiers = &mut self.tiers;
        for tier in tiers.iter_mut() {
            let Tier { slices, idle, .. } = tier;
            idle.drain(&mut |gap| {
                grid.each_slice(gap, |slice, ns| slices.at(slice).idle_ns += ns);
            });
        }
        let mut open: Vec<&mut TimeSlice> =
            tiers.iter_mut().flat_map(|tier| tier.slices.all()).collect();
        let share = open.len().div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let mut shares = open.chunks_mut(share);
            let own = shares.next();
            for share in shares {
                scope.spawn(|| seal(share));
            }
            own.map(seal)
        });
        // The sink flushes when dropped.
        self.sink = None;
    }
}

fn seal(slices: &mut [&mut TimeSlice]) {
    slices.iter_mut().for_each(|slice| {
        slice.seal();
    });
}

/// Counts the wait for a response that never came: it would have lasted longer still.
fn count_left(tier: &mut Tier, record: &PendingRequest, exchange: &Exchange) {
    let waited = micros(exchange.left - exchange.asked[1]);
    if waited >= LEFT_US_MIN && !exchange.has_own_pace {
        let is_first = exchange.order == 1;
        tier.add_think(waited, is_first, record.server);
        tier.urls.entry(record.url).or_default().give_up(waited, is_first);
    }
}

fn error_code(exchange: &Exchange) -> &str {
    let end = exchange.error.iter().position(|byte| *byte == 0).unwrap_or(exchange.error.len());
    std::str::from_utf8(&exchange.error[..end]).unwrap_or_default()
}

/// Microseconds, at least 0.
fn micros(ns: i64) -> u64 {
    u64::try_from(ns / 1000).unwrap_or(0)
}

/// How bad a connection was, in microseconds: waits count as they are, a real retransmit as the
/// minimum RTO, a broken request most.
fn badness(observed: &ObservedConnection) -> u64 {
    let real = observed.retransmits[1].saturating_sub(observed.spurious[1]);
    u64::from(observed.syn_wait_us.unwrap_or(0))
        + u64::from(observed.zero_window_us[0])
        + u64::from(observed.delay_max_us.unwrap_or(0))
        + 200_000 * u64::from(real)
        + if observed.is_rst_in_flight || observed.late_requests > 0 { 5_000_000 } else { 0 }
}

fn keep_if_bad(worst: &mut Vec<ObservedConnection>, observed: &ObservedConnection) {
    let bad = badness(observed);
    if bad < 100_000 || (worst.len() == WORST_MAX && bad <= badness(&worst[WORST_MAX - 1])) {
        return;
    }
    let at = worst.partition_point(|other| badness(other) >= bad);
    worst.insert(at, *observed);
    worst.truncate(WORST_MAX);
}
