//! The verdict rules: what owns the delay. Rules are ordered by explanatory power; the first that
//! holds is the verdict.
//!
//! A full accept queue delays requests and causes retransmits, so it is checked first; a slow
//! application is blamed only for what the network does not explain. The thresholds are in
//! [`super::thresholds`]; each verdict reports the evidence it rests on.

use super::evidence::Evidence;
use super::report::UrlReport;

/// Cause of the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DelayVerdict {
    /// The server's kernel cannot accept connections: the accept queue is full or slow.
    AcceptQueue,
    /// Requests cross the close of an idle connection.
    KeepaliveRace,
    /// Packet loss on the path.
    PathLoss,
    /// The network in front holds packets and releases them together.
    UpstreamNetworkJitter,
    /// Clients pause and then send in bursts.
    SenderBursts,
    /// Clients read too slowly.
    ClientReader,
    /// The application responds slowly.
    SlowApp,
    /// The edge itself is slow to forward requests or responses.
    EdgeStall,
    /// No problem found.
    Smooth,
    /// The capture is insufficient.
    Unknown,
}

impl DelayVerdict {
    /// Name in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AcceptQueue => "accept_queue",
            Self::KeepaliveRace => "keepalive_race",
            Self::PathLoss => "path_loss",
            Self::UpstreamNetworkJitter => "upstream_network_jitter",
            Self::SenderBursts => "sender_bursts",
            Self::ClientReader => "client_reader",
            Self::SlowApp => "slow_app",
            Self::EdgeStall => "edge_stall",
            Self::Smooth => "smooth",
            Self::Unknown => "unknown",
        }
    }

    /// Headline: was it us?
    pub fn answer(self) -> &'static str {
        match self {
            Self::AcceptQueue => "Yes: the server does not accept connections fast enough",
            Self::KeepaliveRace => {
                "Yes: idle connections are closed while requests are on their way"
            }
            Self::PathLoss => "No: the network loses packets",
            Self::UpstreamNetworkJitter => "No: the network in front of us holds packets back",
            Self::SenderBursts => "No: the clients send in bursts",
            Self::ClientReader => "No: the clients read slowly",
            Self::SlowApp => "Yes: the application answers slowly",
            Self::EdgeStall => "Yes: the edge itself is slow",
            Self::Smooth => "Nothing stands out",
            Self::Unknown => "Cannot tell from this capture",
        }
    }
}

/// Held packets, slow answers and the like count from here on.
const DELAY_MS: f64 = 50.0;
const SLOW_MS: f64 = 200.0;
/// Slow whatever the rest of the capture looks like.
const VERY_SLOW_MS: f64 = 1000.0;
const LOSS_RATIO: f64 = 0.003;
const CONNECTIONS_MIN: u64 = 10;
/// Requests before a quantile means something.
const REQUESTS_MIN: u64 = 20;

/// Input of the rules: one tier.
pub(super) struct JudgeInput<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) urls: &'a [UrlReport],
    pub(super) requests: u64,
    pub(super) connections: u64,
    pub(super) first_requests: u64,
    pub(super) later_requests: u64,
}

type RuleOutcome = Option<(DelayVerdict, String)>;

/// Returns the verdict of the first rule that holds, with its evidence.
pub(super) fn judge(case: &JudgeInput<'_>) -> (DelayVerdict, String) {
    let rules: [fn(&JudgeInput<'_>) -> RuleOutcome; 9] = [
        accept_queue,
        keepalive_race,
        path_loss,
        network_jitter,
        sender_bursts,
        client_reader,
        edge_stall,
        slow_app,
        nothing_seen,
    ];
    rules.iter().find_map(|rule| rule(case)).unwrap_or_else(|| smooth(case))
}

fn accept_queue(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    if e.late_syns >= 3 && e.late_syns * 100 >= e.syns {
        let why = format!(
            "{} of {} SYNs came again at least 0.8 s after the first, with no SYN-ACK between; connecting took up to {} (p99)",
            e.late_syns,
            e.syns,
            time(e.connect_ms_p99)
        );
        return Some((DelayVerdict::AcceptQueue, why));
    }
    let is_split = case.first_requests >= REQUESTS_MIN && case.later_requests >= REQUESTS_MIN;
    let has_upstream = e.upstream_coverage >= 0.5;
    let (first, later) = if has_upstream {
        (e.stall_first_ms_p95, e.stall_later_ms_p95)
    } else {
        (e.think_first_ms_p95, e.think_later_ms_p95)
    };
    (is_split && first >= SLOW_MS && first >= 3.0 * later).then(|| {
        let why = format!(
            "the first request of a connection waits {} (p95), later ones {}: connections wait to be accepted",
            time(first), time(later)
        );
        (DelayVerdict::AcceptQueue, why)
    })
}

fn keepalive_race(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    (e.races >= 3).then(|| {
        let why = format!(
            "{} requests crossed the server's closing of an idle connection ({} behind its FIN, {} reset while they waited)",
            e.races, e.requests_after_fin, e.resets_in_flight
        );
        (DelayVerdict::KeepaliveRace, why)
    })
}

fn path_loss(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    let lost = e.retransmits.saturating_sub(e.spurious) + e.client_retransmits;
    let is_after = e.loss_after_ratio >= LOSS_RATIO && lost >= 5;
    let is_before = e.loss_before_ratio >= LOSS_RATIO;
    (is_after || is_before).then(|| {
        let before = if e.loss_before_ratio < 0.0 {
            "not measurable".to_owned()
        } else {
            percent(e.loss_before_ratio)
        };
        let holes = match e.refilled {
            0 => String::new(),
            count => format!(" ({count} holes were filled a round trip later)"),
        };
        let why = format!(
            "{} of the data behind the tap was lost ({} segments sent again, {} of them known as duplicates), {before} before it{holes}",
            percent(e.loss_after_ratio), e.retransmits, e.spurious
        );
        (DelayVerdict::PathLoss, why)
    })
}

fn is_held(e: &Evidence) -> bool {
    e.delay_ms_p95 >= DELAY_MS.max(5.0 * e.delay_ms_p50) || e.delayed_slices >= 2
}

fn network_jitter(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    (is_held(e) && case.connections >= CONNECTIONS_MIN).then(|| {
        let why = format!(
            "packets arrived up to {} later than they were sent (p95 {}, usually {}; {} slices, TCP timestamps on {} of connections), {} pauses of up to {} followed by a burst",
            time(e.delay_ms_max), time(e.delay_ms_p95), time(e.delay_ms_p50), e.delayed_slices,
            percent(e.timestamp_coverage), e.cycles, time(e.longest_pause_ms)
        );
        (DelayVerdict::UpstreamNetworkJitter, why)
    })
}

fn sender_bursts(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    let dispersion = e.dispersion.max(e.dispersion_100ms);
    if dispersion < 10.0 || e.cycles < 2 {
        return None;
    }
    let jagged = format!(
        "{} pauses of up to {} were followed by a burst (arrivals vary {:.0} times as much as chance)",
        e.cycles,
        time(e.longest_pause_ms),
        dispersion
    );
    if e.timestamp_coverage < 0.5 {
        let why = format!(
            "{jagged}; whether clients paused or the network held packets is not known: only {} of connections carry TCP timestamps",
            percent(e.timestamp_coverage)
        );
        return Some((DelayVerdict::Unknown, why));
    }
    let why = format!(
        "{jagged}, and packets were sent when they arrived (delay variation p95 {})",
        time(e.delay_ms_p95)
    );
    Some((DelayVerdict::SenderBursts, why))
}

fn client_reader(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    let is_shut = e.zero_windows >= 3 && e.client_wait_ratio >= 0.3;
    let is_waiting = e.client_wait_ratio >= 0.5 && e.transfer_ms_p95 >= SLOW_MS;
    ((is_shut || is_waiting) && e.transfer_ms_p95 >= DELAY_MS && case.requests >= 5).then(|| {
        let why = format!(
            "clients shut their receive window {} times, and {} of all transfer time was waiting for them (transfer p95 {}, think p95 {})",
            e.zero_windows, percent(e.client_wait_ratio), time(e.transfer_ms_p95), time(e.think_ms_p95)
        );
        (DelayVerdict::ClientReader, why)
    })
}

fn edge_stall(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    let is_known = e.upstream_coverage >= 0.5 && case.requests >= REQUESTS_MIN;
    let is_own =
        e.own_think_ms_p95 >= SLOW_MS && e.own_think_ms_p95 >= 3.0 * e.upstream_think_ms_p95;
    (is_known && is_own).then(|| {
        let why = format!(
            "of the think time (p95 {}) the upstream explains {}; {} passed before it was asked",
            time(e.think_ms_p95),
            time(e.upstream_think_ms_p95),
            time(e.stall_later_ms_p95)
        );
        (DelayVerdict::EdgeStall, why)
    })
}

/// Blames a URL that is slow against its own fast requests, against the other URLs, or in absolute
/// terms.
fn slow_app(case: &JudgeInput<'_>) -> RuleOutcome {
    let enough = |url: &&UrlReport| url.requests >= REQUESTS_MIN;
    let others = |url: &UrlReport| {
        let rest = case.urls.iter().filter(enough).filter(|other| other.template != url.template);
        rest.map(|other| other.think_ms_p95).min_by(f64::total_cmp)
    };
    let baseline = |url: &UrlReport| others(url).unwrap_or(f64::MAX).min(url.think_ms_p25);
    let is_slow = |url: &&UrlReport| {
        url.think_ms_p95 >= SLOW_MS.max(3.0 * baseline(url)) || url.think_ms_p95 >= VERY_SLOW_MS
    };
    let slow: Vec<&UrlReport> = case.urls.iter().filter(enough).filter(is_slow).collect();
    let worst = slow.iter().max_by(|a, b| {
        let weight = |url: &UrlReport| url.think_ms_p95 * time_share(url);
        weight(a).total_cmp(&weight(b))
    })?;
    let e = case.evidence;
    let upstream = if e.upstream_coverage >= 0.5 {
        format!("; the upstream itself thinks {} (p95)", time(e.upstream_think_ms_p95))
    } else {
        String::new()
    };
    let more = match slow.len() {
        1 => String::new(),
        count => format!(" and {} more URLs", count - 1),
    };
    let why = format!(
        "`{}`{more} takes {} to begin to answer (p95 of {} requests; {} when it is fast, the tier's p50 is {}){upstream}",
        worst.template,
        time(worst.think_ms_p95),
        worst.requests,
        time(worst.think_ms_p25),
        time(e.think_ms_p50)
    );
    Some((DelayVerdict::SlowApp, why))
}

#[expect(clippy::cast_precision_loss, reason = "requests are below 2^53")]
fn time_share(url: &UrlReport) -> f64 {
    url.requests as f64
}

fn nothing_seen(case: &JudgeInput<'_>) -> RuleOutcome {
    (case.requests == 0).then(|| {
        let why = format!("no request was seen on {} connections", case.connections);
        (DelayVerdict::Unknown, why)
    })
}

fn smooth(case: &JudgeInput<'_>) -> (DelayVerdict, String) {
    let e = case.evidence;
    if e.missed_by_tap_ratio >= 0.2 {
        let why = format!(
            "the tap missed {} of the data that the receivers acknowledged",
            percent(e.missed_by_tap_ratio)
        );
        return (DelayVerdict::Unknown, why);
    }
    // A single request lost before the tap and retransmitted looks like a late client.
    let unknown = if e.loss_before_ratio < 0.0 {
        "; what is lost before the tap is not known: the packets carry no identification (IPv6 has none)"
    } else {
        ""
    };
    let why = format!(
        "think p95 {}, transfer p95 {}, connecting p99 {}, delay variation p95 {}, {} of the data lost, {} pauses with bursts{unknown}",
        time(e.think_ms_p95),
        time(e.transfer_ms_p95),
        time(e.connect_ms_p99),
        time(e.delay_ms_p95),
        percent(e.loss_after_ratio.max(e.loss_before_ratio).max(0.0)),
        e.cycles
    );
    (DelayVerdict::Smooth, why)
}

/// Formats a duration: `40 µs`, `0.9 ms`, `916 ms`, `1.35 s`.
fn time(ms: f64) -> String {
    if ms < 0.1 {
        format!("{:.0} µs", ms * 1000.0)
    } else if ms >= 1000.0 {
        format!("{:.2} s", ms / 1000.0)
    } else if ms >= 10.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{ms:.1} ms")
    }
}

fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent >= 10.0 || percent == 0.0 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.2} %")
    }
}

#[cfg(test)]
mod tests {
    use super::{DelayVerdict, Evidence, JudgeInput, judge};

    fn check(change: impl FnOnce(&mut Evidence), expected: DelayVerdict) {
        let mut evidence = Evidence {
            syns: 1000,
            timestamp_coverage: 1.0,
            data_packets: 20_000,
            think_ms_p50: 40.0,
            think_ms_p95: 84.0,
            dispersion: 1.2,
            delay_ms_p95: 0.9,
            retransmits: 141,
            spurious: 141,
            ..Evidence::default()
        };
        change(&mut evidence);
        let case = JudgeInput {
            evidence: &evidence,
            urls: &[],
            requests: 8000,
            connections: 200,
            first_requests: 200,
            later_requests: 7800,
        };
        let (verdict, why) = judge(&case);
        assert_eq!(verdict, expected, "{why}");
    }

    #[test]
    fn each_fault_has_its_verdict_and_normal_noise_has_none() {
        check(|_| {}, DelayVerdict::Smooth);
        check(|e| (e.late_syns, e.connect_ms_p99) = (1442, 7284.0), DelayVerdict::AcceptQueue);
        check(|e| e.races = 164, DelayVerdict::KeepaliveRace);
        check(
            |e| (e.retransmits, e.spurious, e.loss_after_ratio) = (661, 145, 0.026),
            DelayVerdict::PathLoss,
        );
        check(|e| e.loss_before_ratio = 0.01, DelayVerdict::PathLoss);
        check(
            |e| (e.delay_ms_p95, e.dispersion, e.cycles) = (916.0, 212.0, 6),
            DelayVerdict::UpstreamNetworkJitter,
        );
        check(|e| (e.dispersion, e.cycles) = (74.0, 6), DelayVerdict::SenderBursts);
        check(
            |e| (e.dispersion, e.cycles, e.timestamp_coverage) = (74.0, 6, 0.3),
            DelayVerdict::Unknown,
        );
        check(
            |e| (e.zero_windows, e.client_wait_ratio, e.transfer_ms_p95) = (181, 0.9, 2000.0),
            DelayVerdict::ClientReader,
        );
        check(
            |e| {
                (e.upstream_coverage, e.own_think_ms_p95, e.upstream_think_ms_p95) =
                    (1.0, 900.0, 80.0)
            },
            DelayVerdict::EdgeStall,
        );
        check(
            |e| (e.think_first_ms_p95, e.think_later_ms_p95) = (900.0, 80.0),
            DelayVerdict::AcceptQueue,
        );
        // Load phases alone vary as much as bursts do.
        check(|e| e.dispersion = 31.0, DelayVerdict::Smooth);
    }
}
