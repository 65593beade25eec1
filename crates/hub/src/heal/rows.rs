//! Rows of `action_run` from changes of runs, and runs as the API shows them.

use serde_json::{Value, json};
use weir_actions::{DeployLock, DryRunRecord, HealChange, HealLadder, HealRun, RunState};
use weir_tables::{ActionRun, ActionRunRows, Batch, Micros, Rows};

/// Rows of changes.
pub(super) fn changes(changes: &[HealChange]) -> Batch {
    let mut rows = ActionRunRows::default();
    for change in changes {
        let run = &change.run;
        let params = json!(run.params).to_string();
        let result = run.result.as_ref();
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let reason = text(&reason(run));
        let argv = result.and_then(|result| text(&result.argv));
        let output = result.and_then(|result| text(&result.output_tail));
        let undo = run.undo.as_ref();
        let dry = run.dry_run.as_ref();
        let is_dry = run.state == RunState::DryRun;
        let dry_order = dry.filter(|_| is_dry).map(|dry| dry.order_id.as_str());
        let dry_text = dry.and_then(|dry| text(&dry.text));
        rows.push(&ActionRun {
            ts: change.ts,
            host: &run.host,
            run_id: &run.id,
            order_id: undo
                .map(|undo| undo.order_id.as_str())
                .or(run.order_id.as_deref())
                .or(dry_order),
            action: &run.action,
            params: &params,
            mode: mode(run),
            rule_id: Some(&run.rule),
            finding_id: &run.finding_id,
            state: run.state.as_str(),
            approved_by: run.approved_by.as_deref(),
            reason: reason.as_deref(),
            argv: argv.as_deref(),
            exit_status: result.and_then(|result| result.exit),
            output_tail: output.as_deref(),
            dry_run: dry_text.as_deref(),
            ..Default::default()
        });
    }
    Batch { table: ActionRunRows::SPEC, rows: rows.finish() }
}

/// What the newest order of a run is for.
fn mode(run: &HealRun) -> &'static str {
    match run.state {
        _ if run.undo.is_some() => "undo",
        RunState::DryRun => "dry_run",
        _ => "run",
    }
}

/// The limit and the reason of a state.
fn reason(run: &HealRun) -> String {
    match run.refusal {
        Some(refusal) => format!("{}: {}", refusal.as_str(), run.reason),
        None => run.reason.clone(),
    }
}

/// A run for the API.
pub(super) fn shown(run: &HealRun) -> Value {
    json!({
        "run_id": run.id,
        "state": run.state.as_str(),
        "step": run.step.as_str(),
        "rule": run.rule,
        "action": run.action,
        "params": run.params,
        "host": run.host,
        "role": run.role,
        "subject": run.subject,
        "finding_id": run.finding_id,
        "incident_id": run.incident_id,
        "refusal": run.refusal.map(weir_actions::RefusalReason::as_str),
        "reason": run.reason,
        "approved_by": run.approved_by,
        "opened_ts": Micros(run.opened_us).to_string(),
        "changed_ts": Micros(run.changed_us).to_string(),
        "asked_until_ts": run.asked_until_us.map(|at| Micros(at).to_string()),
        "dry_run": run.dry_run.as_ref().map(dry_run),
        "order_id": run.order_id,
        "ordered_ts": run.ordered_us.map(|at| Micros(at).to_string()),
        "exit_status": run.result.as_ref().and_then(|result| result.exit),
        "output_tail": run.result.as_ref().map(|result| result.output_tail.clone()),
        "before": run.before,
        "after": run.after,
        "undo": run.undo.as_ref().and_then(|undo| undo.outcome.clone()),
    })
}

fn dry_run(dry: &DryRunRecord) -> Value {
    json!({
        "order_id": dry.order_id,
        "ordered_ts": Micros(dry.ordered_us).to_string(),
        "text": dry.text,
        "exit_status": dry.result.as_ref().and_then(|result| result.exit),
        "output_tail": dry.result.as_ref().map(|result| result.output_tail.clone()),
    })
}

/// A lock for the API.
pub(super) fn lock(lock: &DeployLock) -> Value {
    json!({
        "lock_id": lock.id,
        "role": lock.role,
        "host": lock.host,
        "by": lock.by,
        "reason": lock.reason,
        "from_ts": Micros(lock.from_us).to_string(),
        "until_ts": Micros(lock.until_us()).to_string(),
    })
}

/// A ladder for the API.
pub(super) fn ladder(ladder: &HealLadder) -> Value {
    json!({
        "rule": ladder.rule,
        "action": ladder.action,
        "role": ladder.role,
        "limit": ladder.limit.as_str(),
        "verified": ladder.verified_us.len(),
        "reason": ladder.reason,
    })
}
