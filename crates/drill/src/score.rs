//! Scores what a weir reports about a fault. Polls its findings every 250 ms from the injection on.
//!
//! A fault is *named right* if a finding of an acceptable rule fires as a root cause, and no other
//! root cause of class page or mail began since. Findings about other network namespaces of the
//! host do not count.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::pause;

/// Time between two polls.
const POLL: Duration = Duration::from_millis(250);

/// How long to watch.
#[derive(Clone, Copy, Debug)]
pub struct ScoreTiming {
    /// Time until a fault that is not named counts as missed.
    pub patience: Duration,
    /// How long to watch for other findings after the right one.
    pub after: Duration,
    /// How long to watch a testbed without a fault.
    pub nothing: Duration,
}

impl Default for ScoreTiming {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(40),
            after: Duration::from_secs(6),
            nothing: Duration::from_secs(20),
        }
    }
}

/// Result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Time from the fault until an acceptable rule fired, for every group of rules.
    pub detected: Option<Duration>,
    /// Whether it was named right; without a fault, whether all was silent.
    pub is_right: bool,
    /// Other root causes of class page or mail, and other findings that page: at the last poll, or
    /// at any poll if nothing is wrong.
    pub others: BTreeSet<String>,
    /// Other rules that paged at any poll, even if they became symptoms later.
    pub paged: BTreeSet<String>,
}

/// Ids of the findings that fired before a fault, which do not count.
pub(crate) fn fired_before(findings: &[Value]) -> BTreeSet<String> {
    findings.iter().map(|finding| text(finding, "finding_id")).collect()
}

fn text(finding: &Value, name: &str) -> String {
    finding[name].as_str().unwrap_or_default().to_owned()
}

/// Polls `firing`, which returns what `/api/findings` does, until every group of `rules` has fired
/// or patience ends. Counts findings about the namespaces `sides` and the host's.
///
/// # Errors
/// When `firing` fails, also to cancel.
pub fn score<E>(
    rules: &[&[&str]],
    sides: &[&str],
    before: &[Value],
    timing: ScoreTiming,
    firing: impl FnMut() -> Result<Vec<Value>, E>,
) -> Result<Outcome, E> {
    let began = Instant::now();
    let mut poller = FindingPoller {
        rules,
        sides,
        before: fired_before(before),
        firing,
        paged: BTreeSet::new(),
        silence_broken_by: BTreeSet::new(),
    };
    let end = if rules.is_empty() { timing.nothing } else { timing.patience };
    let mut detected = None;
    while detected.is_none() && began.elapsed() < end {
        pause(POLL);
        let now = poller.poll()?;
        let mut groups = rules.iter();
        if !rules.is_empty() && groups.all(|group| now.iter().any(|finding| is_of(group, finding)))
        {
            detected = Some(began.elapsed());
        }
    }
    let named = Instant::now();
    while detected.is_some() && named.elapsed() < timing.after {
        pause(POLL);
        poller.poll()?;
    }
    let last = poller.poll()?;
    let Outcome { is_right, mut others, .. } = outcome(rules, &last, detected);
    others.extend(poller.silence_broken_by);
    let is_right = is_right && others.is_empty();
    Ok(Outcome { detected, is_right, others, paged: poller.paged })
}

/// Polls findings and remembers what fired for a short time only.
struct FindingPoller<'a, F> {
    rules: &'a [&'a [&'a str]],
    sides: &'a [&'a str],
    before: BTreeSet<String>,
    firing: F,
    paged: BTreeSet<String>,
    /// Wrong findings at any poll while nothing is wrong: silence counts only if it lasts.
    silence_broken_by: BTreeSet<String>,
}

impl<F, E> FindingPoller<'_, F>
where
    F: FnMut() -> Result<Vec<Value>, E>,
{
    /// Returns the findings since the fault.
    fn poll(&mut self) -> Result<Vec<Value>, E> {
        let mut findings = (self.firing)()?;
        findings.retain(|finding| concerns(finding, self.sides, &self.before));
        if self.rules.is_empty() {
            self.silence_broken_by.extend(outcome(self.rules, &findings, None).others);
        }
        for finding in findings.iter().filter(|finding| finding["class"] == "page") {
            if !self.rules.iter().any(|group| is_of(group, finding)) {
                self.paged.insert(text(finding, "rule"));
            }
        }
        Ok(findings)
    }
}

/// Whether a finding is new, and about the host or one of these namespaces.
fn concerns(finding: &Value, sides: &[&str], before: &BTreeSet<String>) -> bool {
    let summary = text(finding, "summary");
    let netns = summary.split("(netns ").nth(1).and_then(|rest| rest.split(')').next());
    let is_ours = netns.is_none_or(|name| name == "host" || sides.contains(&name));
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
    let are_named = rules.iter().all(|group| roots.iter().any(|finding| is_of(group, finding)));
    let is_right = are_named && others.is_empty();
    Outcome { detected, is_right, others, paged: BTreeSet::new() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finding(rule: &str, class: &str, cause: Option<&str>) -> Value {
        json!({"finding_id": rule, "rule": rule, "class": class, "summary": "", "cause_rule": cause})
    }

    fn named(summary: &str) -> Value {
        json!({"finding_id": "f", "summary": summary})
    }

    #[test]
    fn a_right_root_cause_with_symptoms_is_right_and_another_root_cause_is_not() {
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
    fn a_finding_resolved_before_the_last_poll_breaks_the_silence() {
        let timing = ScoreTiming { nothing: Duration::from_millis(600), ..ScoreTiming::default() };
        let after = |polls: usize, class: &str| {
            let mut poll = 0;
            score(&[], &[], &[], timing, || {
                poll += 1;
                let fired = (poll == polls).then(|| finding("a.b", class, None));
                Ok::<_, ()>(fired.into_iter().collect())
            })
        };
        assert!(after(1, "note").unwrap().is_right);
        let mailed = after(1, "mail").unwrap();
        assert!(!mailed.is_right && mailed.others.contains("a.b") && mailed.paged.is_empty());
        let paged = after(2, "page").unwrap();
        assert!(!paged.is_right && paged.others == paged.paged);
        assert!(after(100, "page").unwrap().is_right, "it polls for 600 ms only");
    }

    #[test]
    fn findings_about_other_namespaces_or_from_before_are_not_counted() {
        let before = BTreeSet::new();
        let own = ["weir-drill-1-0s", "weir-drill-1-0c"];
        assert!(concerns(&named("12 dropped (netns weir-drill-1-0s)"), &own, &before));
        assert!(concerns(&named("12 dropped (netns host)"), &own, &before));
        assert!(concerns(&named("a disk is full"), &own, &before));
        assert!(!concerns(&named("12 dropped (netns other)"), &own, &before));
        assert!(!concerns(&named("a disk is full"), &own, &BTreeSet::from(["f".to_owned()])));
    }
}
