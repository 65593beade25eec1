//! Rows of `incident` and `notice`, and the findings that the desk of incidents works on.

use weir_actions::{
    Finding, Incident as KeptIncident, IncidentChange, IncidentState, IncidentSummary, Urgency,
};
use weir_notify::outbox::NoticeChange;
use weir_rules::OpenFinding;
use weir_tables::{Batch, Incident, IncidentRows, Micros, Notice, NoticeRows, Rows};

/// Firing findings, as the desk of incidents takes them.
pub(crate) fn facts<'a>(
    firing: impl Iterator<Item = &'a OpenFinding>,
    now: Micros,
) -> Vec<Finding> {
    firing.map(|finding| fact(finding, now)).collect()
}

/// A firing finding, as the desks take it.
pub(crate) fn fact(open: &OpenFinding, now: Micros) -> Finding {
    let row = open.row(now);
    Finding {
        finding_id: row.finding_id.to_owned(),
        rule: row.rule.to_owned(),
        host: row.host.to_owned(),
        key: row.key.to_owned(),
        tier: row.tier.to_owned(),
        class: Urgency::parse(row.class).unwrap_or_default(),
        subject: row.subject.to_owned(),
        summary: row.summary.to_owned(),
        why: row.why.to_owned(),
        fix: row.fix.to_owned(),
        evidence: row.evidence.to_owned(),
        cause_finding_id: row.cause_finding_id.map(str::to_owned),
    }
}

/// Rows of `incident`.
pub(super) fn incidents(changes: &[IncidentChange]) -> Batch {
    let mut rows = IncidentRows::default();
    for change in changes {
        rows.push(&Incident {
            root_finding_id: &change.root_finding_id,
            merged_into: change.merged_into.as_deref(),
            change: &change.text,
            ..row(change.ts, change.state, &change.incident)
        });
    }
    Batch { table: IncidentRows::SPEC, rows: rows.finish() }
}

/// Rows of the incidents that a start finds in the ledger; `None` without any.
pub(super) fn taken_over<'a>(
    known: impl Iterator<Item = &'a KeptIncident>,
    now: Micros,
) -> Option<Batch> {
    let mut rows = IncidentRows::default();
    for incident in known {
        rows.push(&Incident {
            root_finding_id: incident.root_finding_id(),
            merged_into: incident.merged_into(),
            change: "taken over",
            ..row(now, incident.state(), &incident.summary())
        });
    }
    (rows.len() > 0).then(|| Batch { table: IncidentRows::SPEC, rows: rows.finish() })
}

/// The columns that are in an incident's summary.
fn row(ts: Micros, state: IncidentState, incident: &IncidentSummary) -> Incident<'_> {
    let acked_by = incident.acked_by.as_deref();
    Incident {
        ts,
        host: &incident.host,
        incident_id: &incident.id,
        state: match state {
            IncidentState::Open if acked_by.is_some() => "acked",
            state => state.as_str(),
        },
        class: incident.class.as_str(),
        root_rule: &incident.root_rule,
        root_finding_id: "",
        title: &incident.title,
        finding_count: count(incident.finding_count),
        host_count: count(incident.host_count),
        opened_ts: Micros(incident.opened_us),
        acked_by,
        resolved_ts: incident.resolved_us.map(Micros),
        merged_into: None,
        change: "",
    }
}

/// Rows of `notice`.
pub(super) fn notices(changes: &[NoticeChange], host: &str) -> Batch {
    let mut rows = NoticeRows::default();
    for change in changes {
        rows.push(&Notice {
            ts: Micros(change.ts_us),
            host,
            notice_id: &change.notice.id,
            incident_id: &change.notice.incident.id,
            kind: change.notice.kind.as_str(),
            receiver: &change.notice.receiver,
            person: change.notice.person.as_deref(),
            state: change.state.as_str(),
            attempt: i64::from(change.attempt),
            is_repeat: change.is_repeat,
            answer: change.answer.as_deref(),
            latency_seconds: change.latency_seconds,
        });
    }
    Batch { table: NoticeRows::SPEC, rows: rows.finish() }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
