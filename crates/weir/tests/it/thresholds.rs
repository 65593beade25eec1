//! Thresholds mined from a log's own past, accepted, and in force after the next start; findings
//! judged, and a rule that is mostly wrong.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use weir_tables::Micros;

use super::harness::{Weir, quiet, serve, text, wait_for, weir};

const SLOT: u64 = 300;
const SLOTS: u64 = 3 * 288 + 12;

/// Three days of a proxy's log: 24 to 26 requests in each five minutes; once in three hours the
/// application takes 0.31 s.
fn write_log(path: &Path, now: Micros) -> i64 {
    let mut lines = String::new();
    for slot in (1..=SLOTS).rev() {
        let at = now - Duration::from_secs(slot * SLOT);
        let took = if slot % 36 == 0 { 0.31 } else { 0.09 };
        for _ in 0..24 + slot % 3 {
            let _infallible = writeln!(
                lines,
                "{{\"time_iso8601\":\"{at}\",\"remote_addr\":\"192.0.2.7\",\"request_method\":\"GET\",\"request_uri\":\"/\",\
                 \"status\":200,\"request_time\":{took},\"upstream_addr\":\"10.0.0.5:8080\",\"upstream_status\":\"200\",\
                 \"upstream_response_time\":\"{took}\",\"upstream_header_time\":\"{took}\",\"upstream_connect_time\":\"0.001\"}}"
            );
        }
    }
    std::fs::write(path, &lines).expect("it can be written");
    i64::try_from(lines.lines().count()).expect("few")
}

fn start(dir: &Path) -> Weir {
    let mut command = serve("up", &dir.join("data"));
    command.arg("--tail").arg(dir.join("*.log")).arg("--rules").arg(dir.join("rules"));
    quiet(&mut command);
    Weir::start(command)
}

fn run(args: &[&str]) -> String {
    let output = weir(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_threshold_is_mined_proposed_accepted_and_in_force() {
    let dir = tempfile::tempdir().expect("a directory");
    let rules = dir.path().join("rules");
    std::fs::create_dir(&rules).expect("it can be made");
    let weir = start(dir.path());
    let few = run(&["thresholds", "app.slow", "--url", &weir.url]);
    assert!(few.contains("no proposal: ") && few.contains("a day with 48 points"), "{few}");
    let now = &weir.rows("select now()")[0][0];
    let now = arrow_time(now.as_str().expect("a time"));
    let lines = write_log(&dir.path().join("access.log"), now);
    wait_for("the log", Duration::from_secs(60), || {
        (weir.number("select count(*) from request") == lines).then_some(())
    });
    assert_eq!(weir.terminate(), Some(0));

    // What the log brought with it is made up for at the start.
    let weir = start(dir.path());
    let proposal = wait_for("a proposal", Duration::from_secs(120), || {
        let of_rule = "select value, proposed, events, subjects from threshold_proposal where rule = 'app.slow'";
        weir.rows(of_rule).pop()
    });
    assert_eq!(proposal[0], 0.25);
    let proposed = proposal[1].as_f64().expect("a number");
    assert!((0.31..0.36).contains(&proposed), "{proposed}");
    assert!(proposal[2].as_i64().expect("a number") >= 8 && proposal[3] == 1, "{proposal:?}");
    let finding = wait_for("the finding", Duration::from_secs(120), || {
        weir.findings("weir.threshold_off").pop()
    });
    assert_eq!(finding["class"], "mail", "{finding}");
    let seen = run(&["thresholds", "app.slow", "--url", &weir.url]);
    for part in ["0.25 s was passed", "no longer seen: ", "10.0.0.5:8080", "-value = 0.25"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    let season = weir.get("/api/thresholds?rule=traffic.unusual");
    let subjects = &season["thresholds"][0]["subjects"];
    let expected = subjects[0]["expected"].as_f64().expect("a number");
    assert!((24.0..=26.0).contains(&expected), "{season}");

    let dir_of_rules = rules.display().to_string();
    let yes =
        run(&["thresholds", "app.slow", "--accept", "--rules", &dir_of_rules, "--url", &weir.url]);
    assert!(yes.contains("start weir again"), "{yes}");
    assert_eq!(weir.terminate(), Some(0));
    let weir = start(dir.path());
    let in_force = weir.get("/api/thresholds?rule=app.slow");
    assert_eq!(in_force["thresholds"][0]["value"].as_f64(), Some(proposed), "{in_force}");
    assert_eq!(weir.terminate(), Some(0));
}

/// Micros of RFC 3339 as weir writes it.
fn arrow_time(text: &str) -> Micros {
    let at: jiff::Timestamp = text.parse().expect("a time");
    Micros(at.as_microsecond())
}

/// A rule that pages about every line of a log.
const RULE: &str = "/*---\nid = \"own.line\"\ntitle = \"a line came\"\ntier = \"app\"\nclass = \"page\"\nfor = \"0s\"\n\
    every = \"1s\"\nclear = \"0s\"\nkey = [\"message\"]\nneeds = [\"log\"]\nsubject = \"{message}\"\nsummary = \"{message} came\"\n\
    why = \"w\"\nlook_at = \"l\"\nsilent_when = \"s\"\nfix = \"f\"\nsource = \"x\"\n---*/\n\
    select host, body as message from log where source like '%app.log' and $now > ts - interval '1 day'";

#[test]
fn a_rule_that_is_judged_wrong_pages_no_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    std::fs::create_dir(dir.path().join("rules")).expect("it can be made");
    std::fs::write(dir.path().join("rules/own.line.sql"), RULE).expect("it can be written");
    std::fs::write(&log, "one\ntwo\nthree\nfour\nfive\n").expect("it can be written");
    let weir = start(dir.path());
    let paged = wait_for("five pages", Duration::from_secs(60), || {
        let findings = weir.findings("own.line");
        (findings.len() == 5).then_some(findings)
    });
    assert!(paged.iter().all(|finding| finding["class"] == "page"), "{paged:?}");
    for (place, finding) in paged.iter().enumerate() {
        let verdict = if place == 0 { "real" } else { "wrong" };
        let said = run(&["findings", "judge", &id_of(finding), verdict, "--url", &weir.url]);
        assert_eq!(said.contains("pages no more"), place == 4, "{said}");
    }
    let rule = &weir.get("/api/rules")["rules"];
    let rule = rule.as_array().and_then(|all| all.iter().find(|rule| rule["id"] == "own.line"));
    let rule = rule.expect("the rule is loaded");
    assert_eq!(
        (&rule["judged"], &rule["real"], &rule["may_page"]),
        (&5.into(), &1.into(), &false.into())
    );

    let mut file = std::fs::OpenOptions::new().append(true).open(&log).expect("it is there");
    file.write_all(b"six\n").expect("it can be written");
    let sixth = wait_for("the sixth", Duration::from_secs(60), || {
        weir.findings("own.line").into_iter().find(|finding| finding["subject"] == "six")
    });
    assert_eq!(sixth["class"], "mail", "{sixth}");
    let summary = sixth["summary"].as_str().expect("a text");
    assert!(summary.contains("1 of the last 5 judged findings were real"), "{summary}");
    let noisy = wait_for("the noisy rule", Duration::from_secs(120), || {
        weir.findings("weir.noisy_rule").pop()
    });
    assert_eq!(noisy["class"], "mail", "{noisy}");

    // Kept: after a start the rule still pages no more, and the judgement is shown with the
    // finding.
    assert_eq!(weir.terminate(), Some(0));
    let weir = start(dir.path());
    let one = weir.get(&format!("/api/findings/{}", id_of(&paged[1])));
    assert_eq!(one["judgement"]["verdict"], "wrong", "{one}");
    wait_for("the precision", Duration::from_secs(30), || {
        let rules = weir.get("/api/rules");
        let rules = rules["rules"].as_array().cloned().unwrap_or_default();
        rules.iter().any(|rule| rule["id"] == "own.line" && rule["may_page"] == false).then_some(())
    });
    let refused = weir_refused(&["findings", "judge", "nonsense", "wrong", "--url", &weir.url]);
    assert!(refused.contains("there is no such finding"), "{refused}");
    assert_eq!(weir.terminate(), Some(0));
}

fn id_of(finding: &Value) -> String {
    finding["finding_id"].as_str().expect("a text").to_owned()
}

fn weir_refused(args: &[&str]) -> String {
    let output = weir(args);
    assert_eq!(output.status.code(), Some(64));
    text(&output.stderr)
}
