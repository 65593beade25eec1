//! Repairs of a single machine: `weir up` asks, a person approves, and weir-act runs the order on the
//! same host, behind a socket as systemd serves it.
//!
//! weir's clock is moved by libfaketime, so that the half minute of a new hub and the half hour of a
//! verification pass at once. weir-act has the kernel's clock.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::harness::{WEIR, Weir, can_run, quiet, serve, text, wait_for};
use super::heals::{CONFIG, run_in};

const PATIENCE: Duration = Duration::from_secs(90);

const RULE: &str = r#"/*---
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
silent_when = "The newest line says well."
fix = "Restart it."
source = "a test"
---*/
select host, split_part(body, ' ', 2) as unit from log
where (body like 'stuck %' or body like 'well %') and ts > $now - interval '5 minutes' and ts <= $now
group by host, split_part(body, ' ', 2)
having max(case when body like 'stuck %' then ts end)
     > coalesce(max(case when body like 'well %' then ts end), timestamp '1970-01-01')
"#;

const ACTION: &str = r#"id = "restart-unit"
steps = [["/usr/bin/restart", "{unit}"]]
undo_none = "a restart cannot be taken back"
user = "root"
ceiling = "ask"
heals = ["test.stuck"]

[params.unit]
any_of = ["shop.service"]
"#;

/// A machine with weir-act below a directory, and weir's clock in a file.
struct Machine {
    dir: tempfile::TempDir,
    helper: Option<Child>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(helper) = &mut self.helper {
            let _ = helper.kill();
            let _ = helper.wait();
        }
    }
}

/// The program beside weir; built with the workspace.
fn weir_act() -> PathBuf {
    Path::new(WEIR).with_file_name("weir-act")
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

impl Machine {
    /// `None` where programs are missing.
    fn new(test: &str) -> Option<Self> {
        let needs = "weir-act beside weir (cargo build --workspace), systemd and faketime";
        let programs = ["systemd-socket-activate", "faketime"];
        let has_all = weir_act().is_file() && programs.into_iter().all(is_there);
        if !can_run(test, needs, has_all) {
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(dir.path(), mode(0o755)).expect("it is ours");
        let machine = Self { dir, helper: None };
        machine.write("clock", ("-40\n", 0o644));
        machine.write("app.log", ("", 0o644));
        machine.write("weir.toml", (CONFIG, 0o644));
        machine.write("rules/test.stuck.sql", (RULE, 0o644));
        let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let passwd = format!("root:x:{}:{}::/:/bin/sh\n", ids.0, ids.1);
        machine.write("root/etc/passwd", (&passwd, 0o644));
        machine.write("root/etc/weir/actions.d/restart-unit.toml", (ACTION, 0o644));
        let log = machine.path("app.log").display().to_string();
        let program = format!("#!/bin/sh\necho \"well $1\" >> {log}\necho restarted \"$1\"\n");
        machine.write("root/usr/bin/restart", (&program, 0o755));
        Some(machine)
    }

    fn path(&self, part: &str) -> PathBuf {
        self.dir.path().join(part)
    }

    fn write(&self, part: &str, (content, bits): (&str, u32)) {
        let path = self.path(part);
        let parent = path.parent().expect("it is below the directory");
        std::fs::create_dir_all(parent).expect("it can be made");
        std::fs::write(&path, content).expect("it can be written");
        std::fs::set_permissions(&path, mode(bits)).expect("it is ours");
    }

    /// Moves weir's clock; whole, so that no half file is read.
    fn set_clock(&self, offset: &str) {
        self.write("clock.new", (&format!("{offset}\n"), 0o644));
        std::fs::rename(self.path("clock.new"), self.path("clock")).expect("one directory");
    }

    fn weir(&self) -> Weir {
        let mut command = serve("up", &self.path("data"));
        quiet(&mut command);
        command.env("WEIR_COLLECT_SAMPLE_HOST", "true");
        command.arg("--config").arg(self.path("weir.toml")).arg("--tail").arg(self.path("app.log"));
        command.env("WEIR_RULES_DIR", self.path("rules"));
        command.env("WEIR_ACT_SOCKET", self.path("act.sock"));
        // The program `faketime` would be the parent of weir, so only its library is used.
        let mut shown = Command::new("faketime");
        let shown = shown.args(["-f", "+0", "printenv", "LD_PRELOAD"]).output();
        let library = text(&shown.expect("it is there").stdout);
        command
            .env("LD_PRELOAD", library.trim())
            .env("FAKETIME_TIMESTAMP_FILE", self.path("clock"));
        command.env("FAKETIME_CACHE_DURATION", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        Weir::start(command)
    }

    fn act(&self, args: &[&str]) -> String {
        let mut command = Command::new(weir_act());
        let output = command.arg("--root").arg(self.path("root")).args(args).output();
        let output = output.expect("it is there");
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Pins the hub's key, and serves orders as `weir-act.socket` does.
    fn install_helper(&mut self) {
        let key = self.path("data/link/orders.pub").display().to_string();
        self.act(&["trust", &key, "--agent", "testhost"]);
        let mut command = Command::new("systemd-socket-activate");
        command.args(["--inetd", "-a", "-l"]).arg(self.path("act.sock")).arg(weir_act());
        command.arg("--root").arg(self.path("root")).arg("serve").stderr(Stdio::null());
        self.helper = Some(command.spawn().expect("it is there"));
        wait_for("the socket", PATIENCE, || self.path("act.sock").exists().then_some(()));
    }

    /// Breaks the service, and returns the run once it waits for a person.
    fn asked(&self, weir: &Weir) -> Value {
        let ran = "select count(*) from collector_run where is_success";
        wait_for("rows of this host", PATIENCE, || (weir.number(ran) > 0).then_some(()));
        std::fs::write(self.path("app.log"), "stuck shop.service\n").expect("it can be written");
        wait_for("a finding", PATIENCE, || weir.findings("test.stuck").pop());
        // More than half a minute since the start: orders may leave.
        self.set_clock("+0");
        run_in(weir, "asked")
    }
}

fn mode(bits: u32) -> std::fs::Permissions {
    std::fs::Permissions::from_mode(bits)
}

fn approve(weir: &Weir, run: &Value) {
    let id = run["run_id"].as_str().expect("an id");
    let mut command = Command::new(WEIR);
    command.args(["heal", "approve", id, "--by", "ada"]).env("XDG_CONFIG_HOME", "/nonexistent");
    let output = command.env("WEIR_URL", &weir.url).output().expect("weir can be started");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn single_machine_repairs_itself_on_a_signed_order_and_verifies_it() {
    let Some(mut machine) = Machine::new("a repair of the hub's own host") else { return };
    // The hub reads what the dry run prints from the host's rows.
    machine.write("weir.toml", (&format!("{CONFIG}frees_percent = 5\n"), 0o644));
    let action =
        ACTION.replace("undo_none", "dry_run = [[\"/usr/bin/look\", \"{unit}\"]]\nundo_none");
    machine.write("root/etc/weir/actions.d/restart-unit.toml", (&action, 0o644));
    machine.write("root/usr/bin/look", ("#!/bin/sh\necho frees=40%\n", 0o755));
    let weir = machine.weir();
    assert!(weir.greeting.contains("(not there: docs/act.md sets it up)"), "{}", weir.greeting);
    machine.install_helper();
    assert!(machine.act(&["check"]).contains("agent    testhost"));
    let run = machine.asked(&weir);
    assert_eq!(
        (&run["host"], &run["params"]["unit"]),
        (&"testhost".into(), &"shop.service".into())
    );
    approve(&weir, &run);
    let ended = wait_for("the finding is resolved", PATIENCE, || {
        let run = run_in(&weir, "ended");
        run["reason"].as_str().is_some_and(|why| why.starts_with("resolved after")).then_some(run)
    });
    assert_eq!(ended["output_tail"], "restarted shop.service\n", "{ended}");
    machine.set_clock("+1815");
    let verified = run_in(&weir, "verified");
    assert_eq!(verified["approved_by"], "ada", "{verified}");
    assert_eq!(verified["dry_run"]["text"], "it would free 40 %", "{verified}");
    let sql = "select mode, state from action_run where run_id = order_id order by ts";
    let expected =
        [["dry_run", "started"], ["dry_run", "ended"], ["run", "started"], ["run", "ended"]];
    assert_eq!(weir.rows(sql), expected, "rows of the host");
    let log = std::fs::read_to_string(machine.path("app.log")).expect("it is there");
    assert_eq!(log, "stuck shop.service\nwell shop.service\n", "it ran once");
    assert!(
        std::fs::read_dir(machine.path("data/link/orders"))
            .is_ok_and(|mut dir| dir.next().is_none())
    );
}

#[test]
fn single_machine_without_the_helper_refuses_with_the_cure() {
    let Some(machine) = Machine::new("an order without weir-act") else { return };
    let weir = machine.weir();
    approve(&weir, &machine.asked(&weir));
    let refused = run_in(&weir, "refused");
    assert_eq!(refused["refusal"], "by_host", "{refused}");
    let why = refused["reason"].as_str().unwrap_or_default();
    assert!(why.contains("systemctl enable --now weir-act.socket"), "{why}");
    assert_eq!(weir.rows("select state from action_run where run_id = order_id"), [["refused"]]);
}

#[test]
fn stop_file_of_a_single_machine_holds_for_weir_up() {
    let Some(mut machine) = Machine::new("the stop file") else { return };
    let weir = machine.weir();
    machine.install_helper();
    machine.write("root/etc/weir/actions.off", ("", 0o644));
    approve(&weir, &machine.asked(&weir));
    let refused = run_in(&weir, "refused");
    assert_eq!(refused["refusal"], "by_host", "{refused}");
    let why = refused["reason"].as_str().unwrap_or_default();
    assert!(why.contains("`/etc/weir/actions.off` exists"), "{why}");
    let log = std::fs::read_to_string(machine.path("app.log")).expect("it is there");
    assert_eq!(log, "stuck shop.service\n", "nothing ran");
}
