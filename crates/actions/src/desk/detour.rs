//! Messages about a receiver that accepts none: they go elsewhere.
//!
//! The rule `notify.failing` finds such a receiver by the rows of `notice`. Its page would be lost on
//! the path that it reports, so each recipient's next contact takes it, then everyone, then any other
//! receiver.

use std::collections::BTreeSet;

use weir_tables::Micros;

use super::Desk;
use crate::roster::{Recipient, add};
use crate::{Finding, Urgency};

/// The rule of a receiver that accepts no messages; its key has the column `receiver`.
const FAILING_RULE: &str = "notify.failing";
const REASON: &str = "the usual receiver does not accept messages";

impl Desk {
    /// Notes the receivers that fail at this tick.
    pub(super) fn note_failing(&mut self, firing: &[Finding]) {
        let failing = firing.iter().filter(|finding| is_about_receiver(&finding.rule));
        self.failing = failing.filter_map(failing_receiver).collect();
    }

    /// The recipients of a message, without failing receivers if it is about one of them. When every
    /// receiver fails, the recipients stay as they are.
    pub(super) fn detour(
        &self,
        now: Micros,
        id: &str,
        class: Urgency,
        recipients: Vec<Recipient>,
    ) -> Vec<Recipient> {
        let rule = self.incidents.get(id).map(|incident| incident.root.rule.as_str());
        if !rule.is_some_and(is_about_receiver) {
            return recipients;
        }
        let of_everyone = |contacts| {
            let everyone = self.roster.recipients("everyone", contacts, now);
            everyone.into_iter().map(|it| Recipient { class, reason: REASON.to_owned(), ..it })
        };
        let others =
            self.roster.receivers().flat_map(|name| self.roster.recipients(name, class, now));
        let candidates = [
            without(&self.failing, recipients.iter().cloned()),
            without(&self.failing, of_everyone(class)),
            without(&self.failing, of_everyone(Urgency::Page)),
            without(&self.failing, others),
        ];
        candidates.into_iter().find(|found| !found.is_empty()).unwrap_or(recipients)
    }
}

/// Whether findings of a rule are about a receiver. Each is a separate incident: the second
/// receiver that fails may be the one that reported the first.
pub(super) fn is_about_receiver(rule: &str) -> bool {
    rule == FAILING_RULE
}

fn failing_receiver(finding: &Finding) -> Option<String> {
    let key: serde_json::Value = serde_json::from_str(&finding.key).ok()?;
    Some(key.get("receiver")?.as_str()?.to_owned())
}

/// Recipients by their first contact whose receiver does not fail.
fn without(
    failing: &BTreeSet<String>,
    recipients: impl Iterator<Item = Recipient>,
) -> Vec<Recipient> {
    let mut found = Vec::new();
    for recipient in recipients {
        let first = (recipient.receiver.clone(), recipient.address.clone());
        let mut contacts = std::iter::once(first).chain(recipient.fallbacks.iter().cloned());
        let Some((receiver, address)) = contacts.find(|(receiver, _)| !failing.contains(receiver))
        else {
            continue;
        };
        let fallbacks = contacts.filter(|(receiver, _)| !failing.contains(receiver)).collect();
        add(&mut found, Recipient { receiver, address, fallbacks, ..recipient });
    }
    found
}
