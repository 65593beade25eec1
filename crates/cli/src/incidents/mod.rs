//! `weir incidents`: list them, acknowledge, resolve and silence them.

pub(crate) mod args;

use std::time::Duration;

use serde_json::{Value, json};
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::{Paint, say, say_json};

use crate::client::Client;
use crate::findings::args::VerdictArg;
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
            let id = whole_id(&client, id, "judge")?;
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

fn change(client: &Client, id: &str, action: &str, body: &Value) -> Result<(), Failure> {
    let id = whole_id(client, id, action)?;
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

/// The id that begins with these letters.
fn whole_id(client: &Client, id: &str, action: &str) -> Result<String, Failure> {
    let all = incidents(client, "all")?;
    let ids = all.iter().filter_map(|incident| incident["incident_id"].as_str());
    let mut fitting = ids
        .filter(|known| known.get(..id.len()).is_some_and(|start| start.eq_ignore_ascii_case(id)));
    let (why, hint) = match (fitting.next(), fitting.next()) {
        (Some(one), None) => return Ok(one.to_owned()),
        (Some(_), Some(_)) => ("more than one incident has this prefix", "write more of its id"),
        (None, _) => ("there is no such incident", "`weir incidents --all` lists them"),
    };
    Err(Failure::new(format!("cannot {action} `{id}`: {why}")).hint(hint).code(EXIT_USAGE))
}
