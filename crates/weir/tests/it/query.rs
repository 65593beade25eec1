//! `weir query`: every format, errors with hints, exit codes.

use std::io::Write;
use std::process::{Command, Stdio};

use expect_test::expect;

use super::harness::{WEIR, Weir, quiet, serve, text, weir};

fn hub(dir: &std::path::Path) -> Weir {
    let mut command = serve("hub", dir);
    quiet(&mut command);
    Weir::start(command)
}

const SQL: &str = "select * from (values (1, 'a,b', 0.5, true), (2, null, 1.0, false)) as t (n, word, part, flag) order by n";

#[test]
fn answers_come_as_table_json_ndjson_and_csv() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = hub(dir.path());
    let ask = |format: &str| {
        let output = weir(&["query", "--url", &hub.url, "--format", format, SQL]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    expect![[r#"
        n,word,part,flag
        1,"a,b",0.5,true
        2,,1.0,false
    "#]]
    .assert_eq(&ask("csv"));
    expect![[r#"
        {"flag":true,"n":1,"part":0.5,"word":"a,b"}
        {"flag":false,"n":2,"part":1.0,"word":null}
    "#]]
    .assert_eq(&ask("ndjson"));
    let rows: serde_json::Value = serde_json::from_str(&ask("json")).expect("JSON");
    assert_eq!(rows[0]["word"], "a,b");
    assert!(
        ask("table").starts_with("n  word  part  flag\n1  a,b    0.5  true\n"),
        "{}",
        ask("table")
    );
}

#[test]
fn a_query_is_read_from_stdin() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = hub(dir.path());
    let mut child = Command::new(WEIR)
        .args(["query", "--url", &hub.url, "--format", "csv", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("weir can be started");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(b"select 7 as seven").expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stdout), "seven\n7\n");
}

#[test]
fn failures_say_what_and_what_to_do_and_end_with_2() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = hub(dir.path());
    for (sql, part) in [
        ("select * from reqest", "request"),
        ("select durration_seconds from request", "duration_seconds"),
        ("selec 1", "selec"),
        ("drop table log", "only queries are run"),
        ("delete from log", "only queries are run"),
    ] {
        let output = weir(&["query", "--url", &hub.url, sql]);
        let complaint = text(&output.stderr).to_lowercase();
        assert_eq!(output.status.code(), Some(2), "{sql}: {complaint}");
        assert!(complaint.starts_with("error: ") && complaint.contains(part), "{sql}: {complaint}");
        assert!(output.stdout.is_empty());
    }
    let output = weir(&["query", "--url", "http://127.0.0.1:1", "select 1"]);
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        complaint.contains("hint: nothing listens there; start it with `weir up`"),
        "{complaint}"
    );
}
