//! `weir drill`: faults made for real in namespaces of their own, and whether they are found, named right, and how soon.
//!
//! Making and taking away is `weir-drill`'s; here are the command, the weir that must find the fault, and the report.

pub(crate) mod args;
mod watcher;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_drill::{App, DrillError, Fault, Outcome, Pace, Scene, Visit};

use crate::cli::ReplayFormat;
use crate::failure::{EXIT_USAGE, Failure};
use crate::terminal::{Paint, say};
use args::{DrillAction, DrillArgs, RunArgs};
use watcher::Watcher;

/// Exit code when the drill itself failed (`EX_SOFTWARE` of sysexits.h).
const EXIT_FAILED: u8 = 70;
/// Exit codes of a fault that was missed, and of one beside which something else was named.
const MISSED: u8 = 1;
const NOT_RIGHT: u8 = 2;
/// How long nothing is wrong before the fault.
const CALM: Duration = Duration::from_secs(12);

/// Runs the command.
pub(crate) fn run(args: &DrillArgs) -> Result<ExitCode, Failure> {
    match &args.action {
        DrillAction::List { format } => {
            say(&list(*format));
            Ok(ExitCode::SUCCESS)
        }
        DrillAction::Run(args) => drill(args),
        DrillAction::Clean => {
            let cleaned = clean()?;
            say(&if cleaned.is_empty() { "nothing was left".to_owned() } else { cleaned });
            Ok(ExitCode::SUCCESS)
        }
        DrillAction::App(args) => {
            let app = App {
                address: args.address,
                backlog: args.backlog,
                delay: args.delay.clone(),
                bytes: args.bytes,
                spin: args.spin,
                failing: args.failing.clone(),
                files: args.files,
            };
            weir_drill::serve(&app).map_err(|error| failure(&error))?;
            Ok(ExitCode::SUCCESS)
        }
        DrillAction::Visit(args) => {
            let visit = Visit {
                address: args.address,
                visitors: args.visitors,
                pause_millis: args.pause_millis,
                hold: args.hold,
                slow_millis: args.slow_millis,
                patience_millis: args.patience_millis,
            };
            weir_drill::visit(&visit).map_err(|error| failure(&error))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn failure(error: &DrillError) -> Failure {
    Failure::new(error.message.clone()).hint(error.hint.clone()).code(EXIT_FAILED)
}

fn ended() -> Failure {
    Failure::new("the drill was ended by a signal; what it made is taken away").code(EXIT_FAILED)
}

/// Takes away what killed drills left; what that was.
fn clean() -> Result<String, Failure> {
    let cleaned = weir_drill::clean().map_err(|error| failure(&error))?;
    Ok(cleaned.iter().map(|name| format!("took away {name}")).collect::<Vec<_>>().join("\n"))
}

fn list(format: ReplayFormat) -> String {
    let parameters = |fault: &Fault| -> Vec<Value> {
        let of = |one: &weir_drill::Parameter| json!({"name": one.name, "from": one.range.0, "to": one.range.1, "doc": one.doc});
        fault.parameters.iter().map(of).collect()
    };
    if format == ReplayFormat::Json {
        let object = |fault: &Fault| json!({"name": fault.name, "rules": fault.rules, "parameters": parameters(fault), "tools": fault.tools});
        return Value::from(weir_drill::all().map(object).collect::<Vec<_>>()).to_string();
    }
    let paint = Paint::for_stdout();
    let mut out = String::new();
    for fault in weir_drill::all() {
        let groups: Vec<String> = fault.rules.iter().map(|group| group.join(" or ")).collect();
        let right =
            if groups.is_empty() { "nothing pages or mails".into() } else { groups.join(", and ") };
        out += &format!("{}: {right}\n", paint.bold(fault.name));
        for one in fault.parameters {
            out += &format!("  {} = {}..{}  {}\n", one.name, one.range.0, one.range.1, one.doc);
        }
    }
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
    let tell = |text: &str| {
        if args.format == ReplayFormat::Text && !text.is_empty() {
            say(text);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start threads: {error}")))?;
    let _inside = runtime.enter();
    let is_ended = crate::signals::ended_by_signal()?;
    let client = args.weir.is_named().then(|| args.weir.client()).transpose()?;
    tell(&clean()?);
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find weir's own program: {error}")))?;
    let given = args.param.iter().cloned().collect();
    let mut scene =
        Scene::set(fault, args.seed, given, program).map_err(|error| failure(&error))?;
    if client.is_some() && !scene.config().is_empty() {
        return Err(Failure::new(format!(
            "cannot make `{}` for another weir: it needs a configuration of its own",
            fault.name
        ))
        .hint("leave --url out (and `WEIR_URL` unset)")
        .code(EXIT_USAGE));
    }
    tell(&format!("drill `{}` in the namespaces {}", fault.name, scene.sides().join(" and ")));
    let watcher = match client {
        Some(client) => Watcher::of(client),
        None => Watcher::start(&scene, &is_ended)?,
    };
    wait(CALM, &is_ended)?;
    let before = watcher.firing()?;
    let held = scene.inject(fault).map_err(|error| failure(&error))?;
    tell(&format!("made{}", parameters(&scene)));
    let outcome = weir_drill::judge(fault, &scene, &before, Pace::default(), || {
        if is_ended.load(Ordering::Relaxed) { Err(ended()) } else { watcher.firing() }
    })?;
    drop((held, watcher));
    let report = report(fault, args.seed, &scene, &outcome);
    scene.end().map_err(|error| failure(&error))?;
    match args.format {
        ReplayFormat::Json => say(&report.to_string()),
        ReplayFormat::Text => say(&words(fault, &outcome)),
    }
    Ok(code(fault, &outcome))
}

fn code(fault: &Fault, outcome: &Outcome) -> ExitCode {
    match outcome {
        Outcome { is_right: true, .. } => ExitCode::SUCCESS,
        Outcome { detected: None, .. } if !fault.rules.is_empty() => MISSED.into(),
        _ => NOT_RIGHT.into(),
    }
}

fn parameters(scene: &Scene) -> String {
    let one = |(name, value): &(&str, u64)| format!(" {name}={value}");
    scene.parameters().iter().map(one).collect()
}

fn report(fault: &Fault, seed: u64, scene: &Scene, outcome: &Outcome) -> Value {
    let parameters: serde_json::Map<String, Value> = scene
        .parameters()
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect();
    json!({
        "fault": fault.name,
        "seed": seed,
        "parameters": parameters,
        "rules": fault.rules,
        "detected_seconds": outcome.detected.map(|time| time.as_secs_f64()),
        "is_named_right": outcome.is_right,
        "others": outcome.others,
    })
}

fn words(fault: &Fault, outcome: &Outcome) -> String {
    let others: Vec<&str> = outcome.others.iter().map(String::as_str).collect();
    let also = if others.is_empty() {
        String::new()
    } else {
        format!("; also named: {}", others.join(", "))
    };
    let right = if outcome.is_right { "named right" } else { "not named right" };
    match outcome.detected {
        _ if fault.rules.is_empty() && outcome.is_right => "silent, as is right".to_owned(),
        _ if fault.rules.is_empty() => format!("nothing was wrong, and it was not silent{also}"),
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
