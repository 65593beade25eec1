//! `weir parse` and pipelines in a running weir: what users see of them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::harness::{WEIR, Weir, quiet, repository, request, serve, text, wait_for, weir};

const ACCESS: &str =
    r#"203.0.113.9 - - [20/Nov/2026:12:00:00 +0000] "GET /a?b=c HTTP/1.1" 200 512 "-" "curl""#;

fn said(args: &[&str]) -> String {
    let output = weir(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn has_all(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in:\n{said}");
    }
}

fn write(path: &Path, content: &str) -> String {
    std::fs::write(path, content).expect("it can be written");
    path.display().to_string()
}

#[test]
fn lines_and_files_are_explained() {
    has_all(
        &said(&["parse", ACCESS]),
        &["request", "by combined", " ns", "http_response_status_code", "200", "integer"],
    );
    let dir = tempfile::tempdir().expect("a directory");
    let file = write(&dir.path().join("a.log"), "took 5 s\ntook x ms\n");
    let explained = said(&["parse", "--grok", "took %{NUMBER:took} ms", &file]);
    has_all(&explained, &["no_match", "up to byte 7", "^ ms expected", "%{NUMBER:took} expected"]);
    has_all(&explained, &["2 lines, 2 not understood"]);
    let torn = r#"192.0.2.1 - - [20/Nov/2026:12:00:00 +0000] "GET /a"#;
    let tried = said(&["parse", "--grok", "%{COMBINEDAPACHELOG}", torn]);
    has_all(&tried, &["pattern %{COMBINEDAPACHELOG}"]);
    assert!(!tried.contains("near %{COMBINEDAPACHELOG}"), "{tried}");
    let json = said(&["parse", "--json", "--format", "json", r#"{"msg":"a \x22b\x22"}"#]);
    let answer: serde_json::Value = serde_json::from_str(&json).expect("one object");
    assert_eq!(answer["table"], "log");
    assert!(json.contains(r#""value":"a \"b\"""#) && json.contains("hex_escape"), "{json}");
}

#[test]
fn samples_get_a_pattern_that_reads_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let lines = "2026-11-20 12:00:00,1 [w-1] INFO took=15 the order is stored\n\
                 2026-11-20 12:00:01,5 [w-12] WARN took=3 a basket was empty\n";
    let file = write(&dir.path().join("app.log"), lines);
    let suggested = said(&["parse", "--suggest", &file]);
    has_all(&suggested, &["matches 2 of 2 lines", "%{LOGLEVEL:severity} took=%{INT:took}"]);
    let pipeline = write(&dir.path().join("app.toml"), &suggested);
    let read = said(&["parse", "--pipeline", &pipeline, &file]);
    has_all(&read, &["2 lines, 0 not understood", "attrs.took", "the order is stored"]);
}

#[test]
fn tests_of_pipelines_run_and_fail_with_their_line() {
    let parsers = repository().join("parsers");
    has_all(&said(&["parse", "--test"]), &[" passed, 0 failed"]);
    has_all(&said(&["parse", "--test", &parsers.display().to_string()]), &[" passed, 0 failed"]);
    let dir = tempfile::tempdir().expect("a directory");
    write(&dir.path().join("mine.toml"), "[parse]\nformat = \"key_value\"\n");
    let test = write(&dir.path().join("mine.test"), "# a pair\nline: a=1\nattrs.a: 2\n");
    let output = weir(&["parse", "--test", &test]);
    assert_eq!(output.status.code(), Some(1));
    has_all(&text(&output.stdout), &["mine.test:1 a pair", "expected `2`, found `1`"]);
}

#[test]
fn wrong_pipelines_and_patterns_are_refused_with_line_and_hint() {
    let dir = tempfile::tempdir().expect("a directory");
    let unknown = write(&dir.path().join("a.toml"), "[parse]\nfromat = \"json\"\n");
    for (args, code, parts) in [
        (
            vec!["parse", "--pipeline", &unknown, "x"],
            78,
            ["a.toml:2: unknown key `fromat`", "did you mean `format`?"],
        ),
        (
            vec!["parse", "--grok", "%{NUMBR:x}", "x"],
            78,
            ["no pattern `NUMBR`", "did you mean `NUMBER`?"],
        ),
        (vec!["parse", "--grok", "a(?!b)", "x"], 78, ["look-around", "linear time"]),
        (vec!["parse", "--pipeline", "postgresq", "x"], 64, ["no such pipeline", "`postgresql`"]),
        (vec!["parse"], 64, ["no line, file or `-`", "weir parse 'LINE'"]),
    ] {
        let output = weir(&args);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {complaint}");
        has_all(&complaint, &parts);
        assert_eq!(complaint.matches("error: ").count(), 1, "{complaint}");
        assert!(complaint.contains("\nhint: "), "{complaint}");
    }
    let dir_flag = dir.path().display().to_string();
    let mut command = Command::new(WEIR);
    quiet(&mut command);
    command.args(["up", "--listen", "127.0.0.1:0"]).env("WEIR_PARSERS_DIR", &dir_flag);
    command.arg("--data").arg(dir.path().join("data"));
    let output = command.output().expect("weir can be started");
    assert_eq!(output.status.code(), Some(78), "{}", text(&output.stderr));
}

/// A weir whose pipelines are in `dir/parsers` and that reads `dir/logs/*.log`.
fn start(dir: &Path, variables: &[(&str, &str)]) -> Weir {
    let mut command = serve("up", &dir.join("data"));
    quiet(&mut command);
    command.arg("--tail").arg(dir.join("logs/*.log")).env("WEIR_PARSERS_DIR", dir.join("parsers"));
    command.envs(variables.iter().copied());
    Weir::start(command)
}

#[test]
fn rows_are_made_by_the_users_pipeline_and_secrets_never_arrive() {
    let dir = tempfile::tempdir().expect("a directory");
    for part in ["parsers", "logs"] {
        std::fs::create_dir(dir.path().join(part)).expect("a directory");
    }
    write(
        &dir.path().join("parsers").join("shop.toml"),
        "[match]\npath = \"**/shop.log\"\n[parse]\nformat = \"grok\"\npattern = '%{LOGLEVEL:severity} %{WORD:user} %{GREEDYDATA:message}'\n[[step]]\nwhen = 'body contains \"logged in\"'\ntag = \"auth_login\"\n",
    );
    let log = "INFO bob logged in from 203.0.113.77 with token=s3cr3ts3cr3t\n\
               torn bob@shop.example 4111 1111 1111 1111\n";
    write(&dir.path().join("logs").join("shop.log"), log);
    let weir = start(dir.path(), &[("WEIR_PARSERS_REDACT", "email,card,token,client_address")]);
    let count = "select (select count(*) from log where attrs['user'] = 'bob') + (select count(*) from reject)";
    wait_for("both lines", Duration::from_secs(30), || (weir.number(count) == 2).then_some(()));
    let rows = weir.rows(
        "select severity, attrs['tags'], body from log where attrs['user'] = 'bob' union all select reason, parser, raw from reject",
    );
    let all = serde_json::to_string(&rows).expect("JSON");
    has_all(&all, &["info", "auth_login", "logged in from 203.0.113.0 with token=[token]"]);
    has_all(&all, &["no_match", "grok", "torn [email] [card]"]);
    // A better pipeline over the same lines, without storing anything.
    let better = write(
        &dir.path().join("better.toml"),
        "[parse]\nformat = \"grok\"\npattern = ['%{LOGLEVEL:severity} %{WORD:user} %{GREEDYDATA:message}', 'torn %{GREEDYDATA:rest_of_it}']\n",
    );
    let replayed = said(&["parse", "--replay", "--pipeline", &better, "--url", &weir.url]);
    has_all(&replayed, &["1 reject to log", "+ attrs.rest_of_it: [email] [card]"]);
    assert_eq!(weir.number(count), 2);
    let headers = [("content-type", "application/json")];
    let body = r#"{"lines": "a=1", "pattern": "a=%{INT:a}"}"#;
    let (status, _, answer) = request(&weir.url, "POST", "/api/parse", &headers, body);
    assert_eq!(status, 200, "{answer}");
    has_all(&answer, &[r#""a":"1""#, r#""is_match":true"#, "cost_seconds"]);
    let body = r#"{"lines": "a=1", "pattern": "a=%{INTT:a}"}"#;
    let (status, _, answer) = request(&weir.url, "POST", "/api/parse", &headers, body);
    assert_eq!(status, 400);
    has_all(&answer, &["no pattern `INTT`", "did you mean `INT`?"]);
}

#[test]
fn names_without_end_are_kept_together_and_become_a_finding() {
    let dir = tempfile::tempdir().expect("a directory");
    for part in ["parsers", "logs"] {
        std::fs::create_dir(dir.path().join(part)).expect("a directory");
    }
    write(
        &dir.path().join("parsers").join("fw.toml"),
        "[match]\npath = \"**/fw.log\"\n[parse]\nformat = \"key_value\"\n",
    );
    let lines: String = (0..3_000).map(|n| format!("rule=drop evil{n}=x\n")).collect();
    write(&dir.path().join("logs").join("fw.log"), &lines);
    let weir = start(dir.path(), &[("WEIR_PARSERS_DISTINCT_KEYS", "100")]);
    let kept = "select count(*) from log where attrs['weir.more'] is not null";
    wait_for("all lines", Duration::from_secs(30), || (weir.number(kept) == 2_901).then_some(()));
    let finding = wait_for("the finding", Duration::from_secs(90), || {
        weir.findings("log.key_explosion").into_iter().next()
    });
    has_all(&finding.to_string(), &["fw.log", "2901 values", "evil99"]);
}

#[test]
fn names_in_the_first_line_of_a_file_survive_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    for part in ["parsers", "logs"] {
        std::fs::create_dir(dir.path().join(part)).expect("a directory");
    }
    let csv = "[match]\npath = \"**/jobs.log\"\n[parse]\nformat = \"csv\"\n";
    write(&dir.path().join("parsers").join("jobs.toml"), csv);
    let first = "ts,job,message\n2026-11-20T12:00:00Z,night,begun\n";
    let log = write(&dir.path().join("logs").join("jobs.log"), first);
    let jobs = "select count(*) from log where attrs['job'] = 'night'";
    let weir = start(dir.path(), &[]);
    wait_for("one job", Duration::from_secs(30), || (weir.number(jobs) == 1).then_some(()));
    weir.kill();
    std::fs::write(&log, format!("{first}2026-11-20T13:00:00Z,night,ended\n"))
        .expect("a line more");
    let weir = start(dir.path(), &[]);
    wait_for("both jobs", Duration::from_secs(30), || (weir.number(jobs) == 2).then_some(()));
    assert_eq!(weir.number("select count(*) from log where body in ('begun', 'ended')"), 2);
}
