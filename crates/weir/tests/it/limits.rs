//! What an agent may cost: memory under load, and open files.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::fleet::{FleetHost, FleetSite};
use super::harness::{WEIR, Weir, pause, text, wait_for};

const PATIENCE: Duration = Duration::from_secs(120);

/// Resident memory now and at its highest, MiB.
fn resident_mib(id: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() / 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

fn write_log(log: &Path, lines: u32) {
    let mut text = String::new();
    for number in 0..lines {
        let salt = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let _ = write!(text, r#"{{"time":"2026-11-20T12:00:00Z","msg":"line {number:08}""#);
        for name in 0..18 {
            let _ = write!(text, r#","field_{name}":"{:016x}""#, salt.rotate_left(name));
        }
        text.push_str("}\n");
    }
    std::fs::write(log, text).expect("there is room");
}

#[test]
fn memory_of_an_agent_stays_below_its_cap_under_load() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, agent_dir) = (dir.path().join("data"), dir.path().join("agent"));
    std::fs::create_dir(dir.path().join("logs")).expect("there is room");
    let (files, lines) = (10, 20_000);
    for number in 0..files {
        write_log(&dir.path().join(format!("logs/{number}.log")), lines);
    }
    let (site, host) = (FleetSite::new(&data), FleetHost(&agent_dir));
    let hub = site.start();
    let joined = host.join(&site.token(&[]), "web1");
    assert!(joined.status.success(), "{}", text(&joined.stderr));
    // Without a cap it is nearly 60 MiB.
    let cap_mib = 40;
    let cap = (cap_mib << 20_u64).to_string();
    let logs = dir.path().join("logs/*.log");
    let agent = host.start_with(&logs, site.agents, &[("WEIR_AGENT_MEMORY_BYTES", &cap)]);
    let total = i64::from(files * lines);
    let mut highest = 0;
    wait_for("every line", PATIENCE, || {
        highest = highest.max(resident_mib(agent.id()).1);
        (hub.number("select count(*) from log where body like 'line %'") == total).then_some(())
    });
    println!("{total} lines, {highest} MiB at the highest under a cap of {cap_mib} MiB");
    assert!(highest > 0 && highest < cap_mib, "{highest} MiB");
    drop(agent);
    assert_eq!(hub.terminate(), Some(0));
}

#[test]
fn agent_follows_more_logs_than_the_soft_limit_of_open_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, agent_dir) = (dir.path().join("data"), dir.path().join("agent"));
    std::fs::create_dir(dir.path().join("logs")).expect("there is room");
    for number in 0..300 {
        std::fs::write(log_path(dir.path(), number), format!("line {number} first\n"))
            .expect("there is room");
    }
    let (site, host) = (FleetSite::new(&data), FleetHost(&agent_dir));
    let hub = site.start();
    assert!(host.join(&site.token(&[]), "web1").status.success());
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 128; exec \"$@\"", "sh", WEIR, "agent", "--host", "web1"]);
    command.arg("--tail").arg(dir.path().join("logs/*.log"));
    command.args(["--hub", &site.agents.to_string(), "--log-level", "warn"]);
    command.env("WEIR_AGENT_DIR", &agent_dir).env("XDG_CONFIG_HOME", "/nonexistent");
    super::harness::quiet(&mut command);
    let mut agent = command.spawn().expect("sh is there");
    wait_for_lines(&hub, 300);
    pause(Duration::from_millis(300));
    for number in (0..300).step_by(10) {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(log_path(dir.path(), number))
            .expect("a file");
        writeln!(file, "line {number} second").expect("there is room");
    }
    wait_for_lines(&hub, 330);
    agent.kill().expect("it runs");
    agent.wait().expect("it was killed");
    assert_eq!(hub.terminate(), Some(0));
}

fn wait_for_lines(hub: &Weir, count: i64) {
    wait_for("the lines", PATIENCE, || {
        (hub.number("select count(*) from log where body like 'line %'") == count).then_some(())
    });
}

fn log_path(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("logs/{number}.log"))
}
