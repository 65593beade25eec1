//! `weir findings`: list them, and say whether they were real.

pub(crate) mod args;

use std::time::Duration;

use serde_json::{Value, json};
use weir_process::failure::Failure;
use weir_process::terminal::{Paint, say};

use crate::client::Client;
use crate::findings::args::{FindingsAction, FindingsArgs};
use crate::id_prefix::{IdList, whole_id};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Letters of an id that are shown.
const SHOWN: usize = 12;

/// Runs the command.
pub(crate) fn run(args: &FindingsArgs) -> Result<(), Failure> {
    let client = args.weir.client()?;
    match &args.action {
        None => list(&client, args.all),
        Some(FindingsAction::Judge { id, verdict, did }) => {
            let id = {
                let rows = findings(&client, "all")?;
                let list = IdList {
                    rows: &rows,
                    field: "finding_id",
                    noun: "finding",
                    lists: "weir findings --all",
                };
                whole_id(&list, id, "judge")?
            };
            let mut body = json!({"verdict": verdict.as_str()});
            if let Some(did) = did {
                body["action"] = did.as_str().into();
            }
            let answer = client.post_json(&format!("/api/findings/{id}/judgement"), &body)?;
            let rule = answer["rule"].as_str().unwrap_or_default();
            let mut out = format!("{id} of {rule} was judged {}", verdict.as_str());
            if count(&answer, "judged") > 0 {
                out += &format!(
                    "; {} of its last {} were real",
                    count(&answer, "real"),
                    count(&answer, "judged")
                );
            }
            if answer["may_page"] == false {
                out += ", so it pages no more";
            }
            say(&out);
            Ok(())
        }
    }
}

fn count(answer: &Value, name: &str) -> u64 {
    answer[name].as_u64().unwrap_or_default()
}

fn findings(client: &Client, state: &str) -> Result<Vec<Value>, Failure> {
    let mut answer =
        client.get_json(&format!("/api/findings?state={state}&limit=10000"), TIMEOUT)?;
    match answer["findings"].take() {
        Value::Array(findings) => Ok(findings),
        _ => Ok(Vec::new()),
    }
}

fn list(client: &Client, is_all: bool) -> Result<(), Failure> {
    let paint = Paint::for_stdout();
    let findings = findings(client, if is_all { "all" } else { "open" })?;
    for finding in &findings {
        let word = |name: &str| finding[name].as_str().unwrap_or_default();
        let id: String = word("finding_id").chars().take(SHOWN).collect();
        let class = paint.of_class(word("class")).paint(&format!("{:<4}", word("class")));
        say(&format!("{id}  {class}  {:<8}  {}: {}", word("state"), word("rule"), word("summary")));
    }
    if findings.is_empty() {
        say("no open findings (--all includes resolved ones)");
    }
    Ok(())
}
