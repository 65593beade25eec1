//! The fault lab: each fault of `weir drill` again and again with parameters drawn from a seed, and a score of what weir makes of them.
//!
//! The runs are those of the command that users have (`crates/drill`); here is the counting.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use weir_drill::{Fault, Outcome};

use crate::report;
use crate::weir::program;

/// What the command line says.
#[derive(Args)]
pub(crate) struct LabArgs {
    /// Writes the score to docs/bench/.
    #[arg(long)]
    score: bool,
    /// Runs of each fault, each with other parameters.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Where the random parameters begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only faults whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

/// Runs the faults, prints a line for each run and a table at the end.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<()> {
    let mut page = report::Report::new("lab");
    let chosen = |fault: &&Fault| args.only.as_ref().is_none_or(|part| fault.name.contains(part));
    let heads = [
        "fault",
        "runs",
        "detected",
        "named right",
        "p50 s",
        "worst s",
        "other roots",
        "paged for a moment",
    ];
    let mut table = vec![heads.map(str::to_owned).to_vec()];
    let mut all: Vec<(&Fault, Outcome)> = Vec::new();
    let mut failed = 0;
    for (number, fault) in weir_drill::all().enumerate().filter(|(_, fault)| chosen(fault)) {
        let mut outcomes = Vec::new();
        for run in 0..args.runs.max(1) {
            let seed = args.seed ^ ((number as u64) << 32 | u64::from(run) << 8);
            match one(fault, seed) {
                Ok(outcome) => outcomes.push(outcome),
                // The others go on: what was measured by then is not thrown away.
                Err(error) => {
                    report::say(&format!("{}: the drill itself failed: {error:#}", fault.name));
                    failed += 1;
                }
            }
        }
        table.push(row(fault, &outcomes));
        all.extend(outcomes.into_iter().map(|outcome| (fault, outcome)));
    }
    page.text(
        "Real faults in network namespaces and file systems of their own, with parameters drawn from a seed, in front of \
         `weir up`. *Detected*: a finding of a right rule (of each, in pairs) fires within 40 s. *Named right*: it is a root, and no other \
         root of class page or mail began in the same run. *Paged for a moment*: rules that are none of the right ones and \
         paged at some look, although they may have become symptoms later. Times run from the moment at which the fault is made. Where \
         nothing is wrong, *named right* means that nothing pages and mails within 20 s.",
    );
    page.text(&format!("Seed {}, {} runs of each.", args.seed, args.runs));
    page.table(&table);
    page.text(&summary(&all));
    if failed > 0 {
        page.text(&format!("{failed} drills failed themselves and are not counted."));
    }
    if args.score {
        return page.write();
    }
    page.show();
    Ok(())
}

fn summary(all: &[(&Fault, Outcome)]) -> String {
    let faults: Vec<&Outcome> =
        all.iter().filter(|(fault, _)| !fault.rules.is_empty()).map(|(_, one)| one).collect();
    let calm: Vec<&Outcome> =
        all.iter().filter(|(fault, _)| fault.rules.is_empty()).map(|(_, one)| one).collect();
    let right = |outcomes: &[&Outcome]| outcomes.iter().filter(|one| one.is_right).count();
    let mut times: Vec<Duration> = faults.iter().filter_map(|one| one.detected).collect();
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(index).map_or(f64::NAN, Duration::as_secs_f64)
    };
    let is_several = |name: &str| name.starts_with("pair: ") || name.starts_with("cascade: ");
    let share = |outcomes: &[&Outcome]| format!("{} of {}", right(outcomes), outcomes.len());
    let single: Vec<&Outcome> = all
        .iter()
        .filter(|(fault, _)| !fault.rules.is_empty() && !is_several(fault.name))
        .map(|(_, one)| one)
        .collect();
    let several: Vec<&Outcome> =
        all.iter().filter(|(fault, _)| is_several(fault.name)).map(|(_, one)| one).collect();
    format!(
        "Single faults: {} named right; pairs and cascades: {} named right; all: {} of {} detected, p50 {:.1} s, p95 {:.1} s. \
         Runs in which another rule paged, for a moment at least: {}. Nothing wrong: {} silent.",
        share(&single),
        share(&several),
        times.len(),
        faults.len(),
        at(50),
        at(95),
        faults.iter().filter(|one| !one.paged.is_empty()).count(),
        share(&calm)
    )
}

fn row(fault: &Fault, outcomes: &[Outcome]) -> Vec<String> {
    let mut times: Vec<Duration> = outcomes.iter().filter_map(|one| one.detected).collect();
    times.sort_unstable();
    let seconds = |time: Option<&Duration>| {
        time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64()))
    };
    let all = |of: fn(&Outcome) -> &BTreeSet<String>| {
        let rules: BTreeSet<&str> =
            outcomes.iter().flat_map(|one| of(one).iter().map(String::as_str)).collect();
        rules.into_iter().collect::<Vec<_>>().join(", ")
    };
    let detected = if fault.rules.is_empty() { "-".to_owned() } else { times.len().to_string() };
    vec![
        fault.name.to_owned(),
        outcomes.len().to_string(),
        detected,
        outcomes.iter().filter(|one| one.is_right).count().to_string(),
        seconds(times.get(times.len() / 2)),
        seconds(times.last()),
        all(|one| &one.others),
        all(|one| &one.paged),
    ]
}

/// One run, by the command that users have.
fn one(fault: &Fault, seed: u64) -> anyhow::Result<Outcome> {
    let (program, seed) = (program()?, seed.to_string());
    let args = ["drill", "run", fault.name, "--seed", &seed, "--format", "json"];
    let output = Command::new(program).args(args).env_remove("WEIR_URL").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answer: Value = serde_json::from_str(&text).with_context(|| {
        format!("weir {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr))
    })?;
    let names = |name: &str| {
        let rules = answer[name].as_array().into_iter().flatten();
        rules.filter_map(|rule| rule.as_str().map(str::to_owned)).collect::<BTreeSet<_>>()
    };
    let outcome = Outcome {
        detected: answer["detected_seconds"].as_f64().map(Duration::from_secs_f64),
        is_right: answer["is_named_right"] == true,
        others: names("others"),
        paged: names("paged"),
    };
    let named = match (fault.rules.is_empty(), outcome.detected) {
        (true, _) => String::new(),
        (_, Some(time)) => format!(" named after {:.1} s", time.as_secs_f64()),
        (_, None) => " NOT NAMED".to_owned(),
    };
    let also = |word: &str, rules: &BTreeSet<String>| {
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        if rules.is_empty() { String::new() } else { format!("; {word} {}", rules.join(", ")) }
    };
    let right = if outcome.is_right { "" } else { ", NOT RIGHT" };
    let others = also("also", &outcome.others) + &also("paged for a moment", &outcome.paged);
    report::say(&format!("{} {}:{named}{right}{others}", fault.name, answer["parameters"]));
    Ok(outcome)
}
