//! `weir notify check` and `test`: the configuration of notices without a running hub.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use weir_actions::{Desk, PolicyProblem, test_end};
use weir_config::Values;
use weir_notify::{Message, Receiver};
use weir_process::clock::SystemClock;
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_tables::Clock;

use super::{NoticeTest, policy, templates};

/// How long a receiver may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// What the configuration of notices is worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoticeReport {
    /// What cannot work.
    pub errors: Vec<String>,
    /// What is probably not meant.
    pub warnings: Vec<String>,
    /// One line about what is configured.
    pub summary: String,
}

/// A receiver, and what was found there or what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverProbe {
    /// The receiver's name.
    pub receiver: String,
    /// What a message would meet now.
    pub found: Result<String, String>,
}

/// Checks people, receivers, rotas, routes and windows, and reads the secrets; connects to nothing.
pub fn check(values: &Values) -> NoticeReport {
    let mut report = NoticeReport { summary: summary(values), ..NoticeReport::default() };
    for entry in &values.notices.receivers {
        if let Err(failure) = policy::receiver(entry) {
            report.errors.push(failure.to_string());
        }
    }
    match problems(values) {
        Ok(problems) => {
            for problem in problems {
                let text = policy::failure(values, &problem).to_string();
                if problem.is_error { report.errors.push(text) } else { report.warnings.push(text) }
            }
        }
        Err(failure) => report.errors.push(failure.to_string()),
    }
    report.errors.extend(wrong_report_target(values));
    report.errors.extend(templates::errors(values));
    if values.notices.receivers.is_empty() {
        report.warnings.push("no receiver is configured: incidents are only listed".to_owned());
    }
    report
}

/// Refuses a configuration of notices that cannot work; reads no secrets.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn refuse(values: &Values) -> Result<(), Failure> {
    let first = problems(values)?.into_iter().find(|problem| problem.is_error);
    first.map_or(Ok(()), |problem| Err(policy::failure(values, &problem).code(EXIT_CONFIG)))
}

fn problems(values: &Values) -> Result<Vec<PolicyProblem>, Failure> {
    Ok(weir_actions::check(&policy::policy(values)?, SystemClock.now()))
}

/// An error of `notify.report_to`.
fn wrong_report_target(values: &Values) -> Option<String> {
    let target = values.notify.report_to.as_str();
    let entries = &values.notices;
    let (lists, name) = match target.strip_prefix("rota:") {
        Some(rota) => (vec![&entries.rotas], rota),
        None => (vec![&entries.people, &entries.receivers], target),
    };
    let mut names = lists.into_iter().flatten().filter_map(|entry| entry.text("name"));
    let is_known = ["", "everyone"].contains(&target) || names.any(|known| known == name);
    (!is_known).then(|| {
        format!(
            "cannot use `notify.report_to`: there is no `{target}`\n\
             hint: write everyone, a person, a receiver or rota:NAME"
        )
    })
}

fn summary(values: &Values) -> String {
    let entries = &values.notices;
    let counted = |count: usize, one: &str, many: &str| {
        format!("{count} {}", if count == 1 { one } else { many })
    };
    [
        counted(entries.receivers.len(), "receiver", "receivers"),
        counted(entries.people.len(), "person", "people"),
        counted(entries.rotas.len(), "rota", "rotas"),
        counted(entries.routes.len(), "route", "routes"),
        counted(entries.windows.len(), "window", "windows"),
    ]
    .join(", ")
}

/// Logs in to every receiver without sending anything.
///
/// # Errors
/// A receiver that cannot be set up.
pub fn probe(values: &Values) -> Result<Vec<ReceiverProbe>, Failure> {
    let receivers = policy::receivers(values)?;
    runtime()?.block_on(async {
        let mut outcomes = Vec::new();
        for (name, receiver) in receivers {
            let found = tokio::time::timeout(TIMEOUT, receiver.probe()).await;
            let found = match found {
                Ok(found) => found.map_err(|error| error.to_string()),
                Err(_) => Err("no answer within 15 s".to_owned()),
            };
            outcomes.push(ReceiverProbe { receiver: name, found });
        }
        Ok(outcomes)
    })
}

/// Sends a test from this process; the receivers' answers, as the API gives them.
///
/// # Errors
/// A receiver or person that does not exist or cannot be set up.
pub fn test_directly(values: &Values, test: &NoticeTest) -> Result<Value, Failure> {
    let receivers = policy::receivers(values)?;
    let templates = templates::set(values);
    let now = SystemClock.now();
    let tests = Desk::new(policy::policy(values)?)
        .test_notice(now, &test.target())
        .map_err(|error| Failure::new(error.message).hint(error.hint))?;
    runtime()?.block_on(async {
        let mut answers = Vec::new();
        for notice in tests {
            let name = notice.receiver.clone();
            let message = Message {
                is_repeat: false,
                thread: None,
                page_url: values.notify.public_url.trim_end_matches('/').to_owned(),
                now_us: now.0,
                act_link: None,
                templates: templates.clone(),
                notice,
            };
            let (state, answer) = match receivers.get(&name) {
                Some(receiver) => sent_and_ended(receiver, &message).await,
                None => ("failed", format!("there is no receiver `{name}`")),
            };
            answers.push(json!({"receiver": name, "state": state, "answer": answer}));
        }
        Ok(answers.into())
    })
}

/// Sends a test; where it opened an alert, its end as well.
async fn sent_and_ended(receiver: &Arc<dyn Receiver>, message: &Message) -> (&'static str, String) {
    let (state, answer) = sent(receiver, message).await;
    if state != "sent" || receiver.is_read_by_people() {
        return (state, answer);
    }
    let end = Message { notice: test_end(&message.notice), ..message.clone() };
    match sent(receiver, &end).await {
        ("sent", _) => (state, answer),
        (_, why) => (state, format!("{answer}; cannot close the test's alert: {why}")),
    }
}

async fn sent(receiver: &Arc<dyn Receiver>, message: &Message) -> (&'static str, String) {
    match tokio::time::timeout(TIMEOUT, receiver.send(message)).await {
        Ok(Ok(accepted)) => ("sent", accepted.answer),
        Ok(Err(error)) => ("failed", error.to_string()),
        Err(_) => ("failed", "no answer within 15 s".to_owned()),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))
}
