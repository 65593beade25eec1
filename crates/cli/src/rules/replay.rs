//! `weir rules replay`: asks a running weir for the rows that a rule would have seen.

use arrow_array::RecordBatch;
use serde_json::{Value, json};
use weir_hub::replay::{ReplayWalk, batch};
use weir_process::clock::SystemClock;
use weir_process::failure::Failure;
use weir_process::terminal::{Paint, say, say_json};
use weir_rules::RuleSet;
use weir_tables::Clock;

use crate::client::{Client, unreachable_weir};
use crate::rules::args::{ReplayArgs, ReplayFormat};
use crate::rules::{self, RuleUse};

/// Rows of one answer.
const ROWS: usize = 10_000;

/// Runs the command.
pub(crate) fn run(rules: &RuleSet, args: &ReplayArgs) -> Result<(), Failure> {
    let rule = rules::find(rules, &args.id, RuleUse::Replay)?;
    let client = args.weir.client()?;
    let now = SystemClock.now();
    let mut walk = ReplayWalk::new(rule, |sql: &str| ask(&client, sql));
    let report = walk.report(now - args.since, now, args.step)?;
    match args.format {
        ReplayFormat::Text => say(&report.text(Paint::for_stdout())),
        ReplayFormat::Json => say_json(&report.json().to_string()),
    }
    Ok(())
}

fn ask(client: &Client, sql: &str) -> Result<Vec<RecordBatch>, Failure> {
    let body = json!({"sql": sql, "limit": ROWS}).to_string();
    let answer = client
        .post("/api/sql?format=json", body.as_bytes())
        .map_err(|error| unreachable_weir(client, &error))?;
    if answer.status != 200 {
        return Err(answer.failure());
    }
    let answer: Value =
        serde_json::from_slice(&answer.body).map_err(|error| wrong_answer(&error))?;
    Ok(batch(&answer).map_err(|error| wrong_answer(&error))?.into_iter().collect())
}

fn wrong_answer(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("cannot read the answer: {error}")).hint("is it a weir?")
}
