//! `[heal]` and `[[heals]]` as the heal desk takes them.

use weir_actions::{HealEntry, HealPolicy, HealSettings, HealStep, check_heal};
use weir_config::Values;
use weir_config::heal::HealBlock;
use weir_process::failure::{EXIT_CONFIG, Failure};

/// The policy, checked against the rules that are loaded.
///
/// # Errors
/// The first mistake, with its line.
pub(super) fn policy(values: &Values, rules: &[&str]) -> Result<HealPolicy, Failure> {
    let heal = &values.heal;
    let settings = HealSettings {
        is_enabled: heal.enabled,
        fleet_per_hour: at_most::<1_000>(heal.fleet_per_hour),
        answer_minutes: at_most::<1_440>(heal.answer_minutes.max(1)),
        storm_findings: at_most::<10_000>(heal.storm_findings.max(2)),
    };
    let policy = HealPolicy { settings, entries: values.heals.iter().map(entry).collect() };
    for problem in check_heal(&policy, rules) {
        let block = &values.heals[problem.entry];
        let failure = block.entry.key(problem.key).wrong(&problem.message).hint(problem.hint);
        if problem.is_error {
            return Err(failure.code(EXIT_CONFIG));
        }
        tracing::warn!("{failure}");
    }
    Ok(policy)
}

fn at_most<const MOST: u32>(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(MOST).min(MOST)
}

fn entry(block: &HealBlock) -> HealEntry {
    HealEntry {
        rule: block.rule.clone(),
        action: block.action.clone(),
        params: block.params.iter().cloned().collect(),
        on: block.entry.text("on").unwrap_or("{host}").to_owned(),
        hosts: block.entry.texts("hosts").to_vec(),
        roles: block.entry.texts("roles").to_vec(),
        mode: HealStep::parse(block.mode).unwrap_or_default(),
        alone: HealStep::parse(block.alone).unwrap_or_default(),
        dry_run: block.dry_run,
        frees_percent: Some(block.frees_percent).filter(|percent| *percent > 0),
    }
}
