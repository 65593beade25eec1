//! Scraping: real exporters become rows of `metric`, and targets that give nothing are seen as
//! down.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::harness::{
    EndedProcess, Weir, can_run, free_port, quiet, serve, text, try_rows, wait_for,
};

const ARRIVAL: Duration = Duration::from_secs(60);

fn hub(dir: &std::path::Path, config: &str) -> Command {
    let path = dir.join("weir.toml");
    std::fs::write(&path, config).expect("it can be written");
    let mut command = serve("hub", &dir.join("data"));
    quiet(&mut command);
    command.arg("--config").arg(path);
    command
}

/// Waits until `sql` answers true.
fn holds(hub: &Weir, sql: &str) {
    wait_for(sql, ARRIVAL, || (try_rows(&hub.url, sql).ok()?.first()?[0] == true).then_some(()));
}

#[test]
fn an_exporters_figures_are_those_that_it_serves_and_its_end_is_seen() {
    let has_exporter = ["/usr/bin", "/usr/local/bin"]
        .into_iter()
        .any(|dir: &str| std::path::Path::new(dir).join("prometheus-node-exporter").is_file());
    let how = "prometheus-node-exporter (apt-get install prometheus-node-exporter)";
    if !can_run("scrape", how, has_exporter) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let port = free_port();
    let mut command = Command::new("prometheus-node-exporter");
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let exporter = EndedProcess(command.spawn().expect("it starts"));
    let config = format!(
        "[[scrape]]\nname = \"node\"\nurl = \"http://127.0.0.1:{port}/metrics\"\ninterval_seconds = 1\nlabels = {{ host = \"web7\", zone = \"a\" }}\n"
    );
    let running = Weir::start(hub(dir.path(), &config));
    let own = "from metric where host = 'web7' and source = 'scrape' and labels['job'] = 'node' and labels['zone'] = 'a' \
        and labels['instance'] = '127.0.0.1:";
    let own = format!("{own}{port}'");
    holds(&running, &format!("select max(value) = 1 {own} and name = 'up'"));
    // By HTTP 1.0, so that the answer comes in one piece.
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("it reads");
    let mut served = String::new();
    stream.read_to_string(&mut served).expect("text");
    let total = served.lines().find_map(|line| line.strip_prefix("node_memory_MemTotal_bytes "));
    let total: f64 = total.expect("every exporter has it").parse().expect("a number");
    holds(
        &running,
        &format!(
            "select max(value) = {total:.0} {own} and name = 'node_memory_MemTotal_bytes' and kind = 'gauge'"
        ),
    );
    holds(
        &running,
        &format!(
            "select count(distinct labels['cpu']) > 0 {own} and name = 'node_cpu_seconds_total' and kind = 'counter'"
        ),
    );
    holds(&running, &format!("select max(value) > 100 {own} and name = 'scrape_samples_scraped'"));
    drop(exporter);
    holds(&running, &format!("select min(value) = 0 {own} and name = 'up'"));
    holds(
        &running,
        "select sum(batches) > 0 from intake_run where protocol = 'scrape' and outcome = 'refused' and reason = 'no_answer'",
    );
    assert_eq!(running.terminate(), Some(0));
}

/// Answers every request with the same text.
fn serves(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).to_lowercase();
            assert!(
                !head.contains("authorization") || head.contains("bearer a-token-for-metrics"),
                "{head}"
            );
            let length = answer.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
            let (first, rest) = answer.split_once("\r\n").expect("a head");
            let _ = write!(
                stream,
                "{first}\r\nconnection: close\r\ncontent-length: {length}\r\n{rest}"
            );
        }
    });
    port
}

#[test]
fn weirs_own_metrics_are_scraped_and_answers_without_sense_are_down_with_a_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let token = dir.path().join("token");
    std::fs::write(&token, "a-token-for-metrics\n").expect("it can be written");
    let first = Weir::start(hub(dir.path(), ""));
    let broken = serves("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nfine 1\n<html>\n");
    let refused = serves("HTTP/1.1 403 Forbidden\r\n\r\nno");
    let many = serves("HTTP/1.1 200 OK\r\n\r\na 1\nb 2\nc 3\n");
    let config = scrape_entry("weir", &format!("{}/metrics", first.url), "")
        + &scrape_entry(
            "broken",
            &at_port(broken),
            &format!("token_file = \"{}\"", token.display()),
        )
        + &scrape_entry("refused", &at_port(refused), "")
        + &scrape_entry("many", &at_port(many), "series = 2");
    let other = tempfile::tempdir().expect("a directory");
    let running = Weir::start(hub(other.path(), &config));
    holds(
        &running,
        "select max(value) = 1 from metric where name = 'up' and labels['job'] = 'weir' and host = 'testhost'",
    );
    holds(
        &running,
        "select count(*) > 0 from metric where name = 'weir_http_requests_total' and kind = 'counter' and value > 0",
    );
    for (name, reason) in
        [("broken", "invalid_text"), ("refused", "status"), ("many", "too_many_series")]
    {
        holds(
            &running,
            &format!(
                "select max(value) = 0 from metric where name = 'up' and labels['job'] = '{name}'"
            ),
        );
        holds(
            &running,
            &format!(
                "select sum(batches) > 0 from intake_run where protocol = 'scrape' and reason = '{reason}'"
            ),
        );
    }
    holds(&running, "select count(*) = 0 from metric where name in ('fine', 'a', 'b', 'c')");
}

fn scrape_entry(name: &str, url: &str, more: &str) -> String {
    format!("[[scrape]]\nname = \"{name}\"\nurl = \"{url}\"\ninterval_seconds = 1\n{more}\n")
}

fn at_port(port: u16) -> String {
    format!("http://127.0.0.1:{port}/metrics")
}

#[test]
fn targets_that_make_no_sense_are_refused_with_place_and_hint() {
    let dir = tempfile::tempdir().expect("a directory");
    let good = "[[scrape]]\nname = \"a\"\nurl = \"http://web1:9100/metrics\"\n";
    for (config, part, hint) in [
        (
            good.replace("http://", ""),
            "weir.toml:3: `web1:9100/metrics` is not a URL",
            "http://web1:9100/metrics",
        ),
        (
            format!("{good}interval = 5\n"),
            "weir.toml:4: unknown key `scrape.interval`",
            "interval_seconds",
        ),
        (
            format!("{good}timeout_seconds = 60\n"),
            "weir.toml:4: `timeout_seconds` must be from 1 to 15",
            "",
        ),
        (
            format!("{good}labels = \"x\"\n"),
            "weir.toml:4: `scrape.labels` must be a table of texts",
            "",
        ),
        (
            format!("{good}token_file = \"/nonexistent\"\n"),
            "cannot read `/nonexistent`",
            "typing mistake",
        ),
    ] {
        let output =
            hub(dir.path(), &config).stdin(Stdio::null()).output().expect("weir can be started");
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{config}: {complaint}");
        assert!(complaint.contains(part) && complaint.contains(hint), "{config}: {complaint}");
    }
}
