//! Conformance of the PostgreSQL port: drivers run the scenarios of `tests/drivers/scenarios.json`.
//!
//! Each driver has a program in `tests/drivers`. Its arguments are the port of a hub with TLS, the
//! port of a hub without, the password, the certificate, and a list of the scenarios in lines. It
//! prints a line of JSON for each scenario in each mode. A scenario that a driver cannot run is a
//! `DriverGap` with its reason, so none is left out unseen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Weir, quiet, serve, text};

pub(crate) const TOKEN: &str = "sesame-sesame-sesame";

/// A driver and how it can send queries.
pub(crate) struct DriverProfile {
    pub(crate) name: &'static str,
    /// `simple`: the simple protocol; `text` and `binary`: formats of the extended protocol.
    pub(crate) modes: &'static [&'static str],
    /// Scenarios that the driver has no function for.
    pub(crate) gaps: &'static [DriverGap],
}

/// A scenario that a driver cannot run.
pub(crate) struct DriverGap {
    pub(crate) scenario: &'static str,
    pub(crate) mode: &'static str,
    pub(crate) why: &'static str,
}

/// Scenarios that only some drivers can run.
pub(crate) const STATEMENTS: &str = "several statements at once";
pub(crate) const PORTAL: &str = "a portal is read in parts";
pub(crate) const PIPELINE: &str = "queries in a pipeline";

/// Two hubs, one with a certificate, and the files of the test.
struct DriverHubs {
    dir: tempfile::TempDir,
    hubs: [Weir; 2],
}

impl DriverHubs {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("token"), TOKEN).expect("a directory of our own");
        certificate(dir.path());
        let hubs = [true, false].map(|has_tls| {
            let mut command = serve("hub", &dir.path().join(format!("data-{has_tls}")));
            quiet(&mut command);
            command.args(["--pg", "127.0.0.1:0"]);
            command.env("WEIR_API_TOKEN_FILE", dir.path().join("token"));
            if has_tls {
                command.env("WEIR_PG_TLS_CERTIFICATE_FILE", dir.path().join("cert.pem"));
                command.env("WEIR_PG_TLS_KEY_FILE", dir.path().join("key.pem"));
            }
            Weir::start(command)
        });
        Self { dir, hubs }
    }
}

/// Runs a driver's program and compares each of its results with the expected one.
pub(crate) fn conforms(driver: &DriverProfile, mut program: Command) {
    let hubs = DriverHubs::start();
    let scenarios = scenarios();
    let list = hubs.dir.path().join("scenarios.tsv");
    std::fs::write(&list, as_lines(&scenarios)).expect("a directory of our own");
    program.args(hubs.hubs.each_ref().map(pg_port)).arg(TOKEN);
    program.arg(hubs.dir.path().join("cert.pem")).arg(list).env("TZ", "UTC").stdin(Stdio::null());
    let output = program.output().expect("the driver's program can be started");
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{}: {printed}{}", driver.name, text(&output.stderr));
    let mut reports = BTreeMap::new();
    for line in printed.lines() {
        let report: Value = serde_json::from_str(line).expect("a line of JSON");
        let key =
            [&report["scenario"], &report["mode"]].map(|part| part.as_str().map(str::to_owned));
        assert!(reports.insert(key, report).is_none(), "{}: twice: {line}", driver.name);
    }
    let mut wrong = Vec::new();
    for scenario in &scenarios {
        let name = scenario["name"].as_str().expect("a scenario has a name");
        for mode in modes(driver, scenario) {
            let report = reports.remove(&[name, mode].map(|part| Some(part.to_owned())));
            let gap = driver.gaps.iter().find(|gap| gap.scenario == name && gap.mode == *mode);
            match (report, gap) {
                (None, Some(_)) => {}
                (Some(report), None) if same(&report["result"], &scenario["expected"]) => {}
                (Some(_), Some(gap)) => wrong.push(format!("{name}: runs, though {}", gap.why)),
                (report, None) => wrong.push(format!("{name} ({mode}): {report:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", driver.name, wrong.join("\n"));
    assert!(reports.is_empty(), "{}: not in the list: {reports:?}", driver.name);
    for hub in hubs.hubs {
        assert_eq!(hub.terminate(), Some(0));
    }
}

fn modes<'a>(driver: &'a DriverProfile, scenario: &Value) -> &'a [&'static str] {
    match scenario["does"].as_str() {
        None | Some("sum") => driver.modes,
        _ => &["once"],
    }
}

/// Compares values; `1` and `1.0` are the same, since JSON has one type of number.
fn same(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(found, expected)| same(found, expected))
        }
        (Value::Number(found), Value::Number(expected)) => found.as_f64() == expected.as_f64(),
        _ => found == expected,
    }
}

fn scenarios() -> Vec<Value> {
    let list = std::fs::read_to_string(directory().join("scenarios.json")).expect("it is there");
    serde_json::from_str(&list).expect("a list of scenarios")
}

/// The scenarios for a driver without JSON: name, kind, SQL and parameters, divided by tabs.
fn as_lines(scenarios: &[Value]) -> String {
    let mut lines = String::new();
    for scenario in scenarios {
        let mut fields: Vec<String> = [("name", ""), ("does", "rows"), ("sql", "")]
            .map(|(part, default)| scenario[part].as_str().unwrap_or(default).to_owned())
            .into();
        let parameters = scenario["parameters"].as_array().into_iter().flatten();
        for (kind, value) in parameters.filter_map(Value::as_object).flatten() {
            fields.push(match value {
                Value::Null => kind.clone(),
                Value::String(text) => format!("{kind}={text}"),
                other => format!("{kind}={other}"),
            });
        }
        lines += &(fields.join("\t") + "\n");
    }
    lines
}

/// Directory of the drivers' programs.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers")
}

/// Directory where `cargo xtask test` installs drivers.
pub(crate) fn installed() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("drivers")
}

/// Port of the PostgreSQL listener.
pub(crate) fn pg_port(weir: &Weir) -> String {
    let line = weir.greeting.lines().find(|line| line.starts_with("  pg "));
    line.and_then(|line| line.rsplit(':').next()).expect("it reports the address").to_owned()
}

/// Writes `cert.pem` and `key.pem` for `localhost`.
pub(crate) fn certificate(dir: &Path) {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout"]);
    openssl.arg(dir.join("key.pem")).arg("-out").arg(dir.join("cert.pem"));
    let made = openssl.output().expect("openssl is installed");
    assert!(made.status.success(), "{}", text(&made.stderr));
}
