//! `weir drill`: makes faults for real in separate namespaces, and checks whether they are found,
//! diagnosed correctly, and how soon.
//!
//! Making and taking away is `weir-drill`'s; here are the command, the weir that must find the
//! fault, and the report.

mod actors;
pub(crate) mod args;
mod host;
mod watcher;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_drill::{DrillError, Fault, Outcome, ScoreTiming, TestBed};
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::{Paint, say, say_json};

use crate::rules::args::ReplayFormat;
use args::{DrillAction, DrillArgs, RunArgs};
use watcher::{Watcher, WatcherSetup};

/// Exit code when the drill itself failed (`EX_SOFTWARE` of sysexits.h).
const EXIT_FAILED: u8 = 70;
/// Exit codes of a fault that was missed, and of one beside which something else was named.
const MISSED: u8 = 1;
const NOT_RIGHT: u8 = 2;

/// Runs the command.
pub(crate) fn run(args: &DrillArgs) -> Result<ExitCode, Failure> {
    match &args.action {
        DrillAction::List { format } => {
            say(&list(*format));
            Ok(ExitCode::SUCCESS)
        }
        DrillAction::Run(args) => drill(args),
        DrillAction::Host(args) => host::drill(args),
        DrillAction::Clean => {
            let cleaned = clean()?;
            say(&if cleaned.is_empty() { "nothing was left".to_owned() } else { cleaned });
            Ok(ExitCode::SUCCESS)
        }
        actor => {
            actors::run(actor).map_err(|error| failure(&error))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn failure(error: &DrillError) -> Failure {
    Failure::new(error.message.clone()).hint(error.hint.clone()).code(EXIT_FAILED)
}

fn ended() -> Failure {
    Failure::new("the drill was ended by a signal; its changes are undone").code(EXIT_FAILED)
}

/// Takes away what killed drills left; what that was.
fn clean() -> Result<String, Failure> {
    let cleaned = weir_drill::clean().map_err(|error| failure(&error))?;
    Ok(cleaned.iter().map(|name| format!("took away {name}")).collect::<Vec<_>>().join("\n"))
}

fn parameters_of(parameters: &[weir_drill::Parameter]) -> Vec<Value> {
    parameters.iter().map(|one: &weir_drill::Parameter| json!({"name": one.name, "from": one.range.start(), "to": one.range.end(), "doc": one.doc})).collect()
}

fn list(format: ReplayFormat) -> String {
    if format == ReplayFormat::Json {
        let all: Vec<Value> = weir_drill::all().map(|fault: &Fault| json!({"name": fault.name, "rules": fault.rules, "parameters": parameters_of(fault.parameters), "tools": fault.tools})).chain(host::objects()).collect();
        return Value::from(all).to_string();
    }
    let paint = Paint::for_stdout();
    let mut out = String::new();
    for fault in weir_drill::all() {
        let groups: Vec<String> = fault.rules.iter().map(|group| group.join(" or ")).collect();
        let right =
            if groups.is_empty() { "nothing pages or mails".into() } else { groups.join(", and ") };
        out += &format!("{}: {right}\n", paint.bold(fault.name));
        for one in fault.parameters {
            out += &format!(
                "  {} = {}..{}  {}\n",
                one.name,
                one.range.start(),
                one.range.end(),
                one.doc
            );
        }
    }
    out += &host::list();
    out.trim_end().to_owned()
}

/// One fault from begin to end.
fn drill(args: &RunArgs) -> Result<ExitCode, Failure> {
    let name = args.name.join(" ");
    let Some(fault) = weir_drill::named(&name) else {
        return Err(Failure::new(format!("cannot make `{name}`: there is no such fault"))
            .hint("`weir drill list` shows them")
            .code(EXIT_USAGE));
    };
    let runtime = runtime()?;
    let _inside = runtime.enter();
    let is_ended = weir_process::signals::ended_by_signal()?;
    let client = args.weir.is_named().then(|| args.weir.client()).transpose()?;
    tell(args.format, &clean()?);
    let given = args.param.iter().cloned().collect();
    let mut scene =
        TestBed::build(fault, args.seed, given, program()?).map_err(|error| failure(&error))?;
    if client.is_some() && scene.needs_own_weir() {
        return Err(Failure::new(format!(
            "cannot make `{}` for another weir: it needs its own configuration",
            fault.name
        ))
        .hint("leave --url out (and `WEIR_URL` unset)")
        .code(EXIT_USAGE));
    }
    let where_ = scene.sides().join(" and ");
    tell(args.format, &format!("drill `{}` in the namespaces {where_}", fault.name));
    let beside = WatcherSetup {
        dir: scene.dir(),
        config: scene.config(),
        listen: scene.listen(),
        instead: scene.file_overrides(),
        ends_with: &|process| scene.ends_with(process),
    };
    let watcher = match client {
        Some(client) => Watcher::of(client),
        None => Watcher::start(&beside, &is_ended)?,
    };
    wait(scene.baseline(), &is_ended)?;
    let before = watcher.firing()?;
    let held = scene.inject(fault).map_err(|error| failure(&error))?;
    tell(args.format, &format!("made{}", parameters(scene.parameters())));
    let usual = ScoreTiming::default();
    let patience = args.span.or(scene.patience()).unwrap_or(usual.patience);
    let pace = ScoreTiming { patience, nothing: args.span.unwrap_or(usual.nothing), ..usual };
    let outcome = weir_drill::score(fault.rules, &scene.sides(), &before, pace, || {
        if is_ended.load(Ordering::Relaxed) { Err(ended()) } else { watcher.firing() }
    })?;
    drop((held, watcher));
    let told = DrillReport { name: fault.name, seed: args.seed, rules: fault.rules, outcome };
    let report = told.report(scene.parameters());
    scene.end().map_err(|error| failure(&error))?;
    told.say(args.format, &report);
    Ok(told.code())
}

fn tell(format: ReplayFormat, text: &str) {
    if format == ReplayFormat::Text && !text.is_empty() {
        say(text);
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start threads: {error}")))
}

/// The program whose hidden commands make the traffic of a fault.
fn program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find weir's own program: {error}")))
}

fn parameters(parameters: &[(&str, u64)]) -> String {
    parameters.iter().map(|(name, value)| format!(" {name}={value}")).collect()
}

/// What became of a drill.
struct DrillReport<'a> {
    name: &'a str,
    seed: u64,
    rules: &'a [&'a [&'a str]],
    outcome: Outcome,
}

impl DrillReport<'_> {
    fn code(&self) -> ExitCode {
        match &self.outcome {
            Outcome { is_right: true, .. } => ExitCode::SUCCESS,
            Outcome { detected: None, .. } if !self.rules.is_empty() => MISSED.into(),
            _ => NOT_RIGHT.into(),
        }
    }

    fn report(&self, parameters: &[(&str, u64)]) -> Value {
        let parameters: serde_json::Map<String, Value> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        json!({
            "fault": self.name,
            "seed": self.seed,
            "parameters": parameters,
            "rules": self.rules,
            "detected_seconds": self.outcome.detected.map(|time| time.as_secs_f64()),
            "is_named_right": self.outcome.is_right,
            "others": self.outcome.others,
            "paged": self.outcome.paged,
        })
    }

    fn say(&self, format: ReplayFormat, report: &Value) {
        match format {
            ReplayFormat::Json => say_json(&report.to_string()),
            ReplayFormat::Text => say(&words(self.rules, &self.outcome)),
        }
    }
}

fn words(rules: &[&[&str]], outcome: &Outcome) -> String {
    let others: Vec<&str> = outcome.others.iter().map(String::as_str).collect();
    let also = if others.is_empty() {
        String::new()
    } else {
        format!("; also named: {}", others.join(", "))
    };
    let right = if outcome.is_right { "named right" } else { "not named right" };
    match outcome.detected {
        _ if rules.is_empty() && outcome.is_right => "silent, as is right".to_owned(),
        _ if rules.is_empty() => format!("nothing was wrong, and it was not silent{also}"),
        Some(time) => format!("found after {:.1} s, {right}{also}", time.as_secs_f64()),
        None => format!("NOT FOUND in time{also}"),
    }
}

/// Waits; breaks off when a signal came.
fn wait(span: Duration, is_ended: &AtomicBool) -> Result<(), Failure> {
    let began = Instant::now();
    while began.elapsed() < span {
        if is_ended.load(Ordering::Relaxed) {
            return Err(ended());
        }
        pause(Duration::from_millis(100));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "looks again and again; nothing else runs")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}
