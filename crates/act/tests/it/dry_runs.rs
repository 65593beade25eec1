//! Dry runs of actions that have steps for it: they run as a repair would, once, and count for no limit.

use std::sync::atomic::Ordering;

use weir_act::{Order, OrderMode, RepairLock};

use crate::kit::{GOOD, SECOND, TestHost, own_uid};

fn host() -> TestHost {
    let host = TestHost::new();
    host.script("usr/bin/tool", "echo \"$1\" >> MARK; test \"$1\" != show || echo frees=12.5%");
    let dry = "dry_run = [[\"/usr/bin/tool\", \"show\", \"{value}\"]]\nundo_none";
    let text = GOOD.replace("undo_none", dry).replace("runs_per_hour = 60", "runs_per_hour = 1");
    host.list("tool", &text.replace("cooldown_seconds = 0", "cooldown_seconds = 900"));
    host
}

fn dry_run(host: &TestHost) -> Order {
    Order { mode: OrderMode::DryRun, ..host.order() }
}

#[test]
fn dry_run_runs_its_own_steps_and_counts_for_no_limit() {
    let host = host();
    for _ in 0..3 {
        let answer = host.send(&dry_run(&host));
        assert_eq!(answer[0]["code"], "taken");
        assert_eq!((&answer[1]["state"], &answer[1]["exit"]), (&"ended".into(), &0.into()));
        assert_eq!(answer[1]["output_tail"], "frees=12.5%\n");
    }
    assert_eq!(host.marks(), ["show", "show", "show"]);
    assert_eq!(host.send(&host.order())[1]["state"], "ended");
    assert_eq!(host.marks()[3..], ["good"]);
    // The repair had its run of this hour; a dry run is allowed all the same.
    host.clock.0.fetch_add(60 * SECOND, Ordering::SeqCst);
    assert_eq!(host.send(&host.order())[0]["code"], "refused");
    assert_eq!(host.send(&dry_run(&host))[0]["code"], "taken");
}

#[test]
fn dry_run_that_arrives_twice_runs_once_and_none_runs_beside_a_repair() {
    let host = host();
    let order = dry_run(&host);
    host.send(&order);
    let again = host.send(&order);
    assert_eq!((&again[0]["code"], &again[1]["state"]), (&"seen".into(), &"ended".into()));
    assert_eq!(host.marks(), ["show"]);
    let state = host.path("var/lib/weir-act");
    let _lock = RepairLock::take(&state).expect("a directory").expect("it is free");
    let why = host.refused(&host.sign(&dry_run(&host)), own_uid(), "beside a repair");
    assert!(why.contains("another repair runs"), "{why}");
}

#[test]
fn dry_run_is_allowed_where_only_observing_is() {
    let host = host();
    let dry = "dry_run = [[\"/usr/bin/tool\", \"show\"]]\nundo_none";
    let text =
        GOOD.replace("undo_none", dry).replace("ceiling = \"auto\"", "ceiling = \"observe\"");
    host.list("tool", &text);
    assert_eq!(host.send(&dry_run(&host))[1]["state"], "ended");
    assert_eq!(host.send(&host.order())[0]["code"], "refused");
    assert_eq!(host.marks(), ["show"]);
}

#[test]
fn action_without_steps_for_it_checks_the_order_and_runs_nothing() {
    let host = TestHost::new();
    assert_eq!(host.send(&dry_run(&host))[1]["state"], "planned");
    assert!(host.marks().is_empty());
}

#[test]
fn steps_of_a_dry_run_are_checked_as_all_steps_are() {
    for bad in
        ["[[\"/bin/sh\", \"-c\", \"x\"]]", "[[\"tool\"]]", "[[\"/usr/bin/tool\", \"{other}\"]]"]
    {
        let host = TestHost::new();
        host.list("tool", &GOOD.replace("undo_none", &format!("dry_run = {bad}\nundo_none")));
        let why = host.refused(&host.sign(&dry_run(&host)), own_uid(), bad);
        assert!(why.contains("tool.toml"), "{bad}: {why}");
    }
}
