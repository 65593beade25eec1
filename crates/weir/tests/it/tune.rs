//! `weir tune`: what a host's counters ask for, as text, as a sysctl file, as a diff and as JSON.

use std::process::Command;

use serde_json::Value;

use super::harness::{WEIR, can_run, is_root, text, weir};
use super::netns::Netns;

#[test]
fn this_host_is_tuned_in_every_format() {
    let output = weir(&["tune", "--seconds", "2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for part in ["never set", "net.ipv4.tcp_tw_recycle: removed", "common advice that is wrong"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let output = weir(&["tune", "--seconds", "2", "--format", "json"]);
    let proposals: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for proposal in proposals.as_array().expect("an array") {
        for key in ["name", "suggested", "summary", "reason", "risk", "interaction", "write"] {
            assert!(proposal[key].as_str().is_some_and(|text| !text.is_empty()), "{proposal}");
        }
        assert_ne!(proposal["current"], proposal["suggested"], "{proposal}");
    }
}

#[test]
fn a_harmful_setting_is_put_back_by_the_file_that_is_proposed() {
    let netns = if is_root() { Netns::make("tune") } else { None };
    if !can_run("tune", "root and iproute2", netns.is_some()) {
        return;
    }
    let Some(netns) = netns else { return };
    run_in(&netns, "echo 0 > /proc/sys/net/ipv4/tcp_timestamps");
    let file = run_in(&netns, "\"$1\" tune --seconds 2 --format sysctl");
    let lines: Vec<&str> = file.lines().filter(|line| line.contains("tcp_timestamps =")).collect();
    assert_eq!(lines, ["net.ipv4.tcp_timestamps = 1"], "{file}");
    assert!(file.contains("# risk: ") && file.contains("# before: 0"), "{file}");
    run_in(
        &netns,
        "\"$1\" tune --seconds 2 --format sysctl | grep tcp_timestamps | sed 's/ = / /' | \
         while read name value; do echo \"$value\" > /proc/sys/net/ipv4/tcp_timestamps; done",
    );
    let after = run_in(&netns, "\"$1\" tune --seconds 2 --format sysctl");
    assert!(!after.contains("tcp_timestamps ="), "{after}");
}

fn run_in(netns: &Netns, script: &str) -> String {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &netns.name, "sh", "-c", script, "sh", WEIR]);
    let output = command.output().expect("iproute2 is there");
    assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    text(&output.stdout)
}
