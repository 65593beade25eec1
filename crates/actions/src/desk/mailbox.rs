//! Mails to one mailbox of a person: 20 an hour, then one digest at the end of the hour.
//!
//! Only the times are decided here. What is due at one time goes out as one message: see
//! [`digest`](crate::digest).
//!
//! ```text
//! 07:00 … 07:20  20 messages        07:21 … 07:59  held until 08:00        08:00  one digest
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_tables::Micros;

use super::{Desk, MAILBOX};
use crate::civil_time::{DAY, MINUTE};
use crate::decisions::KeptDocument;
use crate::identity::long_id;
use crate::roster::Recipient;

/// Messages that a mailbox gets within [`WINDOW_US`].
const MESSAGES_MAX: usize = 20;
const WINDOW_US: i64 = 60 * MINUTE;
/// Quiet hours end within this time.
const AHEAD_US: i64 = 8 * DAY;

/// When a mailbox gets mails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct MailboxRecord {
    /// Times of the last messages, in order; mails of one time are one message.
    times_us: Vec<i64>,
    /// The time of the digest that collects now.
    digest_us: Option<i64>,
}

impl MailboxRecord {
    /// When a mail that is ready at a time goes out; `awake` moves a time to the end of quiet hours.
    fn book(&mut self, ready_us: i64, awake: impl Fn(i64) -> i64) -> i64 {
        // Also when the clock was set back: the times of the future are over an hour away at most.
        self.times_us.retain(|at| (ready_us - at).abs() < WINDOW_US);
        let is_collecting = |digest_us: &i64| (ready_us..=ready_us + WINDOW_US).contains(digest_us);
        if let Some(digest_us) = self.digest_us.filter(is_collecting) {
            return digest_us;
        }
        self.digest_us = None;
        if self.times_us.contains(&ready_us) {
            return ready_us;
        }
        let mut due_us = ready_us;
        if self.times_us.len() >= MESSAGES_MAX {
            let first_us = self.times_us.iter().copied().min().unwrap_or(ready_us);
            due_us = awake((first_us + WINDOW_US).clamp(ready_us, ready_us + WINDOW_US));
            self.digest_us = Some(due_us);
        }
        self.times_us.push(due_us);
        due_us
    }
}

/// The mailboxes that got mails within the last hour, by a hash of receiver and address.
#[derive(Clone, Debug, Default)]
pub(super) struct MailboxBook {
    records: BTreeMap<String, MailboxRecord>,
}

impl MailboxBook {
    pub(super) fn read(&mut self, [key, body]: [&str; 2]) -> Result<(), serde_json::Error> {
        self.records.insert(key.to_owned(), serde_json::from_str(body)?);
        Ok(())
    }
}

impl Desk {
    /// When a mail that is ready at a time goes out to a person's mailbox. Other receivers have no
    /// limit: a program that opens and closes alerts must not wait.
    pub(super) fn book_mail(&mut self, recipient: &Recipient, ready: Micros) -> Micros {
        if recipient.person.is_none() {
            return ready;
        }
        let address = recipient.address.as_deref().unwrap_or("\0");
        let key = long_id(&["mailbox", &recipient.receiver, address]);
        let (roster, person) = (&self.roster, recipient.person.as_deref());
        let awake = |at_us| roster.quiet_until(person, Micros(at_us)).map_or(at_us, |end| end.0);
        let record = self.mailboxes.records.entry(key.clone()).or_default();
        let due = Micros(record.book(ready.0, awake));
        self.changed_mailboxes.insert(key);
        due
    }

    /// Deletes mailboxes that got nothing for an hour.
    pub(super) fn forget_mailboxes(&mut self, now: Micros) {
        // A time far ahead is of a clock that was set back.
        let is_idle = |record: &MailboxRecord| {
            let last = record.times_us.iter().max();
            last.is_none_or(|last| !(-AHEAD_US..WINDOW_US).contains(&(now.0 - last)))
        };
        let idle = self.mailboxes.records.iter().filter(|(_, record)| is_idle(record));
        let idle: Vec<String> = idle.map(|(key, _)| key.clone()).collect();
        for key in idle {
            self.mailboxes.records.remove(&key);
            self.changed_mailboxes.insert(key);
        }
    }

    /// Keeps the mailboxes that changed.
    pub(super) fn keep_mailboxes(&mut self) {
        for key in std::mem::take(&mut self.changed_mailboxes) {
            let body =
                self.mailboxes.records.get(&key).map(|record| {
                    serde_json::to_string(record).expect("a mailbox has only numbers")
                });
            self.out.documents.push(KeptDocument { kind: MAILBOX, key, body });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(at_us: i64) -> i64 {
        at_us
    }

    #[test]
    fn mails_of_one_time_are_one_message_and_the_21st_waits_for_the_end_of_the_hour() {
        let mut mailbox = MailboxRecord::default();
        for minute in 0..20 {
            for _ in 0..50 {
                assert_eq!(mailbox.book(minute * MINUTE, same), minute * MINUTE);
            }
        }
        for minute in 20..60 {
            assert_eq!(mailbox.book(minute * MINUTE, same), WINDOW_US, "minute {minute}");
        }
        // The digest counts as one, and the first of the hour is over.
        for later in [0, 1, 2] {
            let ready_us = WINDOW_US + later * MINUTE;
            assert_eq!(mailbox.book(ready_us, same), ready_us);
        }
    }

    #[test]
    fn clock_that_is_set_back_holds_a_mail_for_an_hour_at_most() {
        let mut mailbox = MailboxRecord::default();
        for minute in 0..60 {
            mailbox.book(600 * MINUTE + minute * MINUTE, same);
        }
        for ready_us in [0, 100 * MINUTE, 590 * MINUTE] {
            let due_us = mailbox.clone().book(ready_us, same);
            assert!((ready_us..=ready_us + WINDOW_US).contains(&due_us), "{ready_us}: {due_us}");
        }
    }
}
