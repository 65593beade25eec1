//! `weir thresholds`: proposals, what they would have done, and the copy of a rule with a new
//! value.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use weir_hub::thresholds::write_value;
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::{Paint, say};
use weir_rules::{Rule, RuleSet};

use super::series;
use crate::rules::args::ReplayFormat;
use crate::rules::{self, RuleUse};
use crate::thresholds::args::ThresholdsArgs;

/// Times that are printed of what would no longer, or newly, be seen.
const MAX_SHOWN: usize = 20;

/// Runs the command.
pub(crate) fn run(args: &ThresholdsArgs) -> Result<(), Failure> {
    if let Some(path) = &args.series {
        let report = series::report(path, args)?;
        say(&match args.format {
            ReplayFormat::Json => report.to_string(),
            ReplayFormat::Text => series_text(&report),
        });
        return Ok(());
    }
    let rules = rules::load(args.rules.as_deref())?;
    let client = args.weir.client()?;
    let mut path = "/api/thresholds?".to_owned();
    if let Some(id) = &args.id {
        rules::find(&rules, id, RuleUse::Mine)?;
        path += &format!("rule={id}&");
    }
    if let Some(per_week) = args.per_week {
        path += &format!("per_week={per_week}");
    }
    let answer = client.get_json(path.trim_end_matches(['&', '?']), Duration::from_secs(300))?;
    if args.format == ReplayFormat::Json {
        say(&answer.to_string());
    }
    let reports = answer["thresholds"].as_array().cloned().unwrap_or_default();
    for report in &reports {
        if args.format == ReplayFormat::Text {
            say(&text(report, &rules, args, Paint::for_stdout()));
        }
        if args.accept {
            say(&accept(report, &rules, args.rules.as_deref())?);
        }
    }
    Ok(())
}

/// Writes the copy of the rule with the proposed value; what was done.
fn accept(report: &Value, rules: &RuleSet, dir: Option<&Path>) -> Result<String, Failure> {
    let id = report["rule"].as_str().unwrap_or_default();
    let fail = |why: &str| Failure::new(format!("cannot change the threshold of `{id}`: {why}"));
    let Some(proposed) = report["proposed"].as_f64() else {
        let why = report["unknown"].as_str().unwrap_or("it is mined by itself every night");
        return Err(fail(why));
    };
    let dir = dir.ok_or_else(|| {
        fail("no directory of rules is named")
            .hint("--rules DIR, the one that `rules.dir` of weir names")
            .code(EXIT_USAGE)
    })?;
    let rule = rules::find(rules, id, RuleUse::Mine)?;
    check_value(rule, report).map_err(|why| {
        fail(&why).hint("--rules must be the directory that the running weir has (`rules.dir`)")
    })?;
    let path = write_value(rule, proposed, dir)?;
    Ok(format!("wrote {} with value = {proposed}; start weir again to use it", path.display()))
}

/// The value that was mined for must be the one that this copy of the rule has.
fn check_value(rule: &Rule, report: &Value) -> Result<(), String> {
    let here = rule.mining.as_ref().and_then(|mining| mining.value);
    let there = report["value"].as_f64();
    if here == there {
        return Ok(());
    }
    Err(format!("the running weir has {}, the rule here {}", value_text(there), value_text(here)))
}

fn value_text(value: Option<f64>) -> String {
    value.map_or_else(|| "none".to_owned(), |v| v.to_string())
}

fn text(report: &Value, rules: &RuleSet, args: &ThresholdsArgs, paint: Paint) -> String {
    let mut out = format!(
        "{}  {}; {:.1} days of {} subjects are known, at most {} false findings a week are accepted\n",
        paint.bold(word(report, "rule")),
        paint.of_class(word(report, "class")).paint(word(report, "class")),
        number(report, "known_days"),
        number(report, "subject_count"),
        number(report, "asked_per_week"),
    );
    if let Some(subjects) = report["subjects"].as_array() {
        out += "  compared with its own week; mined every night, nothing to accept\n";
        for subject in subjects {
            out += &format!("  {}\n", subject_text(subject));
        }
        return out;
    }
    let unit = word(report, "unit");
    let weeks = number(report, "known_days") / 7.0;
    out += &format!(
        "  {} {unit} was passed {} times{}\n",
        report["value"],
        count(report, "event_count"),
        if weeks >= 1.0 {
            format!(", {:.1} a week", number(report, "event_count") / weeks)
        } else {
            String::new()
        }
    );
    let Some(proposed) = report["proposed"].as_f64() else {
        return out + &format!("  no proposal: {}\n", word(report, "unknown"));
    };
    out += &format!(
        "  {proposed} {unit} is proposed: passed {} times\n",
        count(report, "event_count_proposed")
    );
    for (title, name) in [("no longer seen", "no_longer_seen"), ("newly seen", "newly_seen")] {
        out += &events_text(title, &report[name], unit);
    }
    if weeks < 4.0 {
        out += &format!(
            "  what is rarer than once in {:.1} days cannot be known yet; with four weeks it is\n",
            number(report, "known_days")
        );
    }
    out +=
        "  the rule's other conditions, and findings that explain it, make it speak more rarely\n";
    let id = word(report, "rule");
    let origin = rules.get(id).map_or("built in", |rule| rule.origin.as_str());
    let dir = args.rules.as_deref().map_or("DIR".to_owned(), |dir| dir.display().to_string());
    out + &format!(
        "  --- {origin}\n  +++ {dir}/{id}.sql\n  -value = {}\n  +value = {proposed:?}\n",
        report["value"]
    ) + &if args.accept {
        String::new()
    } else {
        format!("  yes: weir thresholds {id} --accept --rules {dir}\n")
    }
}

fn word<'a>(report: &'a Value, name: &str) -> &'a str {
    report[name].as_str().unwrap_or_default()
}

fn number(report: &Value, name: &str) -> f64 {
    report[name].as_f64().unwrap_or_default()
}

fn count(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_default()
}

fn events_text(title: &str, events: &Value, unit: &str) -> String {
    let events = events.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut out = String::new();
    for event in events.iter().take(MAX_SHOWN) {
        out += &format!(
            "  {title}: {}  {}  up to {:.3} {unit}\n",
            event["from_ts"].as_str().unwrap_or_default(),
            event["subject"].as_str().unwrap_or_default(),
            event["worst"].as_f64().unwrap_or_default(),
        );
    }
    if events.len() > MAX_SHOWN {
        out += &format!("  {title}: and {} more (--format json)\n", events.len() - MAX_SHOWN);
    }
    out
}

fn subject_text(subject: &Value) -> String {
    let name = subject["subject"].as_str().unwrap_or_default();
    if let Some(unknown) = subject["unknown"].as_str() {
        return format!("{name}: {unknown}");
    }
    let season = match subject["season"].as_str() {
        Some("week") => "the half hours of its week",
        Some("day") => "the half hours of its day (a week needs three weeks of history)",
        _ => "no season (a day needs three days of history)",
    };
    format!(
        "{name}: now {:.0} are normal, {:.0} to {:.0} are not unusual; by {season}; {} events in {:.1} days",
        number(subject, "expected"),
        number(subject, "low"),
        number(subject, "high"),
        subject["event_count"],
        number(subject, "known_days"),
    )
}

/// A series of one's own.
fn series_text(report: &Value) -> String {
    let events = report["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut out = String::new();
    for event in events {
        out += &format!(
            "{} to {}  {:.1} times the threshold\n",
            event["from_ts"].as_str().unwrap_or_default(),
            event["to_ts"].as_str().unwrap_or_default(),
            event["nearness_ratio"].as_f64().unwrap_or_default(),
        );
    }
    out += &format!("{} events", events.len());
    if let Some(days) = report["known_days"].as_f64() {
        out += &format!(
            " in {days:.1} days; season: {}; at the end {:.3} is normal, {:.3} to {:.3} is not unusual",
            report["season"].as_str().unwrap_or_default(),
            report["expected"].as_f64().unwrap_or_default(),
            report["low"].as_f64().unwrap_or_default(),
            report["high"].as_f64().unwrap_or_default(),
        );
    }
    out
}
