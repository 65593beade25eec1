//! Dry runs before orders: an order follows only what a host showed, and showed just now.

use weir_actions::{
    HealOrderKind, HealPolicy, HealStep, LockRequest, OrderOutcome, OrderReport, OrderResult,
    RefusalReason, RunState,
};

use crate::bench_desk::at;
use crate::heal_bench::{HealBench, HostAnswer, restart};

fn with_dry_run(mode: HealStep, action: &str) -> HealPolicy {
    let mut policy = restart(mode);
    policy.entries[0].dry_run = action == "restart-unit";
    policy.entries[0].action = action.to_owned();
    policy
}

/// A bench that repairs without approval after a dry run.
fn automatic(action: &str) -> HealBench {
    let mut bench = HealBench::new(with_dry_run(HealStep::Auto, action));
    crate::heal_ladder::earn_auto(&mut bench);
    bench
}

fn kinds(bench: &HealBench) -> Vec<HealOrderKind> {
    bench.orders.iter().map(|order| order.kind).collect()
}

#[test]
fn order_follows_a_dry_run_that_succeeds_and_the_run_has_both() {
    let mut bench = automatic("restart-unit");
    let finding = bench.break_app("web2");
    bench.run(14);
    assert_eq!(kinds(&bench), [HealOrderKind::DryRun, HealOrderKind::Run]);
    assert_ne!(bench.orders[0].order_id, bench.orders[1].order_id);
    assert_eq!(bench.orders[0].params, bench.orders[1].params);
    let run = bench.run_on("web2");
    assert_eq!(run.order_id.as_deref(), Some(bench.orders[1].order_id.as_str()));
    let dry = run.dry_run.clone().expect("it came first");
    assert_eq!((dry.attempt, dry.text.as_str()), (1, "it succeeded"));
    let states: Vec<RunState> = bench.changes.iter().map(|change| change.run.state).collect();
    assert_eq!(states[..3], [RunState::DryRun, RunState::Proposed, RunState::Ordered]);
    bench.end(&finding);
    bench.wait(1_830);
    assert_eq!(bench.state_on("web2"), RunState::Verified);
}

#[test]
fn dry_run_that_fails_refuses_the_repair_and_costs_no_step() {
    let mut bench = automatic("restart-unit");
    bench.dry_run = (1, "unit not found");
    let finding = bench.break_app("web2");
    bench.run(600);
    assert_eq!(kinds(&bench), [HealOrderKind::DryRun], "once");
    let run = bench.run_on("web2");
    assert_eq!((run.state, run.refusal), (RunState::Refused, Some(RefusalReason::DryRun)));
    assert_eq!(run.reason, "dry run: exit status 1");
    assert!(bench.alarms().is_empty() && bench.desk.stop_reason().is_none());
    assert!(bench.desk.ladders().all(|ladder| ladder.limit == HealStep::Auto));
    // The next fault is another one.
    bench.end(&finding);
    bench.run(310);
    bench.dry_run = (0, "");
    bench.break_app("web2");
    bench.run(20);
    assert_eq!(kinds(&bench)[1..], [HealOrderKind::DryRun, HealOrderKind::Run]);
}

#[test]
fn deleting_files_needs_a_promise_of_five_percent() {
    for (action, output, is_ordered) in [
        ("trim-path", "frees=5%", true),
        ("clear-tmp", "12 files\nfrees=40.5%\n", true),
        ("trim-path", "frees=4.9%", false),
        ("clear-tmp", "would free 40 %", false),
        ("clear-tmp", "", false),
        ("restart-unit", "", true),
    ] {
        let mut bench = automatic(action);
        bench.dry_run = (0, output);
        bench.break_app("web2");
        bench.run(20);
        let run = bench.run_on("web2");
        assert_eq!(bench.orders.len(), 1 + usize::from(is_ordered), "{action} {output}: {run:#?}");
        assert_eq!(run.refusal == Some(RefusalReason::DryRun), !is_ordered, "{run:#?}");
    }
}

#[test]
fn configured_share_takes_precedence() {
    let mut policy = with_dry_run(HealStep::Auto, "trim-path");
    policy.entries[0].frees_percent = Some(20);
    let mut bench = HealBench::new(policy);
    crate::heal_ladder::earn_auto(&mut bench);
    bench.dry_run = (0, "frees=12%");
    bench.break_app("web2");
    bench.run(20);
    let reason = bench.run_on("web2").reason;
    assert_eq!(reason, "dry run: it would free 12 %, at least 20 % are needed");
}

#[test]
fn host_that_refuses_or_never_answers_a_dry_run_gets_no_order() {
    for (answer, refusal) in [
        (HostAnswer::Refusal, RefusalReason::ByHost),
        (HostAnswer::Silence, RefusalReason::DryRun),
        (HostAnswer::AcceptOnly, RefusalReason::DryRun),
    ] {
        let mut bench = automatic("restart-unit");
        bench.answer = answer;
        bench.break_app("web2");
        bench.run(15);
        bench.wait(1_200);
        assert_eq!(kinds(&bench), [HealOrderKind::DryRun], "{answer:?}");
        assert_eq!(bench.run_on("web2").refusal, Some(refusal), "{answer:?}");
        assert!(bench.desk.stop_reason().is_none(), "nothing failed");
    }
}

#[test]
fn limits_are_checked_again_after_a_dry_run_and_an_old_one_is_repeated() {
    let mut bench = automatic("restart-unit");
    bench.answer = HostAnswer::AcceptOnly;
    bench.break_app("web2");
    bench.run(12);
    let (role, reason) = ("web".to_owned(), "deploy".to_owned());
    let lock = LockRequest { role, host: String::new(), seconds: 900, reason };
    bench.act(|desk, now| desk.lock(now, lock.clone(), "ci")).expect("a lock");
    let (order_id, host) = (bench.orders[0].order_id.clone(), "web2".to_owned());
    let outcome = OrderOutcome::Ended(OrderResult { exit: Some(0), ..OrderResult::default() });
    bench.reports.push(OrderReport { order_id, host, ts: at(bench.now), outcome });
    bench.answer = HostAnswer::Success;
    bench.run(40);
    assert_eq!(kinds(&bench), [HealOrderKind::DryRun]);
    assert_eq!(bench.run_on("web2").refusal, Some(RefusalReason::DeployLock));
    bench.run(870);
    let expected = [HealOrderKind::DryRun, HealOrderKind::DryRun, HealOrderKind::Run];
    assert_eq!(kinds(&bench), expected, "the first is 15 minutes old");
    assert_ne!(bench.orders[0].order_id, bench.orders[1].order_id);
}

#[test]
fn approval_leads_to_a_dry_run_and_then_to_the_order() {
    let mut bench = HealBench::new(with_dry_run(HealStep::Ask, "restart-unit"));
    bench.break_app("web2");
    bench.run(15);
    assert!(bench.orders.is_empty());
    let id = bench.run_on("web2").id;
    bench.act(|desk, now| desk.approve(now, &id, "ada")).expect("it awaits approval");
    bench.run(5);
    assert_eq!(kinds(&bench), [HealOrderKind::DryRun, HealOrderKind::Run]);
    assert_eq!(bench.orders[1].approved_by.as_deref(), Some("ada"));
}

#[test]
fn hub_that_is_killed_before_a_dry_run_leaves_orders_nothing_more() {
    let mut bench = automatic("restart-unit");
    bench.break_app("web2");
    while bench.orders.is_empty() {
        bench.kill_before_sending();
    }
    bench.wait(1_200);
    assert_eq!(kinds(&bench), [HealOrderKind::DryRun]);
    let run = bench.run_on("web2");
    assert_eq!((run.state, run.refusal), (RunState::Refused, Some(RefusalReason::DryRun)));
}
