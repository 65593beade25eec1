//! The verdict of a whole capture: which port owns the delay.
//!
//! ```text
//! clients ──► edge ──► application ──► database
//!   bursts and slow readers show in all ──►     ◄── slow answers show in all
//! ```
//! So the outermost port owns what clients cause, and the innermost one a slow answer, if its own slow
//! answers sum up to most of the slow time before it. One slow query among thirty is not in a p95.

use std::cmp::Reverse;

use super::report::TierReport;
use super::rules::{DelayVerdict, percent, time};
use super::thresholds as limit;

/// How much a port says about the capture, the most telling first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum VerdictWeight {
    /// A fault where requests are told apart.
    Fault,
    /// A fault of the network elsewhere.
    NetworkFault,
    /// A port that nothing can be said about and that has a large part of the requests.
    Unclear,
    /// A port without requests, such as one that refuses a scan.
    Idle,
    Smooth,
    Nothing,
}

/// Verdict and evidence of the capture. End-host causes of a protocol without known framing, such as
/// a terminal waiting for its user, do not count while there are requests to judge.
pub(super) fn overall(tiers: &[TierReport]) -> (DelayVerdict, String) {
    let has_known = tiers.iter().any(|tier| tier.has_known_framing() && tier.requests > 0);
    let total: u64 = tiers.iter().map(|tier| tier.requests.max(tier.unasked)).sum();
    let worst = tiers.iter().min_by_key(|tier| {
        let is_primary = !has_known || tier.has_known_framing();
        let depth = i16::from(tier.depth);
        let place = if tier.verdict.is_of_clients() { depth } else { -depth };
        let is_plain = Reverse(tier.mentions_skipped_ids());
        (weight(tier, is_primary, total), tier.verdict, is_plain, place)
    });
    let Some(worst) = worst else {
        return (DelayVerdict::Unknown, "no TCP connection in this capture".to_owned());
    };
    match owner(worst, tiers) {
        Some(owner) if owner.verdict.explains_slow_answers() => {
            (owner.verdict, format!("port {}: {}", owner.port, owner.why))
        }
        Some(owner) => (DelayVerdict::SlowApp, slow_behind(owner, worst)),
        None => {
            let unread = unread_suspect(worst, tiers);
            (worst.verdict, format!("port {}: {}{unread}", worst.port, worst.why))
        }
    }
}

/// The remark that a port behind `worst`, whose protocol is not read, waits as long.
fn unread_suspect(worst: &TierReport, tiers: &[TierReport]) -> String {
    let is_of_server = matches!(worst.verdict, DelayVerdict::SlowApp | DelayVerdict::EdgeStall);
    let least = limit::OWNED_RATIO_MIN * worst.evidence.slow_think_seconds;
    let suspect = tiers.iter().find(|tier| {
        let slow = tier.evidence.slow_think_seconds;
        is_of_server && tier.is_inner && !tier.has_known_framing() && slow > 0.0 && slow >= least
    });
    suspect.map_or_else(String::new, |tier| {
        format!(
            "; port {} behind it, whose protocol is not read, is silent as long: it may be the cause",
            tier.port
        )
    })
}

#[expect(clippy::cast_precision_loss, reason = "requests are below 2^53")]
fn weight(tier: &TierReport, is_primary: bool, total: u64) -> VerdictWeight {
    let own = tier.requests.max(tier.unasked);
    let is_large = own as f64 >= limit::LACKING_RATIO_MAX * total as f64;
    match tier.verdict {
        DelayVerdict::Smooth => VerdictWeight::Smooth,
        DelayVerdict::Unknown if is_primary && own > 0 && is_large => VerdictWeight::Unclear,
        DelayVerdict::Unknown => VerdictWeight::Nothing,
        DelayVerdict::Failing if own == 0 && !tier.is_inner => VerdictWeight::Idle,
        _ if is_primary => VerdictWeight::Fault,
        verdict if verdict.is_of_end_host() => VerdictWeight::Nothing,
        _ => VerdictWeight::NetworkFault,
    }
}

/// The deepest port whose slow answers explain most of those of `worst`.
fn owner<'a>(worst: &TierReport, tiers: &'a [TierReport]) -> Option<&'a TierReport> {
    let e = &worst.evidence;
    let is_of_server = match worst.verdict {
        DelayVerdict::AcceptQueue => e.late_syns + e.late_accepts < limit::LATE_SYNS_MIN,
        DelayVerdict::SlowApp | DelayVerdict::EdgeStall => true,
        _ => false,
    };
    let least = limit::OWNED_RATIO_MIN * e.slow_think_seconds;
    let deeper = tiers.iter().filter(|tier| {
        let slow = tier.evidence.slow_think_seconds;
        is_of_server
            && tier.depth > worst.depth
            && tier.is_inner
            && tier.has_known_framing()
            && tier.verdict != DelayVerdict::Unknown
            && slow > 0.0
            && slow >= least
    });
    deeper.max_by(|a, b| {
        let slow = [a, b].map(|tier| tier.evidence.slow_think_seconds);
        a.depth.cmp(&b.depth).then(slow[0].total_cmp(&slow[1]))
    })
}

fn slow_behind(owner: &TierReport, worst: &TierReport) -> String {
    let own = owner.evidence.slow_think_seconds;
    format!(
        "port {}: few of {} requests are slow (p95 {}), but they sum up to {}, {} of the slow time of \
         port {}",
        owner.port,
        owner.requests,
        time(owner.evidence.think_ms_p95),
        time(own * 1000.0),
        percent(own / worst.evidence.slow_think_seconds.max(0.001)),
        worst.port
    )
}
