//! Which rules are due, and what their answers change. Alert words and `for` are those of Prometheus.
//!
//! The surprising thing: an answer may have a column `opens`. A row with `opens = false` keeps a finding open that is
//! open already, but opens none; so a rule can have a lower bound for going on than for beginning, and a fault that
//! has become its own baseline does not resolve by itself.

mod answer;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use weir_tables::Micros;

use crate::{Class, OpenFinding, Rule, RuleSet, State, Transition};
use answer::group;
pub(crate) use answer::key_values;
use turn::Turn;

/// Beyond this (or three times `every`) between two answers, nobody knows what was in between.
const GAP_SECONDS: f64 = 30.0;

/// A rule may take one part in so many of the time (more while something may begin, and more still while a finding is pending);
/// one that takes longer runs less often,
const TIME_PARTS: f64 = 200.0;
const QUICK_TIME_PARTS: f64 = 40.0;
const PENDING_TIME_PARTS: f64 = 10.0;
/// but never less often than after this many times `every`, which is below what counts as a gap.
const STRETCH_MAX: f64 = 2.5;
/// For so long after a rule's condition became true, and while a finding is pending, it runs this often, when that is more
/// often than `every`.
const QUICK_FOR_SECONDS: f64 = 30.0;
const QUICK_SECONDS: f64 = 1.0;
/// A timer that comes a little early must not cost a whole turn.
const SLACK_SECONDS: f64 = 0.1;

/// What a finding of a rule is about: host and key columns as JSON.
pub(crate) type Subject = (String, String);

/// Holds every rule's findings and says what changes.
#[derive(Debug, Default)]
pub struct Engine {
    pub(crate) rules: Vec<Arc<Rule>>,
    pub(crate) states: BTreeMap<String, RuleState>,
    /// When findings began to fire, newest last.
    pub(crate) fires: BTreeMap<(String, Subject), Vec<Micros>>,
    /// Which host has which address.
    hosts: BTreeMap<String, String>,
    /// What people judged of rules.
    precision: BTreeMap<String, Precision>,
}

/// How many of a rule's newest judged findings were real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// Findings that were judged, at most the newest ten.
    pub judged: u64,
    /// Those that were real.
    pub real: u64,
}

impl Precision {
    /// Whether a rule of this precision may page: not when fewer than half of at least five were real.
    pub fn may_page(self) -> bool {
        self.judged < 5 || 2 * self.real >= self.judged
    }
}

/// How one rule fares.
#[derive(Debug, Default)]
pub(crate) struct RuleState {
    pub(crate) last_run: Option<Micros>,
    /// When its condition became true, if that was seen.
    pub(crate) stirred: Option<Micros>,
    pub(crate) last_answer: Option<Micros>,
    /// How long its queries took the last time, and the time before.
    pub(crate) took: [Option<f64>; 2],
    pub(crate) error: Option<String>,
    pub(crate) uncounted: usize,
    pub(crate) open: BTreeMap<Subject, OpenFinding>,
}

impl RuleState {
    /// The parts of the time that the rule may take while something begins, or may; else `None`.
    fn quick_parts(&self, now: Micros) -> Option<f64> {
        if self.open.values().any(|finding| finding.state == State::Pending) {
            return Some(PENDING_TIME_PARTS);
        }
        let is_stirred = |at: Micros| now >= at && now.seconds_since(at) < QUICK_FOR_SECONDS;
        self.stirred.is_some_and(is_stirred).then_some(QUICK_TIME_PARTS)
    }

    /// How long it takes, in seconds. The first time is dear, since plans are made then, and one that was dear for once says
    /// little: so the less of the last two counts.
    fn usual_seconds(&self) -> f64 {
        self.took.into_iter().map(Option::unwrap_or_default).fold(f64::INFINITY, f64::min)
    }
}

/// How one rule fares, for the API.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleStatus {
    /// The worst state of its findings.
    pub state: State,
    /// Pending and firing findings.
    pub open_findings: usize,
    /// Subjects beyond the limit of 1,000 open findings.
    pub findings_over_limit: usize,
    /// When it last ran, well or not.
    pub last_run_ts: Option<Micros>,
    /// How long its queries took when they were last asked.
    pub last_run_seconds: Option<f64>,
    /// Why it failed the last time; `None` when it did not.
    pub error: Option<String>,
}

impl Engine {
    /// An engine without findings.
    pub fn new(rules: &RuleSet) -> Self {
        Self { rules: rules.iter().cloned().collect(), ..Self::default() }
    }

    /// The rules that should run now.
    pub fn due(&self, now: Micros) -> Vec<Arc<Rule>> {
        self.rules.iter().filter(|rule| self.is_due(rule, now)).cloned().collect()
    }

    fn is_due(&self, rule: &Rule, now: Micros) -> bool {
        let state = self.states.get(&rule.id);
        let Some(last) = state.and_then(|state| state.last_run) else { return true };
        let every = span(rule.every_seconds);
        let (least, parts) = match state.and_then(|state| state.quick_parts(now)) {
            Some(parts) => (every.min(QUICK_SECONDS), parts),
            None => (every, TIME_PARTS),
        };
        let took = state.map_or(0.0, RuleState::usual_seconds);
        let pause = (took * parts).clamp(least, every * STRETCH_MAX);
        now < last || now.seconds_since(last) + SLACK_SECONDS >= pause
    }

    /// Says that a rule's condition, which was false, became true: the rule is looked at more closely for a while.
    pub fn stir(&mut self, rule: &Rule, now: Micros) {
        self.states.entry(rule.id.clone()).or_default().stirred = Some(now);
    }

    /// Takes in how long a rule's queries took, when any were asked.
    pub fn took(&mut self, rule: &Rule, seconds: f64) {
        let took = &mut self.states.entry(rule.id.clone()).or_default().took;
        *took = [Some(seconds), took[0]];
    }

    /// Says which host has which address, so that what one host says of its upstream can be explained by what that
    /// upstream's host says of itself.
    pub fn set_hosts(&mut self, hosts: BTreeMap<String, String>) {
        self.hosts = hosts;
    }

    /// Says what people judged of each rule's findings: what is mostly not real pages no more.
    pub fn set_precision(&mut self, precision: BTreeMap<String, Precision>) {
        self.precision = precision;
    }

    /// What people judged of a rule's findings; `None` when nobody judged one.
    pub fn precision(&self, rule_id: &str) -> Option<Precision> {
        self.precision.get(rule_id).copied()
    }

    /// Every rule, in the order of the set.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// How a rule fares; a rule that has never run is inactive.
    pub fn status(&self, rule_id: &str) -> RuleStatus {
        let unrun = RuleState::default();
        let state = self.states.get(rule_id).unwrap_or(&unrun);
        RuleStatus {
            state: state
                .open
                .values()
                .map(|finding| finding.state)
                .max()
                .unwrap_or(State::Inactive),
            open_findings: state.open.len(),
            findings_over_limit: state.uncounted,
            last_run_ts: state.last_run,
            last_run_seconds: state.took[0],
            error: state.error.clone(),
        }
    }

    /// Every pending and firing finding, by rule.
    pub fn open(&self) -> impl Iterator<Item = &OpenFinding> {
        self.states.values().flat_map(|state| state.open.values())
    }

    /// Takes in that a rule's query failed: its findings stay as they are.
    pub fn failed(&mut self, rule: &Rule, now: Micros, error: &str) {
        let state = self.states.entry(rule.id.clone()).or_default();
        state.last_run = Some(now);
        state.error = Some(error.to_owned());
    }

    /// Takes in a rule's answer: one row per subject (rows of one key are one subject).
    pub fn observe(&mut self, rule: &Rule, now: Micros, answer: &[RecordBatch]) -> Vec<Transition> {
        let groups = match group(rule, answer) {
            Ok(groups) => groups,
            Err(error) => {
                self.failed(rule, now, &error);
                return Vec::new();
            }
        };
        let demoted = self.precision(&rule.id).filter(|precision| !precision.may_page());
        let causes = self.causes(rule);
        let burdens = self.burdens(rule);
        let state = self.states.entry(rule.id.clone()).or_default();
        let is_gap = state.last_answer.is_some_and(|last| {
            now < last || now.seconds_since(last) > GAP_SECONDS.max(3.0 * span(rule.every_seconds))
        });
        (state.last_run, state.last_answer, state.error) = (Some(now), Some(now), None);
        let mut turn = Turn {
            rule,
            now,
            is_gap,
            causes: &causes,
            burdens: &burdens,
            hosts: &self.hosts,
            demoted,
            fires: &mut self.fires,
            out: Vec::new(),
        };
        turn.present(state, &groups);
        turn.absent(state, &groups);
        turn.out
    }

    /// What the symptoms of each of the rule's findings would be by themselves: a root matters as much as what it causes,
    /// else a page would be lowered to a note behind a root that only mails.
    fn burdens(&self, rule: &Rule) -> BTreeMap<String, Class> {
        let mut burdens = BTreeMap::new();
        for symptom in self.open().filter(|finding| finding.state == State::Firing) {
            let Some(cause) = symptom.cause.as_ref().filter(|cause| cause.rule == rule.id) else {
                continue;
            };
            let burden = burdens.entry(cause.finding_id.clone()).or_insert(Class::Note);
            *burden = symptom.highest_class.max(*burden);
        }
        burdens
    }

    /// Findings of the rules that explain `rule`: those that fire, and those that may within seconds.
    fn causes(&self, rule: &Rule) -> Vec<OpenFinding> {
        rule.explained_by
            .iter()
            .filter_map(|id| self.states.get(id))
            .flat_map(|state| state.open.values())
            .cloned()
            .collect()
    }
}

/// Seconds of a rule's head as a float.
#[expect(clippy::cast_precision_loss, reason = "a rule's spans are below 7 days")]
fn span(seconds: u64) -> f64 {
    seconds as f64
}
