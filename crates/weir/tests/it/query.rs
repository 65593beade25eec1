//! `weir query`: every format, errors with hints, exit codes.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::expect;
use serde_json::{Value, json};

use super::harness::{WEIR, Weir, can_run, quiet, serve, text, weir};
use super::intake::python;

fn hub(dir: &Path) -> Weir {
    let mut command = serve("hub", dir);
    quiet(&mut command);
    Weir::start(command)
}

const SQL: &str = "select * from (values (1, 'a,b', 0.5, true), (2, null, 1.0, false)) as t (n, word, part, flag) order by n";

#[test]
fn answers_come_as_table_json_ndjson_and_csv() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = hub(dir.path());
    expect![[r#"
        n,word,part,flag
        1,"a,b",0.5,true
        2,,1.0,false
    "#]]
    .assert_eq(&rows_as(&hub, "csv"));
    expect![[r#"
        {"flag":true,"n":1,"part":0.5,"word":"a,b"}
        {"flag":false,"n":2,"part":1.0,"word":null}
    "#]]
    .assert_eq(&rows_as(&hub, "ndjson"));
    let rows: Value = serde_json::from_str(&rows_as(&hub, "json")).expect("JSON");
    assert_eq!(rows[0]["word"], "a,b");
    assert!(
        rows_as(&hub, "table").starts_with("n  word  part  flag\n1  a,b    0.5  true\n"),
        "{}",
        rows_as(&hub, "table")
    );
}

fn rows_as(hub: &Weir, format: &str) -> String {
    let output = weir(&["query", "--url", &hub.url, "--format", format, SQL]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn files_have_every_row_with_its_type_for_the_libraries_of_arrow_and_parquet() {
    let test = "files_have_every_row_with_its_type_for_the_libraries_of_arrow_and_parquet";
    if !can_run(test, "PyArrow (cargo xtask setup)", python().is_file()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let hub = hub(&dir.path().join("data"));
    // More than an answer in JSON has.
    let sql = "select value as n, to_timestamp_micros(value * 1000000) as ts, case when value % 5 > 0 then 'w' || value end as word,
               value / 7.0 as part from generate_series(1, 120000) order by value";
    let files = ["arrow", "parquet"].map(|format| {
        let path = dir.path().join(format);
        let file = File::create(&path).expect("it is made");
        let mut command = Command::new(WEIR);
        command.args(["query", "--url", &hub.url, "--format", format, sql]).stdout(file);
        assert!(command.status().expect("weir can be started").success());
        path
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/exports.py");
    let output = Command::new(python()).arg(script).args([&hub.url, sql]).args(files).output();
    let output = output.expect("python is there");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    for (number, kind) in ["application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"]
        .into_iter()
        .enumerate()
    {
        let expected = json!({
            "kind": kind, "rows": 120_000, "sum": 7_200_060_000_u64, "nulls": 24_000,
            "last": "1970-01-02T09:20:00+00:00", "types": ["int64", "timestamp[us, tz=+00:00]", "string", "double"],
        });
        assert_eq!(found[number], expected);
    }
    let csv = weir(&["query", "--url", &hub.url, "--format", "csv", sql]);
    assert_eq!(text(&csv.stdout).lines().count(), 120_001);
}

#[test]
fn a_file_that_cannot_be_made_is_no_success() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = hub(dir.path());
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = Command::new(WEIR);
    command.args(["query", "--url", &hub.url, "--format", "parquet", SQL]).stdout(full);
    let output = command.stderr(Stdio::piped()).spawn().expect("weir can be started");
    let output = output.wait_with_output().expect("it ends");
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("cannot write the answer: No space left on device"), "{complaint}");
    let sql = "select 1 as n, interval '1 month' as i";
    let output = weir(&["query", "--url", &hub.url, "--format", "parquet", sql]);
    let complaint = text(&output.stderr);
    assert!(
        complaint.contains("cannot write Parquet") && complaint.contains("cast("),
        "{complaint}"
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
