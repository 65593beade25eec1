//! `weir drill host`: a fault of a staging host itself, of a bounded kind, with an explicit yes,
//! undone after a time whatever happens.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use weir_drill::{
    HOST_FAULTS, HostDrill, HostDrillRequest, HostFault, HostFaultTarget, ScoreTiming,
};
use weir_process::failure::Failure;
use weir_process::terminal::Paint;

use super::args::HostArgs;
use super::watcher::{Watcher, WatcherSetup};
use super::{DrillReport, clean, ended, failure, parameters, program, runtime, tell, wait};

/// How long nothing is wrong before it.
const CALM: Duration = Duration::from_secs(12);
/// How long to watch for further findings after the fault is found.
const AFTER: Duration = Duration::from_secs(6);

/// Runs the command.
pub(super) fn drill(args: &HostArgs) -> Result<ExitCode, Failure> {
    let runtime = runtime()?;
    let _inside = runtime.enter();
    let is_ended = weir_process::signals::ended_by_signal()?;
    let client = args.weir.is_named().then(|| args.weir.client()).transpose()?;
    tell(args.format, &clean()?);
    let wish = HostDrillRequest {
        name: args.name.clone(),
        yes: args.yes.clone().unwrap_or_default(),
        span: args.span,
        directory: args.dir.clone(),
        device: args.device.clone(),
        seed: args.seed,
        parameters: args.param.iter().cloned().collect(),
        program: program()?,
    };
    let mut staging = HostDrill::begin(wish).map_err(|error| failure(&error))?;
    let fault = staging.fault();
    tell(args.format, &format!("drill `{}` on this host: {}", fault.name, fault.doc));
    let beside = WatcherSetup {
        dir: staging.dir(),
        config: "",
        listen: "127.0.0.1:0",
        instead: &[],
        ends_with: &|process| staging.ends_with(process),
    };
    let watcher = match client {
        Some(client) => Watcher::of(client),
        None => Watcher::start(&beside, &is_ended)?,
    };
    wait(CALM, &is_ended)?;
    let before = watcher.firing()?;
    let held = staging.make().map_err(|error| failure(&error))?;
    let made = parameters(staging.parameters());
    tell(args.format, &format!("made{made}; undone after {} s at the latest", args.span.as_secs()));
    let pace = ScoreTiming {
        patience: ScoreTiming::default().patience.min(args.span),
        after: AFTER,
        ..ScoreTiming::default()
    };
    let outcome = weir_drill::score(fault.rules, &["host"], &before, pace, || {
        if is_ended.load(Ordering::Relaxed) { Err(ended()) } else { watcher.firing() }
    })?;
    drop((held, watcher));
    let told = DrillReport { name: fault.name, seed: args.seed, rules: fault.rules, outcome };
    let report = told.report(staging.parameters());
    staging.end().map_err(|error| failure(&error))?;
    told.say(args.format, &report);
    Ok(told.code())
}

/// For `weir drill list`.
pub(super) fn list() -> String {
    let paint = Paint::for_stdout();
    HOST_FAULTS.iter().map(|fault| entry(fault, &paint)).collect()
}

fn entry(fault: &HostFault, paint: &Paint) -> String {
    let rules: Vec<String> = fault.rules.iter().map(|group| group.join(" or ")).collect();
    let name = format!("host {}", fault.name);
    let mut out = format!("{}: {}\n  {}\n", paint.bold(&name), rules.join(", and "), fault.doc);
    for one in fault.parameters {
        out +=
            &format!("  {} = {}..{}  {}\n", one.name, one.range.start(), one.range.end(), one.doc);
    }
    out
}

/// The faults for programs.
pub(super) fn objects() -> Vec<Value> {
    HOST_FAULTS.iter().map(fault_object).collect()
}

fn fault_object(fault: &HostFault) -> Value {
    let needs = match fault.needs {
        Some(HostFaultTarget::Directory) => "dir",
        Some(HostFaultTarget::Device) => "device",
        None => "",
    };
    json!({"name": format!("host {}", fault.name), "doc": fault.doc, "rules": fault.rules,
            "parameters": super::parameters_of(fault.parameters), "tools": fault.tools, "needs": needs})
}
