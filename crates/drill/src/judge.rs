//! What a weir made of a fault: the findings are looked at every quarter of a second from the moment at which it was made.
//!
//! *Named right* means: a finding of a right rule fires as a root, and no other root of class page or mail began since;
//! findings about other namespaces of the host are not counted.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::pause;

/// How long is looked.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A fault that is not named by then is missed.
    pub patience: Duration,
    /// How long other findings may still come after the right one.
    pub after: Duration,
    /// How long a scene without a fault is looked at.
    pub nothing: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(40),
            after: Duration::from_secs(6),
            nothing: Duration::from_secs(20),
        }
    }
}

/// What became of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How long after the fault a finding of a right rule fired, of each when there are two.
    pub detected: Option<Duration>,
    /// Whether it was named right; where nothing is wrong, whether all was silent.
    pub is_right: bool,
    /// Roots of class page or mail that are none of the right rules, and other findings that page: at the last look, and where
    /// nothing is wrong at any.
    pub others: BTreeSet<String>,
    /// Rules, none of the right ones, that paged for a moment at least: what woke somebody up and was folded away later too.
    pub paged: BTreeSet<String>,
}

/// The findings that fired before a fault, which are not counted.
pub(crate) fn fired_before(findings: &[Value]) -> BTreeSet<String> {
    findings.iter().map(|finding| text(finding, "finding_id")).collect()
}

fn text(finding: &Value, name: &str) -> String {
    finding[name].as_str().unwrap_or_default().to_owned()
}

/// Looks, for one of each of the right `rules` and in the namespaces `sides` and the host's, at what fires (`firing` answers it as
/// `/api/findings` does) until the fault is named, or patience is at an end.
///
/// # Errors
/// When `firing` fails, or answers that the look was broken off.
pub fn judge<E>(
    rules: &[&[&str]],
    sides: &[&str],
    before: &[Value],
    pace: Pace,
    mut firing: impl FnMut() -> Result<Vec<Value>, E>,
) -> Result<Outcome, E> {
    let began = Instant::now();
    let before = fired_before(before);
    let (mut paged, mut heard) = (BTreeSet::new(), BTreeSet::new());
    let mut new = || {
        let mut findings = firing()?;
        findings.retain(|finding| concerns(finding, sides, &before));
        if rules.is_empty() {
            heard.extend(outcome(rules, &findings, None).others);
        }
        let is_right = |finding: &&Value| rules.iter().any(|group| is_of(group, finding));
        let wrong = findings.iter().filter(|finding| finding["class"] == "page");
        paged.extend(wrong.filter(|finding| !is_right(finding)).map(|one| text(one, "rule")));
        Ok(findings)
    };
    let end = if rules.is_empty() { pace.nothing } else { pace.patience };
    let mut detected = None;
    while detected.is_none() && began.elapsed() < end {
        pause(Duration::from_millis(250));
        let now = new()?;
        let is_named = |group: &&[&str]| now.iter().any(|finding| is_of(group, finding));
        if !rules.is_empty() && rules.iter().all(is_named) {
            detected = Some(began.elapsed());
        }
    }
    let calm = Instant::now();
    while detected.is_some() && calm.elapsed() < pace.after {
        pause(Duration::from_millis(250));
        new()?;
    }
    let last = new()?;
    let Outcome { is_right, mut others, .. } = outcome(rules, &last, detected);
    // Silence is right only when it lasts: what was over before the last look was heard as well.
    others.extend(heard);
    let is_right = is_right && others.is_empty();
    Ok(Outcome { detected, is_right, others, paged })
}

/// Whether a finding is new, and not about a namespace of somebody else's.
fn concerns(finding: &Value, own: &[&str], before: &BTreeSet<String>) -> bool {
    let summary = text(finding, "summary");
    let netns = summary.split("(netns ").nth(1).and_then(|rest| rest.split(')').next());
    let is_ours = netns.is_none_or(|name| name == "host" || own.contains(&name));
    is_ours && !before.contains(&text(finding, "finding_id"))
}

fn is_of(group: &[&str], finding: &Value) -> bool {
    group.contains(&text(finding, "rule").as_str())
}

fn outcome(rules: &[&[&str]], now: &[Value], detected: Option<Duration>) -> Outcome {
    let mut roots: Vec<&Value> = Vec::new();
    let mut others = BTreeSet::new();
    for finding in now {
        let is_symptom = finding["cause_rule"].is_string();
        if rules.iter().any(|group| is_of(group, finding)) {
            roots.extend((!is_symptom).then_some(finding));
        } else if finding["class"] != "note" && !is_symptom || finding["class"] == "page" {
            others.insert(text(finding, "rule"));
        }
    }
    let is_root = |group: &&[&str]| roots.iter().any(|finding| is_of(group, finding));
    let is_right = rules.iter().all(is_root) && others.is_empty();
    Outcome { detected, is_right, others, paged: BTreeSet::new() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finding(rule: &str, class: &str, cause: Option<&str>) -> Value {
        json!({"finding_id": rule, "rule": rule, "class": class, "summary": "", "cause_rule": cause})
    }

    #[test]
    fn a_right_root_with_symptoms_is_right_and_another_root_is_not() {
        let right: &[&[&str]] = &[&["disk.slow", "disk.stuck"]];
        let root = finding("disk.slow", "page", None);
        let symptom = finding("app.slow", "note", Some("disk.slow"));
        let other = finding("wire.loss", "mail", None);
        let at = Some(Duration::from_secs(1));
        assert!(outcome(right, &[root.clone(), symptom.clone()], at).is_right);
        assert!(!outcome(right, std::slice::from_ref(&symptom), None).is_right);
        let both = outcome(right, &[root, other], at);
        assert!(!both.is_right && both.others.contains("wire.loss"));
        assert!(outcome(&[], &[], None).is_right);
        assert!(outcome(&[], &[finding("a.b", "note", None)], None).is_right);
        assert!(!outcome(&[], &[finding("a.b", "mail", None)], None).is_right);
    }

    #[test]
    fn what_was_over_before_the_last_look_broke_the_silence() {
        let pace = Pace { nothing: Duration::from_millis(600), ..Pace::default() };
        let after = |looks: usize, class: &str| {
            let mut look = 0;
            judge(&[], &[], &[], pace, || {
                look += 1;
                let said = (look == looks).then(|| finding("a.b", class, None));
                Ok::<_, ()>(said.into_iter().collect())
            })
        };
        assert!(after(1, "note").unwrap().is_right);
        let mailed = after(1, "mail").unwrap();
        assert!(!mailed.is_right && mailed.others.contains("a.b") && mailed.paged.is_empty());
        let paged = after(2, "page").unwrap();
        assert!(!paged.is_right && paged.others == paged.paged);
        assert!(after(100, "page").unwrap().is_right, "it was looked at only for 600 ms");
    }

    #[test]
    fn findings_about_other_namespaces_or_from_before_are_not_counted() {
        let named = |summary: &str| json!({"finding_id": "f", "summary": summary});
        let before = BTreeSet::new();
        let own = ["weir-drill-1-0s", "weir-drill-1-0c"];
        assert!(concerns(&named("12 dropped (netns weir-drill-1-0s)"), &own, &before));
        assert!(concerns(&named("12 dropped (netns host)"), &own, &before));
        assert!(concerns(&named("a disk is full"), &own, &before));
        assert!(!concerns(&named("12 dropped (netns other)"), &own, &before));
        assert!(!concerns(&named("a disk is full"), &own, &BTreeSet::from(["f".to_owned()])));
    }
}
