//! People, receivers, rotas, routes and windows, as the configuration has them.
//!
//! Everything is text here, so that [`check`](crate::check) can report each mistake; the desk
//! works with what can be read and sends to everybody where a name is wrong.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// The people and receivers that are notified, and when not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// People with their contacts.
    pub people: Vec<Person>,
    /// Names of the receivers.
    pub receivers: Vec<String>,
    /// Rotas: people who take turns.
    pub rotas: Vec<Rota>,
    /// Routes; the first that fits an incident's root applies.
    pub routes: Vec<Route>,
    /// Maintenance windows.
    pub windows: Vec<Window>,
    /// Times.
    pub settings: DeskSettings,
}

/// A person and how to reach them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Person {
    /// Name in rotas, routes and messages.
    pub name: String,
    /// Contacts for pages; the first is used, the others when it refuses for good or is away.
    pub page: Vec<Contact>,
    /// Contacts for mails, in the same way.
    pub mail: Vec<Contact>,
    /// Hours in which mails are held.
    pub quiet: Option<QuietHours>,
}

/// Hours of the week in which mails to a person are held.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuietHours {
    /// `22:00-07:00`, `sat-sun 00:00-24:00`.
    pub hours: Vec<String>,
    /// Time zone: `Europe/Berlin`.
    pub zone: String,
}

/// A receiver, and the address within it; written `RECEIVER` or `RECEIVER:ADDRESS`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contact {
    /// The receiver's name.
    pub receiver: String,
    /// A mailbox, a chat; the receiver's own address without one.
    pub address: Option<String>,
}

impl FromStr for Contact {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (receiver, address) = match text.split_once(':') {
            Some((receiver, address)) => (receiver, Some(address.trim().to_owned())),
            None => (text, None),
        };
        let address = address.filter(|address| !address.is_empty());
        Ok(Self { receiver: receiver.trim().to_owned(), address })
    }
}

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.receiver)?;
        match &self.address {
            Some(address) => write!(f, ":{address}"),
            None => Ok(()),
        }
    }
}

/// People who take turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rota {
    /// Name in targets: `rota:web`.
    pub name: String,
    /// People in the order of their shifts.
    pub people: Vec<String>,
    /// Time zone of `start`, `hours` and every hand-over.
    pub zone: String,
    /// Local date and time of the first shift: `2026-12-07T09:00`.
    pub start: String,
    /// Length of a shift on the clock on the wall: 7 days hand over at the same local time, also
    /// across daylight saving.
    pub shift_seconds: u64,
    /// Hours in which the rota is on call; always without any.
    pub hours: Vec<String>,
    /// Rota or person on call outside of `hours`.
    pub otherwise: Option<String>,
    /// Shifts that someone else takes.
    pub overrides: Vec<ShiftOverride>,
}

/// A time in which a person is on call instead of the rota.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShiftOverride {
    /// The person.
    pub person: String,
    /// Start: RFC 3339, or local time of the rota's zone.
    pub start: String,
    /// End, written as the start.
    pub end: String,
}

/// Which incidents notify whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Route {
    /// Patterns of the root's rule; all rules without any.
    pub rules: Vec<String>,
    /// Patterns of the root's host; all hosts without any.
    pub hosts: Vec<String>,
    /// Patterns of the root's tier; all tiers without any.
    pub tiers: Vec<String>,
    /// Patterns of the root's subject; all subjects without any.
    pub subjects: Vec<String>,
    /// Target of pages: `rota:web`, `rota:web+1`, `everyone`, a person or a receiver.
    pub page: String,
    /// Target of mails.
    pub mail: String,
    /// Targets of unacknowledged pages, in order.
    pub escalate: Vec<String>,
    /// Minutes before the next target; the desk's setting without it.
    pub ack_minutes: Option<u32>,
}

/// A time of planned work: notices wait for its end, findings do not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// Name in messages.
    pub name: String,
    /// Start and end: RFC 3339, or local time of the zone.
    pub once: Option<(String, String)>,
    /// Hours of each week: `sun 02:00-04:00`.
    pub weekly: Vec<String>,
    /// Time zone; UTC when empty.
    pub zone: String,
    /// Patterns of rules; all rules without any.
    pub rules: Vec<String>,
    /// Patterns of hosts; all hosts without any.
    pub hosts: Vec<String>,
}

/// Times of the desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeskSettings {
    /// Minutes before an unacknowledged page escalates.
    pub ack_minutes: u32,
    /// Minutes that an acknowledgement holds.
    pub ack_hold_minutes: u32,
    /// Seconds in which a mail collects findings.
    pub mail_gather_seconds: u32,
}

impl Default for DeskSettings {
    fn default() -> Self {
        Self { ack_minutes: 5, ack_hold_minutes: 60, mail_gather_seconds: 60 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contact_is_a_receiver_with_or_without_an_address() {
        for text in ["mail", "mail:ada@example.net", "chat:#ops:prod"] {
            let contact: Contact = text.parse().unwrap();
            assert_eq!(contact.to_string(), text);
        }
        let contact: Contact = "mail : ".parse().unwrap();
        assert_eq!(contact, Contact { receiver: "mail".to_owned(), address: None });
    }
}
