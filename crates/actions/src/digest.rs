//! One message for many: mails of several incidents that are due at one mailbox at one time.

use std::collections::BTreeMap;

use crate::identity::long_id;
use crate::notice::DIGEST_RULE;
use crate::{IncidentSummary, Notice, NoticeKind, SymptomLine, Urgency};

const LINE_CHARS_MAX: usize = 200;
/// Lines that a digest keeps; a message shows 60, and the number of the others.
const LINES_MAX: usize = 100;

/// The digest of notices for one address, oldest first: one line for each incident, with what was
/// last to be sent of it. Worst first; what is over comes last. `None` without notices.
pub fn digest(now_us: i64, notices: &[&Notice]) -> Option<Notice> {
    let first = notices.first()?;
    let mut latest: BTreeMap<&str, &Notice> = BTreeMap::new();
    for &notice in notices {
        let known = latest.entry(&notice.incident.id).or_insert(notice);
        if notice.order > known.order {
            *known = notice;
        }
    }
    let mut latest: Vec<&Notice> = latest.into_values().collect();
    latest.sort_by_cached_key(|notice| {
        let incident = &notice.incident;
        let class = std::cmp::Reverse(incident.class);
        let is_over = notice.kind == NoticeKind::Resolved;
        (is_over, class, incident.opened_us, incident.id.clone())
    });
    let over = latest.iter().filter(|notice| notice.kind == NoticeKind::Resolved).count();
    let open = latest.len() - over;
    let mut ids: Vec<&str> = notices.iter().map(|notice| notice.id.as_str()).collect();
    ids.sort_unstable();
    let expires_us = notices.iter().map(|notice| notice.expires_us).max()?;
    Some(Notice {
        id: long_id(&[&["digest"][..], ids.as_slice()].concat()),
        kind: NoticeKind::Mail,
        due_us: now_us,
        expires_us,
        order: u64::try_from(now_us).unwrap_or(0),
        change: String::new(),
        on_call: Vec::new(),
        incident: summary(now_us, [open, over], &latest),
        ..(*first).clone()
    })
}

fn summary(now_us: i64, [open, over]: [usize; 2], latest: &[&Notice]) -> IncidentSummary {
    let title = match (open, over) {
        (_, 0) => format!("digest: {open} open incidents"),
        (0, _) => format!("digest: {over} resolved incidents"),
        _ => format!("digest: {open} open incidents, {over} resolved"),
    };
    IncidentSummary {
        id: String::new(),
        class: Urgency::Mail,
        root_rule: DIGEST_RULE.to_owned(),
        host: String::new(),
        tier: String::new(),
        subject: title.clone(),
        summary: format!(
            "{} incidents had mails for you at one time: {open} are open, {over} are resolved.",
            latest.len(),
        ),
        title,
        why: String::new(),
        fix: String::new(),
        evidence: "[]".to_owned(),
        symptoms: latest.iter().take(LINES_MAX).map(|notice| line(notice)).collect(),
        finding_count: latest.len() + 1,
        host_count: 0,
        opened_us: now_us,
        resolved_us: None,
        acked_by: None,
    }
}

/// `MAIL 4K7QX2: web1 disk.fill_eta / is full in 3 days; opened`.
fn line(notice: &Notice) -> SymptomLine {
    let word = match notice.kind {
        NoticeKind::Page => "PAGE",
        NoticeKind::Mail => "MAIL",
        NoticeKind::Ack => "ACK",
        NoticeKind::Resolved => "OK",
        NoticeKind::Test => "TEST",
    };
    let text = format!("{}; {}", notice.incident.title, notice.change);
    let summary = text.chars().take(LINE_CHARS_MAX).collect();
    SymptomLine { rule: word.to_owned(), host: notice.incident.id.clone(), summary }
}
