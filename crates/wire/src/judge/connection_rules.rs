//! Rules about what happens besides the wait for an answer: opening connections, reading uploads,
//! sending bodies, and one server among several.

use super::rules::{
    COMPRESSED, DelayVerdict, JudgeInput, RequestFraming, RuleOutcome, percent, time,
};
use super::thresholds as limit;

/// Think times of one server of a port.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServerTimes {
    pub(super) address: String,
    pub(super) requests: u64,
    pub(super) think_ms_p50: f64,
    pub(super) think_ms_p95: f64,
}

/// Without the other direction there are no answers, and no answer to a SYN either.
pub(super) fn one_direction(case: &JudgeInput<'_>) -> RuleOutcome {
    let ratio = case.evidence.one_sided_ratio;
    (ratio >= limit::ONE_SIDED_RATIO_MIN).then(|| {
        let why = format!(
            "cannot tell: the capture has one direction only of {} of {} connections, so answers \
             are missing; capture where both directions pass",
            percent(ratio),
            case.connections
        );
        (DelayVerdict::Unknown, why)
    })
}

/// A path of Multipath TCP has a part of the data only: requests and responses are spread over several.
pub(super) fn several_paths(case: &JudgeInput<'_>) -> RuleOutcome {
    let ratio = case.evidence.subflow_ratio;
    (ratio >= limit::LACKING_RATIO_MAX).then(|| {
        let why = format!(
            "cannot tell: {} of {} connections are further paths of Multipath TCP, so requests and \
             responses are in parts; capture behind the server that ends it, or turn it off",
            percent(ratio),
            case.connections
        );
        (DelayVerdict::Unknown, why)
    })
}

/// Handshakes that took a second SYN-ACK were delayed by loss: a network that holds packets is ruled
/// out before.
pub(super) fn lost_synacks(case: &JudgeInput<'_>) -> RuleOutcome {
    let lost = case.evidence.lost_synacks;
    let is_frequent = lost * 100 >= case.connections * limit::LOST_SYNACKS_PERCENT_MIN;
    (lost >= limit::LOST_SEGMENTS_MIN && is_frequent).then(|| {
        let why = format!(
            "{lost} of {} connections opened only after a second SYN-ACK: packets of the handshake \
             are lost",
            case.connections
        );
        (DelayVerdict::PathLoss, why)
    })
}

/// Connections that never came to a request.
#[expect(clippy::cast_precision_loss, reason = "connections are below 2^53")]
pub(super) fn unopened(case: &JudgeInput<'_>) -> RuleOutcome {
    let ratio = case.evidence.unopened_ratio;
    let is_enough = ratio * case.connections as f64 >= limit::UNOPENED_MIN;
    (ratio >= limit::FAILED_RATIO_MIN && is_enough).then(|| {
        let why = format!(
            "{} of {} connections were refused, not answered, or ended within the TLS handshake",
            percent(ratio),
            case.connections
        );
        (DelayVerdict::Failing, why)
    })
}

/// Clients that leave within the handshake without a word: checks do, and some that refuse a certificate.
pub(super) fn left_handshakes(case: &JudgeInput<'_>) -> RuleOutcome {
    let ratio = case.evidence.left_handshake_ratio;
    (ratio >= limit::FAILED_RATIO_MIN).then(|| {
        let why = format!(
            "cannot tell: {} of {} clients left within the TLS handshake without an alert: health \
             checks, or they refuse the certificate",
            percent(ratio),
            case.connections
        );
        (DelayVerdict::Unknown, why)
    })
}

/// Servers that close their receive window within uploads.
pub(super) fn slow_upload(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    let is_shut = e.server_zero_windows >= limit::ZERO_WINDOWS_MIN
        && e.server_wait_ratio >= limit::ZERO_WINDOW_WAIT_RATIO_MIN;
    let is_long = e.upload_ms_p95 >= limit::SLOW_MS_MIN;
    (is_shut && is_long && case.requests >= limit::READ_REQUESTS_MIN).then(|| {
        let why = format!(
            "the server reads uploads slowly: it closed its receive window {} times, for {} of the \
             time of uploads (p95 {})",
            e.server_zero_windows,
            percent(e.server_wait_ratio),
            time(e.upload_ms_p95)
        );
        (DelayVerdict::SlowApp, why)
    })
}

/// One server that is slow while the others of its port are fast. Waits of seconds are left to the
/// rule that considers long polls.
pub(super) fn slow_server(case: &JudgeInput<'_>) -> RuleOutcome {
    let busy: Vec<_> =
        case.servers.iter().filter(|server| server.requests >= limit::REQUESTS_MIN).collect();
    let slowest = busy.iter().max_by(|a, b| a.think_ms_p50.total_cmp(&b.think_ms_p50))?;
    let others = busy.iter().filter(|other| other.address != slowest.address);
    let usual = others.map(|other| other.think_ms_p95).max_by(f64::total_cmp)?;
    let is_slow =
        slowest.think_ms_p50 >= limit::SLOW_MS_MIN.max(limit::SLOW_TO_BASELINE_MIN * usual);
    let is_poll = slowest.think_ms_p50 >= limit::POLL_MS_P25_MIN;
    let is_read = case.framing == RequestFraming::Messages
        && case.urls.iter().all(|url| url.template != COMPRESSED);
    (is_slow && !is_poll && is_read).then(|| {
        let why = format!(
            "only server {} is slow: p50 {} ({} requests), p95 of the others at most {}",
            slowest.address,
            time(slowest.think_ms_p50),
            slowest.requests,
            time(usual)
        );
        (DelayVerdict::SlowApp, why)
    })
}

/// A server whose first TLS record is late: whether accept() or the handshake is slow does not show.
pub(super) fn slow_hello(case: &JudgeInput<'_>) -> RuleOutcome {
    let late = case.evidence.hello_ms_p95;
    (case.hellos >= limit::REQUESTS_MIN && late >= limit::SLOW_MS_MIN).then(|| {
        let why = format!(
            "cannot tell: the server's first TLS record takes {} (p95 of {} handshakes); its CPU is \
             busy with handshakes, or connections wait to be accepted",
            time(late),
            case.hellos
        );
        (DelayVerdict::Unknown, why)
    })
}

/// Bodies that come in pieces, with pauses that neither clients nor the network cause.
pub(super) fn slow_body(case: &JudgeInput<'_>) -> RuleOutcome {
    let e = case.evidence;
    let is_long = e.transfer_ms_p95 >= limit::VERY_SLOW_MS_MIN;
    let is_paused = e.server_pause_ratio >= limit::SERVER_PAUSE_RATIO_MIN;
    (is_long && is_paused && case.requests >= limit::REQUESTS_MIN).then(|| {
        let why = format!(
            "cannot tell: responses take {} after their first byte (p95), {} of it pauses of the \
             server: a slow application that sends its head early, or a stream",
            time(e.transfer_ms_p95),
            percent(e.server_pause_ratio)
        );
        (DelayVerdict::Unknown, why)
    })
}
