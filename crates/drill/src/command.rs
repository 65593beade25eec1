//! Programs that a testbed runs to their end, and what it waits for.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;

use crate::error::{DrillError, Result};
use crate::pause;

/// Runs a program to its end and discards its output.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<()> {
    output(program, args).map(drop)
}

/// Runs a program to its end and returns its standard output.
pub(crate) fn output(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(DrillError::of(format!("cannot run `{program}`")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(DrillError::new(format!("`{program} {}` failed: {}", args.join(" "), error.trim())))
}

/// Waits for up to 30 s until `what`, which a testbed has started, is ready.
pub(crate) fn until(what: &str, mut is_ready: impl FnMut() -> Result<bool>) -> Result<()> {
    /// Checks, 100 ms apart.
    const CHECKS: u32 = 300;
    for _ in 0..CHECKS {
        if is_ready()? {
            return Ok(());
        }
        pause(Duration::from_millis(100));
    }
    Err(DrillError::new(format!("{what} of the drill did not start within 30 s")))
}

/// The child processes of a process.
pub(crate) fn children(process: u32) -> Vec<Pid> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
}

/// Checks for root and for all `tools` before anything is made for the fault called `name`.
pub(crate) fn check_tools(name: &str, tools: &[&str]) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(DrillError::new("cannot make a fault: network namespaces need root")
            .hint("sudo weir drill …; nothing outside of the drill's own namespaces is touched"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let needed = ["ip", "setsid"].iter().chain(tools).copied();
    let missing: Vec<&str> =
        needed.filter(|tool| !dirs.iter().any(|dir| dir.join(tool).is_file())).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(DrillError::new(format!("cannot make `{name}`: {} not found", missing.join(", "))).hint(
        "Debian has them in iproute2, util-linux, nftables, nginx, haproxy, e2fsprogs, openssl, redis-server, pebble, gunicorn, nodejs, apache2-bin",
    ))
}
