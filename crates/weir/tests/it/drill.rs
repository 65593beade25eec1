//! `weir drill`: a fault is made, found and named right, and nothing of it stays; not after `kill
//! -9` either.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::faults::ONE_AT_A_TIME;
use super::harness::{WEIR, can_run, is_root, text, wait_for, weir};
use super::netns::Netns;

const PATIENCE: Duration = Duration::from_secs(60);

fn can_drill(test: &str) -> bool {
    can_run(test, "root, iproute2 and nginx", is_root() && has("ip") && has("nginx"))
}

fn has(tool: &str) -> bool {
    ["/usr/sbin", "/usr/bin", "/sbin"].iter().any(|dir| Path::new(dir).join(tool).exists())
}

/// `weir drill run NAME`, with its own weir.
fn drill(more: &[&str]) -> Command {
    let mut command = Command::new(WEIR);
    command.args(["drill", "run"]).args(more).env_remove("WEIR_URL");
    command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Leftovers of the drill whose program had this PID.
fn left(id: u32) -> Vec<String> {
    let name = format!("weir-drill-{id}-");
    let dirs = [
        "/run/netns",
        "/var/lib/weir-drill",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/cpu",
        "/sys/fs/cgroup/memory",
    ];
    let entries =
        dirs.iter().flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten());
    let mut left: Vec<String> = entries
        .map(|entry| entry.path().display().to_string())
        .filter(|path| path.contains(&name))
        .collect();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("the kernel has it");
    left.extend(mounts.lines().filter(|line| line.contains(&name)).map(str::to_owned));
    left
}

#[test]
fn a_fault_is_found_and_named_right_and_nothing_of_it_stays() {
    let _turn = ONE_AT_A_TIME.lock();
    if !can_drill("drill") {
        return;
    }
    let args =
        ["application", "killed", "--seed", "3", "--param", "visitors=12", "--format", "json"];
    let child = drill(&args).spawn().expect("weir can be started");
    let id = child.id();
    let output = child.wait_with_output().expect("it ends");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    assert_eq!(report["parameters"]["visitors"], 12, "{report}");
    assert!(report["detected_seconds"].as_f64().is_some_and(|seconds| seconds < 40.0), "{report}");
    let code = if report["is_named_right"] == true { 0 } else { 2 };
    assert_eq!(output.status.code(), Some(code), "{report}");
    assert_eq!(left(id), Vec::<String>::new());
}

#[test]
fn a_lock_in_a_postgresql_without_a_login_is_named_by_titles_of_processes() {
    let _turn = ONE_AT_A_TIME.lock();
    let needed = "root, iproute2, postgresql and setpriv";
    if !can_run("locks by titles", needed, is_root() && has("ip") && has("psql")) {
        return;
    }
    let args = ["lock-in-a-postgresql-without-a-login", "--param", "sessions=6"];
    let output = drill(&[&args[..], &["--format", "json"]].concat()).output();
    let output = output.expect("weir can be started");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    assert!(report["detected_seconds"].as_f64().is_some(), "{report}");
}

#[test]
fn what_a_killed_or_interrupted_drill_made_is_taken_away() {
    let _turn = ONE_AT_A_TIME.lock();
    let has_mkfs =
        Path::new("/usr/sbin/mkfs.ext4").exists() || Path::new("/sbin/mkfs.ext4").exists();
    if !can_drill("drill clean") || !can_run("drill clean", "e2fsprogs", has_mkfs) {
        return;
    }
    let mut killed = begin_drill();
    let id = killed.id();
    killed.kill().and_then(|()| killed.wait()).expect("it ran");
    assert!(left(id).len() >= 4, "{:?}", left(id));
    let noted = std::fs::read_to_string(format!("/var/lib/weir-drill/weir-drill-{id}-0/undo"));
    let own_weir = noted.expect("it is there").split(' ').nth(1).expect("a number").to_owned();
    let output = weir(&["drill", "clean"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(&format!("took away weir-drill-{id}-0")));
    assert_eq!(left(id), Vec::<String>::new());
    wait_for("its weir is gone", PATIENCE, || {
        let stat = std::fs::read_to_string(format!("/proc/{own_weir}/stat")).unwrap_or_default();
        (!stat.contains("(weir)") || stat.contains(") Z ")).then_some(())
    });

    let interrupted = begin_drill();
    let id = interrupted.id();
    kill_process(Pid::from_child(&interrupted), Signal::INT).expect("it runs");
    let output = interrupted.wait_with_output().expect("it ends");
    assert!(text(&output.stderr).contains("ended by a signal"), "{}", text(&output.stderr));
    assert_eq!(left(id), Vec::<String>::new());
}

fn begin_drill() -> Child {
    let child = drill(&["pair-application-slow-disk-full"]).spawn().expect("weir can be started");
    let log = format!("/var/lib/weir-drill/weir-drill-{}-0/access.log", child.id());
    wait_for("visitors are served", PATIENCE, || {
        std::fs::metadata(&log).is_ok_and(|meta| meta.len() > 0).then_some(())
    });
    let own = format!("/var/lib/weir-drill/weir-drill-{}-0/undo", child.id());
    wait_for("its weir is started", PATIENCE, || Path::new(&own).exists().then_some(()));
    child
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is_made() {
    assert_refused(&["no", "such"], "there is no such fault\nhint: `weir drill list`", 64);
    assert_refused(
        &["application-slow", "--param", "speed=3"],
        "it has no parameter `speed`\nhint: millis",
        70,
    );
    assert_refused(&["application-slow", "--param", "millis=3"], "it is from 600 to 1800", 70);
    let output = weir(&["drill", "list"]);
    assert!(
        text(&output.stdout).contains("application slow: app.slow"),
        "{}",
        text(&output.stdout)
    );
    if is_root() {
        let mut other = Command::new("unshare");
        other.args(["--user", WEIR, "drill", "run", "application-slow"]).env_remove("WEIR_URL");
        let output = other.output().expect("util-linux is there");
        assert!(
            text(&output.stderr).contains("network namespaces need root"),
            "{}",
            text(&output.stderr)
        );
    }
}

fn assert_refused(more: &[&str], why: &str, code: i32) {
    let output = drill(more).output().expect("weir can be started");
    assert!(text(&output.stderr).contains(why), "{more:?}: {}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{more:?}");
}

/// `weir drill host NAME`, in a namespace or not, with the yes.
fn host_drill(netns: Option<&Netns>, more: &[&str]) -> Command {
    let mut command = netns.map_or_else(|| Command::new(WEIR), |netns| netns.command(WEIR));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("the kernel has it");
    command.args(["drill", "host"]).args(more).args(["--yes", host.trim()]).env_remove("WEIR_URL");
    command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_fault_of_a_host_is_refused_without_a_yes_and_without_bounds() {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("the kernel has it");
    let yes = ["--yes", host.trim()];
    let with = |more: &[&'static str]| [more, &yes[..]].concat();
    assert_host_refused(&["listener"], "it needs a yes for");
    assert_host_refused(&["listener", "--yes", "another-host"], "it needs a yes for");
    assert_host_refused(
        &with(&["reboot"]),
        "there is no such fault\nhint: listener, processor, disk, line",
    );
    assert_host_refused(&with(&["disk"]), "it needs a directory that exists\nhint: --dir");
    assert_host_refused(
        &with(&["line", "--device", "../eth0"]),
        "it needs a network interface that exists",
    );
    assert_host_refused(
        &with(&["listener", "--for", "11m"]),
        "its time limit must be 1 s to 600 s",
    );
    assert_host_refused(&with(&["listener", "--param", "backlog=0"]), "it is from 4 to 32");
}

fn assert_host_refused(more: &[&str], why: &str) {
    let mut command = Command::new(WEIR);
    command.args(["drill", "host"]).args(more).env_remove("WEIR_URL");
    let output = command.output().expect("weir can be started");
    assert!(text(&output.stderr).contains(why), "{more:?}: {}", text(&output.stderr));
    assert!(!output.status.success(), "{more:?}");
}

#[test]
fn a_fault_of_a_host_is_found_and_nothing_of_it_stays() {
    let _turn = ONE_AT_A_TIME.lock();
    if !can_drill("drill host") {
        return;
    }
    let mut command = host_drill(None, &["listener", "--for", "90s", "--format", "json"]);
    let child = command.spawn().expect("weir can be started");
    let id = child.id();
    let output = child.wait_with_output().expect("it ends");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    assert!(report["detected_seconds"].as_f64().is_some_and(|seconds| seconds < 40.0), "{report}");
    assert_eq!(left(id), Vec::<String>::new());
}

#[test]
fn a_narrow_line_is_wide_again_after_its_time_and_when_weir_is_killed() {
    let _turn = ONE_AT_A_TIME.lock();
    let netns = if is_root() { Netns::make("narrow") } else { None };
    if !can_drill("drill host line") || netns.is_none() {
        return;
    }
    let netns = netns.expect("it was looked for");
    for signal in [Signal::KILL, Signal::STOP] {
        // While stopped it cannot undo anything: its time is over before it can resume.
        let span = if signal == Signal::STOP { "5s" } else { "5m" };
        let more = ["line", "--device", "lo", "--for", span, "--param", "rate=20000"];
        let mut child = host_drill(Some(&netns), &more).spawn().expect("weir can be started");
        wait_for("the line is narrow", PATIENCE, || is_narrow(&netns).then_some(()));
        // `ip netns exec` becomes the program.
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        wait_for("the line is wide", PATIENCE, || (!is_narrow(&netns)).then_some(()));
        let id = child.id();
        wait_for("nothing of it stays", PATIENCE, || left(id).is_empty().then_some(()));
        let _ = child.kill().and_then(|()| child.wait());
    }
}

fn is_narrow(netns: &Netns) -> bool {
    let mut command = netns.command("tc");
    let output = command.args(["qdisc", "show", "dev", "lo", "root"]).output();
    text(&output.expect("iproute2 is there").stdout).starts_with("qdisc tbf ")
}
