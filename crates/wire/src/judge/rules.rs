//! The verdict rules: what owns the delay. Rules are ordered by explanatory power; the first that
//! holds is the verdict.
//!
//! A full accept queue delays requests and causes retransmits, so it is checked first; a slow
//! application is blamed only for what the network does not explain. The thresholds are in
//! `thresholds`; each verdict reports the evidence it rests on.
//!
//! Two things are never said: that all is smooth while a fifth of the requests fails or has no
//! answer in the capture, and that an application is slow because bytes that cannot be read came
//! late. A message of a WebSocket or a long poll is late because nothing happened before.

use super::connection_rules::{self, ServerTimes};
use super::evidence::Evidence;
use super::thresholds as limit;
use super::url_report::UrlReport;

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
    /// Requests fail or are never answered.
    Failing,
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
            Self::Failing => "failing",
            Self::Smooth => "smooth",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the cause is in an end host, not in the network or TCP.
    pub(super) fn is_of_end_host(self) -> bool {
        matches!(self, Self::SenderBursts | Self::ClientReader | Self::EdgeStall | Self::SlowApp)
    }

    /// Whether it is a guess where bytes cannot be read. Bursts are not: all bytes came when they were
    /// sent, and their senders paused, whatever they say.
    pub(crate) fn needs_protocol(self) -> bool {
        matches!(self, Self::ClientReader | Self::EdgeStall | Self::SlowApp | Self::KeepaliveRace)
    }

    /// Whether it comes from clients and shows in the servers behind as well.
    pub(super) fn is_of_clients(self) -> bool {
        matches!(self, Self::UpstreamNetworkJitter | Self::SenderBursts | Self::ClientReader)
    }

    /// Whether it makes the answers of the tiers before it slow.
    pub(super) fn explains_slow_answers(self) -> bool {
        matches!(self, Self::AcceptQueue | Self::PathLoss | Self::EdgeStall | Self::SlowApp)
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
            Self::Failing => "Yes: requests fail",
            Self::Smooth => "No problem found",
            Self::Unknown => "Not enough data in this capture",
        }
    }
}

/// How requests are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestFraming {
    /// By reading them.
    Messages,
    /// By records of TLS.
    Records,
    /// By turns of bytes that cannot be read.
    Turns,
}

pub(super) struct JudgeInput<'a> {
    pub(super) framing: RequestFraming,
    pub(super) evidence: &'a Evidence,
    pub(super) urls: &'a [UrlReport],
    pub(super) servers: &'a [ServerTimes],
    pub(super) is_database: bool,
    pub(super) requests: u64,
    pub(super) connections: u64,
    /// Connections whose SYN the server accepted.
    pub(super) accepted: u64,
    pub(super) hellos: u64,
    pub(super) first_requests: u64,
    pub(super) later_requests: u64,
    /// How far the capture's time went back at most.
    pub(super) backward_ms: f64,
}

/// What compressed requests to MongoDB are called.
pub(super) const COMPRESSED: &str = "OP_COMPRESSED";

pub(super) type RuleOutcome = Option<(DelayVerdict, String)>;

/// Returns the verdict of the first rule that holds, with its evidence.
pub(super) fn judge(case: &JudgeInput<'_>) -> (DelayVerdict, String) {
    let rules: [fn(&JudgeInput<'_>) -> RuleOutcome; 19] = [
        connection_rules::one_direction,
        connection_rules::several_paths,
        accept_queue,
        keepalive_race,
        path_loss,
        network_jitter,
        sender_bursts,
        connection_rules::lost_synacks,
        client_reader,
        edge_stall,
        connection_rules::slow_upload,
        connection_rules::slow_server,
        slow_app,
        failing,
        connection_rules::unopened,
        connection_rules::left_handshakes,
        connection_rules::slow_hello,
        connection_rules::slow_body,
        nothing_seen,
    ];
    let mut outcomes = rules.iter().filter_map(|rule| rule(case));
    match case.framing {
        RequestFraming::Turns => without_guesses(case, outcomes),
        _ => outcomes.next().unwrap_or_else(|| smooth(case)),
    }
}

/// The first outcome that needs no knowledge of the protocol. Who waits for whom, and whether the last
/// bytes are a request or a farewell, is a guess where bytes cannot be read: a verdict that rests on
/// it becomes "cannot tell", unless a later rule holds by TCP alone.
fn without_guesses(
    case: &JudgeInput<'_>,
    outcomes: impl Iterator<Item = (DelayVerdict, String)>,
) -> (DelayVerdict, String) {
    let mut doubtful = None;
    for (verdict, why) in outcomes {
        match verdict {
            DelayVerdict::Unknown => doubtful = doubtful.or(Some((verdict, why))),
            _ if verdict.needs_protocol() => {
                let why = format!("cannot tell, since the protocol is not read: {why}");
                doubtful = doubtful.or(Some((DelayVerdict::Unknown, why)));
            }
            _ => return (verdict, why),
        }
    }
    doubtful.unwrap_or_else(|| smooth(case))
}

fn accept_queue(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    let late = e.late_syns + e.late_accepts;
    let is_open = case.accepted > 0 || case.requests > 0;
    if is_open
        && late >= limit::LATE_SYNS_MIN
        && late * 100 >= e.syns * limit::LATE_SYNS_PERCENT_MIN
    {
        let accepts = match e.late_accepts {
            0 => String::new(),
            count => format!(", {count} SYN-ACKs sent again after the client's request"),
        };
        let why = format!(
            "{} of {} SYNs retransmitted at least 0.8 s later without a SYN-ACK{accepts} (connect \
             p99 {}); if ListenOverflows does not count, a firewall drops them",
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
    let is_alone = e.slow_first_together_ratio < limit::TOGETHER_RATIO_MIN;
    let is_read = case.framing != RequestFraming::Turns;
    (is_split && is_late && is_alone && is_read).then(|| {
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

/// Whether packets of both sides were late alike: the tap's clock was set, or its stamps are late. A
/// network that holds clients' packets leaves the servers' alone.
fn is_tap_late(e: &Evidence) -> bool {
    e.server_delay_ms_max >= limit::DELAY_MS_MIN.max(limit::TAP_LATE_RATIO_MIN * e.delay_ms_max)
        && e.delay_ms_max >= limit::DELAY_MS_MIN
}

fn network_jitter(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    (is_held(e) && !is_tap_late(e) && case.connections >= limit::CONNECTIONS_MIN).then(|| {
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
    if dispersion < limit::DISPERSION_MIN || e.cycles < limit::CYCLES_MIN || is_tap_late(e) {
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
    if let Some(doubt) = doubt(case, &slow) {
        let why = format!(
            "cannot tell: `{}` waits {} (p95 of {} requests), but {doubt}",
            worst.template,
            time(worst.think_ms_p95),
            worst.requests
        );
        return failing(case).or(Some((DelayVerdict::Unknown, why)));
    }
    // Slow are those without a response, not the others.
    let is_hung = 2 * worst.given_up >= worst.requests
        || worst.given_up > 0 && worst.think_ms_p50 < limit::SLOW_MS_MIN;
    if is_hung && let Some(failed) = failing(case) {
        return Some(failed);
    }
    let upstream = if has_upstream(e) {
        format!("; upstream think time p95 {}", time(e.upstream_think_ms_p95))
    } else {
        String::new()
    };
    let more = match slow.len() {
        1 => String::new(),
        count => format!(" and {} more URLs", count - 1),
    };
    let given_up = match worst.given_up {
        0 => String::new(),
        count => format!(", {count} of them without a response"),
    };
    let why = format!(
        "`{}`{more}: time to first byte p95 {} ({} requests{given_up}; p25 {}, p50 of the port {}){upstream}",
        worst.template,
        time(worst.think_ms_p95),
        worst.requests,
        time(worst.think_ms_p25),
        time(e.think_ms_p50)
    );
    Some((DelayVerdict::SlowApp, why))
}

/// Why slow answers may be unsolicited messages: with bytes that cannot be read, or for URLs
/// that nearly always wait long beside fast ones.
fn doubt(case: &JudgeInput<'_>, slow: &[&UrlReport]) -> Option<&'static str> {
    let e = case.evidence;
    let longest = slow.iter().map(|url| url.think_ms_p95).fold(0.0, f64::max);
    let is_long = longest >= limit::GUESSED_MS_MAX;
    match case.framing {
        RequestFraming::Turns => {
            Some("the protocol is not read: a server may also speak when it has news")
        }
        RequestFraming::Records if is_long => {
            Some("TLS hides whether these are answers, long polls or messages of a WebSocket")
        }
        RequestFraming::Records
            if e.think_first_ms_p95 < limit::GUESSED_FIRST_RATIO_MIN * longest =>
        {
            Some(
                "the first requests of connections are fast and TLS hides the rest: messages of a \
                 WebSocket look alike",
            )
        }
        RequestFraming::Messages if slow.iter().any(|url| url.template == COMPRESSED) => Some(
            "compression hides which command it is: a change stream waits while nothing changes",
        ),
        RequestFraming::Messages if are_streams(slow) => Some(
            "most of its responses are streams: the first message is late when nothing happens",
        ),
        RequestFraming::Messages if is_long && are_polls(case.urls, slow) => {
            Some("it hardly ever answers fast while others do: a long poll looks alike")
        }
        RequestFraming::Records | RequestFraming::Messages => None,
    }
}

/// Whether most responses of all slow URLs are streams.
fn are_streams(slow: &[&UrlReport]) -> bool {
    slow.iter().all(|url| 2 * url.streams >= url.requests)
}

/// Whether all slow URLs are slow always, and another one is fast.
fn are_polls(urls: &[UrlReport], slow: &[&UrlReport]) -> bool {
    let has_fast = urls
        .iter()
        .any(|url| url.requests >= limit::REQUESTS_MIN && url.think_ms_p95 < limit::SLOW_MS_MIN);
    has_fast && slow.iter().all(|url| url.think_ms_p25 >= limit::POLL_MS_P25_MIN)
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

/// Errors and missing answers, unless the capture's end explains them.
fn failing(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    // What ends without an answer may want none where the protocol is not read.
    let is_read = case.framing != RequestFraming::Turns;
    let if_read = f64::from(u8::from(is_read));
    let dropped = (e.unanswered_ratio - e.unfinished_ratio).max(0.0) * if_read;
    let failed = e.error_ratio + e.rejected_ratio + dropped + e.truncated_ratio * if_read;
    (failed >= limit::FAILED_RATIO_MIN && case.requests > 0).then(|| {
        let what = match (case.is_database, e.rejected_ratio) {
            (true, _) => "with an error".to_owned(),
            (false, 0.0) => "with status 5xx".to_owned(),
            (false, rejected) => format!("with status 5xx, {} with 408 or 429", percent(rejected)),
        };
        let why = format!(
            "{} of responses {what}, {} of {} requests never answered, {} of responses broken off \
             (think p95 {})",
            percent(e.error_ratio),
            percent(dropped),
            case.requests,
            percent(e.truncated_ratio),
            time(e.think_ms_p95)
        );
        (DelayVerdict::Failing, why)
    })
}

fn nothing_seen(case: &JudgeInput<'_>) -> RuleOutcome {
    (case.requests == 0).then(|| {
        let why = format!("no requests on {} connections", case.connections);
        (DelayVerdict::Unknown, why)
    })
}

/// What cannot be seen, so that `smooth` does not cover it.
fn unseen_errors(framing: RequestFraming) -> &'static str {
    match framing {
        RequestFraming::Messages => "",
        RequestFraming::Records => "; errors inside of TLS are not visible",
        RequestFraming::Turns => "; errors are not visible, since the protocol is not read",
    }
}

/// What the capture lacks too much of to call anything smooth.
fn missing_share(e: &Evidence) -> Option<String> {
    if e.missed_by_tap_ratio >= limit::TAP_LOSS_RATIO_MAX {
        return Some(format!(
            "the tap missed {} of acknowledged data",
            percent(e.missed_by_tap_ratio)
        ));
    }
    if e.lacking_ratio >= limit::LACKING_RATIO_MAX {
        let share = percent(e.lacking_ratio);
        return Some(format!(
            "the capture lacks the request or the response of {share} of requests"
        ));
    }
    if e.one_sided_ratio >= limit::LACKING_RATIO_MAX {
        let share = percent(e.one_sided_ratio);
        return Some(format!("the capture has one direction only of {share} of connections"));
    }
    if e.unanswered_ratio >= limit::FAILED_RATIO_MIN {
        let share = percent(e.unanswered_ratio);
        return Some(format!("{share} of requests have no answer when the capture ends"));
    }
    if e.doubtful_ratio >= limit::FAILED_RATIO_MIN {
        let share = percent(e.doubtful_ratio);
        return Some(format!(
            "TLS hides whether {share} of requests got an answer or tickets only"
        ));
    }
    if is_tap_late(e) {
        return Some(format!(
            "packets of clients and of servers alike carry stamps up to {} late: the tap's clock \
             stepped, or it stamps late",
            time(e.delay_ms_max)
        ));
    }
    None
}

fn smooth(case: &JudgeInput<'_>) -> (DelayVerdict, String) {
    let e = case.evidence;
    if let Some(missing) = missing_share(e) {
        return (DelayVerdict::Unknown, format!("cannot tell: {missing}"));
    }
    if case.framing == RequestFraming::Turns && e.think_ms_p95 >= limit::SLOW_MS_MIN {
        let why = format!(
            "cannot tell, since the protocol is not read: the server is silent for {} (p95) after the \
             client's bytes, which may be its work or a wait for news",
            time(e.think_ms_p95)
        );
        return (DelayVerdict::Unknown, why);
    }
    // A single request lost before the tap and retransmitted looks like a late client.
    let unknown = if e.loss_before_ratio < 0.0 {
        "; loss before the tap is unknown: packets carry no identification (IPv6 has none)"
            .to_owned()
    } else if e.skipped_ids_ratio >= limit::LOSS_RATIO_MIN {
        format!(
            "; clients skipped {} of IP identifications without a hole in their data: lone \
             requests lost before the tap, or packets sent elsewhere",
            percent(e.skipped_ids_ratio)
        )
    } else {
        String::new()
    };
    let backward = if case.backward_ms >= limit::BACKWARD_MS_MIN {
        format!("; the capture's time goes back by {}: a clock was set", time(case.backward_ms))
    } else {
        String::new()
    };
    let why = format!(
        "think p95 {}, transfer p95 {}, connect p99 {}, delay variation p95 {}, loss {}, {} pauses \
         with bursts{unknown}{backward}{}",
        time(e.think_ms_p95),
        time(e.transfer_ms_p95),
        time(e.connect_ms_p99),
        time(e.delay_ms_p95),
        percent(e.loss_after_ratio.max(e.loss_before_ratio).max(0.0)),
        e.cycles,
        unseen_errors(case.framing)
    );
    (DelayVerdict::Smooth, why)
}

/// Formats a duration: `40 µs`, `0.9 ms`, `916 ms`, `1.35 s`.
pub(super) fn time(ms: f64) -> String {
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

pub(super) fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent >= 10.0 || percent == 0.0 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.2} %")
    }
}

#[cfg(test)]
mod tests {
    use super::{DelayVerdict, Evidence, JudgeInput, RequestFraming, judge};

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
            framing: RequestFraming::Messages,
            is_database: false,
            evidence: &evidence,
            urls: &[],
            servers: &[],
            requests: 8000,
            connections: 200,
            accepted: 200,
            hellos: 200,
            first_requests: 200,
            later_requests: 7800,
            backward_ms: 0.0,
        };
        let (verdict, why) = judge(&case);
        assert_eq!(verdict, expected, "{why}");
    }

    #[test]
    fn each_fault_has_its_verdict_and_normal_noise_has_none() {
        check(|_| {}, DelayVerdict::Smooth);
        check(|e| (e.late_syns, e.connect_ms_p99) = (1442, 7284.0), DelayVerdict::AcceptQueue);
        check(|e| e.races = 164, DelayVerdict::KeepaliveRace);
        check(|e| e.loss_before_ratio = 0.01, DelayVerdict::PathLoss);
        check(|e| (e.dispersion, e.cycles) = (74.0, 6), DelayVerdict::SenderBursts);
        check(
            |e| (e.dispersion, e.cycles, e.timestamp_coverage) = (74.0, 6, 0.3),
            DelayVerdict::Unknown,
        );
        check(
            |e| {
                (e.upstream_coverage, e.own_think_ms_p95, e.upstream_think_ms_p95) =
                    (1.0, 900.0, 80.0)
            },
            DelayVerdict::EdgeStall,
        );
        check(|e| e.error_ratio = 0.2, DelayVerdict::Failing);
        check(|e| (e.error_ratio, e.rejected_ratio) = (0.1, 0.1), DelayVerdict::Failing);
        check(|e| e.unanswered_ratio = 0.25, DelayVerdict::Failing);
        check(|e| e.late_accepts = 20, DelayVerdict::AcceptQueue);
        check(|e| (e.unanswered_ratio, e.unfinished_ratio) = (0.25, 0.2), DelayVerdict::Unknown);
        check(|e| e.lacking_ratio = 0.3, DelayVerdict::Unknown);
        check(|e| (e.subflow_ratio, e.error_ratio) = (0.5, 0.5), DelayVerdict::Unknown);
        check(|e| (e.one_sided_ratio, e.late_syns) = (1.0, 1000), DelayVerdict::Unknown);
        // Load phases alone vary as much as bursts do.
        check(|e| e.dispersion = 31.0, DelayVerdict::Smooth);
    }
}
