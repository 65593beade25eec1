//! Faults that only packets show, made for real, seen by a live tap, and named by the rules over
//! its rows.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use super::faults::ONE_AT_A_TIME;
use super::harness::{Weir, can_run, is_root, pause, quiet, serve, wait_for};
use super::netns::{Manner, Netns, Nginx, application, knocks};

/// A slice is finished after 3 s, rules look every 2 s, and the machine is loaded.
const PATIENCE: Duration = Duration::from_secs(60);

/// A namespace with a tap on its loopback, in a weir that samples nothing else.
fn watch(purpose: &str, dir: &Path, ports: &str) -> Option<(Netns, Weir)> {
    let netns = if is_root() { Netns::make(purpose) } else { None };
    if !can_run(purpose, "root and iproute2", netns.is_some()) {
        return None;
    }
    let netns = netns?;
    let mut command = serve("up", &dir.join("data"));
    quiet(&mut command);
    command
        .env("WEIR_WIRE_INTERFACES", format!("{}/lo", netns.name))
        .env("WEIR_WIRE_PORTS", ports)
        .env("WEIR_WIRE_CPU_PERCENT", "400");
    let weir = Weir::start(command);
    let ran = "select count(*) from collector_run where collector = 'wire' and is_success";
    wait_for("the tap is open", PATIENCE, || (weir.number(ran) > 0).then_some(()));
    Some((netns, weir))
}

fn firing(weir: &Weir, rule: &str) -> Option<Value> {
    weir.findings(rule).into_iter().find(|finding| finding["state"] == "firing")
}

/// Requests `path` repeatedly until the end.
fn ask(netns: &Netns, path: &'static str, every: Duration, manner: &Manner) -> JoinHandle<()> {
    let is_ended = Arc::clone(&manner.is_ended);
    let name = netns.name.clone();
    std::thread::spawn(move || {
        while !is_ended.load(Ordering::Relaxed) {
            let url = format!("http://127.0.0.1:8080{path}");
            let mut command = std::process::Command::new("ip");
            command.args(["netns", "exec", &name, "curl", "-s", "-o", "/dev/null", &url]);
            let _ = command.stdin(Stdio::null()).status();
            pause(every);
        }
    })
}

#[test]
fn a_slow_url_is_named_at_the_application_and_not_at_the_proxy_before_it() {
    let _turn = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).expect("it is ours");
    let Some((netns, weir)) = watch("slow-url", dir.path(), "8080,9001") else { return };
    let manner = Manner::default();
    manner.body_bytes.store(1000, Ordering::Relaxed);
    application(&netns, 128, &manner);
    let _nginx = Nginx::start(&netns, dir.path());
    let every = Duration::from_millis(200);
    let visitors = [ask(&netns, "/page", every, &manner), ask(&netns, "/search", every, &manner)];
    let pairs = "select count(*) from wire_request where parent_source_offset is not null";
    wait_for("requests are joined", PATIENCE, || (weir.number(pairs) > 10).then_some(()));
    assert!(firing(&weir, "app.slow_url").is_none(), "nothing is slow yet");

    manner.search_millis.store(700, Ordering::Relaxed);
    let finding = wait_for("app.slow_url", PATIENCE, || firing(&weir, "app.slow_url"));
    println!("{}", finding["summary"]);
    assert_eq!(finding["tier"], "app");
    assert_eq!(finding["subject"], "/search on port 9001 of testhost");
    let all = weir.findings("app.slow_url");
    assert!(
        all.iter().all(|f| !f["subject"].as_str().is_some_and(|s| s.contains("8080"))),
        "the proxy's own time is none: {all:?}"
    );
    manner.is_ended.store(true, Ordering::Relaxed);
    visitors.into_iter().for_each(|visitor| visitor.join().expect("no panic"));
}

#[test]
fn a_full_accept_queue_is_seen_from_outside_by_its_late_syns() {
    let _turn = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().expect("a directory");
    let Some((netns, weir)) = watch("late-syns", dir.path(), "9001") else { return };
    let manner = Manner::default();
    application(&netns, 4, &manner);
    manner.is_stalled.store(true, Ordering::Relaxed);
    knocks(&netns, 24, &manner);
    let finding = wait_for("wire.syn_retries", PATIENCE, || firing(&weir, "wire.syn_retries"));
    println!("{}", finding["summary"]);
    assert_eq!(finding["tier"], "kernel");
    assert_eq!(finding["subject"], "connections to port 9001 of testhost");
    let late = weir.number("select sum(late_syns) from wire_slice where server_port = 9001");
    let connections = "select count(*) from tcp_conn where client_syns > 1";
    assert!(late >= 3, "{late}");
    assert!(weir.number("select count(*) from wire_slice where verdict = 'unknown'") == 0);
    manner.is_stalled.store(false, Ordering::Relaxed);
    manner.is_ended.store(true, Ordering::Relaxed);
    wait_for("connections that had to ask twice have rows", PATIENCE, || {
        (weir.number(connections) > 0).then_some(())
    });
}
