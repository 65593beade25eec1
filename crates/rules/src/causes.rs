//! The graph of causes: which rule's firing findings explain which other rule's.
//!
//! An edge is written once, in the head of the cause: `explains = ["app.slow"]`. So a new cause,
//! also a user's own, names its symptoms and touches no other file. The older form, `explained_by`
//! in the head of the symptom, still works; it is meant exactly, as it was: no built-in cause is
//! added to it.
//!
//! ```text
//! disk.stuck ──► app.blocked_on_store ──► app.slow ──► client.aborts_499
//!      └──────────────────────────────────►┘
//! evaluated from left to right: a symptom finds its cause in the same round
//! ```

use std::collections::BTreeSet;

use crate::Rule;
use crate::built_in::ORIGIN;

/// Fills in each rule's causes, preferred ones first: those of `prefers` in its order, then those
/// of `explained_by` in its order, the others in the order of `rules`.
pub(crate) fn resolve_causes(rules: &mut [Rule]) {
    let causes: Vec<Vec<String>> = rules.iter().map(|rule| causes_of(rule, rules)).collect();
    for (rule, causes) in rules.iter_mut().zip(causes) {
        rule.causes = causes;
    }
}

fn causes_of(symptom: &Rule, rules: &[Rule]) -> Vec<String> {
    let mut causes = symptom.explained_by.clone().unwrap_or_default();
    let is_closed = symptom.explained_by.is_some();
    for rule in rules {
        let is_open = !is_closed || rule.origin != ORIGIN;
        let explains = rule.explains.iter().flatten().any(|id| *id == symptom.id);
        if is_open && explains && !causes.contains(&rule.id) {
            causes.push(rule.id.clone());
        }
    }
    // Stable, so the others keep their order.
    let rank = |id: &String| symptom.prefers.iter().position(|preferred| preferred == id);
    causes.sort_by_key(|id| rank(id).unwrap_or(usize::MAX));
    causes
}

/// Sorts causes before their symptoms; rules without an edge between them keep their order.
///
/// Rules that explain each other, which only a user's rules may do, start with the first of them.
pub(crate) fn causes_first(rules: Vec<Rule>) -> Vec<Rule> {
    let mut pending: BTreeSet<String> = rules.iter().map(|rule| rule.id.clone()).collect();
    let mut remaining = rules;
    let mut sorted = Vec::with_capacity(remaining.len());
    while !remaining.is_empty() {
        let next = remaining.iter().position(|rule| is_ready(rule, &pending)).unwrap_or(0);
        let next = remaining.remove(next);
        pending.remove(&next.id);
        sorted.push(next);
    }
    sorted
}

/// Whether none of a rule's causes is still pending.
fn is_ready(rule: &Rule, pending: &BTreeSet<String>) -> bool {
    rule.causes.iter().all(|cause| *cause == rule.id || !pending.contains(cause))
}
