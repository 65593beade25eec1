//! Each limit refuses an automatic repair with its own reason, and lets it go when it lifts.

use weir_actions::{HealStep, HostLock, IncidentActor, RefusalReason, RunState, Urgency};

use crate::bench_desk::{at, mail, page, symptom};
use crate::heal_bench::{HealBench, HostAnswer, restart};

/// A bench that repairs by itself, since its ladder was earned.
fn automatic() -> HealBench {
    let mut bench = HealBench::new(restart(HealStep::Auto));
    crate::heal_ladder::earn_auto(&mut bench);
    bench
}

/// Why the run on a host is refused after a minute without an order.
#[track_caller]
fn refusal(bench: &mut HealBench, host: &str) -> RefusalReason {
    let orders = bench.run(60);
    assert!(orders.is_empty(), "{orders:#?}");
    let run = bench.run_on(host);
    assert_eq!(run.state, RunState::Refused, "{run:#?}");
    assert!(!run.reason.is_empty());
    let rows = bench.changes.iter().filter(|change| change.run.id == run.id);
    assert_eq!(rows.count(), 1, "one row for one reason");
    run.refusal.expect("a refused run has a reason")
}

#[test]
fn fault_on_one_of_five_hosts_is_repaired_and_verified() {
    let mut bench = automatic();
    let finding = bench.break_app("web2");
    let orders = bench.run(12);
    assert_eq!(orders.len(), 1);
    assert_eq!((orders[0].host.as_str(), orders[0].action.as_str()), ("web2", "restart-unit"));
    assert_eq!(orders[0].params["unit"], "shop.service");
    bench.run(5);
    bench.end(&finding);
    bench.run(1_799);
    assert_eq!(bench.state_on("web2"), RunState::Ended);
    bench.run(10);
    assert_eq!(bench.state_on("web2"), RunState::Verified);
    assert!(bench.alarms().is_empty());
}

#[test]
fn symptom_is_refused_until_its_cause_ends() {
    let mut bench = automatic();
    bench.add_host("db1", "db");
    let root = bench.fire(page("disk.stuck", "db1"));
    bench.fire(symptom(&root, page("app.down", "web2")));
    assert_eq!(refusal(&mut bench, "web2"), RefusalReason::NotRoot);
    bench.end(&root);
    bench.found_mut("web2").finding.cause_finding_id = None;
    bench.found_mut("web2").finding.class = Urgency::Page;
    assert_eq!(bench.run(1).len(), 1);
}

#[test]
fn note_is_not_repaired() {
    let mut bench = automatic();
    let mut finding = page("app.down", "web2");
    finding.class = Urgency::Note;
    bench.fire(finding);
    assert_eq!(refusal(&mut bench, "web2"), RefusalReason::LowClass);
}

#[test]
fn evidence_older_than_two_runs_is_no_ground() {
    let mut bench = automatic();
    bench.break_app("web2");
    bench.found_mut("web2").evidence = at(bench.now - 3);
    bench.rules.get_mut("app.down").unwrap().last_run = at(bench.now - 3);
    bench.is_fresh = false;
    assert_eq!(refusal(&mut bench, "web2"), RefusalReason::StaleEvidence);
}

#[test]
fn finding_that_the_newest_run_did_not_return_is_no_ground() {
    let mut bench = automatic();
    bench.break_app("web2");
    bench.run(5);
    bench.is_fresh = false;
    bench.rules.get_mut("app.down").unwrap().last_run = at(bench.now + 1);
    bench.run(10);
    assert_eq!(bench.run_on("web2").refusal, Some(RefusalReason::StaleEvidence));
}

#[test]
fn silence_and_window_hold_back_a_repair() {
    let mut bench = automatic();
    bench.break_app("web2");
    bench.found_mut("web2").muted_by = Some("in maintenance window backup".to_owned());
    assert_eq!(refusal(&mut bench, "web2"), RefusalReason::Muted);
    bench.found_mut("web2").muted_by = None;
    assert_eq!(bench.run(1).len(), 1);
}

#[test]
fn deployment_locks_its_hosts() {
    let mut bench = automatic();
    let (name, hosts) = ("deploy 1.4.2".to_owned(), vec!["web*".to_owned()]);
    let (rules, until_us) = (Vec::new(), at(bench.now + 61).0);
    bench.locks.push(HostLock { name, hosts, rules, until_us });
    bench.break_app("web2");
    assert_eq!(refusal(&mut bench, "web2"), RefusalReason::DeployLock);
    assert_eq!(bench.run(2).len(), 1, "the lock is over");
}

#[test]
fn clock_that_is_off_or_unknown_refuses() {
    for offset in [Some(2_100_000), Some(-2_100_000), None] {
        let mut bench = automatic();
        bench.host_mut("web2").clock_offset_us = offset;
        bench.break_app("web2");
        assert_eq!(refusal(&mut bench, "web2"), RefusalReason::ClockSkew, "{offset:?}");
    }
}

#[test]
fn agent_that_is_away_gets_no_order() {
    let mut bench = automatic();
    bench.host_mut("web2").is_reachable = false;
    bench.break_app("web2");
    assert_eq!(refusal(&mut bench, "web2"), RefusalReason::Unreachable);
}

/// A controller that has just become leader has stale views of every host (ROCm/spur#624).
#[test]
fn new_leader_waits_for_half_a_minute() {
    let mut bench = automatic();
    bench.break_app("web2");
    bench.run(5);
    bench.leader_since = bench.now;
    bench.kill();
    assert!(bench.run(29).is_empty());
    assert_eq!(bench.run_on("web2").refusal, Some(RefusalReason::NewLeader));
    assert_eq!(bench.run(2).len(), 1);
}

#[test]
fn one_host_of_a_role_is_repaired_at_a_time_and_one_an_hour() {
    let mut bench = automatic();
    let first = bench.break_app("web2");
    bench.run(2);
    bench.break_app("web3");
    assert_eq!(bench.run(10).len(), 1);
    assert!(bench.run(30).is_empty());
    assert_eq!(bench.run_on("web3").refusal, Some(RefusalReason::RoleBusy));
    bench.end(&first);
    assert!(bench.run(60).is_empty());
    assert_eq!(bench.run_on("web3").refusal, Some(RefusalReason::RoleLimit));
    assert_eq!(bench.run(3_520).len(), 1, "an hour later");
}

#[test]
fn tenth_of_a_large_role_may_be_repaired_in_an_hour() {
    let mut bench = automatic();
    for number in 6..=30 {
        bench.add_host(&format!("web{number}"), "web");
    }
    let mut orders = 0;
    for number in 6..=12 {
        let finding = bench.break_app(&format!("web{number}"));
        orders += bench.run(20).len();
        bench.end(&finding);
        bench.run(70);
    }
    assert_eq!(orders, 3, "10 % of 30");
}

/// Half of the members are ill: the fault is not in the members.
#[test]
fn role_of_which_half_is_ill_is_left_alone() {
    let mut bench = automatic();
    bench.hosts.remove("web5");
    bench.break_app("web1");
    bench.fire(mail("app.slow", "web2"));
    assert_eq!(refusal(&mut bench, "web1"), RefusalReason::RoleIll);
}

/// A silent host may be in any state, so it does not count as well.
#[test]
fn hosts_without_data_do_not_count_as_well() {
    let mut bench = automatic();
    bench.silent = vec!["web3".to_owned(), "web4".to_owned()];
    bench.run(61);
    bench.break_app("web1");
    assert_eq!(refusal(&mut bench, "web1"), RefusalReason::RoleIll);
    bench.silent.clear();
    assert_eq!(bench.run(1).len(), 1);
}

/// A limit on unhealthy machines must stop repairs of a whole pool (openshift/machine-api-operator#414,
/// kubernetes-sigs/cluster-api#1684).
#[test]
fn fault_of_more_than_two_fifths_of_a_role_is_not_one_hosts_fault() {
    let mut bench = automatic();
    for host in ["web1", "web2", "web3"] {
        let mut finding = page("app.down", host);
        // Notes do not make a host ill, and still carry the rule.
        finding.class = if host == "web1" { Urgency::Page } else { Urgency::Note };
        bench.fire(finding);
    }
    assert_eq!(refusal(&mut bench, "web1"), RefusalReason::RoleCarries);
}

#[test]
fn person_or_change_at_work_in_the_incident_holds_back_a_repair() {
    let mut bench = automatic();
    bench.break_app("web2");
    bench.found_mut("web2").acting = Some(IncidentActor::Change("trial of somaxconn".to_owned()));
    assert_eq!(refusal(&mut bench, "web2"), RefusalReason::IncidentBusy);
    bench.found_mut("web2").acting = Some(IncidentActor::Person("ada".to_owned()));
    assert!(bench.run(60).is_empty());
    let id = bench.run_on("web2").id;
    bench.act(|desk, now| desk.approve(now, &id, "ada")).unwrap();
    assert_eq!(bench.run(1).len(), 1, "that person may approve it");
}

/// Two repairs of one incident at a time hide which one helped. What comes during a repair is
/// considered after it (NVIDIA/NVSentinel#1550: such events were dropped).
#[test]
fn second_fault_of_an_incident_waits_for_the_first_repair() {
    let mut policy = restart(HealStep::Ask);
    let mut second = policy.entries[0].clone();
    second.rule = "app.errors".to_owned();
    policy.entries.push(second);
    let mut bench = HealBench::new(policy);
    bench.add_host("db1", "db");
    let first = bench.break_app("web2");
    bench.run(12);
    bench.fire(page("app.errors", "db1"));
    bench.found_mut("db1").incident_id = bench.found_mut("web2").incident_id.clone();
    let id = bench.run_on("web2").id;
    bench.act(|desk, now| desk.approve(now, &id, "ada")).unwrap();
    bench.run(12);
    assert_eq!(bench.run_on("db1").refusal, Some(RefusalReason::IncidentBusy));
    bench.end(&first);
    bench.run(40);
    assert_eq!(bench.state_on("db1"), RunState::Asked);
}

#[test]
fn fleet_has_a_limit_of_runs_an_hour() {
    let mut bench = automatic();
    bench.policy.settings.fleet_per_hour = 2;
    bench.desk.set_policy(bench.policy.clone());
    // Hosts without a role have no siblings that could limit them.
    bench.policy.entries[0].alone = HealStep::Auto;
    bench.desk.set_policy(bench.policy.clone());
    crate::heal_ladder::earn_auto_alone(&mut bench);
    let before = bench.orders.len();
    for number in 1..=4 {
        bench.add_host(&format!("solo{number}"), "");
        let finding = bench.break_app(&format!("solo{number}"));
        bench.run(20);
        bench.end(&finding);
        bench.run(20);
    }
    assert_eq!(bench.orders.len() - before, 2);
    assert_eq!(bench.run_on("solo4").refusal, Some(RefusalReason::FleetLimit));
}

#[test]
fn nothing_is_repaired_within_ten_minutes_of_a_storm() {
    let mut bench = automatic();
    for number in 1..=12 {
        bench.add_host(&format!("db{number}"), "db");
        bench.fire(mail("app.slow", &format!("db{number}")));
    }
    bench.break_app("web2");
    assert_eq!(refusal(&mut bench, "web2"), RefusalReason::Storm);
    let orders = bench.run(500);
    assert!(orders.is_empty(), "less than ten minutes");
    assert_eq!(bench.run(150).len(), 1);
}

#[test]
fn host_of_an_upstream_is_repaired_and_not_the_proxy_that_reports_it() {
    let mut policy = restart(HealStep::Ask);
    policy.entries[0].on = "{upstream}".to_owned();
    let mut bench = HealBench::new(policy);
    bench.add_host("lb1", "lb");
    bench.addresses.insert("10.0.0.3".to_owned(), "web3".to_owned());
    let mut finding = page("app.down", "lb1");
    finding.key = "{\"upstream\":\"10.0.0.3:8080\"}".to_owned();
    bench.fire(finding.clone());
    bench.run(12);
    assert_eq!(bench.state_on("web3"), RunState::Asked);
    finding.key = "{\"upstream\":\"10.9.9.9:8080\"}".to_owned();
    bench.fire(finding);
    bench.run(12);
    assert_eq!(bench.run_on("").refusal, Some(RefusalReason::NoTarget), "an unknown address");
}

#[test]
fn parameter_that_is_missing_ambiguous_or_dangerous_refuses() {
    for evidence in ["[]", "[{\"unit\":\"a\"},{\"unit\":\"b\"}]", "[{\"unit\":\"--all\"}]"] {
        let mut policy = restart(HealStep::Ask);
        policy.entries[0].params.insert("unit".to_owned(), "{unit}".to_owned());
        let mut bench = HealBench::new(policy);
        bench.fire(weir_actions::Finding {
            evidence: evidence.to_owned(),
            ..page("app.down", "web2")
        });
        bench.run(12);
        assert_eq!(bench.run_on("web2").refusal, Some(RefusalReason::NoTarget), "{evidence}");
    }
}

#[test]
fn host_that_refuses_has_the_last_word() {
    let mut bench = automatic();
    bench.answer = HostAnswer::Refusal;
    bench.break_app("web2");
    assert_eq!(bench.run(60).len(), 1, "it is not sent again");
    let run = bench.run_on("web2");
    assert_eq!(run.refusal, Some(RefusalReason::ByHost));
    assert_eq!(run.reason, "refused by the host: no such action");
}

#[test]
fn nothing_happens_while_healing_is_off() {
    let mut policy = restart(HealStep::Auto);
    policy.settings.is_enabled = false;
    let mut bench = HealBench::new(policy);
    bench.break_app("web2");
    assert!(bench.run(60).is_empty());
    assert_eq!(bench.desk.runs().count(), 0);
}

/// NVIDIA/NVSentinel#1380, kubos/kubos-linux-build#139: a restart within a restart loop.
#[test]
fn host_with_a_restart_loop_gets_no_restart() {
    let mut bench = automatic();
    let looping = bench.fire(page("app.crash_loop", "web2"));
    bench.fire(page("app.down", "web2"));
    let orders = bench.run(60);
    assert!(orders.is_empty(), "{orders:#?}");
    let run = bench.run_on("web2");
    assert_eq!(run.refusal, Some(RefusalReason::CrashLoop));
    assert_eq!(run.reason, "app.crash_loop on web2 is in a restart loop");
    bench.end(&looping);
    assert_eq!(bench.run(1).len(), 1, "the loop is over");
}
