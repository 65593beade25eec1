//! `weir edge show`, `change`, `weight`, `export`, `apply`: controls the edge that runs here, over
//! its control socket.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use weir_agent_core::edge::{EdgeRequest, ask, control_socket, edge_failure, settings};
use weir_config::Config;
use weir_edge::Settings;
use weir_process::failure::{Failure, read_failure};
use weir_process::terminal::{Paint, say};

use super::drain_check;
use crate::edge::args::{EdgeAction, EdgeArgs};
use crate::show::aligned;

/// Asks, and prints the answer.
pub(crate) fn run(action: &EdgeAction, config: &mut Config) -> Result<ExitCode, Failure> {
    let edge = action.target();
    config.apply_data(edge.and_then(|edge| edge.data.as_ref()));
    let socket = edge.and_then(|edge| edge.socket.clone());
    let socket = socket.unwrap_or_else(|| control_socket(&config.values));
    let ask =
        |method: &str, target: &str, body: &str| ask(&socket, EdgeRequest { method, target, body });
    let changes = match action {
        EdgeAction::Show { format, .. } => {
            let answer = ask("GET", "/api/edge", "")?;
            say(&if format.is_json() { answer } else { shown(&parse(&answer)?) });
            return Ok(ExitCode::SUCCESS);
        }
        EdgeAction::Export { .. } => {
            say(&ask("GET", "/api/edge/export", "")?);
            return Ok(ExitCode::SUCCESS);
        }
        EdgeAction::Change { file, dry_run, .. } => {
            ask("PUT", &target("config", *dry_run), &read(file)?)?
        }
        EdgeAction::Apply { file, dry_run, .. } => {
            ask("POST", &target("apply", *dry_run), &read(file)?)?
        }
        EdgeAction::Weight { backend, weight, .. } => {
            let body = json!({"backend": backend, "weight": weight});
            ask("POST", "/api/edge/backend", &body.to_string())?
        }
        EdgeAction::SafeToEnd(args) => return drain_check::run(args),
    };
    let changes = parse(&changes)?;
    let lines = changes["changes"].as_array().cloned().unwrap_or_default();
    let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
    say(&if lines.is_empty() { "nothing changes".to_owned() } else { lines.join("\n") });
    Ok(ExitCode::SUCCESS)
}

/// `weir edge --dry-run`.
pub(crate) fn dry_run(
    args: &EdgeArgs,
    config: &Config,
    load: impl Fn(&Path) -> Result<Config, Failure>,
) -> Result<ExitCode, Failure> {
    let new = settings(&config.values)?;
    weir_edge::check_certificates(&new).map_err(edge_failure)?;
    let old = match &args.against {
        Some(file) => {
            let mut old = load(file)?;
            old.apply_edge(&args.flags);
            settings(&old.values)?
        }
        None => Settings { host: new.host.clone(), ..Settings::default() },
    };
    let lines = old.differences(&new);
    let text = if lines.is_empty() { "nothing changes".to_owned() } else { lines.join("\n") };
    say(&text);
    Ok(ExitCode::SUCCESS)
}

fn target(what: &str, is_dry_run: bool) -> String {
    format!("/api/edge/{what}{}", if is_dry_run { "?dry_run=true" } else { "" })
}

fn parse(answer: &str) -> Result<Value, Failure> {
    serde_json::from_str(answer)
        .map_err(|error| Failure::new(format!("cannot read the edge's answer: {error}")))
}

/// A file, or stdin when it is `-`.
fn read(file: &Path) -> Result<String, Failure> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    text.map_err(|error| read_failure(file, &error))
}

fn shown(state: &Value) -> String {
    let rows = |name: &str| state[name].as_array().cloned().unwrap_or_default();
    let mut listeners = vec![head([
        "LISTENER", "TLS", "IDLE S", "OPEN", "ACCEPTED", "REFUSED", "REQUESTS", "SENT B",
    ])];
    listeners.extend(rows("listeners").iter().map(|row| {
        let names = [
            "listener",
            "is_tls",
            "idle_seconds",
            "connections",
            "accepted_total",
            "refused_total",
            "requests_total",
            "sent_bytes_total",
        ];
        names.map(|name| cell(row, name))
    }));
    let mut backends = vec![head([
        "BACKEND",
        "POOL",
        "STATE",
        "WEIGHT",
        "IN FLIGHT",
        "LATENCY",
        "REQUESTS",
        "FAILURES",
    ])];
    backends.extend(rows("backends").iter().map(|row| {
        let mut cells = [
            "backend",
            "pool",
            "state",
            "weight",
            "in_flight",
            "latency_seconds",
            "requests_total",
            "failures_total",
        ]
        .map(|name| cell(row, name));
        cells[5] = milliseconds(&row["latency_seconds"]);
        cells
    }));
    let table = |rows: &[[String; 8]]| {
        let cells = rows.iter().map(|row| row.each_ref().map(String::as_str));
        aligned(cells, Paint::for_stdout())
    };
    let tables = format!("{}\n\n{}", table(&listeners), table(&backends));
    match rows("certificates") {
        none if none.is_empty() => tables,
        some => format!("{tables}\n\n{}", certificates(&some)),
    }
}

fn cell(row: &Value, name: &str) -> String {
    match &row[name] {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}

fn milliseconds(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |seconds| format!("{:.1} ms", seconds * 1e3))
}

fn head(names: [&str; 8]) -> [String; 8] {
    names.map(str::to_owned)
}

/// Certificates that the edge obtains, and below them why one could not be.
fn certificates(rows: &[Value]) -> String {
    let mut cells = vec![["CERTIFICATE", "STATE", "ENDS", "NEXT", "AUTHORITY"].map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        let (ends, next) = (day(row, "not_after"), day(row, "next_attempt_ts"));
        [text(row, "names"), text(row, "state"), ends, next, text(row, "authority")]
    }));
    let cells = cells.iter().map(|row| row.each_ref().map(String::as_str));
    let mut out = aligned(cells, Paint::for_stdout());
    for row in rows.iter().filter(|row| row["failures"].as_u64().unwrap_or(0) > 0) {
        out += &format!(
            "\n{}: {} attempts failed: {}",
            text(row, "names"),
            row["failures"],
            text(row, "failure")
        );
    }
    out
}

fn day(row: &Value, name: &str) -> String {
    text(row, name).chars().take(16).collect::<String>()
}

fn text(row: &Value, name: &str) -> String {
    row[name].as_str().unwrap_or("-").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_aligned_and_says_what_is_not_known() {
        let state = json!({
            "listeners": [{"listener": "0.0.0.0:80", "is_tls": false, "idle_seconds": 15.0, "connections": 3,
                "accepted_total": 10, "refused_total": 0, "requests_total": 20, "sent_bytes_total": 900}],
            "backends": [{"backend": "10.0.0.5:80", "pool": "", "state": "up", "weight": 1, "in_flight": 2,
                "latency_seconds": 0.0123, "requests_total": 20, "failures_total": 0},
                {"backend": "10.0.0.6:80", "pool": "api", "state": "draining", "weight": 0, "in_flight": 0,
                "latency_seconds": null, "requests_total": 0, "failures_total": 0}],
        });
        let text = shown(&state);
        assert!(text.contains("0.0.0.0:80  false  15.0    3"), "{text}");
        assert!(text.contains("12.3 ms"), "{text}");
        assert!(text.contains("10.0.0.6:80  api   draining  0       0          -"), "{text}");
        assert!(!text.contains("CERTIFICATE"), "{text}");
    }

    #[test]
    fn a_certificate_that_cannot_be_obtained_says_why() {
        let one = json!({"names": "a.example", "state": "missing", "not_after": null, "failures": 2,
            "next_attempt_ts": "2026-11-22T07:00:00.000000Z", "authority": "ca.example",
            "failure": "it is not reached"});
        expect_test::expect![[r"
            CERTIFICATE  STATE    ENDS  NEXT              AUTHORITY
            a.example    missing  -     2026-11-22T07:00  ca.example
            a.example: 2 attempts failed: it is not reached"]]
        .assert_eq(&certificates(&[one]));
    }
}
