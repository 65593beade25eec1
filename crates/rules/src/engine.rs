//! Which rules are due, and what their answers change. Alert words and `for` are those of Prometheus.
//!
//! The surprising thing: an answer may have a column `opens`. A row with `opens = false` keeps a finding open that is
//! open already, but opens none; so a rule can have a lower bound for going on than for beginning, and a fault that
//! has become its own baseline does not resolve by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use weir_tables::Micros;

use crate::finding::{Details, Written, finding_id};
use crate::template::render;
use crate::{Cell, Class, OpenFinding, Row, Rule, RuleSet, State, TIERS, Transition, rows_of};

/// Open findings per rule; what is beyond is counted.
const MAX_OPEN_PER_RULE: usize = 1_000;
/// Rows that are read of one answer.
const MAX_ANSWER_ROWS: usize = 10_000;
const MAX_EVIDENCE_ROWS: usize = 50;
const MAX_EVIDENCE_BYTES: usize = 64 * 1024;
/// Numbers that move are written at most this often.
const RENEW_SECONDS: f64 = 30.0;
/// A number has moved when it differs by more than this share.
const RENEW_SHARE: f64 = 0.25;
const FLAP_WINDOW_SECONDS: f64 = 600.0;
const FLAP_REOPENINGS: usize = 3;
const FLAP_CLEAR_SECONDS: f64 = 300.0;
const MAX_FLAP_MEMORY: usize = 10_000;
/// Beyond this (or three times `every`) between two answers, nobody knows what was in between.
const GAP_SECONDS: f64 = 30.0;

/// What a finding of a rule is about: host and key columns as JSON.
type Subject = (String, String);

/// Holds every rule's findings and says what changes.
#[derive(Debug, Default)]
pub struct Engine {
    pub(crate) rules: Vec<Arc<Rule>>,
    pub(crate) states: BTreeMap<String, RuleState>,
    /// When findings began to fire, newest last.
    pub(crate) fires: BTreeMap<(String, Subject), Vec<Micros>>,
}

/// How one rule fares.
#[derive(Debug, Default)]
pub(crate) struct RuleState {
    pub(crate) last_run: Option<Micros>,
    pub(crate) last_answer: Option<Micros>,
    pub(crate) error: Option<String>,
    pub(crate) uncounted: usize,
    pub(crate) open: BTreeMap<Subject, OpenFinding>,
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
    /// Why it failed the last time; `None` when it did not.
    pub error: Option<String>,
}

/// The rows of an answer that are about one subject.
struct Group {
    rows: Vec<Row>,
    opens: bool,
}

impl Engine {
    /// An engine without findings.
    pub fn new(rules: &RuleSet) -> Self {
        Self { rules: rules.iter().cloned().collect(), ..Self::default() }
    }

    /// The rules that should run now.
    pub fn due(&self, now: Micros) -> Vec<Arc<Rule>> {
        let is_due =
            |rule: &&Arc<Rule>| match self.states.get(&rule.id).and_then(|state| state.last_run) {
                // A tenth of a second of slack: a timer of 2 s that comes early must not skip a turn.
                Some(last) => {
                    now < last || now.seconds_since(last) + 0.1 >= span(rule.every_seconds)
                }
                None => true,
            };
        self.rules.iter().filter(is_due).cloned().collect()
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
        let causes = self.causes(rule);
        let state = self.states.entry(rule.id.clone()).or_default();
        let is_gap = state.last_answer.is_some_and(|last| {
            now < last || now.seconds_since(last) > GAP_SECONDS.max(3.0 * span(rule.every_seconds))
        });
        (state.last_run, state.last_answer, state.error) = (Some(now), Some(now), None);
        let mut turn =
            Turn { rule, now, is_gap, causes: &causes, fires: &mut self.fires, out: Vec::new() };
        turn.present(state, &groups);
        turn.absent(state, &groups);
        turn.out
    }

    /// Firing findings of the rules that explain `rule`.
    fn causes(&self, rule: &Rule) -> Vec<OpenFinding> {
        rule.explained_by
            .iter()
            .filter_map(|id| self.states.get(id))
            .flat_map(|state| state.open.values())
            .filter(|finding| finding.state == State::Firing)
            .cloned()
            .collect()
    }
}

/// One answer being taken in.
struct Turn<'a> {
    rule: &'a Rule,
    now: Micros,
    is_gap: bool,
    causes: &'a [OpenFinding],
    fires: &'a mut BTreeMap<(String, Subject), Vec<Micros>>,
    out: Vec<Transition>,
}

impl Turn<'_> {
    fn present(&mut self, state: &mut RuleState, groups: &BTreeMap<Subject, Group>) {
        state.uncounted = 0;
        for (subject, group) in groups {
            if let Some(finding) = state.open.get_mut(subject) {
                self.go_on(finding, subject, group);
            } else if group.opens && state.open.len() < MAX_OPEN_PER_RULE {
                let finding = self.begin(subject, group);
                state.open.insert(subject.clone(), finding);
            } else if group.opens {
                state.uncounted += 1;
            }
        }
        let (uncounted, last) = (state.uncounted, self.out.last_mut());
        if let (1.., Some(transition)) = (uncounted, last) {
            let more = format!(" (and {uncounted} more that are not listed)");
            transition.finding.details.summary.push_str(&more);
        }
    }

    fn begin(&mut self, subject: &Subject, group: &Group) -> OpenFinding {
        let (details, class) = describe(self.rule, &group.rows);
        let key_values = key_values(&subject.1);
        let mut finding = OpenFinding {
            finding_id: finding_id(&self.rule.id, &subject.0, &subject.1, self.now),
            rule: self.rule.id.clone(),
            host: subject.0.clone(),
            key: subject.1.clone(),
            class,
            state: State::Pending,
            started_ts: self.now,
            fired_ts: None,
            resolved_ts: None,
            details,
            key_values,
            highest_class: class,
            is_flapping: false,
            absent_since: None,
            written: Written { ts: self.now, class, row: None, summary: String::new() },
        };
        self.explain(&mut finding);
        if self.rule.for_seconds == 0 {
            self.fire(&mut finding, subject);
        }
        self.write(&mut finding, State::Inactive);
        finding
    }

    fn go_on(&mut self, finding: &mut OpenFinding, subject: &Subject, group: &Group) {
        let (details, class) = describe(self.rule, &group.rows);
        finding.details = details;
        finding.highest_class = finding.highest_class.max(class);
        finding.class = finding.highest_class;
        finding.absent_since = None;
        self.explain(finding);
        if finding.state == State::Firing {
            if finding.is_flapping {
                finding.details.summary.push_str(" (comes and goes)");
            }
            if is_news(finding, self.now) {
                self.write(finding, State::Firing);
            }
            return;
        }
        if self.is_gap {
            finding.started_ts = self.now;
        }
        if self.now.seconds_since(finding.started_ts) >= span(self.rule.for_seconds) {
            self.fire(finding, subject);
            self.write(finding, State::Pending);
        }
    }

    fn absent(&mut self, state: &mut RuleState, groups: &BTreeMap<Subject, Group>) {
        let gone: Vec<Subject> = state
            .open
            .iter_mut()
            .filter(|(subject, _)| !groups.contains_key(*subject))
            .filter_map(|(subject, finding)| self.is_over(finding).then(|| subject.clone()))
            .collect();
        for subject in gone {
            if let Some(mut finding) = state.open.remove(&subject) {
                let from = finding.state;
                finding.state = State::Resolved;
                finding.resolved_ts = Some(self.now);
                self.write(&mut finding, from);
            }
        }
    }

    /// Whether a finding whose condition is not true now has been so for long enough.
    fn is_over(&self, finding: &mut OpenFinding) -> bool {
        let since = match finding.absent_since {
            Some(since) if since <= self.now && !self.is_gap => since,
            _ => self.now,
        };
        finding.absent_since = Some(since);
        let mut clear = span(self.rule.clear_seconds);
        if finding.is_flapping {
            clear = clear.max(FLAP_CLEAR_SECONDS);
        }
        finding.state == State::Pending || self.now.seconds_since(since) >= clear
    }

    fn fire(&mut self, finding: &mut OpenFinding, subject: &Subject) {
        finding.state = State::Firing;
        finding.fired_ts = Some(self.now);
        let now = self.now;
        if self.fires.len() >= MAX_FLAP_MEMORY {
            self.fires.retain(|_, times| times.iter().any(|at| is_recent(*at, now)));
        }
        if self.fires.len() < MAX_FLAP_MEMORY {
            let times = self.fires.entry((self.rule.id.clone(), subject.clone())).or_default();
            times.retain(|at| is_recent(*at, now));
            times.push(now);
            finding.is_flapping = times.len() > FLAP_REOPENINGS;
        }
    }

    /// Lowers a finding to a note while a deeper one fires on the same subject.
    fn explain(&self, finding: &mut OpenFinding) {
        let Some(cause) = self.causes.iter().find(|cause| explains(cause, finding)) else { return };
        finding.class = Class::Note;
        let words = format!(" (explained by {} on {})", cause.rule, cause.details.subject);
        finding.details.summary.push_str(&words);
    }

    fn write(&mut self, finding: &mut OpenFinding, from: State) {
        finding.mark_written(self.now);
        self.out.push(Transition { ts: self.now, from, finding: finding.clone() });
    }
}

/// Seconds of a rule's head as a float.
#[expect(clippy::cast_precision_loss, reason = "a rule's spans are below 7 days")]
fn span(seconds: u64) -> f64 {
    seconds as f64
}

fn is_recent(at: Micros, now: Micros) -> bool {
    now.seconds_since(at) <= FLAP_WINDOW_SECONDS
}

/// Whether a cause and a finding are about the same: same host, and equal where both have a key column.
fn explains(cause: &OpenFinding, finding: &OpenFinding) -> bool {
    let same_host = cause.host == finding.host || cause.host.is_empty();
    same_host
        && finding.key_values.iter().all(|(name, value)| {
            cause
                .key_values
                .iter()
                .all(|(other, cause_value)| other != name || cause_value == value)
        })
}

/// Whether the table should learn of a firing finding's class or evidence.
fn is_news(finding: &OpenFinding, now: Micros) -> bool {
    if finding.class > finding.written.class {
        return true;
    }
    if now.seconds_since(finding.written.ts) < RENEW_SECONDS {
        return false;
    }
    finding.class != finding.written.class
        || match (&finding.details.row, &finding.written.row) {
            (Some(new), Some(old)) => differ(new, old),
            _ => finding.details.summary != finding.written.summary,
        }
}

/// Whether a text differs, or a number by more than a quarter. Times do not count: they always move.
fn differ(new: &Row, old: &Row) -> bool {
    new.iter().any(|(name, cell)| match (cell, old.get(name)) {
        (Cell::Time(_), Some(_)) => false,
        (Cell::Int(_) | Cell::Float(_), Some(before)) => {
            match (cell.as_number(), before.as_number()) {
                (Some(new), Some(old)) => {
                    (new - old).abs() > RENEW_SHARE * new.abs().max(old.abs())
                }
                _ => true,
            }
        }
        (cell, Some(before)) => cell != before,
        (_, None) => true,
    })
}

fn group(rule: &Rule, answer: &[RecordBatch]) -> Result<BTreeMap<Subject, Group>, String> {
    let mut groups: BTreeMap<Subject, Group> = BTreeMap::new();
    for row in rows_of(answer, MAX_ANSWER_ROWS) {
        // NULL is not true, as in a SQL condition.
        let opens = matches!(row.get("opens"), None | Some(Cell::Flag(true)));
        let subject = subject_of(rule, &row)?;
        let group =
            groups.entry(subject).or_insert_with(|| Group { rows: Vec::new(), opens: false });
        group.opens |= opens;
        if group.rows.len() < MAX_EVIDENCE_ROWS {
            group.rows.push(row);
        }
    }
    Ok(groups)
}

fn subject_of(rule: &Rule, row: &Row) -> Result<Subject, String> {
    let mut key = serde_json::Map::new();
    for column in rule.key.iter().filter(|column| *column != "host") {
        let cell = row.get(column).ok_or_else(|| {
            format!("the answer of `{}` lacks the key column `{column}`", rule.id)
        })?;
        key.insert(column.clone(), cell.to_json());
    }
    Ok((
        row.text("host").unwrap_or_default().to_owned(),
        serde_json::Value::Object(key).to_string(),
    ))
}

/// The key columns of a finding from their JSON.
pub(crate) fn key_values(key: &str) -> Vec<(String, serde_json::Value)> {
    match serde_json::from_str(key) {
        Ok(serde_json::Value::Object(map)) => map.into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Texts, evidence and class of a subject, from its row of the highest class.
fn describe(rule: &Rule, rows: &[Row]) -> (Details, Class) {
    let class_of = |row: &Row| row.text("class").and_then(Class::parse).unwrap_or(rule.class);
    let class = rows.iter().map(class_of).max().unwrap_or(rule.class);
    let Some(row) = rows.iter().find(|row| class_of(row) == class) else {
        return (Details::default(), class);
    };
    let text = |column: &str, template: &str| match row.text(column) {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => render(template, row),
    };
    let tier = row.text("tier").filter(|tier| TIERS.contains(tier)).unwrap_or(&rule.tier);
    let details = Details {
        tier: tier.to_owned(),
        subject: text("subject", &rule.subject),
        summary: text("summary", &rule.summary),
        why: text("why", &rule.why),
        fix: text("fix", &rule.fix),
        evidence: evidence(rows),
        row: Some(row.clone()),
    };
    (details, class)
}

fn evidence(rows: &[Row]) -> String {
    let mut out = String::from("[");
    for row in rows {
        let json = row.to_json();
        if out.len() + json.len() + 2 > MAX_EVIDENCE_BYTES {
            break;
        }
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&json);
    }
    out.push(']');
    out
}
