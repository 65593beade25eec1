//! Doctor's answer: text grouped by tier, worst first, or JSON.

use serde_json::{Value, json};
use weir_config::place::is_root;
use weir_process::terminal::Paint;
use weir_rules::{Class, OpenFinding, State, headline};

use super::Diagnosis;

/// `[{rule, tier, class, subject, evidence, why, fix, summary, host, cause_rule}]`, worst first;
/// `cause_rule` is NULL for a root.
pub(super) fn json(diagnosis: &Diagnosis) -> String {
    let findings: Vec<Value> = sorted(diagnosis).into_iter().map(object).collect();
    serde_json::to_string_pretty(&findings).expect("text and arrays become JSON")
}

fn object(finding: &OpenFinding) -> Value {
    json!({
        "rule": finding.rule,
        "tier": finding.tier(),
        "class": class(finding),
        "subject": finding.subject(),
        "evidence": serde_json::from_str::<Value>(finding.evidence()).unwrap_or_default(),
        "why": finding.why(),
        "fix": finding.fix(),
        "summary": summary(finding),
        "host": finding.host,
        "cause_rule": finding.cause.as_ref().map(|cause| cause.rule.as_str()),
    })
}

/// The finding's sentence, and whether the rule would wait longer.
fn summary(finding: &OpenFinding) -> String {
    match finding.state {
        State::Firing => finding.summary().to_owned(),
        _ => format!("{} ({NOT_YET})", finding.summary()),
    }
}

const NOT_YET: &str = "seen just now; the rule waits longer before it fires, so look again";

/// Pending findings are notes.
fn class(finding: &OpenFinding) -> &'static str {
    if finding.state == State::Firing { finding.class.as_str() } else { "note" }
}

fn rank(finding: &OpenFinding) -> u8 {
    match (finding.state, finding.class) {
        (State::Firing, Class::Page) => 0,
        (State::Firing, Class::Mail) => 1,
        (State::Firing, _) => 2,
        _ => 3,
    }
}

/// Tiers in the order of their worst finding, and each tier's findings worst first.
fn sorted(diagnosis: &Diagnosis) -> Vec<&OpenFinding> {
    let worst_of = |tier: &str| {
        diagnosis.findings.iter().filter(|f| f.tier() == tier).map(rank).min().unwrap_or(u8::MAX)
    };
    let mut findings: Vec<&OpenFinding> = diagnosis.findings.iter().collect();
    findings.sort_by_cached_key(|finding| {
        let tier = finding.tier().to_owned();
        (worst_of(&tier), tier, rank(finding), finding.rule.clone(), finding.subject().to_owned())
    });
    findings
}

/// Text for a person.
pub(super) fn text(diagnosis: &Diagnosis, paint: Paint) -> String {
    let mut out = String::new();
    let mut tier = String::new();
    if let Some(headline) = headline(&diagnosis.findings) {
        out += &format!("{headline}\n\n");
    }
    // A symptom is shown below its root, in one line.
    for finding in
        sorted(diagnosis).into_iter().filter(|finding| root(diagnosis, finding).is_none())
    {
        if finding.tier() != tier {
            tier = finding.tier().to_owned();
            out += &format!("{}\n", paint.bold(&tier));
        }
        out += &one(diagnosis, finding, paint);
    }
    if diagnosis.findings.is_empty() {
        out += "no problems found\n\n";
    }
    out += &paint.dim(&checked(diagnosis));
    out
}

/// The open finding that this one is a symptom of.
fn root<'a>(diagnosis: &'a Diagnosis, finding: &OpenFinding) -> Option<&'a OpenFinding> {
    let cause = finding.cause.as_ref()?;
    diagnosis.findings.iter().find(|other| other.finding_id == cause.finding_id)
}

fn one(diagnosis: &Diagnosis, finding: &OpenFinding, paint: Paint) -> String {
    let class = class(finding);
    let mut out = format!(
        "  {}  {}  {}\n",
        paint.of_class(class).paint(class),
        paint.bold(finding.subject()),
        paint.dim(&finding.rule)
    );
    out += &FindingPart { lead: "    ", text: &summary(finding) }.indented();
    out += &FindingPart { lead: "    why  ", text: finding.why() }.indented();
    out += &FindingPart { lead: "    fix  ", text: finding.fix() }.indented();
    for symptom in sorted(diagnosis) {
        if root(diagnosis, symptom).is_some_and(|root| root.finding_id == finding.finding_id) {
            let text = format!("{}: {}", symptom.rule, summary(symptom));
            out += &FindingPart { lead: "    symptom  ", text: &text }.indented();
        }
    }
    out + "\n"
}

/// A part of a finding, whose further lines are indented as far as its first one.
struct FindingPart<'a> {
    lead: &'static str,
    text: &'a str,
}

impl FindingPart<'_> {
    fn indented(&self) -> String {
        let below = format!("\n{}", " ".repeat(self.lead.chars().count()));
        match self.text.trim() {
            "" => String::new(),
            text => format!("{}{}\n", self.lead, text.replace('\n', &below)),
        }
    }
}

fn checked(diagnosis: &Diagnosis) -> String {
    let how = if diagnosis.is_recorded { "recorded host" } else { "host" };
    let mut out = format!(
        "looked at {how} `{}` for {:.0} s: {} rows, {} rules",
        diagnosis.host, diagnosis.seconds, diagnosis.row_count, diagnosis.rule_count
    );
    for (rule, error) in &diagnosis.failed_rules {
        out += &format!("\nnot checked: {rule}: {}", error.replace('\n', "\n             "));
    }
    for blind in &diagnosis.blind {
        out += &format!("\nnot seen: {}", blind.replace('\n', "\n          "));
    }
    if !diagnosis.is_recorded && !is_root() {
        out += "\nnot root: owners of other users' sockets, kernel messages, other network namespaces and some \
                logs cannot be read\nhint: sudo weir doctor";
    }
    out
}
