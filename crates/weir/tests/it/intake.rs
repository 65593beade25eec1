//! Other people's shippers against a running hub that is killed or ended in the middle: rows are
//! what was sent.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::harness::{
    EndedProcess, Weir, can_run, free_address, free_port, quiet, request, serve, text, try_rows,
    wait_for,
};

/// How long a shipper may take until everything is there, on a loaded machine.
const ARRIVAL: Duration = Duration::from_secs(120);

/// A hub whose ports stay the same over restarts.
struct IntakeHub {
    dir: tempfile::TempDir,
    settings: Vec<(String, String)>,
}

impl IntakeHub {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), settings: Vec::new() }
    }

    /// Sets `key` to a free port.
    fn take(&mut self, key: &str) -> u16 {
        let port = free_port();
        self.set(key, &format!("127.0.0.1:{port}"));
        port
    }

    fn set(&mut self, key: &str, value: &str) {
        self.settings.push((format!("WEIR_INTAKE_{}", key.to_uppercase()), value.to_owned()));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self) -> Weir {
        let mut command = serve("hub", &self.path("data"));
        quiet(&mut command);
        command.envs(self.settings.iter().map(|(key, value)| (key, value)));
        Weir::start(command)
    }
}

#[test]
fn pages_of_other_sites_send_no_rows() {
    let mut hub = IntakeHub::new();
    let port = hub.take("http");
    let weir = hub.start();
    let url = format!("http://127.0.0.1:{port}");
    let line = "{\"message\": \"hello\", \"host\": \"web1\"}\n";
    let send = |headers: &[(&str, &str)]| request(&url, "POST", "/intake/jsonl", headers, line).0;
    assert_eq!(send(&[]), 200);
    for page in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        assert_eq!(send(&[("content-type", "text/plain"), page]), 403, "{page:?}");
    }
    let renamed = [("host", "evil.example"), ("origin", "http://evil.example")];
    assert_eq!(send(&renamed), 421, "DNS rebinding");
    assert_eq!(send(&[("host", "evil.example")]), 421);
    assert_eq!(send(&[("host", "localhost")]), 200);
    drop(weir);
}

/// Waits until the two numbers that `sql` answers are `wanted`; more than wanted fails at once.
fn arrived(hub: &Weir, sql: &str, wanted: u64) {
    let mut last = Vec::new();
    wait_for(&format!("{wanted} rows of {sql}"), ARRIVAL, || {
        let rows = try_rows(&hub.url, sql).ok()?;
        if rows[0] != last {
            println!("{sql}: {:?}", rows[0]);
            last.clone_from(&rows[0]);
        }
        let count = rows[0][0].as_u64()?;
        assert!(count <= wanted, "{sql}: {:?}", rows[0]);
        (count == wanted).then_some(())
    });
    assert_eq!(hub.rows(sql)[0], [wanted, wanted], "{sql}");
}

/// The Python that has client libraries.
pub(crate) fn python() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("python/bin/python")
}

fn has_python(test: &str) -> bool {
    can_run(test, "Python packages (cargo xtask setup)", python().is_file())
}

fn script(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(python());
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(name)).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    dirs.into_iter().any(|dir| dir.join(program).is_file())
}

#[test]
fn lines_posted_by_curl_are_rows_and_known_after_a_kill() {
    if !can_run("curl", "curl (apt-get install curl)", is_there("curl")) {
        return;
    }
    let mut hub = IntakeHub::new();
    let port = hub.take("http");
    let url = format!("http://127.0.0.1:{port}/intake/jsonl?source=app");
    let body = hub.path("lines.json");
    let lines: String =
        (0..5000).map(|n| format!("{{\"message\":\"line {n}\",\"host\":\"web1\"}}\n")).collect();
    std::fs::write(&body, lines).expect("it can be written");
    let first = hub.start();
    assert_eq!(
        post_by_curl(&body, &url),
        r#"{"first_rejected":[],"kept":5000,"known":0,"rejected":0}"#
    );
    first.kill();
    let second = hub.start();
    assert_eq!(
        post_by_curl(&body, &url),
        r#"{"first_rejected":[],"kept":0,"known":5000,"rejected":0}"#
    );
    let sql =
        "select count(*), count(distinct body) from log where source = 'app' and host = 'web1'";
    assert_eq!(second.rows(sql)[0], [5000, 5000]);
}

fn post_by_curl(body: &Path, url: &str) -> String {
    let mut command = Command::new("curl");
    command.args(["-sS", "--fail-with-body", "-H", "Idempotency-Key: first", "--data-binary"]);
    text(&command.arg(format!("@{}", body.display())).arg(url).output().expect("curl runs").stdout)
}

/// Runs a sender that prints a line for each of its 40 batches, and kills the hub after 8, 16 and
/// 24 of them.
fn over_three_kills(hub: &IntakeHub, mut sender: Command) -> Weir {
    let mut running = hub.start();
    let mut sender = EndedProcess(sender.spawn().expect("it starts"));
    let mut lines = BufReader::new(sender.0.stdout.take().expect("piped")).lines();
    for _ in 0..3 {
        for _ in 0..8 {
            lines.next().expect("it goes on").expect("text");
        }
        running.kill();
        running = hub.start();
    }
    assert_eq!(lines.count(), 40 - 24);
    assert!(sender.0.wait().expect("it ends").success());
    running
}

#[test]
fn elasticsearchs_own_client_loses_and_doubles_nothing_over_kills() {
    if !has_python("bulk") {
        return;
    }
    let mut hub = IntakeHub::new();
    let url = format!("http://127.0.0.1:{}", hub.take("http"));
    let running = over_three_kills(&hub, script("bulk.py", &[&url, "10000", "doc"]));
    let sql = "select count(*), count(distinct body) from log where host = 'pyhost' and source = 'elasticsearch:numbers'";
    assert_eq!(running.rows(sql)[0], [10_000, 10_000]);
}

/// A file that rsyslog reads, in the syslog format that it writes.
fn write_lines(file: &Path, numbers: std::ops::Range<u32>) {
    let mut file =
        std::fs::OpenOptions::new().append(true).create(true).open(file).expect("it opens");
    for n in numbers {
        writeln!(file, "number {n}").expect("there is room");
    }
}

fn rsyslog(dir: &Path, config: &str) -> EndedProcess {
    let file = dir.join("rsyslog.conf");
    std::fs::write(&file, config).expect("it can be written");
    let mut command = Command::new("/usr/sbin/rsyslogd");
    command.arg("-n").arg("-f").arg(&file).arg("-i").arg(dir.join("rsyslog.pid"));
    command.stdin(Stdio::null()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
    EndedProcess(command.spawn().expect("rsyslogd starts"))
}

#[test]
fn rsyslog_delivers_every_line_by_bulk_tcp_and_tls_over_an_end_of_the_hub() {
    let is_ready = is_there("rsyslogd") && is_there("openssl");
    if !can_run("rsyslog", "rsyslogd and openssl (cargo xtask setup)", is_ready) {
        return;
    }
    let mut hub = IntakeHub::new();
    let (http, tcp, tls) = (hub.take("http"), hub.take("syslog_tcp"), hub.take("syslog_tls"));
    certificate(&mut hub);
    let running = hub.start();
    let input = hub.path("numbers.log");
    write_lines(&input, 0..2000);
    let (dir, input_path) = (hub.dir.path().display(), input.display());
    // A full queue of an action drops lines after two seconds; by default it has 1,000 places.
    let retry = "action.resumeRetryCount=\"-1\" action.resumeInterval=\"1\" queue.size=\"10000\"";
    let config = format!(
        r#"
global(workDirectory="{dir}" DefaultNetstreamDriverCAFile="{dir}/cert.pem")
module(load="imfile" mode="inotify")
module(load="omelasticsearch")
template(name="doc" type="list" option.jsonf="on") {{
  property(outname="@timestamp" name="timereported" dateFormat="rfc3339" format="jsonf")
  property(outname="host.name" name="hostname" format="jsonf")
  property(outname="message" name="msg" format="jsonf")
}}
template(name="id" type="string" string="%msg%")
ruleset(name="ship") {{
  action(type="omelasticsearch" server="127.0.0.1" serverport="{http}" template="doc" searchIndex="rsyslog" searchType=""
    bulkmode="on" dynbulkid="on" bulkid="id" errorfile="{dir}/es-errors" queue.type="LinkedList" {retry})
  action(type="omfwd" target="127.0.0.1" port="{tcp}" protocol="tcp" TCP_Framing="octet-counted"
    template="RSYSLOG_SyslogProtocol23Format" queue.type="LinkedList" {retry})
  action(type="omfwd" target="127.0.0.1" port="{tls}" protocol="tcp" StreamDriver="ossl" StreamDriverMode="1"
    StreamDriverAuthMode="anon" template="RSYSLOG_ForwardFormat" queue.type="LinkedList" {retry})
}}
input(type="imfile" file="{input_path}" tag="numbers:" ruleset="ship" addMetadata="off")
"#
    );
    let _shipper = rsyslog(hub.dir.path(), &config);
    let sources = ["elasticsearch:rsyslog", "syslog_tcp", "syslog_tls"];
    for source in sources {
        arrived(&running, &count_of(source), 2000);
    }
    assert_eq!(running.terminate(), Some(0));
    write_lines(&input, 2000..4000);
    let running = hub.start();
    for source in sources {
        arrived(&running, &count_of(source), 4000);
    }
    let kept =
        "select sum(rows) from intake_run where outcome = 'kept' and protocol = 'syslog_tls'";
    wait_for("counts of what was kept", Duration::from_secs(30), || {
        (running.rows(kept)[0][0] == 4000).then_some(())
    });
}

fn count_of(source: &str) -> String {
    format!(
        "select count(*), count(distinct body) from log where source = '{source}' and body like '%number %'"
    )
}

/// A self-signed certificate for 127.0.0.1.
fn certificate(hub: &mut IntakeHub) {
    let (certificate, key) = (hub.path("cert.pem"), hub.path("key.pem"));
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]);
    command.args([
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]);
    command.arg("-out").arg(&certificate).arg("-keyout").arg(&key).stderr(Stdio::null());
    assert!(command.status().expect("openssl runs").success());
    hub.set("tls_certificate_file", &certificate.display().to_string());
    hub.set("tls_key_file", &key.display().to_string());
}

#[test]
fn frames_of_logger_are_rows_with_their_host_over_udp_and_tcp() {
    if !can_run("logger", "logger (apt-get install bsdutils)", is_there("logger")) {
        return;
    }
    let mut hub = IntakeHub::new();
    let (udp, tcp) = (hub.take("syslog_udp"), hub.take("syslog_tcp"));
    let running = hub.start();
    let input = hub.path("lines");
    write_lines(&input, 0..300);
    for (port, how) in [
        (udp, &["-d", "--rfc3164"][..]),
        (udp, &["-d", "--rfc5424"]),
        (tcp, &["-T", "--rfc3164"]),
        (tcp, &["-T", "--rfc5424", "--octet-count"]),
    ] {
        let mut command = Command::new("logger");
        command.args([
            "-n",
            "127.0.0.1",
            "-P",
            &port.to_string(),
            "-t",
            "apptag",
            "-p",
            "auth.err",
        ]);
        command.args(how).arg("-f").arg(&input).stdin(Stdio::null());
        assert!(command.status().expect("logger runs").success());
    }
    for source in ["syslog_udp", "syslog_tcp"] {
        let sql = format!(
            "select count(*), 2 * count(distinct body) from log where source = '{source}' and program = 'apptag' \
             and severity = 'error' and facility = 'auth' and host <> '127.0.0.1'"
        );
        arrived(&running, &sql, 600);
    }
}

/// Routers and machines without an agent still report kernel messages.
#[test]
fn kernels_of_hosts_without_an_agent_are_heard_by_syslog() {
    let mut hub = IntakeHub::new();
    let port = hub.take("syslog_tcp");
    let running = hub.start();
    let mut sender = std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let now = jiff::Timestamp::now();
    let lines = format!(
        "<4>1 {now} gw1 kernel - - - nf_conntrack: nf_conntrack: table full, dropping packet\n\
         <6>1 {now} gw1 kernel - - - neighbour: arp_cache: neighbor table overflow!\n\
         <6>1 {now} gw1 kernel - - - eth0: link becomes ready\n\
         <12>1 {now} gw1 kernel - - - Out of memory: Killed process 42 (java) total-vm:1kB\n"
    );
    sender.write_all(lines.as_bytes()).expect("it reads");
    let sql = "select count(*), count(distinct kind) from kmsg where host = 'gw1' \
               and kind in ('conntrack_full', 'neighbor_full') and facility = 'kern' and not is_backlog";
    arrived(&running, sql, 2);
    assert_eq!(running.rows("select count(*) from kmsg")[0], [2]);
    assert_eq!(running.rows("select count(*) from log where host = 'gw1'")[0], [4]);
    let found = "select count(distinct rule), count(distinct rule) from finding where host = 'gw1' \
                 and rule in ('conntrack.full', 'kernel.neighbor_table_full')";
    arrived(&running, found, 2);
}

#[test]
fn opentelemetrys_own_sdk_is_understood_over_http_and_grpc() {
    if !has_python("otlp") {
        return;
    }
    let mut hub = IntakeHub::new();
    let port = hub.take("http");
    let mut running = hub.start();
    for protocol in ["http", "grpc"] {
        let address = format!("127.0.0.1:{port}");
        let sender = script("otlp.py", &[protocol, &address, "600"]).spawn();
        let mut sender = EndedProcess(sender.expect("it starts"));
        let mut lines = BufReader::new(sender.0.stdout.take().expect("piped")).lines();
        assert_eq!(lines.next().expect("it gets there").expect("text"), "half");
        assert_eq!(running.terminate(), Some(0));
        sender.0.stdin.take().expect("piped").write_all(b"\n").expect("it listens");
        running = hub.start();
        assert!(sender.0.wait().expect("it ends").success());
        for (table, column, more) in [
            (
                "request",
                "url_path",
                "tier = 'app' and http_response_status_code = 200 and duration_seconds >= 0",
            ),
            ("log", "body", "severity = 'warn' and source = 'otlp'"),
            ("span", "span_id", "name = 'inner' and kind = 'internal'"),
        ] {
            let sql = format!(
                "select count(*), count(distinct {column}) from {table} where host = 'pyhost' and program = 'py-{protocol}' and {more}"
            );
            arrived(&running, &sql, 600);
        }
        let sql = format!(
            "select max(value) from metric where name = 'turns' and kind = 'counter' and labels['service.name'] = 'py-{protocol}'"
        );
        assert_eq!(running.rows(&sql)[0][0].as_f64(), Some(600.0));
    }
}

#[test]
fn prometheus_writes_every_sample_over_an_end_of_the_hub() {
    let is_ready = is_there("prometheus");
    if !can_run("remote write", "prometheus (apt-get install prometheus)", is_ready) {
        return;
    }
    let mut hub = IntakeHub::new();
    let port = hub.take("http");
    let running = hub.start();
    let own = free_address();
    let config = hub.path("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s}}\n\
         scrape_configs: [{{job_name: own, static_configs: [{{targets: ['{own}']}}]}}]\n\
         remote_write: [{{url: 'http://127.0.0.1:{port}/api/v1/write', queue_config: {{batch_send_deadline: 500ms, max_backoff: 1s}}}}]\n"
    );
    std::fs::write(&config, text).expect("it can be written");
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", hub.path("tsdb").display()));
    command.arg(format!("--web.listen-address={own}")).arg("--log.level=error");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _prometheus = EndedProcess(command.spawn().expect("prometheus starts"));
    let ups = "select count(*), count(distinct ts) from metric where name = 'up' and host = '127.0.0.1' \
        and source = 'remote_write' and labels['job'] = 'own' and value is not null";
    let samples = |hub: &Weir| {
        let rows = try_rows(&hub.url, ups).ok()?;
        assert_eq!(rows[0][0], rows[0][1], "no sample twice");
        rows[0][0].as_u64()
    };
    wait_for("samples", ARRIVAL, || samples(&running).filter(|count| *count >= 5));
    let before = samples(&running).expect("it answers");
    assert_eq!(running.terminate(), Some(0));
    let running = hub.start();
    let after = wait_for("more samples", ARRIVAL, || {
        samples(&running).filter(|count| *count >= before + 8)
    });
    // One a second, also those of the time without a hub.
    let span = "select (max(cast(ts as bigint)) - min(cast(ts as bigint))) / 1000000 + 1 from metric where name = 'up'";
    let seconds = running.number(span);
    assert!(
        seconds.abs_diff(i64::try_from(after).expect("few")) <= 2,
        "{seconds} s, {after} samples"
    );
    let kinds = "select count(*) from metric where name like '%_total' and kind = 'counter'";
    assert!(running.number(kinds) > 0);
}

#[test]
fn a_beats_client_loses_and_doubles_nothing_over_kills() {
    if !has_python("beats") {
        return;
    }
    let mut hub = IntakeHub::new();
    let port = hub.take("lumberjack").to_string();
    let running = over_three_kills(&hub, script("beats.py", &[&port, "4000"]));
    let sql = "select count(*), count(distinct body) from log where host = 'beathost' and source = '/var/log/app.log'";
    assert_eq!(running.rows(sql)[0], [4000, 4000]);
}

#[test]
fn fluentds_own_logger_is_understood_over_an_end_of_the_hub() {
    if !has_python("fluent") {
        return;
    }
    let mut hub = IntakeHub::new();
    let port = hub.take("fluent");
    let running = hub.start();
    let sql = "select count(*), count(distinct body) from log where host = 'fluenthost' and source = 'fluent:app.web' \
        and severity = 'warn'";
    let sender = script("fluent_events.py", &[&port.to_string(), "2000"]).spawn();
    let mut sender = EndedProcess(sender.expect("it starts"));
    let mut lines = BufReader::new(sender.0.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("it gets there").expect("text"), "half");
    arrived(&running, sql, 1000);
    assert_eq!(running.terminate(), Some(0));
    let running = hub.start();
    sender.0.stdin.take().expect("piped").write_all(b"\n").expect("it listens");
    assert!(sender.0.wait().expect("it ends").success());
    arrived(&running, sql, 2000);
}

#[test]
fn clients_of_gelf_statsd_and_graphite_are_understood() {
    if !has_python("gelf and statsd") {
        return;
    }
    let mut hub = IntakeHub::new();
    let ports = ["gelf_udp", "gelf_tcp", "statsd_udp"].map(|key| hub.take(key).to_string());
    let graphite = hub.take("graphite_tcp");
    let running = hub.start();
    let sender = script("small.py", &[&ports[0], &ports[1], &ports[2], "100"]).spawn();
    assert!(EndedProcess(sender.expect("it starts")).0.wait().expect("it ends").success());
    for source in ["gelf_udp", "gelf_tcp"] {
        let sql = format!(
            "select count(*), count(distinct body) from log where source = '{source}' and host = 'gelfhost' \
             and severity = 'error' and attrs['user'] is not distinct from case when body like '%long%' then null else 'u1' end"
        );
        arrived(&running, &sql, 101);
    }
    let long = "select max(length(body)) from log where source = 'gelf_udp'";
    assert!(running.number(long) >= 20_000);
    arrived(
        &running,
        "select count(*), 2 * count(distinct value) from metric where source = 'statsd' and name = 'took' or name = 'hits' and value = 1",
        200,
    );
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", graphite)).expect("it listens");
    let lines: String =
        (0..500).map(|n| format!("servers.web1.load {n} {}\n", 1_700_000_000 + n)).collect();
    stream.write_all(lines.as_bytes()).expect("it reads");
    arrived(
        &running,
        "select count(*), count(distinct ts) from metric where source = 'graphite' and name = 'servers.web1.load'",
        500,
    );
}

#[test]
fn senders_without_login_and_bodies_without_sense_are_refused_and_counted() {
    let mut hub = IntakeHub::new();
    let port = hub.take("http");
    let token = hub.path("token");
    std::fs::write(&token, "sixteen-characters\n").expect("it can be written");
    hub.set("token_file", &token.display().to_string());
    hub.set("body_bytes", "100000");
    let running = hub.start();
    let url = format!("http://127.0.0.1:{port}");
    let login = ("authorization", "Bearer sixteen-characters");
    let gzip = ("content-encoding", "gzip");
    let long = "x".repeat(200_000);
    let bad = |headers: &[(&str, &str)], path: &str, body: &str| {
        request(&url, "POST", path, headers, body)
    };
    for (headers, path, body, status, part) in [
        (&[][..], "/intake/jsonl", "{}", 401, "token_file"),
        (&[("authorization", "Bearer wrong")], "/_bulk", "{}", 401, "security_exception"),
        (&[login], "/nowhere", "", 404, "docs/intake.md"),
        (&[login], "/_bulk", "nonsense", 400, "malformed action/metadata line [1]"),
        (&[login, gzip], "/intake/jsonl", "nonsense", 400, "cannot decompress"),
        (&[login, ("content-encoding", "br")], "/intake/jsonl", "x", 415, "gzip, deflate, zstd"),
        (&[login], "/intake/jsonl", &long, 413, "intake.body_bytes"),
        (&[login], "/logs/_search", "{}", 400, "weir query"),
        (&[login], "/v1/logs", "x", 415, "application/x-protobuf"),
        (
            &[login],
            "/intake/jsonl",
            "{\"message\":\"fine\"}\n{broken}\n{\"a\n",
            200,
            "invalid_json",
        ),
    ] {
        let (code, head, answer) = bad(headers, path, body);
        assert_eq!(code, status, "{path}: {answer}");
        assert!(answer.contains(part), "{path}: `{part}` is not in {answer}");
        assert!(!head.to_lowercase().contains("transfer-encoding"), "{head}");
    }
    let refused = "select protocol, reason, sum(batches) from intake_run where outcome = 'refused' \
        group by 1, 2 order by 1, 2";
    wait_for("refusals in intake_run", Duration::from_secs(30), || {
        let rows = running.rows(refused);
        let all: Vec<String> =
            rows.iter().map(|row| format!("{} {} {}", row[0], row[1], row[2])).collect();
        let all = all.join("\n").replace('"', "");
        let wanted = "elasticsearch bad_request 1\nelasticsearch no_login 1\njsonl broken_packing 1\n\
            jsonl no_login 1\njsonl too_large 1\njsonl unknown_coding 1\notlp_http unknown_type 1";
        (all == wanted).then_some(())
    });
    assert_eq!(running.rows("select reason, raw from reject")[0], ["invalid_json", "{\"a"]);
}

fn refused(settings: &[(&str, &str)]) -> Output {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = serve("hub", dir.path());
    quiet(&mut command);
    command.envs(settings.iter().copied()).stdin(Stdio::null());
    command.output().expect("weir can be started")
}

#[test]
fn sockets_that_anybody_could_reach_are_refused_with_a_hint() {
    for (settings, part, hint) in [
        (&[("WEIR_INTAKE_HTTP", "0.0.0.0:0")][..], "access is not restricted", "intake.token_file"),
        (&[("WEIR_INTAKE_SYSLOG_UDP", "[::]:0")], "access is not restricted", "intake.allow"),
        (&[("WEIR_INTAKE_SYSLOG_TCP", "nonsense")], "not an address and a port", "127.0.0.1"),
        (&[("WEIR_INTAKE_HTTPS", "127.0.0.1:0")], "tls_certificate_file", "tls_key_file"),
        (&[("WEIR_INTAKE_ALLOW", "10.0.0.0/40")], "`10.0.0.0/40` is not a network", "10.0.0.0/8"),
        (
            &[
                ("WEIR_INTAKE_TLS_CERTIFICATE_FILE", "/nonexistent"),
                ("WEIR_INTAKE_TLS_KEY_FILE", "/nonexistent"),
            ],
            "cannot read certificates from `/nonexistent`",
            "PEM",
        ),
    ] {
        let output = refused(settings);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{settings:?}: {complaint}");
        assert!(complaint.contains(part), "{settings:?}: {complaint}");
        assert!(
            complaint.contains("\nhint: ") && complaint.contains(hint),
            "{settings:?}: {complaint}"
        );
    }
}

#[test]
fn what_comes_by_any_protocol_goes_through_pipelines_and_redaction() {
    let mut hub = IntakeHub::new();
    let (tcp, http) = (hub.take("syslog_tcp"), hub.take("http"));
    let parsers = hub.path("parsers");
    std::fs::create_dir(&parsers).expect("it can be made");
    let pipeline = "[match]\npath = [\"syslog_tcp\", \"otlp\"]\n\n[[step]]\nwhen = \"body contains 'secret'\"\nredact_pattern = \"secret=[^ ]+\"\n\n\
        [[step]]\nset = { program = \"shop\" }\n";
    std::fs::write(parsers.join("shop.toml"), pipeline).expect("it can be written");
    hub.settings.push(("WEIR_PARSERS_DIR".into(), parsers.display().to_string()));
    hub.settings.push(("WEIR_PARSERS_REDACT".into(), "email".into()));
    let running = hub.start();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", tcp)).expect("it listens");
    let long = format!(
        "<11>Nov 21 12:00:00 web1 app: me@example.net secret=hidden {}\n",
        "x".repeat(70_000)
    );
    let line = "<11>Nov 21 12:00:00 web1 app[7]: login of me@example.net secret=hidden done\n";
    stream.write_all(line.as_bytes()).expect("it reads");
    stream.write_all(long.as_bytes()).expect("it reads");
    let url = format!("http://127.0.0.1:{http}");
    let (status, _, answer) = request(
        &url,
        "POST",
        "/intake/jsonl?source=app",
        &[],
        "{\"message\":\"mail me@example.net secret=shown\"}\n",
    );
    assert_eq!(status, 200, "{answer}");
    let otlp = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"to me@example.net secret=hidden"},
        "attributes":[{"key":"to","value":{"stringValue":"me@example.net"}}]}]}]}]}"#;
    let json = [("content-type", "application/json")];
    assert_eq!(request(&url, "POST", "/v1/logs", &json, otlp).0, 200);
    let texts = "select source, body, program from log where source <> 'weir:heartbeat' union all select source, raw, null from reject order by 1, 2";
    let rows = wait_for("four rows", ARRIVAL, || {
        try_rows(&running.url, texts).ok().filter(|rows| rows.len() >= 4)
    });
    let all = format!("{rows:?}");
    assert_eq!(rows.len(), 4, "{all}");
    assert!(!all.contains("me@example.net") && !all.contains("hidden"), "{all}");
    assert_eq!(all.matches("shown").count(), 1, "the pipeline is not for this source: {all}");
    let sql = "select program from log where source = 'syslog_tcp'";
    assert_eq!(running.rows(sql)[0][0], "shop");
    assert_eq!(running.rows("select count(*) from log where attrs['to'] like '%me@%'")[0][0], 0);
}
