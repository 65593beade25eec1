//! Turns, lanes and digests, with a clock that the test moves.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use arrow_array::cast::AsArray;
use weir_collect::host::ListenerSummary;
use weir_tables::{Clock, FixedClock};

use super::*;
use crate::check::{DigestSearch, PluginCheck, PluginUser, digest_targets};

/// Steps until rows are there; more would be half a minute of waiting.
const STEPS_MAX: usize = 60;

/// One row: check, kind, status, output.
type ShownRow = (String, String, String, String);

fn shown(batches: &[Batch]) -> Vec<ShownRow> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = ["check", "kind", "status", "output"].map(|name| {
            let column = batch.rows.column_by_name(name).expect("the table has it");
            column.as_string::<i32>().clone()
        });
        for row in 0..batch.rows.num_rows() {
            let [check, kind, status, output] =
                columns.each_ref().map(|column| column.value(row).to_owned());
            rows.push((check, kind, status, output));
        }
    }
    rows
}

fn plugin(name: &str, argv: &[&str]) -> CheckSpec {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    CheckSpec {
        name: name.to_owned(),
        service: None,
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(120),
        work: CheckWork::Plugin(PluginCheck { argv, user: PluginUser::Usual }),
    }
}

fn clock() -> FixedClock {
    FixedClock::new(Micros(1_800_000_000_000_000))
}

/// Steps until the loop has rows; none if it has none in time.
fn rows_of(checks: &mut CheckLoop, clock: &FixedClock) -> Vec<ShownRow> {
    for _ in 0..STEPS_MAX {
        let rows = shown(&checks.step(&|| clock.now()));
        if !rows.is_empty() {
            return rows;
        }
    }
    Vec::new()
}

/// nagios-plugins/nagios-plugins#414 (plugins that hang on a dead mount), and
/// bmhatfield/riemann-sumd#2: 31 plugins that hang, and no other runs any more.
#[test]
fn checks_that_hang_delay_no_other_and_end_with_the_loop() {
    let clock = clock();
    let mut specs: Vec<CheckSpec> = (0..20)
        .map(|number| plugin(&format!("hangs {number}"), &["/bin/sleep", "600.25"]))
        .collect();
    specs.push(plugin("quick", &["/bin/echo", "fine"]));
    let mut checks = CheckLoop::new(CheckOrigin::default(), specs, clock.now());
    for _ in 0..3 {
        clock.set(clock.now() + Duration::from_secs(10));
        let quick = ("quick", "plugin", "ok", "fine");
        let (check, kind, status, output) = quick;
        let expected = [check, kind, status, output].map(str::to_owned);
        let rows = rows_of(&mut checks, &clock);
        let found: Vec<[String; 4]> = rows.into_iter().map(|(a, b, c, d)| [a, b, c, d]).collect();
        assert_eq!(found, [expected]);
    }
    assert_eq!(checks.turns().filter(|turn| turn.is_running).count(), 20);
    checks.end();
    let left = Command::new("pgrep").args(["-f", "^/bin/sleep 600.25"]).output();
    let left = left.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    assert_eq!(left.unwrap_or_default(), "");
}

#[test]
fn slow_check_is_in_the_slow_lane_at_its_next_turn() {
    let mut turn = JobTurn::at(Micros(0));
    let (mut running, mut next) = ([LANE_CHECKS, 0], STEP);
    let second = Duration::from_secs(1);
    assert!(!turn.begins(Micros(0), second, &mut running, &mut next), "the quick lane is full");
    turn.ends(Duration::from_secs(3));
    assert!(turn.begins(Micros(0), second, &mut running, &mut next));
    assert_eq!(running, [LANE_CHECKS, 1]);
    assert!(!turn.begins(Micros(9_000_000), second, &mut running, &mut next), "it runs");
    turn.ends(Duration::ZERO);
    running = [0, 0];
    // The clock was set back by an hour: it is due after one interval, not after an hour.
    assert!(!turn.begins(Micros(-3_600_000_000), second, &mut running, &mut next));
    assert!(turn.begins(Micros(-3_599_000_000), second, &mut running, &mut next));
}

/// A server that answers each path with a prepared response, and keeps the requests.
struct AnsweringServer {
    address: SocketAddr,
    responses: Arc<Mutex<BTreeMap<&'static str, String>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl AnsweringServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            responses: Arc::default(),
            requests: Arc::default(),
        };
        let (responses, requests) = (Arc::clone(&server.responses), Arc::clone(&server.requests));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                requests.lock().unwrap().push(head);
                let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
                let response = responses.lock().unwrap().get(path.as_str()).cloned();
                let _gone = stream.write_all(response.unwrap_or(missing).as_bytes());
            }
        });
        server
    }

    fn set(&self, path: &'static str, status: &str, body: &str) {
        let length = body.len();
        let response = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
        self.responses.lock().unwrap().insert(path, response);
    }

    fn paths(&self) -> Vec<String> {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.iter().map(|head| head.split(' ').nth(1).unwrap_or_default().to_owned()).collect()
    }

    fn target(&self, process_id: u32) -> DigestTarget {
        let host_header = "shop.example".to_owned();
        DigestTarget {
            address: self.address,
            host_header,
            process_id: Some(process_id),
            process_start: Some(1),
            is_trial: false,
        }
    }

    /// Without evidence of HTTP, by the start of its process.
    fn trial(&self, start: u64) -> DigestTarget {
        DigestTarget { process_start: Some(start), is_trial: true, ..self.target(1) }
    }

    /// A loop that queries this server only.
    fn checks(&self, clock: &FixedClock) -> CheckLoop {
        let mut checks = CheckLoop::new(CheckOrigin::default(), Vec::new(), clock.now());
        checks.set_digest_targets(vec![self.target(1)], clock.now());
        checks
    }
}

/// Steps until the poll that has begun is over.
fn poll_once(checks: &mut CheckLoop, clock: &FixedClock) -> Vec<ShownRow> {
    let mut rows = shown(&checks.step_within(Duration::ZERO, &|| clock.now()));
    while checks.turns().any(|turn| turn.is_running) {
        rows.extend(shown(&checks.step(&|| clock.now())));
    }
    rows
}

fn summary(status: &str, output: &str) -> ShownRow {
    ("health".into(), "digest".into(), status.into(), output.into())
}

#[test]
fn digest_is_found_and_changes_are_written_at_once() {
    let (server, clock) = (AnsweringServer::start(), clock());
    server.set(
        "/actuator/health",
        "200 OK",
        r#"{"status": "UP", "components": {"db": {"status": "UP"}}}"#,
    );
    let mut checks = server.checks(&clock);
    let rows = poll_once(&mut checks, &clock);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[0], summary("ok", "1 checks pass"));
    let requests = server.requests.lock().unwrap()[1].clone();
    assert!(requests.starts_with("GET /actuator/health HTTP/1.1\r\nHost: shop.example\r\n"));
    assert!(requests.contains("\r\nUser-Agent: weir-health/"), "{requests}");
    assert_eq!(server.paths(), ["/weir/health", "/actuator/health"]);
    clock.set(clock.now() + Duration::from_secs(5));
    assert_eq!(poll_once(&mut checks, &clock), [], "nothing changed");
    let body = r#"{"status": "DOWN", "components": {"db": {"status": "DOWN", "details": {"error": "refused"}}}}"#;
    server.set("/actuator/health", "503 Service Unavailable", body);
    clock.set(clock.now() + Duration::from_secs(5));
    let rows = poll_once(&mut checks, &clock);
    assert_eq!(rows[0], summary("critical", "failed: db (refused)"));
    assert_eq!((rows[1].0.as_str(), rows[1].2.as_str()), ("db", "critical"));
    clock.set(clock.now() + Duration::from_secs(60));
    assert_eq!(poll_once(&mut checks, &clock).len(), 2, "written again after a minute");
    assert_eq!(server.paths(), ["/actuator/health"; 3]);
}

#[test]
fn failed_dependencies_alone_are_a_warning() {
    let (server, clock) = (AnsweringServer::start(), clock());
    let body = r#"{"status": "warn", "serviceId": "shop", "checks": {"feed": [{"status": "fail",
        "scope": "dependency", "output": "feed is quiet"}]}}"#;
    server.set("/weir/health", "200 OK", body);
    let rows = poll_once(&mut server.checks(&clock), &clock);
    assert_eq!(rows[0], summary("warn", "failed: feed (feed is quiet)"));
    assert_eq!(rows[1].2, "critical");
}

/// nmorel/gwt-jackson#165 and mmastrac/nanojson#98: Jackson writes a figure that is not finite as
/// text, which a reader of numbers takes for a number.
#[test]
fn figure_that_is_not_finite_is_a_text_and_no_value() {
    for text in ["NaN", "Infinity", "-Infinity"] {
        let (server, clock) = (AnsweringServer::start(), clock());
        let check = format!(r#"[{{"status": "pass", "observedValue": "{text}"}}]"#);
        let body = format!(r#"{{"status": "pass", "checks": {{"rate": {check}}}}}"#);
        server.set("/weir/health", "200 OK", &body);
        let rows = poll_once(&mut server.checks(&clock), &clock);
        let expected = ["rate", "digest", "ok", text].map(str::to_owned);
        let [check, kind, status, output] = expected;
        // A separate text: a value would be in another column.
        assert_eq!(rows[1], (check, kind, status, output));
    }
}

#[test]
fn listener_without_a_digest_is_left_alone_for_an_hour() {
    for body in ["", "<html>welcome</html>", r#"{"version": 3}"#] {
        let (server, clock) = (AnsweringServer::start(), clock());
        server.set("/health", "200 OK", body);
        // The JSON of an error page is not about the application.
        server.set(
            "/weir/health",
            "404 Not Found",
            r#"{"status": "error", "message": "no route"}"#,
        );
        let mut checks = server.checks(&clock);
        assert_eq!(poll_once(&mut checks, &clock), []);
        assert_eq!(server.paths(), ["/weir/health", "/actuator/health", "/health"]);
        for minutes in [1, 30, 28] {
            clock.set(clock.now() + Duration::from_secs(60 * minutes));
            assert_eq!(poll_once(&mut checks, &clock), []);
        }
        assert_eq!(server.paths(), [""; 0]);
        clock.set(clock.now() + Duration::from_secs(120));
        assert_eq!(poll_once(&mut checks, &clock), []);
        assert_eq!(server.paths().len(), 3);
        // Another process is another application.
        checks.set_digest_targets(vec![server.target(2)], clock.now());
        assert_eq!(poll_once(&mut checks, &clock), []);
        assert_eq!(server.paths().len(), 3);
    }
}

#[test]
fn listener_of_another_protocol_is_queried_once_and_never_again() {
    let (server, clock) = (AnsweringServer::start(), clock());
    let refusal = "-ERR wrong number of arguments for 'get' command\r\n".to_owned();
    server.responses.lock().unwrap().insert("/weir/health", refusal);
    let mut checks = server.checks(&clock);
    assert_eq!(poll_once(&mut checks, &clock), []);
    assert_eq!(server.paths(), ["/weir/health"]);
    clock.set(clock.now() + Duration::from_secs(86_400));
    assert_eq!(poll_once(&mut checks, &clock), []);
    assert_eq!(server.paths(), [""; 0]);
}

#[test]
fn digest_that_is_missing_is_unknown_until_it_is_back() {
    let (server, clock) = (AnsweringServer::start(), clock());
    server.set("/health", "200 OK", r#"{"status": "ok"}"#);
    let mut checks = server.checks(&clock);
    assert_eq!(poll_once(&mut checks, &clock), [summary("ok", "0 checks pass")]);
    server.responses.lock().unwrap().clear();
    let mut polls = 0;
    for _ in 0..60 {
        clock.set(clock.now() + Duration::from_secs(5));
        let rows = poll_once(&mut checks, &clock);
        polls += rows.len();
        let missing = summary("unknown", "/health answers with status 404, no digest");
        assert!(rows.iter().all(|row| *row == missing), "{rows:?}");
    }
    assert_eq!(polls, 12, "then one an hour");
    // A deploy restarts it without a digest: that there was one is remembered.
    checks.set_digest_targets(Vec::new(), clock.now());
    clock.set(clock.now() + Duration::from_secs(30));
    checks.set_digest_targets(vec![server.target(2)], clock.now());
    let status = poll_once(&mut checks, &clock).first().map(|row| row.2.clone());
    assert_eq!(status.as_deref(), Some("unknown"));
    server.set("/weir/health", "200 OK", r#"{"status": "pass"}"#);
    clock.set(clock.now() + Duration::from_secs(3_600));
    checks.set_digest_targets(vec![server.target(3)], clock.now());
    assert_eq!(poll_once(&mut checks, &clock), [summary("ok", "0 checks pass")]);
}

#[test]
fn python_server_is_recognised_by_its_command_line_and_queried() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("weir")).unwrap();
    std::fs::write(dir.path().join("weir/health"), r#"{"status": "pass", "checks": {}}"#).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let started = Command::new("python3")
        .args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string(), "--directory"])
        .arg(dir.path())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut server) = started else {
        println!("skipped: python3 is missing (apt-get install python3)");
        return;
    };
    let patience = Instant::now() + Duration::from_secs(60);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < patience, "python3 does not listen");
        thread::park_timeout(Duration::from_millis(10));
    }
    let listener = ListenerSummary {
        netns: "host".into(),
        address: "127.0.0.1".into(),
        port,
        process_name: Some("python3".into()),
        process_id: Some(server.id()),
    };
    let search = DigestSearch { procfs: "/proc".into(), exclude: Vec::new() };
    let targets = digest_targets(&[listener], &[], &search);
    assert_eq!(targets.len(), 1, "{targets:?}");
    let clock = clock();
    let mut checks = CheckLoop::new(CheckOrigin::default(), Vec::new(), clock.now());
    checks.set_digest_targets(targets, clock.now());
    let rows = poll_once(&mut checks, &clock);
    let _ended = server.kill();
    let _status = server.wait();
    assert_eq!(rows, [summary("ok", "0 checks pass")]);
}

/// One GET for each start of a process, whatever it answered, and whether it was away meanwhile:
/// eHealthAfrica/aether#458 (each request of HTTP is a warning of Kafka), openhab/openhab-addons#256
/// (a debugger of Java prints each).
#[test]
fn listener_without_evidence_is_tried_once_for_each_start_of_its_process() {
    for refusal in ["", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "\0\0\0\x04"] {
        let (server, clock) = (AnsweringServer::start(), clock());
        server.responses.lock().unwrap().insert("/weir/health", refusal.to_owned());
        let mut checks = CheckLoop::new(CheckOrigin::default(), Vec::new(), clock.now());
        checks.set_digest_targets(vec![server.trial(1)], clock.now());
        assert_eq!(poll_once(&mut checks, &clock), []);
        assert_eq!(server.paths(), [""; 0], "it has just begun to listen");
        clock.set(clock.now() + Duration::from_secs(10));
        assert_eq!(poll_once(&mut checks, &clock), []);
        let tries = server.paths();
        assert_eq!(tries[0], "/weir/health");
        assert_eq!(tries.len(), if refusal.contains("404") { 3 } else { 1 }, "{tries:?}");
        for minutes in [1, 50] {
            checks.set_digest_targets(Vec::new(), clock.now());
            clock.set(clock.now() + Duration::from_secs(60 * minutes));
            checks.set_digest_targets(vec![server.trial(1)], clock.now());
            clock.set(clock.now() + Duration::from_secs(86_400));
            assert_eq!(poll_once(&mut checks, &clock), []);
            assert_eq!(server.paths(), [""; 0], "the same process");
        }
        checks.set_digest_targets(vec![server.trial(2)], clock.now());
        clock.set(clock.now() + Duration::from_secs(10));
        assert_eq!(poll_once(&mut checks, &clock), []);
        assert_eq!(server.paths().len(), tries.len(), "another process with the same id");
        checks.set_digest_targets(vec![server.target(1)], clock.now());
        assert_eq!(poll_once(&mut checks, &clock), []);
        assert_eq!(server.paths().len(), tries.len(), "a proxy sends HTTP to it now");
    }
}

#[test]
fn digest_that_a_trial_found_is_read_like_any_other() {
    let (server, clock) = (AnsweringServer::start(), clock());
    server.set("/weir/health", "200 OK", r#"{"status": "pass"}"#);
    let mut checks = CheckLoop::new(CheckOrigin::default(), Vec::new(), clock.now());
    let trial = DigestTarget { is_trial: true, ..server.target(1) };
    checks.set_digest_targets(vec![trial.clone()], clock.now());
    clock.set(clock.now() + Duration::from_secs(10));
    assert_eq!(poll_once(&mut checks, &clock), [summary("ok", "0 checks pass")]);
    server.responses.lock().unwrap().clear();
    clock.set(clock.now() + Duration::from_secs(5));
    let missing = summary("unknown", "/weir/health answers with status 404, no digest");
    assert_eq!(poll_once(&mut checks, &clock), [missing]);
    server.set("/weir/health", "503 Service Unavailable", r#"{"status": "fail"}"#);
    let restarted = DigestTarget { process_start: Some(2), ..trial };
    checks.set_digest_targets(vec![restarted], clock.now());
    assert_eq!(poll_once(&mut checks, &clock)[0].2, "critical", "at once, since it had a digest");
}
