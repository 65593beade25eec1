//! Agents and their hub over the link: joining, sending, being listed and being turned away.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::harness::{WEIR, Weir, free_address, quiet, text, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

/// A hub's directory and its addresses, which it comes back on.
pub(super) struct FleetSite<'a> {
    pub(super) data: &'a Path,
    pub(super) page: SocketAddr,
    pub(super) agents: SocketAddr,
    /// Bytes that have to stay free.
    pub(super) reserve: u64,
}

impl<'a> FleetSite<'a> {
    pub(super) fn new(data: &'a Path) -> Self {
        Self { data, page: free_address(), agents: free_address(), reserve: 0 }
    }

    pub(super) fn start(&self) -> Weir {
        let mut command = Command::new(WEIR);
        command.arg("hub").arg("--data").arg(self.data).args(["--log-level", "warn"]);
        command.args(["--listen", &self.page.to_string(), "--agents", &self.agents.to_string()]);
        command.env("XDG_CONFIG_HOME", "/nonexistent").env("WEIR_STORE_FLUSH_SECONDS", "1");
        command.env("WEIR_LINK_HEARTBEAT_SECONDS", "1");
        command.env("WEIR_STORE_MIN_FREE_BYTES", self.reserve.to_string());
        quiet(&mut command);
        Weir::start(command)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.page)
    }

    fn hub(&self, args: &[&str]) -> Output {
        run(Command::new(WEIR).arg("hub").args(args).arg("--data").arg(self.data))
    }

    /// A join token.
    pub(super) fn token(&self, args: &[&str]) -> String {
        let output = self.hub(&[&["invite"], args].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim().to_owned()
    }
}

/// An agent's directory.
pub(super) struct FleetHost<'a>(pub(super) &'a Path);

impl FleetHost<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(WEIR);
        command.arg("agent").env("WEIR_AGENT_DIR", self.0).env("XDG_CONFIG_HOME", "/nonexistent");
        quiet(&mut command);
        command
    }

    pub(super) fn join(&self, token: &str, name: &str) -> Output {
        run(self.command().args(["join", token, "--host", name]))
    }

    pub(super) fn start(&self, log: &Path, hub: SocketAddr) -> FleetAgent {
        self.start_with(log, hub, &[])
    }

    /// With variables of the environment.
    pub(super) fn start_with(
        &self,
        log: &Path,
        hub: SocketAddr,
        set: &[(&str, &str)],
    ) -> FleetAgent {
        self.start_towards(log, &[hub], set)
    }

    /// Starts an agent with a clock that is off. The library of `faketime` is loaded directly,
    /// because its program would be the parent of the agent.
    fn start_by_clock(&self, off: &str, log: &Path, hub: SocketAddr) -> FleetAgent {
        let mut asked = Command::new("faketime");
        let asked = asked.args(["-f", off, "printenv"]).output();
        let asked = asked.expect("faketime can be started (apt-get install faketime)");
        let set = text(&asked.stdout);
        let set = set.lines().filter_map(|line| line.split_once('='));
        let mut set: Vec<_> =
            set.filter(|(key, _)| ["LD_PRELOAD", "FAKETIME"].contains(key)).collect();
        assert_eq!(set.len(), 2, "{}", text(&asked.stderr));
        set.push(("FAKETIME_DONT_FAKE_MONOTONIC", "1"));
        set.push(("WEIR_COLLECT_SAMPLE_HOST", "true"));
        self.start_with(log, hub, &set)
    }

    /// With several hubs, best first.
    pub(super) fn start_towards(
        &self,
        log: &Path,
        hubs: &[SocketAddr],
        set: &[(&str, &str)],
    ) -> FleetAgent {
        let mut command = self.command();
        command.envs(set.iter().copied());
        command.arg("--tail").arg(log).args(["--host", "web1"]);
        for hub in hubs {
            command.args(["--hub", &hub.to_string()]);
        }
        command.args(["--log-level", "warn"]).stdin(Stdio::null()).stdout(Stdio::null());
        FleetAgent(command.spawn().expect("weir can be started"))
    }
}

/// A running agent; killed when dropped.
pub(super) struct FleetAgent(Child);

impl FleetAgent {
    /// The process id.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for FleetAgent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(command: &mut Command) -> Output {
    command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null());
    command.output().expect("weir can be started")
}

fn complaint(output: &Output, parts: &[&str]) {
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in:\n{said}");
    }
    assert_eq!(said.matches("error: ").count(), 1, "one message:\n{said}");
}

#[test]
fn an_agent_joins_sends_is_listed_and_is_revoked() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, host) = (dir.path().join("data"), dir.path().join("agent"));
    let log = dir.path().join("app.log");
    std::fs::write(&log, "line 1\nline 2\n").expect("there is room");
    let (site, host) = (FleetSite::new(&data), FleetHost(&host));
    let hub = site.start();
    assert!(hub.greeting.contains(&format!("agents  {}", site.agents)), "{}", hub.greeting);
    complaint(&run(&mut host.command()), &["has not joined a hub", "weir hub invite", "hint: "]);
    let token = site.token(&["--for", "10m"]);
    let joined = host.join(&token, "web1");
    assert!(joined.status.success(), "{}", text(&joined.stderr));
    let other = dir.path().join("other");
    complaint(&FleetHost(&other).join(&token, "web2"), &["the token was used by `web1`", "hint: "]);
    complaint(&FleetHost(&other).join(&token[..60], "web2"), &["invalid token", "hint: "]);
    complaint(&site.hub(&["invite", "--for", "forever"]), &["`forever`", "hint: "]);
    complaint(&site.hub(&["revoke", "web9"]), &["no agent of that name", "hint: "]);

    let agent = host.start(&log, site.agents);
    let lines = "select count(*) from log where body like 'line %' and host = 'web1'";
    wait_for("two lines", PATIENCE, || (hub.number(lines) == 2).then_some(()));
    let connected = hub.get("/api/status")["agents"].clone();
    assert_eq!(connected[0]["name"], "web1", "{connected}");
    wait_for("it is listed", PATIENCE, || {
        text(&site.hub(&["agents"]).stdout).contains("connected from 127.0.0.1").then_some(())
    });
    assert!(site.hub(&["revoke", "web1"]).status.success());
    wait_for("it is cut off", PATIENCE, || {
        hub.get("/api/status")["agents"].as_array().is_some_and(Vec::is_empty).then_some(())
    });
    assert!(text(&site.hub(&["agents"]).stdout).contains("revoked"));
    drop(agent);
    assert_eq!(hub.terminate(), Some(0));
}

#[test]
fn a_host_whose_clock_is_off_is_found_and_nothing_else_of_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, host) = (dir.path().join("data"), dir.path().join("agent"));
    let log = dir.path().join("app.log");
    std::fs::write(&log, "").expect("there is room");
    let (site, host) = (FleetSite::new(&data), FleetHost(&host));
    let hub = site.start();
    assert!(host.join(&site.token(&[]), "web1").status.success());
    let off = "select count(*) from agent_link where host = 'web1' and clock_offset_seconds between -301 and -299";
    let right =
        "select count(*) from agent_link where host = 'web1' and abs(clock_offset_seconds) < 1";

    let agent = host.start_by_clock("-300s", &log, site.agents);
    wait_for("its clock is known", PATIENCE, || (hub.number(off) > 0).then_some(()));
    let found = wait_for("it is found", PATIENCE, || firing_skew(&hub, "page"));
    let summary = found["summary"].as_str().expect("a text");
    assert!(summary.starts_with("the clock of web1 is 5"), "{summary}");
    assert!(summary.contains("behind the hub's"), "{summary}");
    wait_for("it is listed", PATIENCE, || {
        text(&site.hub(&["agents"]).stdout).contains("s behind the hub's").then_some(())
    });
    // Its rows are of five minutes ago, so it looks silent.
    wait_for("that is a symptom", PATIENCE * 2, || {
        let mut silent = hub.findings("weir.agent_silent").into_iter();
        silent.find(|one| one["host"] == "web1" && one["cause_finding_id"] == found["finding_id"])
    });
    drop(agent);

    let _agent = host.start(&log, site.agents);
    wait_for("its clock is right", PATIENCE, || (hub.number(right) > 0).then_some(()));
    wait_for("it is over", PATIENCE, || firing_skew(&hub, "page").is_none().then_some(()));
    assert_eq!(hub.terminate(), Some(0));
}

fn firing_skew(hub: &Weir, class: &str) -> Option<Value> {
    let mut found = hub.findings("clock.hub_skew").into_iter();
    found.find(|found| found["state"] == "firing" && found["class"] == class)
}

#[test]
fn a_hub_listens_for_agents_once_one_is_invited() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let config = dir.path().join("weir.toml");
    let site = FleetSite::new(&data);
    let mut command = super::harness::serve("hub", &data);
    quiet(&mut command);
    let hub = Weir::start(command);
    assert!(!hub.greeting.contains("agents"), "{}", hub.greeting);
    assert!(!data.join("link").exists());
    assert_eq!(hub.terminate(), Some(0));
    // A separate loopback address, so that the usual port is free there.
    let own = format!("127.{}.7.7:4771", 1 + std::process::id() % 250);
    std::fs::write(&config, format!("[link]\nlisten = \"{own}\"\n")).expect("there is room");
    let mut command = super::harness::serve("hub", &data);
    command.arg("--config").arg(&config);
    quiet(&mut command);
    let hub = Weir::start(command);
    assert!(hub.greeting.contains(&format!("agents  {own}")), "{}", hub.greeting);
    let token = site.token(&[]);
    let joined = FleetHost(&dir.path().join("agent")).join(&token, "web1");
    assert!(joined.status.success(), "{}", text(&joined.stderr));
    assert!(text(&joined.stdout).contains(&own), "{}", text(&joined.stdout));
    assert_eq!(hub.terminate(), Some(0));
}

#[test]
fn plain_http_to_another_host_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = FleetHost(dir.path()).command();
    complaint(
        &run(command.args(["--hub", "http://192.0.2.1:4770"])),
        &["--insecure", "weir agent join"],
    );
    let mut command = FleetHost(dir.path()).command();
    let several = ["--hub", "http://127.0.0.1:1", "--hub", "127.0.0.1:2"];
    complaint(&run(command.args(several)), &["beside other hubs", "hint: "]);
}

#[test]
fn a_token_names_the_port_at_once_and_flags_may_stand_before_join() {
    let (data, host) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("one"));
    let mut command = Command::new(WEIR);
    command.arg("hub").arg("--data").arg(data.path()).args(["--agents", "127.0.0.1:0"]);
    command.args(["--listen", "127.0.0.1:0"]).env("XDG_CONFIG_HOME", "/nonexistent");
    quiet(&mut command);
    let _hub = Weir::start(command);
    let invite = run(Command::new(WEIR).args(["hub", "invite", "--data"]).arg(data.path()));
    let token = text(&invite.stdout).trim().to_owned();
    assert!(!text(&invite.stderr).contains(":4771"), "{}", text(&invite.stderr));
    let config = host.path().join("weir.toml");
    std::fs::write(&config, "").expect("it can be written");
    let config = config.display().to_string();
    let wrong = run(FleetHost(host.path()).command().args(["--tail", "/x", "join", &token]));
    assert_eq!(wrong.status.code(), Some(64));
    assert!(text(&wrong.stderr).contains("has no flag `--tail`"), "{}", text(&wrong.stderr));
    let joined = run(FleetHost(host.path()).command().args(["--config", &config, "join", &token]));
    assert!(joined.status.success(), "{}", text(&joined.stderr));
}
