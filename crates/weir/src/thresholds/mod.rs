//! Mined thresholds: values are kept every five minutes, normal is mined every night, proposals are made every week.
//!
//! The method is `weir_rules::mine`; here are the table `measure` that it learns from, the report of `weir thresholds` and
//! of `/api/thresholds`, and the command.

pub(crate) mod command;
mod keep;
mod past;
pub(crate) mod report;
mod series;

pub(crate) use keep::keep_always;

use weir_rules::mine::{MeanWindow, MiningOptions};
use weir_rules::{Class, Rule};

/// Seconds of a value.
const STEP_SECONDS: i64 = 300;

/// False findings that are accepted of a rule in a week, by what they cost: a page wakes somebody.
pub(crate) fn accepted_per_week(class: Class) -> f64 {
    match class {
        Class::Page => 0.25,
        Class::Mail => 1.0,
        Class::Note => 4.0,
    }
}

/// What is asked of the miner for one subject of a rule, of so many.
fn options(rule: &Rule, per_week: f64, subjects: usize) -> MiningOptions {
    let defaults = MiningOptions::default();
    let Some(mining) = &rule.mining else { return defaults };
    let subjects = u32::try_from(subjects.max(1)).unwrap_or(u32::MAX);
    let options = MiningOptions { scale: mining.scale, side: mining.side, ..defaults };
    match mining.value {
        Some(_) => MiningOptions {
            false_per_week: per_week,
            reaches: vec![MeanWindow { points: 1, share: 1.0 }],
            ..options
        },
        None => MiningOptions { false_per_week: per_week / f64::from(subjects), ..options },
    }
}
