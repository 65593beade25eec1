//! `weir heal`: repairs of hosts, what people decide about them, and drafts of new ones.

pub(crate) mod args;
mod draft;
mod lock;

use std::time::Duration;

use serde_json::{Value, json};
use weir_process::failure::Failure;
use weir_process::terminal::{say, say_json};

use crate::client::Client;
use crate::heal::args::{HealAction, HealArgs, RunArgs};
use crate::id_prefix::{IdList, whole_id};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the command.
pub(crate) fn run(args: &HealArgs) -> Result<(), Failure> {
    if let HealAction::Draft { rule } = &args.action {
        say(draft::draft(rule)?.trim_end());
        return Ok(());
    }
    let client = args.weir.client()?;
    match &args.action {
        HealAction::List { json } => list(&client, *json),
        HealAction::Runs { json } => runs(&client, *json),
        HealAction::Approve(run) => decide(&client, run, "approve"),
        HealAction::Refuse(run) => decide(&client, run, "refuse"),
        HealAction::Undo(run) => decide(&client, run, "undo"),
        HealAction::Stop { reason, by } => {
            client.post_json("/api/heal/stop", &json!({"by": by, "reason": reason}))?;
            say("repairs are stopped");
            Ok(())
        }
        HealAction::Start { by } => {
            client.post_json("/api/heal/start", &json!({"by": by}))?;
            say("repairs may run");
            Ok(())
        }
        HealAction::Raise { rule, action, role, by } => {
            let body = json!({"rule": rule, "action": action, "role": role, "by": by});
            client.post_json("/api/heal/raise", &body)?;
            say(&format!("{action} for {rule} on role `{role}`: one step further"));
            Ok(())
        }
        HealAction::Lock { scope, length, reason, by } => {
            let by = by.as_deref();
            lock::lock(&client, &lock::WantedLock { scope, length, reason, by })
        }
        HealAction::Unlock { id, scope, by } => {
            lock::unlock(&client, (id.as_deref(), scope), by.as_deref())
        }
        HealAction::Locks { json } => lock::locks(&client, *json),
        HealAction::Key => key(&client),
        HealAction::Draft { .. } => Ok(()),
    }
}

fn state(client: &Client) -> Result<Value, Failure> {
    client.get_json("/api/actions", TIMEOUT)
}

fn key(client: &Client) -> Result<(), Failure> {
    match state(client)?["public_key"].as_str() {
        Some(key) => {
            say(key);
            Ok(())
        }
        None => Err(Failure::new("cannot print the key of orders: this hub has none")
            .hint("set `heal.enabled` and start weir again")),
    }
}

fn list(client: &Client, is_json: bool) -> Result<(), Failure> {
    let mut all = state(client)?;
    if let Some(all) = all.as_object_mut() {
        all.remove("runs");
    }
    if is_json {
        say_json(&serde_json::to_string_pretty(&all).expect("what was parsed can be printed"));
        return Ok(());
    }
    let word = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    if all["enabled"] != true {
        say("repairs are off: set `heal.enabled`");
    }
    if let Some(stop) = all["stopped"].as_object() {
        let by = stop["by"].as_str().unwrap_or("weir");
        say(&format!("stopped by {by}: {}", stop["reason"].as_str().unwrap_or_default()));
    }
    let heals = all["heals"].as_array().map_or(&[][..], Vec::as_slice);
    for heal in heals {
        let (rule, action, mode) = (word(heal, "rule"), word(heal, "action"), word(heal, "mode"));
        say(&format!("{mode:<8}  {rule:<28}  {action}"));
        let ladders = all["ladders"].as_array().map_or(&[][..], Vec::as_slice);
        for ladder in ladders.iter().filter(|it| it["rule"] == *rule && it["action"] == *action) {
            let (role, limit) = (word(ladder, "role"), word(ladder, "limit"));
            let role = if role.is_empty() { "no role".to_owned() } else { format!("role {role}") };
            let reason = match word(ladder, "reason").as_str() {
                "" => String::new(),
                reason => format!(" ({reason})"),
            };
            say(&format!(
                "          {role}: at most {limit}, {} verified{reason}",
                ladder["verified"]
            ));
        }
    }
    if heals.is_empty() {
        say("no repair is configured; `weir heal draft RULE` prints one");
    }
    Ok(())
}

fn runs(client: &Client, is_json: bool) -> Result<(), Failure> {
    let runs = state(client)?["runs"].take();
    if is_json {
        say_json(&serde_json::to_string_pretty(&runs).expect("what was parsed can be printed"));
        return Ok(());
    }
    let runs = runs.as_array().map_or(&[][..], Vec::as_slice);
    for run in runs {
        let word = |name: &str| run[name].as_str().unwrap_or_default();
        let reason = match (word("refusal"), word("reason")) {
            ("", reason) => reason.to_owned(),
            (refusal, reason) => format!("{refusal}: {reason}"),
        };
        let (id, state, at) = (word("run_id"), word("state"), word("changed_ts"));
        let (action, host, rule) = (word("action"), word("host"), word("rule"));
        say(&format!("{id}  {at}  {state:<8}  {action} on {host} for {rule}  {reason}"));
    }
    if runs.is_empty() {
        say("no runs");
    }
    Ok(())
}

fn decide(client: &Client, run: &RunArgs, verb: &'static str) -> Result<(), Failure> {
    let all = state(client)?;
    let rows = all["runs"].as_array().map_or(&[][..], Vec::as_slice);
    let list = IdList { rows, field: "run_id", noun: "run", lists: "weir heal runs" };
    let id = whole_id(&list, &run.id, verb)?;
    let answer = client.post_json(&format!("/api/actions/{id}/{verb}"), &json!({"by": run.by}))?;
    let text = answer["runs"][0]["reason"].as_str().unwrap_or_default();
    say(&format!("{id}: {}", if text.is_empty() { verb } else { text }));
    Ok(())
}
