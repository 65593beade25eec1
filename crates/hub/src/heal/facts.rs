//! What the heal desk decides on, from the engine, the store and the fleet: findings with the age
//! of their evidence, hosts with role, clock and newest rows, reports about orders.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_actions::{
    HealFinding, HealRun, HostState, OrderOutcome, OrderReport, OrderResult, RuleTiming, RunState,
};
use weir_rules::{Engine, OpenFinding, Row, rows_of};
use weir_store::{Query, QueryLimits, Store};
use weir_tables::{Micros, sql_literal};

use crate::fleet::Fleet;
use crate::notices::{IncidentContext, fact};

/// Collectors report every ten seconds, so this has every host that is up.
const SEEN: &str = "select host, cast(date_part('epoch', max(ts)) as double) as seen_seconds \
    from collector_run where ts > $now - interval '5 minutes' group by host";
/// Agents report it at start and every hour.
const ROLES: &str =
    "select host, role from host_info where ts > $now - interval '3 hours' order by ts";
/// Agents of other hubs: a hub writes a row for each that is connected once a minute.
const LINKS: &str = "select host, clock_offset_seconds from agent_link \
    where ts > $now - interval '90 seconds' and ts <= $now order by ts";
/// How often hosts are queried.
const HOSTS_SECONDS: f64 = 5.0;
/// Reports older than this are of no run that waits for one.
const REPORT_US: i64 = 3_600 * 1_000_000;
const ROWS_MAX: usize = 100_000;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Hosts of the fleet, as last queried.
#[derive(Default)]
pub(super) struct HostBook {
    asked: Option<Micros>,
    seen: BTreeMap<String, Micros>,
    roles: BTreeMap<String, String>,
    /// Clocks of agents that are connected to some hub of the cluster, in microseconds.
    linked: BTreeMap<String, i64>,
}

impl HostBook {
    /// Queries hosts again if that is due.
    pub(super) async fn learn(&mut self, store: &Store, now: Micros, is_cluster: bool) {
        let is_known =
            self.asked.is_some_and(|at| (0.0..HOSTS_SECONDS).contains(&now.seconds_since(at)));
        if is_known {
            return;
        }
        self.asked = Some(now);
        for row in rows(store, SEEN, now).await {
            let seconds = row.get("seen_seconds").and_then(weir_rules::Cell::as_number);
            if let (Some(host), Some(seconds)) = (row.text("host"), seconds) {
                self.seen.insert(host.to_owned(), Micros::from_unix_seconds(seconds));
            }
        }
        self.linked.clear();
        let links = if is_cluster { rows(store, LINKS, now).await } else { Vec::new() };
        for row in links {
            let seconds = row.get("clock_offset_seconds").and_then(weir_rules::Cell::as_number);
            if let (Some(host), Some(seconds)) = (row.text("host"), seconds) {
                self.linked.insert(host.to_owned(), Micros::from_unix_seconds(seconds).0);
            }
        }
        for row in rows(store, ROLES, now).await {
            if let (Some(host), Some(role)) = (row.text("host"), row.text("role")) {
                self.roles.insert(host.to_owned(), role.to_owned());
            }
        }
    }

    /// The hosts; `own` is this hub's, whose orders need no link where `weir up` carries them itself.
    pub(super) fn states(
        &self,
        fleet: &Fleet,
        own: &str,
        is_own_ordered: bool,
    ) -> BTreeMap<String, HostState> {
        let clocks = fleet.clocks();
        let states = self.seen.iter().map(|(host, seen)| {
            let linked = self.linked.get(host).map(|offset| Some(*offset));
            let clock = clocks.get(host).copied().or(linked);
            let is_own = host == own;
            let state = HostState {
                role: self.roles.get(host).cloned().unwrap_or_default(),
                clock_offset_us: if is_own { Some(0) } else { clock.flatten() },
                seen: *seen,
                is_reachable: clock.is_some() || (is_own && is_own_ordered),
            };
            (host.clone(), state)
        });
        states.collect()
    }
}

/// Findings that fire, before their incidents are known, and times of all rules.
pub(super) struct EngineFacts {
    pub(super) findings: Vec<HealFinding>,
    pub(super) rules: BTreeMap<String, RuleTiming>,
    pub(super) addresses: BTreeMap<String, String>,
}

impl EngineFacts {
    pub(super) fn collect(engine: &Engine, now: Micros) -> Self {
        let mut rules = BTreeMap::new();
        for rule in engine.rules() {
            let Some(last_run) = engine.status(&rule.id).last_answer_ts else { continue };
            let (every_us, clear_us) = (micros(rule.every_seconds), micros(rule.clear_seconds));
            rules.insert(rule.id.clone(), RuleTiming { every_us, clear_us, last_run });
        }
        let findings = engine.firing().map(|open| heal_finding(open, &rules, now)).collect();
        Self { findings, rules, addresses: engine.hosts().clone() }
    }

    /// Adds incidents, what mutes them, and what acts in them.
    pub(super) fn join(&mut self, contexts: Vec<IncidentContext>) {
        for (found, context) in self.findings.iter_mut().zip(contexts) {
            found.incident_id = context.incident_id;
            found.muted_by = context.muted_by;
            found.acting = context.acked_by.map(weir_actions::IncidentActor::Person);
        }
    }
}

fn heal_finding(
    open: &OpenFinding,
    rules: &BTreeMap<String, RuleTiming>,
    now: Micros,
) -> HealFinding {
    let last_run = rules.get(&open.rule).map_or(open.started_ts, |rule| rule.last_run);
    // Absent since a run means that the run before that returned it.
    let evidence = open.absent_since().map_or(last_run, |since| Micros(since.0 - 1));
    HealFinding {
        finding: fact(open, now),
        fired: open.fired_ts.unwrap_or(open.started_ts),
        evidence,
        incident_id: None,
        muted_by: None,
        acting: None,
    }
}

/// What hosts wrote about the orders of runs that wait for a report.
pub(super) async fn reports<'a>(
    store: &Store,
    runs: impl Iterator<Item = &'a HealRun>,
    now: Micros,
) -> Vec<OrderReport> {
    let orders = runs.flat_map(|run| {
        let undo = run.undo.as_ref().filter(|undo| undo.outcome.is_none());
        let own = run.order_id.as_ref().filter(|_| run.ended_us.is_none());
        let dry = run.dry_run.as_ref().filter(|_| run.state == RunState::DryRun);
        let others = undo.map(|undo| &undo.order_id).into_iter();
        own.into_iter().chain(others).chain(dry.map(|dry| &dry.order_id))
    });
    let orders: Vec<String> = orders.map(|order_id| sql_literal(order_id)).collect();
    if orders.is_empty() {
        return Vec::new();
    }
    // Rows of a host have the order's id as their run.
    let since = Micros(now.0 - REPORT_US);
    let sql = format!(
        "select order_id, host, state, reason, argv, exit_status, output_tail from action_run \
         where order_id in ({}) and run_id = order_id and ts > timestamp '{since}' order by ts",
        orders.join(", ")
    );
    rows(store, &sql, now).await.iter().filter_map(|row| report(row, now)).collect()
}

fn report(row: &Row, now: Micros) -> Option<OrderReport> {
    let word = |name: &str| row.text(name).unwrap_or_default().to_owned();
    let exit = row.get("exit_status").and_then(weir_rules::Cell::as_number);
    let outcome = match row.text("state")? {
        "started" => OrderOutcome::Started,
        "refused" => OrderOutcome::Refused(word("reason")),
        "unknown" => OrderOutcome::Lost(word("reason")),
        state @ ("ended" | "failed") => {
            #[expect(clippy::cast_possible_truncation, reason = "an exit status is below 512")]
            let exit = exit.map(|exit| exit as i64);
            let exit = if state == "ended" { Some(0) } else { exit.filter(|exit| *exit != 0) };
            OrderOutcome::Ended(OrderResult {
                exit,
                timed_out: false,
                argv: word("argv"),
                output_tail: word("output_tail").chars().take(4_000).collect(),
                why: word("reason"),
            })
        }
        _ => return None,
    };
    let (order_id, host) = (word("order_id"), word("host"));
    Some(OrderReport { order_id, host, ts: now, outcome })
}

/// Rows of a query; none if it fails, which is logged.
pub(super) async fn rows(store: &Store, sql: &str, now: Micros) -> Vec<Row> {
    let limits = QueryLimits::of_rule(ROWS_MAX, TIMEOUT);
    // A text that differs each time is not worth a cached plan.
    let query = if sql.contains("$now") { Query::new(sql).at(now) } else { Query::new(sql) };
    match store.query(query.limits(limits)).run().await {
        Ok(answer) => rows_of(&answer.batches, limits.rows),
        Err(error) => {
            tracing::debug!("cannot query for repairs: {error}");
            Vec::new()
        }
    }
}

fn micros(seconds: u64) -> i64 {
    i64::try_from(seconds.saturating_mul(1_000_000)).unwrap_or(i64::MAX)
}
