//! The weir that must find the fault: one that is started for the drill, or one that watches this
//! host already.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use weir_drill::DrillError;
use weir_process::failure::Failure;

use super::{EXIT_FAILED, pause};
use crate::client::Client;

const TIMEOUT: Duration = Duration::from_secs(60);

/// What a weir is started beside.
pub(super) struct WatcherSetup<'a> {
    /// The directory for its files.
    pub(super) dir: &'a Path,
    pub(super) config: &'a str,
    /// Where it listens.
    pub(super) listen: &'a str,
    /// Files that it sees in place of the host's: the host's path, and the file.
    pub(super) instead: &'a [(&'static str, PathBuf)],
    /// Has it end with the fault.
    pub(super) ends_with: &'a dyn Fn(u32) -> Result<(), DrillError>,
}

/// See the module.
pub(super) struct Watcher {
    client: Client,
    own: Option<Child>,
}

impl Watcher {
    /// The weir of a client.
    pub(super) fn of(client: Client) -> Self {
        Self { client, own: None }
    }

    /// Starts one and waits until it has seen this host once.
    pub(super) fn start(beside: &WatcherSetup<'_>, is_ended: &AtomicBool) -> Result<Self, Failure> {
        let config = beside.dir.join("weir.toml");
        std::fs::write(&config, beside.config).map_err(|error| fail(&error))?;
        let program = std::env::current_exe().map_err(|error| fail(&error))?;
        let mut command = command(&program, beside.instead);
        command.arg("up").arg("--config").arg(&config).args(["--listen", beside.listen]);
        command.arg("--data").arg(beside.dir.join("data")).args(["--log-level", "error"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| fail(&error))?;
        (beside.ends_with)(child.id()).map_err(|error| super::failure(&error))?;
        let stdout = child.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let url = lines.find_map(|line| {
            Some(line.get(line.find("http://")?..)?.split_whitespace().next()?.to_owned())
        });
        // What it says later is read as well, or it would wait for room in the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let Some(url) = url else {
            let _gone = child.kill();
            let _reaped = child.wait();
            return Err(fail(&"it ended at once"));
        };
        let watcher = Self { client: Client::new(&url, None, TIMEOUT)?, own: Some(child) };
        let began = Instant::now();
        while !watcher.has_sampled()? && began.elapsed() < TIMEOUT {
            if is_ended.load(Ordering::Relaxed) {
                return Err(super::ended());
            }
            pause(Duration::from_millis(200));
        }
        Ok(watcher)
    }

    fn has_sampled(&self) -> Result<bool, Failure> {
        let sql = "select count(*) from collector_run where collector = 'filesystem'";
        let answer = self.client.post_json("/api/sql", &json!({"sql": sql, "limit": 1}))?;
        Ok(answer["rows"][0][0].as_u64().is_some_and(|count| count > 0))
    }

    /// What fires now.
    pub(super) fn firing(&self) -> Result<Vec<Value>, Failure> {
        let mut answer = self.client.get_json("/api/findings", TIMEOUT)?;
        let Value::Array(mut findings) = answer["findings"].take() else { return Ok(Vec::new()) };
        findings.retain(|finding| finding["state"] == "firing");
        Ok(findings)
    }
}

fn fail(why: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("cannot start a weir for the drill: {why}")).code(EXIT_FAILED)
}

/// Starts it in a separate session, like a service, so that the fault's processes do not share its
/// CPU quota (sched(7), autogroup).
fn command(program: &Path, instead: &[(&str, PathBuf)]) -> Command {
    let mut command = Command::new("setsid");
    if !instead.is_empty() {
        let binds: Vec<String> = instead
            .iter()
            .map(|(path, file)| format!("mount --bind '{}' '{path}'", file.display()))
            .collect();
        let script = format!("mount --make-rprivate / && {} && exec \"$@\"", binds.join(" && "));
        command.args(["unshare", "--mount", "sh", "-c", &script, "sh"]);
    }
    command.arg(program);
    command
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(mut own) = self.own.take() {
            let _gone = kill_process(Pid::from_child(&own), Signal::KILL);
            let _reaped = own.wait();
        }
    }
}
