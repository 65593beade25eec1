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
    let heads = ["fault", "runs", "detected", "named right", "p50 s", "worst s", "other roots"];
    let mut table = vec![heads.map(str::to_owned).to_vec()];
    let mut all: Vec<(bool, Outcome)> = Vec::new();
    for (number, fault) in weir_drill::all().enumerate().filter(|(_, fault)| chosen(fault)) {
        let mut outcomes = Vec::new();
        for run in 0..args.runs.max(1) {
            let seed = args.seed ^ ((number as u64) << 32 | u64::from(run) << 8);
            outcomes.push(one(fault, seed)?);
        }
        table.push(row(fault, &outcomes));
        all.extend(outcomes.into_iter().map(|outcome| (fault.rules.is_empty(), outcome)));
    }
    page.text(
        "Real faults in network namespaces and file systems of their own, with parameters drawn from a seed, in front of \
         `weir up`. *Detected*: a finding of a right rule (of each, in pairs) fires within 40 s. *Named right*: it is a root, and no other \
         root of class page or mail began in the same run. Times run from the moment at which the fault is made. Where \
         nothing is wrong, *named right* means that nothing pages and mails within 20 s.",
    );
    page.text(&format!("Seed {}, {} runs of each.", args.seed, args.runs));
    page.table(&table);
    page.text(&summary(&all));
    if args.score {
        return page.write();
    }
    page.show();
    Ok(())
}

fn summary(all: &[(bool, Outcome)]) -> String {
    let faults: Vec<&Outcome> = all.iter().filter(|(none, _)| !none).map(|(_, one)| one).collect();
    let calm: Vec<&Outcome> = all.iter().filter(|(none, _)| *none).map(|(_, one)| one).collect();
    let right = |outcomes: &[&Outcome]| outcomes.iter().filter(|one| one.is_right).count();
    let mut times: Vec<Duration> = faults.iter().filter_map(|one| one.detected).collect();
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(index).map_or(f64::NAN, Duration::as_secs_f64)
    };
    format!(
        "All faults: {} of {} detected, {} named right; p50 {:.1} s, p95 {:.1} s. Nothing wrong: {} of {} silent.",
        times.len(),
        faults.len(),
        right(&faults),
        at(50),
        at(95),
        right(&calm),
        calm.len()
    )
}

fn row(fault: &Fault, outcomes: &[Outcome]) -> Vec<String> {
    let mut times: Vec<Duration> = outcomes.iter().filter_map(|one| one.detected).collect();
    times.sort_unstable();
    let seconds = |time: Option<&Duration>| {
        time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.as_secs_f64()))
    };
    let others: BTreeSet<&str> =
        outcomes.iter().flat_map(|one| one.others.iter().map(String::as_str)).collect();
    let detected = if fault.rules.is_empty() { "-".to_owned() } else { times.len().to_string() };
    vec![
        fault.name.to_owned(),
        outcomes.len().to_string(),
        detected,
        outcomes.iter().filter(|one| one.is_right).count().to_string(),
        seconds(times.get(times.len() / 2)),
        seconds(times.last()),
        others.into_iter().collect::<Vec<_>>().join(", "),
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
    let others = answer["others"].as_array().into_iter().flatten();
    let outcome = Outcome {
        detected: answer["detected_seconds"].as_f64().map(Duration::from_secs_f64),
        is_right: answer["is_named_right"] == true,
        others: others.filter_map(|rule| rule.as_str().map(str::to_owned)).collect(),
    };
    let named = match (fault.rules.is_empty(), outcome.detected) {
        (true, _) => String::new(),
        (_, Some(time)) => format!(" named after {:.1} s", time.as_secs_f64()),
        (_, None) => " NOT NAMED".to_owned(),
    };
    let others: Vec<&str> = outcome.others.iter().map(String::as_str).collect();
    let others =
        if others.is_empty() { String::new() } else { format!("; also {}", others.join(", ")) };
    report::say(&format!("{} {}:{named}{others}", fault.name, answer["parameters"]));
    Ok(outcome)
}
