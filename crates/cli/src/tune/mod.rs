//! `weir tune`: what this host's own counters ask of its kernel and its proxies. Changes nothing.
//!
//! The proposals are rules (`tune/*.sql`) over the same rows that doctor sees: a look of some
//! seconds, with counters since boot. What has no evidence is not proposed.

pub(crate) mod args;
mod diff;
mod page;
pub(crate) mod trial;

use std::sync::Arc;

use weir_config::place::host_name;
use weir_hub::rule_runner;
use weir_hub::store_failure;
use weir_process::failure::Failure;
use weir_process::terminal::{Paint, complain, say, say_json};
use weir_rules::{Engine, Row, Rule, RuleSet};
use weir_store::Store;
use weir_tables::{Clock, FixedClock, Micros, Parcel};

use crate::doctor::source::{HostSource, LiveHost, RecordedHost};
use crate::tune::args::{TuneArgs, TuneFormat};

/// One setting that should change.
pub(crate) struct Proposal {
    rule: Arc<Rule>,
    summary: String,
    reason: String,
    fix: String,
    evidence: String,
    name: String,
    current: String,
    suggested: String,
    set_in: Option<String>,
    edit: Option<Edit>,
}

/// A line of a configuration with other arguments.
pub(crate) struct Edit {
    file: String,
    line: usize,
    directive: String,
    arguments: String,
    new_arguments: String,
}

/// Runs the command.
pub(crate) fn run(args: &TuneArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start threads: {error}")))?;
    let proposals = match &args.dir {
        Some(dir) => runtime.block_on(propose(RecordedHost::open(dir)?))?,
        None => {
            let live = LiveHost::new(&args.root, host_name(), args.seconds);
            runtime.block_on(propose(live))?
        }
    };
    match args.format {
        TuneFormat::Text => say(&page::text(&proposals, Paint::for_stdout())),
        TuneFormat::Sysctl => say(&page::sysctl(&proposals)),
        TuneFormat::Json => say_json(&page::json(&proposals).to_string()),
        TuneFormat::Diff => {
            let (diff, problems) = diff::diff(&proposals, &args.root);
            problems.iter().for_each(|problem| complain(problem));
            say(diff.trim_end());
        }
    }
    Ok(())
}

async fn propose(mut source: impl HostSource) -> Result<Vec<Proposal>, Failure> {
    let clock = Arc::new(FixedClock::default());
    let store = Store::in_memory(Arc::clone(&clock) as Arc<dyn Clock>);
    let mut last = Micros(0);
    while let Some((now, batches)) = source.next() {
        clock.set(now);
        last = now;
        store.append(Parcel { range: None, batches }).await.map_err(store_failure)?;
    }
    source.check()?;
    let mut proposals = Vec::new();
    for rule in weir_rules::tuning() {
        let answer =
            rule_runner::ask(&store, &rule.queries(), last).await.map_err(store_failure)?;
        let mut engine = Engine::new(&RuleSet::default());
        let found = engine.observe(&rule, last, &answer);
        proposals.extend(found.iter().filter_map(|change| {
            let finding = &change.finding;
            let evidence: serde_json::Value = serde_json::from_str(finding.evidence()).ok()?;
            let row = Row::from_json(evidence.get(0)?)?;
            let text = |name: &str| match row.get(name)?.to_json() {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) => Some(text),
                other => Some(other.to_string()),
            };
            Some(Proposal {
                summary: finding.summary().to_owned(),
                reason: finding.why().to_owned(),
                fix: finding.fix().to_owned(),
                evidence: finding.evidence().to_owned(),
                name: text("name")?,
                current: text("current").unwrap_or_default(),
                suggested: text("suggested")?,
                set_in: text("set_in"),
                edit: edit(&text),
                rule: Arc::clone(&rule),
            })
        }));
    }
    Ok(proposals)
}

fn edit(text: &dyn Fn(&str) -> Option<String>) -> Option<Edit> {
    Some(Edit {
        file: text("file")?,
        line: text("line")?.parse().ok()?,
        directive: text("directive")?,
        arguments: text("arguments")?,
        new_arguments: text("new_arguments")?,
    })
}
