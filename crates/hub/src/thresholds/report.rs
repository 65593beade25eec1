//! The report of one rule's threshold: the value in force against the one that its own past would
//! give.

use serde_json::{Value, json};
use weir_rules::mine::{ReplayedEvent, mine, mine_constant, replay_constant};
use weir_rules::{Rule, ThresholdSpec};
use weir_store::{Store, StoreError};
use weir_tables::{Micros, ThresholdProposal};

use super::options;
use super::past::{RulePast, shown};

/// Events that are listed; the counts are whole.
const MAX_EVENTS: usize = 200;
/// Subjects that are listed of a rule that compares with its own week.
const MAX_SUBJECTS: usize = 200;

/// A rule's threshold and its past.
pub(crate) struct ThresholdReport {
    /// The rule's id.
    pub(crate) rule: String,
    class: &'static str,
    unit: String,
    per_week: f64,
    subjects: usize,
    days: f64,
    kind: ReportKind,
}

/// What the rule compares with.
enum ReportKind {
    /// One number.
    Constant {
        value: f64,
        /// The number that should be, or why there is none.
        proposed: Result<f64, String>,
        now: Vec<ReplayedEvent>,
        then: Vec<ReplayedEvent>,
    },
    /// The week of each subject.
    Season(Vec<Value>),
}

impl ThresholdReport {
    /// Mines what is known at `now`; takes a while for many subjects, so not on a thread that
    /// serves.
    pub(crate) async fn of(
        store: &Store,
        rule: &Rule,
        mining: &ThresholdSpec,
        per_week: Option<f64>,
        now: Micros,
    ) -> Result<Self, StoreError> {
        let past = RulePast::of(store, rule, now).await?;
        let per_week = per_week.unwrap_or_else(|| super::accepted_per_week(rule.class));
        let options = options(rule, per_week, past.series.len());
        let ends =
            past.series.values().filter_map(|points| Some((points.first()?, points.last()?)));
        let (first, last) = ends
            .fold((i64::MAX, i64::MIN), |(first, last), (a, b)| (first.min(a.at), last.max(b.at)));
        #[expect(clippy::cast_precision_loss, reason = "seconds of four weeks")]
        let days = if first > last { 0.0 } else { (last - first) as f64 / 86_400.0 };
        let kind = tokio::task::block_in_place(|| match mining.value {
            Some(value) => {
                let subjects = past.calm_subjects();
                let proposed = mine_constant(&subjects, &options).map(|mined| mined.value);
                let replay = |value| replay_constant(&subjects, value, &options);
                ReportKind::Constant {
                    value,
                    now: replay(value),
                    then: proposed.map_or_else(|_| Vec::new(), replay),
                    proposed: proposed.map_err(|little| little.to_string()),
                }
            }
            None => ReportKind::Season(
                past.series
                    .iter()
                    .take(MAX_SUBJECTS)
                    .map(|(name, points)| {
                        let calm = weir_rules::mine::without(points, &past.incidents);
                        season(&shown(name), mine(&calm, &options), now)
                    })
                    .collect(),
            ),
        });
        let (unit, class) = (mining.unit.clone(), rule.class.as_str());
        let subjects = past.series.len();
        Ok(Self { rule: rule.id.clone(), class, unit, per_week, subjects, days, kind })
    }

    /// For `/api/thresholds`.
    pub(crate) fn json(&self) -> Value {
        let mut out = json!({
            "rule": self.rule, "class": self.class, "unit": self.unit,
            "asked_per_week": self.per_week, "subject_count": self.subjects,
            "known_days": self.days,
        });
        match &self.kind {
            ReportKind::Season(subjects) => out["subjects"] = subjects.clone().into(),
            ReportKind::Constant { value, proposed, now, then } => {
                out["value"] = (*value).into();
                out["proposed"] = proposed.as_ref().ok().copied().into();
                out["unknown"] = proposed.as_ref().err().cloned().into();
                out["event_count"] = now.len().into();
                out["event_count_proposed"] = proposed.is_ok().then_some(then.len()).into();
                if proposed.is_ok() {
                    out["no_longer_seen"] = difference(now, then);
                    out["newly_seen"] = difference(then, now);
                }
            }
        }
        out
    }

    /// The row of `threshold_proposal`, for a rule that compares with one number.
    pub(super) fn row<'a>(&'a self, now: Micros, host: &'a str) -> Option<ThresholdProposal<'a>> {
        let ReportKind::Constant { value, proposed, now: passed, then } = &self.kind else {
            return None;
        };
        Some(ThresholdProposal {
            ts: now,
            host,
            rule: &self.rule,
            class: self.class,
            value: *value,
            proposed: proposed.as_ref().ok().copied(),
            unit: &self.unit,
            asked_per_week: self.per_week,
            known_seconds: self.days * 86_400.0,
            subjects: i64::try_from(self.subjects).unwrap_or(i64::MAX),
            events: count(passed),
            events_proposed: proposed.is_ok().then(|| count(then)),
            unknown: proposed.as_ref().err().map(String::as_str),
        })
    }
}

fn count(events: &[ReplayedEvent]) -> i64 {
    i64::try_from(events.len()).unwrap_or(i64::MAX)
}

/// The current model of a subject.
fn season(
    name: &str,
    mined: Result<weir_rules::mine::SeriesModel, weir_rules::mine::TooLittle>,
    now: Micros,
) -> Value {
    match mined {
        Err(little) => json!({"subject": name, "unknown": little.to_string()}),
        Ok(mined) => {
            let at = now.0.div_euclid(1_000_000);
            let (low, high) = mined.range(at);
            json!({
                "subject": name,
                "known_days": mined.days,
                "season": mined.season.as_str(),
                "expected": mined.expected(at),
                "low": low,
                "high": high,
                "event_count": mined.events.len(),
            })
        }
    }
}

/// Events of one replay during which the other has none.
fn difference(events: &[ReplayedEvent], others: &[ReplayedEvent]) -> Value {
    let shown =
        events.iter().filter(|event| !is_among(others, event)).take(MAX_EVENTS).map(|replayed| {
            json!({
                "subject": replayed.subject,
                "from_ts": time_text(replayed.event.from),
                "to_ts": time_text(replayed.event.to + super::STEP_SECONDS),
                "worst": replayed.event.worst,
            })
        });
    shown.collect::<Vec<_>>().into()
}

fn is_among(others: &[ReplayedEvent], event: &ReplayedEvent) -> bool {
    others.iter().any(|other| {
        other.subject == event.subject
            && other.event.from <= event.event.to
            && other.event.to >= event.event.from
    })
}

fn time_text(seconds: i64) -> String {
    Micros(seconds * 1_000_000).to_string()
}
