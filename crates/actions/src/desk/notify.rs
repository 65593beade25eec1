//! The people that are notified of an incident at a tick, and the message.
//!
//! Everything is by level: a class that was not sent yet is sent as soon as nothing mutes it.

use weir_tables::Micros;

use super::Desk;
use crate::civil_time::{DAY, MINUTE, SECOND};
use crate::decisions::IncidentEvent;
use crate::identity::long_id;
use crate::incident::{Escalation, HOLD_US, Incident, NOTIFIED_MAX, PendingMail};
use crate::policy::Route;
use crate::roster::{Recipient, add};
use crate::{Notice, NoticeKind, Urgency};

/// After this many rounds through the route's targets, pages come every half hour.
const ROUNDS: usize = 3;
const LATER_PAUSE_US: i64 = 30 * MINUTE;
/// Findings that come within this time of a message belong to what it reported.
const GROWTH_US: i64 = 60 * SECOND;
/// Findings that make an incident worse, beside doubling.
const GROWTH_MIN: usize = 3;
/// Root rules that are remembered; further changes of the root are not sent.
const ANNOUNCED_MAX: usize = 16;
/// A notice is given up after this time.
const EXPIRES_US: i64 = DAY;

/// The change of an incident that a person resolved and that opens for what is new in it.
const REOPENED: &str = "reopened: a new or worse finding";

/// A message before it has recipients' names.
#[derive(Clone, Debug)]
pub(super) struct OutgoingMessage {
    pub(super) kind: NoticeKind,
    pub(super) change: String,
    pub(super) recipients: Vec<Recipient>,
}

impl Desk {
    /// Sends what an incident owes at this tick.
    pub(super) fn notify(&mut self, now: Micros, id: &str) {
        let Some(incident) = self.incidents.get(id) else { return };
        if !incident.is_open() {
            return;
        }
        self.expire_ack(now, id);
        self.lower(now, id);
        let Some(incident) = self.incidents.get_mut(id) else { return };
        absorb_growth(incident, now);
        let (loud, notified) = (incident.loud, incident.notified_class);
        match loud {
            Urgency::Note => {}
            Urgency::Page if notified < Urgency::Page => self.page_first(now, id),
            Urgency::Mail if notified < Urgency::Mail => self.mail_first(now, id),
            _ => self.send_updates(now, id),
        }
    }

    fn page_first(&mut self, now: Micros, id: &str) {
        let Some(incident) = self.incidents.get_mut(id) else { return };
        let pending = incident.pending.take();
        let change = match incident.notified_class {
            _ if incident.is_reopened => {
                pending.map_or_else(|| REOPENED.to_owned(), |pending| pending.change)
            }
            Urgency::Note => "opened".to_owned(),
            _ => "worse: now a page".to_owned(),
        };
        // What was acknowledged was less than this.
        incident.ack = None;
        incident.notified_class = Urgency::Page;
        let Some((route, key)) = self.route_of(id) else { return };
        let recipients = self.roster.recipients(&route.page, Urgency::Page, now);
        self.set_escalation(now, id, &route, 0);
        let kind = NoticeKind::Page;
        self.send(now, key, OutgoingMessage { kind, change, recipients });
    }

    fn mail_first(&mut self, now: Micros, id: &str) {
        let gather = i64::from(self.roster.settings.mail_gather_seconds) * SECOND;
        let Some(incident) = self.incidents.get_mut(id) else { return };
        let change = if incident.is_reopened { REOPENED } else { "opened" };
        let Some(pending) = incident.pending.clone() else {
            let pending = PendingMail { due_us: now.0 + gather, change: change.to_owned() };
            incident.pending = Some(pending);
            incident.is_changed = true;
            return;
        };
        if pending.due_us > now.0 {
            return;
        }
        incident.pending = None;
        incident.notified_class = Urgency::Mail;
        let Some((route, key)) = self.route_of(id) else { return };
        let recipients = self.roster.recipients(&route.mail, Urgency::Mail, now);
        let (kind, change) = (NoticeKind::Mail, pending.change);
        self.send(now, key, OutgoingMessage { kind, change, recipients });
    }

    /// Growth, another root, what is back, and escalation of an incident that was sent before.
    fn send_updates(&mut self, now: Micros, id: &str) {
        let gather = i64::from(self.roster.settings.mail_gather_seconds) * SECOND;
        let Some(incident) = self.incidents.get_mut(id) else { return };
        if let Some((event, change)) = update_of(incident) {
            let is_page = incident.loud == Urgency::Page && incident.ack.is_none();
            if is_page {
                incident.pending = None;
                let kind = NoticeKind::Page;
                let recipients = paged(incident);
                let key = incident.id.clone();
                self.send(now, key, OutgoingMessage { kind, change: change.clone(), recipients });
            } else {
                let due_us = incident.pending.as_ref().map_or(now.0 + gather, |it| it.due_us);
                incident.pending = Some(PendingMail { due_us, change: change.clone() });
                cover(incident);
            }
            self.record(now, id, event, &change);
        }
        self.send_pending(now, id);
        self.escalate(now, id);
    }

    fn send_pending(&mut self, now: Micros, id: &str) {
        let Some(incident) = self.incidents.get_mut(id) else { return };
        let Some(pending) = incident.pending.take_if(|pending| pending.due_us <= now.0) else {
            return;
        };
        let (kind, change, recipients) =
            (NoticeKind::Mail, pending.change, incident.notified.clone());
        self.send(now, id.to_owned(), OutgoingMessage { kind, change, recipients });
    }

    fn escalate(&mut self, now: Micros, id: &str) {
        let Some((route, key)) = self.route_of(id) else { return };
        let Some(incident) = self.incidents.get(id) else { return };
        if incident.loud < Urgency::Page || incident.ack.is_some() {
            return;
        }
        let Some(escalation) = incident.escalation.clone() else {
            self.set_escalation(now, id, &route, 0);
            return;
        };
        if escalation.due_us > now.0 {
            return;
        }
        let targets = targets(&route);
        let target = targets[escalation.count % targets.len()];
        let recipients = self.roster.recipients(target, Urgency::Page, now);
        let change = "escalated: not acknowledged".to_owned();
        self.set_escalation(now, id, &route, escalation.count + 1);
        let kind = NoticeKind::Page;
        self.send(now, key, OutgoingMessage { kind, change: change.clone(), recipients });
        self.record(now, id, IncidentEvent::Escalated, &change);
    }

    fn set_escalation(&mut self, now: Micros, id: &str, route: &Route, count: usize) {
        let ack_pause = i64::from(self.roster.ack_minutes(route)) * MINUTE;
        let is_early = count < ROUNDS * targets(route).len();
        let pause_us = if is_early { ack_pause } else { LATER_PAUSE_US.max(ack_pause) };
        if let Some(incident) = self.incidents.get_mut(id) {
            incident.escalation = Some(Escalation { count, due_us: now.0 + pause_us, pause_us });
            incident.is_changed = true;
        }
    }

    /// Ends an acknowledgement that is over: everyone that was notified gets it, and the incident
    /// escalates from the first target.
    fn expire_ack(&mut self, now: Micros, id: &str) {
        let Some(incident) = self.incidents.get_mut(id) else { return };
        let Some(ack) = incident.ack.take_if(|ack| ack.until_us <= now.0) else { return };
        let is_page = incident.notified_class == Urgency::Page;
        incident.escalation =
            is_page.then_some(Escalation { count: 0, due_us: now.0, pause_us: 0 });
        let (kind, recipients) = (NoticeKind::Ack, incident.notified.clone());
        let change = format!("the acknowledgement by {} expired", ack.by);
        let message = OutgoingMessage { kind, change: change.clone(), recipients };
        self.send(now, id.to_owned(), message);
        self.record(now, id, IncidentEvent::AckExpired, &change);
    }

    /// A page whose findings are no longer pages: everyone that was notified gets it, and it does not
    /// escalate. A page that comes later is sent again.
    fn lower(&mut self, now: Micros, id: &str) {
        let Some(incident) = self.incidents.get_mut(id) else { return };
        let lower = incident.current.filter(|class| *class < Urgency::Page);
        let Some(class) = lower.filter(|_| incident.notified_class == Urgency::Page) else {
            incident.is_changed |= incident.lowered_us.take().is_some();
            return;
        };
        incident.is_changed |= incident.lowered_us.is_none();
        if now.0 - *incident.lowered_us.get_or_insert(now.0) < HOLD_US {
            return;
        }
        incident.lowered_us = None;
        incident.notified_class = class;
        incident.escalation = None;
        let (kind, recipients) = (NoticeKind::Mail, incident.notified.clone());
        let change = format!("less urgent: now a {}", class.as_str());
        let message = OutgoingMessage { kind, change: change.clone(), recipients };
        self.send(now, id.to_owned(), message);
        self.record(now, id, IncidentEvent::Lowered, &change);
    }

    /// The end of an incident, to everyone that was notified of it.
    pub(super) fn send_end(&mut self, now: Micros, id: &str, change: &str) {
        let Some(incident) = self.incidents.get_mut(id) else { return };
        incident.is_changed = true;
        if incident.notified.is_empty() || incident.is_reported_over {
            return;
        }
        let (kind, recipients) = (NoticeKind::Resolved, incident.notified.clone());
        let change = change.to_owned();
        self.send(now, id.to_owned(), OutgoingMessage { kind, change, recipients });
    }

    /// Makes the notices of a message and remembers its recipients.
    pub(super) fn send(&mut self, now: Micros, id: String, message: OutgoingMessage) {
        let on_call = self.on_call_now(&id, now);
        let recipients = match message.kind {
            NoticeKind::Page => self.detour(now, &id, Urgency::Page, message.recipients),
            NoticeKind::Mail => self.detour(now, &id, Urgency::Mail, message.recipients),
            NoticeKind::Ack | NoticeKind::Resolved | NoticeKind::Test => message.recipients,
        };
        let due: Vec<Micros> =
            recipients.iter().map(|recipient| self.due(message.kind, recipient, now)).collect();
        let Some(incident) = self.incidents.get_mut(&id) else { return };
        incident.step += 1;
        incident.is_changed = true;
        let (kind, mut change) = (message.kind, message.change);
        if let Some(muted) = incident.muted_by.take() {
            change = format!("{change} (was {muted})");
        }
        if matches!(kind, NoticeKind::Page | NoticeKind::Mail) {
            incident.notified_us = now.0;
            incident.is_reported_over = false;
            incident.is_reopened = false;
            cover(incident);
            for recipient in &recipients {
                let mut recipient = recipient.clone();
                recipient.reason = recipient.reason.chars().take(120).collect();
                let is_known = incident.notified.iter().any(|known| known.is_same(&recipient));
                if is_known || incident.notified.len() < NOTIFIED_MAX {
                    add(&mut incident.notified, recipient);
                }
            }
        } else if kind == NoticeKind::Resolved {
            incident.is_reported_over = true;
        }
        let incident = &self.incidents[&id];
        let notices = recipients.iter().zip(due).map(|(recipient, due)| Notice {
            id: notice_id(incident, kind, recipient),
            kind,
            receiver: recipient.receiver.clone(),
            address: recipient.address.clone(),
            person: recipient.person.clone(),
            fallbacks: recipient.fallbacks.clone(),
            due_us: due.0,
            expires_us: due.0 + EXPIRES_US,
            order: incident.step,
            reason: recipient.reason.clone(),
            change: change.clone(),
            on_call: on_call.clone(),
            incident: incident.summary(),
        });
        let notices: Vec<Notice> = notices.collect();
        self.count_page(&notices);
        self.out.notices.extend(notices);
    }

    /// When a notice of an incident goes out: a mail after quiet hours, within the mailbox's limit.
    fn due(&mut self, kind: NoticeKind, recipient: &Recipient, now: Micros) -> Micros {
        let held = self.held_until(kind, recipient, now);
        let is_urgent = kind == NoticeKind::Page || recipient.class == Urgency::Page;
        if is_urgent { held } else { self.book_mail(recipient, held) }
    }

    /// When a notice may go out: mails wait for the end of the person's quiet hours.
    pub(super) fn held_until(
        &self,
        kind: NoticeKind,
        recipient: &Recipient,
        now: Micros,
    ) -> Micros {
        if kind == NoticeKind::Page || recipient.class == Urgency::Page {
            return now;
        }
        self.roster.quiet_until(recipient.person.as_deref(), now).unwrap_or(now)
    }

    fn on_call_now(&self, id: &str, now: Micros) -> Vec<String> {
        let Some((route, _)) = self.route_of(id) else { return Vec::new() };
        self.roster.on_call_people(&route.page, now)
    }

    /// The route of an incident's root, and the incident's id.
    fn route_of(&self, id: &str) -> Option<(Route, String)> {
        let incident = self.incidents.get(id)?;
        Some((self.roster.route(incident.route_key()).clone(), id.to_owned()))
    }
}

/// Notes that the last message covers all findings and the root of now.
fn cover(incident: &mut Incident) {
    incident.baseline = incident.baseline.max(incident.finding_count);
    let rule = &incident.root.rule;
    if incident.announced.len() < ANNOUNCED_MAX && !incident.announced.contains(rule) {
        incident.announced.push(rule.clone());
    }
    incident.is_changed = true;
}

/// Findings that come right after a message belong to what it reported: 50 hosts that fail within
/// seconds are one page.
fn absorb_growth(incident: &mut Incident, now: Micros) {
    let is_early = now.0 - incident.notified_us < GROWTH_US;
    if incident.step > 0 && is_early && incident.finding_count > incident.baseline {
        incident.baseline = incident.finding_count;
        incident.is_changed = true;
    }
}

/// What a message has to report of an incident that was sent before.
fn update_of(incident: &Incident) -> Option<(IncidentEvent, String)> {
    let IncidentBrief { rule, host, count, hosts } = IncidentBrief::of(incident);
    let is_new_root = !incident.announced.iter().any(|known| known == rule);
    if is_new_root && incident.announced.len() < ANNOUNCED_MAX {
        let place = if host.is_empty() { String::new() } else { format!(" on {host}") };
        return Some((IncidentEvent::RootChanged, format!("root is now {rule}{place}")));
    }
    let is_double = count >= incident.baseline * 2 && count >= incident.baseline + GROWTH_MIN;
    let words = match hosts {
        0 | 1 => format!("worse: {count} findings"),
        _ => format!("worse: {count} findings on {hosts} hosts"),
    };
    is_double.then_some((IncidentEvent::Grown, words))
}

/// The figures of an update.
struct IncidentBrief<'a> {
    rule: &'a str,
    host: &'a str,
    count: usize,
    hosts: usize,
}

impl<'a> IncidentBrief<'a> {
    fn of(incident: &'a Incident) -> Self {
        Self {
            rule: &incident.root.rule,
            host: &incident.root.host,
            count: incident.finding_count,
            hosts: incident.host_count,
        }
    }
}

/// Recipients that were paged.
fn paged(incident: &Incident) -> Vec<Recipient> {
    let notified = incident.notified.iter();
    notified.filter(|recipient| recipient.class == Urgency::Page).cloned().collect()
}

/// The targets of a route's escalation; its page target, then everyone, without any.
fn targets(route: &Route) -> Vec<&str> {
    match route.escalate.as_slice() {
        [] => vec![route.page.as_str(), "everyone"],
        targets => targets.iter().map(String::as_str).collect(),
    }
}

/// 32 hex digits, reproducible from the document.
fn notice_id(incident: &Incident, kind: NoticeKind, recipient: &Recipient) -> String {
    long_id(&[
        "notice",
        &incident.id,
        &incident.opened_us.to_string(),
        kind.as_str(),
        &incident.step.to_string(),
        &recipient.receiver,
        recipient.address.as_deref().unwrap_or("\0"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_without_targets_escalates_to_its_page_target_and_everyone() {
        let mut route = Route { page: "rota:web".to_owned(), ..Route::default() };
        assert_eq!(targets(&route), ["rota:web", "everyone"]);
        route.escalate = vec!["bo".to_owned()];
        assert_eq!(targets(&route), ["bo"]);
    }
}
