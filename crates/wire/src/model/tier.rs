//! One server port: its counters and distributions.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

use super::slice::{IdleGaps, SLOW_US, TierSlices, TimeSlice, add_fields};
use super::urls::UrlStats;
use crate::flow::Protocol;
use crate::histogram::{CoarseHistogram, FineHistogram};

/// Servers of one port that are told apart.
const SERVERS_MAX: usize = 64;

/// Totals and distributions; histograms are in microseconds.
#[derive(Default)]
pub(crate) struct Tier {
    pub(crate) port: u16,
    pub(crate) slices: TierSlices,
    pub(crate) idle: IdleGaps,
    pub(crate) urls: HashMap<u32, UrlStats, BuildHasherDefault<FxHasher>>,
    pub(crate) transport: TransportCounters,
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    /// Requests whose response the client has and the capture lacks.
    pub(crate) unseen: u64,
    pub(crate) unanswered: u64,
    /// Responses that the server broke off.
    pub(crate) truncated: u64,
    /// Requests whose only answer may be tickets.
    pub(crate) doubtful: u64,
    pub(crate) errors_5xx: u64,
    /// Responses with status 408 or 429.
    pub(crate) rejected: u64,
    pub(crate) client_wait_us: u64,
    /// Pauses of servers within responses that waited for nothing the tap can see.
    pub(crate) server_pause_us: u64,
    /// Think time of the requests with a slow answer.
    pub(crate) slow_think_us: u64,
    pub(crate) servers: HashMap<u128, CoarseHistogram, BuildHasherDefault<FxHasher>>,
    pub(crate) with_parent: u64,
    pub(crate) with_upstream: u64,
    /// Connections whose client is a server of this capture.
    pub(crate) from_servers: u64,
    /// Requests that were in flight when the capture ended.
    pub(crate) unfinished: u64,
    pub(crate) think: FineHistogram,
    pub(crate) think_first: FineHistogram,
    pub(crate) think_later: FineHistogram,
    /// First to last byte of the request.
    pub(crate) upload: FineHistogram,
    pub(crate) transfer: FineHistogram,
    pub(crate) total: FineHistogram,
    /// From the request's last byte to the first byte of the upstream request, for the first
    /// request of a connection.
    pub(crate) stall_first: FineHistogram,
    pub(crate) stall_later: FineHistogram,
    /// Part of `think` that the upstream does not explain.
    pub(crate) own_think: FineHistogram,
    pub(crate) upstream_think: FineHistogram,
    pub(crate) rhythm: ArrivalPattern,
}

impl Tier {
    /// Adds the think time of a request to a server; address 0 for unknown.
    pub(crate) fn add_think(&mut self, think_us: u64, is_first: bool, server: u128) {
        self.think.add(think_us);
        let by_order = if is_first { &mut self.think_first } else { &mut self.think_later };
        by_order.add(think_us);
        self.slow_think_us += if think_us >= SLOW_US { think_us } else { 0 };
        let is_known = self.servers.len() < SERVERS_MAX || self.servers.contains_key(&server);
        if server != 0 && is_known {
            self.servers.entry(server).or_default().add(think_us);
        }
    }

    /// Whether anything happened at the port.
    pub(crate) fn is_used(&self) -> bool {
        self.requests > 0 || self.transport.connections > 0
    }

    /// Whether most of its requests were made for requests of another tier.
    pub(crate) fn is_upstream(&self) -> bool {
        self.requests > 0 && 2 * self.with_parent >= self.requests
    }
}

/// TCP counters of one server port: each connection adds to them alone, so partial sums add up.
#[derive(Default)]
pub(crate) struct TransportCounters {
    /// Responses to requests that the capture lacks.
    pub(crate) unasked: u64,
    pub(crate) connections: u64,
    /// Connections of which the tap saw one direction only.
    pub(crate) one_sided: u64,
    /// Further paths of connections of Multipath TCP.
    pub(crate) subflows: u64,
    /// Connections, here or in earlier parts, that turned out to belong to another port.
    pub(crate) mistaken: u64,
    pub(crate) speaking: [u64; Protocol::COUNT],
    /// Connections that the server refused, or whose SYNs it never answered.
    pub(crate) unopened: u64,
    /// Connections that ended within the TLS handshake.
    pub(crate) failed_handshakes: u64,
    /// Connections whose client left within the handshake without an alert.
    pub(crate) left_handshakes: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) syns: u64,
    pub(crate) late_syns: u64,
    /// SYN-ACKs sent again although the client's request was there.
    pub(crate) late_accepts: u64,
    /// Handshakes that needed a second SYN-ACK.
    pub(crate) lost_synacks: u64,
    pub(crate) synack_retries: u64,
    pub(crate) resets_in_flight: u64,
    pub(crate) races: u64,
    /// Requests after the server's FIN, however late.
    pub(crate) after_fin: u64,
    pub(crate) client: SideCounters,
    pub(crate) server: SideCounters,
    pub(crate) missed_by_tap: u64,
    pub(crate) stamped_connections: u64,
    pub(crate) connect: FineHistogram,
    /// From the client's first TLS record to the server's, beyond the time of the connect.
    pub(crate) hello: FineHistogram,
    pub(crate) rtt: FineHistogram,
    pub(crate) delay: FineHistogram,
    /// Delay variation of the server's packets, on some connections.
    pub(crate) server_delay: FineHistogram,
}

impl TransportCounters {
    /// Merges the counters of a part; the parts of a shard come in order.
    pub(crate) fn merge(&mut self, other: &Self) {
        add_fields!(
            self, other;
            unasked, connections, one_sided, subflows, packets, bytes, syns, late_syns, late_accepts,
            lost_synacks, unopened, failed_handshakes, left_handshakes, synack_retries, resets_in_flight, races,
            after_fin, missed_by_tap, stamped_connections
        );
        // Fewer are left only where totals were halved.
        self.connections = self.connections.saturating_sub(other.mistaken);
        self.speaking.iter_mut().zip(other.speaking).for_each(|(mine, theirs)| *mine += theirs);
        self.client.merge(&other.client);
        self.server.merge(&other.server);
        self.connect.merge(&other.connect);
        self.hello.merge(&other.hello);
        self.rtt.merge(&other.rtt);
        self.delay.merge(&other.delay);
        self.server_delay.merge(&other.server_delay);
    }
}

#[derive(Default, Clone, Copy)]
pub(crate) struct SideCounters {
    pub(crate) packets: u64,
    pub(crate) data_packets: u64,
    pub(crate) retransmits: u64,
    /// Retransmits too late to be explained by packets held in the network.
    pub(crate) late_retransmits: u64,
    pub(crate) spurious: u64,
    pub(crate) filled: u64,
    /// Holes filled no sooner than a retransmit could arrive: lost before the tap, not reordered.
    pub(crate) refilled: u64,
    /// Packets with a usable identification.
    pub(crate) identified: u64,
    pub(crate) missing: u64,
    pub(crate) zero_windows: u64,
    pub(crate) zero_window_us: u64,
}

impl SideCounters {
    fn merge(&mut self, other: &Self) {
        add_fields!(
            self, other;
            packets, data_packets, retransmits, late_retransmits, spurious, filled, refilled,
            identified, missing, zero_windows, zero_window_us
        );
    }
}

#[derive(Default)]
pub(crate) struct ArrivalPattern {
    pub(crate) last: i64,
    /// Number and count of the open bins of 10 ms and 100 ms.
    bins: [(i64, u64); 2],
    /// Sum of squares of arrivals per 100 ms.
    squares: u64,
    pub(crate) seconds: Vec<u32>,
    pub(crate) pauses: Vec<ArrivalPause>,
    /// Answers since the last arrival that came a pause after it.
    waiting: u32,
}

/// A time without arrivals.
pub(crate) struct ArrivalPause {
    /// The last arrival before it.
    start: i64,
    gap: i64,
    /// Arrivals in the 200 ms after it.
    burst: u32,
    /// Requests from before it that were answered late in it or after it: the server stood still.
    waited: u32,
}

/// Widths of the bins in which arrivals are counted.
pub(crate) const BIN_NS: [i64; 2] = [10_000_000, 100_000_000];
/// Shorter pauses are normal.
const PAUSE_NS: i64 = 100_000_000;
const BURST_NS: i64 = 200_000_000;
/// Pauses remembered; far more than a verdict needs.
const PAUSES_MAX: usize = 10_000;
/// Seconds counted: a bit more than a day.
const SECONDS_MAX: usize = 100_000;

impl ArrivalPattern {
    /// An empty pattern that remembers the last arrival, so that the next pause is measured in
    /// full.
    pub(crate) fn restarted(&self) -> Self {
        Self { last: self.last, ..Self::default() }
    }

    /// Adds an arrival in `slice`, `since` nanoseconds after the capture's start.
    pub(crate) fn arrive(&mut self, ts: i64, slice: &mut TimeSlice, since: i64) {
        for (at, width) in BIN_NS.into_iter().enumerate() {
            let bin = ts.div_euclid(width);
            let (open, count) = &mut self.bins[at];
            if *open != bin {
                (*open, *count) = (bin, 0);
            }
            // n² as a sum of odd numbers: no need to close a bin.
            slice.squares[at] += 2 * *count + 1;
            *count += 1;
        }
        self.squares += 2 * self.bins[1].1 - 1;
        let second = usize::try_from(since / 1_000_000_000).unwrap_or(0);
        if second < SECONDS_MAX {
            if second >= self.seconds.len() {
                self.seconds.resize(second + 1, 0);
            }
            self.seconds[second] += 1;
        }
        let (start, gap) = (self.last, ts - self.last);
        let waited = std::mem::take(&mut self.waiting);
        if start != 0 && gap >= PAUSE_NS && self.pauses.len() < PAUSES_MAX {
            self.pauses.push(ArrivalPause { start, gap, burst: 0, waited });
        }
        if let Some(pause) = self.pauses.last_mut()
            && ts <= pause.start + pause.gap + BURST_NS
        {
            pause.burst += 1;
        }
        self.last = self.last.max(ts);
    }

    /// Notes that a request sent at `sent` is answered at `ts`.
    pub(crate) fn answer(&mut self, [sent, ts]: [i64; 2]) {
        if sent <= self.last && ts >= self.last + PAUSE_NS {
            self.waiting += 1;
        } else if let Some(pause) = self.pauses.last_mut()
            && sent <= pause.start
            && ts >= pause.start + PAUSE_NS
            && ts <= pause.start + pause.gap + BURST_NS
        {
            pause.waited += 1;
        }
    }

    /// Index of dispersion (variance / mean) of arrivals per 100 ms.
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    pub(crate) fn dispersion_100ms(&self, requests: u64, seconds: f64) -> Option<f64> {
        let bins = seconds * 10.0;
        let mean = requests as f64 / bins;
        (bins >= 3.0 && requests > 0).then(|| (self.squares as f64 / bins - mean * mean) / mean)
    }

    /// Index of dispersion of arrivals per second, without the first and last second, which are
    /// partial.
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    pub(crate) fn dispersion(&self) -> Option<f64> {
        let whole = self.seconds.get(1..self.seconds.len().checked_sub(1)?)?;
        let count = whole.len() as f64;
        let sum: u64 = whole.iter().map(|n| u64::from(*n)).sum();
        let squares: u64 = whole.iter().map(|n| u64::from(*n).pow(2)).sum();
        if whole.len() < 3 || sum == 0 {
            return None;
        }
        let mean = sum as f64 / count;
        Some((squares as f64 / count - mean * mean) / mean)
    }

    /// Number of pauses in which at least 20 requests were due and that were followed by three
    /// times the usual rate; and the longest, ns. A pause in which clients waited for answers is the
    /// server's.
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    pub(crate) fn cycles(&self, rate: f64) -> (u64, i64) {
        let cycles = self.pauses.iter().filter(|pause| {
            pause.gap as f64 / 1e9 * rate >= 20.0
                && f64::from(pause.burst) >= 3.0 * rate * 0.2
                && 2 * pause.waited < pause.burst
        });
        cycles.fold((0, 0), |(count, longest), pause| (count + 1, longest.max(pause.gap)))
    }
}
