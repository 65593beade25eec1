//! The fault lab: runs each fault of `weir drill` several times with parameters drawn from a seed,
//! and scores what weir reports.
//!
//! Runs use the users' command (`crates/drill`). A score of all faults takes hours: its runs are
//! saved when they end ([`results`]), and `--resume` continues.

mod healthy;
mod page;
mod results;
#[cfg(test)]
mod samples;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use weir_drill::{Fault, Outcome, Random};

use crate::report;
use crate::weir::program;
use results::{LabRun, LabSitting, RunLog};

/// Arguments of the lab.
#[derive(Args)]
pub(crate) struct LabArgs {
    /// Writes the score to docs/bench/history/, and each run to a file in the build directory.
    #[arg(long)]
    score: bool,
    /// Continues a score: skips runs of the same code that are in the file.
    #[arg(long)]
    resume: bool,
    /// With --resume: also counts runs of other code; the page lists the commit of each part.
    #[arg(long, requires = "resume")]
    any_commit: bool,
    /// Starts no run after this many minutes, and writes the page of the runs so far.
    #[arg(long)]
    minutes: Option<u64>,
    /// Runs of each fault, with different parameters.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seed of the random parameters.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only faults with one of these in their name, or of this kind: single, pair, cascade, none.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    only: Vec<String>,
    /// Skips these, written as for --only.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    skip: Vec<String>,
    /// Watches a loaded, healthy host for this long, as another piece of `healthy.jsonl` in the
    /// build directory.
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["resume", "minutes", "runs", "only", "skip"])]
    healthy: Option<u64>,
    /// With --healthy: number of parallel fleets, with a piece each.
    #[arg(long, default_value_t = 1, requires = "healthy", value_parser = clap::value_parser!(u32).range(1..=8))]
    fleets: u32,
    /// File of runs, instead of `lab.jsonl` in the build directory.
    #[arg(long)]
    results: Option<PathBuf>,
}

/// Runs per fault, and their seed.
struct LabPlan {
    runs: u32,
    seed: u64,
}

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FaultKind {
    Single,
    Pair,
    Cascade,
    None,
}

impl FaultKind {
    fn of(fault: &Fault) -> Self {
        match fault.name.split_once(": ") {
            _ if fault.rules.is_empty() => Self::None,
            Some(("pair", _)) => Self::Pair,
            Some(("cascade", _)) => Self::Cascade,
            _ => Self::Single,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Pair => "pair",
            Self::Cascade => "cascade",
            Self::None => "none",
        }
    }
}

/// Runs the faults; prints a line per run and a table at the end.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<()> {
    if let Some(minutes) = args.healthy {
        return healthy::run(args, minutes);
    }
    let mut page = report::Report::new("lab");
    let chosen = chosen(args)?;
    let wanted = LabPlan { runs: args.runs, seed: args.seed };
    let this = LabSitting::now()?;
    let is_kept = args.score || args.resume;
    let mut results = if is_kept { RunLog::open(&path(args, "lab")?)? } else { RunLog::default() };
    let other = results.runs.iter().filter(|run| run.part.code != this.code).count();
    if args.resume && !args.any_commit && other > 0 {
        report::say(&format!("skipping {other} runs of other code; --any-commit counts them"));
    }
    let fit = FitRule { this: &this, args };
    let (began, limit) = (Instant::now(), args.minutes.map(|minutes| minutes * 60));
    // Run in rounds, so that an interrupted score covers all faults.
    for (number, fault) in (0..args.runs).flat_map(|run| chosen.iter().map(move |one| (run, *one)))
    {
        if results.find(fault.name, number, args.seed, |part| fit.accepts(part)).is_some() {
            continue;
        }
        if limit.is_some_and(|limit| began.elapsed().as_secs() >= limit) {
            break;
        }
        match one(fault, number, (args.seed, &this), &[]) {
            Ok(run) => results.add(run)?,
            // Continue with the others, to keep what was measured.
            Err(error) => {
                report::say(&format!("{}: the drill itself failed: {error:#}", fault.name));
            }
        }
    }
    let made = chosen.into_iter().map(|fault| {
        let runs = (0..args.runs).filter_map(|number| {
            results.find(fault.name, number, args.seed, |part| fit.accepts(part))
        });
        (fault, runs.collect())
    });
    let made: Vec<page::FaultRuns<'_>> = made.collect();
    page.text(&page::head(&wanted));
    page.table(&page::table(&made));
    page.text(&page::summary(&made, &wanted));
    page.text("## Parts\n\nThe load average is that of the minute before each run: mean and most. The circumstances below are those of the last part.");
    page.table(&page::parts(&made));
    if args.score {
        return page.write();
    }
    page.show();
    Ok(())
}

/// Decides which saved runs count.
struct FitRule<'a> {
    this: &'a LabSitting,
    args: &'a LabArgs,
}

impl FitRule<'_> {
    fn accepts(&self, part: &LabSitting) -> bool {
        let Self { this, args } = self;
        part.profile == this.profile
            && (part.sitting == this.sitting
                || args.resume && (args.any_commit || part.code == this.code))
    }
}

/// The chosen faults.
fn chosen(args: &LabArgs) -> anyhow::Result<Vec<&'static Fault>> {
    for part in args.only.iter().chain(&args.skip) {
        let is_known = weir_drill::all().any(|fault| fits(fault, part));
        anyhow::ensure!(
            is_known,
            "cannot choose faults by `{part}`: it is neither a kind nor part of a name\nhint: `weir drill list` lists faults"
        );
    }
    let chosen = weir_drill::all().filter(|fault| {
        (args.only.is_empty() || args.only.iter().any(|part| fits(fault, part)))
            && !args.skip.iter().any(|part| fits(fault, part))
    });
    Ok(chosen.collect())
}

/// Whether a fault has this kind, or `part` in its name; words may be joined by `-`, as for
/// `weir drill run`.
fn fits(fault: &Fault, part: &str) -> bool {
    FaultKind::of(fault).word() == part || plain(fault.name).contains(&plain(part))
}

fn plain(text: &str) -> String {
    text.to_lowercase().replace([':', ','], "").replace(' ', "-")
}

/// Path of the file of runs: next to the programs, so each profile has its own.
fn path(args: &LabArgs, name: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = &args.results {
        return Ok(path.clone());
    }
    let program = program()?;
    let dir = program.parent().context("the program has no directory")?;
    Ok(dir.join(format!("{name}.jsonl")))
}

/// Seed of a run. It includes the fault's name, so it does not depend on other faults.
fn seed(fault: &str, number: u32, seed: u64) -> u64 {
    let mixed =
        fault.bytes().fold(seed, |so_far, byte| Random::new(so_far ^ u64::from(byte)).draw());
    Random::new(mixed ^ u64::from(number) << 8).draw() >> 32
}

/// Runs a drill with the users' command, with `more` arguments.
fn one(
    fault: &Fault,
    number: u32,
    (base, part): (u64, &LabSitting),
    more: &[&str],
) -> anyhow::Result<LabRun> {
    let (program, seed) = (program()?, seed(fault.name, number, base).to_string());
    let args = [&["drill", "run", fault.name, "--seed", &seed, "--format", "json"], more].concat();
    let (load, began, watch) = (report::load(), report::now(), Instant::now());
    let output = Command::new(program).args(&args).env_remove("WEIR_URL").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answer: Value = serde_json::from_str(&text).with_context(|| {
        format!("weir {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr))
    })?;
    let run = LabRun {
        fault: fault.name.to_owned(),
        number,
        seed: base,
        parameters: answer["parameters"].clone(),
        outcome: results::outcome(&answer),
        began,
        took: watch.elapsed(),
        load,
        part: part.clone(),
    };
    report::say(&line(fault, &run));
    Ok(run)
}

fn line(fault: &Fault, run: &LabRun) -> String {
    let Outcome { detected, is_right, others, paged } = &run.outcome;
    let named = match (fault.rules.is_empty(), detected) {
        (true, _) => String::new(),
        (_, Some(time)) => format!(" named after {:.1} s", time.as_secs_f64()),
        (_, None) => " NOT NAMED".to_owned(),
    };
    let right = if *is_right { "" } else { ", NOT RIGHT" };
    let others = also("also", others) + &also("paged for a moment", paged);
    let seed = seed(fault.name, run.number, run.seed);
    format!("{} --seed {seed} {}:{named}{right}{others}", fault.name, run.parameters)
}

fn also(word: &str, rules: &BTreeSet<String>) -> String {
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    if rules.is_empty() { String::new() } else { format!("; {word} {}", rules.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args([only, skip]: [&[&str]; 2]) -> LabArgs {
        LabArgs {
            score: false,
            resume: false,
            any_commit: false,
            minutes: None,
            runs: 1,
            seed: 1,
            only: only.iter().map(|part| (*part).to_owned()).collect(),
            skip: skip.iter().map(|part| (*part).to_owned()).collect(),
            healthy: None,
            fleets: 1,
            results: None,
        }
    }

    fn names(parts: [&[&str]; 2]) -> Vec<&'static str> {
        chosen(&args(parts)).unwrap().iter().map(|fault| fault.name).collect()
    }

    #[test]
    fn faults_are_chosen_by_kind_and_by_a_part_of_their_name() {
        let all = names([&[], &[]]);
        assert_eq!(all.len(), weir_drill::all().count());
        let none = names([&["none"], &[]]);
        assert!(none.len() > 5 && none.iter().all(|name| name.starts_with("none: ")), "{none:?}");
        assert_eq!(names([&[], &["single", "pair", "cascade"]]), none);
        assert_eq!(names([&["disk-full", "crawl"], &["pair"]]), ["disk full", "none: crawl"]);
        let error = chosen(&args([&[], &["no such"]])).err().unwrap().to_string();
        assert!(error.contains("`no such`"), "{error}");
    }

    #[test]
    fn each_run_has_a_different_seed() {
        let seeds: BTreeSet<u64> = weir_drill::all()
            .flat_map(|fault| {
                (0..5).flat_map(move |run| (1..3).map(move |of| seed(fault.name, run, of)))
            })
            .collect();
        assert_eq!(seeds.len(), weir_drill::all().count() * 10);
        assert_eq!(seed("disk full", 0, 1), seed("disk full", 0, 1));
    }
}
