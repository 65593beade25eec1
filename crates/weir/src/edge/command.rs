//! `weir edge show`, `change`, `weight`, `export`, `apply`: what is told to the edge that runs here, over its control socket.

use std::path::Path;

use serde_json::{Value, json};

use super::socket::{ask, path};
use crate::cli::EdgeAction;
use crate::config::Config;
use crate::failure::{Failure, read_failure};
use crate::show::aligned;
use crate::terminal::{Paint, say};

/// Asks, and prints the answer.
pub(crate) fn run(action: &EdgeAction, config: &mut Config) -> Result<(), Failure> {
    config.apply_data(action.target().data.as_ref());
    let socket = action.target().socket.clone().unwrap_or_else(|| path(&config.values));
    let ask = |method: &str, target: &str, body: &str| ask(&socket, method, target, body);
    let changes = match action {
        EdgeAction::Show { format, .. } => {
            let answer = ask("GET", "/api/edge", "")?;
            say(&if format.is_json() { answer } else { shown(&parse(&answer)?) });
            return Ok(());
        }
        EdgeAction::Export { .. } => {
            say(&ask("GET", "/api/edge/export", "")?);
            return Ok(());
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
    };
    let changes = parse(&changes)?;
    let lines = changes["changes"].as_array().cloned().unwrap_or_default();
    let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
    say(&if lines.is_empty() { "nothing changes".to_owned() } else { lines.join("\n") });
    Ok(())
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
    let text = |row: &Value, name: &str| match &row[name] {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    };
    let milliseconds = |value: &Value| {
        value.as_f64().map_or_else(|| "-".into(), |seconds| format!("{:.1} ms", seconds * 1e3))
    };
    let rows = |name: &str| state[name].as_array().cloned().unwrap_or_default();
    let head = |names: [&str; 8]| names.map(str::to_owned);
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
        names.map(|name| text(row, name))
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
        .map(|name| text(row, name));
        cells[5] = milliseconds(&row["latency_seconds"]);
        cells
    }));
    let table = |rows: &[[String; 8]]| {
        let cells = rows.iter().map(|row| row.each_ref().map(String::as_str));
        aligned(cells, Paint::for_stdout())
    };
    format!("{}\n\n{}", table(&listeners), table(&backends))
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
    }
}
