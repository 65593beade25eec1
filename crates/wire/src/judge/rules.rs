//! The verdict rules: what owns the delay. Rules are ordered by explanatory power; the first that
//! holds is the verdict.
//!
//! A full accept queue delays requests and causes retransmits, so it is checked first; a slow
//! application is blamed only for what the network does not explain. The thresholds are in
//! `thresholds`; each verdict reports the evidence it rests on.

use super::evidence::Evidence;
use super::report::UrlReport;
use super::thresholds as limit;

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

    /// Whether the cause is in an end host, not in the network or TCP.
    pub(super) fn is_of_end_host(self) -> bool {
        matches!(self, Self::SenderBursts | Self::ClientReader | Self::EdgeStall | Self::SlowApp)
    }

    /// Headline: was it us?
    pub fn answer(self) -> &'static str {
        match self {
            Self::AcceptQueue => {
                "Yes: accept queue full, the server accepts connections too slowly"
            }
            Self::KeepaliveRace => "Yes: keep-alive race, requests hit a closing connection",
            Self::PathLoss => "No: packet loss in the network",
            Self::UpstreamNetworkJitter => "No: network jitter in front of us",
            Self::SenderBursts => "No: clients send in bursts",
            Self::ClientReader => "No: clients read slowly",
            Self::SlowApp => "Yes: slow application",
            Self::EdgeStall => "Yes: the edge itself is slow",
            Self::Smooth => "No problem found",
            Self::Unknown => "Not enough data in this capture",
        }
    }
}

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
    if e.late_syns >= limit::LATE_SYNS_MIN
        && e.late_syns * 100 >= e.syns * limit::LATE_SYNS_PERCENT_MIN
    {
        let why = format!(
            "{} of {} SYNs retransmitted at least 0.8 s later without a SYN-ACK (connect p99 {})",
            e.late_syns,
            e.syns,
            time(e.connect_ms_p99)
        );
        return Some((DelayVerdict::AcceptQueue, why));
    }
    let is_split =
        case.first_requests >= limit::REQUESTS_MIN && case.later_requests >= limit::REQUESTS_MIN;
    let (first, later) = if has_upstream(e) {
        (e.stall_first_ms_p95, e.stall_later_ms_p95)
    } else {
        (e.think_first_ms_p95, e.think_later_ms_p95)
    };
    let is_late = first >= limit::SLOW_MS_MIN && first >= limit::FIRST_TO_LATER_MIN * later;
    (is_split && is_late).then(|| {
        let why = format!(
            "first requests of a connection wait {} (p95), later ones {}: connections wait to be \
             accepted",
            time(first),
            time(later)
        );
        (DelayVerdict::AcceptQueue, why)
    })
}

fn has_upstream(e: &Evidence) -> bool {
    e.upstream_coverage >= limit::UPSTREAM_COVERAGE_MIN
}

fn keepalive_race(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    (e.races >= limit::RACES_MIN).then(|| {
        let why = format!(
            "{} requests crossed the close of an idle connection ({} after the server's FIN, {} \
             reset while waiting)",
            e.races, e.requests_after_fin, e.resets_in_flight
        );
        (DelayVerdict::KeepaliveRace, why)
    })
}

fn path_loss(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    let lost = e.retransmits.saturating_sub(e.spurious) + e.client_retransmits;
    let is_after = e.loss_after_ratio >= limit::LOSS_RATIO_MIN && lost >= limit::LOST_SEGMENTS_MIN;
    let is_before = e.loss_before_ratio >= limit::LOSS_RATIO_MIN;
    (is_after || is_before).then(|| {
        let before = if e.loss_before_ratio < 0.0 {
            "unknown".to_owned()
        } else {
            percent(e.loss_before_ratio)
        };
        let holes = match e.refilled {
            0 => String::new(),
            count => format!(" ({count} holes filled a round trip later)"),
        };
        let why = format!(
            "packet loss {} behind the tap ({} segments retransmitted, {} of them spurious), \
             {before} before it{holes}",
            percent(e.loss_after_ratio),
            e.retransmits,
            e.spurious
        );
        (DelayVerdict::PathLoss, why)
    })
}

fn is_held(e: &Evidence) -> bool {
    e.delay_ms_p95 >= limit::DELAY_MS_MIN.max(limit::DELAY_TO_MEDIAN_MIN * e.delay_ms_p50)
        || e.delayed_slices >= limit::DELAYED_SLICES_MIN
}

fn network_jitter(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    (is_held(e) && case.connections >= limit::CONNECTIONS_MIN).then(|| {
        let why = format!(
            "packets arrived up to {} late (p95 {}, median {}; {} slices, TCP timestamps on {} of \
             connections); {} pauses of up to {} followed by a burst",
            time(e.delay_ms_max),
            time(e.delay_ms_p95),
            time(e.delay_ms_p50),
            e.delayed_slices,
            percent(e.timestamp_coverage),
            e.cycles,
            time(e.longest_pause_ms)
        );
        (DelayVerdict::UpstreamNetworkJitter, why)
    })
}

fn sender_bursts(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    let dispersion = e.dispersion.max(e.dispersion_100ms);
    if dispersion < limit::DISPERSION_MIN || e.cycles < limit::CYCLES_MIN {
        return None;
    }
    let bursts = format!(
        "{} pauses of up to {} followed by a burst (arrivals {:.0}× as variable as random ones)",
        e.cycles,
        time(e.longest_pause_ms),
        dispersion
    );
    if e.timestamp_coverage < limit::TIMESTAMP_COVERAGE_MIN {
        let why = format!(
            "{bursts}; cannot tell pausing clients from packets held in the network: only {} of \
             connections carry TCP timestamps",
            percent(e.timestamp_coverage)
        );
        return Some((DelayVerdict::Unknown, why));
    }
    let why = format!(
        "{bursts}, and packets arrived when they were sent (delay variation p95 {})",
        time(e.delay_ms_p95)
    );
    Some((DelayVerdict::SenderBursts, why))
}

fn client_reader(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    let is_shut = e.zero_windows >= limit::ZERO_WINDOWS_MIN
        && e.client_wait_ratio >= limit::ZERO_WINDOW_WAIT_RATIO_MIN;
    let is_waiting = e.client_wait_ratio >= limit::CLIENT_WAIT_RATIO_MIN
        && e.transfer_ms_p95 >= limit::SLOW_MS_MIN;
    let is_long = e.transfer_ms_p95 >= limit::DELAY_MS_MIN;
    let is_enough = case.requests >= limit::READ_REQUESTS_MIN;
    ((is_shut || is_waiting) && is_long && is_enough).then(|| {
        let why = format!(
            "clients closed their receive window {} times; {} of transfer time was waiting for \
             clients (transfer p95 {}, think p95 {})",
            e.zero_windows,
            percent(e.client_wait_ratio),
            time(e.transfer_ms_p95),
            time(e.think_ms_p95)
        );
        (DelayVerdict::ClientReader, why)
    })
}

fn edge_stall(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    let is_known = has_upstream(e) && case.requests >= limit::REQUESTS_MIN;
    let is_own = e.own_think_ms_p95 >= limit::SLOW_MS_MIN
        && e.own_think_ms_p95 >= limit::OWN_TO_UPSTREAM_MIN * e.upstream_think_ms_p95;
    (is_known && is_own).then(|| {
        let why = format!(
            "think time p95 {}, upstream {}; {} passed before the upstream request",
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
    let urls: Vec<&UrlReport> =
        case.urls.iter().filter(|url| url.requests >= limit::REQUESTS_MIN).collect();
    let slow = urls.iter().filter(|url| {
        let baseline = fast_think_ms(url, &urls);
        url.think_ms_p95 >= limit::SLOW_MS_MIN.max(limit::SLOW_TO_BASELINE_MIN * baseline)
            || url.think_ms_p95 >= limit::VERY_SLOW_MS_MIN
    });
    let slow: Vec<&UrlReport> = slow.copied().collect();
    let worst = slow.iter().max_by(|a, b| slow_time(a).total_cmp(&slow_time(b)))?;
    let e = case.evidence;
    let upstream = if has_upstream(e) {
        format!("; upstream think time p95 {}", time(e.upstream_think_ms_p95))
    } else {
        String::new()
    };
    let more = match slow.len() {
        1 => String::new(),
        count => format!(" and {} more URLs", count - 1),
    };
    let why = format!(
        "`{}`{more}: time to first byte p95 {} ({} requests; p25 {}, p50 of the port {}){upstream}",
        worst.template,
        time(worst.think_ms_p95),
        worst.requests,
        time(worst.think_ms_p25),
        time(e.think_ms_p50)
    );
    Some((DelayVerdict::SlowApp, why))
}

/// Think time of a URL's fast requests, or the p95 of the fastest other URL if that is lower.
fn fast_think_ms(url: &UrlReport, urls: &[&UrlReport]) -> f64 {
    let others = urls.iter().filter(|other| other.template != url.template);
    let fastest = others.map(|other| other.think_ms_p95).min_by(f64::total_cmp);
    fastest.unwrap_or(f64::MAX).min(url.think_ms_p25)
}

/// Weight of a slow URL: its p95 times its requests.
#[expect(clippy::cast_precision_loss, reason = "requests are below 2^53")]
fn slow_time(url: &UrlReport) -> f64 {
    url.think_ms_p95 * url.requests as f64
}

fn nothing_seen(case: &JudgeInput<'_>) -> RuleOutcome {
    (case.requests == 0).then(|| {
        let why = format!("no requests on {} connections", case.connections);
        (DelayVerdict::Unknown, why)
    })
}

fn smooth(case: &JudgeInput<'_>) -> (DelayVerdict, String) {
    let e = case.evidence;
    if e.missed_by_tap_ratio >= limit::TAP_LOSS_RATIO_MAX {
        let why = format!("the tap missed {} of acknowledged data", percent(e.missed_by_tap_ratio));
        return (DelayVerdict::Unknown, why);
    }
    // A single request lost before the tap and retransmitted looks like a late client.
    let unknown = if e.loss_before_ratio < 0.0 {
        "; loss before the tap is unknown: packets carry no identification (IPv6 has none)"
    } else {
        ""
    };
    let why = format!(
        "think p95 {}, transfer p95 {}, connect p99 {}, delay variation p95 {}, loss {}, {} pauses \
         with bursts{unknown}",
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
