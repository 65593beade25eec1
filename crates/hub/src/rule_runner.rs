//! The rule runner: evaluates due rules over the store, feeds the engine, and appends changes of
//! state as rows.
//!
//! Findings are rows like any other, so a finding is appended through the same path as a log line,
//! and the engine is restored from that table at start. Rows that the store cannot take now are
//! kept and tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use parking_lot::Mutex;
use weir_actions::Finding;
use weir_rules::{Engine, Rule, RuleError, RuleSet, Transition};
use weir_store::{ConditionWatch, Query, QueryLimits, Store, StoreError};
use weir_tables::{Batch, Clock, FindingRows, Micros, Parcel, Rows};

use crate::heal::Heals;
use crate::notices::{self, Notices};
use crate::precision;

/// The current findings, from which the engine resumes after a restart.
const NEWEST: &str = "select * from finding_now";
/// Addresses by host, as agents reported them within the last two hours (they report every hour).
const ADDRESSES: &str = "select host, addresses from host_info where addresses is not null \
    and ts > $now - interval '2 hours' order by ts";
/// How often the addresses are queried.
const ADDRESSES_SECONDS: f64 = 60.0;
/// Findings rows that wait for room in the store; more are dropped, oldest first, and logged.
const MAX_WAITING: usize = 10_000;
/// Open findings that are taken over at start.
const MAX_RESTORED: usize = 100_000;

/// Rules with their engine.
pub struct RuleRunner {
    engine: Mutex<Engine>,
    asked_addresses: Mutex<Option<Micros>>,
    /// By id, the conditions of each rule that the store watches.
    watched: Mutex<BTreeMap<String, Arc<Vec<Option<ConditionWatch>>>>>,
    /// Rules of which the store knew, when they ran last, that a condition has no row.
    idle: Mutex<BTreeSet<String>>,
    /// Rule files that could not be loaded.
    pub broken: Vec<RuleError>,
    /// The rules.
    pub rules: RuleSet,
}

impl RuleRunner {
    /// A judge over the built-in rules and those of `files` (name and text).
    pub fn new(files: &[(String, String)]) -> Self {
        let (rules, broken) = RuleSet::with_directory(files);
        let engine = Mutex::new(Engine::new(&rules));
        let (asked_addresses, watched, idle) = <_>::default();
        Self { engine, asked_addresses, watched, idle, broken, rules }
    }

    /// Looks at the engine.
    pub fn with_engine<T>(&self, look: impl FnOnce(&mut Engine) -> T) -> T {
        look(&mut self.engine.lock())
    }

    /// The findings that fire, as the desk of incidents takes them.
    fn firing(&self, now: Micros) -> Vec<Finding> {
        self.with_engine(|engine| notices::facts(engine.firing(), now))
    }

    /// Takes over the findings that were open when weir ended.
    pub async fn restore(&self, store: &Store, now: Micros) -> Vec<Transition> {
        let limits = QueryLimits::of_rule(MAX_RESTORED, Duration::from_secs(60));
        match store.query(Query::new(NEWEST).limits(limits)).run().await {
            Ok(result) => self.with_engine(|engine| {
                engine.restore(&result.batches);
                engine.retire(now)
            }),
            Err(error) => {
                tracing::error!("cannot take over earlier findings: {error}");
                Vec::new()
            }
        }
    }

    /// Runs every rule that is due once, as of `now`.
    pub async fn round(&self, store: &Store, now: Micros) -> Vec<Transition> {
        self.learn_addresses(store, now).await;
        self.wake_idle(store, now).await;
        let due = self.with_engine(|engine| engine.due(now));
        let mut transitions = Vec::new();
        for rule in due {
            transitions.extend(self.run(store, &rule, now).await);
        }
        transitions
    }

    /// Runs every rule that did not run as of `now`, whether it is due or not.
    pub async fn last_round(&self, store: &Store, now: Micros) {
        let rules = self.with_engine(|engine| {
            let is_asked = |rule: &Rule| engine.status(&rule.id).last_run_ts == Some(now);
            let rules = engine.rules().iter().filter(|rule| !is_asked(rule));
            rules.cloned().collect::<Vec<Arc<Rule>>>()
        });
        for rule in rules {
            self.run(store, &rule, now).await;
        }
    }

    /// Updates the engine once a minute with the precision of rules and the addresses of hosts; an
    /// address of several hosts is ambiguous and belongs to none.
    async fn learn_addresses(&self, store: &Store, now: Micros) {
        let asked = self.asked_addresses.lock().replace(now);
        if asked.is_some_and(|at| (0.0..ADDRESSES_SECONDS).contains(&now.seconds_since(at))) {
            *self.asked_addresses.lock() = asked;
            return;
        }
        precision::learn(self, store, now).await;
        let limits = QueryLimits::of_rule(100_000, Duration::from_secs(10));
        let sql = ADDRESSES.replace("$now", &format!("timestamp '{now}'"));
        let Ok(answer) = store.query(Query::new(&sql).limits(limits)).run().await else { return };
        let mut hosts: BTreeMap<String, Option<String>> = BTreeMap::new();
        for row in weir_rules::rows_of(&answer.batches, limits.rows) {
            let (Some(host), Some(addresses)) = (row.text("host"), row.text("addresses")) else {
                continue;
            };
            for address in addresses.split(' ').filter(|address| !address.is_empty()) {
                let owner =
                    hosts.entry(address.to_owned()).or_insert_with(|| Some(host.to_owned()));
                if owner.as_deref() != Some(host) {
                    *owner = None;
                }
            }
        }
        let hosts = hosts.into_iter().filter_map(|(address, host)| Some((address, host?)));
        self.with_engine(|engine| engine.set_hosts(hosts.collect()));
    }

    /// Tells the engine which conditions became true since their rules ran, so that these run now
    /// and not when they are due.
    async fn wake_idle(&self, store: &Store, now: Micros) {
        let idle = self.idle.lock().clone();
        let rules = self.with_engine(|engine| {
            let rules = engine.rules().iter().filter(|rule| idle.contains(&rule.id));
            rules.cloned().collect::<Vec<Arc<Rule>>>()
        });
        for rule in rules {
            if !self.queries(store, &rule, now).await.is_empty() {
                self.with_engine(|engine| engine.wake(&rule, now));
            }
        }
    }

    /// The rule's queries that have to be asked at `now`, which they name `$now`: none when the
    /// store knows that a condition has no row, and not those of conditions that it knows to have
    /// one.
    async fn queries<'a>(&self, store: &Store, rule: &'a Rule, now: Micros) -> Vec<&'a str> {
        let watched = {
            let mut all = self.watched.lock();
            let of_rule = all.entry(rule.id.clone()).or_insert_with(|| {
                Arc::new(rule.when.iter().map(|sql| store.watch(sql)).collect())
            });
            Arc::clone(of_rule)
        };
        let mut queries = rule.queries();
        let mut known = Vec::new();
        for (place, recent) in watched.iter().enumerate() {
            let Some(recent) = recent else { continue };
            match store.may_have(recent, now).await {
                Ok(false) => {
                    self.idle.lock().insert(rule.id.clone());
                    return Vec::new();
                }
                Ok(true) if recent.says_all() => known.push(place),
                // An error here also occurs in the query, which reports it.
                Ok(true) | Err(_) => {}
            }
        }
        self.idle.lock().remove(&rule.id);
        for place in known.into_iter().rev() {
            queries.remove(place);
        }
        queries
    }

    async fn run(&self, store: &Store, rule: &Arc<Rule>, now: Micros) -> Vec<Transition> {
        let queries = self.queries(store, rule, now).await;
        let started = Instant::now();
        let answer = ask(store, &queries, now).await;
        let seconds = started.elapsed().as_secs_f64();
        self.with_engine(|engine| {
            if !queries.is_empty() {
                engine.record_duration(rule, seconds);
            }
            match answer {
                Ok(batches) => engine.observe(rule, now, &batches),
                Err(error) => {
                    engine.record_failure(rule, now, &error.to_string());
                    Vec::new()
                }
            }
        })
    }
}

/// The answer at `now` of the last of a rule's queries, or of the first that has no rows: a cheap
/// condition comes first.
pub async fn ask(
    store: &Store,
    queries: &[&str],
    now: Micros,
) -> Result<Vec<RecordBatch>, StoreError> {
    let limits = QueryLimits::of_rule(10_000, Duration::from_secs(10));
    let mut batches = Vec::new();
    for sql in queries {
        batches = store.query(Query::new(sql).at(now).limits(limits)).run().await?.batches;
        if batches.iter().all(|batch| batch.num_rows() == 0) {
            break;
        }
    }
    Ok(batches)
}

/// Rows of changes of state.
pub fn finding_batch(transitions: &[Transition]) -> Batch {
    let mut rows = FindingRows::default();
    for transition in transitions {
        rows.push(&transition.row());
    }
    Batch { table: FindingRows::SPEC, rows: rows.finish() }
}

/// Runs the rules until the task is ended.
pub(crate) async fn run_always(
    judge: Arc<RuleRunner>,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    every: Duration,
    (notices, heals): (Arc<Notices>, Arc<Heals>),
) {
    let mut waiting = judge.restore(&store, clock.now()).await;
    let mut tick = tokio::time::interval(every);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut was_leader = store.is_leader();
    loop {
        tick.tick().await;
        // In a cluster one hub runs the rules, and resumes from the rows of its predecessor.
        let is_leader = store.is_leader();
        if is_leader && !was_leader {
            waiting = judge.restore(&store, clock.now()).await;
        }
        if was_leader && !is_leader {
            notices.retire().await;
            heals.retire().await;
        }
        was_leader = is_leader;
        if !is_leader {
            continue;
        }
        let transitions = judge.round(&store, clock.now()).await;
        for transition in transitions.iter().filter(|transition| transition.is_state_change()) {
            let finding = &transition.finding;
            tracing::info!(
                rule = finding.rule,
                state = finding.state.as_str(),
                "{}",
                finding.summary()
            );
        }
        waiting.extend(transitions);
        write(&store, &mut waiting).await;
        // After the rows, which may fail: notices go out all the same.
        let now = clock.now();
        let alarms = heals.tick(now, &judge).await;
        let firing = judge.firing(now).into_iter().chain(alarms);
        notices.tick(now, firing.collect()).await;
    }
}

async fn write(store: &Store, waiting: &mut Vec<Transition>) {
    if waiting.is_empty() {
        return;
    }
    let parcel = Parcel { range: None, batches: vec![finding_batch(waiting)] };
    match store.append(parcel).await {
        Ok(_) => waiting.clear(),
        Err(error) => {
            tracing::warn!("cannot keep findings, will try again: {error}");
            let excess = waiting.len().saturating_sub(MAX_WAITING);
            waiting.drain(..excess);
        }
    }
}

/// Rule files of a directory as (name, text), sorted by name; files that cannot be read are logged.
pub fn read_rule_files(
    dir: &std::path::Path,
) -> Result<Vec<(String, String)>, weir_process::failure::Failure> {
    let entries =
        std::fs::read_dir(dir).map_err(|error| weir_process::failure::read_failure(dir, &error))?;
    let mut files = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        match std::fs::read_to_string(&path) {
            Ok(text) => files.push((path.display().to_string(), text)),
            Err(error) => tracing::error!("cannot read rule `{}`: {error}", path.display()),
        }
    }
    files.sort();
    Ok(files)
}
