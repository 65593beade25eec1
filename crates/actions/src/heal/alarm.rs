//! Findings about repairs themselves, which the incident desk sends like others.

use weir_tables::Micros;

use super::HealDesk;
use super::facts::HealFacts;
use super::run::{HealRun, RunState};
use crate::civil_time::{DAY, MINUTE};
use crate::identity::subject_id;
use crate::{Finding, Urgency};

/// A failed run is an alarm for this time at least, and for a day while its finding fires.
const ALARM_US: i64 = 30 * MINUTE;

impl HealDesk {
    /// The findings about repairs at this tick.
    pub(super) fn raise_alarms(&self, now: Micros, facts: &HealFacts<'_>) -> Vec<Finding> {
        let mut alarms = Vec::new();
        for run in self.runs.values() {
            let found =
                facts.firing.iter().find(|found| subject_id(&found.finding) == run.subject_id);
            let class = found.map(|found| found.finding.class);
            alarms.extend(run_alarm(now, run, class));
        }
        if let Some(stop) = self.control.stop.as_ref().filter(|stop| stop.by.is_none()) {
            alarms.push(Finding {
                finding_id: format!("heal-stop-{}", stop.at_us),
                rule: "weir.heal_stopped".to_owned(),
                class: Urgency::Page,
                subject: "all repairs".to_owned(),
                summary: format!("weir stopped all repairs: {}", stop.reason),
                why: "Two failures within an hour mean that the cure or the diagnosis is wrong."
                    .to_owned(),
                fix:
                    "Read `weir heal runs`, correct the action or its rule, then `weir heal start`."
                        .to_owned(),
                ..blank(String::new())
            });
        }
        alarms
    }
}

/// The finding about a run; `class` is the class of the finding that it repairs, while that fires.
fn run_alarm(now: Micros, run: &HealRun, class: Option<Urgency>) -> Option<Finding> {
    let (id, action, host) = (&run.id, &run.action, &run.host);
    let closed = run.closed_us.map(|closed| now.0 - closed);
    let is_recent = closed
        .is_some_and(|age| age < ALARM_US || (age < DAY && class.is_some() && !run.is_released));
    let (rule, class, summary, fix) = match run.state {
        RunState::Asked => (
            "weir.heal_asks",
            class.filter(|class| *class >= Urgency::Mail)?,
            format!("{action} on {host} needs an approval: {}", run.subject),
            format!("`weir heal approve {id} --by NAME`, or `weir heal refuse {id} --by NAME`."),
        ),
        RunState::Failed | RunState::Undone if is_recent && is_failure(run) => (
            "weir.heal_failed",
            Urgency::Page,
            format!("{action} on {host} failed: {}", run.reason),
            format!("Repair {} by hand; `weir heal runs` has the output of run {id}.", run.subject),
        ),
        RunState::Unknown if is_recent => (
            "weir.heal_unknown",
            Urgency::Page,
            format!("{action} on {host} has no outcome: {}", run.reason),
            format!("Check on {host} whether it ran; run {id} is not sent again."),
        ),
        _ => return None,
    };
    Some(Finding {
        finding_id: format!("heal-{id}-{}", run.state.as_str()),
        rule: rule.to_owned(),
        key: serde_json::json!({ "run": id }).to_string(),
        class,
        subject: format!("{action} on {host}"),
        summary,
        why: format!("weir tried to cure {} ({}).", run.rule, run.subject),
        fix,
        ..blank(host.clone())
    })
}

/// Whether a run ended badly; one that a person took back did not.
fn is_failure(run: &HealRun) -> bool {
    run.state == RunState::Failed || run.undo.as_ref().is_some_and(|undo| undo.by.is_none())
}

fn blank(host: String) -> Finding {
    Finding {
        finding_id: String::new(),
        rule: String::new(),
        host,
        key: "{}".to_owned(),
        tier: "host".to_owned(),
        class: Urgency::Note,
        subject: String::new(),
        summary: String::new(),
        why: String::new(),
        fix: String::new(),
        evidence: "[]".to_owned(),
        cause_finding_id: None,
    }
}
