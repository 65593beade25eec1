//! `weir incidents`: list them, acknowledge, resolve and silence them.

pub(crate) mod args;

use std::time::Duration;

use serde_json::{Value, json};
use weir_process::failure::Failure;
use weir_process::terminal::{Paint, say, say_json};

use crate::client::Client;
use crate::findings::args::VerdictArg;
use crate::id_prefix::{IdList, whole_id};
use crate::incidents::args::{IncidentsAction, IncidentsArgs, ListFormat};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the command.
pub(crate) fn run(args: &IncidentsArgs) -> Result<(), Failure> {
    let client = args.weir.client()?;
    match &args.action {
        None => list(&client, args),
        Some(IncidentsAction::Ack { id, by }) => change(&client, id, "ack", &json!({"by": by})),
        Some(IncidentsAction::Resolve { id, by, judgement, did }) => {
            let verdict = judgement.map(VerdictArg::as_str);
            let body = json!({"by": by, "judgement": verdict, "did": did});
            change(&client, id, "resolve", &body)
        }
        Some(IncidentsAction::Judge { id, verdict, did, by }) => {
            let id = of_prefix(&client, id, "judge")?;
            let body = json!({"verdict": verdict.as_str(), "action": did, "by": by});
            let answer = client.post_json(&format!("/api/incidents/{id}/judgement"), &body)?;
            let rule = answer["rule"].as_str().unwrap_or_default();
            say(&format!(
                "{id}: judged, {} of {} of `{rule}` were real",
                answer["real"], answer["judged"]
            ));
            Ok(())
        }
        Some(IncidentsAction::Silence { rule, host, duration, reason, by }) => {
            let body = json!({
                "rule": rule, "host": host, "for": duration, "reason": reason, "by": by,
            });
            let answer = client.post_json("/api/silences", &body)?;
            let word = |name: &str| answer[name].as_str().unwrap_or_default();
            say(&format!("silence {} until {}", word("id"), word("until")));
            Ok(())
        }
    }
}

fn change(client: &Client, id: &str, action: &'static str, body: &Value) -> Result<(), Failure> {
    let id = of_prefix(client, id, action)?;
    let answer = client.post_json(&format!("/api/incidents/{id}/{action}"), body)?;
    say(&format!("{id}: {}", answer["change"].as_str().unwrap_or("done")));
    Ok(())
}

fn incidents(client: &Client, state: &str) -> Result<Vec<Value>, Failure> {
    let mut answer = client.get_json(&format!("/api/incidents?state={state}"), TIMEOUT)?;
    match answer["incidents"].take() {
        Value::Array(incidents) => Ok(incidents),
        _ => Ok(Vec::new()),
    }
}

fn list(client: &Client, args: &IncidentsArgs) -> Result<(), Failure> {
    let incidents = incidents(client, if args.all { "all" } else { "open" })?;
    if args.format == ListFormat::Json {
        say_json(&serde_json::to_string_pretty(&incidents).expect("rows become JSON"));
        return Ok(());
    }
    let paint = Paint::for_stdout();
    for incident in &incidents {
        let word = |name: &str| incident[name].as_str().unwrap_or_default();
        let class = paint.of_class(word("class")).paint(&format!("{:<4}", word("class")));
        let acked = match word("acked_by") {
            "" => String::new(),
            name => format!(" (acknowledged by {name})"),
        };
        let (id, state, title) = (word("incident_id"), word("state"), word("title"));
        say(&format!("{id:<12}  {class}  {state:<8}  {title}{acked}"));
    }
    if incidents.is_empty() {
        let more = if args.all { "" } else { " (--all includes resolved ones)" };
        say(&format!("no open incidents{more}"));
    }
    Ok(())
}

fn of_prefix(client: &Client, id: &str, verb: &'static str) -> Result<String, Failure> {
    let rows = incidents(client, "all")?;
    let list = IdList {
        rows: &rows,
        field: "incident_id",
        noun: "incident",
        lists: "weir incidents --all",
    };
    whole_id(&list, id, verb)
}
