//! `weir up`: starts fast, reports its sources, finds lines that are written, guards its port, ends
//! cleanly.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::harness::{Weir, quiet, request, serve, wait_for};

#[test]
fn page_and_status_answer_and_lines_are_found_and_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    std::fs::write(&log, "first line\n").expect("it can be written");
    let started = Instant::now();
    let weir = start_up(dir.path());
    let (status, head, page) = request(&weir.url, "GET", "/", &[], "");
    println!("first page after {:?}", started.elapsed());
    assert_eq!(status, 200);
    assert!(page.contains("<html"), "{page}");
    assert!(head.contains("content-security-policy: default-src 'self'"), "{head}");
    assert!(
        weir.greeting.contains("app.log") || weir.greeting.contains("*.log"),
        "{}",
        weir.greeting
    );

    let count = "select count(*) from log where source like '%app.log'";
    wait_for("the first line", Duration::from_secs(10), || (weir.number(count) == 1).then_some(()));
    let mut file = OpenOptions::new().append(true).open(&log).expect("it is there");
    writeln!(file, "second line").expect("it can be written");
    wait_for("the second line", Duration::from_secs(5), || (weir.number(count) == 2).then_some(()));

    // The tailer publishes where it stands once a second.
    let status = wait_for("the log's status", Duration::from_secs(10), || {
        let status = weir.get("/api/status");
        status["log_sources"][0].is_object().then_some(status)
    });
    assert_eq!(status["role"], "up");
    let source = &status["log_sources"][0];
    assert_eq!(source["program"], "other", "{status}");
    assert_eq!(source["error"], serde_json::Value::Null, "{status}");
    assert_eq!(weir.number("select count(*) from log where source = 'weir:heartbeat'"), 1);

    assert_eq!(weir.terminate(), Some(0));
    let again = start_up(dir.path());
    assert_eq!(again.number(count), 2, "rows and positions are kept");
    assert_eq!(again.terminate(), Some(0));
}

fn start_up(dir: &Path) -> Weir {
    let mut command = serve("up", &dir.join("data"));
    command.arg("--tail").arg(dir.join("*.log"));
    quiet(&mut command);
    Weir::start(command)
}

#[test]
fn the_host_is_sampled_once_a_second() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = serve("up", &dir.path().join("data"));
    command.env("WEIR_COLLECT_FIND_LOGS", "false");
    let weir = Weir::start(command);
    let samples = "select count(distinct ts) from tcp_stat";
    wait_for("three samples", Duration::from_secs(20), || {
        (weir.number(samples) >= 3).then_some(())
    });
    let own = format!(
        "select count(*) from listener where server_port = {} and process_id = {}",
        weir.url.rsplit_once(':').expect("a port").1,
        weir.id()
    );
    wait_for("weir's own listener", Duration::from_secs(10), || {
        (weir.number(&own) > 0).then_some(())
    });
    let failures = weir.rows("select collector, error from collector_run where not is_success");
    if super::harness::is_root() {
        println!("collectors that failed: {failures:?}");
    }
    let stages = "select count(*) from collector_run where collector = 'store'";
    wait_for("weir's own figures", Duration::from_secs(20), || {
        (weir.number(stages) > 0).then_some(())
    });
    let metrics = request(&weir.url, "GET", "/metrics", &[], "").2;
    assert!(metrics.contains("\nweir_rows_total "), "{metrics}");
    assert_eq!(weir.terminate(), Some(0));
}

#[test]
fn foreign_names_forms_and_scripts_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = serve("hub", dir.path());
    quiet(&mut command);
    let weir = Weir::start(command);
    let json = ("content-type", "application/json");
    let sql = "{\"sql\": \"select 1\"}";
    let ask = |headers: &[(&str, &str)]| request(&weir.url, "POST", "/api/sql", headers, sql).0;
    assert_eq!(ask(&[json]), 200);
    assert_eq!(ask(&[json, ("host", "evil.example:4770")]), 421);
    assert_eq!(ask(&[json, ("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(ask(&[("content-type", "text/plain")]), 415);
    assert_eq!(ask(&[("content-type", "application/x-www-form-urlencoded")]), 415);
    let get = |path: &str| request(&weir.url, "GET", path, &[], "").0;
    assert_eq!(get("/healthz"), 200);
    assert_eq!(get("/api/findings/nothing"), 404);
    assert_eq!(get("/../../etc/passwd"), 404);
    assert_eq!(get("/api/findings?state=some"), 400);
    assert_eq!(get("/api/sql?q=select%201"), 200);
    let query = |headers: &[(&str, &str)]| {
        request(&weir.url, "GET", "/api/sql?q=select%201", headers, "").0
    };
    let frame = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    assert_eq!(query(&frame), 403, "a frame of another site");
    assert_eq!(query(&[("sec-fetch-site", "same-site")]), 403, "another port of this host");
    assert_eq!(query(&[("user-agent", "Mozilla/5.0")]), 403, "a browser that does not say where");
    assert_eq!(query(&[("sec-fetch-site", "none")]), 200, "typed by hand");
    assert_eq!(ask(&[json, ("origin", "http://evil.example")]), 403);
    assert_eq!(ask(&[json, ("origin", weir.url.as_str())]), 200);
}

#[test]
fn other_accounts_of_the_host_need_a_login_and_get_what_it_is_for() {
    use std::os::unix::process::CommandExt;
    let test = "other_accounts_of_the_host_need_a_login_and_get_what_it_is_for";
    if !super::harness::can_run(test, "root", super::harness::is_root()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (config, secret) = (dir.path().join("weir.toml"), dir.path().join("grafana"));
    std::fs::write(&secret, "only-for-the-dashboards\n").expect("room for it");
    let entry = format!("[[logins]]\nname = \"grafana\"\ntoken_file = \"{}\"\n", secret.display());
    std::fs::write(&config, entry).expect("room for it");
    let data = dir.path().join("data");
    let mut command = serve("hub", &data);
    quiet(&mut command);
    command.arg("--config").arg(&config);
    let weir = Weir::start(command);
    let json = ("content-type", "application/json");
    let (flush, sql) = ("/api/store/flush", "/api/sql");
    assert_eq!(request(&weir.url, "POST", flush, &[json], "{}").0, 200, "root");
    let proxied = [json, ("x-forwarded-for", "192.0.2.1")];
    assert_eq!(request(&weir.url, "POST", flush, &proxied, "{}").0, 401, "a proxy of root");
    let nobody = |path: &str, body: &str, login: &str| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-d", body]);
        curl.args(["-H", "content-type: application/json"]).arg(format!("{}{path}", weir.url));
        if !login.is_empty() {
            curl.args(["-u", &format!("someone:{login}")]);
        }
        let answer = curl.uid(65534).output().expect("curl is installed");
        String::from_utf8(answer.stdout).expect("digits")
    };
    let query = "{\"sql\": \"select 1\"}";
    let made = std::fs::read_to_string(data.join("login")).expect("made at the first start");
    for (login, may_read, may_change) in [
        ("", "401", "401"),
        ("not-one-of-the-logins", "401", "401"),
        ("only-for-the-dashboards", "200", "403"),
        (made.trim(), "200", "200"),
    ] {
        assert_eq!(nobody(sql, query, login), may_read, "{login}");
        assert_eq!(nobody(flush, "{}", login), may_change, "{login}");
    }
}

/// As in grafana/grafana#56161: the author of a silence is free text without a personal login only.
#[test]
fn owner_of_a_login_acts_and_is_counted_under_no_other_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let (config, token) = (dir.path().join("weir.toml"), dir.path().join("ada"));
    std::fs::write(&token, "the-login-of-ada\n").expect("it can be written");
    let entry = "[[logins]]\nname = \"ada\"\nscopes = [\"read\", \"judge\"]\ntoken_file";
    std::fs::write(&config, format!("{entry} = \"{}\"\n", token.display())).expect("room for it");
    let mut command = serve("hub", &dir.path().join("data"));
    quiet(&mut command);
    command.arg("--config").arg(&config).env("WEIR_API_SLOW_QUERY_MILLISECONDS", "0");
    let weir = Weir::start(command);
    // `bob:the-login-of-ada`
    let login = ("authorization", "Basic Ym9iOnRoZS1sb2dpbi1vZi1hZGE=");
    let headers = [("content-type", "application/json"), login];
    let body = "{\"rule\": \"disk.*\", \"reason\": \"a disk is replaced\", \"by\": \"bob\"}";
    let (status, _, silence) = request(&weir.url, "POST", "/api/silences", &headers, body);
    assert!(status == 200 && silence.contains("\"by\":\"ada\""), "{status}: {silence}");
    let sql = "{\"sql\": \"select distinct user_name from slow_query\"}";
    wait_for("the query as a row", Duration::from_secs(20), || {
        let (_, _, users) = request(&weir.url, "POST", "/api/sql", &headers, sql);
        assert!(!users.contains("bob"), "{users}");
        users.contains("ada").then_some(())
    });
}

#[test]
fn a_login_is_asked_for_when_there_is_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let token = dir.path().join("token");
    std::fs::write(&token, "a-long-enough-login\n").expect("it can be written");
    let mut command = serve("hub", &dir.path().join("data"));
    command.env("WEIR_API_TOKEN_FILE", &token);
    quiet(&mut command);
    let weir = Weir::start(command);
    let get = |path: &str, login: &str| {
        request(&weir.url, "GET", path, &[("authorization", login)], "").0
    };
    assert_eq!(request(&weir.url, "GET", "/", &[], "").0, 401);
    assert_eq!(get("/api/status", "Bearer wrong"), 401);
    assert_eq!(get("/api/status", "Bearer a-long-enough-login"), 200);
    assert_eq!(get("/", "Basic dTphLWxvbmctZW5vdWdoLWxvZ2lu"), 200);
    assert_eq!(request(&weir.url, "GET", "/healthz", &[], "").0, 200, "probes need no login");
}

#[test]
fn a_client_that_never_ends_its_request_is_sent_away() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = serve("hub", dir.path());
    quiet(&mut command);
    let weir = Weir::start(command);
    let address = weir.url.trim_start_matches("http://");
    let half = ["", "GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: "];
    let slow: Vec<std::net::TcpStream> = half
        .iter()
        .map(|head| {
            let mut stream = std::net::TcpStream::connect(address).expect("it listens");
            stream.set_read_timeout(Some(Duration::from_secs(30))).expect("an option");
            Write::write_all(&mut stream, head.as_bytes()).expect("it is connected");
            stream
        })
        .collect();
    for mut stream in slow {
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut rest)
            .expect("closed, not waited for for ever");
    }
    assert_eq!(request(&weir.url, "GET", "/healthz", &[], "").0, 200, "the others are served");
}
