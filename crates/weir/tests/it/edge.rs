//! `weir edge` as users run it: before a real nginx, under real load, with a hub behind it.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{WEIR, Weir, can_run, free_port, pause, request, serve, text, wait_for, weir};

const PATIENCE: Duration = Duration::from_secs(60);

/// A real nginx on free ports; killed when dropped.
pub(crate) struct BackendServers {
    child: Child,
    pub(crate) ports: Vec<u16>,
}

impl BackendServers {
    pub(crate) fn start(dir: &Path, count: usize) -> Option<Self> {
        let program = Path::new("/usr/sbin/nginx");
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let listen: String = ports.iter().map(|port| format!("listen 127.0.0.1:{port};")).collect();
        let here = dir.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {here}/{name};"))
            .concat();
        let config = format!(
            "daemon off; pid {here}/pid; error_log {here}/error.log;\nevents {{}}\nhttp {{ access_log off; {temporary}\n\
             server {{ {listen} location / {{ return 200 \"hello from $server_port\\n\"; }} }} }}\n"
        );
        std::fs::write(dir.join("nginx.conf"), config).ok()?;
        let child = Command::new(program)
            .arg("-c")
            .arg(dir.join("nginx.conf"))
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let backends = Self { child, ports };
        wait_for("nginx listens", PATIENCE, || {
            std::net::TcpStream::connect(("127.0.0.1", backends.ports[0])).ok()
        });
        Some(backends)
    }
}

impl Drop for BackendServers {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// The address of the edge in what weir said at start.
pub(crate) fn address_of(weir: &Weir) -> String {
    let line = weir.greeting.lines().find_map(|line| line.trim().strip_prefix("edge    "));
    let line = line.unwrap_or_else(|| panic!("no edge in: {}", weir.greeting));
    line.split_whitespace().next().expect("an address").to_owned()
}

pub(crate) fn edge(data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(WEIR);
    command.arg("edge").arg("--data").arg(data).args(["--page", "127.0.0.1:0"]).args(args);
    command.env("XDG_CONFIG_HOME", "/nonexistent").env("WEIR_COLLECT_HOST", "edge1");
    command
}

/// Visitors wait for the threads that serve and for no others: those wait when they wake
/// (`SCHED_BATCH`).
pub(crate) fn assert_only_serving_threads_interrupt(weir: &Weir) {
    const OTHER: &str = "0";
    const BATCH: &str = "3";
    let tasks = std::fs::read_dir(format!("/proc/{}/task", weir.id())).expect("it runs");
    let lines = tasks.flatten().filter_map(|one| {
        let line = std::fs::read_to_string(one.path().join("stat")).ok()?;
        let (start, rest) = line.rsplit_once(") ")?;
        let name = start.split_once('(')?.1.to_owned();
        // proc_pid_stat(5): `policy` is field 41, `rest` begins with the third.
        Some((name, rest.split(' ').nth(38)?.to_owned()))
    });
    let threads: Vec<(String, String)> = lines.collect();
    for (name, policy) in &threads {
        let wanted = if is_serving(name) { OTHER } else { BATCH };
        assert_eq!(policy, wanted, "{name} of {threads:?}");
    }
    assert!(threads.iter().any(|(name, _)| is_serving(name)), "{threads:?}");
}

fn is_serving(name: &str) -> bool {
    name.starts_with("weir-edge-") && name != "weir-edge-rows"
}

#[test]
fn every_request_of_a_load_is_a_row_and_the_backends_share_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let backends = BackendServers::start(dir.path(), 4);
    if !can_run("edge", "nginx", backends.is_some()) {
        return;
    }
    let backends = backends.expect("it runs");
    let named = backends.ports.iter().map(|port| format!("127.0.0.1:{port}"));
    let named: Vec<String> = named.flat_map(|one| ["--backend".to_owned(), one]).collect();
    let mut args = vec!["--listen", "127.0.0.1:0", "--check", "/"];
    args.extend(named.iter().map(String::as_str));
    let weir = Weir::start(edge(&dir.path().join("data"), &args));
    let url = format!("http://{}/load", address_of(&weir));
    let output = Command::new("wrk")
        .args(["--threads", "1", "--connections", "16", "--duration", "2s", &url])
        .output()
        .expect("wrk is installed by `cargo xtask test`");
    let said = text(&output.stdout);
    let requests: i64 = said
        .lines()
        .find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok())
        .unwrap_or_else(|| panic!("{said}"));
    assert!(!said.contains("Non-2xx") && !said.contains("Socket errors"), "{said}");
    // wrk breaks off what is under way at its end: at most one request a connection.
    let of_load = "from request where tier = 'edge' and url_path = '/load'";
    let rows = wait_for("the rows", PATIENCE, || {
        let rows = weir.number(&format!("select count(*) {of_load}"));
        let is_still = {
            pause(Duration::from_millis(1200));
            weir.number(&format!("select count(*) {of_load}")) == rows
        };
        (rows >= requests && is_still).then_some(rows)
    });
    assert!((requests..=requests + 16).contains(&rows), "{rows} rows of {requests} requests");
    let shares = weir.rows(&format!("select upstream_address, count(*) {of_load} group by 1"));
    assert_eq!(shares.len(), 4, "{shares:?}");
    for share in &shares {
        let share = share[1].as_i64().expect("a number");
        assert!((share * 4 - rows).abs() * 50 <= rows, "over 2 % from its share: {shares:?}");
    }
    let failed =
        format!("select count(*) {of_load} and failure is not null and failure <> 'client_closed'");
    assert_eq!(weir.number(&failed), 0);
    assert_only_serving_threads_interrupt(&weir);
    wait_for("rows about backends and listeners", PATIENCE, || {
        let sql = "select count(distinct backend) from edge_backend where state = 'up'";
        let is_there =
            weir.number("select count(*) from edge_listener where backlog_limit > 0") > 0;
        (is_there && weir.number(sql) == 4).then_some(())
    });
    assert_eq!(weir.terminate(), Some(0));
}

#[test]
fn the_configuration_is_read_again_at_sighup() {
    let dir = tempfile::tempdir().expect("a directory");
    let backends = BackendServers::start(dir.path(), 2);
    if !can_run("edge reload", "nginx", backends.is_some()) {
        return;
    }
    let backends = backends.expect("it runs");
    let file = dir.path().join("weir.toml");
    write_config(&file, backends.ports[0], "");
    let config = file.display().to_string();
    let mut command = serve("up", &dir.path().join("data"));
    crate::harness::quiet(&mut command);
    command.args(["--config", &config]);
    let weir = Weir::start(command);
    let url = format!("http://{}", address_of(&weir));
    assert_eq!(answer_of(&url), format!("hello from {}\n", backends.ports[0]));
    // A mistake changes nothing.
    write_config(&file, backends.ports[1], "balanse = \"hash\"\n");
    hang_up(&weir);
    pause(Duration::from_millis(300));
    assert_eq!(answer_of(&url), format!("hello from {}\n", backends.ports[0]));
    write_config(&file, backends.ports[1], "balance = \"hash\"\n");
    hang_up(&weir);
    wait_for("the other backend", PATIENCE, || {
        (answer_of(&url) == format!("hello from {}\n", backends.ports[1])).then_some(())
    });
    // The differences can be seen before.
    let other = dir.path().join("other.toml");
    let text_of_other =
        std::fs::read_to_string(&file).expect("it is there").replace("hash", "round_robin");
    std::fs::write(&other, text_of_other).expect("a directory");
    let against = other.display().to_string();
    let output = weir_of(&["edge", "--dry-run", "--config", &config, "--against", &against]);
    assert_eq!(output, "- balance round_robin\n+ balance hash\n");
}

fn hang_up(weir: &Weir) {
    let pid = i32::try_from(weir.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::HUP).expect("it runs");
}

fn answer_of(url: &str) -> String {
    request(url, "GET", "/", &[], "").2
}

fn write_config(file: &Path, port: u16, more: &str) {
    let text =
        format!("[edge]\nlisten = [\"127.0.0.1:0\"]\nbackends = [\"127.0.0.1:{port}\"]\n{more}");
    std::fs::write(file, text).expect("a directory");
}

pub(crate) fn weir_of(args: &[&str]) -> String {
    let output = weir(args);
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn rows_of_an_edge_reach_its_hub() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = Weir::start(serve("hub", &dir.path().join("hub")));
    let hub_url = hub.url.clone();
    let mut command =
        edge(&dir.path().join("edge"), &["--listen", "127.0.0.1:0", "--beacon", "/ping"]);
    command.args(["--hub", &hub_url]).env("WEIR_AGENT_DIR", dir.path().join("agent"));
    let edge = Weir::start(command);
    let url = format!("http://{}", address_of(&edge));
    for number in 0..50 {
        let (status, head, _) =
            request(&url, "GET", &format!("/ping?h=a&v=x&n={number}&k=ping"), &[], "");
        assert_eq!(status, 200, "{head}");
    }
    wait_for("the beacons", PATIENCE, || {
        let sql = "select count(distinct sequence) from beacon where site = 'a' and host = 'edge1'";
        (hub.number(sql) == 50).then_some(())
    });
    assert_only_serving_threads_interrupt(&edge);
    // The last rows come with the end.
    let _ = request(&url, "GET", "/ping?h=b", &[], "");
    assert_eq!(edge.terminate(), Some(0));
    wait_for("the last beacon", PATIENCE, || {
        (hub.number("select count(*) from beacon where site = 'b'") == 1).then_some(())
    });
    assert_eq!(hub.number("select count(*) from request where tier = 'edge'"), 51);
}

#[test]
fn an_edge_that_cannot_work_says_why_and_what_to_do() {
    for (args, message) in [
        (&["edge"][..], "cannot start the edge: it has no listener\nhint: set --listen"),
        (&["edge", "--listen", "127.0.0.1:0"], "no backend and no beacon\nhint: set --backend"),
        (
            &["edge", "--listen", "here", "--beacon", "/b"],
            "cannot listen on `here`: not an address and a port",
        ),
        (
            &["edge", "--listen", "127.0.0.1:0", "--backend", "127.0.0.1:1*x"],
            "the weight is not from 0 to 1000",
        ),
    ] {
        let output = weir(args);
        let said = text(&output.stderr);
        assert!(said.contains(message), "{args:?}: {said}");
        assert_eq!(output.status.code(), Some(78), "{args:?}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let dir = tempfile::tempdir().expect("a directory");
    let output =
        edge(dir.path(), &["--listen", &address, "--beacon", "/b"]).output().expect("it starts");
    let said = text(&output.stderr);
    assert!(
        said.contains("cannot listen on") && said.contains("another program listens there"),
        "{said}"
    );
    let args = ["edge", "--page", &address, "--listen", "127.0.0.1:0", "--beacon", "/b", "--data"];
    let said = text(&weir(&[&args[..], &[&dir.path().display().to_string()]].concat()).stderr);
    assert!(said.contains("take another port: --page 127.0.0.1:0"), "{said}");
    // Two edges on one address would each get half of the connections.
    let first = Weir::start(edge(
        &dir.path().join("first"),
        &["--listen", "127.0.0.1:0", "--beacon", "/b"],
    ));
    let second =
        edge(&dir.path().join("second"), &["--listen", &address_of(&first), "--beacon", "/b"])
            .output();
    let said = text(&second.expect("it starts").stderr);
    assert!(said.contains("another program listens there") && said.contains("--replace"), "{said}");
}

#[test]
fn a_text_log_has_a_line_of_json_for_each_request_and_may_be_renamed() {
    let dir = tempfile::tempdir().expect("a directory");
    let backends = BackendServers::start(dir.path(), 1);
    if !can_run("edge", "nginx", backends.is_some()) {
        return;
    }
    let backends = backends.expect("nginx runs");
    let log = dir.path().join("edge.log");
    let backend = format!("127.0.0.1:{}", backends.ports[0]);
    let mut command =
        edge(&dir.path().join("data"), &["--listen", "127.0.0.1:0", "--backend", &backend]);
    command.env("WEIR_EDGE_LOG_FILE", &log);
    let weir = Weir::start(command);
    let url = format!("http://{}", address_of(&weir));
    let first = logged_line(&url, &log, "/first");
    assert_eq!(first["tier"], "edge");
    assert_eq!(first["url_path"], "/first");
    assert_eq!(first["http_response_status_code"], 200);
    assert_eq!(first["upstream_address"], backend.as_str());
    assert!(first["ts"].as_str().is_some_and(|ts| ts.ends_with('Z')), "{first}");
    assert!(first.get("failure").is_none(), "{first}");
    std::fs::rename(&log, dir.path().join("edge.log.1")).expect("it is there");
    logged_line(&url, &log, "/second");
    let fresh = std::fs::read_to_string(&log).expect("it is there again");
    assert!(!fresh.contains("/first"), "{fresh}");
}

fn logged_line(url: &str, log: &Path, path: &str) -> serde_json::Value {
    assert_eq!(request(url, "GET", path, &[], "").0, 200);
    let line = wait_for("its line", PATIENCE, || {
        let text = std::fs::read_to_string(log).ok()?;
        text.lines().find(|line| line.contains(path)).map(str::to_owned)
    });
    serde_json::from_str::<serde_json::Value>(&line).expect("JSON")
}
