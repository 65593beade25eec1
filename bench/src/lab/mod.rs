//! The fault lab: real faults in namespaces of their own, and a score of what weir makes of them.
//!
//! Each run builds a scene, starts `weir up` on the host beside it, lets it look for a while, makes one fault, and
//! looks at the findings every quarter of a second. *Named right* means: a finding of a right rule fires as a root, and no
//! other root of class page or mail began since the fault was made; findings about other namespaces of the host are not
//! counted. The random parameters come from a seed, so a run can be repeated.

mod app;
mod faults;
mod hops;
mod limits;
mod pairs;
mod scene;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;

use crate::data::pause;
use crate::random::Random;
use crate::report;
use crate::weir::{Weir, wait_for};
pub(crate) use app::{AppArgs, VisitArgs, serve, visit};
use faults::Fault;
use scene::Scene;

/// A fault that is not named by then is missed.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long nothing is wrong before the fault.
const CALM: Duration = Duration::from_secs(12);
/// How long other findings may still come after the right one, and how long a scene without a fault is looked at.
const AFTER: Duration = Duration::from_secs(6);
const NOTHING: Duration = Duration::from_secs(20);

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

/// What became of one run.
struct Outcome {
    detected: Option<Duration>,
    is_right: bool,
    /// Roots of class page or mail that are none of the right rules, and other findings that page.
    others: BTreeSet<String>,
}

/// Runs the faults, prints a line for each run and a table at the end.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<()> {
    let mut page = report::Report::new("lab");
    let chosen = |fault: &&Fault| args.only.as_ref().is_none_or(|part| fault.name.contains(part));
    let heads = ["fault", "runs", "detected", "named right", "p50 s", "worst s", "other roots"];
    let mut table = vec![heads.map(str::to_owned).to_vec()];
    let mut all: Vec<(bool, Outcome)> = Vec::new();
    for (number, fault) in faults::all().enumerate().filter(|(_, fault)| chosen(fault)) {
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

fn one(fault: &Fault, seed: u64) -> anyhow::Result<Outcome> {
    let mut scene = Scene::new(Random::new(seed))?;
    (fault.set)(&mut scene)?;
    let data = scene.path("data");
    let config = scene.path("weir.toml");
    std::fs::write(&config, &scene.config)?;
    let up = ["up", "--config", &config, "--listen", "127.0.0.1:0", "--data", &data];
    let weir = Weir::serve(&up)?;
    let sampled = "select count(*) from collector_run where collector = 'filesystem'";
    let seen = Duration::from_secs(60);
    wait_for("the first sample", seen, Duration::from_millis(200), || {
        Ok(weir.number(sampled)? > 0)
    })?;
    pause(CALM);
    let before: BTreeSet<String> =
        firing(&weir)?.iter().map(|finding| text(finding, "finding_id")).collect();
    let began = Instant::now();
    let (parameters, held) = (fault.inject)(&mut scene)?;
    let watched = Watched { weir: &weir, before: &before, own: [&scene.server, &scene.client] };
    let outcome = judge(fault, &watched, began)?;
    drop(held);
    let named = match (fault.rules.is_empty(), outcome.detected) {
        (true, _) => String::new(),
        (_, Some(time)) => format!(" named after {:.1} s", time.as_secs_f64()),
        (_, None) => " NOT NAMED".to_owned(),
    };
    let others: Vec<&str> = outcome.others.iter().map(String::as_str).collect();
    let others =
        if others.is_empty() { String::new() } else { format!("; also {}", others.join(", ")) };
    report::say(&format!("{} ({parameters}):{named}{others}", fault.name));
    Ok(outcome)
}

/// Where findings come from, and which of them concern the scene.
struct Watched<'a> {
    weir: &'a Weir,
    /// Findings that fired before the fault.
    before: &'a BTreeSet<String>,
    own: [&'a str; 2],
}

impl Watched<'_> {
    /// What fires, and fired not before, and is not about a namespace of somebody else's.
    fn new_firing(&self) -> anyhow::Result<Vec<Value>> {
        let concerns = |finding: &Value| {
            let summary = text(finding, "summary");
            let netns = summary.split("(netns ").nth(1).and_then(|rest| rest.split(')').next());
            let is_ours = netns.is_none_or(|name| name == "host" || self.own.contains(&name));
            is_ours && !self.before.contains(&text(finding, "finding_id"))
        };
        Ok(firing(self.weir)?.into_iter().filter(concerns).collect())
    }
}

fn judge(fault: &Fault, watched: &Watched<'_>, began: Instant) -> anyhow::Result<Outcome> {
    let named = |group: &[&str], finding: &Value| group.contains(&text(finding, "rule").as_str());
    let is_ours = |finding: &Value| fault.rules.iter().any(|group| named(group, finding));
    let mut detected = None;
    let end = if fault.rules.is_empty() { NOTHING } else { PATIENCE };
    while detected.is_none() && began.elapsed() < end {
        pause(Duration::from_millis(250));
        let now = watched.new_firing()?;
        let is_named = |group: &&[&str]| now.iter().any(|finding| named(group, finding));
        if !fault.rules.is_empty() && fault.rules.iter().all(is_named) {
            detected = Some(began.elapsed());
        }
    }
    if detected.is_some() {
        pause(AFTER);
    }
    let now = watched.new_firing()?;
    let mut roots: Vec<&Value> = Vec::new();
    let mut others = BTreeSet::new();
    for finding in &now {
        let is_symptom = finding["cause_rule"].is_string();
        if is_ours(finding) {
            roots.extend((!is_symptom).then_some(finding));
        } else if finding["class"] != "note" && !is_symptom || finding["class"] == "page" {
            others.insert(text(finding, "rule"));
        }
    }
    let is_root = |group: &&[&str]| roots.iter().any(|finding| named(group, finding));
    let is_named = fault.rules.iter().all(is_root);
    Ok(Outcome { detected, is_right: is_named && others.is_empty(), others })
}

fn firing(weir: &Weir) -> anyhow::Result<Vec<Value>> {
    let answer: Value = serde_json::from_str(&weir.get("/api/findings")?)?;
    let all = answer["findings"].as_array().cloned().unwrap_or_default();
    Ok(all.into_iter().filter(|finding| finding["state"] == "firing").collect())
}

fn text(finding: &Value, name: &str) -> String {
    finding[name].as_str().unwrap_or_default().to_owned()
}
