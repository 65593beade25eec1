//! Agents and their hub: lines arrive once although the hub is killed and started again in the
//! middle.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::harness::{WEIR, Weir, free_port, pause, quiet, request, serve, try_rows, wait_for};

struct LinkedAgent(Child);

impl LinkedAgent {
    fn start(hub: &str, log: &Path, samples_host: bool) -> Self {
        let mut command = Command::new(WEIR);
        command.args(["agent", "--hub", hub, "--host", "agenthost", "--log-level", "info"]);
        command.arg("--tail").arg(log).env("XDG_CONFIG_HOME", "/nonexistent");
        quiet(&mut command);
        if samples_host {
            command.env("WEIR_COLLECT_SAMPLE_HOST", "true");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().expect("weir can be started"))
    }

    /// Anonymous memory. Mapped pages of the executable are excluded: their number depends on the page
    /// cache, and the kernel reclaims them under memory pressure.
    fn anonymous_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.expect("it runs");
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("it is there");
        let kibibytes = line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
        kibibytes.expect("a number") * 1024
    }
}

impl Drop for LinkedAgent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn hub(dir: &Path, port: u16) -> Weir {
    let mut command = Command::new(WEIR);
    command.arg("hub").arg("--data").arg(dir).arg("--listen").arg(format!("127.0.0.1:{port}"));
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    quiet(&mut command);
    Weir::start(command)
}

#[test]
fn lines_arrive_once_although_hub_and_agent_are_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    let data = dir.path().join("data");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let mut file = std::fs::File::create(&log).expect("it can be written");
    let mut written = 0;
    let mut write = |lines: u32| {
        for _ in 0..lines {
            written += 1;
            writeln!(file, "line {written:06}").expect("there is room");
        }
        written
    };
    write(1000);
    let agent = LinkedAgent::start(&url, &log, false); // before its hub
    let first = hub(&data, port);
    let sql = "select count(*), count(distinct body) from log where body like 'line %'";
    let arrived = |wanted: u32| {
        wait_for(&format!("{wanted} lines"), Duration::from_secs(60), || {
            let rows = try_rows(&url, sql).ok()?;
            (rows[0][0].as_u64()? >= u64::from(wanted)).then(|| rows[0].clone())
        })
    };
    let total = write(1000);
    assert_eq!(arrived(total), [total, total]);
    let lines = write(5000);
    first.kill();
    write(5000);
    let second = hub(&data, port);
    drop(agent); // killed
    write(500);
    let agent = LinkedAgent::start(&url, &log, false);
    let total = write(500);
    assert!(total > lines);
    assert_eq!(arrived(total), [total, total]);
    let heartbeat =
        "select count(*) from log where source = 'weir:heartbeat' and host = 'agenthost'";
    assert!(second.number(heartbeat) > 0);
    drop(agent);
    assert_eq!(second.terminate(), Some(0));
}

#[test]
fn samples_of_an_agent_arrive_once_and_it_stays_small() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    std::fs::write(&log, "").expect("it can be written");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let agent = LinkedAgent::start(&url, &log, true);
    pause(Duration::from_secs(3)); // samples wait for the hub
    let hub = hub(&dir.path().join("data"), port);
    let samples = "select count(distinct ts) from tcp_stat where host = 'agenthost'";
    wait_for("samples from before the hub and after", Duration::from_secs(60), || {
        (hub.number(samples) >= 6).then_some(())
    });
    let twice =
        "select count(*) from (select ts, cpu from cpu_stat group by 1, 2 having count(*) > 1)";
    assert_eq!(hub.number(twice), 0);
    let anonymous_bytes = agent.anonymous_bytes();
    println!("agent: {} KiB of anonymous memory", anonymous_bytes / 1024);
    assert!(anonymous_bytes < 15 << 20, "{anonymous_bytes}");
}

#[test]
fn a_hub_refuses_what_is_no_parcel() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = serve("hub", dir.path());
    quiet(&mut command);
    let hub = Weir::start(command);
    let parcel = ("content-type", "application/vnd.weir.parcel");
    let (status, _, body) = request(&hub.url, "POST", "/api/link/parcel", &[parcel], "rubbish");
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("the parcel"), "{body}");
    let (status, _, _) = request(&hub.url, "POST", "/api/link/parcel", &[], "rubbish");
    assert_eq!(status, 415);
    let json = ("content-type", "application/json");
    let (status, _, _) =
        request(&hub.url, "POST", "/api/link/positions", &[json], "{\"streams\": [\"zz\"]}");
    assert_eq!(status, 400);
    let unknown = format!("{{\"streams\": [\"{:032x}\"]}}", 7);
    let (status, _, body) = request(&hub.url, "POST", "/api/link/positions", &[json], &unknown);
    assert_eq!((status, body.as_str()), (200, "{\"positions\":{}}"));
}
