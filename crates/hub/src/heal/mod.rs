//! Repairs of hosts: the heal desk decides, the ledger keeps what it decided, agents carry the orders.
//!
//! ```text
//! rules ─► findings that fire ─► heal desk ─► one transaction of the ledger ─► signed order ─► agent ─► weir-act
//!              ▲                    ▲                    │                                        │
//!              │              approve, stop (API)        └► rows of `action_run` ◄────────────────┘
//!              └── alarms: an approval is awaited, a repair failed ─► incidents, notices
//! ```
//! The order for the host that `weir up` itself watches goes to weir-act without an agent.
//!
//! A decision that cannot be kept is dropped with everything in memory: nothing was sent, so the next tick decides it
//! from the ledger as if for the first time.

mod facts;
mod harm;
mod orders;
mod own_host;
mod peers;
mod policy;
mod rows;

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use weir_act::OrderSigner;
use weir_actions::{
    DeskError, Finding, HEAL_KINDS, HealDecisions, HealDesk, HealFacts, HealPolicy, LadderName,
    LockRequest,
};
use weir_config::Values;
use weir_ledger::{Change, LedgerError};
use weir_process::failure::Failure;
use weir_store::Store;
use weir_tables::{Clock, Micros};

use crate::fleet::{Fleet, link_dir};
use crate::notices::{NoticeError, NoticeErrorKind, Notices, append};
use crate::rule_runner::RuleRunner;
use facts::{EngineFacts, HostBook};
use harm::HarmWatch;
use orders::{OrderDesk, OrderWays};
use own_host::OwnHost;
pub(crate) use peers::{PeerAnswer, PeerHubs, PeerOrder};

/// Seconds between two log lines about a ledger that cannot be used.
const COMPLAIN_SECONDS: f64 = 60.0;
/// Attempts of an act when another hub changes the same run.
const ATTEMPTS: usize = 3;

/// What a person decides about repairs.
#[derive(Clone, Debug)]
pub(crate) enum HealAct {
    Approve { run: String },
    Refuse { run: String },
    Undo { run: String },
    Stop { reason: String },
    Start,
    Raise { rule: String, action: String, role: String },
    Lock(LockRequest),
    Unlock { lock: String },
}

/// Policy and key, read and checked before anything is served.
pub(crate) struct PreparedHeals {
    policy: HealPolicy,
    /// Where the key of orders is; `None` while repairs are off.
    key_dir: Option<PathBuf>,
    /// Whether this process watches its own host.
    is_watching: bool,
}

/// Reads the configuration of repairs, and makes the key of orders if repairs are enabled.
///
/// # Errors
/// What cannot be used, with its line.
pub(crate) fn prepare(
    values: &Values,
    judge: &RuleRunner,
    is_watching: bool,
) -> Result<PreparedHeals, Failure> {
    let rules: Vec<&str> = judge.rules.iter().map(|rule| rule.id.as_str()).collect();
    let policy = policy::policy(values, &rules)?;
    let is_enabled = policy.settings.is_enabled;
    // In a cluster the key may be another hub's: it is made when the fleet's files are shared.
    if is_enabled && values.cluster.manifest.is_empty() {
        make_key(&link_dir(values))?;
    }
    Ok(PreparedHeals { policy, key_dir: is_enabled.then(|| link_dir(values)), is_watching })
}

/// Makes the key of orders unless it is there, with the public line in a second file for hosts to pin.
///
/// # Errors
/// The directory cannot be written.
pub(crate) fn make_key(dir: &Path) -> Result<(), Failure> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| no_key(dir, &error.to_string()))?;
    let made = OrderSigner::open(dir);
    made.map(drop).map_err(|error| no_key(dir, &error.to_string()))
}

fn no_key(path: &Path, why: &str) -> Failure {
    Failure::new(format!("cannot prepare the key of orders in `{}`: {why}", path.display()))
        .hint("give weir's user write access to the data directory")
}

/// The heal desk, and what it has from the store.
#[derive(Default)]
struct HealState {
    /// `None` until the ledger was read.
    desk: Option<HealDesk>,
    versions: BTreeMap<(String, String), i64>,
    hosts: HostBook,
    harm: HarmWatch,
    leader_since: Option<Micros>,
    complained: Option<Micros>,
    /// Answers of hosts that the desk has not worked on for good.
    answers: Vec<weir_actions::OrderReport>,
}

impl HealState {
    fn forget(&mut self) {
        self.desk = None;
        self.versions.clear();
    }
}

/// Repairs at work.
pub(crate) struct Heals {
    policy: HealPolicy,
    state: tokio::sync::Mutex<HealState>,
    notices: Arc<Notices>,
    orders: OrderDesk,
    fleet: Arc<Fleet>,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    host: String,
}

impl Heals {
    /// Starts repairs; call it inside the runtime.
    pub(crate) fn new(
        prepared: PreparedHeals,
        values: &Values,
        store: &Arc<Store>,
        clock: &Arc<dyn Clock>,
        (fleet, notices): (&Arc<Fleet>, &Arc<Notices>),
        peers: PeerHubs,
    ) -> Arc<Self> {
        let key_dir = prepared.key_dir;
        let is_own_ordered = prepared.is_watching && key_dir.is_some();
        let own = is_own_ordered.then(|| OwnHost::start(values, store, clock));
        let (fleet_link, kept) = (Arc::clone(fleet), Arc::clone(store));
        let ways = OrderWays { fleet: fleet_link, own, key_dir, peers, store: kept };
        Arc::new(Self {
            policy: prepared.policy,
            state: tokio::sync::Mutex::default(),
            notices: Arc::clone(notices),
            orders: OrderDesk::new(ways, clock),
            fleet: Arc::clone(fleet),
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            host: values.collect.host.clone(),
        })
    }

    /// Compares the findings that fire with the runs, and sends what it decides; the findings about
    /// repairs themselves.
    pub(crate) async fn tick(&self, now: Micros, judge: &RuleRunner) -> Vec<Finding> {
        let mut state = self.state.lock().await;
        state.leader_since.get_or_insert(now);
        match self.ticked(&mut state, now, judge).await {
            Ok(alarms) => alarms,
            Err(error) => {
                let is_new = state
                    .complained
                    .is_none_or(|at| !(0.0..COMPLAIN_SECONDS).contains(&now.seconds_since(at)));
                if is_new {
                    tracing::error!("cannot keep repairs, none is ordered: {error}");
                    state.complained = Some(now);
                }
                Vec::new()
            }
        }
    }

    /// Forgets what is in memory: another hub runs the rules now.
    pub(crate) async fn retire(&self) {
        let mut state = self.state.lock().await;
        state.forget();
        state.leader_since = None;
    }

    async fn ticked(
        &self,
        state: &mut HealState,
        now: Micros,
        judge: &RuleRunner,
    ) -> Result<Vec<Finding>, LedgerError> {
        let is_enabled = self.policy.settings.is_enabled;
        if is_enabled && self.notices.is_cluster() {
            // A person may have decided at another hub.
            state.forget();
        }
        self.load(state).await?;
        let Some(desk) = &mut state.desk else { return Ok(Vec::new()) };
        if !is_enabled && desk.runs().next().is_none() {
            return Ok(Vec::new());
        }
        let mut engine = judge.with_engine(|engine| EngineFacts::collect(engine, now));
        let findings: Vec<Finding> =
            engine.findings.iter().map(|found| found.finding.clone()).collect();
        engine.join(self.notices.contexts(now, &findings).await);
        state.hosts.learn(&self.store, now, self.notices.is_cluster()).await;
        let hosts = state.hosts.states(&self.fleet, &self.host, self.orders.has_own_host());
        state.answers.extend(self.orders.answers());
        let mut reports = state.answers.clone();
        reports.extend(facts::reports(&self.store, desk.runs(), now).await);
        let harms = state.harm.observe(&self.store, desk.runs(), &hosts, now).await;
        let windows = self.notices.window_locks(now).await;
        let facts = HealFacts {
            firing: &engine.findings,
            rules: &engine.rules,
            hosts: &hosts,
            addresses: &engine.addresses,
            locks: &windows,
            reports: &reports,
            harms: &harms,
            leader_since: state.leader_since.unwrap_or(now),
        };
        let decisions = desk.tick(now, &facts);
        let alarms = desk.alarms().to_vec();
        self.keep(state, decisions).await?;
        state.answers.clear();
        Ok(alarms)
    }

    /// Does what a person decided; what changed.
    pub(crate) async fn act(&self, act: HealAct, by: &str) -> Result<Value, NoticeError> {
        let mut kept = self.try_act(&act, by).await?;
        for _ in 1..ATTEMPTS {
            // Another hub changed the same run in between.
            if !matches!(kept, Err(LedgerError::Conflict { .. })) {
                break;
            }
            kept = self.try_act(&act, by).await?;
        }
        Ok(kept?)
    }

    async fn try_act(
        &self,
        act: &HealAct,
        by: &str,
    ) -> Result<Result<Value, LedgerError>, NoticeError> {
        let now = self.clock.now();
        let mut state = self.state.lock().await;
        if !self.store.is_leader() || self.notices.is_cluster() {
            state.forget();
        }
        self.load(&mut state).await?;
        let desk = state.desk.as_mut().expect("it was loaded above");
        let decisions = applied(desk, now, act, by).map_err(refused)?;
        tracing::info!("{by} decides about repairs: {act:?}");
        let runs: Vec<Value> =
            decisions.changes.iter().map(|change| rows::shown(&change.run)).collect();
        let locks: Vec<Value> = desk.locks(now).map(rows::lock).collect();
        let kept = self.keep(&mut state, decisions).await;
        Ok(kept.map(|()| json!({"by": by, "runs": runs, "locks": locks})))
    }

    /// Carries an order of the leader to an agent of this hub.
    ///
    /// # Errors
    /// The order is not signed by the cluster's key, or contradicts itself.
    pub(crate) async fn deliver(&self, order: &PeerOrder) -> Result<PeerAnswer, String> {
        self.orders.deliver(order).await
    }

    /// Runs, steps and the stop, as the ledger has them.
    pub(crate) async fn shown(&self) -> Result<Value, NoticeError> {
        let documents = self.documents().await?;
        let bodies: Vec<(String, String, String)> = bodies(&documents);
        let desk = HealDesk::restore(self.policy.clone(), &bodies);
        let mut runs: Vec<_> = desk.runs().collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run.changed_us));
        let stop = desk.stop_reason().map(|stop| {
            json!({"by": stop.by, "reason": stop.reason, "at_ts": Micros(stop.at_us).to_string()})
        });
        let entries = self.policy.entries.iter().map(|entry| {
            json!({
                "rule": entry.rule, "action": entry.action, "params": entry.params,
                "on": entry.on, "hosts": entry.hosts, "roles": entry.roles,
                "mode": entry.mode.as_str(), "alone": entry.alone.as_str(),
            })
        });
        Ok(json!({
            "enabled": self.policy.settings.is_enabled,
            "stopped": stop,
            "public_key": self.orders.public_key(),
            "heals": entries.collect::<Vec<_>>(),
            "locks": desk.locks(self.clock.now()).map(rows::lock).collect::<Vec<_>>(),
            "ladders": desk.ladders().map(rows::ladder).collect::<Vec<_>>(),
            "runs": runs.into_iter().map(rows::shown).collect::<Vec<_>>(),
        }))
    }

    /// Locks that hold, as the ledger has them.
    pub(crate) async fn locks(&self) -> Result<Value, NoticeError> {
        let documents = self.documents().await?;
        let desk = HealDesk::restore(self.policy.clone(), &bodies(&documents));
        Ok(desk.locks(self.clock.now()).map(rows::lock).collect())
    }

    async fn documents(&self) -> Result<Vec<weir_ledger::Document>, LedgerError> {
        let mut documents = Vec::new();
        for kind in HEAL_KINDS {
            documents.extend(self.notices.with_ledger(move |ledger| ledger.all(kind)).await?);
        }
        Ok(documents)
    }

    async fn load(&self, state: &mut HealState) -> Result<(), LedgerError> {
        if state.desk.is_some() {
            return Ok(());
        }
        let documents = self.documents().await?;
        state.versions = documents
            .iter()
            .map(|document| ((document.kind.clone(), document.key.clone()), document.version))
            .collect();
        let desk = HealDesk::restore(self.policy.clone(), &bodies(&documents));
        for bad in desk.unreadable() {
            tracing::error!("cannot read {} `{}` in the ledger: {}", bad.kind, bad.key, bad.reason);
        }
        state.desk = Some(desk);
        Ok(())
    }

    /// Writes decisions in one transaction, then their rows, then sends their orders.
    async fn keep(
        &self,
        state: &mut HealState,
        decisions: HealDecisions,
    ) -> Result<(), LedgerError> {
        let changes: Vec<Change> = decisions
            .documents
            .into_iter()
            .filter_map(|document| {
                let name = (document.kind.to_owned(), document.key);
                let expected = state.versions.get(&name).copied().unwrap_or(0);
                let body = document.body.map(|body| (body, None));
                let is_needed = expected > 0 || body.is_some();
                is_needed.then_some(Change { kind: name.0, key: name.1, expected, body })
            })
            .collect();
        if !changes.is_empty() {
            let wanted = changes.clone();
            if let Err(error) = self.notices.with_ledger(move |ledger| ledger.apply(&wanted)).await
            {
                // Nothing was sent: the ledger alone says what was decided.
                state.forget();
                return Err(error);
            }
            for change in changes {
                let name = (change.kind, change.key);
                match change.body {
                    Some(_) => drop(state.versions.insert(name, change.expected + 1)),
                    None => drop(state.versions.remove(&name)),
                }
            }
        }
        for order in decisions.orders {
            tracing::warn!("repair {}: {} on {}", order.run_id, order.action, order.host);
            self.orders.send(order);
        }
        if !decisions.changes.is_empty() {
            append(&self.store, rows::changes(&decisions.changes)).await;
        }
        Ok(())
    }
}

fn bodies(documents: &[weir_ledger::Document]) -> Vec<(String, String, String)> {
    let each = documents.iter();
    each.map(|found| (found.kind.clone(), found.key.clone(), found.body.clone())).collect()
}

fn applied(
    desk: &mut HealDesk,
    now: Micros,
    act: &HealAct,
    by: &str,
) -> Result<HealDecisions, DeskError> {
    match act {
        HealAct::Approve { run } => desk.approve(now, run, by),
        HealAct::Refuse { run } => desk.refuse_run(now, run, by),
        HealAct::Undo { run } => desk.undo(now, run, by),
        HealAct::Stop { reason } => desk.stop(now, reason, by),
        HealAct::Start => desk.start(by),
        HealAct::Raise { rule, action, role } => {
            desk.raise(now, LadderName { rule, action, role }, by)
        }
        HealAct::Lock(request) => desk.lock(now, request.clone(), by),
        HealAct::Unlock { lock } => desk.unlock(now, lock, by),
    }
}

fn refused(error: DeskError) -> NoticeError {
    let is_unknown = error.message.starts_with("there is no ");
    let kind = if is_unknown { NoticeErrorKind::Unknown } else { NoticeErrorKind::Bad };
    NoticeError { kind, message: error.message, hint: error.hint }
}
