//! The state of incidents as messages, for receivers that drop what is not repeated.

use weir_tables::Micros;

use super::{Desk, HOLD_US};
use crate::identity::long_id;
use crate::incident::Incident;
use crate::{IncidentState, Notice, NoticeKind, Urgency};

impl Desk {
    /// The last message to everyone that was notified of an incident, with the figures of now: of open
    /// incidents, and of incidents resolved less than five minutes ago.
    ///
    /// Nothing of it is kept: it replaces no notice, and may be sent or not.
    pub fn standing(&self, now: Micros) -> Vec<Notice> {
        let mut notices = Vec::new();
        for incident in self.incidents.values() {
            let Some(kind) = standing_kind(incident, now) else { continue };
            let recipients = incident.notified.iter();
            notices.extend(recipients.map(|recipient| {
                let address = recipient.address.as_deref().unwrap_or("\0");
                Notice {
                    id: long_id(&["standing", &incident.id, &recipient.receiver, address]),
                    kind,
                    receiver: recipient.receiver.clone(),
                    address: recipient.address.clone(),
                    person: recipient.person.clone(),
                    fallbacks: Vec::new(),
                    due_us: now.0,
                    expires_us: now.0,
                    order: incident.step,
                    reason: recipient.reason.clone(),
                    change: if kind == NoticeKind::Resolved { "resolved" } else { "still open" }
                        .to_owned(),
                    on_call: Vec::new(),
                    incident: incident.summary(),
                }
            }));
        }
        notices
    }
}

/// What a message of now would be; `None` when there is nothing to repeat.
fn standing_kind(incident: &Incident, now: Micros) -> Option<NoticeKind> {
    match incident.state {
        IncidentState::Open => match incident.notified_class {
            Urgency::Page => Some(NoticeKind::Page),
            Urgency::Mail => Some(NoticeKind::Mail),
            Urgency::Note => None,
        },
        IncidentState::Resolved => {
            let age = now.0 - incident.resolved_us?;
            (incident.is_reported_over && age < HOLD_US).then_some(NoticeKind::Resolved)
        }
        IncidentState::Merged => None,
    }
}
