//! The clients of six languages do the same, stand-alone and mounted in another server.
//!
//! ```text
//!   file in a directory ──► check of the program ──► client ──HTTP──► CheckLoop ──► check_result
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use super::client_program::{
    ClientProgram, GO, JAVA, Language, NODE, PHP, PYTHON, RUBY, RunningProgram,
};
use super::digest_reader::{DigestRow, row_of, wait_for};

/// A fault, and what the reader makes of it.
struct Situation {
    /// File and content.
    fault: (&'static str, &'static str),
    check: &'static str,
    status: &'static str,
    /// A part of the output.
    output: &'static str,
    /// State and status code of the summary.
    health: (&'static str, f64),
}

/// The conformance table.
const SITUATIONS: [Situation; 10] = [
    Situation {
        fault: ("self", "no worker is alive"),
        check: "self",
        status: "critical",
        output: "no worker is alive",
        health: ("critical", 503.0),
    },
    Situation {
        fault: ("dependency", "connection refused"),
        check: "dependency",
        status: "critical",
        output: "connection refused",
        health: ("warn", 200.0),
    },
    // mikesvoboda/nemotron-v3-home-security-intelligence#223: a database that hangs, and the
    // request for the health hangs with it.
    Situation {
        fault: ("hang", ""),
        check: "hang",
        status: "critical",
        output: "no result within ",
        health: ("warn", 200.0),
    },
    Situation {
        fault: ("odd", "false"),
        check: "odd",
        status: "critical",
        output: "the check returned ",
        health: ("warn", 200.0),
    },
    Situation {
        fault: ("odd", "warn"),
        check: "odd",
        status: "warn",
        output: "slow",
        health: ("warn", 200.0),
    },
    Situation {
        fault: ("odd", "status"),
        check: "odd",
        status: "critical",
        output: "unknown status fine",
        health: ("warn", 200.0),
    },
    // esnet/iperf#370 and LibreHardwareMonitor/LibreHardwareMonitor#2384: a figure that is not
    // finite makes the whole document unreadable, or the server crash.
    Situation {
        fault: ("odd", "nan"),
        check: "odd",
        status: "ok",
        output: "no rate",
        health: ("ok", 200.0),
    },
    // DeusData/codebase-memory-mcp#168: one byte that is no UTF-8, and there is no document.
    Situation {
        fault: ("odd", "text"),
        check: "odd",
        status: "critical",
        output: "cannot read \"a\\b\"",
        health: ("warn", 200.0),
    },
    // Xabaril/AspNetCore.Diagnostics.HealthChecks#68: a check that throws where none expects it.
    Situation {
        fault: ("odd", "exit"),
        check: "odd",
        status: "critical",
        output: "",
        health: ("warn", 200.0),
    },
    // markmhendrickson/neotoma#2271: what cannot be determined must not be reported as healthy.
    Situation {
        fault: ("later", ""),
        check: "count",
        status: "critical",
        output: "stale: did not run for ",
        health: ("warn", 200.0),
    },
];

/// Paths that are not the client's; mounted, they are the application's.
const OTHER_PATHS: [&str; 5] = ["/", "/weir", "/health", "/weir/healthz", "/weir/health/live/x"];

#[test]
fn python_client_conforms() {
    conforms(PYTHON, include_str!("../clients/conform.py"));
}

#[test]
fn go_client_conforms() {
    conforms(GO, include_str!("../clients/conform.go"));
}

#[test]
fn node_client_conforms() {
    conforms(NODE, include_str!("../clients/conform.js"));
}

#[test]
fn ruby_client_conforms() {
    conforms(RUBY, include_str!("../clients/conform.rb"));
}

#[test]
fn java_client_conforms() {
    conforms(JAVA, include_str!("../clients/Conform.java"));
}

#[test]
fn php_client_conforms() {
    conforms(PHP, include_str!("../clients/conform.php"));
}

/// benoitc/gunicorn#1666: a server that forks its workers after it has loaded the application
/// leaves the application's threads in the parent.
#[test]
fn checks_run_in_a_forked_worker_as_well() {
    for (language, source) in [
        (PYTHON, include_str!("../clients/conform.py")),
        (RUBY, include_str!("../clients/conform.rb")),
    ] {
        let Some((_running, ports, _program)) = start(language, source, &["fork"]) else { return };
        for port in ports {
            let rows = wait_for(port, "ok in a fork", |rows| is_ok(rows) && ticks(rows) > 5.0);
            // Once in the parent, once in the worker.
            assert_eq!(row_of(&rows, "count").and_then(|row| row.value), Some(2.0), "{rows:#?}");
        }
    }
}

fn start(
    language: Language,
    source: &str,
    arguments: &[&str],
) -> Option<(RunningProgram, Vec<u16>, ClientProgram)> {
    let program = ClientProgram::new(language, source)?;
    std::fs::create_dir(program.dir().join("faults")).expect("it can be made");
    let faults = program.dir().join("faults").display().to_string();
    let mut running = program.start(&[&[faults.as_str()], arguments].concat())?;
    let ports = running.ports();
    Some((running, ports, program))
}

fn conforms(language: Language, source: &str) {
    let Some((_running, ports, program)) = start(language, source, &[]) else { return };
    let faults = program.dir().join("faults");
    for port in &ports {
        // The loop runs without requests for it.
        let rows = wait_for(*port, "ok", |rows| is_ok(rows) && ticks(rows) >= 2.0);
        let summary = row_of(&rows, "health").expect("there is a summary");
        assert_eq!((summary.output.as_str(), summary.value), ("6 checks pass", Some(200.0)));
        let tick = row_of(&rows, "tick").expect("there is one");
        let expected = ("shop", "self", "runs", "1");
        let found = (&tick.service, &tick.scope, &tick.unit, &tick.threshold);
        assert_eq!(
            (found.0.as_str(), found.1.as_str(), found.2.as_str(), found.3.as_str()),
            expected
        );
    }
    speaks_http(ports[0]);
    let rows = wait_for(ports[0], "ok", is_ok);
    let runs = row_of(&rows, "count").and_then(|row| row.value);
    assert_eq!(runs, Some(1.0), "requests run no check");
    for port in &ports[1..] {
        is_mounted(*port);
    }
    for situation in &SITUATIONS {
        meets(situation, &ports, &faults);
    }
}

fn is_ok(rows: &[DigestRow]) -> bool {
    !rows.is_empty() && rows.iter().all(|row| row.status == "ok")
}

fn ticks(rows: &[DigestRow]) -> f64 {
    row_of(rows, "tick").and_then(|row| row.value).unwrap_or_default()
}

fn meets(situation: &Situation, ports: &[u16], faults: &Path) {
    let file = faults.join(situation.fault.0);
    // At once: a program reads no half of it.
    std::fs::write(faults.join("new"), situation.fault.1).expect("it can be written");
    std::fs::rename(faults.join("new"), &file).expect("it can be renamed");
    let what = format!("{:?}", situation.fault);
    for port in ports {
        wait_for(*port, &what, |rows| is_met(situation, rows));
    }
    let response = exchange(ports[0], ["GET", "/weir/health/live"]);
    assert_eq!((response.status, response.body.contains("pass")), (200, true), "{what}");
    if situation.check == "hang" {
        // The other checks run all the while.
        let before = ticks(&wait_for(ports[0], "there", |rows| !rows.is_empty()));
        wait_for(ports[0], "ticking", |rows| ticks(rows) > before);
    }
    std::fs::remove_file(file).expect("it can be removed");
    for port in ports {
        wait_for(*port, "ok again", is_ok);
    }
}

fn is_met(situation: &Situation, rows: &[DigestRow]) -> bool {
    let (Some(row), Some(health)) = (row_of(rows, situation.check), row_of(rows, "health")) else {
        return false;
    };
    row.status == situation.status
        && row.output.contains(situation.output)
        && row.value.is_none_or(f64::is_finite)
        && !row.scope.is_empty()
        && health.status == situation.health.0
        && health.value == Some(situation.health.1)
}

/// gotify/server#687 and passbolt/passbolt_api#507: monitors that send HEAD get a 404.
fn speaks_http(port: u16) {
    let mut connection = Connection::new(port);
    for _ in 0..100 {
        let response = connection.request(["GET", "/weir/health"]);
        is_digest(&response);
        assert!(response.body.contains("\"shop\""), "{response:?}");
    }
    for path in ["/weir/health", "/weir/health/live", "/weir/health?verbose=1"] {
        // A body would be taken for the beginning of the next response.
        is_digest(&connection.request(["HEAD", path]));
        is_digest(&connection.request(["GET", path]));
    }
    for path in OTHER_PATHS {
        assert_eq!(connection.request(["GET", path]).status, 404, "{path}");
    }
    let live = connection.request(["GET", "/weir/health/live"]);
    assert_eq!(live.status, 200, "{live:?}");
    assert_eq!(live.body.replace(' ', "").trim(), r#"{"status":"pass"}"#);
    assert_eq!(exchange(port, ["POST", "/weir/health"]).status, 405);
}

fn is_mounted(port: u16) {
    for path in ["/", "/shop"] {
        let response = exchange(port, ["GET", path]);
        assert_eq!((response.status, response.body.as_str()), (200, "application"), "{path}");
    }
    is_digest(&exchange(port, ["GET", "/weir/health?verbose=1"]));
    is_digest(&exchange(port, ["HEAD", "/weir/health"]));
    assert_eq!(exchange(port, ["DELETE", "/weir/health"]).status, 405);
}

/// On a busy machine, a check may take longer than its interval: then the digest fails, rightly.
fn is_digest(response: &PlainResponse) {
    assert!(matches!(response.status, 200 | 503), "{response:?}");
    assert_eq!(response.kind, "application/health+json", "{response:?}");
}

/// A response as it is on the wire.
#[derive(Debug)]
struct PlainResponse {
    status: u16,
    kind: String,
    body: String,
}

/// A connection for several requests: a method and a path each.
struct Connection {
    port: u16,
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn new(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is no zero");
        Self { port, stream: BufReader::new(stream) }
    }

    fn request(&mut self, [method, path]: [&str; 2]) -> PlainResponse {
        let port = self.port;
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n"
        );
        self.stream.get_mut().write_all(text.as_bytes()).expect("it reads requests");
        let mut response = PlainResponse { status: 0, kind: String::new(), body: String::new() };
        let (mut length, mut line) = (None, String::new());
        self.stream.read_line(&mut line).expect("it responds");
        response.status = line.split(' ').nth(1).and_then(|word| word.parse().ok()).expect(&line);
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("it responds");
            let Some((name, value)) = line.trim().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok(),
                "content-type" => response.kind = value.trim().to_owned(),
                _ => {}
            }
        }
        if method != "HEAD" {
            // Without a length, the end of the connection is the end of the body.
            let limit = length.unwrap_or(u64::MAX);
            let mut body = self.stream.by_ref().take(limit);
            body.read_to_string(&mut response.body).expect("it is text");
        }
        response
    }
}

/// One request on a new connection.
fn exchange(port: u16, request: [&str; 2]) -> PlainResponse {
    Connection::new(port).request(request)
}
