//! One evaluation of a rule: its result opens, updates, fires and resolves findings.
//!
//! A flapping finding stays firing, an explained one becomes a note, and changed numbers are
//! written at most every half minute: a finding that fires all night must not fill the table.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;
use weir_tables::Micros;

use super::result_rows::{SubjectRows, describe, key_values};
use super::{Precision, RuleState, SLACK_SECONDS, Subject, span};
use crate::finding::{Cause, EndedCause, FindingDetails, WrittenRow, finding_id};
use crate::{Cell, Class, OpenFinding, Row, Rule, State, Transition};

/// Open findings per rule; further ones are only counted.
const MAX_OPEN_PER_RULE: usize = 1_000;
/// Changed numbers are written at most this often.
const RENEW_SECONDS: f64 = 30.0;
/// In the first half minute of firing the numbers still change and an operator is reading them.
const YOUNG_RENEW_SECONDS: f64 = 6.0;
/// A number has changed if it differs by more than this ratio.
const RENEW_SHARE: f64 = 0.25;
const FLAP_WINDOW_SECONDS: f64 = 600.0;
const FLAP_REOPENINGS: usize = 3;
const FLAP_CLEAR_SECONDS: f64 = 300.0;
const MAX_FLAP_MEMORY: usize = 10_000;
/// A page is held as a mail for at most this long while a possible cause is pending.
const HELD_SECONDS: f64 = 30.0;
/// A symptom stays a note for this long after its cause ended: most end a little later themselves.
/// The column `holds_seconds` of its row overrides it, up to a day.
const ENDED_CAUSE_SECONDS: f64 = 60.0;
const ENDED_CAUSE_SECONDS_MAX: f64 = 86_400.0;

/// One evaluation of a rule at one time.
pub(super) struct Evaluation<'a> {
    pub(super) rule: &'a Rule,
    pub(super) now: Micros,
    pub(super) is_gap: bool,
    pub(super) causes: &'a [OpenFinding],
    /// The highest class of each finding's symptoms.
    pub(super) burdens: &'a BTreeMap<String, Class>,
    /// Host by address.
    pub(super) hosts: &'a BTreeMap<String, String>,
    /// The rule's precision, if that is too low to page.
    pub(super) demoted: Option<Precision>,
    pub(super) fires: &'a mut BTreeMap<(String, Subject), Vec<Micros>>,
    pub(super) out: Vec<Transition>,
}

impl Evaluation<'_> {
    pub(super) fn update_present(
        &mut self,
        state: &mut RuleState,
        groups: &BTreeMap<Subject, SubjectRows>,
    ) {
        state.uncounted = 0;
        for (subject, group) in groups {
            if let Some(finding) = state.open.get_mut(subject) {
                self.update(finding, subject, group);
            } else if group.opens && state.open.len() < MAX_OPEN_PER_RULE {
                let finding = self.open_finding(subject, group);
                state.open.insert(subject.clone(), finding);
            } else if group.opens {
                state.uncounted += 1;
            }
        }
        let (uncounted, last) = (state.uncounted, self.out.last_mut());
        if let (1.., Some(transition)) = (uncounted, last) {
            let more = format!(" (and {uncounted} more, not listed)");
            transition.finding.details.summary.push_str(&more);
        }
    }

    /// Texts and class of a subject; a rule of low precision mails instead of paging.
    fn describe(&self, group: &SubjectRows) -> (FindingDetails, Class) {
        let (mut details, class) = describe(self.rule, &group.rows);
        let Some(Precision { judged, real }) = self.demoted.filter(|_| class == Class::Page) else {
            return (details, class);
        };
        let words = format!(" (no page: {real} of the last {judged} judged findings were real)");
        details.summary.push_str(&words);
        (details, Class::Mail)
    }

    fn open_finding(&mut self, subject: &Subject, group: &SubjectRows) -> OpenFinding {
        let (details, class) = self.describe(group);
        let key_values = key_values(&subject.1);
        let mut finding = OpenFinding {
            finding_id: finding_id(&self.rule.id, subject, self.now),
            rule: self.rule.id.clone(),
            host: subject.0.clone(),
            key: subject.1.clone(),
            class,
            state: State::Pending,
            started_ts: self.now,
            fired_ts: None,
            resolved_ts: None,
            cause: None,
            ended_cause: None,
            evidence_class: class,
            details,
            key_values,
            highest_class: class,
            is_flapping: false,
            absent_since: None,
            written: WrittenRow {
                ts: self.now,
                class,
                row: None,
                summary: String::new(),
                cause: None,
            },
        };
        self.explain(&mut finding);
        if self.rule.for_seconds == 0 {
            self.fire(&mut finding, subject);
        }
        self.write(&mut finding, State::Inactive);
        finding
    }

    fn update(&mut self, finding: &mut OpenFinding, subject: &Subject, group: &SubjectRows) {
        let (details, class) = self.describe(group);
        finding.details = details;
        finding.highest_class = finding.highest_class.max(class);
        let class_before = std::mem::replace(&mut finding.evidence_class, class);
        let burden = self.burdens.get(&finding.finding_id).copied().unwrap_or(Class::Note);
        finding.class = finding.highest_class.max(burden);
        finding.absent_since = None;
        let cause_before = finding.cause.clone();
        self.explain(finding);
        self.hold_after_cause(finding, cause_before, class_before);
        if finding.state == State::Firing {
            if finding.is_flapping {
                finding.details.summary.push_str(" (flapping)");
            }
            if is_news(finding, self.now) {
                self.write(finding, State::Firing);
            }
            return;
        }
        if self.is_gap {
            finding.started_ts = self.now;
        }
        if self.now.seconds_since(finding.started_ts) + SLACK_SECONDS >= span(self.rule.for_seconds)
        {
            self.fire(finding, subject);
            self.write(finding, State::Pending);
        }
    }

    pub(super) fn resolve_absent(
        &mut self,
        state: &mut RuleState,
        groups: &BTreeMap<Subject, SubjectRows>,
    ) {
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

    /// Whether the condition of a finding has been false for long enough to resolve it.
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

    /// Lowers a finding to a note while a deeper one explains it, and names the root of that one.
    ///
    /// While a possible cause is only pending, a page is held as a mail: it may need some seconds
    /// more.
    fn explain(&self, finding: &mut OpenFinding) {
        finding.cause = None;
        let Some(cause) = self.causes_of(finding).find(|cause| cause.state == State::Firing) else {
            let is_held = self
                .causes_of(finding)
                .any(|cause| self.now.seconds_since(cause.started_ts) <= HELD_SECONDS);
            if is_held {
                finding.class = finding.class.min(Class::Mail);
            }
            return;
        };
        finding.class = Class::Note;
        let host = if cause.host == finding.host || cause.host.is_empty() {
            String::new()
        } else {
            format!(" of {}", cause.host)
        };
        let words = format!(" (explained by {} on {}{host})", cause.rule, cause.details.subject);
        finding.cause = Some(root_of(cause));
        finding.details.summary.push_str(&words);
    }

    /// Keeps a former symptom as a note for [`ENDED_CAUSE_SECONDS`], unless its evidence has become
    /// worse since its cause ended.
    fn hold_after_cause(
        &self,
        finding: &mut OpenFinding,
        cause_before: Option<Cause>,
        class_before: Class,
    ) {
        if finding.cause.is_some() {
            finding.ended_cause = None;
            return;
        }
        if let Some(cause) = cause_before.filter(|cause| !self.still_fires(cause)) {
            finding.ended_cause = Some(EndedCause {
                ended_ts: self.now,
                rule: cause.rule,
                evidence_class: class_before,
            });
        }
        let Some(ended) = &finding.ended_cause else { return };
        let seconds = self.now.seconds_since(ended.ended_ts);
        let is_recent = (0.0..hold_seconds(finding)).contains(&seconds);
        let is_worse = finding.evidence_class > ended.evidence_class;
        if !is_recent || is_worse || finding.class == Class::Note {
            finding.ended_cause = None;
            return;
        }
        finding.class = Class::Note;
        let words = match ended.rule.as_str() {
            "" => format!(" (its cause ended {seconds:.0} s ago)"),
            rule => format!(" (its cause {rule} ended {seconds:.0} s ago)"),
        };
        finding.details.summary.push_str(&words);
    }

    /// Whether a root still fires, directly or behind another finding: then it is the symptom's
    /// evidence that no longer fits.
    fn still_fires(&self, root: &Cause) -> bool {
        let mut firing = self.causes.iter().filter(|cause| cause.state == State::Firing);
        firing.any(|cause| root_of(cause).finding_id == root.finding_id)
    }

    /// Open findings that may explain this one, preferred ones first.
    fn causes_of<'b>(&'b self, finding: &OpenFinding) -> impl Iterator<Item = &'b OpenFinding> {
        self.causes.iter().filter(|cause| {
            row_allows(finding, &cause.rule)
                && row_explains(cause, &finding.rule)
                && have_equal(cause, finding)
                && concern_the_same(cause, finding, self.hosts)
                && root_of(cause).finding_id != finding.finding_id
                && cause.finding_id != finding.finding_id
        })
    }

    fn write(&mut self, finding: &mut OpenFinding, from: State) {
        finding.mark_written(self.now);
        self.out.push(Transition { ts: self.now, from, finding: finding.clone() });
    }
}

fn is_recent(at: Micros, now: Micros) -> bool {
    now.seconds_since(at) <= FLAP_WINDOW_SECONDS
}

/// How long a symptom stays a note after its cause ended. One that counts over a longer time still
/// sees the cause when that is gone.
fn hold_seconds(finding: &OpenFinding) -> f64 {
    let row = finding.details.row.as_ref();
    let own = row.and_then(|row| row.get("holds_seconds")).and_then(Cell::as_number);
    own.unwrap_or(ENDED_CAUSE_SECONDS).clamp(0.0, ENDED_CAUSE_SECONDS_MAX)
}

/// Whether a row's columns `explained_by` and `not_explained_by` admit a rule as its cause.
fn row_allows(finding: &OpenFinding, rule: &str) -> bool {
    let row = finding.details.row.as_ref();
    let only = row.and_then(|row| row.text("explained_by"));
    let except = row.and_then(|row| row.text("not_explained_by"));
    only.is_none_or(|list| list.split(',').any(|id| id.trim() == rule))
        && !except.is_some_and(|list| list.split(',').any(|id| id.trim() == rule))
}

/// Whether the column `explains` of a cause's row admits a rule as its symptom.
fn row_explains(cause: &OpenFinding, rule: &str) -> bool {
    let only = cause.details.row.as_ref().and_then(|row| row.text("explains"));
    only.is_none_or(|list| list.split(',').any(|id| id.trim() == rule))
}

/// Whether two findings share a name in one of the cause's columns `equal`, or have none of these
/// columns both.
///
/// A column may list names (`php-fpm8.2, nginx`).
fn have_equal(cause: &OpenFinding, finding: &OpenFinding) -> bool {
    let (Some(one), Some(other)) = (&cause.details.row, &finding.details.row) else { return true };
    let mut differ = false;
    for column in &cause.details.equal {
        let (one, other) = (names(one, column), names(other, column));
        if one.iter().any(|name| other.contains(name)) {
            return true;
        }
        differ |= !one.is_empty() && !other.is_empty();
    }
    !differ
}

/// The names in a column, as long as the kernel keeps names of processes (TASK_COMM_LEN).
fn names<'a>(row: &'a Row, column: &str) -> Vec<&'a str> {
    let names = row.text(column).unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(|name| name.get(..15).unwrap_or(name)).collect()
}

/// The root of a symptom of `cause`: the cause's own root, else the cause.
fn root_of(cause: &OpenFinding) -> Cause {
    match &cause.cause {
        Some(root) => root.clone(),
        None => Cause { finding_id: cause.finding_id.clone(), rule: cause.rule.clone() },
    }
}

/// Whether two findings are about the same host, or one about the host of the other's upstream, and
/// agree in the key columns that both have.
fn concern_the_same(
    cause: &OpenFinding,
    finding: &OpenFinding,
    hosts: &BTreeMap<String, String>,
) -> bool {
    (cause.host == finding.host
        || cause.host.is_empty()
        || is_upstream(&cause.host, finding, hosts)
        || is_seen_at(&cause.host, finding, hosts))
        && finding.key_values.iter().all(|(name, value)| {
            cause.key_values.iter().all(|(other, cause_value)| {
                other != name
                    || cause_value == value
                    || name == "upstream" && upstreams_agree(cause_value, value)
            })
        })
}

/// Words of rules whose rows name no upstream.
const UNKNOWN_UPSTREAMS: [&str; 2] = ["an upstream", "its upstreams"];

/// Whether two different values of the key column `upstream` can be about the same upstream: one
/// rule has the address of a member, another the name of its pool, a third `pool/server`, a fourth
/// none.
fn upstreams_agree(cause: &Value, finding: &Value) -> bool {
    let (Some(cause), Some(finding)) = (cause.as_str(), finding.as_str()) else { return false };
    if UNKNOWN_UPSTREAMS.contains(&cause) || UNKNOWN_UPSTREAMS.contains(&finding) {
        return true;
    }
    match (is_address(cause), is_address(finding)) {
        (true, true) => false,
        (false, false) => {
            let is_pool_of = |pool: &str, member: &str| {
                member.strip_prefix(pool).is_some_and(|rest| rest.starts_with('/'))
            };
            is_pool_of(cause, finding) || is_pool_of(finding, cause)
        }
        // Which members a pool has is not known here.
        _ => true,
    }
}

/// Whether an upstream is `address:port` or a Unix socket, and not the name of a pool.
fn is_address(upstream: &str) -> bool {
    let port = upstream.rsplit_once(':').map(|(_, port)| port);
    upstream.starts_with("unix:")
        || upstream.parse::<IpAddr>().is_ok()
        || port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Whether the key column `upstream` of a finding is an address of `host`.
fn is_upstream(host: &str, finding: &OpenFinding, hosts: &BTreeMap<String, String>) -> bool {
    let upstream = finding.key_values.iter().find(|(name, _)| name == "upstream");
    let address = upstream.and_then(|(_, value)| address_of(value.as_str()?));
    address.and_then(|address| hosts.get(address)).is_some_and(|known| known == host)
}

/// Whether a finding without a host is about `host`: its row lists that host in the column
/// `at_hosts`, or an address of it in `at_upstreams`.
fn is_seen_at(host: &str, finding: &OpenFinding, hosts: &BTreeMap<String, String>) -> bool {
    let Some(row) = finding.details.row.as_ref().filter(|_| finding.host.is_empty()) else {
        return false;
    };
    let mut upstreams = listed(row, "at_upstreams").filter_map(address_of);
    listed(row, "at_hosts").any(|name| name == host)
        || upstreams.any(|address| hosts.get(address).is_some_and(|known| known == host))
}

/// The parts of a column that lists names, separated by commas.
fn listed<'a>(row: &'a Row, column: &str) -> impl Iterator<Item = &'a str> {
    row.text(column).unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// The address in `10.0.0.5:8080`, `[2001:db8::1]:8080`.
fn address_of(upstream: &str) -> Option<&str> {
    let (address, _) = upstream.rsplit_once(':')?;
    Some(address.trim_start_matches('[').trim_end_matches(']'))
}

/// Whether the table should learn of a firing finding's class or evidence.
fn is_news(finding: &OpenFinding, now: Micros) -> bool {
    if finding.class > finding.written.class || finding.cause != finding.written.cause {
        return true;
    }
    let is_young = finding.fired_ts.is_some_and(|at| now.seconds_since(at) < RENEW_SECONDS);
    let renew = if is_young { YOUNG_RENEW_SECONDS } else { RENEW_SECONDS };
    if now.seconds_since(finding.written.ts) < renew {
        return false;
    }
    finding.class != finding.written.class
        || match (&finding.details.row, &finding.written.row) {
            (Some(new), Some(old)) => differ(new, old),
            _ => finding.details.summary != finding.written.summary,
        }
}

/// Whether a text differs, or a number by more than a quarter. Times do not count: they always
/// move.
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
