//! `weir rules`: list, show, and test rules as users write them.

pub(crate) mod args;
mod replay;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use serde_json::Value;
use weir_hub::rule_runner::read_rule_files;
use weir_process::failure::{EXIT_USAGE, Failure, read_failure};
use weir_process::terminal::{Paint, complain, say};
use weir_rules::test_file::{NOW, TestFile, TestQuery};
use weir_rules::{Rule, RuleSet, SourceFile};
use weir_store::{Query, QueryLimits, Store};
use weir_tables::nearest;
use weir_tables::{Batch, Clock, FixedClock, Parcel};

use crate::client::Client;
use crate::rules::args::{RulesAction, RulesArgs};

/// Limit of one query of a case.
const CASE_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the command.
pub(crate) fn run(args: &RulesArgs) -> Result<(), Failure> {
    match &args.action {
        None | Some(RulesAction::List) => list(&load(args.rules.as_deref())?),
        Some(RulesAction::Show { id }) => show(&load(args.rules.as_deref())?, id)?,
        Some(RulesAction::Replay(replay)) => {
            replay::run(&load(args.rules.as_deref())?, replay)?;
        }
        Some(RulesAction::Test { paths }) => test(&load(args.rules.as_deref())?, paths)?,
    }
    Ok(())
}

/// The built-in rules with those of a directory over them; what cannot be used is complained about.
pub(crate) fn load(dir: Option<&Path>) -> Result<RuleSet, Failure> {
    let files = dir.map(read_rule_files).transpose()?.unwrap_or_default();
    let (rules, errors) = RuleSet::with_directory(&files);
    for error in errors {
        complain(&format!("error: {error}"));
    }
    Ok(rules)
}

/// Precision of judged rules in a running weir; empty when none answers at once.
fn judged() -> BTreeMap<String, String> {
    let asked = Client::of(None, None)
        .and_then(|client| client.get_json("/api/rules", Duration::from_secs(2)));
    let rules = asked.map(|mut answer| answer["rules"].take()).unwrap_or_default();
    rules
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|rule: &Value| {
            let (judged, real) = (rule["judged"].as_u64()?, rule["real"].as_u64()?);
            let class = if rule["may_page"] == false { ", pages no more" } else { "" };
            let id = rule["id"].as_str()?.to_owned();
            Some((id, format!(" ({real} of the last {judged} judged were real{class})")))
        })
        .collect()
}

fn list(rules: &RuleSet) {
    let judged = judged();
    let paint = Paint::for_stdout();
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or_default();
    for rule in rules.iter() {
        let pad = " ".repeat(width - rule.id.len());
        let class =
            paint.of_class(rule.class.as_str()).paint(&format!("{:<4}", rule.class.as_str()));
        let judged = judged.get(&rule.id).map_or("", String::as_str);
        let (id, tier, title) = (paint.bold(&rule.id), &rule.tier, &rule.title);
        say(&format!("{id}{pad}  {class}  {tier:<7}  {title}{judged}"));
    }
}

/// What a command does with a rule.
#[derive(Clone, Copy)]
pub(crate) enum RuleUse {
    Show,
    Replay,
    Mine,
}

/// The rule of this id.
pub(crate) fn find<'a>(
    rules: &'a RuleSet,
    id: &str,
    purpose: RuleUse,
) -> Result<&'a Arc<Rule>, Failure> {
    let verb = match purpose {
        RuleUse::Show => "show",
        RuleUse::Replay => "replay",
        RuleUse::Mine => "mine",
    };
    rules.get(id).ok_or_else(|| {
        let hint = nearest(id, rules.iter().map(|rule| rule.id.as_str())).map_or_else(
            || "`weir rules` lists them".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        Failure::new(format!("cannot {verb} `{id}`: there is no such rule"))
            .hint(hint)
            .code(EXIT_USAGE)
    })
}

fn show(rules: &RuleSet, id: &str) -> Result<(), Failure> {
    let rule = find(rules, id, RuleUse::Show)?;
    say(&described(rule, Paint::for_stdout()));
    Ok(())
}

fn described(rule: &Rule, paint: Paint) -> String {
    let mut out = format!(
        "{}: {}\n  tier {}, class {}, fires after {} s, asked every {} s, {}\n",
        paint.bold(&rule.id),
        rule.title,
        rule.tier,
        rule.class.as_str(),
        rule.for_seconds,
        rule.every_seconds,
        rule.origin,
    );
    let parts = [
        ("why", &rule.why),
        ("look at", &rule.look_at),
        ("silent when", &rule.silent_when),
        ("fix", &rule.fix),
        ("source", &rule.source),
        ("sql", &rule.sql),
    ];
    for (name, text) in parts {
        let text = text.trim().replace('\n', "\n  ");
        out += &format!("\n{}\n  {text}\n", paint.bold(name));
    }
    for chosen in &rule.texts {
        out += &format!("\n{}\n", paint.bold(&format!("text {}", chosen.column)));
        for (key, text) in &chosen.by_key {
            out += &format!("  {key}: {text}\n");
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn test(rules: &RuleSet, paths: &[PathBuf]) -> Result<(), Failure> {
    let mut files = Vec::new();
    for path in paths {
        find_tests(path, &mut files)?;
    }
    if files.is_empty() {
        return Err(Failure::new("cannot test: no `.test` file is there")
            .hint("`weir rules test rules/`; a rule `a.b.sql` has its cases in `a.b.test`"));
    }
    files.sort();
    let (mut passed, mut failed) = (0, 0);
    for (file, outcome) in files.iter().zip(test_all(rules, &files)?) {
        match outcome {
            Ok(results) => {
                for result in results {
                    let place = format!("{}:{}", file.display(), result.line);
                    match result.failure {
                        None => passed += 1,
                        Some(why) => {
                            failed += 1;
                            say(&format!(
                                "failed {place} {}\n  {}",
                                result.name,
                                why.replace('\n', "\n  ")
                            ));
                        }
                    }
                }
            }
            Err(failure) => {
                failed += 1;
                say(&format!(
                    "failed {}\n  {}",
                    file.display(),
                    failure.to_string().replace('\n', "\n  ")
                ));
            }
        }
    }
    say(&format!("{passed} passed, {failed} failed"));
    if failed > 0 { Err(Failure::new(format!("{failed} cases of rules failed"))) } else { Ok(()) }
}

type Outcome = Result<Vec<weir_rules::test_file::CaseResult>, Failure>;

/// The outcome of each file, in their order; one worker per CPU takes the next untested file.
fn test_all(rules: &RuleSet, files: &[PathBuf]) -> Result<Vec<Outcome>, Failure> {
    let next = AtomicUsize::new(0);
    let work = || {
        let runner = CaseRunner::new()?;
        let mut outcomes = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(file) = files.get(at)
        {
            outcomes.push((at, test_one(rules, file, &runner)));
        }
        Ok::<_, Failure>(outcomes)
    };
    let count = std::thread::available_parallelism().map_or(1, |count| count.get());
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..count.min(files.len())).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for worker in workers {
            match worker.join() {
                Ok(outcomes) => all.extend(outcomes?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, Failure>(all)
    })?;
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, outcome)| outcome).collect())
}

/// The rule beside the test file counts, else the loaded one of its name.
fn test_one(rules: &RuleSet, file: &Path, runner: &CaseRunner) -> Outcome {
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|error| read_failure(path, &error));
    let origin = file.display().to_string();
    let beside = file.with_extension("sql");
    let rule: Arc<Rule> = if beside.is_file() {
        let text = read(&beside)?;
        Arc::new(
            Rule::parse(SourceFile { origin: &beside.display().to_string(), text: &text })
                .map_err(broken)?,
        )
    } else {
        let id = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let found = rules.get(&id.unwrap_or_default()).cloned();
        found.ok_or_else(|| {
            Failure::new(format!("cannot test `{origin}`: there is no rule of this name"))
                .hint(format!("write it beside: `{}`", beside.display()))
        })?
    };
    let cases =
        TestFile::parse(SourceFile { origin: &origin, text: &read(file)? }).map_err(broken)?;
    Ok(cases.run(&rule, runner))
}

fn broken(error: weir_rules::RuleError) -> Failure {
    Failure::new(error.to_string())
}

fn find_tests(path: &Path, out: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| read_failure(path, &error))?;
        for entry in entries.flatten() {
            let below = entry.path();
            if below.is_dir() || below.extension().is_some_and(|extension| extension == "test") {
                find_tests(&below, out)?;
            }
        }
        return Ok(());
    }
    std::fs::metadata(path).map_err(|error| read_failure(path, &error))?;
    out.push(path.to_owned());
    Ok(())
}

/// Answers the queries of cases, each over a separate store in memory.
struct CaseRunner {
    runtime: tokio::runtime::Runtime,
    clock: Arc<dyn Clock>,
}

impl CaseRunner {
    fn new() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Failure::new(format!("cannot start threads: {error}")))?;
        Ok(Self { runtime, clock: Arc::new(FixedClock::default()) })
    }
}

impl TestQuery for CaseRunner {
    fn query(&self, tables: Vec<Batch>, sql: &str) -> Result<Vec<RecordBatch>, String> {
        self.runtime.block_on(async {
            let store = Store::in_memory(Arc::clone(&self.clock));
            let parcel = Parcel { range: None, batches: tables };
            store.append(parcel).await.map_err(|error| error.to_string())?;
            let limits = QueryLimits::of_rule(100_000, CASE_TIMEOUT);
            let answer = store.query(Query::new(sql).at(NOW).limits(limits)).run().await;
            let answer = answer.map_err(|error| error.to_string())?;
            Ok(answer.batches)
        })
    }
}
