//! `weir notify`: check the configuration of notices, and send a test.

pub(crate) mod args;

use std::path::Path;

use serde_json::{Value, json};
use weir_config::{Config, Values};
use weir_hub::notices::{NoticeTest, ReceiverProbe, check, probe, test_directly};
use weir_process::failure::Failure;
use weir_process::terminal::say;

use crate::client::{Client, unreachable_weir};
use crate::notify::args::NotifyAction;

/// The exit status when something is wrong.
const EXIT_WRONG: u8 = 1;

/// Runs the command, with `config` or the first of the usual files.
pub(crate) fn run(action: &NotifyAction, config: Option<&Path>) -> Result<(), Failure> {
    let config = Config::of_process(config, None).map_err(|failure| failure.code(EXIT_WRONG))?;
    let values = &config.values;
    match action {
        NotifyAction::Check { offline } => checked(values, *offline),
        NotifyAction::Test { receiver, person, weir } => {
            let test = match (receiver, person) {
                (Some(name), _) => NoticeTest::Receiver(name.clone()),
                (None, person) => NoticeTest::Person(person.clone().unwrap_or_default()),
            };
            tested(&weir.client()?, weir.is_named(), values, &test)
        }
    }
}

fn checked(values: &Values, is_offline: bool) -> Result<(), Failure> {
    let report = check(values);
    for warning in &report.warnings {
        say(&format!("warning: {warning}"));
    }
    let mut errors = report.errors;
    if errors.is_empty() && !is_offline {
        for ReceiverProbe { receiver, found } in probe(values)? {
            match found {
                Ok(found) => say(&format!("{receiver}: {found}")),
                Err(why) => errors.push(format!("receiver `{receiver}`: {why}")),
            }
        }
    }
    if errors.is_empty() {
        say(&report.summary);
        return Ok(());
    }
    Err(Failure::new(errors.join("\n")).code(EXIT_WRONG))
}

fn tested(
    client: &Client,
    is_named: bool,
    values: &Values,
    test: &NoticeTest,
) -> Result<(), Failure> {
    let body = match test {
        NoticeTest::Receiver(name) => json!({"receiver": name}),
        NoticeTest::Person(name) => json!({"person": name}),
    };
    match client.post("/api/notify/test", body.to_string().as_bytes()) {
        Ok(response) => shown(response.json()?.get("notices")),
        Err(error) if error.is_refused() && !is_named => {
            say("no weir is running here: this command sends the test");
            shown(Some(&test_directly(values, test)?))
        }
        Err(error) => Err(unreachable_weir(client, &error)),
    }
}

/// Prints what each receiver answered; a failure if one did not take the test.
fn shown(notices: Option<&Value>) -> Result<(), Failure> {
    let notices = notices.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut failed = Vec::new();
    for notice in notices {
        let word = |name: &str| notice[name].as_str().unwrap_or_default();
        let line = format!("{}: {}: {}", word("receiver"), word("state"), word("answer"));
        if word("state") == "sent" { say(&line) } else { failed.push(line) }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("cannot send the test: {}", failed.join("; "))).code(EXIT_WRONG))
}
