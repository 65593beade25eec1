//! The answer as one object. Counts are exact; times are seconds, evidence is as its names say.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use weir_tables::Micros;
use weir_wire::{
    ObservedConnection, Quantiles, Report, SkipCounts, SliceReport, TierReport, UrlReport,
    UslResult,
};

/// The whole answer as text.
pub fn object(report: &Report, files: &[PathBuf]) -> String {
    serde_json::to_string_pretty(&value(report, files))
        .expect("numbers, text and arrays become JSON")
}

/// The whole answer.
pub fn value(report: &Report, files: &[PathBuf]) -> Value {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let ends = report.span_ns.map(|span| span.map(instant));
    let slices = report.tiers.iter().flat_map(|tier| {
        tier.slices.iter().map(|slice| slice_object(tier.port, report.slice_ns, slice))
    });
    let mut slices: Vec<Value> = slices.collect();
    slices.sort_by(|a, b| a["ts"].as_str().cmp(&b["ts"].as_str()));
    json!({
        "verdict": report.verdict.as_str(),
        "why": report.why,
        "answer": report.verdict.answer(),
        "files": names,
        "first_ts": ends.as_ref().map(|[first, _]| first),
        "last_ts": ends.as_ref().map(|[_, last]| last),
        "duration_seconds": report.span_ns.map(|[first, last]| seconds_ns(last - first)),
        "packets": report.packets,
        "payload_bytes": report.bytes,
        "tap_drops": report.tap_drops,
        "connections_given_up": report.given_up,
        "tiers": report.tiers.iter().map(tier_object).collect::<Vec<_>>(),
        "slices": slices,
        "worst_connections": report.worst.iter().map(connection).collect::<Vec<_>>(),
        "skipped": skipped(&report.skipped),
    })
}

fn instant(ns: i64) -> String {
    Micros(ns.div_euclid(1000)).to_string()
}

#[expect(clippy::cast_precision_loss, reason = "a capture is shorter than 2^53 ns, 104 days")]
fn seconds_ns(ns: i64) -> f64 {
    ns as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "microseconds are below 2^53")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// What and why, for each reason that occurred.
fn skipped(skipped: &SkipCounts) -> Vec<Value> {
    let each = skipped.iter().map(|(reason, count)| {
        let (what, why) = reason.describe();
        json!({"what": what, "why": why, "count": count})
    });
    each.collect()
}

fn put_quantiles(object: &mut Map<String, Value>, name: &str, quantiles: Option<Quantiles>) {
    let mut put = |suffix: &str, value: Option<u64>| {
        object.insert(format!("{name}_seconds_{suffix}"), value.map(seconds).into());
    };
    put("p50", quantiles.map(|q| q.p50));
    put("p95", quantiles.map(|q| q.p95));
    put("p99", quantiles.map(|q| q.p99));
    put("max", quantiles.map(|q| q.max));
}

fn put_three(object: &mut Map<String, Value>, name: &str, values: Option<[u64; 3]>) {
    for (at, suffix) in ["p50", "p95", "p99"].into_iter().enumerate() {
        let value = values.map(|values| seconds(values[at]));
        object.insert(format!("{name}_seconds_{suffix}"), value.into());
    }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn tier_object(tier: &TierReport) -> Value {
    let evidence: Map<String, Value> = tier
        .evidence
        .fields()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), number(value)))
        .collect();
    let mut object = fields(json!({
        "port": tier.port,
        "tier": if tier.is_upstream { "wire_upstream" } else { "wire_edge" },
        "protocol": tier.protocol,
        "verdict": tier.verdict.as_str(),
        "why": tier.why,
        "requests": tier.requests,
        "responses": tier.responses,
        "unanswered": tier.unanswered,
        "responses_not_captured": tier.unseen,
        "requests_not_captured": tier.unasked,
        "errors_5xx": tier.errors_5xx,
        "connections": tier.connections,
        "packets": tier.packets,
        "payload_bytes": tier.bytes,
        "little_error_ratio": tier.little_error,
        "usl": usl(&tier.usl),
        "evidence": evidence,
        "urls": tier.urls.iter().map(url).collect::<Vec<_>>(),
    }));
    let distributions = [
        ("think", tier.think),
        ("transfer", tier.transfer),
        ("duration", tier.total),
        ("connect", tier.connect),
        ("rtt", tier.rtt),
        ("delay_variation", tier.delay),
    ];
    for (name, quantiles) in distributions {
        put_quantiles(&mut object, name, quantiles);
    }
    Value::Object(object)
}

/// Counts without a decimal point.
fn number(value: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "it was found to be whole and small")]
    if value.fract() == 0.0 && value.abs() < 9e15 { (value as i64).into() } else { value.into() }
}

fn usl(answer: &UslResult) -> Value {
    match answer {
        UslResult::Refused(why) => json!({"refused": why}),
        UslResult::Fit(usl) => json!({
            "lambda": usl.lambda,
            "sigma": usl.sigma,
            "kappa": usl.kappa,
            "capacity_per_second": usl.capacity,
            "peak_concurrency": usl.peak,
        }),
    }
}

fn url(url: &UrlReport) -> Value {
    json!({
        "template": url.template,
        "requests": url.requests,
        "errors_5xx": url.errors_5xx,
        "think_seconds_p25": url.think_ms_p25 / 1000.0,
        "think_seconds_p50": url.think_ms_p50 / 1000.0,
        "think_seconds_p95": url.think_ms_p95 / 1000.0,
        "duration_seconds_p95": url.total_ms_p95 / 1000.0,
        "duration_seconds_total": url.total_seconds,
    })
}

fn slice_object(port: u16, width_ns: i64, slice: &SliceReport) -> Value {
    let mut object = fields(json!({
        "ts": instant(slice.start_ns),
        "port": port,
        "width_seconds": seconds_ns(width_ns),
        "observed_seconds": seconds(slice.observed_us),
        "arrivals": slice.arrivals,
        "completions": slice.completions,
        "throughput_per_second": slice.throughput(),
        "concurrency": slice.concurrency(),
        "busy_seconds": seconds(slice.busy_us),
        "weighted_seconds": seconds(slice.weighted_us),
        "sum_seconds": seconds(slice.sum_us),
        "variance_mean_seconds": slice.variance_mean_us / 1e6,
        "errors_5xx": slice.errors_5xx,
        "new_connections": slice.new_connections,
        "syns": slice.syns,
        "late_syns": slice.late_syns,
        "synack_retries": slice.synack_retries,
        "retransmits": slice.retransmits,
        "spurious": slice.spurious,
        "missing": slice.missing,
        "missed_by_tap": slice.missed_by_tap,
        "zero_windows": slice.zero_windows,
        "resets_in_flight": slice.resets_in_flight,
        "races": slice.races,
        "packets": slice.packets,
        "payload_bytes": slice.bytes,
        "dispersion_10ms": slice.dispersion[0],
        "dispersion_100ms": slice.dispersion[1],
        "little_error_ratio": slice.little_error,
        "verdict": slice.verdict.map(weir_wire::DelayVerdict::as_str),
    }));
    let distributions = [
        ("think", slice.think_us),
        ("transfer", slice.transfer_us),
        ("duration", slice.total_us),
        ("connect", slice.connect_us),
        ("delay_variation", slice.delay_us),
    ];
    for (name, values) in distributions {
        put_three(&mut object, name, values);
    }
    Value::Object(object)
}

fn connection(seen: &ObservedConnection) -> Value {
    json!({
        "client": seen.client.to_string(),
        "server": seen.server.to_string(),
        "first_ts": instant(seen.first_ts),
        "duration_seconds": seconds_ns(seen.last_ts - seen.first_ts),
        "requests": seen.requests,
        "syns": seen.syns,
        "connect_seconds": micro_seconds(seen.syn_wait_us),
        "rtt_seconds_min": micro_seconds(seen.rtt_us[0]),
        "delay_variation_seconds_max": micro_seconds(seen.delay_max_us),
        "retransmits": seen.retransmits[1],
        "spurious": seen.spurious[1],
        "zero_windows": seen.zero_windows[0],
        "zero_window_seconds": seconds(u64::from(seen.zero_window_us[0])),
        "fin_by": seen.fin_by,
        "rst_by": seen.rst_by,
        "is_reset_in_flight": seen.is_rst_in_flight,
        "requests_after_fin": seen.late_requests,
    })
}

fn micro_seconds(us: Option<u32>) -> Option<f64> {
    us.map(|us| seconds(u64::from(us)))
}
