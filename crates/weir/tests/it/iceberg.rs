//! Engines that read files themselves: PyIceberg against the catalog, and what the catalog says no
//! to.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::{ManifestDatabase, two_hubs};
use super::harness::{Weir, can_run, free_address, is_root, quiet, request, serve, text, wait_for};
use super::intake::python;
use super::wire_databases::postgresql;

const SINCE: &str = "2026-11-21T12:00:00+00:00";

/// Lines with these numbers, one a second, and then everything in files.
fn post(hub: &Weir, intake: &str, numbers: std::ops::Range<u64>) {
    let lines: String = numbers
        .map(|n: u64| {
            let time = format!("2026-11-21T{:02}:{:02}:{:02}Z", 11 + n / 3600, n / 60 % 60, n % 60);
            json!({"@timestamp": time, "message": format!("line {n}"), "number": n}).to_string()
                + "\n"
        })
        .collect();
    let (status, _, told) = request(intake, "POST", "/intake/jsonl?source=app", &[], &lines);
    assert_eq!(status, 200, "{told}");
    let headers = [("content-type", "application/json")];
    let (status, _, told) = request(&hub.url, "POST", "/api/store/flush", &headers, "{}");
    assert_eq!(status, 200, "{told}");
}

/// What PyIceberg finds.
fn read(hub: &Weir) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/iceberg.py");
    let output = Command::new(python()).arg(script).args([&hub.url, "none", SINCE]).output();
    let output = output.expect("python is there");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a line of JSON")
}

/// The answer of weir's own SQL.
fn asked(hub: &Weir) -> Value {
    let sql = format!(
        "select count(*), count(distinct body), sum(cast(attrs['number'] as bigint)),
         count(*) filter (where ts >= timestamp '{SINCE}') from log where source = 'app'"
    );
    let rows = hub.rows(&sql);
    let [rows, bodies, sum, later] = &rows[0][..] else { panic!("four values") };
    json!({"rows": rows, "bodies": bodies, "sum": sum, "later": later})
}

fn same(read: &Value, asked: &Value) {
    for key in ["rows", "bodies", "sum", "later"] {
        assert_eq!(read[key], asked[key], "{key} of {read} and {asked}");
    }
}

#[test]
fn pyiceberg_reads_the_rows_that_weir_answers() {
    let test = "pyiceberg_reads_the_rows_that_weir_answers";
    if !can_run(test, "PyIceberg (cargo xtask setup)", python().is_file()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = serve("hub", &dir.path().join("data"));
    quiet(&mut command);
    let intake = free_address().to_string();
    command.env("WEIR_INTAKE_HTTP", &intake);
    let hub = Weir::start(command);
    post(&hub, &intake, 0..3000);
    let first = read(&hub);
    assert_eq!((&first["rows"], &first["later"]), (&json!(3000), &json!(0)));
    same(&first, &asked(&hub));
    // Four thousand of these are an hour later: the file before is not opened for them.
    post(&hub, &intake, 3600..7600);
    let second = read(&hub);
    assert_eq!((&second["rows"], &second["later"]), (&json!(7000), &json!(4000)));
    assert!(second["later_files"].as_u64() < second["files"].as_u64(), "{second}");
    same(&second, &asked(&hub));
    // Merged, in one file of that day.
    for part in 0..17 {
        post(&hub, &intake, 7600 + part * 10..7610 + part * 10);
    }
    wait_for("small files are merged", Duration::from_secs(120), || {
        (read(&hub)["files"].as_u64()? < 10).then_some(())
    });
    let third = read(&hub);
    assert_eq!(third["rows"], json!(7170));
    same(&third, &asked(&hub));
}

#[test]
fn pyiceberg_reads_the_same_through_each_hub_of_a_cluster() {
    let test = "pyiceberg_reads_the_same_through_each_hub_of_a_cluster";
    let bin = postgresql().filter(|_| is_root() && python().is_file());
    if !can_run(test, "PyIceberg (cargo xtask setup), PostgreSQL and root", bin.is_some()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let database = ManifestDatabase::start(&bin.expect("it was looked for"), dir.path());
    let (hubs, intakes) = two_hubs(dir.path(), &database);
    // Each hub has files of both, and metadata where all have their files.
    let check = |rows: u64, files: std::ops::Range<u64>| {
        for hub in &hubs {
            wait_for("the files of the other hub", Duration::from_secs(120), || {
                let found = read(hub);
                let is_all = found["rows"] == json!(rows);
                (is_all && files.contains(&found["files"].as_u64()?)).then_some(())
            });
            same(&read(hub), &asked(hub));
            let url = "/iceberg/v1/namespaces/weir/tables/log";
            let place = hub.get(url)["metadata-location"].to_string();
            let shared = dir.path().join("files/iceberg/log").display().to_string();
            assert!(place.contains(&shared), "{place}");
        }
    };
    post(&hubs[0], &intakes[0], 0..3000);
    post(&hubs[1], &intakes[1], 3600..7600);
    check(7000, 2..3);
    for part in 0..17 {
        let (at, first) = (usize::from(part % 2 == 1), 7600 + part * 10);
        post(&hubs[at], &intakes[at], first..first + 10);
    }
    check(7170, 1..10);
}

#[test]
fn catalog_says_no_in_its_own_words() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = serve("hub", &dir.path().join("data"));
    quiet(&mut command);
    let hub = Weir::start(command);
    let ask = |method: &str, path: &str| {
        let (status, _, body) = request(&hub.url, method, path, &[], "");
        let body: Value = serde_json::from_str(&body).unwrap_or_default();
        (status, body["error"]["type"].as_str().unwrap_or_default().to_owned(), body)
    };
    let namespaces = "/iceberg/v1/namespaces";
    let (status, kind, told) = ask("GET", &format!("{namespaces}/weir/tables/nothing"));
    assert_eq!((status, &*kind), (404, "NoSuchTableException"), "{told}");
    // The request that Spark sends about the files of `log`.
    let (status, kind, told) = ask("GET", &format!("{namespaces}/weir%1Flog/tables/files"));
    assert_eq!((status, &*kind), (404, "NoSuchTableException"), "{told}");
    let words = told["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(words, "there is no table `files` in `weir.log`");
    let (status, kind, told) = ask("GET", &format!("{namespaces}/other/tables"));
    assert_eq!((status, &*kind), (404, "NoSuchNamespaceException"), "{told}");
    for (method, path) in
        [("POST", "/weir/tables"), ("DELETE", "/weir/tables/request"), ("POST", "")]
    {
        let (status, kind, told) = ask(method, &format!("{namespaces}{path}"));
        assert_eq!((status, &*kind), (405, "UnsupportedOperationException"), "{told}");
        let words = told["error"]["message"].as_str().unwrap_or_default();
        assert!(words.ends_with("this catalog only reads"), "{told}");
    }
    assert_eq!(ask("HEAD", &format!("{namespaces}/weir/tables/request")).0, 204);
    assert_eq!(ask("GET", "/iceberg/v1/views").0, 404);
}
