//! The life of a run: asked, ordered, verified, failed, taken back, unknown.

use weir_actions::{
    HarmReport, HealOrderKind, HealStep, OrderOutcome, OrderReport, OrderResult, RunState,
};

use crate::bench_desk::{at, mail, page};
use crate::heal_bench::{HealBench, HostAnswer, restart};
use crate::heal_ladder::earn_auto;

fn automatic() -> HealBench {
    let mut bench = HealBench::new(restart(HealStep::Auto));
    earn_auto(&mut bench);
    bench
}

/// States in the order of their rows.
fn states(bench: &HealBench) -> Vec<&'static str> {
    bench.changes.iter().map(|change| change.run.state.as_str()).collect()
}

#[test]
fn each_state_of_an_approved_run_has_a_row() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    bench.heal_with_approval("web2");
    assert_eq!(
        states(&bench),
        ["asked", "approved", "ordered", "ended", "ended", "verified"],
        "started and ended in one tick are one row"
    );
    let run = bench.run_on("web2");
    assert_eq!(run.approved_by.as_deref(), Some("ada"));
    assert_eq!(run.before, "refuses connections: 3 of 4");
    assert!(run.after.starts_with("resolved after"), "{}", run.after);
}

#[test]
fn question_is_an_alarm_and_lapses_after_fifteen_minutes() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    bench.break_app("web2");
    bench.run(15);
    assert_eq!(bench.alarms(), ["weir.heal_asks page"]);
    assert!(bench.run(900).is_empty());
    assert_eq!(bench.state_on("web2"), RunState::Refused);
    assert!(bench.alarms().is_empty());
    assert!(bench.run(3_600).is_empty(), "not asked twice for one fault");
    assert_eq!(bench.desk.runs().count(), 1);
}

/// Repairs go on after the fault is over: medik8s/self-node-remediation#159.
#[test]
fn approval_of_a_fault_that_is_over_orders_nothing() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    let finding = bench.break_app("web2");
    bench.run(15);
    bench.end(&finding);
    let id = bench.run_on("web2").id;
    bench.act(|desk, now| desk.approve(now, &id, "ada")).unwrap();
    assert!(bench.run(60).is_empty());
    assert_eq!(bench.state_on("web2"), RunState::Refused);
}

/// An approval is for this action on this host with these parameters
/// (MoonLadderStudios/MoonMind#3620).
#[test]
fn approval_does_not_cover_another_parameter() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    bench.break_app("web2");
    bench.run(15);
    let id = bench.run_on("web2").id;
    bench.act(|desk, now| desk.approve(now, &id, "ada")).unwrap();
    let params = &mut bench.policy.entries[0].params;
    params.insert("unit".to_owned(), "billing.service".to_owned());
    bench.desk.set_policy(bench.policy.clone());
    assert!(bench.run(20).is_empty());
    let run = bench.run_on("web2");
    assert_eq!((run.state, run.params["unit"].as_str()), (RunState::Asked, "billing.service"));
}

#[test]
fn repair_without_effect_fails_is_taken_back_and_pages() {
    let mut bench = automatic();
    bench.break_app("web2");
    bench.run(12);
    let orders = bench.run(65);
    assert_eq!(orders.len(), 1);
    assert_eq!(orders[0].kind, HealOrderKind::Undo);
    assert_eq!(bench.alarms(), ["weir.heal_failed page"]);
    let run = bench.run_on("web2");
    assert!(run.reason.contains("still fires after 60 s"), "{}", run.reason);
    assert!(bench.run(3_600).is_empty(), "no second try for the same fault");
}

#[test]
fn repair_that_cannot_be_taken_back_stays_failed() {
    let mut bench = automatic();
    bench.break_app("web2");
    bench.run(12);
    bench.answer = HostAnswer::Refusal;
    bench.run(70);
    let run = bench.run_on("web2");
    assert_eq!(run.state, RunState::Failed);
    assert!(run.reason.contains("cannot be taken back: no such action"), "{}", run.reason);
}

#[test]
fn exit_status_other_than_zero_is_a_failure() {
    let mut bench = automatic();
    bench.answer = HostAnswer::Exit(3);
    bench.break_app("web2");
    bench.run(14);
    let run = bench.run_on("web2");
    assert_eq!(run.state, RunState::Failed);
    assert!(run.reason.starts_with("exit status 3"), "{}", run.reason);
}

/// A job that succeeds proves nothing about the service (willfarrell/docker-autoheal#23 restarts
/// for ever).
#[test]
fn fault_that_comes_back_within_half_an_hour_is_a_failure() {
    let mut bench = automatic();
    let finding = bench.break_app("web2");
    bench.run(15);
    bench.end(&finding);
    bench.run(1_700);
    bench.break_app("web2");
    bench.run(2);
    let run = bench.run_on("web2");
    assert!(run.reason.contains("fires again after 28 min"), "{}", run.reason);
    assert_eq!(run.closed_us, Some(at(bench.now).0), "{run:#?}");
}

#[test]
fn slow_rules_have_more_time_to_resolve_and_to_stay_away() {
    let mut bench = automatic();
    bench.rules.get_mut("app.down").unwrap().clear_us = 240_000_000;
    let finding = bench.break_app("web2");
    bench.run(12 + 700);
    assert_eq!(bench.state_on("web2"), RunState::Ended, "3 × 240 s");
    bench.end(&finding);
    bench.run(2_390);
    assert_eq!(bench.state_on("web2"), RunState::Ended, "10 × 240 s");
    bench.run(20);
    assert_eq!(bench.state_on("web2"), RunState::Verified);
}

#[test]
fn silent_host_or_rule_verifies_nothing() {
    for is_host in [true, false] {
        let mut bench = automatic();
        let finding = bench.break_app("web2");
        bench.run(10);
        if is_host {
            bench.silent = vec!["web2".to_owned()];
            bench.host_mut("web2").seen = at(bench.now - 61);
        } else {
            bench.is_fresh = false;
        }
        bench.end(&finding);
        bench.run(5);
        assert_eq!(bench.state_on("web2"), RunState::Ended);
        bench.run(60);
        let reason = bench.run_on("web2").reason;
        assert!(reason.contains("the effect is unknown"), "{reason}");
    }
}

#[test]
fn siblings_that_get_ill_or_worse_figures_fail_a_run() {
    let mut bench = automatic();
    let finding = bench.break_app("web2");
    bench.run(12);
    bench.end(&finding);
    bench.fire(mail("app.slow", "web3"));
    bench.run(1);
    assert!(bench.run_on("web2").reason.contains("1 other hosts"), "{:#?}", bench.run_on("web2"));
    let mut bench = automatic();
    let finding = bench.break_app("web2");
    bench.run(12);
    bench.end(&finding);
    let (run_id, text) = (bench.run_on("web2").id, "more requests with an error".to_owned());
    bench.harms.push(HarmReport { run_id, text });
    bench.run(1);
    assert!(bench.run_on("web2").reason.contains("more requests with an error"));
}

#[test]
fn order_without_an_answer_is_unknown_pages_and_is_never_sent_again() {
    for answer in [HostAnswer::Silence, HostAnswer::AcceptOnly] {
        let mut bench = automatic();
        bench.answer = answer;
        bench.break_app("web2");
        assert_eq!(bench.run(12).len(), 1);
        assert!(bench.run(950).is_empty());
        assert_eq!(bench.state_on("web2"), RunState::Unknown);
        assert_eq!(bench.alarms(), ["weir.heal_unknown page"]);
        bench.kill();
        assert!(bench.run(7_200).is_empty());
    }
}

#[test]
fn report_after_the_deadline_is_noted_and_changes_nothing() {
    let mut bench = automatic();
    bench.answer = HostAnswer::Silence;
    bench.break_app("web2");
    let order = bench.run(12).remove(0);
    bench.run(100);
    let result = OrderResult { exit: Some(0), ..OrderResult::default() };
    let (order_id, host, ts) = (order.order_id, order.host, at(bench.now));
    let outcome = OrderOutcome::Ended(result);
    bench.reports.push(OrderReport { order_id, host, ts, outcome });
    bench.run(3);
    let run = bench.run_on("web2");
    assert_eq!(run.state, RunState::Unknown);
    assert!(run.reason.ends_with("reported late: exit status 0"), "{}", run.reason);
}

#[test]
fn host_cannot_report_for_another_one() {
    let mut bench = automatic();
    bench.answer = HostAnswer::AcceptOnly;
    bench.break_app("web2");
    let order = bench.run(12).remove(0);
    let result = OrderResult { exit: Some(0), ..OrderResult::default() };
    let (host, ts) = ("web3".to_owned(), at(bench.now));
    let (order_id, outcome) = (order.order_id, OrderOutcome::Ended(result));
    bench.reports.push(OrderReport { order_id: order_id.clone(), host, ts, outcome });
    bench.run(2);
    assert_eq!(bench.state_on("web2"), RunState::Ordered);
    let (host, outcome) = ("web2".to_owned(), OrderOutcome::Lost("killed".to_owned()));
    bench.reports.push(OrderReport { order_id, host, ts, outcome });
    bench.run(1);
    assert_eq!(bench.state_on("web2"), RunState::Unknown);
}

/// The hub dies between keeping an order and sending it; two nodes decide the same order.
/// Icinga/icinga2#3431: both nodes of a zone ran the handler. StackStorm/st2#4481, #5923, #6007.
#[test]
fn kill_between_keeping_and_sending_loses_the_order_and_never_doubles_it() {
    let mut bench = automatic();
    bench.break_app("web2");
    bench.run(9);
    let decided = bench.kill_before_sending();
    assert_eq!(decided.orders.len(), 1);
    assert!(bench.run(2_000).is_empty());
    assert_eq!(bench.state_on("web2"), RunState::Unknown);
}

/// Events that a person mended while the controller was away must not be worked off at its start
/// (NVIDIA/NVSentinel#1281).
#[test]
fn fault_that_ended_while_the_hub_was_away_is_not_repaired() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    let finding = bench.break_app("web2");
    bench.run(15);
    let id = bench.run_on("web2").id;
    bench.act(|desk, now| desk.approve(now, &id, "ada")).unwrap();
    bench.kill();
    bench.end(&finding);
    bench.now += 600;
    bench.leader_since = bench.now;
    assert!(bench.run(700).is_empty());
    assert_eq!(bench.desk.runs().count(), 0);
}

#[test]
fn two_failures_within_an_hour_stop_everything_and_page() {
    let mut bench = automatic();
    bench.answer = HostAnswer::Exit(1);
    bench.add_host("solo1", "");
    bench.break_app("web2");
    bench.run(12);
    // Elsewhere, with an approval.
    bench.break_app("solo1");
    bench.run(12);
    let id = bench.run_on("solo1").id;
    bench.act(|desk, now| desk.approve(now, &id, "ada")).unwrap();
    bench.run(5);
    assert!(bench.alarms().contains(&"weir.heal_stopped page".to_owned()), "{:?}", bench.alarms());
    bench.add_host("solo2", "");
    bench.break_app("solo2");
    bench.run(60);
    let stopped = bench.run_on("solo2");
    assert_eq!(stopped.refusal, Some(weir_actions::RefusalReason::Stopped));
    bench.act(|desk, _| desk.start("ada")).unwrap();
    bench.run(1);
    assert_eq!(bench.state_on("solo2"), RunState::Proposed, "a step lower than before");
}

#[test]
fn documents_that_cannot_be_read_stop_repairs() {
    let mut bench = automatic();
    bench.set_document("heal_run", "abc".to_owned(), "{\"from\":\"a newer weir\"}".to_owned());
    assert_eq!(bench.desk.unreadable().len(), 1);
    bench.break_app("web2");
    assert!(bench.run(60).is_empty());
}

/// The clock may be set back by an hour while a question, an order or a verification waits.
#[test]
fn clock_that_is_set_back_delays_and_doubles_nothing() {
    let mut bench = automatic();
    bench.now += 10_000;
    bench.run(1);
    let finding = bench.break_app("web2");
    assert_eq!(bench.run(15).len(), 1);
    bench.end(&finding);
    bench.now -= 3_600;
    assert!(bench.run(1_900).is_empty());
    assert_eq!(bench.state_on("web2"), RunState::Verified);
    let mut bench = HealBench::new(restart(HealStep::Ask));
    bench.now += 10_000;
    bench.fire(page("app.down", "web2"));
    bench.run(15);
    bench.now -= 3_600;
    bench.found_mut("web2").fired = at(bench.now);
    bench.run(910);
    assert_eq!(bench.state_on("web2"), RunState::Refused, "asked for 15 min at most");
}
