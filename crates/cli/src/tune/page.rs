//! Proposals as text, as a file for `/etc/sysctl.d`, and as JSON.

use serde_json::{Value, json};
use weir_process::terminal::Paint;
use weir_rules::{MYTHS, NEVER, SettingNotes};

use super::Proposal;

/// For a person.
pub(super) fn text(proposals: &[Proposal], paint: Paint) -> String {
    let mut out = String::new();
    for proposal in proposals {
        let place = proposal.set_in.as_ref().map_or_else(String::new, |at| format!(" ({at})"));
        out += &format!(
            "{}: {}{place} -> {}\n",
            paint.bold(&proposal.name),
            proposal.current,
            proposal.suggested
        );
        let (risk, interaction) = setting(proposal);
        for (name, text) in [
            ("write", proposal.fix.as_str()),
            ("evidence", &proposal.summary),
            ("reason", &proposal.reason),
            ("risk", risk),
            ("goes with", interaction),
            ("look first", &proposal.rule.look_at),
        ] {
            out += &format!("  {name}: {text}\n");
        }
        out.push('\n');
    }
    if proposals.is_empty() {
        out += "nothing to tune: no counter of this host asks for another setting\n\n";
    }
    out += &paint.bold("never set");
    out.push('\n');
    for (name, why) in NEVER {
        out += &format!("  {name}: {why}\n");
    }
    out += &paint.bold("common advice that is wrong");
    out.push('\n');
    for (myth, truth) in MYTHS {
        out += &format!("  {myth}: {truth}\n");
    }
    out.trim_end().to_owned()
}

/// Risk and interaction.
fn setting(proposal: &Proposal) -> (&str, &str) {
    let setting: Option<&SettingNotes> = proposal.rule.setting.as_ref();
    setting.map_or(("", ""), |setting| (&setting.risk, &setting.interaction))
}

/// A file for `/etc/sysctl.d`: what is not a kernel setting is left out.
pub(super) fn sysctl(proposals: &[Proposal]) -> String {
    let mut out =
        "# Proposed by `weir tune` from this host's own counters. Apply: sysctl --system\n"
            .to_owned();
    for proposal in proposals.iter().filter(|proposal| proposal.edit.is_none()) {
        let (risk, interaction) = setting(proposal);
        let comments = [
            ("evidence", proposal.summary.as_str()),
            ("reason", &proposal.reason),
            ("risk", risk),
            ("goes with", interaction),
            ("before", &proposal.current),
        ];
        out.push('\n');
        for (name, text) in comments {
            out += &format!("# {name}: {text}\n");
        }
        out += &format!("{} = {}\n", proposal.name, proposal.suggested);
    }
    out.trim_end().to_owned()
}

/// An array of objects.
pub(super) fn json(proposals: &[Proposal]) -> Value {
    proposals.iter().map(proposal_object).collect::<Vec<_>>().into()
}

fn proposal_object(proposal: &Proposal) -> Value {
    let (risk, interaction) = setting(proposal);
    let evidence: Value = serde_json::from_str(&proposal.evidence).unwrap_or_default();
    json!({
        "id": proposal.rule.id,
        "name": proposal.name,
        "current": proposal.current,
        "suggested": proposal.suggested,
        "set_in": proposal.set_in,
        "write": proposal.fix,
        "summary": proposal.summary,
        "reason": proposal.reason,
        "risk": risk,
        "interaction": interaction,
        "look_at": proposal.rule.look_at,
        "source": proposal.rule.source,
        "evidence": evidence,
    })
}
