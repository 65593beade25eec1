//! The dry run before an order: the host shows what the action would do, and only then is it ordered.
//!
//! ```text
//!   proposed, approved ──► dry_run ──exit 0, frees enough──► proposed, approved ──► ordered
//!                             └── fails, refused, no word, frees too little ──► refused
//! ```
//!
//! Nothing was changed by a dry run, so one that fails is no failed repair: it costs no step of the ladder.

use serde::{Deserialize, Serialize};
use weir_tables::Micros;

use super::facts::{OrderOutcome, OrderResult};
use super::progress::exit_text;
use super::refusal::RefusalReason;
use super::run::{ANSWER_US, HealRun, ORDER_US, REPORT_US, RunState, cut};
use crate::civil_time::MINUTE;
use crate::identity::long_id;

/// Time for which a dry run says something about the order after it.
const VALID_US: i64 = 10 * MINUTE;

/// The last dry run of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DryRunRecord {
    /// The order, 32 hex digits.
    pub order_id: String,
    /// Which dry run of the run it is, from 1.
    pub attempt: u32,
    /// Least share of the file system that the action has to free, in percent.
    pub frees_percent: Option<u32>,
    /// When it was decided, microseconds since 1970.
    pub ordered_us: i64,
    /// When the host accepted it, microseconds since 1970.
    pub accepted_us: Option<i64>,
    /// When its outcome was known, microseconds since 1970.
    pub ended_us: Option<i64>,
    /// How its programs ended.
    pub result: Option<OrderResult>,
    /// What it showed, in words.
    pub text: String,
}

impl HealRun {
    /// Whether a dry run ended well, and recently enough for an order.
    pub(crate) fn has_valid_dry_run(&self, now: Micros) -> bool {
        let ended = self.dry_run.as_ref().and_then(|dry| dry.ended_us);
        ended.is_some_and(|ended| (0..=VALID_US).contains(&(now.0 - ended)))
    }

    /// Voids the dry run: it was of another target.
    pub(crate) fn void_dry_run(&mut self) {
        if let Some(dry) = self.dry_run.as_mut() {
            dry.ended_us = None;
        }
    }

    /// Decides a dry run.
    pub(crate) fn order_dry_run(&mut self, now: Micros, frees_percent: Option<u32>) {
        let attempt = self.dry_run.as_ref().map_or(1, |dry| dry.attempt + 1);
        let order_id = long_id(&["order", &self.id, "dry_run", &attempt.to_string()]);
        self.dry_run = Some(DryRunRecord {
            order_id,
            attempt,
            frees_percent,
            ordered_us: now.0,
            accepted_us: None,
            ended_us: None,
            result: None,
            text: String::new(),
        });
        self.set(now, RunState::DryRun, "a dry run comes first");
    }

    /// Takes a report about the dry run that is on.
    pub(crate) fn report_dry_run(&mut self, now: Micros, outcome: &OrderOutcome) {
        match outcome {
            OrderOutcome::Accepted | OrderOutcome::Repeated | OrderOutcome::Started => {
                let Some(dry) = self.dry_run.as_mut() else { return };
                self.is_changed |= dry.accepted_us.is_none();
                dry.accepted_us.get_or_insert(now.0);
            }
            OrderOutcome::Refused(why) => {
                self.close(now, RunState::Refused, format!("refused by the host: {why}"));
                self.refusal = Some(RefusalReason::ByHost);
            }
            OrderOutcome::Lost(why) => {
                self.refuse_dry_run(now, &format!("the host lost its outcome: {why}"));
            }
            OrderOutcome::Ended(result) => self.end_dry_run(now, result),
        }
    }

    fn end_dry_run(&mut self, now: Micros, result: &OrderResult) {
        let Some(dry) = self.dry_run.as_mut() else { return };
        let verdict = verdict(result, dry.frees_percent);
        dry.result = Some(result.clone());
        match verdict {
            Err(why) => self.refuse_dry_run(now, &why),
            Ok(text) => {
                dry.ended_us = Some(now.0);
                dry.text = cut(&text);
                let state = match self.approved_by {
                    Some(_) => RunState::Approved,
                    None => RunState::Proposed,
                };
                self.set(now, state, format!("dry run: {text}"));
            }
        }
    }

    /// Ends the wait for a report that is overdue.
    pub(crate) fn expire_dry_run(&mut self, now: Micros) {
        let Some(dry) = self.dry_run.as_ref().filter(|_| self.state == RunState::DryRun) else {
            return;
        };
        let deadline = match dry.accepted_us {
            Some(accepted) => accepted + REPORT_US,
            None => dry.ordered_us + ORDER_US + ANSWER_US,
        };
        if now.0 > deadline {
            self.refuse_dry_run(now, "the host never reported its end");
        }
    }

    fn refuse_dry_run(&mut self, now: Micros, why: &str) {
        if let Some(dry) = self.dry_run.as_mut() {
            dry.text = cut(why);
        }
        self.close(now, RunState::Refused, format!("dry run: {why}"));
        self.refusal = Some(RefusalReason::DryRun);
    }
}

/// What a dry run showed, or why no order may follow.
fn verdict(result: &OrderResult, least: Option<u32>) -> Result<String, String> {
    if !result.is_success() {
        return Err(exit_text(result));
    }
    let Some(least) = least else { return Ok("it succeeded".to_owned()) };
    match freed_percent(&result.output_tail) {
        None => Err(format!("it did not print `frees=…%`; at least {least} % are needed")),
        Some(freed) if freed < f64::from(least) => {
            Err(format!("it would free {freed} %, at least {least} % are needed"))
        }
        Some(freed) => Ok(format!("it would free {freed} %")),
    }
}

/// The figure of the last `frees=12.5%` of an output.
fn freed_percent(output: &str) -> Option<f64> {
    let words = output.split_whitespace().rev();
    let mut figures = words.filter_map(|word| word.strip_prefix("frees=")?.strip_suffix('%'));
    let freed: f64 = figures.next()?.parse().ok()?;
    (0.0..=100.0).contains(&freed).then_some(freed)
}

#[cfg(test)]
mod tests {
    use super::freed_percent;

    #[test]
    fn freed_share_is_the_last_figure_of_the_output() {
        for (output, expected) in [
            ("frees=12.5%", Some(12.5)),
            ("3 files\nfrees=7%\n", Some(7.0)),
            ("frees=1% frees=0%", Some(0.0)),
            ("frees=5", None),
            ("would free 5 %", None),
            ("frees=-5%", None),
            ("frees=inf%", None),
            ("frees=NaN%", None),
            ("frees=500%", None),
            ("", None),
        ] {
            assert_eq!(freed_percent(output), expected, "{output}");
        }
    }
}
