//! Mistakes of a heal policy: unknown rules, parameters that no host would accept, doubled entries.

use std::collections::BTreeSet;

use weir_tables::nearest;

use super::policy::{HealEntry, HealPolicy};
use super::target::{check_value, placeholder};

/// A mistake in a heal policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealProblem {
    /// Position of the entry, from 0.
    pub entry: usize,
    /// The key.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// Whether it must be refused; else it is a warning.
    pub is_error: bool,
}

/// All mistakes of a policy; `rules` are the ids of the rules that are loaded.
pub fn check_heal(policy: &HealPolicy, rules: &[&str]) -> Vec<HealProblem> {
    let mut problems = Vec::new();
    let mut known = BTreeSet::new();
    for (place, entry) in policy.entries.iter().enumerate() {
        let faults = entry_faults(entry, rules).into_iter();
        problems.extend(faults.map(|(key, message, hint)| HealProblem {
            entry: place,
            key,
            message,
            hint,
            is_error: true,
        }));
        if !known.insert((&entry.rule, &entry.hosts, &entry.roles)) {
            problems.push(HealProblem {
                entry: place,
                key: "rule",
                message: format!("an earlier entry repairs `{}` on the same hosts", entry.rule),
                hint: "the first entry that fits applies; remove this one".to_owned(),
                is_error: false,
            });
        }
    }
    problems
}

fn entry_faults(entry: &HealEntry, rules: &[&str]) -> Vec<(&'static str, String, String)> {
    let mut faults = Vec::new();
    let rule = entry.rule.as_str();
    if rule.starts_with("weir.") {
        let message = format!("`{rule}` is about weir itself");
        faults.push(("rule", message, "name the rule of a fault that has a cure".to_owned()));
    } else if !rules.is_empty() && !rules.contains(&rule) {
        let hint = nearest(rule, rules.iter().copied()).map_or_else(
            || "`weir rules` lists all rules".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        faults.push(("rule", format!("there is no rule `{rule}`"), hint));
    }
    if placeholder(&entry.on).is_none() {
        let message = format!("`{}` is no placeholder", entry.on);
        let hint = "`{host}`, or the column with the host's address: `{upstream}`";
        faults.push(("on", message, hint.to_owned()));
    }
    for (name, value) in &entry.params {
        if placeholder(value).is_some() {
            continue;
        }
        if let Err(why) = check_value(value) {
            let message = format!("parameter `{name}` {why}");
            let hint = "a plain value, or `{COLUMN}` for a value of the finding";
            faults.push(("params", message, hint.to_owned()));
        }
    }
    faults
}
