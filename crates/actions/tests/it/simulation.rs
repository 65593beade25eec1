//! A seeded month in minutes: findings come and go, clocks step, people act, the hub restarts.
//!
//! Each tick is also decided by a desk that starts just then from the documents, and must decide
//! the same; see [`BenchDesk::tick`].

use std::collections::{BTreeMap, BTreeSet};

use weir_actions::{Finding, NoticeKind, SilenceRequest, Urgency};

use crate::bench_desk::{BenchDesk, at, mail, page, policy, symptom};

/// xorshift64*.
pub(crate) struct SeededRandom(pub(crate) u64);

impl SeededRandom {
    /// A generator of a small seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most
    }

    pub(crate) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// A fault of the fleet, and whether it is there.
struct FleetFault {
    finding: Finding,
    /// Position of the fault that explains it, when that is there.
    cause: Option<usize>,
    is_there: bool,
    episode: u32,
    is_flapping: bool,
}

fn faults(random: &mut SeededRandom) -> Vec<FleetFault> {
    let mut faults = Vec::new();
    for index in 0..14 {
        let host = format!("web{}", index % 4);
        let rule = format!("rule.{}", index % 5);
        let mut finding = if random.chance(3) { mail(&rule, &host) } else { page(&rule, &host) };
        finding.key = format!("{{\"n\":{index}}}");
        finding.tier = if random.chance(3) { "proxy" } else { "app" }.to_owned();
        // Only earlier ones, so that causes have no circle.
        let has_cause = index > 2 && random.chance(2);
        let cause = has_cause.then(|| usize::try_from(random.below(3)).expect("below 3"));
        let (is_there, episode, is_flapping) = (false, 0, random.chance(6));
        faults.push(FleetFault { finding, cause, is_there, episode, is_flapping });
    }
    faults
}

/// The findings that fire, as the engine has them.
fn firing(faults: &[FleetFault]) -> Vec<Finding> {
    let findings = faults.iter().enumerate().filter(|(_, fault)| fault.is_there);
    let findings = findings.map(|(index, fault)| {
        let mut finding = fault.finding.clone();
        finding.finding_id = format!("{index}-{}", fault.episode);
        match fault.cause.map(|cause| (cause, &faults[cause])).filter(|(_, it)| it.is_there) {
            Some((cause, root)) => {
                let mut root_finding = root.finding.clone();
                root_finding.finding_id = format!("{cause}-{}", root.episode);
                symptom(&root_finding, finding)
            }
            None => finding,
        }
    });
    findings.collect()
}

struct Simulation {
    bench: BenchDesk,
    random: SeededRandom,
    faults: Vec<FleetFault>,
    /// Seconds that really passed.
    passed: i64,
    /// Since when a fault is there as a page without a cause and without a silence.
    since: BTreeMap<usize, i64>,
    /// Incidents with a page since they opened or since a person resolved them.
    paged: BTreeSet<String>,
    /// How many times a fault was looked up.
    checked: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = SeededRandom::seeded(seed);
        let faults = faults(&mut random);
        let (since, paged) = (BTreeMap::new(), BTreeSet::new());
        let bench = BenchDesk::new(policy());
        Self { bench, random, faults, passed: 0, since, paged, checked: 0 }
    }

    fn step(&mut self) {
        for fault in &mut self.faults {
            let pause = match (fault.is_there, fault.is_flapping) {
                (_, true) => 20,
                (true, false) => 150,
                (false, false) => 400,
            };
            if self.random.chance(pause) {
                fault.is_there = !fault.is_there;
                fault.episode += 1;
            }
            // A crash of the engine: the same fault has another id.
            fault.episode += u32::from(self.random.chance(2_000));
        }
        self.bench.firing = firing(&self.faults);
        self.passed += 1;
        self.bench.now += 1;
        if self.random.chance(700) {
            self.bench.now += if self.random.chance(2) { 3_600 } else { -3_600 };
            // A minute that is interrupted so begins again.
            self.since.clear();
        }
        let sent = self.bench.tick();
        for notice in sent.iter().filter(|notice| notice.kind == NoticeKind::Page) {
            assert_eq!(notice.due_us, at(self.bench.now).0, "a page waits: {notice:#?}");
            self.paged.insert(notice.incident.id.clone());
        }
        self.act();
        self.check();
    }

    fn act(&mut self) {
        let ids: Vec<String> = self.bench.open().iter().map(|each| each.id().to_owned()).collect();
        if ids.is_empty() {
            return;
        }
        let id =
            ids[usize::try_from(self.random.below(ids.len() as u64)).expect("an index")].clone();
        if self.random.chance(200) {
            self.bench.act(|desk, now| desk.acknowledge(now, &id, "ada")).expect("it is open");
        } else if self.random.chance(600) {
            self.bench.act(|desk, now| desk.resolve(now, &id, "bo")).expect("it is open");
            self.paged.remove(&id);
            self.since.clear();
        } else if self.random.chance(600) {
            let request = SilenceRequest {
                rules: vec!["rule.1".to_owned()],
                reason: "noise".to_owned(),
                by: "bo".to_owned(),
                until_resolved: true,
                ..SilenceRequest::default()
            };
            self.bench.act(|desk, now| desk.silence(now, request.clone())).expect("it is right");
        }
    }

    /// No page is lost: a fault that is a page for over a minute has an incident that was paged.
    fn check(&mut self) {
        let findings = self.bench.firing.clone();
        for (index, fault) in self.faults.iter().enumerate() {
            let found = findings.iter().find(|each| {
                fault.is_there && each.key == fault.finding.key && each.cause_finding_id.is_none()
            });
            let is_silenced = self.bench.desk.silences().any(|each| each.matches(&fault.finding));
            match found.filter(|each| each.class == Urgency::Page && !is_silenced) {
                Some(_) => drop(self.since.entry(index).or_insert(self.passed)),
                None => drop(self.since.remove(&index)),
            }
        }
        for (index, since) in &self.since {
            let fault = &self.faults[*index].finding;
            if self.passed - since <= 61 {
                continue;
            }
            let incident = self.bench.desk.incident_of(fault).expect("it fires");
            let is_left = incident.resolved_by().is_some();
            assert!(is_left || self.paged.contains(incident.id()), "{incident:#?} for {fault:#?}");
            self.checked += 1;
        }
    }
}

#[test]
fn no_page_is_lost_and_restarts_decide_the_same() {
    let (mut pages, mut notices, mut checked) = (0, 0, 0);
    for seed in 1..=25 {
        println!("seed {seed}");
        let mut simulation = Simulation::new(seed);
        for _ in 0..3_000 {
            simulation.step();
        }
        check_notices(&simulation);
        notices += simulation.bench.sent.len();
        checked += simulation.checked;
        pages += crate::bench_desk::pages(&simulation.bench.sent);
    }
    println!("{pages} pages among {notices} notices, {checked} faults checked");
    assert!(pages > 500 && checked > 10_000, "{pages} pages, {checked} faults checked");
}

/// Each id is one notice, and orders rise within receiver and incident.
fn check_notices(simulation: &Simulation) {
    let mut ids = BTreeSet::new();
    let mut orders: BTreeMap<(String, Option<String>, String), u64> = BTreeMap::new();
    for notice in &simulation.bench.sent {
        assert!(ids.insert(&notice.id), "twice: {notice:#?}");
        let incident = notice.incident.id.clone();
        let lane = (notice.receiver.clone(), notice.address.clone(), incident);
        let last = orders.insert(lane, notice.order).unwrap_or_default();
        assert!(notice.order > last, "{notice:#?} after {last}");
    }
}
