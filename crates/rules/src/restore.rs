//! Restores open findings after a restart, from the rows of the table `finding`.
//!
//! The newest row of each `finding_id` counts. Rows may come in any order, resolved findings
//! included.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use arrow_array::RecordBatch;
use weir_tables::Micros;

use crate::engine::{Engine, Subject, key_values};
use crate::finding::{Cause, EndedCause, FindingDetails, WrittenRow};
use crate::{Cell, Class, OpenFinding, Row, State, Transition, rows_of};

/// Rows that are read: 1,000 findings of 20 rules with some rows each.
const MAX_ROWS: usize = 200_000;

impl Engine {
    /// Restores the findings that are open in `finding_rows` (columns of the table `finding`).
    pub fn restore(&mut self, finding_rows: &[RecordBatch]) {
        let mut newest: BTreeMap<String, (Micros, OpenFinding)> = BTreeMap::new();
        for row in rows_of(finding_rows, MAX_ROWS) {
            let Some((ts, finding)) = read(&row) else { continue };
            let is_newer = newest.get(&finding.finding_id).is_none_or(|(before, kept)| {
                (ts, finding.state == State::Resolved) >= (*before, kept.state == State::Resolved)
            });
            if is_newer {
                newest.insert(finding.finding_id.clone(), (ts, finding));
            }
        }
        for (_, finding) in newest.into_values() {
            let subject = (finding.host.clone(), finding.key.clone());
            if let Some(fired) = finding.fired_ts {
                let times = self.fires.entry((finding.rule.clone(), subject.clone())).or_default();
                times.push(fired);
                times.sort();
            }
            if finding.state != State::Resolved {
                self.restore_open(subject, finding);
            }
        }
    }

    /// Restores an open finding. Two hubs that ran the rules at once may each have opened one about
    /// the same subject: the older one is kept.
    fn restore_open(&mut self, subject: Subject, finding: OpenFinding) {
        let open = &mut self.states.entry(finding.rule.clone()).or_default().open;
        match open.entry(subject) {
            Entry::Vacant(entry) => {
                entry.insert(finding);
            }
            Entry::Occupied(mut entry) if finding.started_ts < entry.get().started_ts => {
                self.doubles.push(entry.insert(finding));
            }
            Entry::Occupied(_) => self.doubles.push(finding),
        }
    }

    /// Resolves the findings of rules that no longer exist, and all but one about the same subject.
    /// Call once after [`Engine::restore`].
    pub fn retire(&mut self, now: Micros) -> Vec<Transition> {
        let mut out = Vec::new();
        for double in std::mem::take(&mut self.doubles) {
            out.push(resolve(double, now, " (an older finding is about the same subject)"));
        }
        let rules = &self.rules;
        self.states.retain(|id, state| {
            if rules.iter().any(|rule| rule.id == *id) {
                return true;
            }
            for finding in std::mem::take(&mut state.open).into_values() {
                out.push(resolve(finding, now, " (the rule no longer exists)"));
            }
            false
        });
        out
    }
}

fn resolve(mut finding: OpenFinding, now: Micros, why: &str) -> Transition {
    let from = finding.state;
    finding.state = State::Resolved;
    finding.resolved_ts = Some(now);
    finding.details.summary.push_str(why);
    Transition { ts: now, from, finding }
}

fn read(row: &Row) -> Option<(Micros, OpenFinding)> {
    let state = match row.text("state")? {
        "pending" => State::Pending,
        "firing" => State::Firing,
        "resolved" => State::Resolved,
        _ => return None,
    };
    let (ts, class) = (time_of(row, "ts")?, Class::parse(row.text("class")?)?);
    let summary = text_of(row, "summary");
    let cause = row.text("cause_finding_id").zip(row.text("cause_rule"));
    let cause = cause.map(|(id, rule)| Cause { finding_id: id.to_owned(), rule: rule.to_owned() });
    let highest_class = row.text("own_class").and_then(Class::parse).unwrap_or(class);
    // A root is a note of a higher class only while it is held because its cause ended.
    let is_held = cause.is_none() && class == Class::Note && highest_class > Class::Note;
    let ended_cause = is_held.then(|| EndedCause {
        ended_ts: ts,
        rule: String::new(),
        evidence_class: highest_class,
    });
    let finding = OpenFinding {
        finding_id: row.text("finding_id")?.to_owned(),
        rule: row.text("rule")?.to_owned(),
        host: text_of(row, "host"),
        key: text_of(row, "key"),
        class,
        state,
        started_ts: time_of(row, "started_ts")?,
        fired_ts: time_of(row, "fired_ts"),
        resolved_ts: time_of(row, "resolved_ts"),
        cause: cause.clone(),
        ended_cause,
        evidence_class: highest_class,
        details: FindingDetails {
            tier: text_of(row, "tier"),
            subject: text_of(row, "subject"),
            summary: summary.clone(),
            why: text_of(row, "why"),
            fix: text_of(row, "fix"),
            evidence: text_of(row, "evidence"),
            equal: Vec::new(),
            row: None,
        },
        key_values: key_values(row.text("key").unwrap_or_default()),
        highest_class,
        is_flapping: false,
        absent_since: None,
        written: WrittenRow { ts, class, row: None, summary, cause },
    };
    Some((ts, finding))
}

fn text_of(row: &Row, column: &str) -> String {
    row.text(column).unwrap_or_default().to_owned()
}

fn time_of(row: &Row, column: &str) -> Option<Micros> {
    match row.get(column) {
        Some(Cell::Time(at)) => Some(*at),
        _ => None,
    }
}
