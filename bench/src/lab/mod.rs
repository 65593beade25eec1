//! The fault lab: each fault of `weir drill` again and again with parameters drawn from a seed, and a score of what weir makes of them.
//!
//! The runs are those of the command that users have (`crates/drill`); here is the counting. A score of all takes hours: its runs are
//! written down as they end ([`results`]), and `--resume` goes on.

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
use results::{Part, Results, Run};

/// What the command line says.
#[derive(Args)]
pub(crate) struct LabArgs {
    /// Writes the score to docs/bench/, and each run to a file in the build directory as it ends.
    #[arg(long)]
    score: bool,
    /// Goes on with the score: runs that are in that file, of the same code, are not made again.
    #[arg(long)]
    resume: bool,
    /// With --resume: runs of other code count as well; the page says of which commit each part is.
    #[arg(long, requires = "resume")]
    any_commit: bool,
    /// Begins no run after so many minutes; the page is made of the runs that there are.
    #[arg(long)]
    minutes: Option<u64>,
    /// Runs of each fault, each with other parameters.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Where the random parameters begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only faults whose name contains one of these, or of such a kind: single, pair, cascade, none.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    only: Vec<String>,
    /// Without these, written as for --only.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    skip: Vec<String>,
    /// Looks for so long whether a loaded, healthy host stays silent, as one more piece of `healthy.jsonl` in the build directory.
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["resume", "minutes", "runs", "only", "skip"])]
    healthy: Option<u64>,
    /// With --healthy: so many fleets at once, each with visitors of its own; one piece each.
    #[arg(long, default_value_t = 1, requires = "healthy", value_parser = clap::value_parser!(u32).range(1..=8))]
    fleets: u32,
    /// Where the runs are written, instead of `lab.jsonl` in the build directory.
    #[arg(long)]
    results: Option<PathBuf>,
}

/// How much is asked for.
struct Wanted {
    runs: u32,
    seed: u64,
}

/// What a fault is one of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Single,
    Pair,
    Cascade,
    None,
}

impl Kind {
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

/// Runs the faults, prints a line for each run and a table at the end.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<()> {
    if let Some(minutes) = args.healthy {
        return healthy::run(args, minutes);
    }
    let mut page = report::Report::new("lab");
    let chosen = chosen(args)?;
    let wanted = Wanted { runs: args.runs, seed: args.seed };
    let this = Part::now()?;
    let is_kept = args.score || args.resume;
    let mut results =
        if is_kept { Results::open(&path(args, "lab")?)? } else { Results::default() };
    let other = results.runs.iter().filter(|run| run.part.code != this.code).count();
    if args.resume && !args.any_commit && other > 0 {
        report::say(&format!("{other} runs of other code do not count; --any-commit counts them"));
    }
    let is_fit = |part: &Part| {
        part.profile == this.profile
            && (part.sitting == this.sitting
                || args.resume && (args.any_commit || part.code == this.code))
    };
    let (began, limit) = (Instant::now(), args.minutes.map(|minutes| minutes * 60));
    // Round by round: what there is when it stops is of all of them.
    for (number, fault) in (0..args.runs).flat_map(|run| chosen.iter().map(move |one| (run, *one)))
    {
        if results.find(fault.name, number, args.seed, is_fit).is_some() {
            continue;
        }
        if limit.is_some_and(|limit| began.elapsed().as_secs() >= limit) {
            break;
        }
        match one(fault, number, args.seed, &this, &[]) {
            Ok(run) => results.add(run)?,
            // The others go on: what was measured by then is not thrown away.
            Err(error) => {
                report::say(&format!("{}: the drill itself failed: {error:#}", fault.name));
            }
        }
    }
    let runs = |fault: &'static Fault| {
        let of = |number| results.find(fault.name, number, args.seed, is_fit);
        (fault, (0..args.runs).filter_map(of).collect())
    };
    let made: Vec<page::Made<'_>> = chosen.into_iter().map(runs).collect();
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

/// The faults that were asked for.
fn chosen(args: &LabArgs) -> anyhow::Result<Vec<&'static Fault>> {
    for part in args.only.iter().chain(&args.skip) {
        let is_known = weir_drill::all().any(|fault| fits(fault, part));
        anyhow::ensure!(is_known, "no fault has `{part}` in its name, and there is no such kind");
    }
    let is_chosen = |fault: &&Fault| {
        (args.only.is_empty() || args.only.iter().any(|part| fits(fault, part)))
            && !args.skip.iter().any(|part| fits(fault, part))
    };
    Ok(weir_drill::all().filter(is_chosen).collect())
}

/// Whether a fault is of that kind, or has that in its name; words may be joined by `-`, as for `weir drill run`.
fn fits(fault: &Fault, part: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace([':', ','], "").replace(' ', "-");
    Kind::of(fault).word() == part || plain(fault.name).contains(&plain(part))
}

/// Where the runs are written: beside the programs, so each profile has its own.
fn path(args: &LabArgs, name: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = &args.results {
        return Ok(path.clone());
    }
    let program = program()?;
    let dir = program.parent().context("the program is in a directory")?;
    Ok(dir.join(format!("{name}.jsonl")))
}

/// The seed of a run: its fault's name is a part of it, so it stays as it is when other faults come and go.
fn seed(fault: &str, number: u32, seed: u64) -> u64 {
    let mixed =
        fault.bytes().fold(seed, |so_far, byte| Random::new(so_far ^ u64::from(byte)).draw());
    Random::new(mixed ^ u64::from(number) << 8).draw() >> 32
}

/// One run, by the command that users have, with `more` after it.
fn one(fault: &Fault, number: u32, base: u64, part: &Part, more: &[&str]) -> anyhow::Result<Run> {
    let (program, seed) = (program()?, seed(fault.name, number, base).to_string());
    let args = [&["drill", "run", fault.name, "--seed", &seed, "--format", "json"], more].concat();
    let (load, began, watch) = (report::load(), report::now(), Instant::now());
    let output = Command::new(program).args(&args).env_remove("WEIR_URL").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answer: Value = serde_json::from_str(&text).with_context(|| {
        format!("weir {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr))
    })?;
    let run = Run {
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

fn line(fault: &Fault, run: &Run) -> String {
    let Outcome { detected, is_right, others, paged } = &run.outcome;
    let named = match (fault.rules.is_empty(), detected) {
        (true, _) => String::new(),
        (_, Some(time)) => format!(" named after {:.1} s", time.as_secs_f64()),
        (_, None) => " NOT NAMED".to_owned(),
    };
    let also = |word: &str, rules: &BTreeSet<String>| {
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        if rules.is_empty() { String::new() } else { format!("; {word} {}", rules.join(", ")) }
    };
    let right = if *is_right { "" } else { ", NOT RIGHT" };
    let others = also("also", others) + &also("paged for a moment", paged);
    let seed = seed(fault.name, run.number, run.seed);
    format!("{} --seed {seed} {}:{named}{right}{others}", fault.name, run.parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_chosen_by_kind_and_by_a_part_of_their_name() {
        let args = |only: &[&str], skip: &[&str]| LabArgs {
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
        };
        let names = |only: &[&str], skip: &[&str]| -> Vec<&str> {
            chosen(&args(only, skip)).unwrap().iter().map(|fault| fault.name).collect()
        };
        let all = names(&[], &[]);
        assert_eq!(all.len(), weir_drill::all().count());
        let none = names(&["none"], &[]);
        assert!(none.len() > 5 && none.iter().all(|name| name.starts_with("none: ")), "{none:?}");
        assert_eq!(names(&[], &["single", "pair", "cascade"]), none);
        assert_eq!(names(&["disk-full", "crawl"], &["pair"]), ["disk full", "none: crawl"]);
        let error = chosen(&args(&[], &["no such"])).err().unwrap().to_string();
        assert!(error.contains("`no such`"), "{error}");
    }

    #[test]
    fn a_run_has_a_seed_of_its_own() {
        let seeds: BTreeSet<u64> = weir_drill::all()
            .flat_map(|fault| {
                (0..5).flat_map(move |run| (1..3).map(move |of| seed(fault.name, run, of)))
            })
            .collect();
        assert_eq!(seeds.len(), weir_drill::all().count() * 10);
        assert_eq!(seed("disk full", 0, 1), seed("disk full", 0, 1));
    }
}
