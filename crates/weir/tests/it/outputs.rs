//! Outputs against real targets, with kills of weir and targets that are down meanwhile: rows out
//! are rows in.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::harness::{
    EndedProcess, Weir, can_run, free_port, quiet, request, serve, text, try_rows, wait_for, weir,
};

/// How long rows may take to be copied, on a loaded machine.
pub(super) const ARRIVAL: Duration = Duration::from_secs(120);

/// A hub that takes JSON lines and has outputs.
pub(super) struct OutputHub {
    dir: tempfile::TempDir,
    intake: u16,
}

impl OutputHub {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), intake: free_port() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, outputs: &str) -> Command {
        let config = self.path("weir.toml");
        std::fs::write(&config, outputs).expect("it can be written");
        let mut command = serve("hub", &self.path("data"));
        quiet(&mut command);
        command.arg("--config").arg(&config);
        command.env("WEIR_INTAKE_HTTP", format!("127.0.0.1:{}", self.intake));
        command
    }

    pub(super) fn start(&self, outputs: &str) -> Weir {
        Weir::start(self.command(outputs))
    }

    /// Lines `first..last`, in requests of at most 1000.
    pub(super) fn post(&self, numbers: std::ops::Range<usize>) {
        for from in numbers.clone().step_by(1000) {
            let to = (from + 1000).min(numbers.end);
            let line =
                |n| format!("{{\"message\":\"line {n}\",\"host\":\"web{}\",\"n\":{n}}}\n", n % 5);
            self.post_body(&(from..to).map(line).collect::<String>());
        }
    }

    pub(super) fn post_body(&self, body: &str) {
        let url = format!("http://127.0.0.1:{}", self.intake);
        let path = "/intake/jsonl?source=app";
        let (status, _, answer) = request(&url, "POST", path, &[], body);
        assert_eq!(status, 200, "{answer}");
    }
}

/// Rows that an output has reported as copied since the hub's start.
pub(super) fn copied(hub: &Weir, name: &str) -> u64 {
    let status = hub.get("/api/status");
    let outputs = status["outputs"].as_array().cloned().unwrap_or_default();
    let output = outputs.into_iter().find(|output| output["name"] == name);
    output.and_then(|output| output["rows"].as_u64()).expect("the output is shown")
}

pub(super) fn waits_for_its_target(hub: &Weir, name: &str) {
    wait_for("a failure that is shown", ARRIVAL, || {
        let (_, _, metrics) = request(&hub.url, "GET", "/metrics", &[], "");
        metrics.contains(&format!("weir_output_up{{output=\"{name}\"}} 0")).then_some(())
    });
}

#[test]
fn another_hub_gets_every_row_once_over_kills_of_both() {
    let target = OutputHub::new();
    let hub = OutputHub::new();
    let outputs = format!(
        "[[outputs]]\nname = \"search\"\nto = \"elasticsearch\"\nurl = \"http://127.0.0.1:{}\"\ntable = \"log\"\n\
         where = \"source = 'app' and body <> 'line 7'\"\nbatch_rows = 300\n",
        target.intake
    );
    let running = hub.start(&outputs);
    assert!(running.greeting.contains("search"), "{}", running.greeting);
    hub.post(0..2000);
    waits_for_its_target(&running, "search");
    let other = target.start("");
    wait_for("some rows", ARRIVAL, || (copied(&running, "search") > 0).then_some(()));
    running.kill();
    let running = hub.start(&outputs);
    hub.post(2000..4000);
    wait_for("more rows", ARRIVAL, || (copied(&running, "search") > 500).then_some(()));
    other.kill();
    hub.post(4000..5000);
    running.kill();
    let other = target.start("");
    let running = hub.start(&outputs);
    let sql = "select count(*), count(distinct body) from log where source like 'elasticsearch:weir-log-%'";
    wait_for("4999 rows", ARRIVAL, || {
        let rows = try_rows(&other.url, sql).ok()?;
        (rows[0][0].as_u64()? >= 4999).then_some(())
    });
    assert_eq!(other.rows(sql)[0], [4999, 4999]);
    let line = other.rows("select host, cast(ts as varchar) from log where body = 'line 3'");
    let own = running.rows("select host, cast(ts as varchar) from log where body = 'line 3'");
    assert_eq!(line, own, "host and time are those of the row");
    wait_for("rows of output_run", ARRIVAL, || {
        let sql = "select sum(rows), sum(rows_lost), sum(rows_refused) from output_run where output = 'search'";
        let rows = running.rows(sql);
        (rows[0][0].as_u64()? > 0).then(|| assert_eq!(rows[0][1..], [0, 0]))
    });
}

/// What a receiver of lines got: bodies by key, and how many requests.
#[derive(Default)]
pub(super) struct ReceivedRow {
    bodies: BTreeMap<String, String>,
    requests: usize,
}

/// A receiver that refuses the first requests and breaks off every fourth after it has taken it.
pub(super) fn receiver(listener: TcpListener, got: Arc<Mutex<ReceivedRow>>) {
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let got = Arc::clone(&got);
            std::thread::spawn(move || drop(serve_lines(&stream, &got)));
        }
    });
}

fn serve_lines(stream: &TcpStream, got: &Mutex<ReceivedRow>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut headers = BTreeMap::new();
        let mut line = String::new();
        reader.read_line(&mut line)?;
        assert!(line.is_empty() || line.starts_with("POST /rows?x=1 HTTP/1.1"), "{line}");
        loop {
            line.clear();
            if reader.read_line(&mut line)? <= 2 {
                break;
            }
            let (name, value) = line.trim().split_once(": ").expect("a header");
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let Some(length) = headers.get("content-length") else { return Ok(()) };
        let mut body = vec![0; length.parse().expect("a number")];
        reader.read_exact(&mut body)?;
        assert_eq!(headers["authorization"], "Bearer a-token-of-the-receiver");
        assert_eq!(headers["content-type"], "application/x-ndjson");
        let mut got = got.lock().expect("no panic");
        got.requests += 1;
        if got.requests <= 3 {
            (&*stream).write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy")?;
            continue;
        }
        let body = text(&body);
        let earlier = got.bodies.insert(headers["idempotency-key"].clone(), body.clone());
        assert!(earlier.is_none_or(|earlier| earlier == body), "one key, two bodies");
        if got.requests.is_multiple_of(4) {
            return Ok(());
        }
        (&*stream).write_all(b"HTTP/1.1 204 Fine\r\n\r\n")?;
    }
}

impl ReceivedRow {
    /// All lines that were taken, each once for each key.
    pub(super) fn lines(&self) -> Vec<Value> {
        let lines = self.bodies.values().flat_map(|body| body.lines());
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

#[test]
fn posted_lines_have_one_key_for_one_body_over_lost_answers_and_kills() {
    let hub = OutputHub::new();
    let token = hub.path("token");
    std::fs::write(&token, "a-token-of-the-receiver\n").expect("it can be written");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let outputs = format!(
        "[[outputs]]\nname = \"post\"\nto = \"http\"\nurl = \"http://{address}/rows?x=1\"\ntable = \"log\"\n\
         where = \"source = 'app'\"\ncolumns = [\"ts\", \"host\", \"body\"]\nbatch_rows = 100\ntoken_file = \"{}\"\n",
        token.display()
    );
    let got = Arc::new(Mutex::new(ReceivedRow::default()));
    receiver(listener, Arc::clone(&got));
    for round in 0..3 {
        let running = hub.start(&outputs);
        hub.post(round * 500..round * 500 + 500);
        wait_for("some rows", ARRIVAL, || (copied(&running, "post") >= 200).then_some(()));
        running.kill();
    }
    let running = hub.start(&outputs);
    let lines = || got.lock().expect("no panic").lines();
    wait_for("1500 lines", ARRIVAL, || (lines().len() >= 1500).then_some(()));
    let lines = lines();
    let bodies: BTreeSet<&str> = lines.iter().filter_map(|line| line["body"].as_str()).collect();
    assert_eq!((lines.len(), bodies.len()), (1500, 1500));
    for line in &lines {
        let keys: Vec<&String> = line.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["body", "host", "ts"]);
        assert!(line["ts"].as_str().expect("a text").ends_with('Z'));
    }
    assert_eq!(running.terminate(), Some(0));
}

/// A service that speaks S3.
pub(super) fn moto(port: u16) -> Option<EndedProcess> {
    let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python/bin");
    if !can_run("objects", "moto (cargo xtask setup)", packages.join("moto_server").is_file()) {
        return None;
    }
    // The script names the interpreter by the path of its installation, which may have moved.
    let mut command = Command::new(packages.join("python"));
    command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Some(EndedProcess(command.spawn().expect("moto starts")))
}

/// Names of all objects of the bucket that end so.
fn objects(service: &str, end: &str) -> Vec<String> {
    let (_, _, list) = request(service, "GET", "/rows?list-type=2", &[], "");
    let keys = list.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
    keys.map(|(key, _)| key.to_owned()).filter(|key| key.ends_with(end)).collect()
}

#[test]
fn objects_hold_every_row_once_over_kills_and_a_service_that_comes_late() {
    let port = free_port();
    let service = format!("http://127.0.0.1:{port}");
    let hub = OutputHub::new();
    let secret = hub.path("secret");
    std::fs::write(&secret, "secret\n").expect("it can be written");
    let output = |name: &str, format: &str| {
        format!(
            "[[outputs]]\nname = \"{name}\"\nto = \"s3\"\nurl = \"s3://rows/copies\"\nendpoint = \"{service}\"\nregion = \"us-east-1\"\n\
             user = \"key\"\npassword_file = \"{}\"\ntable = \"log\"\nwhere = \"source = 'app'\"\nformat = \"{format}\"\n\
             batch_rows = 700\nbatch_seconds = 1\n",
            secret.display()
        )
    };
    let outputs = output("lines", "jsonl") + &output("lake", "parquet");
    let running = hub.start(&outputs);
    hub.post(0..2000);
    waits_for_its_target(&running, "lines");
    running.kill();
    let Some(_moto) = moto(port) else { return };
    // Not checked there, but without it objects are not readable.
    let login = [(
        "authorization",
        "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0",
    )];
    wait_for("moto", ARRIVAL, || {
        (request(&service, "PUT", "/rows", &[], "").0 == 200).then_some(())
    });
    let running = hub.start(&outputs);
    wait_for("an object", ARRIVAL, || (!objects(&service, ".jsonl").is_empty()).then_some(()));
    running.kill();
    let _running = hub.start(&outputs);
    hub.post(2000..3000);
    let lines = || {
        let mut lines = Vec::new();
        for key in objects(&service, ".jsonl") {
            assert!(key.starts_with("copies/log/date=2"), "{key}");
            let (status, _, body) = request(&service, "GET", &format!("/rows/{key}"), &login, "");
            assert_eq!(status, 200, "{body}");
            lines.extend(
                body.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")),
            );
        }
        lines
    };
    let all = wait_for("3000 lines", ARRIVAL, || Some(lines()).filter(|lines| lines.len() >= 3000));
    let bodies: BTreeSet<&str> = all.iter().filter_map(|line| line["body"].as_str()).collect();
    assert_eq!((all.len(), bodies.len()), (3000, 3000));
    wait_for("the other format", ARRIVAL, || {
        (objects(&service, ".parquet").len() >= 5).then_some(())
    });
    let (_, _, file) = request(
        &service,
        "GET",
        &format!("/rows/{}", objects(&service, ".parquet")[0]),
        &login,
        "",
    );
    assert!(file.starts_with("PAR1") && file.ends_with("PAR1"));
}

#[test]
fn rows_beyond_what_may_wait_are_given_up_counted_and_reported() {
    let hub = OutputHub::new();
    let outputs = format!(
        "[[outputs]]\nname = \"dead\"\nto = \"http\"\nurl = \"http://127.0.0.1:{}/\"\ntable = \"log\"\nwhere = \"source = 'app'\"\n\
         keep_bytes = 1048576\n",
        free_port()
    );
    let running = hub.start(&outputs);
    hub.post(0..20_000);
    let lost = "select sum(rows_lost) from output_run where output = 'dead'";
    let count = wait_for("rows that are given up", ARRIVAL, || {
        running.rows(lost)[0][0].as_u64().filter(|count| *count > 0)
    });
    assert!(count < 20_000, "what may wait is kept");
    assert_eq!(running.rows("select count(*) from log where source = 'app'")[0], [20_000]);
    let finding =
        wait_for("a finding", ARRIVAL, || running.findings("weir.output_lag").into_iter().next());
    assert!(
        finding["summary"].as_str().expect("a text").contains("rows were dropped"),
        "{finding}"
    );
}

#[test]
fn outputs_that_make_no_sense_are_refused_with_place_and_hint() {
    let hub = OutputHub::new();
    let es = "[[outputs]]\nname = \"a\"\nto = \"elasticsearch\"\nurl = \"http://127.0.0.1:1\"\ntable = \"log\"\n";
    let missing = hub.path("missing").display().to_string();
    for (config, part, hint) in [
        (
            es.replace("\"log\"", "\"logs\""),
            "weir.toml:5: there is no table `logs`",
            "did you mean `log`?",
        ),
        (
            es.replace("elasticsearch", "elastic"),
            "weir.toml:3: rows cannot be copied to `elastic`",
            "elasticsearch",
        ),
        (
            format!("{es}columns = [\"bodi\"]\n"),
            "weir.toml:6: the table `log` has no column `bodi`",
            "did you mean `body`?",
        ),
        (
            format!("{es}where = \"severty = 'error'\"\n"),
            "weir.toml:6: output `a`: there is no column `severty`",
            "did you mean `severity`?",
        ),
        (
            format!("{es}where = \"severity = \"\n"),
            "weir.toml:6: output `a`: cannot read the SQL",
            "",
        ),
        (format!("{es}where = \"ts > now()\"\n"), "`now`, which changes by itself", "constants"),
        (format!("{es}where = \"body\"\n"), "`body` is not a condition", "true or false"),
        (
            format!("{es}topic = \"x\"\n"),
            "weir.toml:6: `topic` is for kafka, not for elasticsearch",
            "",
        ),
        (
            format!("{es}batch_row = 5\n"),
            "weir.toml:6: unknown key `outputs.batch_row`",
            "did you mean `batch_rows`?",
        ),
        (
            format!("{es}batch_rows = \"5\"\n"),
            "weir.toml:6: `outputs.batch_rows` must be a whole number",
            "",
        ),
        (format!("{es}{es}"), "weir.toml:7: there are two outputs `a`", "position"),
        (format!("{es}token_file = \"{missing}\"\n"), "cannot read", "typing mistake"),
        (
            es.replace("http://", "http://me:secret@"),
            "weir.toml:4: `url` holds a login",
            "password_file",
        ),
        (
            es.replace("http://127.0.0.1:1", "127.0.0.1:1"),
            "weir.toml:4: `127.0.0.1:1` is not an address",
            "https://",
        ),
        ("[outputs]\nname = \"a\"\n".into(), "`outputs` is not a list of tables", "[[outputs]]"),
    ] {
        let output =
            hub.command(&config).stdin(Stdio::null()).output().expect("weir can be started");
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{config}: {complaint}");
        assert!(complaint.contains(part) && complaint.contains(hint), "{config}: {complaint}");
        assert!(!complaint.contains("secret@"), "{complaint}");
    }
}

#[test]
fn a_wrong_login_is_shown_and_no_row_is_dropped() {
    let target = OutputHub::new();
    let hub = OutputHub::new();
    let (right, wrong) = (target.path("right"), hub.path("wrong"));
    std::fs::write(&right, "the-right-token-0000\n").expect("it can be written");
    std::fs::write(&wrong, "the-wrong-token-0000\n").expect("it can be written");
    let mut command = target.command("");
    command.env("WEIR_INTAKE_TOKEN_FILE", &right);
    let other = Weir::start(command);
    let outputs = format!(
        "[[outputs]]\nname = \"search\"\nto = \"elasticsearch\"\nurl = \"http://127.0.0.1:{}\"\ntable = \"log\"\n\
         where = \"source = 'app'\"\ntoken_file = \"{}\"\n",
        target.intake,
        wrong.display()
    );
    let running = hub.start(&outputs);
    hub.post(0..100);
    waits_for_its_target(&running, "search");
    let status = running.get("/api/status");
    let error = status["outputs"][0]["error"].as_str().expect("a failure").to_owned();
    assert!(error.contains("401") && error.contains("token_file"), "{error}");
    assert_eq!(running.terminate(), Some(0));
    std::fs::write(&wrong, "the-right-token-0000\n").expect("it can be written");
    let running = hub.start(&outputs);
    wait_for("100 rows", ARRIVAL, || {
        (other.number("select count(*) from log where source like 'elasticsearch:%'") == 100)
            .then_some(())
    });
    drop(running);
}

#[test]
fn entries_are_shown_with_their_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("weir.toml");
    let config = "[[logs]]\npath = \"/a.log\"\nmultiline = { start = '^x', max_lines = 5 }\n\n[[outputs]]\nname = \"post\"\nto = \"http\"\n\
        url = \"http://web1/\"\ntable = \"log\"\n\n[[scrape]]\nname = \"node\"\nurl = \"http://web1:9100/metrics\"\nlabels = { zone = \"a\" }\n";
    std::fs::write(&path, config).expect("it can be written");
    let path = path.display().to_string();
    let shown = text(&weir(&["config", "--config", &path]).stdout);
    for (key, value, line) in [
        ("logs[0].path", "\"/a.log\"", 1),
        ("logs[0].multiline", "max_lines = 5", 1),
        ("outputs[0].url", "\"http://web1/\"", 5),
        ("scrape[0].labels", "{ zone = \"a\" }", 11),
    ] {
        let found = shown.lines().find(|shown| shown.starts_with(key)).expect(key);
        assert!(found.contains(value) && found.ends_with(&format!("weir.toml:{line}")), "{found}");
    }
    let toml = text(&weir(&["config", "--config", &path, "--format", "toml"]).stdout);
    let again = dir.path().join("again.toml");
    std::fs::write(&again, &toml).expect("it can be written");
    let again = text(&weir(&["config", "--config", &again.display().to_string()]).stdout);
    assert_eq!(values_of(&again), values_of(&shown), "what it prints can be read again");
    let json: Value =
        serde_json::from_slice(&weir(&["config", "--config", &path, "--format", "json"]).stdout)
            .expect("JSON");
    let keys = json.as_array().expect("a list").iter();
    assert!(
        keys.filter(|key| key["key"] == "scrape[0].labels").all(|key| key["value"]["zone"] == "a")
    );
}

fn values_of(text: &str) -> Vec<String> {
    let entries =
        text.lines().filter(|line| line.contains("].")).map(|line| line.rsplit_once("  "));
    entries.map(|parts| parts.expect("three columns").0.trim_end().to_owned()).collect()
}
