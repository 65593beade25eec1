//! `weir doctor`: the same rules as `weir up`, over this host for a few seconds or over a recorded
//! one. No hub, no files.
//!
//! The engine runs once a second as it would for years; so a rule whose `for` is longer than
//! doctor's run is still pending at the end. It is shown as a note that says so, because a pending
//! finding is no reason to page.

pub(crate) mod args;
mod report;
pub(crate) mod source;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::Value;
use weir_config::place::host_name;
use weir_hub::cells::Cells;
use weir_hub::rule_runner::{RuleRunner, read_rule_files};
use weir_hub::store_failure;
use weir_process::clock::SystemClock;
use weir_process::failure::Failure;
use weir_process::terminal::{Paint, complain, say, say_json};
use weir_rules::{Class, OpenFinding, State};
use weir_store::{Query, Store};
use weir_tables::{Clock, FixedClock, Micros, Parcel};

use crate::doctor::args::{DoctorArgs, DoctorFormat};
use source::{HostSource, LiveHost, RecordedHost};

/// Exit code when doctor itself failed (`EX_SOFTWARE`): 0, 1 and 2 tell what was found.
const EXIT_FAILED: u8 = 70;

/// Rules about the way from agents to a hub, which doctor is not on: it writes no heartbeat.
const OF_AGENTS: [&str; 2] = ["log.heartbeat_missing", "weir.agent_silent"];

/// What doctor found.
pub(crate) struct Diagnosis {
    findings: Vec<OpenFinding>,
    rule_count: usize,
    /// Rules that could not be asked, with the reason.
    failed_rules: Vec<(String, String)>,
    /// What could not be read, with a hint.
    blind: Vec<String>,
    host: String,
    seconds: f64,
    row_count: u64,
    is_recorded: bool,
}

/// Runs the command; the exit code tells the worst class.
pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    look(args).map_err(|failure| match failure.exit_code() {
        64.. => failure,
        _ => failure.code(EXIT_FAILED),
    })
}

fn look(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    if let Some(dir) = &args.record {
        record(dir, args)?;
        return Ok(ExitCode::SUCCESS);
    }
    let files = args.rules.as_deref().map(read_rule_files).transpose()?.unwrap_or_default();
    let judge = RuleRunner::new(&files);
    for error in &judge.broken {
        complain(&format!("error: {error}"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start threads: {error}")))?;
    let diagnosis = match &args.dir {
        Some(dir) => runtime.block_on(diagnose(RecordedHost::open(dir)?, &judge))?,
        None => {
            let live = LiveHost::new(&args.root, host_name(), args.seconds);
            runtime.block_on(diagnose(live, &judge))?
        }
    };
    match args.format {
        DoctorFormat::Text => say(&report::text(&diagnosis, Paint::for_stdout())),
        DoctorFormat::Json => say_json(&report::json(&diagnosis)),
    }
    Ok(exit_code(&diagnosis.findings))
}

/// 2 for a page, 1 for a mail, else 0; only what fires counts.
fn exit_code(findings: &[OpenFinding]) -> ExitCode {
    if has(findings, Class::Page) {
        2.into()
    } else if has(findings, Class::Mail) {
        1.into()
    } else {
        ExitCode::SUCCESS
    }
}

fn has(findings: &[OpenFinding], class: Class) -> bool {
    findings.iter().any(|f| f.state == State::Firing && f.class == class)
}

async fn diagnose(mut source: impl HostSource, judge: &RuleRunner) -> Result<Diagnosis, Failure> {
    let clock = Arc::new(FixedClock::default());
    let store = Store::in_memory(Arc::clone(&clock) as Arc<dyn Clock>);
    let (mut first, mut last) = (None, Micros(0));
    let mut row_count = 0;
    while let Some((now, batches)) = source.next() {
        clock.set(now);
        first.get_or_insert(now);
        last = now;
        row_count +=
            store.append(Parcel { range: None, batches }).await.map_err(store_failure)?.rows;
        judge.round(&store, now).await;
    }
    source.check()?;
    // Rules that run seldom were asked in the first second only, when little had been seen.
    if first.is_some() {
        judge.last_round(&store, last).await;
    }
    let findings = judge.with_engine(|engine| {
        engine
            .open()
            .filter(|finding: &&OpenFinding| {
                finding.state != State::Resolved && !OF_AGENTS.contains(&finding.rule.as_str())
            })
            .cloned()
            .collect()
    });
    let failed_rules = judge.with_engine(|engine| {
        let rules = engine.rules().to_vec();
        let failed =
            rules.iter().filter_map(|rule| Some((rule.id.clone(), engine.status(&rule.id).error?)));
        failed.collect()
    });
    let mut blind = source.problems();
    blind.extend(failed_collectors(&store).await?);
    Ok(Diagnosis {
        findings,
        rule_count: judge.rules.iter().len(),
        failed_rules,
        blind,
        host: source.host(),
        seconds: first.map_or(0.0, |first| last.seconds_since(first)),
        row_count,
        is_recorded: source.is_recorded(),
    })
}

/// What collectors said of themselves: each error once.
async fn failed_collectors(store: &Store) -> Result<Vec<String>, Failure> {
    let sql = "select collector, max(error) as error from collector_run where not is_success \
        and error is not null group by collector order by collector";
    let answer = store.query(Query::new(sql)).run().await.map_err(store_failure)?;
    let mut by_error: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for batch in &answer.batches {
        let cells = Cells::new(batch);
        for row in 0..cells.row_count() {
            let mut texts = cells.row(row).map(|value| match value {
                Value::String(text) => text,
                other => other.to_string(),
            });
            let collector = texts.next().unwrap_or_default();
            by_error.entry(texts.next().unwrap_or_default()).or_default().push(collector);
        }
    }
    Ok(by_error
        .into_iter()
        .map(|(error, collectors)| format!("{}: {error}", collectors.join(", ")))
        .collect())
}

fn record(dir: &Path, args: &DoctorArgs) -> Result<(), Failure> {
    let options = source::host_options(&args.root, host_name());
    let recorded =
        weir_collect::recording::record(dir, &options, args.seconds.into(), &SystemClock)
            .map_err(|error| source::failure(&error))?;
    say(&format!(
        "recorded {} samples with {} rows and {} files into {}\nlook at it: weir doctor {}",
        recorded.samples,
        recorded.rows,
        recorded.files,
        dir.display(),
        dir.display()
    ));
    Ok(())
}
