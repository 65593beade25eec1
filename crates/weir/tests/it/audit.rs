//! `weir audit`: a log on disk against what the tables hold, whole, torn, unknown and packed.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use super::harness::{WEIR, Weir, quiet, serve, text, wait_for};

fn audit(url: &str, args: &[&str]) -> Output {
    let mut command = Command::new(WEIR);
    command.args(["audit", "--url", url, "--host", "testhost"]).args(args);
    command.env("XDG_CONFIG_HOME", "/nonexistent").output().expect("weir can be started")
}

const LINES: &str = "select count(*) from log where body like 'line %'";

/// `weir up` that tails the log.
fn up(dir: &Path, log: &Path) -> Weir {
    let mut command = serve("up", &dir.join("data"));
    command.arg("--tail").arg(log);
    quiet(&mut command);
    Weir::start(command)
}

fn lines(count: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        // Lines of many lengths, and now and then a blank one, which has no row.
        let filling = "x".repeat(usize::try_from(number % 97).expect("it is small"));
        let _ = writeln!(text, "line {number:06} {filling}");
        if number % 100 == 0 {
            text.push('\n');
        }
    }
    text
}

#[test]
fn a_whole_log_is_well_and_a_changed_one_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    let mut content = lines(20_000).into_bytes();
    std::fs::write(&log, &content).expect("it can be written");
    let weir = up(dir.path(), &log);
    let path = log.display().to_string();

    let whole = audit(&weir.url, &["--wait", "60", &path]);
    let told = text(&whole.stdout);
    assert_eq!(whole.status.code(), Some(0), "{told}{}", text(&whole.stderr));
    assert!(told.ends_with("all is well: 1 file, 20000 lines, 0 in a gap, 0 doubled\n"), "{told}");

    // What was shipped stays, the file changes: one line becomes two, two lines become one.
    let at = content.len() / 2;
    let newline = at + content[at..].iter().position(|byte| *byte == b'\n').expect("lines");
    content[newline] = b' ';
    let later = newline + 100_000;
    let inside = later + content[later..].iter().position(|byte| *byte == b'x').expect("a filling");
    content[inside] = b'\n';
    std::fs::write(&log, &content).expect("it can be written");
    let torn = audit(&weir.url, &["--format", "json", &path]);
    assert_eq!(torn.status.code(), Some(1), "{}", text(&torn.stderr));
    let answer: Value = serde_json::from_slice(&torn.stdout).expect("JSON");
    let file = &answer["files"][0];
    assert_eq!(answer["is_well"], false);
    assert_eq!(file["rows_without_line"], serde_json::json!([newline + 1]), "{answer}");
    assert_eq!(file["missing_lines"], 1, "{answer}");
    assert_eq!(file["gaps"][0]["from"], inside + 1, "{answer}");
    assert_eq!(file["doubled"], serde_json::json!([]), "{answer}");
}

#[test]
fn rotated_and_packed_parts_are_compared_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    std::fs::write(&log, lines(5000)).expect("it can be written");
    let weir = up(dir.path(), &log);
    wait_for_lines(&weir, 5000);
    let rotated = dir.path().join("app.log.1");
    std::fs::rename(&log, &rotated).expect("it is there");
    std::fs::write(&log, "another first line\n".to_owned() + &lines(1000)).expect("there is room");
    wait_for_lines(&weir, 6000);
    let gzip = Command::new("gzip").arg(&rotated).status().expect("gzip is a part of Debian");
    assert!(gzip.success());
    let glob = dir.path().join("app.log*").display().to_string();
    let output = audit(&weir.url, &["--wait", "60", &glob]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}{}", text(&output.stderr));
    assert!(told.contains("app.log.1.gz"), "{told}");
    assert!(told.ends_with("all is well: 2 files, 6001 lines, 0 in a gap, 0 doubled\n"), "{told}");
}

fn wait_for_lines(weir: &Weir, wanted: i64) {
    wait_for("the lines", Duration::from_secs(60), || (weir.number(LINES) == wanted).then_some(()));
}

#[test]
fn what_cannot_be_compared_says_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    std::fs::write(&log, "a line\n").expect("it can be written");
    let weir = up(dir.path(), &log);
    let foreign = dir.path().join("foreign.log");
    std::fs::write(&foreign, "not shipped\n").expect("it can be written");
    let unknown = audit(&weir.url, &[&foreign.display().to_string()]);
    assert_eq!(unknown.status.code(), Some(2));
    let told = text(&unknown.stdout);
    assert!(told.contains("the hub does not know it as a log of host `testhost`"), "{told}");

    let missing = audit(&weir.url, &["/nonexistent/*.log"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("there is no such file\nhint: "));

    let nobody = audit("http://127.0.0.1:1", &[&log.display().to_string()]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(text(&nobody.stderr).contains("\nhint: name the hub"), "{}", text(&nobody.stderr));
}

#[test]
fn multi_line_logs_are_compared_line_by_line_by_the_rule_of_the_configuration() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    let mut content = String::new();
    for number in 0..3000 {
        let _ = writeln!(
            content,
            "ERROR {number:06} cannot save\njava.io.IOException: no room {number}"
        );
        for frame in 0..number % 7 {
            let _ = writeln!(content, "\tat com.example.Store.save{frame}(Store.java:{frame})");
        }
        let _ = writeln!(content, "INFO {number:06} went on");
    }
    std::fs::write(&log, &content).expect("it can be written");
    let config = dir.path().join("weir.toml");
    let rule = format!("[[logs]]\npath = '{}/*.log'\nmultiline = 'java'\n", dir.path().display());
    std::fs::write(&config, rule).expect("it can be written");
    let mut command = serve("up", &dir.path().join("data"));
    command.arg("--config").arg(&config);
    quiet(&mut command);
    let weir = Weir::start(command);
    let (config, path) = (config.display().to_string(), log.display().to_string());
    let rotated = format!("{path}.1");
    let (code, file) = compared(&weir, &["--wait", "60", "--config", &config], &path);
    assert_eq!(
        (code, &file["rows"], &file["missing_lines"]),
        (Some(0), &6000.into(), &0.into()),
        "{file}"
    );
    assert_eq!(compared(&weir, &["--multiline", "java"], &path).0, Some(0));
    assert_eq!(compared(&weir, &[], &path).0, Some(1), "without the rule most lines have no row");

    // What was shipped stays, the file changes: an event gets a line more in its middle, another
    // begins where none did.
    std::fs::copy(&log, &rotated).expect("there is room");
    let inside = content.find("save5(").expect("a frame") - 5;
    let event = content.find("INFO 002000 went on").expect("a line") + "INFO 002000".len();
    let mut changed = content.into_bytes();
    changed[inside] = b'\n';
    changed[inside + 1] = b'\t';
    changed[event] = b'\n';
    std::fs::write(&log, &changed).expect("it can be written");
    let (code, file) = compared(&weir, &["--config", &config], &path);
    assert_eq!((code, &file["missing_lines"]), (Some(1), &2.into()), "{file}");
    assert_eq!(file["gaps"][1]["from"], event + 1, "{file}");
    assert_eq!(file["doubled"], serde_json::json!([]), "{file}");
    assert_eq!(file["rows_without_line"], serde_json::json!([]), "{file}");
    // The rule of a log is that of its rotated parts.
    let (code, file) = compared(&weir, &["--config", &config], &rotated);
    assert_eq!((code, &file["rows"]), (Some(0), &6000.into()), "{file}");

    let wrong = audit(&weir.url, &["--multiline", "jva", &path]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("\nhint: java, python"), "{}", text(&wrong.stderr));
}

fn compared(weir: &Weir, args: &[&str], path: &str) -> (Option<i32>, Value) {
    let output = audit(&weir.url, &[args, &["--format", "json", path]].concat());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert!(answer["files"].is_array(), "{}", text(&output.stderr));
    (output.status.code(), answer["files"][0].clone())
}
