//! An edge is changed, cloned and replaced while it serves.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::edge::{
    BackendServers, address_of, assert_only_serving_threads_interrupt, edge, weir_of,
};
use crate::harness::{Weir, can_run, free_address, pause, request, text, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn another_weir_takes_the_place_under_load_and_nothing_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let backends = BackendServers::start(dir.path(), 2);
    if !can_run("edge replace", "nginx", backends.is_some()) {
        return;
    }
    let backends = backends.expect("it runs");
    let (listen, data) = (free_address().to_string(), dir.path().join("data"));
    let named = backends.ports.iter().map(|port| format!("127.0.0.1:{port}"));
    let named: Vec<String> = named.flat_map(|one| ["--backend".to_owned(), one]).collect();
    let mut args = vec!["--listen", &listen];
    args.extend(named.iter().map(String::as_str));
    let mut weir = Weir::start(edge(&data, &args));
    let load = |connections: &str, path: &str, head: &str| {
        let mut command = Command::new("wrk");
        command.args(["--threads", "1", "--duration", "12s", "--connections", connections]);
        if !head.is_empty() {
            command.args(["--header", head]);
        }
        command.arg(format!("http://{listen}{path}"));
        let started = command.stdout(Stdio::piped()).spawn();
        started.expect("wrk is installed by `cargo xtask test`")
    };
    // Connections that stay, and one for each request.
    let loads = [load("8", "/kept", ""), load("8", "/new", "Connection: close")];
    for _ in 0..2 {
        pause(Duration::from_millis(1500));
        let mut args = args.clone();
        args.push("--replace");
        let next = Weir::start(edge(&data, &args));
        let old = std::mem::replace(&mut weir, next);
        assert_eq!(old.wait(), Some(0), "the old one ends by itself");
    }
    assert_only_serving_threads_interrupt(&weir);
    for (load, path) in loads.into_iter().zip(["/kept", "/new"]) {
        let said = text(&load.wait_with_output().expect("it ends").stdout);
        assert_unbroken(&said);
        let requests = requests_of(&said);
        assert!(requests > 100, "{said}");
        // wrk breaks off what is under way at its end: at most one request a connection.
        let sql =
            format!("select count(*) from request where tier = 'edge' and url_path = '{path}'");
        let rows = wait_for("the rows", PATIENCE, || {
            Some(weir.number(&sql)).filter(|rows| *rows >= requests)
        });
        assert!(rows <= requests + 8, "{rows} rows of {requests} requests to {path}");
        let failed = "and failure is not null and failure <> 'client_closed'";
        assert_eq!(weir.number(&format!("{sql} {failed}")), 0);
    }
    assert_eq!(weir.terminate(), Some(0));
}

/// Nothing was refused, broken or failed; a machine that is slow is no failure.
fn assert_unbroken(said: &str) {
    let errors = said.lines().find(|line| line.trim().starts_with("Socket errors"));
    let is_whole = errors.is_none_or(|line| line.contains("connect 0, read 0, write 0"));
    assert!(is_whole && !said.contains("Non-2xx"), "{said}");
}

fn requests_of(said: &str) -> i64 {
    let line = said.lines().find_map(|line| line.trim().split_once(" requests in "));
    line.and_then(|(count, _)| count.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn a_change_under_load_loses_no_request() {
    let dir = tempfile::tempdir().expect("a directory");
    let backends = BackendServers::start(dir.path(), 2);
    if !can_run("edge change", "nginx", backends.is_some()) {
        return;
    }
    let backends = backends.expect("it runs");
    let data = dir.path().join("data");
    let first = format!("127.0.0.1:{}", backends.ports[0]);
    let weir =
        Weir::start(edge(&data, &["--listen", &free_address().to_string(), "--backend", &first]));
    let address = address_of(&weir);
    let load = Command::new("wrk")
        .args(["--threads", "1", "--duration", "4s", "--connections", "8"])
        .arg(format!("http://{address}/"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("wrk is installed by `cargo xtask test`");
    let file = dir.path().join("change.toml");
    let change = |backlog: usize| {
        let port = backends.ports[backlog % 2];
        let text = format!(
            "[edge]\nlisten = [\"{address}\"]\nbackends = [\"127.0.0.1:{port}\"]\nbacklog = {backlog}\n\
             listener_idle_seconds = [\"{address}=7\"]\n"
        );
        std::fs::write(&file, text).expect("a directory");
        let (file, data) = (file.display().to_string(), data.display().to_string());
        weir_of(&["edge", "change", &file, "--data", &data])
    };
    for backlog in 501..509 {
        let said = change(backlog);
        assert!(
            said.contains(&format!("+ backend 127.0.0.1:{}", backends.ports[backlog % 2])),
            "{said}"
        );
    }
    let said = text(&load.wait_with_output().expect("it ends").stdout);
    assert_unbroken(&said);
    assert!(requests_of(&said) > 100, "{said}");
}

#[test]
fn an_edge_is_shown_changed_and_cloned_by_commands() {
    let dir = tempfile::tempdir().expect("a directory");
    let backends = BackendServers::start(dir.path(), 2);
    if !can_run("edge commands", "nginx", backends.is_some()) {
        return;
    }
    let backends = backends.expect("it runs");
    let [first, second] = [0, 1].map(|at| format!("127.0.0.1:{}", backends.ports[at]));
    let one = start_edge(dir.path(), "one", &["--backend", &first, "--backend", &second]);
    let url = format!("http://{}", address_of(&one));
    for _ in 0..8 {
        assert!(answer_of(&url).starts_with("hello"));
    }
    let shown = tell_edge(dir.path(), "one", &["show"]);
    assert!(shown.contains("LISTENER") && shown.contains(&format!("{first}        up")), "{shown}");
    let said = tell_edge(dir.path(), "one", &["weight", &first, "0"]);
    assert!(said.contains(&format!("+ backend {first} weight 0")), "{said}");
    for _ in 0..8 {
        assert_eq!(answer_of(&url), format!("hello from {}\n", backends.ports[1]));
    }
    let said = tell_edge(dir.path(), "one", &["weight", "127.0.0.1:1", "0"]);
    assert!(said.contains("there is no such backend\nhint: `weir edge show`"), "{said}");
    let wrong = dir.path().join("wrong.toml");
    std::fs::write(&wrong, "[edge]\nbalanse = \"hash\"\n").expect("a directory");
    let said = tell_edge(dir.path(), "one", &["change", &wrong.display().to_string()]);
    assert!(
        said.contains("unknown key `edge.balanse`\nhint: did you mean `edge.balance`"),
        "{said}"
    );
    std::fs::write(&wrong, "[api]\nlisten = \"0.0.0.0:1\"\n").expect("a directory");
    let said = tell_edge(dir.path(), "one", &["change", &wrong.display().to_string()]);
    assert!(said.contains("cannot change `api.listen` while weir runs"), "{said}");

    let exported = tell_edge(dir.path(), "one", &["export"]);
    let known: Value = serde_json::from_str(&exported).expect("JSON");
    assert!(known["backends"][1]["latency_seconds"].as_f64().expect("a number") > 0.0, "{known}");
    let file = dir.path().join("edge.json");
    std::fs::write(&file, &exported).expect("a directory");
    let file = file.display().to_string();
    let two = start_edge(dir.path(), "two", &["--beacon", "/b"]);
    let said = tell_edge(dir.path(), "two", &["apply", &file, "--dry-run"]);
    assert!(
        said.contains(&format!("+ backend {second} weight 1")) && said.contains("- beacon"),
        "{said}"
    );
    assert!(two.get("/api/edge")["backends"].as_array().expect("a list").is_empty());
    tell_edge(dir.path(), "two", &["apply", &file]);
    let state = two.get("/api/edge");
    assert_eq!(state["backends"][1]["latency_seconds"], known["backends"][1]["latency_seconds"]);
    assert_eq!(ticket_key(&tell_edge(dir.path(), "two", &["export"])), ticket_key(&exported));
    let said = tell_edge(dir.path(), "absent", &["show"]);
    assert!(
        said.contains("cannot reach an edge at") && said.contains("hint: no edge runs"),
        "{said}"
    );
}

fn answer_of(url: &str) -> String {
    request(url, "GET", "/", &[], "").2
}

fn data_of(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

fn tell_edge(dir: &Path, name: &str, args: &[&str]) -> String {
    let (mut all, data) = (vec!["edge"], data_of(dir, name));
    all.extend(args);
    all.extend(["--data", &data]);
    weir_of(&all)
}

fn start_edge(dir: &Path, name: &str, args: &[&str]) -> Weir {
    let mut all = vec!["--listen", "127.0.0.1:0"];
    all.extend(args);
    Weir::start(edge(dir.join(name).as_path(), &all))
}

fn ticket_key(text: &str) -> Value {
    let value: Value = serde_json::from_str(text).expect("JSON");
    value["ticket_keys"][0]["name"].clone()
}

#[test]
fn the_pages_api_changes_an_edge_only_with_a_login_or_for_its_own_user() {
    let dir = tempfile::tempdir().expect("a directory");
    let token = dir.path().join("token");
    std::fs::write(&token, "a-login-of-enough-letters\n").expect("a directory");
    let body = json!({"backend": "127.0.0.1:1", "weight": 0}).to_string();
    let kind = ("content-type", "application/json");
    let open = edge_with(dir.path(), "open", false);
    let (status, _, said) = request(&open.url, "POST", "/api/edge/backend", &[kind], &body);
    assert_eq!(status, 200, "this test is of the edge's own user: {said}");
    assert_eq!(open.get("/api/edge")["may_change"], true);
    let proxied = [kind, ("x-forwarded-for", "192.0.2.1")];
    let (status, _, said) = request(&open.url, "POST", "/api/edge/backend", &proxied, &body);
    assert_eq!(status, 401, "{said}");
    let closed = edge_with(dir.path(), "closed", true);
    let (status, ..) = request(&closed.url, "POST", "/api/edge/backend", &[kind], &body);
    assert_eq!(status, 401);
    let login = ("authorization", "Bearer a-login-of-enough-letters");
    let (status, _, said) =
        request(&closed.url, "POST", "/api/edge/backend", &[kind, login], &body);
    assert_eq!(status, 200, "{said}");
    assert!(said.contains("+ backend 127.0.0.1:1 weight 0"), "{said}");
    let text = "[edge]\nlisten = [\"127.0.0.1:0\"]\nbeacon = \"/b\"\n";
    let put = |path: &str| request(&closed.url, "PUT", path, &[login], text);
    let (status, _, said) = put("/api/edge/config?dry_run=true");
    assert!(status == 200 && said.contains("- backend"), "{said}");
    let (_, _, config) = request(&closed.url, "GET", "/api/edge/config", &[login], "");
    assert!(config.contains("backends = [\"127.0.0.1:1*0\"]"), "{config}");
    assert_eq!(put("/api/edge/config").0, 200);
    let (_, _, config) = request(&closed.url, "GET", "/api/edge/config", &[login], "");
    assert_eq!(config, text);
}

fn edge_with(dir: &Path, name: &str, has_login: bool) -> Weir {
    let args = ["--listen", "127.0.0.1:0", "--backend", "127.0.0.1:1"];
    let mut command = edge(&dir.join(name), &args);
    if has_login {
        command.env("WEIR_API_TOKEN_FILE", dir.join("token"));
    }
    Weir::start(command)
}
