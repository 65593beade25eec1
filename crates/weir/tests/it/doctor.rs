//! `weir doctor`: this host, a recorded host, and directories that are none.

use serde_json::Value;

use super::harness::{text, weir};

#[test]
fn this_host_is_looked_at_as_json_and_as_text() {
    let output = weir(&["doctor", "--seconds", "2", "--format", "json"]);
    let code = output.status.code().expect("it ends by itself");
    assert!(code <= 2, "{code}: {}", text(&output.stderr));
    let findings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for finding in findings.as_array().expect("an array") {
        for key in ["rule", "tier", "class", "subject", "evidence", "why", "fix"] {
            assert!(!finding[key].is_null(), "{key} of {finding}");
        }
    }
    let output = weir(&["doctor", "--seconds", "2"]);
    let answer = text(&output.stdout);
    assert!(answer.contains("looked at host"), "{answer}");
    assert!(!answer.contains("\u{1b}["), "no colour into a pipe: {answer}");
    assert!(!answer.contains("not checked"), "every rule can be asked: {answer}");
}

#[test]
fn a_recorded_host_replays() {
    let dir = tempfile::tempdir().expect("a directory");
    let recording = dir.path().join("host");
    let path = recording.display().to_string();
    let output = weir(&["doctor", "--seconds", "3", "--record", &path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = weir(&["doctor", &path]);
    assert!(output.status.code().is_some_and(|code| code <= 2), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("looked at recorded host"), "{}", text(&output.stdout));
    let again = weir(&["doctor", "--seconds", "2", "--record", &path]);
    assert_eq!(again.status.code(), Some(70));
    assert!(text(&again.stderr).contains("hint: name a new directory"), "{}", text(&again.stderr));
}

#[test]
fn a_directory_that_is_no_recording_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = weir(&["doctor", &dir.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(70));
    assert!(text(&output.stderr).contains("\nhint: "), "{}", text(&output.stderr));
}
