//! `weir notify`: check the configuration of notices, and send a test.

pub(crate) mod args;

use std::io::Read as _;
use std::path::Path;

use serde_json::{Value, json};
use weir_config::{Config, Values};
use weir_hub::notices::{
    NoticeTest, ReceiverProbe, check, preview, probe, template_errors, test_directly,
};
use weir_process::failure::Failure;
use weir_process::terminal::say;

use crate::client::{Client, unreachable_weir};
use crate::notify::args::NotifyAction;

/// The exit status when something is wrong.
const EXIT_WRONG: u8 = 1;

/// Longest mail that is read: more than the hub takes, so that it refuses it.
const MAIL_BYTES_MAX: u64 = 1_100_000;

/// Runs the command, with `config` or the first of the usual files.
pub(crate) fn run(action: &NotifyAction, config: Option<&Path>) -> Result<(), Failure> {
    if let NotifyAction::Reply { weir } = action {
        return replied(&weir.client()?);
    }
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
        NotifyAction::Preview { kind, receiver } => {
            for error in template_errors(values) {
                say(&format!("warning: {error}"));
            }
            say(preview(values, kind, receiver.as_deref())?.trim_end());
            Ok(())
        }
        NotifyAction::Reply { weir } => replied(&weir.client()?),
    }
}

/// Takes a mail from standard input. What is no answer is only reported, since a mail server returns
/// a mail whose program fails.
fn replied(client: &Client) -> Result<(), Failure> {
    let mut mail = Vec::new();
    let read = std::io::stdin().lock().take(MAIL_BYTES_MAX).read_to_end(&mut mail);
    read.map_err(|error| Failure::new(format!("cannot read the mail: {error}")))?;
    // The words that count are ASCII.
    let body = json!({"mail": String::from_utf8_lossy(&mail)});
    match client.post("/api/notify/reply", body.to_string().as_bytes()) {
        // A mail that is no answer, or one to what is over.
        Ok(response) if [400, 404].contains(&response.status) => {
            say(&response.failure().to_string());
            Ok(())
        }
        Ok(response) => {
            let answer = response.json()?;
            let word = |name: &str| answer[name].as_str().unwrap_or_default();
            say(&format!("{}: {}", word("incident_id"), word("change")));
            Ok(())
        }
        Err(error) => Err(unreachable_weir(client, &error)),
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
