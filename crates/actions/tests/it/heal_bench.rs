//! A fleet for tests of the heal desk, which compares each decision with that of a desk restored
//! from the documents.

use std::collections::BTreeMap;

use weir_actions::{
    DeskError, Finding, HarmReport, HealChange, HealDecisions, HealDesk, HealEntry, HealFacts,
    HealFinding, HealOrder, HealOrderKind, HealPolicy, HealRun, HealSettings, HealStep, HostLock,
    HostState, OrderOutcome, OrderReport, OrderResult, RuleTiming, RunState,
};
use weir_tables::Micros;

use crate::bench_desk::{at, page};

/// What hosts do with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostAnswer {
    /// They run it; it succeeds.
    Success,
    /// They run it; it exits with this status.
    Exit(i64),
    /// They accept it and are silent.
    AcceptOnly,
    /// They do not answer at all.
    Silence,
    /// They refuse it.
    Refusal,
}

/// A policy that restarts the shop when the app is down.
pub(crate) fn restart(mode: HealStep) -> HealPolicy {
    let params = BTreeMap::from([("unit".to_owned(), "shop.service".to_owned())]);
    let entry = HealEntry {
        rule: "app.down".to_owned(),
        action: "restart-unit".to_owned(),
        params,
        mode,
        ..HealEntry::default()
    };
    let settings = HealSettings { is_enabled: true, ..HealSettings::default() };
    HealPolicy { settings, entries: vec![entry] }
}

/// A fleet, the desk, and everything that it ordered.
#[derive(Clone)]
pub(crate) struct HealBench {
    pub(crate) desk: HealDesk,
    pub(crate) policy: HealPolicy,
    pub(crate) now: i64,
    pub(crate) firing: Vec<HealFinding>,
    pub(crate) rules: BTreeMap<String, RuleTiming>,
    pub(crate) hosts: BTreeMap<String, HostState>,
    pub(crate) addresses: BTreeMap<String, String>,
    pub(crate) locks: Vec<HostLock>,
    pub(crate) reports: Vec<OrderReport>,
    pub(crate) harms: Vec<HarmReport>,
    pub(crate) leader_since: i64,
    pub(crate) answer: HostAnswer,
    /// Exit status and output of dry runs that a host accepts.
    pub(crate) dry_run: (i64, &'static str),
    /// Whether rules run and rows arrive.
    pub(crate) is_fresh: bool,
    /// Hosts that send no rows.
    pub(crate) silent: Vec<String>,
    pub(crate) orders: Vec<HealOrder>,
    pub(crate) changes: Vec<HealChange>,
    documents: BTreeMap<(String, String), String>,
}

impl HealBench {
    /// Five hosts of the role web, and a hub that has led for an hour.
    pub(crate) fn new(policy: HealPolicy) -> Self {
        let mut bench = Self {
            desk: HealDesk::new(policy.clone()),
            policy,
            now: 0,
            firing: Vec::new(),
            rules: BTreeMap::new(),
            hosts: BTreeMap::new(),
            addresses: BTreeMap::new(),
            locks: Vec::new(),
            reports: Vec::new(),
            harms: Vec::new(),
            leader_since: -3_600,
            answer: HostAnswer::Success,
            dry_run: (0, ""),
            is_fresh: true,
            silent: Vec::new(),
            orders: Vec::new(),
            changes: Vec::new(),
            documents: BTreeMap::new(),
        };
        for number in 1..=5 {
            bench.add_host(&format!("web{number}"), "web");
        }
        for rule in ["app.down", "app.slow", "disk.stuck", "app.errors"] {
            let (every_us, clear_us) = (5_000_000, 15_000_000);
            let timing = RuleTiming { every_us, clear_us, last_run: at(0) };
            bench.rules.insert(rule.to_owned(), timing);
        }
        bench
    }

    pub(crate) fn add_host(&mut self, name: &str, role: &str) {
        let state = HostState {
            role: role.to_owned(),
            clock_offset_us: Some(20_000),
            seen: at(self.now),
            is_reachable: true,
        };
        self.hosts.insert(name.to_owned(), state);
    }

    pub(crate) fn host_mut(&mut self, name: &str) -> &mut HostState {
        self.hosts.get_mut(name).expect("a host of the bench")
    }

    /// A finding that begins to fire now, in an incident of its own.
    pub(crate) fn fire(&mut self, finding: Finding) -> Finding {
        self.end(&finding);
        self.firing.push(HealFinding {
            fired: at(self.now),
            evidence: at(self.now),
            incident_id: Some(format!("inc-{}", finding.finding_id)),
            muted_by: None,
            acting: None,
            finding: finding.clone(),
        });
        finding
    }

    /// The app on a host is down.
    pub(crate) fn break_app(&mut self, host: &str) -> Finding {
        self.fire(page("app.down", host))
    }

    pub(crate) fn end(&mut self, finding: &Finding) {
        self.firing.retain(|each| {
            (&each.finding.rule, &each.finding.host) != (&finding.rule, &finding.host)
        });
    }

    pub(crate) fn found_mut(&mut self, host: &str) -> &mut HealFinding {
        self.firing.iter_mut().find(|found| found.finding.host == host).expect("it fires")
    }

    /// One tick; a desk that starts just now must decide the same.
    pub(crate) fn tick(&mut self) -> HealDecisions {
        if self.is_fresh {
            let now = at(self.now);
            self.rules.values_mut().for_each(|rule| rule.last_run = now);
            let hosts = self.hosts.iter_mut().filter(|(name, _)| !self.silent.contains(name));
            hosts.for_each(|(_, host)| host.seen = now);
            self.firing.iter_mut().for_each(|found| found.evidence = now);
        }
        let mut restored = HealDesk::restore(self.policy.clone(), &self.documents());
        let expected = restored.tick(at(self.now), &self.facts());
        let mut desk = self.desk.clone();
        let decisions = desk.tick(at(self.now), &self.facts());
        self.desk = desk;
        assert_eq!(decisions, expected, "a restart at {} s decides otherwise", self.now);
        assert_eq!(self.desk.alarms(), restored.alarms(), "alarms after a restart");
        self.keep(&decisions);
        decisions
    }

    /// One tick each second; the orders of that time.
    pub(crate) fn run(&mut self, seconds: i64) -> Vec<HealOrder> {
        let before = self.orders.len();
        for _ in 0..seconds {
            self.now += 1;
            self.tick();
        }
        self.orders[before..].to_vec()
    }

    /// One tick in 15 s, for long waits; the last is at the end.
    pub(crate) fn wait(&mut self, seconds: i64) {
        let end = self.now + seconds;
        while self.now < end {
            self.now = (self.now + 15).min(end);
            self.tick();
        }
    }

    /// An act of a person.
    pub(crate) fn act(
        &mut self,
        act: impl Fn(&mut HealDesk, Micros) -> Result<HealDecisions, DeskError>,
    ) -> Result<HealDecisions, DeskError> {
        let mut restored = HealDesk::restore(self.policy.clone(), &self.documents());
        let expected = act(&mut restored, at(self.now));
        let decisions = act(&mut self.desk, at(self.now));
        assert_eq!(decisions, expected, "a restart before an act decides otherwise");
        let decisions = decisions?;
        self.keep(&decisions);
        Ok(decisions)
    }

    /// The hub is killed: what is not kept is gone.
    pub(crate) fn kill(&mut self) {
        self.desk = HealDesk::restore(self.policy.clone(), &self.documents());
    }

    /// Decides at this second, and is killed before anything is sent.
    pub(crate) fn kill_before_sending(&mut self) -> HealDecisions {
        let answer = std::mem::replace(&mut self.answer, HostAnswer::Silence);
        self.now += 1;
        let decisions = self.tick();
        self.answer = answer;
        self.kill();
        decisions
    }

    fn facts(&self) -> HealFacts<'_> {
        HealFacts {
            firing: &self.firing,
            rules: &self.rules,
            hosts: &self.hosts,
            addresses: &self.addresses,
            locks: &self.locks,
            reports: &self.reports,
            harms: &self.harms,
            leader_since: at(self.leader_since),
        }
    }

    fn documents(&self) -> Vec<(String, String, String)> {
        let each = self.documents.iter();
        each.map(|((kind, key), body)| (kind.clone(), key.clone(), body.clone())).collect()
    }

    fn keep(&mut self, decisions: &HealDecisions) {
        for document in &decisions.documents {
            let key = (document.kind.to_owned(), document.key.clone());
            match &document.body {
                Some(body) => {
                    assert!(body.len() <= 64 * 1024, "a document of {} bytes", body.len());
                    self.documents.insert(key, body.clone());
                }
                None => drop(self.documents.remove(&key)),
            }
        }
        for order in &decisions.orders {
            self.reports.extend(self.answers(order));
        }
        self.orders.extend(decisions.orders.iter().cloned());
        self.changes.extend(decisions.changes.iter().cloned());
    }

    /// What the host reports about an order.
    fn answers(&self, order: &HealOrder) -> Vec<OrderReport> {
        let result = |exit| {
            let argv = "systemctl restart".to_owned();
            OrderOutcome::Ended(OrderResult { exit: Some(exit), argv, ..OrderResult::default() })
        };
        let outcomes = match self.answer {
            HostAnswer::Success if order.kind == HealOrderKind::DryRun => {
                let (exit, output) = self.dry_run;
                let output_tail = output.to_owned();
                let result =
                    OrderResult { exit: Some(exit), output_tail, ..OrderResult::default() };
                vec![OrderOutcome::Accepted, OrderOutcome::Started, OrderOutcome::Ended(result)]
            }
            HostAnswer::Success => {
                vec![OrderOutcome::Accepted, OrderOutcome::Started, result(0)]
            }
            HostAnswer::Exit(status) => vec![OrderOutcome::Accepted, result(status)],
            HostAnswer::AcceptOnly => vec![OrderOutcome::Accepted],
            HostAnswer::Silence => Vec::new(),
            HostAnswer::Refusal => vec![OrderOutcome::Refused("no such action".to_owned())],
        };
        let reports = outcomes.into_iter().map(|outcome| OrderReport {
            order_id: order.order_id.clone(),
            host: order.host.clone(),
            ts: at(self.now),
            outcome,
        });
        reports.collect()
    }

    /// The newest run on a host.
    #[track_caller]
    pub(crate) fn run_on(&self, host: &str) -> HealRun {
        let runs = self.desk.runs().filter(|run| run.host == host);
        runs.max_by_key(|run| run.opened_us).expect("there is a run").clone()
    }

    #[track_caller]
    pub(crate) fn state_on(&self, host: &str) -> RunState {
        self.run_on(host).state
    }

    /// Rules and classes of the alarms.
    pub(crate) fn alarms(&self) -> Vec<String> {
        let alarms = self.desk.alarms().iter();
        alarms.map(|alarm| format!("{} {}", alarm.rule, alarm.class.as_str())).collect()
    }

    /// Puts a document in place of what is kept, as if it had been so for long.
    pub(crate) fn set_document(&mut self, kind: &str, key: String, body: String) {
        self.documents.insert((kind.to_owned(), key), body);
        self.kill();
    }

    /// A fault, its repair by the way of an approval, and the wait until it is verified.
    pub(crate) fn heal_with_approval(&mut self, host: &str) {
        let finding = self.break_app(host);
        self.run(12);
        let id = self.run_on(host).id;
        self.act(|desk, now| desk.approve(now, &id, "ada")).expect("it waits for an approval");
        self.run(5);
        self.end(&finding);
        self.wait(1_830);
        assert_eq!(self.state_on(host), RunState::Verified, "{:#?}", self.run_on(host));
    }
}
