//! What people do: approve, refuse, take back, stop and start.

use weir_actions::{HealOrderKind, HealStep, LadderName, RefusalReason, RunState};

use crate::heal_bench::{HealBench, HostAnswer, restart};

#[test]
fn refused_run_is_not_asked_for_the_same_fault() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    let finding = bench.break_app("web2");
    bench.run(15);
    let id = bench.run_on("web2").id;
    bench.act(|desk, now| desk.refuse_run(now, &id, "ada")).unwrap();
    assert!(bench.run(600).is_empty());
    let run = bench.run_on("web2");
    assert_eq!(
        (run.refusal, run.reason.as_str()),
        (Some(RefusalReason::ByPerson), "refused by ada")
    );
    assert!(bench.act(|desk, now| desk.approve(now, &id, "bo")).is_err());
    bench.end(&finding);
    bench.run(310);
    bench.break_app("web2");
    bench.run(15);
    assert_eq!(bench.state_on("web2"), RunState::Asked, "the next fault is another one");
}

#[test]
fn verified_run_is_taken_back_once_by_a_person() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    bench.heal_with_approval("web2");
    let id = bench.run_on("web2").id;
    let decisions = bench.act(|desk, now| desk.undo(now, &id, "bo")).unwrap();
    assert_eq!(decisions.orders[0].kind, HealOrderKind::Undo);
    assert_ne!(decisions.orders[0].order_id, bench.orders[0].order_id);
    assert!(bench.act(|desk, now| desk.undo(now, &id, "bo")).is_err());
    bench.run(2);
    assert_eq!(bench.state_on("web2"), RunState::Undone);
    assert!(bench.alarms().is_empty(), "a person wanted it");
}

#[test]
fn run_that_was_never_ordered_cannot_be_taken_back() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    bench.break_app("web2");
    bench.run(15);
    let id = bench.run_on("web2").id;
    let error = bench.act(|desk, now| desk.undo(now, &id, "bo")).unwrap_err();
    assert!(error.message.contains("it is asked"), "{error:?}");
}

#[test]
fn stop_holds_everything_and_an_undo_by_a_person_goes_out_all_the_same() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    bench.heal_with_approval("web2");
    let done = bench.run_on("web2").id;
    bench.now += 7_200;
    bench.break_app("web3");
    bench.run(15);
    let id = bench.run_on("web3").id;
    bench.act(|desk, now| desk.approve(now, &id, "ada")).unwrap();
    bench.act(|desk, now| desk.stop(now, "game day", "bo")).unwrap();
    assert!(bench.run(120).is_empty());
    assert_eq!(bench.run_on("web3").refusal, Some(RefusalReason::Stopped));
    assert!(bench.act(|desk, now| desk.approve(now, &id, "ada")).is_err());
    assert!(bench.alarms().is_empty(), "a person stopped them");
    let undo = bench.act(|desk, now| desk.undo(now, &done, "bo")).unwrap();
    assert_eq!(undo.orders.len(), 1);
    bench.kill();
    assert_eq!(bench.desk.stop_reason().unwrap().reason, "game day", "also after a restart");
    bench.act(|desk, _| desk.start("bo")).unwrap();
    assert!(bench.act(|desk, _| desk.start("bo")).is_err());
}

#[test]
fn failed_run_is_not_taken_back_by_itself_while_a_person_stopped_repairs() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    bench.break_app("web2");
    bench.run(15);
    let id = bench.run_on("web2").id;
    bench.act(|desk, now| desk.approve(now, &id, "ada")).unwrap();
    bench.run(2);
    bench.act(|desk, now| desk.stop(now, "", "bo")).unwrap();
    assert!(bench.run(120).is_empty());
    assert_eq!(bench.state_on("web2"), RunState::Failed);
}

#[test]
fn approval_needs_a_name_and_a_known_run() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    bench.break_app("web2");
    bench.run(15);
    let id = bench.run_on("web2").id;
    for name in ["", "  ", "a\nb"] {
        assert!(bench.act(|desk, now| desk.approve(now, &id, name)).is_err(), "{name:?}");
    }
    let typed = format!("{}x", &id[..id.len() - 1]);
    let error = bench.act(|desk, now| desk.approve(now, &typed, "ada")).unwrap_err();
    assert_eq!(error.hint, format!("did you mean `{id}`?"));
    let upper = id.to_uppercase();
    bench.act(|desk, now| desk.approve(now, &upper, "ada")).unwrap();
    let error = bench.act(|desk, now| desk.approve(now, &id, "bo")).unwrap_err();
    assert!(error.message.contains("approved by ada"), "{error:?}");
}

#[test]
fn step_is_raised_only_for_what_is_configured() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    let raise = |bench: &mut HealBench, rule: &'static str| {
        let name = LadderName { rule, action: "restart-unit", role: "web" };
        bench.act(|desk, now| desk.raise(now, name, "ada")).unwrap_err().message
    };
    assert!(raise(&mut bench, "app.slow").contains("it is not configured"));
    assert!(raise(&mut bench, "app.down").contains("its step is `ask` already"));
}

#[test]
fn undo_without_an_answer_ends_as_failed() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    bench.heal_with_approval("web2");
    let id = bench.run_on("web2").id;
    bench.answer = HostAnswer::Silence;
    bench.act(|desk, now| desk.undo(now, &id, "bo")).unwrap();
    bench.run(1_000);
    let run = bench.run_on("web2");
    assert!(run.reason.contains("taking it back has no report"), "{}", run.reason);
}
