//! Seeded fleets in seconds: faults with and without a cure, kills between keeping and sending,
//! silent hosts, clock steps, people. And scenes in which every repair would be wrong.
//!
//! Each tick is also decided by a desk that starts just then from the documents, and must decide
//! the same; see [`HealBench::tick`].

use std::collections::{BTreeMap, BTreeSet};

use weir_actions::{
    HealDecisions, HealEntry, HealOrderKind, HealPolicy, HealSettings, HealStep, HostLock,
    RunState, Urgency,
};

use crate::bench_desk::{at, mail, page, symptom};
use crate::heal_bench::{HealBench, HostAnswer, restart};
use crate::heal_ladder::earn_auto;
use crate::simulation::SeededRandom;

const HOUR: i64 = 3_600;

/// Repairs of every rule of the bench.
fn all_rules() -> HealPolicy {
    let one = restart(HealStep::Auto);
    let rules = ["app.down", "app.slow", "app.errors", "disk.stuck"];
    let entries = rules.map(|rule| HealEntry {
        rule: rule.to_owned(),
        alone: HealStep::Auto,
        ..one.entries[0].clone()
    });
    HealPolicy {
        settings: HealSettings { is_enabled: true, ..one.settings },
        entries: entries.into(),
    }
}

struct FleetSimulation {
    bench: HealBench,
    random: SeededRandom,
    /// Ids of orders that were decided, and how often a host had each.
    decided: BTreeSet<String>,
    /// Times of runs by host.
    runs: Vec<(i64, String)>,
    /// Hosts whose fault ends at this second, since a repair helped or it ended by itself.
    ends: BTreeMap<String, i64>,
    kills: usize,
}

impl FleetSimulation {
    fn new(seed: u64) -> Self {
        let mut bench = HealBench::new(all_rules());
        earn_auto(&mut bench);
        for number in 6..=12 {
            bench.add_host(&format!("web{number}"), "web");
        }
        for number in 1..=3 {
            bench.add_host(&format!("solo{number}"), "");
        }
        bench.orders.clear();
        Self {
            bench,
            random: SeededRandom::seeded(seed),
            decided: BTreeSet::new(),
            runs: Vec::new(),
            ends: BTreeMap::new(),
            kills: 0,
        }
    }

    fn step(&mut self) {
        self.change_world();
        let is_killed = self.random.chance(40);
        let decisions = if is_killed {
            self.kills += 1;
            self.bench.kill_before_sending()
        } else {
            self.bench.now += 1;
            self.bench.tick()
        };
        self.check(&decisions, is_killed);
        self.act();
    }

    fn change_world(&mut self) {
        let now = self.bench.now;
        let hosts: Vec<String> = self.bench.hosts.keys().cloned().collect();
        let index = usize::try_from(self.random.below(hosts.len() as u64)).expect("an index");
        let host = hosts[index].clone();
        let is_broken = self.bench.firing.iter().any(|found| found.finding.host == host);
        if !is_broken && self.random.chance(150) {
            let rule = ["app.down", "app.slow", "app.errors"][usize::from(self.random.chance(3))];
            let finding = if self.random.chance(3) { mail(rule, &host) } else { page(rule, &host) };
            self.bench.fire(finding);
            let lasts = i64::try_from(self.random.below(900)).expect("below 900");
            self.ends.insert(host.clone(), now + lasts);
        }
        if self.random.chance(500) {
            let hosts = vec!["web*".to_owned()];
            let (name, until_us) = ("deploy".to_owned(), at(now + 120).0);
            self.bench.locks = vec![HostLock { name, hosts, rules: Vec::new(), until_us }];
        }
        if self.random.chance(300) {
            let state = self.bench.host_mut(&host);
            state.is_reachable = !state.is_reachable;
        }
        if self.random.chance(600) {
            self.bench.now += if self.random.chance(2) { 1_800 } else { -600 };
        }
        self.bench.answer = match self.random.below(10) {
            0 => HostAnswer::Silence,
            1 => HostAnswer::Exit(1),
            2 => HostAnswer::Refusal,
            3 => HostAnswer::AcceptOnly,
            _ => HostAnswer::Success,
        };
        let over: Vec<String> = self
            .ends
            .iter()
            .filter(|(_, end)| **end <= now)
            .map(|(host, _)| host.clone())
            .collect();
        for host in over {
            self.bench.firing.retain(|found| found.finding.host != host);
            self.ends.remove(&host);
        }
    }

    /// What must hold for each order, whenever the hub was killed.
    fn check(&mut self, decisions: &HealDecisions, is_killed: bool) {
        let now = self.bench.now;
        for order in &decisions.orders {
            assert!(self.decided.insert(order.order_id.clone()), "twice: {order:#?}");
            let run = self.bench.desk.runs().find(|run| run.id == order.run_id);
            let run = run.expect("its run is kept").clone();
            if order.kind == HealOrderKind::Undo {
                continue;
            }
            let found = self.bench.firing.iter().find(|found| found.finding.host == order.host);
            let found =
                found.unwrap_or_else(|| panic!("a repair of a host without a fault: {run:#?}"));
            let is_root = found.finding.cause_finding_id.is_none();
            assert!(is_root && found.finding.class >= Urgency::Mail, "{found:#?}");
            assert!(self.bench.host_mut(&order.host).is_reachable, "{order:#?}");
            let is_locked = self.bench.locks.iter().any(|lock| lock.until_us > at(now).0);
            assert!(!(is_locked && order.host.starts_with("web")), "a deployment runs");
            let may_start = run.approved_by.is_some() || run.step == HealStep::Auto;
            assert!(may_start, "nobody approved it: {run:#?}");
            let recent = self.runs.iter().filter(|(at, _)| (0..HOUR).contains(&(now - at)));
            let of_role = recent.clone().filter(|(_, host)| host.starts_with("web"));
            assert!(
                !order.host.starts_with("web") || of_role.count() == 0,
                "12 hosts: one an hour"
            );
            assert!(recent.count() < 10, "the fleet's limit");
            self.runs.push((now, order.host.clone()));
            if self.bench.answer == HostAnswer::Success && !is_killed && self.random.chance(2) {
                self.ends.insert(order.host.clone(), now + 20);
            }
        }
        // A step back of the clock: what was recent stays recent.
        self.runs.iter_mut().for_each(|(at, _)| *at = (*at).min(now));
    }

    fn act(&mut self) {
        let waiting = |state| state == RunState::Asked || state == RunState::Proposed;
        let ids: Vec<String> = self
            .bench
            .desk
            .runs()
            .filter(|run| waiting(run.state) && run.closed_us.is_none())
            .map(|run| run.id.clone())
            .collect();
        if let Some(id) = ids.first().filter(|_| self.random.chance(30)) {
            // A stop or a limit may refuse it.
            let _ = self.bench.act(|desk, now| desk.approve(now, id, "ada"));
        }
        if self.random.chance(2_000) {
            self.bench.act(|desk, now| desk.stop(now, "game day", "bo")).expect("it has a name");
        }
        if self.bench.desk.stop_reason().is_some() && self.random.chance(100) {
            self.bench.act(|desk, _| desk.start("bo")).expect("they are stopped");
        }
    }
}

#[test]
fn no_order_is_decided_twice_whenever_the_hub_is_killed() {
    let (mut orders, mut kills) = (0, 0);
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 1..=25 {
        println!("seed {seed}");
        let mut simulation = FleetSimulation::new(seed);
        for _ in 0..2_400 {
            simulation.step();
        }
        orders += simulation.runs.len();
        kills += simulation.kills;
        for change in simulation.bench.changes.iter().filter(|it| it.run.closed_us.is_some()) {
            *ends.entry(change.run.state.as_str()).or_default() += 1;
        }
    }
    println!("{orders} orders, {kills} kills, {ends:?}");
    assert!(orders > 50 && kills > 500, "{orders} orders, {kills} kills");
    for state in ["verified", "failed", "unknown", "refused", "undone"] {
        assert!(ends.contains_key(state), "no run was {state}: {ends:?}");
    }
}

/// A fleet of four web hosts and a database, in which every repair may start by itself.
fn scene() -> HealBench {
    let mut bench = HealBench::new(all_rules());
    earn_auto(&mut bench);
    for rule in ["app.slow", "app.errors", "disk.stuck"] {
        bench.fire(mail(rule, "web1"));
        bench.run(12);
        let ladders: Vec<(String, serde_json::Value)> = bench
            .desk
            .ladders()
            .map(|ladder| {
                (ladder.id.clone(), serde_json::to_value(ladder).expect("it is kept as JSON"))
            })
            .collect();
        bench.firing.clear();
        bench.wait(320);
        for (id, mut body) in ladders {
            body["limit"] = "auto".into();
            bench.set_document("heal_ladder", id, body.to_string());
        }
    }
    bench.hosts.remove("web5");
    bench.add_host("db1", "db");
    bench.orders.clear();
    bench.changes.clear();
    bench
}

#[test]
fn scenes_can_be_repaired_when_one_member_is_ill() {
    let scene = scene();
    for rule in ["app.down", "app.slow", "app.errors"] {
        let mut bench = scene.clone();
        bench.fire(page(rule, "web3"));
        assert_eq!(bench.run(30).len(), 1, "{rule}: otherwise the scenes below prove nothing");
    }
}

#[test]
fn half_of_the_members_ill_is_never_repaired() {
    let scene = scene();
    for seed in 1..=25 {
        println!("seed {seed}");
        let mut random = SeededRandom::seeded(seed);
        let mut bench = scene.clone();
        let rules = ["app.down", "app.errors", "app.slow"];
        for host in ["web1", "web2"] {
            // The second begins before a repair of the first would.
            bench.run(i64::try_from(random.below(8)).expect("below 8"));
            let rule = rules[usize::try_from(random.below(3)).expect("below 3")];
            bench.fire(if random.chance(2) { mail(rule, host) } else { page(rule, host) });
        }
        assert!(bench.run(1_500).is_empty());
        let refused = bench.desk.runs().filter(|run| run.state == RunState::Refused);
        assert_eq!(refused.count(), 2);
    }
}

#[test]
fn nothing_wrong_is_never_repaired() {
    let mut random = SeededRandom::seeded(1);
    let mut bench = scene();
    for _ in 0..1_500 {
        // Port scans and aborted requests are notes.
        if random.chance(100) {
            let host = format!("web{}", 1 + random.below(4));
            let mut finding = page("app.errors", &host);
            finding.class = Urgency::Note;
            bench.fire(finding);
        } else if random.chance(100) {
            bench.firing.clear();
        }
        assert!(bench.run(1).is_empty());
    }
}

/// Restarts of what depends on a fault elsewhere (willfarrell/docker-autoheal#67).
#[test]
fn symptoms_of_a_stuck_disk_are_never_repaired() {
    let scene = scene();
    for seed in 1..=25 {
        println!("seed {seed}");
        let mut random = SeededRandom::seeded(seed);
        let mut bench = scene.clone();
        // The disk itself has no repair.
        bench.policy.entries.retain(|entry| entry.rule != "disk.stuck");
        bench.desk.set_policy(bench.policy.clone());
        let host = format!("web{}", 1 + random.below(4));
        let early = bench.fire(page("app.slow", &host));
        // The cause fires a little later than its symptoms.
        bench.run(i64::try_from(random.below(10)).expect("below 10"));
        let root = bench.fire(page("disk.stuck", "db1"));
        bench.end(&early);
        let fired = at(bench.now - 9);
        bench.fire(symptom(&root, early.clone()));
        bench.found_mut(&host).fired = fired;
        for number in 1..=4 {
            if random.chance(2) {
                let host = format!("web{number}");
                bench.fire(symptom(&root, page("app.errors", &host)));
            }
        }
        assert!(bench.run(900).is_empty(), "while the root fires");
        bench.end(&root);
        // The symptoms are held as notes for a minute, and end in that time.
        for found in &mut bench.firing {
            found.finding.cause_finding_id = None;
        }
        assert!(bench.run(55).is_empty(), "after the root");
        bench.firing.clear();
        assert!(bench.run(300).is_empty());
    }
}
