//! Steps of the ladder: earned by approved runs, lost by a failed one, capped by repeats.

use weir_actions::{HealStep, LadderName, RunState};

use crate::heal_bench::{HealBench, HostAnswer, restart};

const NAME: LadderName<'static> =
    LadderName { rule: "app.down", action: "restart-unit", role: "web" };
const DAY: i64 = 86_400;

/// Puts the ladder of the role web at its highest step.
pub(crate) fn earn_auto(bench: &mut HealBench) {
    earn(bench, "web1");
}

/// Puts the ladder of hosts without a role at its highest step.
pub(crate) fn earn_auto_alone(bench: &mut HealBench) {
    bench.add_host("solo0", "");
    earn(bench, "solo0");
}

fn earn(bench: &mut HealBench, host: &str) {
    let finding = bench.break_app(host);
    bench.run(12);
    let role = bench.hosts[host].role.clone();
    let ladder = bench.desk.ladders().find(|ladder| ladder.role == role).expect("it is new");
    let mut body = serde_json::to_value(ladder).expect("it is kept as JSON");
    let id = ladder.id.clone();
    body["limit"] = "auto".into();
    bench.end(&finding);
    bench.wait(320);
    assert!(bench.desk.runs().all(|run| run.host != host), "its run is forgotten");
    bench.changes.clear();
    bench.set_document("heal_ladder", id, body.to_string());
}

#[test]
fn repair_starts_at_observe_and_only_records() {
    let mut bench = HealBench::new(restart(HealStep::default()));
    bench.break_app("web2");
    assert!(bench.run(120).is_empty());
    let run = bench.run_on("web2");
    assert_eq!((run.state, run.step), (RunState::Proposed, HealStep::Observe));
    assert_eq!(bench.changes.len(), 1);
    let id = run.id;
    let error = bench.act(|desk, now| desk.approve(now, &id, "ada")).unwrap_err();
    assert!(error.hint.contains("suggest"), "{error:?}");
}

#[test]
fn suggested_run_waits_for_a_person_without_an_alarm() {
    let mut bench = HealBench::new(restart(HealStep::Suggest));
    bench.break_app("web2");
    assert!(bench.run(1_200).is_empty());
    assert_eq!(bench.state_on("web2"), RunState::Proposed);
    assert!(bench.alarms().is_empty());
    let id = bench.run_on("web2").id;
    bench.act(|desk, now| desk.approve(now, &id, "ada")).unwrap();
    assert_eq!(bench.run(1).len(), 1);
}

#[test]
fn auto_is_earned_by_five_verified_approvals_three_days_and_a_yes() {
    let mut bench = HealBench::new(restart(HealStep::Auto));
    let hosts = ["web1", "web2", "web3", "web4", "web5"];
    for host in &hosts[..4] {
        bench.heal_with_approval(host);
        bench.now += DAY;
    }
    let early = bench.act(|desk, now| desk.raise(now, NAME, "ada")).unwrap_err();
    assert!(early.message.contains("4 of 5"), "{early:?}");
    bench.heal_with_approval(hosts[4]);
    assert_eq!(bench.desk.step_of(NAME), HealStep::Ask, "without a yes");
    assert_eq!(bench.desk.missing_merit(crate::bench_desk::at(bench.now), NAME), None);
    bench.act(|desk, now| desk.raise(now, NAME, "ada")).unwrap();
    assert_eq!(bench.desk.step_of(NAME), HealStep::Auto);
    bench.now += DAY;
    bench.break_app("web1");
    let orders = bench.run(12);
    assert_eq!((orders.len(), bench.run_on("web1").approved_by), (1, None));
}

#[test]
fn five_approvals_within_a_day_are_not_enough() {
    let mut bench = HealBench::new(restart(HealStep::Auto));
    for host in ["web1", "web2", "web3", "web4", "web5"] {
        bench.heal_with_approval(host);
        bench.now += 3_600;
    }
    let error = bench.act(|desk, now| desk.raise(now, NAME, "ada")).unwrap_err();
    assert!(error.message.contains("less than 3 days"), "{error:?}");
}

#[test]
fn runs_that_started_by_themselves_earn_nothing() {
    let mut bench = HealBench::new(restart(HealStep::Auto));
    earn_auto(&mut bench);
    let finding = bench.break_app("web2");
    bench.run(15);
    bench.end(&finding);
    bench.wait(1_830);
    assert_eq!(bench.state_on("web2"), RunState::Verified);
    assert!(bench.desk.ladders().all(|ladder| ladder.verified_us.is_empty()));
}

#[test]
fn one_failed_verification_takes_one_step_and_all_merit() {
    let mut bench = HealBench::new(restart(HealStep::Auto));
    earn_auto(&mut bench);
    bench.break_app("web2");
    bench.run(120);
    assert_eq!(bench.state_on("web2"), RunState::Undone, "{:#?}", bench.run_on("web2"));
    assert_eq!(bench.desk.step_of(NAME), HealStep::Ask);
    let error = bench.act(|desk, now| desk.raise(now, NAME, "ada")).unwrap_err();
    assert!(error.message.contains("0 of 5"), "{error:?}");
}

#[test]
fn lost_answer_takes_a_step_as_well() {
    let mut bench = HealBench::new(restart(HealStep::Auto));
    earn_auto(&mut bench);
    bench.answer = HostAnswer::Silence;
    bench.break_app("web2");
    bench.run(120);
    assert_eq!(bench.state_on("web2"), RunState::Unknown);
    assert_eq!(bench.desk.step_of(NAME), HealStep::Ask);
}

/// Repairs that "work" and have to be made again and again must reach a person:
/// jordigilh/kubernaut#1090 (39 in a row), jordigilh/kubernaut#616, jordigilh/kubernaut#525,
/// pfnet-research/node-operation-controller#31, willfarrell/docker-autoheal#102.
#[test]
fn fourth_run_on_a_subject_within_a_week_is_only_suggested() {
    let mut bench = HealBench::new(restart(HealStep::Auto));
    earn_auto(&mut bench);
    for _ in 0..3 {
        let finding = bench.break_app("web2");
        assert_eq!(bench.run(15).len(), 1);
        bench.end(&finding);
        bench.wait(1_830);
        assert_eq!(bench.state_on("web2"), RunState::Verified);
        bench.now += DAY;
    }
    bench.break_app("web2");
    assert!(bench.run(60).is_empty());
    assert_eq!(bench.state_on("web2"), RunState::Proposed);
    assert_eq!(bench.desk.step_of(NAME), HealStep::Suggest);
    bench.break_app("web3");
    assert!(bench.run(60).is_empty(), "the ladder is that of the role");
}

#[test]
fn three_runs_a_week_apart_are_no_repeats() {
    let mut bench = HealBench::new(restart(HealStep::Auto));
    earn_auto(&mut bench);
    for _ in 0..5 {
        let finding = bench.break_app("web2");
        assert_eq!(bench.run(15).len(), 1);
        bench.end(&finding);
        bench.wait(1_830);
        bench.now += 3 * DAY;
    }
}

#[test]
fn host_without_siblings_is_repaired_by_itself_only_if_the_entry_says_so() {
    for (alone, orders) in [(HealStep::Ask, 0), (HealStep::Auto, 1)] {
        let mut policy = restart(HealStep::Auto);
        policy.entries[0].alone = alone;
        let mut bench = HealBench::new(policy);
        earn_auto_alone(&mut bench);
        bench.break_app("solo0");
        assert_eq!(bench.run(12).len(), orders, "{alone:?}");
    }
}

#[test]
fn configuration_bounds_what_was_earned() {
    let mut bench = HealBench::new(restart(HealStep::Auto));
    earn_auto(&mut bench);
    bench.policy = restart(HealStep::Ask);
    bench.desk.set_policy(bench.policy.clone());
    bench.break_app("web2");
    assert!(bench.run(20).is_empty());
    assert_eq!(bench.state_on("web2"), RunState::Asked);
    bench.policy = restart(HealStep::Observe);
    bench.desk.set_policy(bench.policy.clone());
    bench.run(1);
    assert_eq!(bench.state_on("web2"), RunState::Proposed);
}
