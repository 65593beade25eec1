//! The answer for a person: was it us, and the numbers behind that.

use std::fmt::Write;
use std::path::PathBuf;

use weir_process::terminal::Paint;
use weir_tables::Micros;
use weir_wire::{
    DelayVerdict, ObservedConnection, Quantiles, Report, SliceReport, TierReport, UslResult,
};

use super::chart::{Fold, line};

/// URLs and connections that are shown.
const SHOWN: usize = 5;

/// The page.
pub(super) fn page(report: &Report, files: &[PathBuf], paint: Paint) -> String {
    let mut out = String::new();
    put(&mut out, report, files, paint).expect("a string takes all");
    out.truncate(out.trim_end().len());
    out
}

fn put(out: &mut String, report: &Report, files: &[PathBuf], paint: Paint) -> std::fmt::Result {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let requests: u64 = report.tiers.iter().map(|tier| tier.requests).sum();
    let names = names.join(", ");
    match report.span_ns {
        None => writeln!(out, "{names}: no matching TCP packet")?,
        Some([first, last]) => writeln!(
            out,
            "{names}: {} TCP packets from {} in {}, {} requests, {} server ports",
            thousands(report.packets),
            Micros(first.div_euclid(1000)),
            time(us(last - first)),
            thousands(requests),
            report.tiers.len()
        )?,
    }
    let class = class(report.verdict);
    let answer = format!("{} ({})", report.verdict.answer(), report.verdict.as_str());
    writeln!(out, "\nWas it us? {}\n  {}", paint.of_class(class).paint(&answer), report.why)?;
    for tier in &report.tiers {
        put_tier(out, tier, report.slice_ns, paint)?;
    }
    put_worst(out, &report.worst, paint)?;
    put_skipped(out, report, paint)
}

/// Our fault is red, others' yellow.
fn class(verdict: DelayVerdict) -> &'static str {
    match verdict {
        DelayVerdict::Smooth => "note",
        _ if verdict.answer().starts_with("Yes") => "page",
        _ => "mail",
    }
}

fn put_tier(out: &mut String, tier: &TierReport, slice_ns: i64, paint: Paint) -> std::fmt::Result {
    let is_database = matches!(tier.protocol, "mysql" | "postgresql" | "redis" | "mongodb");
    let kind = match (is_database, tier.is_upstream) {
        (true, _) => "to the database",
        (false, true) => "edge to upstream",
        (false, false) => "client to edge",
    };
    let head = format!("port {} ({}, {kind})", tier.port, tier.protocol);
    let verdict = paint.of_class(class(tier.verdict)).paint(tier.verdict.as_str());
    writeln!(out, "\n{}  {verdict}\n  {}", paint.bold(&head), tier.why)?;
    writeln!(
        out,
        "  {} requests, {} answered, {} unanswered, {} with {}, {} connections",
        thousands(tier.requests),
        thousands(tier.responses),
        thousands(tier.unanswered),
        thousands(tier.errors_5xx),
        if is_database { "an error" } else { "status 5xx" },
        thousands(tier.connections)
    )?;
    if tier.unseen + tier.unasked > 0 {
        writeln!(
            out,
            "  the capture lacks {} responses and {} requests",
            thousands(tier.unseen),
            thousands(tier.unasked)
        )?;
    }
    let rows = [
        ("think", "last request byte to first response byte", tier.think),
        ("transfer", "first response byte to last", tier.transfer),
        ("connect", "SYN to SYN-ACK", tier.connect),
        ("delay", "variation of the way from the client", tier.delay),
        ("round trip", "from here to the client and back", tier.rtt),
    ];
    writeln!(out, "  {:12}{:>9}{:>9}{:>9}{:>9}", "", "p50", "p95", "p99", "max")?;
    for (name, what, quantiles) in rows {
        if let Some(q) = quantiles {
            put_row(out, name, q, what, paint)?;
        }
    }
    if tier.slices.len() > 1 {
        put_charts(out, tier, slice_ns, paint)?;
    }
    put_urls(out, tier, paint)?;
    put_laws(out, tier, paint)
}

fn put_row(
    out: &mut String,
    name: &str,
    q: Quantiles,
    what: &str,
    paint: Paint,
) -> std::fmt::Result {
    let cells = [q.p50, q.p95, q.p99, q.max].map(|us| format!("{:>9}", time(us)));
    writeln!(out, "  {name:12}{}  {}", cells.concat(), paint.dim(what))
}

type Measure = fn(&SliceReport) -> Option<f64>;

fn put_charts(
    out: &mut String,
    tier: &TierReport,
    slice_ns: i64,
    paint: Paint,
) -> std::fmt::Result {
    #[expect(clippy::cast_precision_loss, reason = "counts and microseconds are below 2^53")]
    let charts: [(&str, Measure, Fold, bool); 4] = [
        ("arrivals", |slice| Some(slice.arrivals as f64), Fold::Mean, false),
        ("completions", |slice| Some(slice.completions as f64), Fold::Mean, false),
        ("under way", |slice| Some(slice.concurrency()), Fold::Mean, false),
        ("time (p95)", |slice| slice.total_us.map(|[_, p95, _]| p95 as f64), Fold::Max, true),
    ];
    for (name, measure, fold, is_time) in charts {
        let values: Vec<Option<f64>> = tier.slices.iter().map(measure).collect();
        let known = || values.iter().flatten().copied();
        let (low, high) = (known().fold(f64::MAX, f64::min), known().fold(0.0, f64::max));
        if known().next().is_none() {
            continue;
        }
        let show = |value: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "times are positive and short"
            )]
            if is_time { time(value as u64) } else { format!("{value:.0}") }
        };
        let range = paint.dim(&format!("{} to {}", show(low), show(high)));
        writeln!(out, "  {name:12}{}  {range}", line(&values, fold))?;
    }
    let note = format!("one slice is {}, {} of them", time(us(slice_ns)), tier.slices.len());
    writeln!(out, "  {:12}{}", "", paint.dim(&note))
}

fn put_urls(out: &mut String, tier: &TierReport, paint: Paint) -> std::fmt::Result {
    if tier.urls.iter().all(|url| url.template == "(other)") {
        return Ok(());
    }
    let mut urls: Vec<_> = tier.urls.iter().collect();
    urls.sort_by(|a, b| b.think_ms_p95.total_cmp(&a.think_ms_p95));
    let what = if tier.urls.iter().any(|url| url.template.starts_with('/')) {
        "slowest URLs"
    } else {
        "slowest     "
    };
    let head = format!("  {what}{:>9}{:>9}{:>9}{:>9}", "requests", "p50", "p95", "5xx");
    writeln!(out, "{}", paint.dim(&head))?;
    for url in urls.into_iter().take(SHOWN) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "times are positive and short"
        )]
        let [p50, p95] = [url.think_ms_p50, url.think_ms_p95].map(|ms| time((ms * 1000.0) as u64));
        writeln!(
            out,
            "              {:>9}{p50:>9}{p95:>9}{:>9}  {}",
            thousands(url.requests),
            thousands(url.errors_5xx),
            url.template
        )?;
    }
    Ok(())
}

fn put_laws(out: &mut String, tier: &TierReport, paint: Paint) -> std::fmt::Result {
    if let Some(error) = tier.little_error {
        let note =
            if error > 0.1 { ": packets are missing, or requests outlast the slice" } else { "" };
        let text = format!("  Little's law holds within {:.1} %{note}", error * 100.0);
        writeln!(out, "{}", paint.dim(&text))?;
    }
    match &tier.usl {
        UslResult::Refused(why) => {
            writeln!(out, "{}", paint.dim(&format!("  no capacity is estimated: {why}")))
        }
        UslResult::Fit(usl) => {
            let end = match usl.peak {
                Some(peak) => format!("most at a concurrency of {peak:.0}"),
                None => "no decline was seen".to_owned(),
            };
            writeln!(
                out,
                "  capacity {:.0} requests/s ({end}; λ {:.1}/s, σ {:.3}, κ {:.5})",
                usl.capacity, usl.lambda, usl.sigma, usl.kappa
            )
        }
    }
}

fn put_worst(out: &mut String, worst: &[ObservedConnection], paint: Paint) -> std::fmt::Result {
    if worst.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint.bold("worst connections"))?;
    for seen in worst.iter().take(SHOWN) {
        let mut signs = Vec::new();
        if let Some(wait) = seen.syn_wait_us.filter(|us| *us >= 100_000) {
            signs.push(format!("connected after {} and {} SYNs", time(wait.into()), seen.syns));
        }
        if let Some(delay) = seen.delay_max_us.filter(|us| *us >= 50_000) {
            signs.push(format!("packets held for {}", time(delay.into())));
        }
        let real = seen.retransmits[1].saturating_sub(seen.spurious[1]);
        if real > 0 {
            signs.push(format!("{real} segments lost"));
        }
        if seen.zero_windows[0] > 0 {
            signs.push(format!("window shut for {}", time(seen.zero_window_us[0].into())));
        }
        if seen.is_rst_in_flight || seen.late_requests > 0 {
            signs.push("a request met the closing".to_owned());
        }
        let ends = format!("{} → {}", seen.client, seen.server);
        writeln!(out, "  {ends}  {} requests; {}", seen.requests, signs.join(", "))?;
    }
    Ok(())
}

fn put_skipped(out: &mut String, report: &Report, paint: Paint) -> std::fmt::Result {
    if let Some(drops) = report.tap_drops.filter(|drops| *drops > 0) {
        writeln!(out, "\nthe tap itself lost {} packets: numbers are too low", thousands(drops))?;
    }
    if report.given_up > 0 {
        let text = format!("{} idle connections were given up", thousands(report.given_up));
        writeln!(out, "\n{text}: there were more at once than are followed")?;
    }
    if report.skipped.total() == 0 {
        return Ok(());
    }
    writeln!(out, "\n{}", paint.bold("not used"))?;
    for (reason, count) in report.skipped.iter() {
        writeln!(out, "  {:>12}  {}", thousands(count), reason.describe().1)?;
    }
    Ok(())
}

fn us(ns: i64) -> u64 {
    u64::try_from(ns / 1000).unwrap_or(0)
}

/// `1,682,796`.
pub(super) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Microseconds for a person: `40 µs`, `0.9 ms`, `916 ms`, `1.35 s`, `2 m 5 s`.
#[expect(clippy::cast_precision_loss, reason = "microseconds are below 2^53")]
pub(super) fn time(us: u64) -> String {
    match us {
        0..100 => format!("{us} µs"),
        100..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", us / 1000),
        1_000_000..100_000_000 => format!("{:.2} s", us as f64 / 1e6),
        _ => format!("{} m {} s", us / 60_000_000, us / 1_000_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{thousands, time};

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(1_682_796), "1,682,796");
        let times = [40, 900, 916_000, 1_350_000, 125_000_000].map(time);
        assert_eq!(times, ["40 µs", "0.9 ms", "916 ms", "1.35 s", "2 m 5 s"]);
    }
}
