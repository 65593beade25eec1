//! PostgreSQL's protocol, spoken by its own clients: psql, pgbench, and a driver with prepared
//! statements.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::harness::{Weir, can_run, quiet, serve, text, wait_for};
use super::intake::python;
use super::pg_drivers::{
    DriverGap, DriverProfile, PIPELINE, PORTAL, STATEMENTS, TOKEN, certificate, conforms,
    directory, installed, pg_port,
};
use super::wire_databases::is_there;

const LONG: Duration = Duration::from_secs(60);
/// Takes minutes.
const ENDLESS: &str = "select count(*) from generate_series(1, 250000) a cross join generate_series(1, 90000000) b where a.a % 7 = b.b % 11";

struct PgHub {
    weir: Weir,
    port: String,
    dir: tempfile::TempDir,
}

/// A hub with two lines of a log, a login and a certificate.
fn hub(more: &[(&str, &str)]) -> PgHub {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let log = at("app.log");
    std::fs::write(&log, "the first line\nthe second\n").expect("a directory of our own");
    std::fs::write(at("token"), TOKEN).expect("a directory of our own");
    certificate(dir.path());
    let mut command = serve("up", &at("data"));
    quiet(&mut command);
    command.arg("--tail").arg(&log).args(["--pg", "127.0.0.1:0"]);
    command.env("WEIR_API_TOKEN_FILE", at("token"));
    command.env("WEIR_PG_TLS_CERTIFICATE_FILE", at("cert.pem"));
    command.env("WEIR_PG_TLS_KEY_FILE", at("key.pem"));
    command.envs(more.iter().copied());
    let weir = Weir::start(command);
    let port = pg_port(&weir);
    let hub = PgHub { weir, port, dir };
    wait_for("two lines", LONG, || {
        (hub.ask("select count(*) from log where body like 'the %'") == "2\n").then_some(())
    });
    hub
}

impl PgHub {
    fn psql(&self, how: &str) -> Command {
        let mut command = Command::new("psql");
        let place =
            format!("host=localhost hostaddr=127.0.0.1 port={} dbname=weir {how}", self.port);
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d"]).arg(place);
        command.env("PGPASSWORD", TOKEN).env("HOME", "/nonexistent").env("PGCONNECT_TIMEOUT", "30");
        command.env("PGUSER", "weir").stdin(Stdio::null());
        command
    }

    fn run(&self, how: &str, commands: &[&str]) -> Output {
        let mut psql = self.psql(how);
        for one in commands {
            psql.args(["-c", one]);
        }
        psql.output().expect("psql is installed")
    }

    /// What psql prints; it must succeed.
    fn ask(&self, command: &str) -> String {
        let output = self.run("", &[command]);
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The error that psql prints.
    fn refused(&self, how: &str, command: &str) -> String {
        let output = self.run(how, &["\\set VERBOSITY verbose", command]);
        assert!(!output.status.success(), "{command}: {}", text(&output.stdout));
        text(&output.stderr)
    }
}

fn has_psql(test: &str) -> bool {
    can_run(test, "psql (apt-get install postgresql-client)", is_there("psql"))
}

#[test]
fn psql_lists_tables_and_columns_and_reads_rows() {
    if !has_psql("psql_lists_tables_and_columns_and_reads_rows") {
        return;
    }
    let hub = hub(&[]);
    let tables = hub.ask("\\dt");
    assert!(tables.contains("public|request|table|weir\n"), "{tables}");
    assert!(!tables.contains("future"), "{tables}");
    let (views, others): (Vec<String>, Vec<String>) = hub
        .ask("\\d")
        .lines()
        .map(|line| format!("{line}\n"))
        .partition(|line| line.contains("|view|"));
    assert_eq!(others.concat(), tables);
    assert!(views.contains(&"public|finding_now|view|weir\n".to_owned()), "{views:?}");
    assert!(hub.ask("\\dt future.*").contains("future|request|table|weir\n"));
    let columns = hub.ask("\\d log");
    assert!(columns.contains("ts|timestamp with time zone||not null|\n"), "{columns}");
    assert!(
        columns.contains("body|text|||\n") || columns.contains("body|text||not null|\n"),
        "{columns}"
    );
    assert!(columns.contains("attrs|json|"), "{columns}");
    let told = hub.ask("\\d+ log");
    assert!(told.contains("Time in the line"), "{told}");
    assert_eq!(hub.ask("\\dn"), "future|weir\npublic|weir\n");
    for command in ["\\l", "\\du", "\\df", "\\di", "\\dv", "\\dT", "\\dx", "\\z", "\\dt+"] {
        hub.ask(command);
    }
    let typed = "select 1, 2.5::float8, true, null, 'a;b', date '2026-11-21', timestamp '2026-11-21T12:00:00.25',
        interval '1 day 2 hours', make_array('a', 'b c', null), arrow_cast(7, 'UInt64')";
    assert_eq!(
        hub.ask(typed),
        "1|2.5|t||a;b|2026-11-21|2026-11-21 12:00:00.25|1 day 02:00:00|{a,\"b c\",NULL}|7\n"
    );
    let attrs = hub.ask("select attrs from log limit 1");
    assert!(attrs.starts_with('{') || attrs == "\n", "{attrs}");
    assert_eq!(hub.ask("show server_encoding; select 1; -- that is all"), "UTF8\n1\n");
    assert_eq!(hub.ask("begin; select count(*) from log where search('first'); commit"), "1\n");
    let prepared =
        ["prepare p (int, text) as select $1 + 1, $2", "execute p(41, 'it''s')", "deallocate p"];
    assert_eq!(text(&hub.run("", &prepared).stdout), "42|it's\n");
    let file = path(hub.dir.path(), "described.sql");
    std::fs::write(&file, "select host, count(*) from log group by 1 \\gdesc\n").expect("our own");
    let described = hub.psql("").args(["-f", &file]).output().expect("psql is installed");
    assert_eq!(text(&described.stdout), "host|text\ncount|bigint\n");
    assert_eq!(hub.weir.terminate(), Some(0));
}

#[test]
fn errors_have_their_sqlstate_and_what_to_do() {
    if !has_psql("errors_have_their_sqlstate_and_what_to_do") {
        return;
    }
    let hub = hub(&[("WEIR_API_ANSWER_BYTES", "1000000")]);
    for (sql, state, words) in [
        ("select * from reqest", "42P01", "did you mean `request`?"),
        ("select hots from log", "42703", "did you mean `host`?"),
        ("select (1 from log", "42601", "cannot read the SQL"),
        ("insert into log values (1)", "25006", "only queries are run"),
        ("copy log from stdin", "25006", "only queries are run"),
        ("set client_encoding = 'LATIN1'", "0A000", "always `UTF8`"),
        ("execute nothing", "26000", "there is no prepared statement `nothing`"),
        ("select * from generate_series(1, 1000000)", "54000", "the answer is larger"),
        ("set statement_timeout = 200; select pg_sleep(1)", "42883", "pg_sleep"),
    ] {
        let told = hub.refused("", sql);
        assert!(told.contains(state) && told.contains(words), "{sql}: {told}");
    }
    let late = hub.refused("", &format!("set statement_timeout = '300ms'; {ENDLESS}"));
    assert!(late.contains("57014") && late.contains("statement_timeout"), "{late}");
    let failed = hub.refused("", "begin; select 1/0 from log; select 1");
    assert!(!failed.contains("25P02"), "psql stops at the first: {failed}");
}

#[test]
fn logins_are_checked_and_tls_is_spoken() {
    if !has_psql("logins_are_checked_and_tls_is_spoken") {
        return;
    }
    let hub = hub(&[("WEIR_PG_REQUIRE_TLS", "true")]);
    let authority = format!("sslmode=verify-full sslrootcert={}", path(hub.dir.path(), "cert.pem"));
    let secured = hub.run(&authority, &["\\conninfo", "select 1"]);
    let told = text(&secured.stdout) + &text(&secured.stderr);
    assert!(told.contains("SSL connection (protocol: TLSv1.3") && told.ends_with("1\n"), "{told}");
    let plain = hub.refused("sslmode=disable", "select 1");
    assert!(plain.contains("requires TLS"), "{plain}");
    let mut wrong = hub.psql("sslmode=require");
    let wrong = wrong.env("PGPASSWORD", "sesam").args(["-c", "select 1"]).output().expect("psql");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("wrong password"), "{}", text(&wrong.stderr));
    let elsewhere = hub.refused("dbname=other", "select 1");
    assert!(elsewhere.contains("there is no database `other`"), "{elsewhere}");
    assert_eq!(hub.ask("select 1"), "1\n", "others go on");
}

#[test]
fn queries_end_when_their_client_asks_for_it_or_goes_away() {
    if !has_psql("queries_end_when_their_client_asks_for_it_or_goes_away") {
        return;
    }
    let hub = hub(&[
        ("WEIR_API_SLOW_QUERY_MILLISECONDS", "100"),
        ("WEIR_API_QUERY_TIMEOUT_SECONDS", "300"),
    ]);
    let begun = Instant::now();
    let (mut asking, mut leaving) = (endless_query(&hub, "ann"), endless_query(&hub, "bob"));
    wait_for("both to run while others are answered", LONG, || {
        let answer = hub.ask("select 1");
        (answer == "1\n" && begun.elapsed() > Duration::from_secs(3)).then_some(())
    });
    let id = rustix::process::Pid::from_child(&asking);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it runs");
    leaving.kill().expect("it runs");
    leaving.wait().expect("it was killed");
    asking.wait().expect("it ends");
    let output = asking.wait_with_output().expect("it has ended");
    assert!(text(&output.stderr).contains("the query was cancelled"), "{}", text(&output.stderr));
    let ended =
        "select user_name from slow_query where ended_by = 'cancelled' group by 1 order by 1";
    wait_for("both to be noted", LONG, || (hub.ask(ended) == "ann\nbob\n").then_some(()));
    assert!(begun.elapsed() < Duration::from_secs(200));
}

fn endless_query(hub: &PgHub, user: &str) -> Child {
    let mut psql = hub.psql("");
    psql.env("PGUSER", user).args(["-c", ENDLESS]);
    psql.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("psql is installed")
}

#[test]
fn a_driver_prepares_binds_and_reads_every_type() {
    let test = "a_driver_prepares_binds_and_reads_every_type";
    let has_all = python().is_file() && is_there("psql");
    if !can_run(test, "psql and psycopg (cargo xtask setup)", has_all) {
        return;
    }
    let hub = hub(&[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/pg.py");
    let output = Command::new(python()).arg(script).args([&hub.port, TOKEN]).output();
    let output = output.expect("python is there");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    if is_there("pgbench") {
        let file = path(hub.dir.path(), "bench.sql");
        let sql = "\\set n random(1, 9)\nselect count(*) from log where length(body) > :n;\n";
        std::fs::write(&file, sql).expect("a directory of our own");
        let mut pgbench = Command::new("pgbench");
        pgbench.args([
            "-n",
            "-M",
            "prepared",
            "-c",
            "2",
            "-t",
            "20",
            "-h",
            "127.0.0.1",
            "-U",
            "weir",
        ]);
        pgbench.args(["-p", &hub.port, "-f", &file, "weir"]).env("PGPASSWORD", TOKEN);
        let output = pgbench.output().expect("it is there");
        let told = text(&output.stdout) + &text(&output.stderr);
        assert!(told.contains("transactions actually processed: 40/40"), "{told}");
    }
}

/// Runs a program in Python of `tests/drivers`.
fn conforms_in_python(test: &str, driver: &DriverProfile, program: &str) {
    if can_run(test, "Python packages (cargo xtask setup)", python().is_file()) {
        let mut command = Command::new(python());
        // Keeps `__pycache__` out of the repository.
        command.arg(directory().join(program)).env("PYTHONDONTWRITEBYTECODE", "1");
        conforms(driver, command);
    }
}

#[test]
fn psycopg_3_conforms() {
    let gaps =
        &[DriverGap { scenario: PORTAL, mode: "once", why: "its cursors are DECLARE statements" }];
    let driver = DriverProfile { name: "psycopg 3", modes: &["simple", "text", "binary"], gaps };
    conforms_in_python("psycopg_3_conforms", &driver, "psycopg3.py");
}

#[test]
fn psycopg2_conforms() {
    let gaps = &[
        DriverGap { scenario: STATEMENTS, mode: "once", why: "it returns only the last result" },
        DriverGap { scenario: PORTAL, mode: "once", why: "its cursors are DECLARE statements" },
        DriverGap { scenario: PIPELINE, mode: "once", why: "it has no pipelines" },
    ];
    let driver = DriverProfile { name: "psycopg2", modes: &["simple"], gaps };
    conforms_in_python("psycopg2_conforms", &driver, "psycopg_2.py");
}

/// A scenario with parameters, for which node-postgres always prepares.
const fn prepared(scenario: &'static str) -> DriverGap {
    DriverGap { scenario, mode: "simple", why: "it prepares statements with parameters" }
}

#[test]
fn node_postgres_conforms() {
    const GAPS: &[DriverGap] = &[
        prepared("parameters of every type"),
        prepared("parameters that are null"),
        prepared("parameters in conditions"),
        DriverGap { scenario: PIPELINE, mode: "once", why: "it waits for each result" },
    ];
    let modules = installed().join("node/node_modules");
    if !can_run("node_postgres_conforms", "node-postgres (cargo xtask setup)", modules.is_dir()) {
        return;
    }
    let driver = DriverProfile { name: "node-postgres", modes: &["simple", "text"], gaps: GAPS };
    let mut program = Command::new("node");
    program.arg(directory().join("node.js")).env("NODE_PATH", modules);
    conforms(&driver, program);
}

#[test]
fn what_grafana_and_dbeaver_ask_of_the_catalog_is_answered() {
    if !has_psql("what_grafana_and_dbeaver_ask_of_the_catalog_is_answered") {
        return;
    }
    let hub = hub(&[]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pg_tools.sql");
    let mut psql = hub.psql("");
    let output = psql.arg("-f").arg(file).output().expect("psql is installed");
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}{}", text(&output.stderr));
    for line in [
        "grafana table|request",
        "grafana column|ts|timestamp with time zone",
        "dbeaver table|log|r",
    ] {
        assert!(told.lines().any(|found| found == line), "{line}: {told}");
    }
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().expect("a plain name").to_owned()
}
