//! Repairs over a real hub and a real agent: asked, approved by a person, ordered, answered.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::fleet::{FleetHost, FleetSite};
use super::harness::{WEIR, Weir, quiet, request, text, wait_for};

/// A hub orders nothing in its first half minute.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) const RULE: &str = r#"/*---
id = "test.stuck"
title = "Marker in a log"
tier = "app"
class = "mail"
for = "0s"
every = "1s"
clear = "1s"
key = ["unit"]
needs = ["log"]
subject = "{unit}"
summary = "{unit} is stuck"
why = "The test wrote a line."
look_at = "The test."
silent_when = "No such line in the last 5 min."
fix = "Restart it."
source = "a test"
---*/
select host, substr(body, 7) as unit from log
where body like 'stuck %' and ts > $now - interval '5 minutes' and ts <= $now
group by host, body
"#;

pub(super) const CONFIG: &str = r#"
[heal]
enabled = true

[[heals]]
rule = "test.stuck"
action = "restart-unit"
params = { unit = "{unit}" }
mode = "ask"
"#;

fn start(site: &FleetSite<'_>, dir: &Path) -> Weir {
    std::fs::write(dir.join("weir.toml"), CONFIG).expect("it can be written");
    let rules = dir.join("rules");
    std::fs::create_dir_all(&rules).expect("it can be made");
    std::fs::write(rules.join("test.stuck.sql"), RULE).expect("it can be written");
    let mut command = Command::new(WEIR);
    command.arg("hub").arg("--data").arg(site.data).arg("--config").arg(dir.join("weir.toml"));
    command.args(["--listen", &site.page.to_string(), "--agents", &site.agents.to_string()]);
    command.env("XDG_CONFIG_HOME", "/nonexistent").env("WEIR_RULES_DIR", &rules);
    quiet(&mut command);
    Weir::start(command)
}

fn heal(site: &FleetSite<'_>, args: &[&str]) -> (bool, String) {
    let mut command = Command::new(WEIR);
    command.arg("heal").args(args).env("XDG_CONFIG_HOME", "/nonexistent");
    let output = command.env("WEIR_URL", site.url()).output().expect("weir can be started");
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// The run, once it is in this state.
pub(super) fn run_in(hub: &Weir, state: &str) -> Value {
    wait_for(&format!("a run that is {state}"), PATIENCE, || {
        let all = hub.get("/api/actions");
        let run = all["runs"].as_array()?.first()?.clone();
        (run["state"] == state).then_some(run)
    })
}

#[test]
fn repair_is_asked_approved_ordered_and_refused_by_a_host_without_a_helper() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("hub");
    let site = FleetSite::new(&data);
    let hub = start(&site, dir.path());
    let place = dir.path().join("web1");
    let host = FleetHost(&place);
    let joined = host.join(&site.token(&[]), "web1");
    assert!(joined.status.success(), "{}", text(&joined.stderr));
    let log = dir.path().join("app.log");
    std::fs::write(&log, "stuck shop.service\n").expect("it can be written");
    let socket = dir.path().join("none.sock").display().to_string();
    let set = [("WEIR_ACT_SOCKET", socket.as_str()), ("WEIR_COLLECT_SAMPLE_HOST", "true")];
    let _agent = host.start_with(&log, site.agents, &set);

    let run = run_in(&hub, "asked");
    assert_eq!(run["params"]["unit"], "shop.service", "{run}");
    let id = run["run_id"].as_str().expect("an id");
    let path = format!("/api/actions/{id}/approve");
    let headers = [("content-type", "application/json")];
    let (status, _, answer) = request(&site.url(), "POST", &path, &headers, "{}");
    assert_eq!(status, 400, "a person has to decide: {answer}");
    let (is_done, said) = heal(&site, &["approve", &id[..6], "--by", "ada"]);
    assert!(is_done && said.contains("approved by ada"), "{said}");

    let refused = run_in(&hub, "refused");
    assert_eq!(refused["refusal"], "by_host", "{refused}");
    assert!(refused["reason"].as_str().is_some_and(|why| why.contains("weir-act")), "{refused}");
    assert_eq!(refused["approved_by"], "ada");
    let sql = format!("select state from action_run where run_id = '{id}' order by ts");
    let states = wait_for("rows of all states", PATIENCE, || {
        let rows = hub.rows(&sql);
        let states: Vec<String> =
            rows.iter().filter_map(|row| row[0].as_str()).map(str::to_owned).collect();
        (states.last().map(String::as_str) == Some("refused") && states.len() >= 4)
            .then_some(states)
    });
    let end = &states[states.len() - 4..];
    assert_eq!(end, ["asked", "approved", "ordered", "refused"], "{states:?}");
}

#[test]
fn stop_outlives_a_kill_and_drafts_are_printed() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("hub");
    let site = FleetSite::new(&data);
    let hub = start(&site, dir.path());
    let (is_done, said) = heal(&site, &["stop", "--by", "ada", "--reason", "game day"]);
    assert!(is_done, "{said}");
    hub.kill();
    let hub = start(&site, dir.path());
    let (_, said) = heal(&site, &["list"]);
    assert!(said.contains("stopped by ada: game day"), "{said}");
    assert!(said.contains("ask       test.stuck"), "{said}");
    let (is_done, said) = heal(&site, &["start"]);
    assert!(!is_done && said.contains("--by NAME"), "{said}");
    let (is_done, said) = heal(&site, &["start", "--by", "ada"]);
    assert!(is_done, "{said}");
    assert_eq!(hub.get("/api/actions")["stopped"], Value::Null);
    let (is_done, said) = heal(&site, &["key"]);
    assert!(is_done && said.starts_with("weir-orders-ed25519 "), "{said}");
    let (is_done, said) = heal(&site, &["draft", "app.down"]);
    assert!(is_done && said.contains("id = \"restart-unit\""), "{said}");
}

#[test]
fn deploy_lock_outlives_a_kill_and_ends_by_its_role() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("hub");
    let site = FleetSite::new(&data);
    let hub = start(&site, dir.path());
    let locked = ["lock", "--role", "web", "--for", "30m", "--reason", "deploy 1.4.2"];
    let (is_done, said) = heal(&site, &locked);
    assert!(is_done && said.contains("role web are locked for 30m"), "{said}");
    let (is_done, said) = heal(&site, &["lock", "--role", "web", "--for", "2d", "--reason", "x"]);
    assert!(!is_done && said.contains("1 s to 24 h"), "{said}");
    hub.kill();
    let hub = start(&site, dir.path());
    let (_, said) = heal(&site, &["locks"]);
    assert!(said.contains("role web") && said.contains("deploy 1.4.2"), "{said}");
    assert_eq!(hub.get("/api/actions")["locks"].as_array().map(Vec::len), Some(1));
    let (is_done, said) = heal(&site, &["unlock", "--role", "web"]);
    assert!(is_done && said.contains("ended"), "{said}");
    let (is_done, said) = heal(&site, &["unlock", "--role", "web"]);
    assert!(!is_done && said.contains("no lock holds"), "{said}");
    let (_, said) = heal(&site, &["locks"]);
    assert_eq!(said.trim(), "no locks");
}
