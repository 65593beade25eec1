//! What the desk sends about rotas: a hand-over to the person whose shift begins, and gaps.
//!
//! As everything here it works by level: the person on call is compared with the one that is kept, so
//! a restart in the middle of a hand-over sends it once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_tables::Micros;

use super::{DUTY, Desk};
use crate::civil_time::{DAY, MINUTE};
use crate::decisions::KeptDocument;
use crate::identity::{long_id, short_id};
use crate::notice::GAP_RULE;
use crate::roster::Recipient;
use crate::rota::{DutyReason, OnCall, RotaGap};
use crate::{IncidentSummary, Notice, NoticeKind, SymptomLine, Urgency};

/// Gaps are reported this long before they begin.
const AHEAD_US: i64 = 7 * DAY;
/// A gap of the same rota is not reported again within this time: one of every night would be.
const AGAIN_US: i64 = 7 * DAY;
/// Interval between two searches for coming gaps.
const LOOK_US: i64 = 60 * MINUTE;
/// Pages, incidents and silences in a hand-over.
const LINES_MAX: usize = 20;
const LINE_CHARS_MAX: usize = 200;
const GAP_FIX: &str = "Set `otherwise`, or other `hours`, in [[rotas]]";

/// The state of a rota that the desk keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct DutyRecord {
    person: Option<String>,
    /// Pages that the person got in this shift, and the titles of the newest.
    page_count: usize,
    pages: Vec<(String, String)>,
    /// When a coming gap was reported last.
    warned_us: Option<i64>,
    /// When a gap was paged last.
    paged_us: Option<i64>,
    /// Whether no person is on call.
    is_gap: bool,
    /// The gap that was paged and is not over.
    gap: Option<OpenGap>,
    /// Number of the hour of the last search for a coming gap.
    looked: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OpenGap {
    start_us: i64,
    recipients: Vec<Recipient>,
}

/// The states of all rotas.
#[derive(Clone, Debug, Default)]
pub(super) struct DutyBook {
    records: BTreeMap<String, DutyRecord>,
}

impl DutyBook {
    pub(super) fn read(&mut self, rota: &str, body: &str) -> Result<(), serde_json::Error> {
        self.records.insert(rota.to_owned(), serde_json::from_str(body)?);
        Ok(())
    }
}

/// A message about a rota.
struct RotaMessage {
    kind: NoticeKind,
    change: String,
    incident: IncidentSummary,
    recipients: Vec<Recipient>,
}

impl Desk {
    /// Sends what changed about rotas.
    pub(super) fn watch_duties(&mut self, now: Micros) {
        let names: Vec<String> = self.roster.rotas.names().map(str::to_owned).collect();
        for rota in &names {
            let duty = self.roster.rotas.on_call(rota, now);
            let known = self.duties.records.get(rota).cloned();
            let mut record = known.clone().unwrap_or_default();
            if is_own_shift(&duty) && record.person != duty.person {
                // A rota that is seen for the first time has nothing to hand over.
                if let Some(earlier) = record.person.clone() {
                    self.hand_over(now, rota, (&record, &earlier), &duty);
                }
                record.person.clone_from(&duty.person);
                (record.page_count, record.pages) = (0, Vec::new());
            }
            self.report_gap(now, rota, &duty, known.is_some(), &mut record);
            self.look_ahead(now, rota, known.is_some(), &mut record);
            if known.as_ref() != Some(&record) {
                self.keep_duty(rota, record);
            }
        }
        self.forget_duties(&names);
    }

    /// Counts a page for the rotas whose person got it.
    pub(super) fn count_page(&mut self, notices: &[Notice]) {
        let Some(first) = notices.first().filter(|notice| notice.kind == NoticeKind::Page) else {
            return;
        };
        let line = (first.incident.id.clone(), first.incident.title.clone());
        let people: Vec<&str> = notices.iter().filter_map(|it| it.person.as_deref()).collect();
        let mut changed = Vec::new();
        for (rota, record) in &mut self.duties.records {
            if record.person.as_deref().is_some_and(|person| people.contains(&person)) {
                record.page_count += 1;
                record.pages.push(line.clone());
                let surplus = record.pages.len().saturating_sub(LINES_MAX);
                record.pages.drain(..surplus);
                changed.push((rota.clone(), record.clone()));
            }
        }
        changed.into_iter().for_each(|(rota, record)| self.keep_duty(&rota, record));
    }

    fn keep_duty(&mut self, rota: &str, record: DutyRecord) {
        let body = serde_json::to_string(&record).expect("a duty has texts, numbers and lists");
        self.out.documents.retain(|document| document.kind != DUTY || document.key != rota);
        self.out.documents.push(KeptDocument {
            kind: DUTY,
            key: rota.to_owned(),
            body: Some(body),
        });
        self.duties.records.insert(rota.to_owned(), record);
    }

    /// Deletes what is kept of rotas that the configuration has no more.
    fn forget_duties(&mut self, names: &[String]) {
        let gone = self.duties.records.keys().filter(|rota| !names.contains(rota));
        let gone: Vec<String> = gone.cloned().collect();
        for key in gone {
            self.duties.records.remove(&key);
            self.out.documents.push(KeptDocument { kind: DUTY, key, body: None });
        }
    }

    /// Open incidents, silences and the pages of the last shift, to the person that takes over.
    fn hand_over(
        &mut self,
        now: Micros,
        rota: &str,
        (before, earlier): (&DutyRecord, &str),
        duty: &OnCall,
    ) {
        let Some(person) = duty.person.as_deref().filter(|name| self.roster.person(name).is_some())
        else {
            return;
        };
        let recipients = self.roster.recipients(person, Urgency::Mail, now);
        let until = self.roster.rotas.local_text(rota, duty.until);
        let open: Vec<SymptomLine> = self.open_lines();
        let silences: Vec<SymptomLine> = self.silence_lines(rota);
        let pages = before.pages.iter().map(|(id, title)| line("page", id, title));
        let mut incident = letter(rota, now);
        incident.title = format!("hand-over of rota {rota}: {person} is on call");
        incident.summary = format!("You are on call for rota {rota} until {until}.");
        incident.evidence = serde_json::json!([{
            "open incidents": open.len(),
            "silences": silences.len(),
            "pages of the last shift": before.page_count,
        }])
        .to_string();
        incident.symptoms = open.into_iter().chain(silences).chain(pages).collect();
        incident.finding_count = incident.symptoms.len() + 1;
        let change = format!("{earlier} hands over");
        self.send_about_rota(
            now,
            RotaMessage { kind: NoticeKind::Mail, change, incident, recipients },
        );
    }

    fn open_lines(&self) -> Vec<SymptomLine> {
        let open = self.incidents.values().filter(|incident| incident.is_open());
        let lines = open.take(LINES_MAX).map(|incident| {
            let acked = incident.ack.as_ref().map(|ack| format!(" (acknowledged by {})", ack.by));
            let text = format!("{}{}", incident.summary().title, acked.unwrap_or_default());
            line("open", &incident.id, &text)
        });
        lines.collect()
    }

    fn silence_lines(&self, rota: &str) -> Vec<SymptomLine> {
        let lines = self.silences.values().take(LINES_MAX).map(|silence| {
            let end = self.roster.rotas.local_text(rota, Micros(silence.until_us));
            let rules = silence.rules.join(", ");
            let text = format!("{rules}, by {} until {end}: {}", silence.by, silence.reason);
            line("silence", &silence.id, &text)
        });
        lines.collect()
    }

    /// A gap that begins is a page to everyone, at most once a week, and its end is reported as well.
    fn report_gap(
        &mut self,
        now: Micros,
        rota: &str,
        duty: &OnCall,
        is_known: bool,
        record: &mut DutyRecord,
    ) {
        let is_gap = duty.person.is_none();
        let is_new = is_gap && !std::mem::replace(&mut record.is_gap, is_gap);
        if !is_gap && let Some(open) = record.gap.take() {
            let incident = gap_incident(rota, open.start_us, String::new());
            let incident = IncidentSummary { resolved_us: Some(now.0), ..incident };
            let (kind, recipients) = (NoticeKind::Resolved, open.recipients);
            let change = "a person is on call again".to_owned();
            self.send_about_rota(now, RotaMessage { kind, change, incident, recipients });
        }
        if is_new && is_known && is_long_ago(record.paged_us, now) {
            let recipients = self.roster.recipients("everyone", Urgency::Page, now);
            let gap = RotaGap { start: now, end: duty.until };
            let incident = gap_incident(rota, now.0, self.gap_summary(rota, gap, "has"));
            let (kind, change) = (NoticeKind::Page, "gap in a rota".to_owned());
            record.gap = Some(OpenGap { start_us: now.0, recipients: recipients.clone() });
            // The mail ahead would report the same.
            (record.paged_us, record.warned_us) = (Some(now.0), Some(now.0));
            self.send_about_rota(now, RotaMessage { kind, change, incident, recipients });
        }
    }

    /// A gap of the next seven days is a mail to everyone, at most once a week; also one of now that a
    /// new configuration has.
    fn look_ahead(&mut self, now: Micros, rota: &str, is_known: bool, record: &mut DutyRecord) {
        let hour = now.0.div_euclid(LOOK_US);
        let is_time = std::mem::replace(&mut record.looked, hour) != hour;
        if !is_time || record.is_gap && is_known || !is_long_ago(record.warned_us, now) {
            return;
        }
        let Some(gap) = self.roster.rotas.gap_within(rota, now, AHEAD_US) else { return };
        let mut incident = letter(rota, now);
        incident.title = format!("gap in rota {rota}");
        incident.summary =
            self.gap_summary(rota, gap, if record.is_gap { "has" } else { "will have" });
        incident.fix = GAP_FIX.to_owned();
        record.warned_us = Some(now.0);
        let recipients = self.roster.recipients("everyone", Urgency::Mail, now);
        let (kind, change) = (NoticeKind::Mail, "gap in a rota".to_owned());
        self.send_about_rota(now, RotaMessage { kind, change, incident, recipients });
    }

    fn gap_summary(&self, rota: &str, gap: RotaGap, words: &str) -> String {
        let [from, to] = [gap.start, gap.end].map(|at| self.roster.rotas.local_text(rota, at));
        format!("Rota {rota} {words} no person on call from {from} to {to}: pages go to everyone.")
    }

    fn send_about_rota(&mut self, now: Micros, message: RotaMessage) {
        let notices = self.rota_notices(now, &message);
        self.out.notices.extend(notices);
    }

    fn rota_notices(&self, now: Micros, message: &RotaMessage) -> Vec<Notice> {
        let RotaMessage { kind, change, incident, recipients } = message;
        let notices = recipients.iter().map(|recipient| {
            let held = self.held_until(*kind, recipient, now);
            let address = recipient.address.as_deref().unwrap_or("\0");
            let parts = ["rota", &now.0.to_string(), &incident.subject, &incident.title];
            let place = [recipient.receiver.as_str(), address, kind.as_str()];
            Notice {
                id: long_id(&[&parts[..], &place[..]].concat()),
                kind: *kind,
                receiver: recipient.receiver.clone(),
                address: recipient.address.clone(),
                person: recipient.person.clone(),
                fallbacks: recipient.fallbacks.clone(),
                due_us: held.0,
                expires_us: held.0 + DAY,
                order: u64::try_from(now.0).unwrap_or(0),
                reason: recipient.reason.clone(),
                change: change.clone(),
                on_call: Vec::new(),
                incident: incident.clone(),
            }
        });
        notices.collect()
    }

    /// A letter about no incident to a target: a person, a receiver, a rota or `everyone`.
    pub fn letter(&self, now: Micros, target: &str, text: LetterText) -> Vec<Notice> {
        let LetterText { title, summary, evidence, lines } = text;
        let mut incident = letter("", now);
        (incident.subject, incident.title) = (title.clone(), title);
        (incident.summary, incident.evidence) = (summary, evidence);
        incident.finding_count = lines.len() + 1;
        incident.symptoms = lines;
        let recipients = self.roster.recipients(target, Urgency::Mail, now);
        let (kind, change) = (NoticeKind::Mail, String::new());
        self.rota_notices(now, &RotaMessage { kind, change, incident, recipients })
    }
}

/// The texts of a letter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LetterText {
    /// The subject, ASCII.
    pub title: String,
    /// The first sentences.
    pub summary: String,
    /// Figures as a JSON array of objects; rows with `pages` and `real` become a chart.
    pub evidence: String,
    /// The lines below: what they are, a name, the text.
    pub lines: Vec<SymptomLine>,
}

/// Whether a person has the rota's own shift. Nights of another rota are no hand-over: the same person
/// is back in the morning.
fn is_own_shift(duty: &OnCall) -> bool {
    matches!(duty.reason, DutyReason::Shift | DutyReason::Override)
}

fn is_long_ago(at_us: Option<i64>, now: Micros) -> bool {
    at_us.is_none_or(|at_us| !(0..AGAIN_US).contains(&(now.0 - at_us)))
}

fn line(rule: &str, host: &str, text: &str) -> SymptomLine {
    let summary = text.chars().take(LINE_CHARS_MAX).collect();
    SymptomLine { rule: rule.to_owned(), host: host.to_owned(), summary }
}

/// A message about no incident, without its texts.
fn letter(rota: &str, now: Micros) -> IncidentSummary {
    IncidentSummary {
        id: String::new(),
        class: Urgency::Mail,
        root_rule: "oncall.handover".to_owned(),
        host: String::new(),
        tier: String::new(),
        subject: format!("rota {rota}"),
        title: String::new(),
        summary: String::new(),
        why: String::new(),
        fix: String::new(),
        evidence: "[]".to_owned(),
        symptoms: Vec::new(),
        finding_count: 1,
        host_count: 0,
        opened_us: now.0,
        resolved_us: None,
        acked_by: None,
    }
}

fn gap_incident(rota: &str, start_us: i64, summary: String) -> IncidentSummary {
    IncidentSummary {
        id: short_id(&["gap", rota, &start_us.to_string()]),
        class: Urgency::Page,
        root_rule: GAP_RULE.to_owned(),
        title: format!("rota {rota} has no person on call"),
        fix: GAP_FIX.to_owned(),
        summary,
        ..letter(rota, Micros(start_us))
    }
}
