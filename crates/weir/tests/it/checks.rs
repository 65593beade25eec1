//! Checks as users configure them: a plugin, a probe and an application that reports its health,
//! each against a real process, to rows and findings.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::harness::{
    EndedProcess, Weir, can_run, free_port, repository, request, serve, text, wait_for, weir,
};

const ARRIVAL: Duration = Duration::from_secs(60);

/// Starts a server of files, whose `weir/health` is the health of an application.
fn application(dir: &Path, port: u16) -> EndedProcess {
    std::fs::create_dir_all(dir.join("weir")).expect("it can be made");
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string(), "--directory"]);
    command.arg(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    EndedProcess(command.spawn().expect("it starts"))
}

fn report(dir: &Path, body: &str) {
    // Written beside it and renamed, so that no poll reads half of it.
    std::fs::write(dir.join("weir/health.new"), body).expect("it can be written");
    std::fs::rename(dir.join("weir/health.new"), dir.join("weir/health")).expect("it can be moved");
}

fn arrives(weir: &Weir, condition: &str) {
    let sql = format!("select count(*) from check_result where {condition}");
    wait_for(condition, ARRIVAL, || (weir.number(&sql) > 0).then_some(()));
}

#[test]
fn plugin_probe_and_digest_become_rows_and_a_failed_own_check_a_finding() {
    let has_python = Command::new("python3").arg("--version").output().is_ok();
    if !can_run("checks", "python3 (apt-get install python3)", has_python) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (files, config) = (dir.path().join("files"), dir.path().join("weir.toml"));
    let port = free_port();
    let server = application(&files, port);
    report(
        &files,
        r#"{"status": "pass", "serviceId": "shop", "checks": {"feed": [{"status": "pass"}]}}"#,
    );
    let entries = format!(
        "[collect]\nzone = \"fra1\"\nrole = \"web\"\nfind_logs = false\n\
         [[checks]]\nname = \"answer\"\ncommand = [\"/bin/echo\", \"fine | answer=42s;40;50\"]\ninterval_seconds = 2\n\
         [[probes]]\nkind = \"http\"\ntarget = \"http://127.0.0.1:{port}/weir/health\"\nexpect_body = \"shop\"\ninterval_seconds = 2\n"
    );
    std::fs::write(&config, entries).expect("it can be written");
    let config = config.display().to_string();
    let mut command = serve("up", &dir.path().join("data"));
    command.args(["--config", &config]);
    let running = Weir::start(command);
    arrives(
        &running,
        "kind = 'plugin' and check = 'answer' and status = 'ok' and observed_value = 42 and perfdata['answer'] = '42s;40;50'",
    );
    arrives(&running, "kind = 'http' and status = 'ok' and zone = 'fra1' and expires_ts > ts");
    arrives(&running, "kind = 'digest' and check = 'feed' and service = 'shop' and status = 'ok'");
    assert_eq!(
        running.number("select count(*) from host_info where role = 'web' and zone = 'fra1'"),
        1
    );
    let failing = r#"{"status": "fail", "serviceId": "shop", "checks": {"feed": [{"status": "fail", "scope": "self", "output": "feed is quiet"}]}}"#;
    report(&files, failing);
    arrives(
        &running,
        "check = 'feed' and status = 'critical' and scope = 'self' and output = 'feed is quiet'",
    );
    wait_for("the finding", ARRIVAL, || {
        (!running.findings("app.check_failing").is_empty()).then_some(())
    });
    drop(server);
    arrives(&running, "kind = 'http' and status = 'critical' and output = 'connection refused'");
    let listed = weir(&["check", "list", "--config", &config]);
    assert!(text(&listed.stdout).contains("answer: plugin, every 2 s"), "{listed:?}");
    let run = weir(&["check", "run", "answer", "--config", &config]);
    assert_eq!(
        (run.status.code(), text(&run.stdout).lines().next().map(str::to_owned)),
        (Some(0), Some("ok: fine".to_owned()))
    );
    let down = weir(&[
        "check",
        "run",
        &format!("http://127.0.0.1:{port}/weir/health"),
        "--config",
        &config,
    ]);
    assert_eq!(down.status.code(), Some(2), "{down:?}");
    assert_eq!(running.terminate(), Some(0));
}

/// An application whose only port serves its digest, in the language of a client.
fn worker(dir: &Path, (language, client): (&str, &str), program: &str) -> EndedProcess {
    let source = repository().join("clients").join(language).join(client);
    std::fs::copy(source, dir.join(client)).expect("the client is there");
    let name = if language == "python" { "worker.py" } else { "worker.js" };
    std::fs::write(dir.join(name), program).expect("it can be written");
    let mut command = Command::new(if language == "python" { "python3" } else { "node" });
    command.arg(name).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
    EndedProcess(command.spawn().expect("it starts"))
}

/// First lines of the requests that a server got.
fn received(at: &Path) -> String {
    std::fs::read_to_string(at).unwrap_or_default()
}

/// Accepts connections at a port of another protocol, and writes down what each sends.
const OTHER_PROTOCOL: &str = "import socket, sys
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))
while True:
    connection, _ = listener.accept()
    line = connection.recv(4096).split(b'\\r\\n')[0].decode()
    open('received', 'a').write(line + '\\n')
    connection.sendall(b'\\0\\0\\0\\4what')
    connection.close()
";

/// A worker has no proxy before it: its digest is found by one query, and another server of the
/// same runtime gets no second one.
#[test]
fn digest_ports_of_bare_python_and_node_processes_are_found() {
    let has_all = ["python3", "node"].into_iter().all(|program| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    if !can_run("digests of workers", "python3 and node (apt-get install python3 nodejs)", has_all)
    {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let [python_port, node_port, other_port, excluded_port] = [(); 4].map(|()| free_port());
    let python = format!(
        "from weir_health import Health\nimport threading\nhealth = Health('mailer')\n\
         health.register('queue', lambda: None, every=5, scope='self')\nhealth.serve({python_port})\nthreading.Event().wait()\n"
    );
    let node = format!(
        "const {{ Health }} = require('./weir-health.js');\nconst health = new Health('resizer');\n\
         health.register('disk', () => {{}}, {{ every: 5, scope: 'self' }});\nhealth.serve({node_port});\nsetInterval(() => {{}}, 1000);\n"
    );
    let _workers = [
        worker(dir.path(), ("python", "weir_health.py"), &python),
        worker(dir.path(), ("node", "weir-health.js"), &node),
    ];
    let others = [other_port, excluded_port].map(|port| {
        let place = dir.path().join(port.to_string());
        std::fs::create_dir(&place).expect("it can be made");
        std::fs::write(place.join("other.py"), OTHER_PROTOCOL).expect("it can be written");
        let mut command = Command::new("python3");
        command.args(["other.py", &port.to_string()]).current_dir(&place).stdin(Stdio::null());
        (EndedProcess(command.spawn().expect("it starts")), place.join("received"))
    });
    let mut command = serve("up", &dir.path().join("data"));
    command.env("WEIR_COLLECT_FIND_LOGS", "false");
    command.env("WEIR_COLLECT_HEALTH_DIGESTS_EXCLUDE", excluded_port.to_string());
    let running = Weir::start(command);
    for (service, check, port) in [("mailer", "queue", python_port), ("resizer", "disk", node_port)]
    {
        let target = format!("http://127.0.0.1:{port}/weir/health");
        arrives(
            &running,
            &format!(
                "kind = 'digest' and service = '{service}' and check = '{check}' and status = 'ok' and target = '{target}'"
            ),
        );
    }
    wait_for("the one query", ARRIVAL, || (!received(&others[0].1).is_empty()).then_some(()));
    assert_eq!(received(&others[0].1), "GET /weir/health HTTP/1.1\n");
    assert_eq!(received(&others[1].1), "", "it is excluded");
}

/// Runs `send_nsca` with these lines on its input.
fn send_nsca(config: &Path, port: u16, lines: &str) {
    let mut command = Command::new("send_nsca");
    command.args(["-H", "127.0.0.1", "-p", &port.to_string(), "-c"]).arg(config);
    let mut sender =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    sender.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("it reads");
    assert!(sender.wait().expect("it ends").success());
}

#[test]
fn passive_results_of_send_nsca_and_of_the_api_are_rows_and_findings() {
    let has_sender = Command::new("send_nsca").arg("-h").output().is_ok();
    if !can_run("checks", "send_nsca (apt-get install nsca-client)", has_sender) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (port, password) = (free_port(), dir.path().join("password"));
    std::fs::write(&password, "hunter22\n").expect("it can be written");
    let config = dir.path().join("send_nsca.cfg");
    std::fs::write(&config, "password=hunter22\nencryption_method=14\n")
        .expect("it can be written");
    let mut command = serve("hub", &dir.path().join("data"));
    command.env("WEIR_INTAKE_NSCA", format!("127.0.0.1:{port}"));
    command.env("WEIR_INTAKE_NSCA_PASSWORD_FILE", &password);
    let running = Weir::start(command);
    send_nsca(&config, port, "db1\tbackup\t2\tbackup failed|size=0GB\n");
    arrives(
        &running,
        "kind = 'passive' and host = 'db1' and check = 'backup' and status = 'critical' and observed_unit = 'GB'",
    );
    let lines = "{\"host\": \"db2\", \"check\": \"load\", \"status\": \"ok\", \"ttl\": 600}\n\
        PROCESS_SERVICE_CHECK_RESULT;db2;disk;1;nearly full|used=91%\n";
    let (status, _, body) = request(&running.url, "POST", "/v1/check-results", &[], lines);
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"kept\":2"), "{body}");
    assert_eq!(running.number("select count(*) from check_result where host = 'db2'"), 2);
    arrives(&running, "host = 'db2' and check = 'load' and expires_ts > ts");
    wait_for("the finding", ARRIVAL, || {
        (!running.findings("check.failing").is_empty()).then_some(())
    });
    let (status, ..) = request(&running.url, "POST", "/v1/check-results", &[], "nonsense\n");
    assert_eq!(status, 422);
    assert_eq!(running.terminate(), Some(0));
}
