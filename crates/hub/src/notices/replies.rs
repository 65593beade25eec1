//! Answers of people in a receiver's app and by mail: who gave them, and what they change.
//!
//! Each receiver with a way back has a task, which reads only while an incident is open there that
//! is not acknowledged. Its cursor is in the ledger, so that no answer counts twice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use weir_actions::{Notice, Person};
use weir_ledger::{Change, LedgerError};
use weir_notify::mail_reply::parse_mail_reply;
use weir_notify::outbox::{NOTICE_KIND, NoticeRecord};
use weir_notify::{Reply, ReplyAction, ReplyRequest, ReplySource};

use super::error::{NoticeError, NoticeErrorKind};
use super::{Notices, blocking};

/// Kind of the cursors' documents.
const CURSOR: &str = "reply_cursor";
/// Pause between two readings.
const BETWEEN: Duration = Duration::from_millis(500);
/// Pause while nothing is open.
const IDLE: Duration = Duration::from_secs(1);
/// Pause after a reading that failed.
const FAILED: Duration = Duration::from_secs(15);

/// Starts a task for each receiver whose answers can be read.
pub(super) fn start(notices: &Arc<Notices>) -> Vec<JoinHandle<()>> {
    let names = notices.policy.receivers.iter();
    let with_replies = names.filter(|name| {
        notices.outbox.receiver(name).is_some_and(|receiver| receiver.replies().is_some())
    });
    let tasks =
        with_replies.map(|name| tokio::spawn(read_always(Arc::clone(notices), name.clone())));
    tasks.collect()
}

async fn read_always(notices: Arc<Notices>, name: String) {
    let Some(receiver) = notices.outbox.receiver(&name).cloned() else { return };
    let Some(source) = receiver.replies() else { return };
    loop {
        let pause = match notices.read_replies(&name, source).await {
            Ok(pause) => pause,
            Err(why) => {
                tracing::warn!("cannot read the answers of receiver `{name}`: {why}");
                FAILED
            }
        };
        tokio::time::sleep(pause).await;
    }
}

impl Notices {
    /// Reads answers once and does what they say; the pause before the next time.
    async fn read_replies(&self, name: &str, source: &dyn ReplySource) -> Result<Duration, String> {
        let text = |error: LedgerError| error.to_string();
        if !self.store.is_leader() {
            return Ok(IDLE);
        }
        let (outbox, receiver) = (Arc::clone(&self.outbox), name.to_owned());
        let sent = blocking(move || outbox.answerable(&receiver)).await.map_err(text)?;
        if sent.is_empty() {
            return Ok(IDLE);
        }
        let key = name.to_owned();
        let kept = self.with_ledger(move |ledger| ledger.get(CURSOR, &key)).await.map_err(text)?;
        let cursor = kept.as_ref().map(|document| document.body.clone());
        let request = ReplyRequest { cursor: cursor.clone(), sent, now_us: self.clock.now().0 };
        let batch = source.read(&request).await.map_err(|error| error.message)?;
        for reply in &batch.replies {
            let done = self.take_reply(name, reply).await;
            if let Err(error) = source.answer(reply, &done).await {
                tracing::debug!("cannot show what became of an answer: {error}");
            }
        }
        if let Some(body) = batch.cursor.filter(|new| Some(new) != cursor.as_ref()) {
            let expected = kept.map_or(0, |document| document.version);
            let (kind, key, body) = (CURSOR.to_owned(), name.to_owned(), Some((body, None)));
            let change = Change { kind, key, expected, body };
            self.with_ledger(move |ledger| ledger.apply(&[change])).await.map_err(text)?;
        }
        Ok(BETWEEN)
    }

    /// Does what an answer says; the outcome for the person.
    async fn take_reply(&self, receiver: &str, reply: &Reply) -> String {
        let by = person_of(&self.policy.people, receiver, reply);
        let done = self.act(&reply.incident, reply.action, &by).await;
        done.unwrap_or_else(|error| error.message)
    }

    /// Acknowledges or resolves; what changed.
    pub(crate) async fn act(
        &self,
        incident: &str,
        action: ReplyAction,
        by: &str,
    ) -> Result<String, NoticeError> {
        match action {
            ReplyAction::Acknowledge => self.acknowledge(incident, by).await,
            ReplyAction::Resolve => self.resolve(incident, by).await,
        }
    }

    /// Does what a mail says that answers one of ours; what changed.
    pub(crate) async fn mail_reply(&self, mail: Vec<u8>) -> Result<Value, NoticeError> {
        let reply = parse_mail_reply(&mail).map_err(|why| NoticeError {
            kind: NoticeErrorKind::Bad,
            message: format!("cannot take the mail as an answer: {why}"),
            hint: "answer a page with `ack` or `resolve` as the first word".to_owned(),
        })?;
        let ids = reply.notice_ids.clone();
        let found = self.with_ledger(move |ledger| {
            for id in &ids {
                if let Some(document) = ledger.get(NOTICE_KIND, id)? {
                    return Ok(NoticeRecord::parse(&document));
                }
            }
            Ok(None)
        });
        let Some(record) = found.await? else {
            return Err(NoticeError {
                kind: NoticeErrorKind::Unknown,
                message: "cannot take the mail as an answer: weir sent no such mail".to_owned(),
                hint: "it may be older than 30 days, or of another weir".to_owned(),
            });
        };
        let by = self.mail_sender(&record.notice, &reply.from).ok_or_else(|| NoticeError {
            kind: NoticeErrorKind::Bad,
            message: format!("cannot take the mail as an answer: `{}` got no mail", reply.from),
            hint: "answer from the address in `[[people]]` or `to` of the receiver".to_owned(),
        })?;
        let incident = record.notice.incident.id;
        let change = self.act(&incident, reply.action, &by).await?;
        Ok(json!({"incident_id": incident, "change": change}))
    }

    /// The sender of a mail: a person of the configuration, or the mailbox that the notice went to.
    fn mail_sender(&self, notice: &Notice, from: &str) -> Option<String> {
        let has_address = |person: &&Person| {
            let contacts = person.page.iter().chain(&person.mail);
            contacts.filter_map(|contact| contact.address.as_deref()).any(|it| is_mailbox(it, from))
        };
        if let Some(person) = self.policy.people.iter().find(has_address) {
            return Some(person.name.clone());
        }
        let own = self.mailboxes.get(&notice.receiver).map(String::as_str);
        let addresses = notice.address.as_deref().into_iter().chain(own);
        addresses.into_iter().any(|address| is_mailbox(address, from)).then(|| from.to_owned())
    }
}

/// Whether a mailbox has this address: `Ada <ada@example.net>`.
fn is_mailbox(mailbox: &str, address: &str) -> bool {
    let bare = mailbox.rsplit_once('<').map_or(mailbox, |(_, rest)| rest.trim_end_matches('>'));
    bare.trim().eq_ignore_ascii_case(address)
}

/// The person that answered: the one whose contact it came from, else the name that the receiver has.
fn person_of(people: &[Person], receiver: &str, reply: &Reply) -> String {
    let is_from = |person: &&Person| {
        let mut contacts = person.page.iter().chain(&person.mail);
        contacts.any(|contact| {
            contact.receiver == receiver
                && contact.address.is_some()
                && contact.address == reply.address
        })
    };
    if let Some(person) = people.iter().find(is_from) {
        return person.name.clone();
    }
    let name = reply.name.trim();
    let is_person = people.iter().any(|person| person.name == name);
    if is_person {
        return name.to_owned();
    }
    let users: Vec<&Person> = people
        .iter()
        .filter(|person| {
            person.page.iter().chain(&person.mail).any(|contact| contact.receiver == receiver)
        })
        .collect();
    match (name, users.as_slice()) {
        ("", [only]) => only.name.clone(),
        ("", _) => receiver.to_owned(),
        (name, _) => format!("{} ({receiver})", name.chars().take(60).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use weir_actions::Contact;

    use super::*;

    fn person(name: &str, contact: &str) -> Person {
        let page: Vec<Contact> = vec![contact.parse().expect("a contact")];
        Person { name: name.to_owned(), page, ..Person::default() }
    }

    fn reply(name: &str, address: Option<&str>) -> Reply {
        let (name, address) = (name.to_owned(), address.map(str::to_owned));
        Reply { name, address, ..Reply::default() }
    }

    /// An answer counts for the person that pressed the button, not for the owner of the chat:
    /// bosun-monitor/bosun-grafana-app#11.
    #[test]
    fn answer_is_of_the_contact_it_came_from_or_of_the_name_it_has() {
        let people = [person("ada", "tg:17"), person("bo", "tg:18"), person("cy", "ntfy")];
        for (receiver, given, expected) in [
            ("tg", reply("ada_l", Some("17")), "ada"),
            ("tg", reply("bo", Some("-100")), "bo"),
            ("tg", reply("zed", Some("-100")), "zed (tg)"),
            ("tg", reply("", None), "tg"),
            ("ntfy", reply("", None), "cy"),
            ("ntfy", reply("ada", None), "ada"),
            ("push", reply("", Some("17")), "push"),
        ] {
            assert_eq!(person_of(&people, receiver, &given), expected, "{given:?}");
        }
    }

    #[test]
    fn mailbox_is_compared_by_its_address() {
        assert!(is_mailbox("Ada <Ada@Example.net>", "ada@example.net"));
        assert!(is_mailbox("ada@example.net", "ada@example.net"));
        assert!(!is_mailbox("ada@example.net.evil", "ada@example.net"));
    }
}
