//! How steps run: environment, session, limits, output, deadline, account.

use std::fs;

use serde_json::{Value, json};
use weir_act::{Order, OrderMode};

use crate::kit::{GOOD, TestHost, is_root, params, set_mode, wait_until_gone};

/// The report of a run of `body` as a script.
fn run(host: &TestHost, body: &str) -> Value {
    host.script("usr/bin/tool", body);
    let lines = host.send(&host.order());
    assert_eq!(lines[0]["code"], "taken", "{lines:?}");
    lines[1].clone()
}

#[test]
fn a_report_has_what_ran_and_how_it_ended() {
    let host = TestHost::new();
    let report = run(&host, "echo out; echo err >&2; exit 3");
    assert_eq!((&report["state"], &report["exit"]), (&json!("failed"), &json!(3)));
    assert_eq!(report["argv"], json!([["/usr/bin/tool", "good"]]));
    assert_eq!(report["output_tail"], "out\nerr\n");
    assert_eq!(report["timed_out"], false);
    assert!(report["why"].as_str().is_some_and(|why| why.contains("exit status 3")), "{report}");
    assert!(report["ended"].as_i64() >= report["started"].as_i64());
    assert_eq!(run(&host, "kill -KILL $$")["exit"], 137);
    assert_eq!(run(&host, "true")["state"], "ended");
}

#[test]
fn a_step_has_no_environment_no_terminal_and_no_rights_to_gain() {
    let host = TestHost::new();
    let report = run(
        &host,
        "tr '\\0' '\\n' < /proc/$$/environ; pwd; readlink /proc/$$/fd/0; umask; grep NoNewPrivs /proc/$$/status",
    );
    assert_eq!(report["output_tail"], "/\n/dev/null\n0022\nNoNewPrivs:\t1\n");
    // Session, group and leader are the same process; `stat` has them as fields 1, 5 and 6.
    let report =
        run(&host, "read -r pid _ _ _ group session _ < /proc/$$/stat; echo $pid $group $session");
    let text = report["output_tail"].as_str().expect("a text").trim();
    let numbers: Vec<&str> = text.split(' ').collect();
    assert_eq!(numbers.len(), 3, "{text}");
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{text}");
}

#[test]
fn a_step_inherits_no_other_descriptors() {
    let host = TestHost::new();
    let _other = fs::File::open(host.dir()).expect("a directory");
    let report =
        run(&host, "for fd in /proc/$$/fd/*; do readlink $fd; done | grep -v pipe: | sort -u");
    let open = report["output_tail"].as_str().expect("a text");
    // The program itself stays open, for its interpreter.
    for line in open.lines() {
        assert!(line == "/dev/null" || line.ends_with("/usr/bin/tool"), "{open}");
    }
}

#[test]
fn limits_bind_the_steps() {
    let host = TestHost::new();
    let text =
        GOOD.replace("ceiling", "memory_bytes = 16777216\ntasks = 999\noutput_bytes = 9\nceiling");
    host.list("tool", &text);
    let report =
        run(&host, "grep -E 'data size|processes|core' /proc/$$/limits >> MARK; echo 0123456789");
    assert_eq!(report["output_tail"], "23456789\n");
    let marks: Vec<String> = host
        .marks()
        .iter()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        marks,
        [
            "Max data size 16777216 16777216 bytes",
            "Max core file size 0 0 bytes",
            "Max processes 999 999 processes"
        ]
    );
}

#[test]
fn output_without_end_is_read_and_only_its_end_is_kept() {
    let host = TestHost::new();
    let report = run(&host, "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done");
    let tail = report["output_tail"].as_str().expect("a text");
    assert!(tail.len() <= 16 << 10 && tail.ends_with("line 19999\n"), "{} bytes", tail.len());
}

/// A child that ignores SIGTERM and has closed the output ends as well (gptme/gptme#3805,
/// amoffat/sh#237).
#[test]
fn the_deadline_ends_a_step_with_all_its_children() {
    let host = TestHost::new();
    host.list("tool", &GOOD.replace("timeout_seconds = 60", "timeout_seconds = 1"));
    let report = run(
        &host,
        "(trap '' TERM; echo $$ >> MARK; exec >/dev/null 2>&1; while :; do sleep 100; done) & echo $! >> MARK; sleep 100",
    );
    assert_eq!((&report["state"], &report["timed_out"]), (&json!("failed"), &json!(true)));
    assert!(report["why"].as_str().is_some_and(|why| why.contains("after 1 s")), "{report}");
    for pid in host.marks() {
        wait_until_gone(&pid);
    }
}

/// The leader is gone, and a child holds the output: nothing waits for it, and it ends
/// (cfengine/core#6305, sonic-net/sonic-mgmt#23828, xalgorix/xalgorix#119).
#[test]
fn a_child_that_keeps_the_output_open_holds_nothing_up() {
    let host = TestHost::new();
    let report = run(&host, "sleep 1000 & echo $! >> MARK; echo done; exit 4");
    assert_eq!((&report["exit"], &report["output_tail"]), (&json!(4), &json!("done\n")));
    wait_until_gone(&host.marks()[0]);
}

#[test]
fn steps_run_in_order_until_one_fails() {
    let host = TestHost::new();
    let steps = "[[\"/usr/bin/tool\", \"{value}\"], [\"/usr/bin/second\"], [\"/usr/bin/tool\", \"{value}\"]]";
    host.list("tool", &GOOD.replace("[[\"/usr/bin/tool\", \"{value}\"]]", steps));
    host.script("usr/bin/second", "echo second >> MARK; exit 1");
    let lines = host.send(&host.order());
    assert_eq!(lines[1]["argv"].as_array().map(Vec::len), Some(3));
    assert_eq!((&lines[1]["state"], &lines[1]["exit"]), (&json!("failed"), &json!(1)));
    assert_eq!(host.marks(), ["good", "second"]);
    // A program that is missing is found before the first step runs.
    fs::remove_file(host.path("usr/bin/second")).expect("it is there");
    assert_eq!(host.send(&host.order())[0]["code"], "refused");
    assert_eq!(host.marks().len(), 2);
}

#[test]
fn a_dry_run_reports_and_runs_nothing() {
    let host = TestHost::new();
    let order = Order { mode: OrderMode::DryRun, ..host.order() };
    let lines = host.send(&order);
    assert_eq!((&lines[1]["state"], &lines[1]["exit"]), (&json!("planned"), &Value::Null));
    assert_eq!(lines[1]["argv"], json!([["/usr/bin/tool", "good"]]));
    assert!(host.marks().is_empty());
}

#[test]
fn an_undo_follows_a_run_once() {
    let host = TestHost::new();
    let undo = "undo = [[\"/usr/bin/back\", \"{value}\"]]";
    host.list("tool", &GOOD.replace("undo_none = \"nothing to undo\"", undo));
    host.script("usr/bin/back", "echo back $1 >> MARK");
    assert_eq!(host.send(&undo_of(&host, "good"))[0]["code"], "refused");
    assert_eq!(host.send(&host.order())[1]["state"], "ended");
    assert_eq!(host.send(&undo_of(&host, "fine"))[0]["code"], "refused");
    assert_eq!(host.send(&undo_of(&host, "good"))[1]["state"], "ended");
    assert_eq!(host.send(&undo_of(&host, "good"))[0]["code"], "refused");
    assert_eq!(host.marks(), ["good", "back good"]);
}

fn undo_of(host: &TestHost, value: &str) -> Order {
    Order { mode: OrderMode::Undo, params: params(&[("value", value)]), ..host.order() }
}

#[test]
fn a_step_runs_as_the_account_of_its_list() {
    if !is_root() {
        return println!("skipped: only root changes accounts (run the tests as root)");
    }
    let host = TestHost::new();
    host.list("tool", &GOOD.replace("\"USER\"", "\"nobody\""));
    // Its path must be open to the account, which reads the script.
    for dir in host.path("usr/bin").ancestors().take_while(|dir| dir.starts_with(host.dir())) {
        set_mode(dir, 0o755);
    }
    let report = run(&host, "id -u; id -g; id -G");
    assert_eq!(report["output_tail"], "65534\n65534\n65534\n", "{report}");
}
