//! Deploy locks and maintenance windows: no repair starts under them, they expire, and survive restarts.

use weir_actions::{
    Desk, HealStep, HostLock, LockRequest, Policy, RefusalReason, RunState, Window,
};
use weir_tables::Micros;

use crate::bench_desk::at;
use crate::heal_bench::{HealBench, restart};

fn automatic() -> HealBench {
    let mut bench = HealBench::new(restart(HealStep::Auto));
    crate::heal_ladder::earn_auto(&mut bench);
    bench
}

fn request(role: &str, host: &str) -> LockRequest {
    let (role, host) = (role.to_owned(), host.to_owned());
    LockRequest { role, host, seconds: 1_800, reason: "deploy 1.4.2".to_owned() }
}

fn lock(bench: &mut HealBench, request: &LockRequest) {
    bench.act(|desk, now| desk.lock(now, request.clone(), "ci")).expect("a lock");
}

fn is_locked(bench: &mut HealBench, host: &str) -> bool {
    bench.break_app(host);
    let orders = bench.run(45);
    let run = bench.run_on(host);
    let is_refused = run.refusal == Some(RefusalReason::DeployLock);
    assert_eq!(orders.is_empty(), is_refused, "{run:#?}");
    is_refused
}

/// paperclipai/paperclip#13869: a window has to outlive the restart that it protects.
#[test]
fn lock_of_a_role_refuses_its_repairs_says_why_and_ends_by_itself() {
    let mut bench = automatic();
    lock(&mut bench, &request("web", ""));
    bench.kill();
    bench.break_app("web2");
    assert!(bench.run(1_700).is_empty());
    let run = bench.run_on("web2");
    assert_eq!((run.state, run.refusal), (RunState::Refused, Some(RefusalReason::DeployLock)));
    assert_eq!(run.reason, "ci locked role web for another 30 min: deploy 1.4.2");
    bench.kill();
    assert_eq!(bench.run(120).len(), 1, "30 minutes are over");
    assert_eq!(bench.desk.locks(at(bench.now)).count(), 0);
}

#[test]
fn lock_is_for_its_role_or_its_hosts_only() {
    for (role, host, is_covered) in [
        ("web", "", true),
        ("db", "", false),
        ("", "web2", true),
        ("", "web*", true),
        ("", "*", true),
        ("", "web", false),
        ("", "db*", false),
    ] {
        let mut bench = automatic();
        lock(&mut bench, &request(role, host));
        assert_eq!(is_locked(&mut bench, "web2"), is_covered, "role `{role}` host `{host}`");
    }
}

#[test]
fn unlocked_repair_starts_and_the_lock_is_gone_for_good() {
    let mut bench = automatic();
    lock(&mut bench, &request("web", ""));
    let other = LockRequest { reason: "deploy of the database".to_owned(), ..request("web", "") };
    lock(&mut bench, &other);
    assert!(is_locked(&mut bench, "web2"));
    for left in [1, 0] {
        let id = bench.desk.locks(at(bench.now)).next().expect("a lock").id.clone();
        bench.act(|desk, now| desk.unlock(now, &id, "ci")).expect("it holds");
        assert!(bench.act(|desk, now| desk.unlock(now, &id, "ci")).is_err(), "once");
        assert_eq!(bench.desk.locks(at(bench.now)).count(), left);
    }
    bench.kill();
    assert_eq!(bench.run(5).len(), 1);
}

#[test]
fn run_that_was_approved_before_the_lock_does_not_start_under_it() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    bench.break_app("web2");
    bench.run(15);
    let id = bench.run_on("web2").id;
    lock(&mut bench, &request("web", ""));
    bench.act(|desk, now| desk.approve(now, &id, "ada")).expect("it awaits approval");
    assert!(bench.run(120).is_empty());
    assert_eq!(bench.run_on("web2").refusal, Some(RefusalReason::DeployLock));
}

#[test]
fn run_that_is_ordered_goes_on_under_a_lock() {
    let mut bench = automatic();
    let finding = bench.break_app("web2");
    assert_eq!(bench.run(12).len(), 1);
    lock(&mut bench, &request("web", ""));
    bench.end(&finding);
    bench.wait(1_830);
    assert_eq!(bench.state_on("web2"), RunState::Verified);
}

#[test]
fn lock_without_end_scope_or_reason_is_refused() {
    let mut bench = HealBench::new(restart(HealStep::Ask));
    let good = request("web", "");
    for bad in [
        LockRequest { seconds: 0, ..good.clone() },
        LockRequest { seconds: -5, ..good.clone() },
        LockRequest { seconds: 86_401, ..good.clone() },
        LockRequest { seconds: i64::MAX, ..good.clone() },
        LockRequest { reason: "  ".to_owned(), ..good.clone() },
        request("", ""),
        request("web", "web2"),
        request("we\nb", ""),
    ] {
        assert!(bench.act(|desk, now| desk.lock(now, bad.clone(), "ci")).is_err(), "{bad:?}");
    }
    assert!(bench.act(|desk, now| desk.lock(now, good.clone(), "")).is_err(), "no author");
    lock(&mut bench, &good);
    let id = bench.desk.locks(at(bench.now)).next().expect("a lock").id.clone();
    let typed = format!("{}x", &id[..id.len() - 1]);
    let error = bench.act(|desk, now| desk.unlock(now, &typed, "ci")).expect_err("a typo");
    assert_eq!(error.hint, format!("did you mean `{id}`?"));
}

#[test]
fn clock_that_is_set_back_makes_no_lock_longer() {
    let mut bench = automatic();
    lock(&mut bench, &request("web", ""));
    bench.now -= 600;
    bench.run(1);
    let until = bench.desk.locks(at(bench.now)).next().expect("it holds").until_us();
    assert_eq!(until - at(bench.now).0, 1_800 * 1_000_000, "not 40 minutes");
}

/// A window may be for some rules only, and the repair may run on another host than the finding's.
#[test]
fn maintenance_window_refuses_repairs_of_its_hosts_and_rules() {
    for (hosts, rules, is_covered) in [
        (vec!["web*".to_owned()], Vec::new(), true),
        (Vec::new(), vec!["app.*".to_owned()], true),
        (vec!["db*".to_owned()], Vec::new(), false),
        (Vec::new(), vec!["disk.*".to_owned()], false),
    ] {
        let mut bench = automatic();
        let name = "in maintenance window night".to_owned();
        bench.locks.push(HostLock { name, hosts, rules, until_us: i64::MAX });
        assert_eq!(is_locked(&mut bench, "web2"), is_covered);
    }
}

#[test]
fn window_is_a_lock_while_it_is_on() {
    let window = Window {
        name: "night".to_owned(),
        once: Some(("2026-11-20T12:00:00Z".to_owned(), "2026-11-20T13:00:00Z".to_owned())),
        hosts: vec!["web*".to_owned()],
        ..Window::default()
    };
    let policy = Policy { windows: vec![window], ..Policy::default() };
    let desk = Desk::new(policy);
    let noon = Micros(1_795_176_000_000_000);
    for (minutes, count) in [(-1, 0), (0, 1), (59, 1), (60, 0)] {
        let locks = desk.window_locks(Micros(noon.0 + minutes * 60_000_000));
        assert_eq!(locks.len(), count, "{minutes}");
        assert!(locks.iter().all(|lock| lock.name == "in maintenance window night"));
    }
}
