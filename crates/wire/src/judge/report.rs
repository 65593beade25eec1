//! The report of a finished capture.

use super::connection_rules::ServerTimes;
use super::evidence::{Evidence, ms, quantile_ms, ratio};
use super::owner::overall;
use super::rules::{DelayVerdict, JudgeInput, RequestFraming, judge};
use super::thresholds as limit;
use super::url_report::UrlReport;
use super::usl::{self, UslResult};
use crate::flow::Protocol;
use crate::histogram::Histogram;
use crate::model::{
    Admission, BIN_NS, Model, ObservedConnection, Sequencer, SliceQuantiles, Tier, TimeSlice,
};
use weir_capture::SkipCounts;
use weir_capture::packet::Endpoint;

/// Result of a capture.
#[derive(Debug, Clone)]
pub struct Report {
    /// Cause of the delay over all tiers.
    pub verdict: DelayVerdict,
    /// The evidence in one sentence.
    pub why: String,
    /// First and last packet, ns since 1970.
    pub span_ns: Option<[i64; 2]>,
    /// Width of a slice, ns.
    pub slice_ns: i64,
    /// TCP packets used.
    pub packets: u64,
    /// Payload bytes of these packets.
    pub bytes: u64,
    /// Packets skipped, by reason.
    pub skipped: SkipCounts,
    /// Packets that the tap reports as lost.
    pub tap_drops: Option<u64>,
    /// Connections evicted because of the limit.
    pub given_up: u64,
    /// Server ports, busiest first.
    pub tiers: Vec<TierReport>,
    /// Connections that waited longest or broke, worst first.
    pub worst: Vec<ObservedConnection>,
}

/// Microseconds; `None` when nothing was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// The median.
    pub p50: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Maximum.
    pub max: u64,
}

impl Quantiles {
    fn of<const BITS: u32>(histogram: &Histogram<BITS>) -> Option<Self> {
        Some(Self {
            count: histogram.count(),
            p50: histogram.quantile(0.5)?,
            p95: histogram.quantile(0.95)?,
            p99: histogram.quantile(0.99)?,
            max: histogram.max(),
        })
    }
}

/// One server port.
#[derive(Debug, Clone)]
pub struct TierReport {
    /// The port; 0 for tier 0.
    pub port: u16,
    /// Whether another tier of this capture is its client.
    pub is_upstream: bool,
    /// Whether most of its clients are servers of this capture.
    pub is_inner: bool,
    /// Servers before it, as far as the capture shows: 0 for the edge, more for deeper tiers.
    pub depth: u8,
    /// Protocol of most connections: http, http2, tls, a database, opaque or unknown.
    pub protocol: &'static str,
    /// Cause of the delay in this tier.
    pub verdict: DelayVerdict,
    /// The evidence in one sentence.
    pub why: String,
    /// All evidence.
    pub evidence: Evidence,
    /// Requests whose first byte was seen.
    pub requests: u64,
    /// Complete responses.
    pub responses: u64,
    /// Requests without a response.
    pub unanswered: u64,
    /// Requests whose response the client has and the capture lacks.
    pub unseen: u64,
    /// Responses to requests that the capture lacks.
    pub unasked: u64,
    /// Responses with status 5xx.
    pub errors_5xx: u64,
    /// Number of connections.
    pub connections: u64,
    /// TCP packets.
    pub packets: u64,
    /// Payload bytes of these packets.
    pub bytes: u64,
    /// Last request byte to first response byte.
    pub think: Option<Quantiles>,
    /// First response byte to last.
    pub transfer: Option<Quantiles>,
    /// First request byte to last response byte.
    pub total: Option<Quantiles>,
    /// First SYN to SYN-ACK.
    pub connect: Option<Quantiles>,
    /// From the tap to the client and back.
    pub rtt: Option<Quantiles>,
    /// One-way delay variation of the client's packets.
    pub delay: Option<Quantiles>,
    /// Median over slices of the relative error of Little's law: |throughput × response time −
    /// concurrency|.
    pub little_error: Option<f64>,
    /// Universal Scalability Law fit of throughput against concurrency.
    pub usl: UslResult,
    /// Contiguous slices from the first to the last of the capture.
    pub slices: Vec<SliceReport>,
    /// URL templates, by total time spent.
    pub urls: Vec<UrlReport>,
}

/// One slice of one tier; counts and microseconds are exact.
#[derive(Debug, Clone, Default)]
pub struct SliceReport {
    /// Start, ns since 1970.
    pub start_ns: i64,
    /// Part of it that lies in the capture, µs.
    pub observed_us: u64,
    /// Requests whose first byte was seen in it.
    pub arrivals: u64,
    /// Responses whose last byte was seen in it.
    pub completions: u64,
    /// Time with at least one request in flight, µs.
    pub busy_us: u64,
    /// Sum over requests of their time in flight, µs.
    pub weighted_us: u64,
    /// Sum of the durations of its arrivals, µs.
    pub sum_us: u64,
    /// Population variance over mean of these durations, µs.
    pub variance_mean_us: f64,
    /// p50, p95 and p99 in µs: last request byte to first response byte.
    pub think_us: Option<[u64; 3]>,
    /// First to last response byte.
    pub transfer_us: Option<[u64; 3]>,
    /// First request byte to last response byte.
    pub total_us: Option<[u64; 3]>,
    /// SYN to SYN-ACK.
    pub connect_us: Option<[u64; 3]>,
    /// One-way delay variation.
    pub delay_us: Option<[u64; 3]>,
    /// Responses with status 5xx.
    pub errors_5xx: u32,
    /// New connections.
    pub new_connections: u32,
    /// SYNs.
    pub syns: u32,
    /// SYNs retransmitted late without a SYN-ACK.
    pub late_syns: u32,
    /// Retransmitted SYN-ACKs.
    pub synack_retries: u32,
    /// Retransmitted segments of the server.
    pub retransmits: u32,
    /// Spurious ones among `retransmits`.
    pub spurious: u32,
    /// Client packets lost before the tap, by IP identification.
    pub missing: u32,
    /// Holes left by the tap.
    pub missed_by_tap: u32,
    /// Zero-window episodes of clients.
    pub zero_windows: u32,
    /// Resets while a request waited.
    pub resets_in_flight: u32,
    /// Requests that crossed the server's close.
    pub races: u32,
    /// TCP packets.
    pub packets: u64,
    /// Payload bytes of these packets.
    pub bytes: u64,
    /// Index of dispersion of arrivals per 10 ms, then per 100 ms.
    pub dispersion: [f64; 2],
    /// Relative error of Little's law.
    pub little_error: Option<f64>,
    /// Cause that this slice alone shows; `None` without requests.
    pub verdict: Option<DelayVerdict>,
}

impl Model {
    /// Ends the model and returns its report; requests in flight count as cut.
    pub fn report(self) -> Report {
        let (admission, sequencer) = &self.end();
        let mut reports: Vec<TierReport> = sequencer
            .tiers
            .iter()
            .filter(|tier| tier.is_used())
            .map(|tier| report_tier(tier, admission, sequencer))
            .collect();
        reports.sort_by_key(|tier| std::cmp::Reverse((tier.requests, tier.packets)));
        let (verdict, why) = overall(&reports);
        let span_ns = admission.first_ts.map(|first| [first, admission.last_ts]);
        Report {
            verdict,
            why,
            span_ns,
            slice_ns: sequencer.slice_ns,
            packets: sequencer.packets,
            bytes: sequencer.bytes,
            skipped: sequencer.skipped,
            tap_drops: None,
            given_up: sequencer.given_up,
            tiers: reports,
            worst: sequencer.worst.clone(),
        }
    }
}

fn report_tier(tier: &Tier, admission: &Admission, sequencer: &Sequencer) -> TierReport {
    let urls = report_urls(tier, sequencer);
    let mut slices = report_slices(tier, admission);
    let span_us =
        u64::try_from((admission.last_ts - admission.start_ns).max(0) / 1000).unwrap_or(0);
    let mut evidence = Evidence::of(tier, ms(span_us) / 1000.0);
    evidence.leave_out(sequencer.absent(tier.port), &tier.transport);
    if evidence.late_syns == 0 {
        let queues = |slice: &&mut SliceReport| slice.verdict == Some(DelayVerdict::AcceptQueue);
        slices
            .iter_mut()
            .filter(queues)
            .for_each(|slice| slice.verdict = Some(DelayVerdict::Unknown));
    }
    evidence.delayed_slices = slices
        .iter()
        .filter(|slice| slice.verdict == Some(DelayVerdict::UpstreamNetworkJitter))
        .count() as u64;
    let protocol = protocol(tier);
    let (verdict, why) = judge(&JudgeInput {
        framing: framing(protocol),
        is_database: is_database(protocol),
        evidence: &evidence,
        urls: &urls,
        servers: &server_times(tier),
        requests: tier.requests,
        connections: tier.transport.connections,
        accepted: tier.transport.connect.count(),
        hellos: tier.transport.hello.count(),
        first_requests: tier.think_first.count(),
        later_requests: tier.think_later.count(),
        backward_ms: ms(us(admission.backward_ns)),
    });
    let inner = slices.get(1..slices.len().saturating_sub(1)).unwrap_or_default();
    let points: Vec<(f64, f64)> =
        inner.iter().map(|slice| (slice.concurrency(), slice.throughput())).collect();
    let mut errors: Vec<f64> = inner.iter().filter_map(|slice| slice.little_error).collect();
    errors.sort_by(f64::total_cmp);
    TierReport {
        port: tier.port,
        is_upstream: tier.is_upstream(),
        is_inner: is_inner(tier),
        depth: depth(tier, protocol, &evidence),
        protocol,
        verdict,
        why,
        evidence,
        requests: tier.requests,
        responses: tier.responses,
        unanswered: tier.unanswered,
        unseen: tier.unseen,
        unasked: tier.transport.unasked,
        errors_5xx: tier.errors_5xx,
        connections: tier.transport.connections,
        packets: tier.transport.packets,
        bytes: tier.transport.bytes,
        think: Quantiles::of(&tier.think),
        transfer: Quantiles::of(&tier.transfer),
        total: Quantiles::of(&tier.total),
        connect: Quantiles::of(&tier.transport.connect),
        rtt: Quantiles::of(&tier.transport.rtt),
        delay: Quantiles::of(&tier.transport.delay),
        little_error: errors.get(errors.len() / 2).copied(),
        usl: usl::fit(&points),
        slices,
        urls,
    }
}

fn is_database(protocol: &str) -> bool {
    Protocol::ALL.iter().any(|known| known.as_str() == protocol && known.is_database())
}

fn framing(protocol: &str) -> RequestFraming {
    match protocol {
        "tls" => RequestFraming::Records,
        "opaque" | "unknown" => RequestFraming::Turns,
        _ => RequestFraming::Messages,
    }
}

/// How many servers stand before a tier, as far as the capture shows: an edge has 0, and of two
/// tiers behind it the one without an upstream of its own is deeper.
fn depth(tier: &Tier, protocol: &str, evidence: &Evidence) -> u8 {
    match (is_database(protocol), is_inner(tier)) {
        (true, _) => 3,
        (false, true) if evidence.upstream_coverage < limit::UPSTREAM_COVERAGE_MIN => 2,
        (false, true) => 1,
        (false, false) => 0,
    }
}

fn is_inner(tier: &Tier) -> bool {
    tier.is_upstream() || 2 * tier.from_servers > tier.transport.connections
}

fn server_times(tier: &Tier) -> Vec<ServerTimes> {
    let times = tier.servers.iter().map(|(address, think)| ServerTimes {
        address: Endpoint { address: *address, port: tier.port }.ip().to_string(),
        requests: think.count(),
        think_ms_p50: quantile_ms(think, 0.5),
        think_ms_p95: quantile_ms(think, 0.95),
    });
    times.collect()
}

fn protocol(tier: &Tier) -> &'static str {
    let speaking = &tier.transport.speaking;
    // Ties go to the first, that is the readable one.
    let most =
        Protocol::ALL.iter().skip(1).rev().max_by_key(|protocol| speaking[**protocol as usize]);
    most.filter(|most| speaking[**most as usize] > 0).map_or("unknown", |most| most.as_str())
}

fn report_urls(tier: &Tier, sequencer: &Sequencer) -> Vec<UrlReport> {
    let mut urls: Vec<UrlReport> = tier
        .urls
        .iter()
        .map(|(number, stats)| UrlReport {
            template: sequencer.urls.name(*number).to_owned(),
            requests: stats.requests,
            given_up: stats.given_up,
            errors_5xx: stats.errors_5xx,
            streams: stats.streams,
            think_ms_p25: quantile_ms(&stats.think, 0.25),
            think_ms_p50: quantile_ms(&stats.think, 0.5),
            think_ms_p95: quantile_ms(&stats.think, 0.95),
            total_ms_p95: quantile_ms(&stats.total, 0.95),
            total_seconds: ms(stats.total.sum()) / 1000.0,
        })
        .collect();
    urls.sort_by(|a, b| {
        b.total_seconds.total_cmp(&a.total_seconds).then_with(|| a.template.cmp(&b.template))
    });
    urls
}

/// All slices from the capture's first to its last, empty ones included.
fn report_slices(tier: &Tier, admission: &Admission) -> Vec<SliceReport> {
    let Some(first_ts) = admission.first_ts else { return Vec::new() };
    let (start, width) = (admission.start_ns, admission.options.slice_ns);
    let last = (admission.last_ts - start).max(0) / width;
    let baseline = BaselineTimes::of(tier);
    let empty = TimeSlice::default();
    (0..=last.min(crate::model::SLICES_MAX))
        .map(|number| {
            let start_ns = start + number * width;
            let end = (start_ns + width).min(admission.last_ts.max(first_ts));
            let observed_ns = (end - start_ns.max(first_ts)).max(0);
            let slice = u32::try_from(number).ok().and_then(|number| tier.slices.get(number));
            let window = SliceWindow { start_ns, observed_ns, width_ns: width };
            report_slice(slice.unwrap_or(&empty), window, &baseline)
        })
        .collect()
}

pub(super) struct BaselineTimes {
    pub(super) delay_us: u64,
    pub(super) think_us: u64,
    /// Whether late bytes may be something else than slow answers.
    pub(super) is_guess: bool,
    /// Whether the protocol is not read at all.
    pub(super) is_unread: bool,
}

impl BaselineTimes {
    pub(super) fn of(tier: &Tier) -> Self {
        Self {
            delay_us: tier.transport.delay.quantile(0.5).unwrap_or(0),
            think_us: tier.think.quantile(0.5).unwrap_or(0),
            is_unread: framing(protocol(tier)) == RequestFraming::Turns,
            is_guess: match framing(protocol(tier)) {
                RequestFraming::Messages => false,
                RequestFraming::Records => {
                    tier.think_first.quantile(0.95).unwrap_or(0) < limit::SLICE_THINK_US_MIN
                }
                RequestFraming::Turns => true,
            },
        }
    }
}

/// Position of a slice, and the part of it that lies in the capture.
#[derive(Clone, Copy)]
pub(super) struct SliceWindow {
    pub(super) start_ns: i64,
    pub(super) observed_ns: i64,
    pub(super) width_ns: i64,
}

fn us(ns: i64) -> u64 {
    u64::try_from(ns.max(0) / 1000).unwrap_or(0)
}

#[expect(clippy::cast_precision_loss, reason = "counts and microseconds are below 2^53")]
pub(super) fn report_slice(
    slice: &TimeSlice,
    SliceWindow { start_ns, observed_ns, width_ns }: SliceWindow,
    baseline: &BaselineTimes,
) -> SliceReport {
    let sealed = slice.sealed.as_deref().copied().unwrap_or_default();
    let timed = slice.timed as f64;
    let mean = slice.sum_us as f64 / timed.max(1.0);
    let variance = (slice.sum_of_squares / timed.max(1.0) - mean * mean).max(0.0);
    let weighted_us = us(slice.weighted_ns);
    let is_busy = slice.arrivals > 0 || weighted_us > 0;
    SliceReport {
        start_ns,
        observed_us: us(observed_ns),
        arrivals: slice.arrivals,
        completions: slice.completions,
        busy_us: us(slice.weighted_ns.min(observed_ns - slice.idle_ns.min(observed_ns))),
        weighted_us,
        sum_us: slice.sum_us,
        variance_mean_us: if mean > 0.0 { variance / mean } else { 0.0 },
        think_us: sealed.think,
        transfer_us: sealed.transfer,
        total_us: sealed.total,
        connect_us: sealed.connect,
        delay_us: sealed.delay,
        errors_5xx: slice.errors_5xx,
        new_connections: slice.new_connections,
        syns: slice.syns,
        late_syns: slice.late_syns,
        synack_retries: slice.synack_retries,
        retransmits: slice.retransmits,
        spurious: slice.spurious,
        missing: slice.missing,
        missed_by_tap: slice.missed_by_tap,
        zero_windows: slice.zero_windows,
        resets_in_flight: slice.resets_in_flight,
        races: slice.races,
        packets: slice.packets,
        bytes: slice.bytes,
        dispersion: [0, 1].map(|at| dispersion(slice, at, width_ns / BIN_NS[at])),
        little_error: (weighted_us > 0)
            .then(|| (slice.sum_us as f64 - weighted_us as f64).abs() / weighted_us as f64),
        verdict: is_busy.then(|| judge_slice(slice, &sealed, baseline)),
    }
}

/// Index of dispersion of arrivals over `bins` bins of the kind `at`.
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn dispersion(slice: &TimeSlice, at: usize, bins: i64) -> f64 {
    let bins = bins.max(1) as f64;
    let mean = slice.arrivals as f64 / bins;
    let squares = slice.squares[at] as f64 / bins;
    if slice.arrivals == 0 { 0.0 } else { (squares - mean * mean).max(0.0) / mean }
}

/// Judges one slice, with thresholds for the counts that one slice can reach.
fn judge_slice(
    slice: &TimeSlice,
    sealed: &SliceQuantiles,
    baseline: &BaselineTimes,
) -> DelayVerdict {
    match find_fault(slice, sealed, baseline) {
        verdict if baseline.is_unread && verdict.needs_protocol() => DelayVerdict::Unknown,
        verdict => verdict,
    }
}

fn find_fault(
    slice: &TimeSlice,
    sealed: &SliceQuantiles,
    baseline: &BaselineTimes,
) -> DelayVerdict {
    let lost = slice.retransmits.saturating_sub(slice.spurious);
    let loss = ratio(u64::from(lost), u64::from(slice.data_packets.max(1)));
    let usual_delay = limit::SLICE_DELAY_TO_USUAL_MIN * baseline.delay_us;
    let usual_think = limit::SLICE_THINK_TO_USUAL_MIN * baseline.think_us;
    if slice.late_syns >= limit::SLICE_LATE_SYNS_MIN {
        DelayVerdict::AcceptQueue
    } else if slice.races >= limit::SLICE_RACES_MIN {
        DelayVerdict::KeepaliveRace
    } else if lost >= limit::SLICE_LOST_MIN && loss >= limit::SLICE_LOSS_RATIO_MIN {
        DelayVerdict::PathLoss
    } else if slice.delayed_connections >= limit::SLICE_CONNECTIONS_MIN
        && p95(sealed.delay) >= limit::SLICE_DELAY_US_MIN.max(usual_delay)
    {
        DelayVerdict::UpstreamNetworkJitter
    } else if slice.zero_windows >= limit::SLICE_ZERO_WINDOWS_MIN {
        DelayVerdict::ClientReader
    } else if p95(sealed.think) >= limit::SLICE_THINK_US_MIN.max(usual_think) {
        if baseline.is_guess { DelayVerdict::Unknown } else { DelayVerdict::SlowApp }
    } else if is_failing(slice) {
        DelayVerdict::Failing
    } else {
        DelayVerdict::Smooth
    }
}

fn is_failing(slice: &TimeSlice) -> bool {
    let failed = slice.errors_5xx + slice.unanswered;
    let share = ratio(failed.into(), slice.arrivals.max(slice.completions));
    failed >= limit::SLICE_FAILED_MIN && share >= limit::FAILED_RATIO_MIN
}

fn p95(quantiles: Option<[u64; 3]>) -> u64 {
    quantiles.map_or(0, |[_, p95, _]| p95)
}

impl TierReport {
    /// Whether its sentence mentions identifications that clients skipped.
    pub(super) fn mentions_skipped_ids(&self) -> bool {
        self.verdict == DelayVerdict::Smooth
            && self.evidence.skipped_ids_ratio >= limit::LOSS_RATIO_MIN
    }

    pub(super) fn has_known_framing(&self) -> bool {
        !matches!(self.protocol, "opaque" | "unknown")
    }
}

impl SliceReport {
    /// Average requests in flight.
    pub fn concurrency(&self) -> f64 {
        ratio(self.weighted_us, self.observed_us)
    }

    /// Completions per second.
    pub fn throughput(&self) -> f64 {
        ratio(self.completions, self.observed_us) * 1e6
    }
}
