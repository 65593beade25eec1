//! Schedules rules and applies the results of their queries. States and `for` are those of
//! Prometheus.
//!
//! The surprising thing: a result may have a column `opens`. A row with `opens = false` keeps an
//! open finding open, but opens none. So a rule can resolve at a lower bound than it opens at, and
//! a fault that has become its own baseline does not resolve.

mod evaluation;
mod result_rows;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use weir_tables::Micros;

use crate::{Class, OpenFinding, Rule, RuleSet, State, Transition};
use evaluation::Evaluation;
pub(crate) use result_rows::key_values;
use result_rows::rows_by_subject;

/// A longer pause between two results (or than three times `every`) is a gap: the state in between
/// is unknown.
const GAP_SECONDS: f64 = 30.0;

/// Time budget: a rule pauses at least this many times as long as its queries take.
const PAUSE_FACTOR: f64 = 200.0;
/// Time budget just after a rule's condition became true.
const AWAKE_PAUSE_FACTOR: f64 = 40.0;
/// Time budget while a finding is pending.
const PENDING_PAUSE_FACTOR: f64 = 10.0;
/// Longest pause, in multiples of `every`; must stay below a gap.
const STRETCH_MAX: f64 = 2.5;
/// A rule is awake for this long after its condition became true.
const AWAKE_SECONDS: f64 = 30.0;
/// Interval of a rule that is awake or has a pending finding, unless `every` is shorter.
const AWAKE_EVERY_SECONDS: f64 = 1.0;
/// Tolerance for a timer that fires slightly early.
const SLACK_SECONDS: f64 = 0.1;

/// The subject of a finding: host, and key columns as JSON.
pub(crate) type Subject = (String, String);

/// The findings of all rules, and the changes of their state.
#[derive(Debug, Default)]
pub struct Engine {
    pub(crate) rules: Vec<Arc<Rule>>,
    pub(crate) states: BTreeMap<String, RuleState>,
    /// Times at which findings began to fire, newest last.
    pub(crate) fires: BTreeMap<(String, Subject), Vec<Micros>>,
    /// Restored findings about the subject of an older one; [`Engine::retire`] resolves them.
    pub(crate) doubles: Vec<OpenFinding>,
    /// Host by address.
    hosts: BTreeMap<String, String>,
    /// Judgements by rule.
    precision: BTreeMap<String, Precision>,
}

/// The share of real findings among a rule's newest judged ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// Judged findings, at most the newest ten.
    pub judged: u64,
    /// Real findings among them.
    pub real: u64,
}

impl Precision {
    /// Whether a rule of this precision may page: not if fewer than half of at least five were
    /// real.
    pub fn may_page(self) -> bool {
        self.judged < 5 || 2 * self.real >= self.judged
    }
}

/// The state of one rule.
#[derive(Debug, Default)]
pub(crate) struct RuleState {
    pub(crate) last_run: Option<Micros>,
    /// When its condition became true, if the store watches it.
    pub(crate) woken: Option<Micros>,
    pub(crate) last_answer: Option<Micros>,
    /// Durations of its last two runs.
    pub(crate) took: [Option<f64>; 2],
    pub(crate) error: Option<String>,
    pub(crate) uncounted: usize,
    pub(crate) open: BTreeMap<Subject, OpenFinding>,
}

impl RuleState {
    /// The pause factor of a rule that is awake or has a pending finding, else `None`.
    fn awake_pause_factor(&self, now: Micros) -> Option<f64> {
        if self.open.values().any(|finding| finding.state == State::Pending) {
            return Some(PENDING_PAUSE_FACTOR);
        }
        let woken = self.woken.filter(|at| now >= *at && now.seconds_since(*at) < AWAKE_SECONDS);
        woken.map(|_| AWAKE_PAUSE_FACTOR)
    }

    /// The usual duration in seconds: the shorter of the last two. The first run is slow, because
    /// it plans, and a single slow run is no evidence.
    fn usual_seconds(&self) -> f64 {
        self.took.into_iter().map(Option::unwrap_or_default).fold(f64::INFINITY, f64::min)
    }
}

/// The status of one rule, for the API.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleStatus {
    /// The worst state of its findings.
    pub state: State,
    /// Pending and firing findings.
    pub open_findings: usize,
    /// Subjects beyond the limit of 1,000 open findings.
    pub findings_over_limit: usize,
    /// Time of the last run, successful or not.
    pub last_run_ts: Option<Micros>,
    /// Time of the last successful run.
    pub last_answer_ts: Option<Micros>,
    /// Duration of its last run.
    pub last_run_seconds: Option<f64>,
    /// The error of its last run.
    pub error: Option<String>,
}

impl Engine {
    /// An engine without findings.
    pub fn new(rules: &RuleSet) -> Self {
        Self { rules: rules.iter().cloned().collect(), ..Self::default() }
    }

    /// Rules that should run now.
    pub fn due(&self, now: Micros) -> Vec<Arc<Rule>> {
        self.rules.iter().filter(|rule| self.is_due(rule, now)).cloned().collect()
    }

    fn is_due(&self, rule: &Rule, now: Micros) -> bool {
        let state = self.states.get(&rule.id);
        let Some(last) = state.and_then(|state| state.last_run) else { return true };
        let every = span(rule.every_seconds);
        let (least, factor) = match state.and_then(|state| state.awake_pause_factor(now)) {
            Some(factor) => (every.min(AWAKE_EVERY_SECONDS), factor),
            None => (every, PAUSE_FACTOR),
        };
        let took = state.map_or(0.0, RuleState::usual_seconds);
        let pause = (took * factor).clamp(least, every * STRETCH_MAX);
        now < last || now.seconds_since(last) + SLACK_SECONDS >= pause
    }

    /// Wakes a rule whose watched condition became true: it runs every second for a while.
    pub fn wake(&mut self, rule: &Rule, now: Micros) {
        self.states.entry(rule.id.clone()).or_default().woken = Some(now);
    }

    /// Records the duration of a rule's queries.
    pub fn record_duration(&mut self, rule: &Rule, seconds: f64) {
        let took = &mut self.states.entry(rule.id.clone()).or_default().took;
        *took = [Some(seconds), took[0]];
    }

    /// Sets the host of each address, so that a finding about an upstream can be explained by a
    /// finding about the upstream's host.
    pub fn set_hosts(&mut self, hosts: BTreeMap<String, String>) {
        self.hosts = hosts;
    }

    /// The host of each address.
    pub fn hosts(&self) -> &BTreeMap<String, String> {
        &self.hosts
    }

    /// Sets the judgements of each rule's findings: a rule whose findings are mostly not real no
    /// longer pages.
    pub fn set_precision(&mut self, precision: BTreeMap<String, Precision>) {
        self.precision = precision;
    }

    /// The judgements of a rule's findings; `None` without any.
    pub fn precision(&self, rule_id: &str) -> Option<Precision> {
        self.precision.get(rule_id).copied()
    }

    /// Every rule, in the order of evaluation.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// The status of a rule; a rule that has never run is inactive.
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
            last_answer_ts: state.last_answer,
            last_run_seconds: state.took[0],
            error: state.error.clone(),
        }
    }

    /// Every pending and firing finding, by rule.
    pub fn open(&self) -> impl Iterator<Item = &OpenFinding> {
        self.states.values().flat_map(|state| state.open.values())
    }

    /// Every firing finding, by rule: roots, symptoms, and former symptoms that are held as notes.
    ///
    /// To recognize a finding across restarts, compare its rule, host and key: a fault whose first
    /// row was lost with the process has another `finding_id` afterwards, which holds its start.
    pub fn firing(&self) -> impl Iterator<Item = &OpenFinding> {
        self.open().filter(|finding| finding.state == State::Firing)
    }

    /// Records a failed query: the rule's findings stay as they are.
    pub fn record_failure(&mut self, rule: &Rule, now: Micros, error: &str) {
        let state = self.states.entry(rule.id.clone()).or_default();
        state.last_run = Some(now);
        state.error = Some(error.to_owned());
    }

    /// Applies the result of a rule's queries: one row per subject (rows of one key are one
    /// subject).
    pub fn observe(&mut self, rule: &Rule, now: Micros, answer: &[RecordBatch]) -> Vec<Transition> {
        let subjects = match rows_by_subject(rule, answer) {
            Ok(subjects) => subjects,
            Err(error) => {
                self.record_failure(rule, now, &error);
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
        let mut evaluation = Evaluation {
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
        evaluation.update_present(state, &subjects);
        evaluation.resolve_absent(state, &subjects);
        evaluation.out
    }

    /// The highest class of each finding's symptoms: a root is as urgent as what it causes,
    /// otherwise a page would become a note behind a root that only mails.
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

    /// Open findings of the rules that explain `rule`, firing and pending.
    fn causes(&self, rule: &Rule) -> Vec<OpenFinding> {
        rule.causes
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
