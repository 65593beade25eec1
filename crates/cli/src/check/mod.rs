//! `weir check`: list the configured checks, and run one now.

pub(crate) mod args;

use std::process::ExitCode;

use weir_config::Values;
use weir_config::check_plan::CheckPlan;
use weir_probe::check::{CheckHost, CheckOutcome, CheckSpec, CheckState, PluginControl, run_check};
use weir_process::clock::SystemClock;
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::say;
use weir_tables::{Clock as _, nearest};

use args::CheckAction;

/// Runs the command.
///
/// # Errors
/// When the configuration is wrong, or has no such check.
pub(crate) fn run(action: &CheckAction, values: &Values) -> Result<ExitCode, Failure> {
    let plan = CheckPlan::of(values)?;
    match action {
        CheckAction::List => {
            list(&plan);
            Ok(ExitCode::SUCCESS)
        }
        CheckAction::Run { name } => {
            let spec = find(&plan, name)?;
            let control = PluginControl::default();
            let host = CheckHost { now: SystemClock.now(), control: &control };
            Ok(show(&run_check(spec, &host)))
        }
    }
}

fn list(plan: &CheckPlan) {
    if plan.specs.is_empty() {
        say("no checks (docs/checks.md: `[[checks]]` and `[[probes]]` in the configuration)");
    }
    for spec in &plan.specs {
        let target = match spec.work.target() {
            target if target.is_empty() || target == spec.name => String::new(),
            target => format!(" {target}"),
        };
        let (kind, every) = (spec.work.kind(), spec.interval.as_secs());
        say(&format!("{}: {kind}{target}, every {every} s", spec.name));
    }
    for note in &plan.notes {
        say(&format!("note: {note}"));
    }
}

fn find<'a>(plan: &'a CheckPlan, name: &str) -> Result<&'a CheckSpec, Failure> {
    if let Some(spec) = plan.specs.iter().find(|spec| spec.name == name) {
        return Ok(spec);
    }
    let known = plan.specs.iter().map(|spec| spec.name.as_str());
    let hint = nearest(name, known).map_or_else(
        || "`weir check list` has all of them".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    Err(Failure::new(format!("there is no check `{name}`")).hint(hint).code(EXIT_USAGE))
}

/// Prints a result as a plugin would; returns the exit code of a plugin.
fn show(outcome: &CheckOutcome) -> ExitCode {
    let CheckOutcome { state, output, figures, .. } = outcome;
    say(&format!("{}: {output}", state.as_str()));
    for (label, figure) in figures {
        say(&format!("  {label} = {figure}"));
    }
    ExitCode::from(match state {
        CheckState::Ok => 0,
        CheckState::Warning => 1,
        CheckState::Critical => 2,
        CheckState::Unknown => 3,
    })
}
