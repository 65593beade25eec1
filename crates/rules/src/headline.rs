//! One paragraph over all open findings: the roots, since when, and their symptoms.
//!
//! A rule that fires for several subjects is one sentence, because whether one member fails or all
//! of them is the first thing to know.

use std::collections::BTreeMap;

use crate::{Class, OpenFinding, State};

/// Roots in the text; further ones are counted.
const ROOT_LIMIT: usize = 3;
/// Subjects in one list; further ones are counted.
const NAME_LIMIT: usize = 4;

/// The headline over these findings; `None` if no root of class mail or page fires, and no symptom is
/// held because its cause ended.
pub fn headline<'a>(findings: impl IntoIterator<Item = &'a OpenFinding>) -> Option<String> {
    let firing: Vec<&OpenFinding> =
        findings.into_iter().filter(|finding| finding.state == State::Firing).collect();
    let mut by_rule: BTreeMap<&str, Vec<&OpenFinding>> = BTreeMap::new();
    for root in firing.iter().filter(|finding| is_shown(finding)) {
        by_rule.entry(&root.rule).or_default().push(root);
    }
    let mut groups: Vec<Vec<&OpenFinding>> = by_rule.into_values().collect();
    for group in &mut groups {
        group.sort_by_key(|root| (std::cmp::Reverse(root.class), root.started_ts));
    }
    groups.sort_by_key(|group| {
        let symptoms = firing.iter().filter(|finding| is_symptom_of(finding, group)).count();
        let worst = group.iter().map(|root| root.class).max();
        (std::cmp::Reverse((worst, symptoms)), group[0].started_ts)
    });
    let mut sentences: Vec<String> =
        groups.iter().take(ROOT_LIMIT).map(|group| sentence(group, &firing)).collect();
    if groups.len() > ROOT_LIMIT {
        sentences.push(format!("{} more findings have other roots.", groups.len() - ROOT_LIMIT));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Whether a finding is a root that matters, or a symptom that is held because its cause ended.
fn is_shown(finding: &OpenFinding) -> bool {
    finding.is_root() && (finding.class > Class::Note || finding.cause_ended_ts().is_some())
}

fn is_symptom_of(finding: &OpenFinding, roots: &[&OpenFinding]) -> bool {
    let cause = finding.cause.as_ref();
    cause.is_some_and(|cause| roots.iter().any(|root| root.finding_id == cause.finding_id))
}

fn sentence(roots: &[&OpenFinding], firing: &[&OpenFinding]) -> String {
    let first = roots[0];
    let since = first.started_ts.to_string();
    let clock = since.get(11..19).unwrap_or(&since);
    let mut text = format!("Since {clock} UTC: {}.", first.summary().trim_end_matches('.'));
    if roots.len() > 1 {
        let others = roots[1..].iter().map(|root| subject_on_host(root)).collect();
        text += &format!(" Also on {}.", list(others));
    }
    let behind: Vec<&&OpenFinding> =
        firing.iter().filter(|finding| is_symptom_of(finding, roots)).collect();
    if !behind.is_empty() {
        let names = behind.iter().map(|f| format!("{} ({})", subject_on_host(f), f.rule)).collect();
        text += &format!(" Symptoms: {}.", list(names));
    }
    text
}

/// The subject, with the host if the subject does not name it.
fn subject_on_host(finding: &OpenFinding) -> String {
    if finding.host.is_empty() || finding.subject().contains(&finding.host) {
        return finding.subject().to_owned();
    }
    format!("{} of {}", finding.subject(), finding.host)
}

fn list(names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAME_LIMIT);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
