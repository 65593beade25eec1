//! `thresholds`: recall and false alarms of mined thresholds, on synthetic web traffic and on
//! recorded series.
//!
//! Both use `weir thresholds --series FILE --walk-from TIME`: each day is evaluated with what was
//! known the night before. Recorded series are those of the Numenta Anomaly Benchmark, in a
//! directory with its `data` and `labels`.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::random::Random;
use crate::report::Report;
use crate::weir::output;

const STEP: i64 = 300;
const DAY: i64 = 86_400;
/// Weeks of training, and of evaluation.
const WEEKS: (i64, i64) = (4, 4);
/// 2026-09-28, a Monday.
const BEGIN: i64 = 1_790_553_600;
/// Share of a recorded series for training only.
const LEARNED_PERCENT: usize = 35;

/// Runs both parts, or only the first without a directory.
pub(crate) fn run(seeds: u64, nab: Option<&Path>) -> anyhow::Result<()> {
    let mut page = Report::new("thresholds");
    synthetic(&mut page, seeds)?;
    match nab {
        Some(dir) => recorded(&mut page, dir)?,
        None => page.text("The recorded series were left out: `--nab DIR` names them."),
    }
    page.write()
}

/// An event that weir reported, in seconds since 1970.
struct ThresholdEvent {
    from: i64,
    to: i64,
}

fn walk(file: &Path, args: &[String]) -> anyhow::Result<Vec<ThresholdEvent>> {
    let file = file.display().to_string();
    let mut all = vec!["thresholds", "--format", "json", "--series", &file];
    all.extend(args.iter().map(String::as_str));
    let answer: Value = serde_json::from_str(&output(&all)?)?;
    let events = answer["events"].as_array().context("the answer has events")?;
    events
        .iter()
        .map(|event| {
            Ok(ThresholdEvent { from: time(&event["from_ts"])?, to: time(&event["to_ts"])? })
        })
        .collect()
}

/// Evaluates synthetic web traffic: false events of normal weeks, and drops found.
fn synthetic(page: &mut Report, seeds: u64) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut rows = vec![
        ["growth in 8 weeks", "false asked a week", "false a week", "drops found", "share"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for growth in [0.0, 0.3, 1.0] {
        for asked in ["0.25", "1", "4"] {
            let (mut wrong, mut found, mut dropped) = (0usize, 0usize, 0usize);
            for seed in 1..=seeds {
                let calm = traffic(seed, growth);
                wrong += judged(dir.path(), &calm, asked, &[])?.len();
                let (broken, spans) = with_drops(seed, &calm);
                let events = judged(dir.path(), &broken, asked, &spans)?;
                dropped += spans.len();
                found += hits(&spans, &events);
            }
            rows.push(vec![
                format!("{:.0} %", growth * 100.0),
                asked.to_owned(),
                format!(
                    "{:.2}",
                    ratio([wrong, usize::try_from(seeds)? * usize::try_from(WEEKS.1)?])
                ),
                format!("{found} of {dropped}"),
                format!("**{:.3}**", ratio([found, dropped])),
            ]);
        }
    }
    page.text(&format!(
        "Requests of five minutes: a day's curve, weekends a third lower, noise that remembers (0.8 of the value \
         before, 5 %), two in a thousand values up to half as high again. {} weeks are learned, then {} judged day by \
         day, {seeds} seeds each. Drops: 30 % for 30 minutes, one every second day at any hour; nothing is learned from \
         them, as from confirmed incidents. Bars: no more false than asked; 0.95 of the drops.",
        WEEKS.0, WEEKS.1
    ));
    page.table(&rows);
    Ok(())
}

type TimeSeries = Vec<(i64, f64)>;

fn traffic(seed: u64, growth: f64) -> TimeSeries {
    let mut random = Random::new(seed);
    let mut drift = 0.0;
    let span = (WEEKS.0 + WEEKS.1) * 7 * DAY;
    let mut out = TimeSeries::new();
    let mut at = BEGIN;
    while at < BEGIN + span {
        let passed = at - BEGIN;
        let weekend = if (passed / DAY) % 7 >= 5 { 0.667 } else { 1.0 };
        let angle = share([passed % DAY, DAY]) * std::f64::consts::TAU;
        drift = 0.8 * drift + 0.03 * random.normal();
        let burst = if random.share() < 0.002 { 1.0 + 0.5 * random.share() } else { 1.0 };
        let grown = 1.0 + growth * share([passed, span]);
        let noise = f64::exp(drift + 0.02 * random.normal());
        out.push((
            at,
            (1000.0 * grown * weekend * (1.0 - 0.55 * angle.cos()) * burst * noise).round(),
        ));
        at += STEP;
    }
    out
}

/// The series with a drop every second day of the evaluated weeks, and the time of each.
fn with_drops(seed: u64, calm: &[(i64, f64)]) -> (TimeSeries, Vec<(i64, i64)>) {
    let mut random = Random::new(seed ^ 0xD0);
    let mut series = calm.to_vec();
    let mut spans = Vec::new();
    let mut day = BEGIN + WEEKS.0 * 7 * DAY;
    while day < BEGIN + (WEEKS.0 + WEEKS.1) * 7 * DAY {
        #[expect(clippy::cast_possible_truncation, reason = "a number below 500")]
        let from = day + (random.share() * 500.0) as i64 * STEP;
        let to = from + 6 * STEP;
        for (_, value) in series.iter_mut().filter(|(at, _)| (from..to).contains(at)) {
            *value = (*value * 0.7).round();
        }
        spans.push((from, to));
        day += 2 * DAY;
    }
    (series, spans)
}

fn judged(
    dir: &Path,
    series: &[(i64, f64)],
    asked: &str,
    incidents: &[(i64, i64)],
) -> anyhow::Result<Vec<ThresholdEvent>> {
    let file = dir.join("series.csv");
    let lines: Vec<String> = series.iter().map(|(at, value)| format!("{at},{value}\n")).collect();
    fs::write(&file, lines.concat())?;
    let from = (BEGIN + WEEKS.0 * 7 * DAY).to_string();
    let mut args =
        ["--side", "below", "--per-week", asked, "--walk-from", &from].map(str::to_owned).to_vec();
    for (from, to) in incidents {
        args.extend(["--incident".to_owned(), format!("{from}/{to}")]);
    }
    walk(&file, &args)
}

fn hits(spans: &[(i64, i64)], events: &[ThresholdEvent]) -> usize {
    let found = spans
        .iter()
        .filter(|(from, to)| events.iter().any(|event| event.from < *to && event.to >= *from));
    found.count()
}

/// Evaluates the recorded series: the first part is training, the rest is compared with the
/// labelled windows.
fn recorded(page: &mut Report, dir: &Path) -> anyhow::Result<()> {
    let labels = dir.join("labels/combined_windows.json");
    let text = fs::read_to_string(&labels).with_context(|| {
        format!(
            "cannot read `{}`: --nab must name a copy of the Numenta Anomaly Benchmark",
            labels.display()
        )
    })?;
    let windows: serde_json::Map<String, Value> = serde_json::from_str(&text)?;
    ensure!(!windows.is_empty(), "`{}` has no series", labels.display());
    let mut rows = vec![
        ["false asked a week", "windows found", "recall", "false per series-week", "precision"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for asked in ["0.25", "1", "4"] {
        let (mut found, mut all, mut wrong, mut right, mut weeks) = (0, 0, 0, 0, 0.0);
        for (name, spans) in &windows {
            let file = dir.join("data").join(name);
            let (cut, end) = bounds(&file)?;
            let spans = spans_of(spans)?;
            let args = ["--per-week", asked, "--walk-from", &cut.to_string()].map(str::to_owned);
            let events = walk(&file, &args)?;
            let judged: Vec<(i64, i64)> =
                spans.iter().filter(|(_, to)| *to > cut).copied().collect();
            found += hits(&judged, &events);
            all += judged.len();
            let of_series = events.iter().filter(|event| {
                spans.iter().any(|(from, to)| event.from <= *to && event.to >= *from)
            });
            let of_series = of_series.count();
            right += of_series;
            wrong += events.len() - of_series;
            weeks += share([end - cut, 7 * DAY]);
        }
        #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
        let per_week = wrong as f64 / weeks;
        rows.push(vec![
            asked.to_owned(),
            format!("{found} of {all}"),
            format!("**{:.2}**", ratio([found, all])),
            format!("**{per_week:.2}**"),
            format!("{:.2}", ratio([right, right + wrong])),
        ]);
    }
    page.text(&format!(
        "The Numenta Anomaly Benchmark, {} series: the first {LEARNED_PERCENT} % of each are only learned from, the rest is \
         judged day by day, on both sides, on the scale that weir chooses. Labels are only for counting: incidents are \
         learned from like everything else. A window is found when an event overlaps it; an event that overlaps none is \
         false. Bars: recall 0.70 at 0.40 false per series-week.",
        windows.len()
    ));
    page.table(&rows);
    Ok(())
}

/// Start and end of the evaluated part of a file.
fn bounds(file: &Path) -> anyhow::Result<(i64, i64)> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let times = text.lines().skip(1).filter_map(|line| line.split_once(','));
    let mut times = times.map(|(time, _)| seconds(time)).collect::<anyhow::Result<Vec<i64>>>()?;
    times.sort_unstable();
    let end = *times.last().context("the series has points")?;
    Ok((times[times.len() * LEARNED_PERCENT / 100], end))
}

fn spans_of(spans: &Value) -> anyhow::Result<Vec<(i64, i64)>> {
    let spans = spans.as_array().context("windows are a list")?;
    spans.iter().map(|span| Ok((time(&span[0])?, time(&span[1])?))).collect()
}

fn time(value: &Value) -> anyhow::Result<i64> {
    seconds(value.as_str().unwrap_or_default())
}

/// Parses `2014-04-01 00:05:00…` or `2014-04-01T00:05:00…` into seconds since 1970.
fn seconds(text: &str) -> anyhow::Result<i64> {
    let parts = [0..4, 5..7, 8..10, 11..13, 14..16, 17..19]
        .map(|range| text.get(range).and_then(|digits| digits.parse::<i64>().ok()));
    let [Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second)] = parts else {
        bail!("`{text}` is not a time");
    };
    // Count years from March, so that the leap day is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Ok((days - 719_468) * DAY + hour * 3600 + minute * 60 + second)
}

#[expect(clippy::cast_precision_loss, reason = "counts and seconds of weeks")]
fn share([part, whole]: [i64; 2]) -> f64 {
    part as f64 / whole as f64
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred")]
fn ratio([part, whole]: [usize; 2]) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        for (text, expected) in [
            ("1970-01-01 00:00:00", 0),
            ("2014-04-01 00:05:00", 1_396_310_700),
            ("2024-02-29T23:59:59.000000Z", 1_709_251_199),
        ] {
            assert_eq!(seconds(text).unwrap(), expected);
        }
        assert!(seconds("yesterday").is_err());
    }

    #[test]
    fn drops_are_thirty_per_cent_for_thirty_minutes() {
        let calm = traffic(1, 0.0);
        let (broken, spans) = with_drops(1, &calm);
        assert_eq!(spans.len(), 14);
        let changed = calm.iter().zip(&broken).filter(|(a, b)| a != b).count();
        assert_eq!(changed, 14 * 6);
    }
}
