//! An answer's rows made into subjects with texts, evidence and class.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;

use super::Subject;
use crate::finding::Details;
use crate::template::render;
use crate::{Cell, Class, Row, Rule, TIERS, rows_of};

/// Rows that are read of one answer.
const MAX_ANSWER_ROWS: usize = 10_000;
const MAX_EVIDENCE_ROWS: usize = 50;
const MAX_EVIDENCE_BYTES: usize = 64 * 1024;

/// The rows of an answer that are about one subject.
pub(super) struct Group {
    pub(super) rows: Vec<Row>,
    pub(super) opens: bool,
}

/// The rows of an answer by subject.
pub(super) fn group(
    rule: &Rule,
    answer: &[RecordBatch],
) -> Result<BTreeMap<Subject, Group>, String> {
    let mut groups: BTreeMap<Subject, Group> = BTreeMap::new();
    for row in rows_of(answer, MAX_ANSWER_ROWS) {
        // NULL is not true, as in a SQL condition.
        let opens = matches!(row.get("opens"), None | Some(Cell::Flag(true)));
        let subject = subject_of(rule, &row)?;
        let group =
            groups.entry(subject).or_insert_with(|| Group { rows: Vec::new(), opens: false });
        group.opens |= opens;
        if group.rows.len() < MAX_EVIDENCE_ROWS {
            group.rows.push(row);
        }
    }
    Ok(groups)
}

fn subject_of(rule: &Rule, row: &Row) -> Result<Subject, String> {
    let mut key = serde_json::Map::new();
    for column in rule.key.iter().filter(|column| *column != "host") {
        let cell = row.get(column).ok_or_else(|| {
            format!("the answer of `{}` lacks the key column `{column}`", rule.id)
        })?;
        key.insert(column.clone(), cell.to_json());
    }
    Ok((
        row.text("host").unwrap_or_default().to_owned(),
        serde_json::Value::Object(key).to_string(),
    ))
}

/// The key columns of a finding from their JSON.
pub(crate) fn key_values(key: &str) -> Vec<(String, serde_json::Value)> {
    match serde_json::from_str(key) {
        Ok(serde_json::Value::Object(map)) => map.into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Texts, evidence and class of a subject, from its row of the highest class.
pub(super) fn describe(rule: &Rule, rows: &[Row]) -> (Details, Class) {
    let class_of = |row: &Row| row.text("class").and_then(Class::parse).unwrap_or(rule.class);
    let class = rows.iter().map(class_of).max().unwrap_or(rule.class);
    let Some(row) = rows.iter().find(|row| class_of(row) == class) else {
        return (Details::default(), class);
    };
    let text = |column: &str, template: &str| match row.text(column) {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => render(template, row),
    };
    let tier = row.text("tier").filter(|tier| TIERS.contains(tier)).unwrap_or(&rule.tier);
    let details = Details {
        tier: tier.to_owned(),
        subject: text("subject", &rule.subject),
        summary: text("summary", &rule.summary),
        why: text("why", &rule.why),
        fix: text("fix", &rule.fix),
        evidence: evidence(rows),
        row: Some(row.clone()),
    };
    (details, class)
}

fn evidence(rows: &[Row]) -> String {
    let mut out = String::from("[");
    for row in rows {
        let json = row.to_json();
        if out.len() + json.len() + 2 > MAX_EVIDENCE_BYTES {
            break;
        }
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&json);
    }
    out.push(']');
    out
}
