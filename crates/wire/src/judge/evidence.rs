//! The evidence of a tier: every number that the rules use.

use super::thresholds::{IDENTIFIED_MIN, REFILLED_MIN};
use crate::histogram::Histogram;
use crate::model::{SideCounters, Tier, TransportCounters, UnopenedCount};

macro_rules! evidence {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        /// Evidence of one tier; milliseconds and ratios. Each field is in the JSON output under its
        /// name.
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        pub struct Evidence {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl Evidence {
            /// Names and values, for JSON and rows.
            #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
            pub fn fields(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($name), self.$name as f64),)*]
            }
        }
    };
}

evidence! {
    /// SYNs of all connections.
    syns: u64,
    /// SYNs retransmitted at least 0.8 s after the first, without a SYN-ACK in between.
    late_syns: u64,
    /// SYN-ACKs sent again although the client's request was there.
    late_accepts: u64,
    /// Handshakes that needed a second SYN-ACK.
    lost_synacks: u64,
    /// Share of connections that the server refused, did not answer, or that ended within the TLS
    /// handshake.
    unopened_ratio: f64,
    /// Share of connections whose client left within the TLS handshake without an alert.
    left_handshake_ratio: f64,
    /// Retransmitted SYN-ACKs: the SYN-ACK or the client's ACK was lost.
    synack_retries: u64,
    /// p99 of the time from the first SYN to the SYN-ACK.
    connect_ms_p99: f64,
    /// Resets by the server while a request waited.
    resets_in_flight: u64,
    /// Requests after the server's FIN, however late.
    requests_after_fin: u64,
    /// Requests that crossed the server's close: after its FIN, or reset on an idle connection.
    races: u64,
    /// Data segments of the server.
    data_packets: u64,
    /// Retransmitted data segments of the server.
    retransmits: u64,
    /// Spurious ones among `retransmits`, reported by DSACK.
    spurious: u64,
    /// Client segments retransmitted at least 150 ms later, without those reported as duplicates.
    client_retransmits: u64,
    /// Loss between tap and receiver, of the data segments.
    loss_after_ratio: f64,
    /// Loss between client and tap, by IP identification, without what the tap itself lost;
    /// negative: unusable.
    loss_before_ratio: f64,
    /// Holes filled at least a round trip later: lost before the tap, whatever identifications
    /// show.
    refilled: u64,
    /// Data segments that the receiver acknowledged and the tap never saw, of all.
    missed_by_tap_ratio: f64,
    /// One-way delay variation of the clients' packets.
    delay_ms_p50: f64,
    /// See `delay_ms_p50`.
    delay_ms_p95: f64,
    /// See `delay_ms_p50`.
    delay_ms_max: f64,
    /// Maximum of the one-way delay variation of the servers' packets, on some connections: only the
    /// tap makes both sides late.
    server_delay_ms_max: f64,
    /// Slices in which the p95 of the delay was high on at least ten connections.
    delayed_slices: u64,
    /// Share of connections with TCP timestamps.
    timestamp_coverage: f64,
    /// Index of dispersion of requests per second (variance / mean); 1 is a Poisson process.
    dispersion: f64,
    /// Index of dispersion per 100 ms.
    dispersion_100ms: f64,
    /// Pauses with at least 20 requests due, followed by three times the usual rate.
    cycles: u64,
    /// Longest pause counted in `cycles`.
    longest_pause_ms: f64,
    /// Zero-window episodes of clients.
    zero_windows: u64,
    /// Zero-window episodes of servers.
    server_zero_windows: u64,
    /// Share of the time of uploads in which clients waited for servers to read.
    server_wait_ratio: f64,
    /// First request byte to last.
    upload_ms_p95: f64,
    /// Share of transfer time in which servers paused and waited for no client.
    server_pause_ratio: f64,
    /// From the client's first TLS record to the server's, beyond the time of the connect.
    hello_ms_p95: f64,
    /// Share of transfer time in which servers waited for clients to read.
    client_wait_ratio: f64,
    /// Last request byte to first response byte.
    think_ms_p50: f64,
    /// See `think_ms_p50`.
    think_ms_p95: f64,
    /// Think time of the first requests of connections.
    think_first_ms_p95: f64,
    /// Think time of later requests.
    think_later_ms_p95: f64,
    /// First response byte to last.
    transfer_ms_p95: f64,
    /// Share of slow first requests of connections that later ones explain: those of the same time or
    /// the same URL are slow, too.
    slow_first_together_ratio: f64,
    /// Sum of the think times of at least 200 ms.
    slow_think_seconds: f64,
    /// Share of requests whose response the server broke off.
    truncated_ratio: f64,
    /// Share of requests whose only answer may be tickets and settings within TLS, until the client left or
    /// the capture ended.
    doubtful_ratio: f64,
    /// Share of requests without a response, those in flight at the end included.
    unanswered_ratio: f64,
    /// Share of requests in flight at the end of the capture.
    unfinished_ratio: f64,
    /// Share of responses with status 5xx, or with an error of a database.
    error_ratio: f64,
    /// Share of responses with status 408 or 429: the server has no capacity for the request.
    rejected_ratio: f64,
    /// Share of requests or responses that the capture lacks, of all.
    lacking_ratio: f64,
    /// Share of connections of which the capture has one direction only.
    one_sided_ratio: f64,
    /// Share of connections that are further paths of Multipath TCP.
    subflow_ratio: f64,
    /// Identifications that one side skipped without a hole in its sequence numbers: no loss.
    skipped_ids_ratio: f64,
    /// Share of requests whose upstream request is in the capture.
    upstream_coverage: f64,
    /// Think time of the upstream.
    upstream_think_ms_p95: f64,
    /// Part of the tier's think time that the upstream does not explain.
    own_think_ms_p95: f64,
    /// Last request byte to the first byte of the upstream request, for the first request of a
    /// connection.
    stall_first_ms_p95: f64,
    /// Last request byte to the first byte of the upstream request, for later requests of a
    /// connection.
    stall_later_ms_p95: f64,
}

#[expect(clippy::cast_precision_loss, reason = "counts and microseconds are below 2^53")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds are below 2^53")]
pub(super) fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

/// Loss behind the tap: retransmits of the server not reported as duplicates.
fn lost_after(tier: &Tier) -> f64 {
    let TransportCounters { client, server, .. } = &tier.transport;
    let to_client = ratio(server.retransmits.saturating_sub(server.spurious), server.data_packets);
    let to_server =
        ratio(client.late_retransmits.saturating_sub(client.spurious), client.data_packets);
    to_client.max(to_server)
}

/// Loss before the tap: missing identifications of one side, less the losses of the tap. Loss
/// by the tap affects both directions alike, loss on the path only one; the difference counts when
/// chance does not explain it, and when holes in the sequence numbers were filled late: other
/// packets may take identifications, too.
fn lost_before(tier: &Tier, missed_by_tap: f64) -> f64 {
    let client = missing_share(&tier.transport.client);
    let server = missing_share(&tier.transport.server);
    let refilled = refilled(&tier.transport);
    if client.is_none() && server.is_none() && refilled == 0.0 {
        return -1.0;
    }
    // Acknowledged data never seen underestimates the tap's loss: the last packets do not show.
    let tap = MissingShare { share: 1.5 * missed_by_tap, variance: 0.0 };
    let sides = &tier.transport;
    let has_holes = [sides.client.refilled > 0, sides.server.refilled > 0];
    let to_server = client.filter(|_| has_holes[0]);
    let to_client = server.filter(|_| has_holes[1]);
    let to_server = to_server.and_then(|own| own.beyond(server.unwrap_or(tap))).unwrap_or(0.0);
    let to_client = to_client.and_then(|own| own.beyond(client.unwrap_or(tap))).unwrap_or(0.0);
    to_server.max(to_client).max(refilled)
}

/// Share of identifications that the client skipped while its sequence numbers had no hole.
fn skipped_ids(tier: &Tier) -> f64 {
    let client = &tier.transport.client;
    if client.refilled > 0 { 0.0 } else { missing_share(client).map_or(0.0, |own| own.share) }
}

/// Share of slow first requests that are as frequent as slow later ones, by time or by URL. A URL
/// that has no later requests explains its own.
fn slow_first_together(tier: &Tier) -> f64 {
    let slices = tier.slices.iter().filter(|slice| slice.later > 0);
    let by_time = slices.map(|slice| {
        let (first, later) = ([slice.first, slice.slow_first], [slice.later, slice.slow_later]);
        (first.map(u64::from), later.map(u64::from))
    });
    let by_url = tier.urls.values().map(|url| (url.first, url.later));
    explained(by_time).max(explained(by_url))
}

/// Of counts and slow ones of first and of later requests, the share of slow first ones that the
/// share of slow later ones lets expect, with a factor of two.
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn explained(groups: impl Iterator<Item = ([u64; 2], [u64; 2])>) -> f64 {
    let (mut slow, mut expected) = (0, 0.0);
    for ([first, slow_first], [later, slow_later]) in groups {
        let share = if later == 0 { 1.0 } else { ratio(slow_later, later) };
        slow += slow_first;
        expected += (2.0 * share * first as f64).min(slow_first as f64);
    }
    if slow == 0 { 0.0 } else { expected / slow as f64 }
}

/// Share of missing identifications, with its variance.
#[derive(Clone, Copy)]
struct MissingShare {
    share: f64,
    variance: f64,
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn missing_share(side: &SideCounters) -> Option<MissingShare> {
    (side.identified >= IDENTIFIED_MIN).then(|| {
        let share = ratio(side.missing, side.identified);
        MissingShare { share, variance: share / side.identified as f64 }
    })
}

impl MissingShare {
    /// The part that the tap's loss does not explain, unless it may be chance.
    fn beyond(self, tap: Self) -> Option<f64> {
        let chance = 2.5 * (self.variance + tap.variance).sqrt();
        Some(self.share - tap.share).filter(|lost| tap.share == 0.0 || *lost >= chance)
    }
}

/// Share of holes filled late, of one side's data: with several segments in flight, loss shows
/// without identifications. Loss by the tap does not, since it is never retransmitted.
fn refilled(transport: &TransportCounters) -> f64 {
    late_holes(&transport.client).max(late_holes(&transport.server))
}

fn late_holes(side: &SideCounters) -> f64 {
    if side.refilled >= REFILLED_MIN { ratio(side.refilled, side.data_packets) } else { 0.0 }
}

pub(super) fn quantile_ms<const BITS: u32>(histogram: &Histogram<BITS>, ratio: f64) -> f64 {
    ms(histogram.quantile(ratio).unwrap_or(0))
}

impl Evidence {
    pub(super) fn of(tier: &Tier, seconds: f64) -> Self {
        let transport = &tier.transport;
        let data = transport.client.data_packets + transport.server.data_packets;
        let missed_by_tap_ratio = ratio(transport.missed_by_tap, data);
        #[expect(clippy::cast_precision_loss, reason = "requests are below 2^53")]
        let rate = tier.requests as f64 / seconds.max(0.001);
        let (cycles, longest) = tier.rhythm.cycles(rate);
        let wait_us = tier.client_wait_us + transport.client.zero_window_us;
        Self {
            data_packets: transport.server.data_packets,
            retransmits: transport.server.retransmits,
            spurious: transport.server.spurious,
            client_retransmits: transport
                .client
                .late_retransmits
                .saturating_sub(transport.client.spurious),
            loss_after_ratio: lost_after(tier),
            loss_before_ratio: lost_before(tier, missed_by_tap_ratio),
            refilled: transport.client.refilled + transport.server.refilled,
            missed_by_tap_ratio,
            delay_ms_p50: quantile_ms(&transport.delay, 0.5),
            delay_ms_p95: quantile_ms(&transport.delay, 0.95),
            delay_ms_max: ms(transport.delay.max()),
            server_delay_ms_max: ms(transport.server_delay.max()),
            delayed_slices: 0,
            timestamp_coverage: ratio(transport.stamped_connections, transport.connections),
            dispersion: tier.rhythm.dispersion().unwrap_or(0.0),
            dispersion_100ms: tier.rhythm.dispersion_100ms(tier.requests, seconds).unwrap_or(0.0),
            cycles,
            longest_pause_ms: ms(u64::try_from(longest / 1000).unwrap_or(0)),
            zero_windows: transport.client.zero_windows,
            server_zero_windows: transport.server.zero_windows,
            server_wait_ratio: ratio(transport.server.zero_window_us, tier.upload.sum()).min(1.0),
            upload_ms_p95: quantile_ms(&tier.upload, 0.95),
            server_pause_ratio: ratio(tier.server_pause_us, tier.transfer.sum()).min(1.0),
            hello_ms_p95: quantile_ms(&transport.hello, 0.95),
            client_wait_ratio: ratio(wait_us, tier.transfer.sum()).min(1.0),
            think_ms_p50: quantile_ms(&tier.think, 0.5),
            think_ms_p95: quantile_ms(&tier.think, 0.95),
            think_first_ms_p95: quantile_ms(&tier.think_first, 0.95),
            think_later_ms_p95: quantile_ms(&tier.think_later, 0.95),
            transfer_ms_p95: quantile_ms(&tier.transfer, 0.95),
            upstream_coverage: ratio(tier.with_upstream, tier.requests),
            upstream_think_ms_p95: quantile_ms(&tier.upstream_think, 0.95),
            own_think_ms_p95: quantile_ms(&tier.own_think, 0.95),
            stall_first_ms_p95: quantile_ms(&tier.stall_first, 0.95),
            stall_later_ms_p95: quantile_ms(&tier.stall_later, 0.95),
            slow_first_together_ratio: slow_first_together(tier),
            slow_think_seconds: ms(tier.slow_think_us) / 1000.0,
            truncated_ratio: ratio(tier.truncated, tier.requests),
            doubtful_ratio: ratio(tier.doubtful, tier.requests),
            unanswered_ratio: ratio(tier.unanswered, tier.requests),
            unfinished_ratio: ratio(tier.unfinished, tier.requests),
            error_ratio: ratio(tier.errors_5xx, tier.responses),
            rejected_ratio: ratio(tier.rejected, tier.responses),
            lacking_ratio: ratio(
                tier.unseen + transport.unasked,
                tier.requests + transport.unasked,
            ),
            one_sided_ratio: ratio(transport.one_sided, transport.connections),
            subflow_ratio: ratio(transport.subflows, transport.connections),
            skipped_ids_ratio: skipped_ids(tier),
            ..Self::of_connections(transport)
        }
    }

    /// Leaves out what went to addresses without a server: their accept queues are not full, and a scan of
    /// many addresses is no failure of one.
    pub(super) fn leave_out(&mut self, absent: UnopenedCount, transport: &TransportCounters) {
        self.late_syns = self.late_syns.saturating_sub(absent.late_syns);
        let unopened = transport.unopened.saturating_sub(absent.unopened);
        let connections = transport.connections.saturating_sub(absent.connections);
        self.unopened_ratio = ratio(unopened + transport.failed_handshakes, connections);
    }

    /// How connections open and close.
    fn of_connections(transport: &TransportCounters) -> Self {
        let unopened = transport.unopened + transport.failed_handshakes;
        Self {
            syns: transport.syns,
            late_syns: transport.late_syns,
            late_accepts: transport.late_accepts,
            lost_synacks: transport.lost_synacks,
            unopened_ratio: ratio(unopened, transport.connections),
            left_handshake_ratio: ratio(transport.left_handshakes, transport.connections),
            synack_retries: transport.synack_retries,
            connect_ms_p99: quantile_ms(&transport.connect, 0.99),
            resets_in_flight: transport.resets_in_flight,
            requests_after_fin: transport.after_fin,
            races: transport.races,
            ..Self::default()
        }
    }
}
