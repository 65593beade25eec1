//! The field note about listen queues, at weir's own edge: a backlog of 511 under a burst, named by
//! another weir.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::edge::{address_of, edge};
use super::faults::ONE_AT_A_TIME;
use super::harness::{EndedProcess, Weir, can_run, is_root, serve, wait_for};
use super::netns::Netns;

const PATIENCE: Duration = Duration::from_secs(60);
/// More than the queue of 511 holds, and fewer than a process may have descriptors.
const BURST: &str = "900";

/// A process that stands still until dropped.
struct StoppedProcess(Pid);

impl StoppedProcess {
    fn new(weir: &Weir) -> Self {
        let id = Pid::from_raw(i32::try_from(weir.id()).expect("a pid")).expect("not 0");
        kill_process(id, Signal::STOP).expect("it runs");
        Self(id)
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn a_backlog_of_511_under_a_burst_names_the_edges_own_listener_and_setting() {
    let _turn = ONE_AT_A_TIME.lock();
    let has_wrk = Path::new("/usr/bin/wrk").exists();
    let netns = if is_root() && has_wrk { Netns::make("backlog") } else { None };
    if !can_run("edge backlog", "root, wrk and iproute2", netns.is_some()) {
        return;
    }
    let netns = netns.expect("it was made");
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["--listen", "127.0.0.1:8080", "--beacon", "/ping"];
    let plain = edge(&dir.path().join("edge"), &args);
    // `ip netns exec` becomes the program, so that its process is the edge's own.
    let mut inside = netns.command(&plain.get_program().to_string_lossy());
    inside.args(plain.get_args());
    for (name, value) in plain.get_envs() {
        inside.env(name, value.unwrap_or_default());
    }
    inside.env("WEIR_EDGE_BACKLOG", "511").env("WEIR_EDGE_THREADS", "1");
    let server = Weir::start(inside);
    assert_eq!(address_of(&server), "127.0.0.1:8080");
    let watcher = Weir::start(serve("up", &dir.path().join("data")));
    let name = &netns.name;
    wait_for_rows(
        &watcher,
        "the edge's listener",
        format!(
            "select count(*) from listener where netns = '{name}' and server_port = 8080 and tier = 'edge' and accept_queue_limit = 511"
        ),
    );
    wait_for_rows(
        &watcher,
        "the namespace's somaxconn",
        format!(
            "select count(*) from sysctl where netns = '{name}' and name = 'net.core.somaxconn'"
        ),
    );

    let stopped = StoppedProcess::new(&server);
    let mut burst = netns.command("wrk");
    burst.args(["-t1", "-c", BURST, "-d60s", "--timeout", "60s", "http://127.0.0.1:8080/ping"]);
    let burst = EndedProcess(burst.stdout(Stdio::null()).spawn().expect("it is installed"));
    let ours = |rule: &str| {
        let found = watcher.findings(rule).into_iter();
        found.into_iter().find(|finding: &Value| {
            finding["state"] == "firing" && finding["summary"].to_string().contains(name.as_str())
        })
    };
    let finding = wait_for("tcp.listen_overflow", PATIENCE, || ours("tcp.listen_overflow"));
    assert_eq!(finding["subject"], "weir on 127.0.0.1:8080", "{finding}");
    assert_eq!(finding["tier"], "edge", "{finding}");
    assert!(
        words_of(&finding, "summary").contains("the process requested 511 in listen()"),
        "{finding}"
    );
    assert!(
        words_of(&finding, "fix").contains("backlog = 16384 in the section [edge]"),
        "{finding}"
    );
    drop(stopped);
    drop(burst);
    wait_for("it resolves", PATIENCE, || ours("tcp.listen_overflow").is_none().then_some(()));
}

fn words_of(finding: &Value, key: &str) -> String {
    finding[key].as_str().unwrap_or_default().to_owned()
}

fn wait_for_rows(watcher: &Weir, what: &str, sql: String) {
    wait_for(what, PATIENCE, || (watcher.number(&sql) > 0).then_some(()));
}
