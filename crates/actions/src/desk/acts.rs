//! What people do: acknowledge, resolve, silence, and send a test.

use weir_tables::Micros;

use super::notify::OutgoingMessage;
use super::{Desk, SILENCE};
use crate::civil_time::{DAY, MINUTE};
use crate::decisions::{Decisions, IncidentEvent};
use crate::error::DeskError;
use crate::identity::long_id;
use crate::incident::{Acknowledgement, Incident};
use crate::pattern::matches_any;
use crate::roster::Recipient;
use crate::silence::{Silence, SilenceRequest};
use crate::{IncidentState, IncidentSummary, Notice, NoticeKind, Urgency};

/// Silences that hold at once.
const SILENCES_MAX: usize = 1_000;
const NAME_CHARS_MAX: usize = 100;
/// A second acknowledgement of the same person within this time is the same one.
const REPEAT_US: i64 = MINUTE;

/// What a test message goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestTarget {
    /// A receiver.
    Receiver(String),
    /// A person: contacts for pages and for mails.
    Person(String),
    /// A route by its position in the configuration, from 0: its page and its mail target.
    Route(usize),
}

impl SilenceRequest {
    /// A silence of the root's rule and host, until it is resolved.
    pub fn for_incident(incident: &Incident) -> Self {
        let root = &incident.root;
        let has_one_host = !root.host.is_empty() && incident.host_count <= 1;
        let hosts = if has_one_host { vec![root.host.clone()] } else { Vec::new() };
        let (rules, class) = (vec![root.rule.clone()], Some(incident.class));
        Self { rules, hosts, until_resolved: true, class, ..Self::default() }
    }
}

impl Desk {
    /// A person works on an incident: escalation stops for an hour, and everyone that was notified
    /// gets it.
    ///
    /// # Errors
    /// The incident is unknown or over.
    pub fn acknowledge(
        &mut self,
        now: Micros,
        incident_id: &str,
        by: impl Into<String>,
    ) -> Result<Decisions, DeskError> {
        let (id, by) = (self.find(incident_id)?, person_name(by.into())?);
        let hold = i64::from(self.roster.settings.ack_hold_minutes) * MINUTE;
        let incident = self.incidents.get_mut(&id).expect("it was found above");
        if !incident.is_open() {
            return Err(DeskError::new(
                format!("cannot acknowledge incident `{id}`: it is resolved"),
                "nothing is left to do",
            ));
        }
        let is_repeat = incident
            .ack
            .as_ref()
            .is_some_and(|ack| ack.by == by && (now.0 - ack.at_us).abs() < REPEAT_US);
        if is_repeat {
            return Ok(Decisions::default());
        }
        let change = format!("acknowledged by {by}");
        incident.ack = Some(Acknowledgement { by, at_us: now.0, until_us: now.0 + hold });
        incident.escalation = None;
        incident.is_changed = true;
        let (kind, recipients) = (NoticeKind::Ack, incident.notified.clone());
        let message = OutgoingMessage { kind, change: change.clone(), recipients };
        self.send(now, id.clone(), message);
        self.record(now, &id, IncidentEvent::Acknowledged, &change);
        Ok(self.finish())
    }

    /// A person resolves an incident. It stays so while the same findings fire, for the time that an
    /// acknowledgement holds; a new finding without a cause, or one of a higher class, opens it at
    /// once.
    ///
    /// # Errors
    /// The incident is unknown or over.
    pub fn resolve(
        &mut self,
        now: Micros,
        incident_id: &str,
        by: impl Into<String>,
    ) -> Result<Decisions, DeskError> {
        let (id, by) = (self.find(incident_id)?, person_name(by.into())?);
        let incident = self.incidents.get_mut(&id).expect("it was found above");
        if !incident.is_open() {
            return Err(DeskError::new(
                format!("cannot resolve incident `{id}`: it is resolved"),
                "nothing is left to do",
            ));
        }
        let firing = incident.members.values().filter(|it| it.ended_us.is_none()).count();
        let change = match firing {
            0 => format!("resolved by {by}"),
            1 => format!("resolved by {by} while a finding fires"),
            _ => format!("resolved by {by} while {firing} findings fire"),
        };
        incident.state = IncidentState::Resolved;
        incident.resolved_us = Some(now.0);
        incident.resolved_by = Some(by);
        incident.ack = None;
        incident.escalation = None;
        incident.pending = None;
        self.send_end(now, &id, &change);
        self.record(now, &id, IncidentEvent::Resolved, &change);
        Ok(self.finish())
    }

    /// Silences what matches, until an end.
    ///
    /// # Errors
    /// The request has no pattern, reason or author, or too late an end.
    pub fn silence(
        &mut self,
        now: Micros,
        request: SilenceRequest,
    ) -> Result<Decisions, DeskError> {
        if self.silences.len() >= SILENCES_MAX {
            return Err(DeskError::new(
                format!("cannot keep more than {SILENCES_MAX} silences"),
                "end some, or use `*` in a pattern",
            ));
        }
        let matching = self.preview(&request).into_iter().map(Incident::class).max();
        let class = request.class.or(matching).unwrap_or(Urgency::Page);
        let silence = Silence::from_request(request, now, class)?;
        self.changed_silences.insert(silence.id.clone());
        self.silences.insert(silence.id.clone(), silence);
        Ok(self.finish())
    }

    /// Open incidents whose root a silence would match.
    pub fn preview(&self, request: &SilenceRequest) -> Vec<&Incident> {
        let open = self.incidents.values().filter(|incident| incident.is_open());
        let matching = open.filter(|incident| {
            matches_any(&request.rules, &incident.root.rule)
                && matches_any(&request.hosts, &incident.root.host)
        });
        matching.collect()
    }

    /// Ends a silence; what still fires is notified at the next tick.
    ///
    /// # Errors
    /// There is no such silence.
    pub fn end_silence(&mut self, silence_id: &str) -> Result<Decisions, DeskError> {
        let id = silence_id.trim().to_lowercase();
        if self.silences.remove(&id).is_none() {
            let known = self.silences.keys().map(String::as_str);
            return Err(unknown(SILENCE, silence_id, weir_tables::nearest(&id, known)));
        }
        self.changed_silences.insert(id);
        Ok(self.finish())
    }

    /// Test messages to a receiver, a person or the targets of a route.
    ///
    /// # Errors
    /// There is no such receiver, person or route.
    pub fn test_notice(&self, now: Micros, target: &TestTarget) -> Result<Vec<Notice>, DeskError> {
        let mut recipients = Vec::new();
        match target {
            TestTarget::Receiver(name) if self.roster.has_receiver(name) => {
                recipients = self.roster.recipients(name, Urgency::Page, now);
            }
            TestTarget::Person(name) if self.roster.person(name).is_some() => {
                for class in [Urgency::Page, Urgency::Mail] {
                    recipients.extend(self.roster.recipients(name, class, now));
                }
            }
            TestTarget::Route(index) => {
                if let Some(route) = self.roster.route_at(*index) {
                    recipients = self.roster.recipients(&route.page, Urgency::Page, now);
                    recipients.extend(self.roster.recipients(&route.mail, Urgency::Mail, now));
                }
            }
            TestTarget::Receiver(_) | TestTarget::Person(_) => {}
        }
        let mut distinct: Vec<Recipient> = Vec::new();
        recipients.into_iter().for_each(|recipient| crate::roster::add(&mut distinct, recipient));
        if distinct.is_empty() {
            return Err(DeskError::new(
                format!("cannot send a test to {}: it is not configured", target_words(target)),
                "names are those of `[[receivers]]` and `[[people]]`; routes count from 0",
            ));
        }
        Ok(distinct.iter().map(|recipient| test_notice(now, recipient)).collect())
    }

    /// The incident of an id that a person typed; of a merged one the older.
    fn find(&self, incident_id: &str) -> Result<String, DeskError> {
        let typed = incident_id.trim().to_lowercase();
        if self.incidents.contains_key(&typed) {
            return Ok(self.follow(&typed));
        }
        let known = self.incidents.keys().map(String::as_str);
        Err(unknown("incident", incident_id, weir_tables::nearest(&typed, known)))
    }
}

fn unknown(kind: &str, id: &str, nearest: Option<&str>) -> DeskError {
    let hint = match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("it may be over; open ones are in the list of {kind}s"),
    };
    DeskError::new(format!("cannot find {kind} `{id}`"), hint)
}

fn person_name(by: String) -> Result<String, DeskError> {
    let name = by.trim();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        return Err(DeskError::new(
            "a person's name must have 1 to 100 characters",
            "name the person",
        ));
    }
    Ok(name.to_owned())
}

fn target_words(target: &TestTarget) -> String {
    match target {
        TestTarget::Receiver(name) => format!("receiver `{name}`"),
        TestTarget::Person(name) => format!("person `{name}`"),
        TestTarget::Route(index) => format!("route {index}"),
    }
}

fn test_notice(now: Micros, recipient: &Recipient) -> Notice {
    let address = recipient.address.as_deref().unwrap_or("\0");
    let start = now.0.to_string();
    Notice {
        id: long_id(&["test", &start, &recipient.receiver, address]),
        kind: NoticeKind::Test,
        receiver: recipient.receiver.clone(),
        address: recipient.address.clone(),
        person: recipient.person.clone(),
        fallbacks: Vec::new(),
        due_us: now.0,
        expires_us: now.0 + DAY / 24,
        order: 1,
        reason: recipient.reason.clone(),
        change: "test".to_owned(),
        on_call: Vec::new(),
        incident: test_incident(now),
    }
}

/// The end of a test, for systems that opened an alert: a minute later, so that it rings.
pub fn test_end(test: &Notice) -> Notice {
    let mut end = test.clone();
    end.id = long_id(&["test end", &test.id]);
    end.order = test.order + 1;
    end.due_us = test.due_us + MINUTE;
    end.change = "the test is over".to_owned();
    end.incident.resolved_us = Some(end.due_us);
    end
}

fn test_incident(now: Micros) -> IncidentSummary {
    IncidentSummary {
        id: "test".to_owned(),
        class: Urgency::Note,
        root_rule: "weir.test".to_owned(),
        host: String::new(),
        tier: String::new(),
        subject: "test message".to_owned(),
        title: "weir.test test message: nothing is wrong".to_owned(),
        summary: "This is a test: nothing is wrong".to_owned(),
        why: "A message that arrives shows that this path works".to_owned(),
        fix: "Nothing to do".to_owned(),
        evidence: "[]".to_owned(),
        symptoms: Vec::new(),
        finding_count: 0,
        host_count: 0,
        opened_us: now.0,
        resolved_us: None,
        acked_by: None,
    }
}
