//! Groups the rows of a result by subject, and renders texts, evidence and class.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;

use super::Subject;
use crate::finding::FindingDetails;
use crate::template::render;
use crate::texts;
use crate::{Cell, Class, Row, Rule, TIERS, rows_of};

/// Rows that are read of one result.
const MAX_ANSWER_ROWS: usize = 10_000;
const MAX_EVIDENCE_ROWS: usize = 50;
const MAX_EVIDENCE_BYTES: usize = 64 * 1024;

/// The rows of one subject.
pub(super) struct SubjectRows {
    pub(super) rows: Vec<Row>,
    pub(super) opens: bool,
}

/// The rows of a result by subject.
pub(super) fn rows_by_subject(
    rule: &Rule,
    answer: &[RecordBatch],
) -> Result<BTreeMap<Subject, SubjectRows>, String> {
    let mut groups: BTreeMap<Subject, SubjectRows> = BTreeMap::new();
    for mut row in rows_of(answer, MAX_ANSWER_ROWS) {
        texts::fill(&rule.texts, &mut row);
        // NULL is not true, as in a SQL condition.
        let opens = matches!(row.get("opens"), None | Some(Cell::Flag(true)));
        let subject = subject_of(rule, &row)?;
        let group =
            groups.entry(subject).or_insert_with(|| SubjectRows { rows: Vec::new(), opens: false });
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
            format!("the result of `{}` lacks the key column `{column}`", rule.id)
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
pub(super) fn describe(rule: &Rule, rows: &[Row]) -> (FindingDetails, Class) {
    let class = rows.iter().map(|row| class_of(rule, row)).max().unwrap_or(rule.class);
    let Some(row) = rows.iter().find(|row| class_of(rule, row) == class) else {
        return (FindingDetails::default(), class);
    };
    let tier = row.text("tier").filter(|tier| TIERS.contains(tier)).unwrap_or(&rule.tier);
    let details = FindingDetails {
        tier: tier.to_owned(),
        subject: text_of(row, ("subject", &rule.subject)),
        summary: text_of(row, ("summary", &rule.summary)),
        why: text_of(row, ("why", &rule.why)),
        fix: text_of(row, ("fix", &rule.fix)),
        evidence: evidence(rows),
        equal: rule.equal.clone(),
        row: Some(row.clone()),
    };
    (details, class)
}

fn class_of(rule: &Rule, row: &Row) -> Class {
    row.text("class").and_then(Class::parse).unwrap_or(rule.class)
}

/// The row's own text in this column, else the template of the head.
fn text_of(row: &Row, (column, template): (&str, &str)) -> String {
    match row.text(column) {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => render(template, row),
    }
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
