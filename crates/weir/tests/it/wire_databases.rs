//! Real database servers, their own clients, and a capture of their traffic. Counts must match the
//! client's or the server's own figures.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::harness::{can_run, is_root, pause, text, wait_for, weir};
use super::netns::Netns;

/// A server, or tcpdump; ended when dropped.
pub(crate) struct ServerProgram(pub(crate) Child);

impl ServerProgram {
    fn signal(&self, signal: Signal) {
        if let Ok(id) = i32::try_from(self.0.id())
            && let Some(id) = Pid::from_raw(id)
        {
            let _ = kill_process(id, signal);
        }
    }

    /// Asks it to end; one that does not is killed.
    fn end(&mut self) {
        let begin = Instant::now();
        self.signal(Signal::TERM);
        while begin.elapsed() < Duration::from_secs(10) {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            pause(Duration::from_millis(20));
        }
        self.signal(Signal::KILL);
        let _ = self.0.wait();
    }
}

impl Drop for ServerProgram {
    fn drop(&mut self) {
        self.end();
    }
}

/// A namespace with a database at `port`, and a capture of all that passes there.
struct DatabaseLab {
    // In the order in which they go.
    tap: ServerProgram,
    _server: ServerProgram,
    netns: Netns,
    dir: tempfile::TempDir,
    port: u16,
}

const LONG: Duration = Duration::from_secs(60);

impl DatabaseLab {
    /// Starts the tap, then the server that `command` makes of the namespace and the directory.
    fn start(purpose: &str, port: u16, command: impl FnOnce(&Netns, &Path) -> Command) -> Self {
        let netns = Netns::make(purpose).expect("root may, and iproute2 is there");
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755))
            .expect("it is ours");
        let mut tap = netns.command("tcpdump");
        tap.args(["-i", "lo", "-s", "0", "-U", "-Z", "root", "-w"]).arg(dir.path().join("all"));
        tap.args(["tcp", "port", &port.to_string()]).stderr(Stdio::piped());
        let mut tap = tap.spawn().expect("it is installed");
        let said = BufReader::new(tap.stderr.take().expect("a pipe was asked for")).lines().next();
        assert!(said.is_some_and(|line| line.is_ok_and(|line| line.contains("listening on"))));
        let log = std::fs::File::create(dir.path().join("log")).expect("it can be written");
        let mut server = command(&netns, dir.path());
        server.stdout(log.try_clone().expect("it is open")).stderr(log).stdin(Stdio::null());
        let server = ServerProgram(server.spawn().expect("it is installed"));
        let lab = Self { tap: ServerProgram(tap), _server: server, netns, dir, port };
        wait_for(purpose, LONG, || lab.is_open().then_some(()));
        lab
    }

    fn is_open(&self) -> bool {
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let dial = self.netns.spawn(move || TcpStream::connect(to).is_ok());
        dial.join().expect("it does not panic")
    }

    /// What a client prints; `input` is what it reads.
    fn run(&self, program: &str, args: &[&str], input: &str) -> String {
        let mut command = self.netns.command(program);
        command.args(args).current_dir(self.dir.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it is installed");
        let mut pipe = child.stdin.take().expect("a pipe was asked for");
        // A client that does not read has closed it.
        let _ = pipe.write_all(input.as_bytes());
        drop(pipe);
        let output = child.wait_with_output().expect("it ends");
        text(&output.stdout) + &text(&output.stderr)
    }

    /// How many requests weir finds, by operation, code of the error, and end if it is not a good
    /// one; `last` is one that is sent now, so that the capture holds all before it.
    fn found(&mut self, last: impl Fn(&Self), operation: &str) -> BTreeMap<String, u64> {
        let path: PathBuf = self.dir.path().join("all");
        let path = path.to_str().expect("paths of temporary files are text");
        last(self);
        let mut found = wait_for("the last request in the capture", LONG, || {
            Some(read_operations(path)).filter(|found| found.contains_key(operation))
        });
        self.tap.end();
        found.remove(operation);
        found
    }
}

fn read_operations(path: &str) -> BTreeMap<String, u64> {
    let output = weir(&["wire", path, "--format", "ndjson", "--table", "wire_request"]);
    let mut found = BTreeMap::new();
    for line in text(&output.stdout).lines() {
        let row: Value = serde_json::from_str(line).expect("a row");
        let [operation, error] =
            ["operation", "error_code"].map(|name| row[name].as_str().unwrap_or_default());
        // What the capture holds the half of only shows in a reading that comes too early.
        let end = row["end"].as_str().filter(|end| *end != "ok").unwrap_or_default();
        let words = [operation, error, end].map(str::to_owned);
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        *found.entry(words.join(" ")).or_default() += 1;
    }
    found
}

pub(crate) fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn counts<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Where Debian keeps PostgreSQL's server: not on the PATH.
pub(crate) fn postgresql() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    versions
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .find(|bin| has_file(bin, "initdb") && has_file(bin, "postgres"))
}

fn has_file(bin: &Path, name: &str) -> bool {
    bin.join(name).is_file()
}

#[test]
fn requests_of_postgresql_are_what_pgbench_sent() {
    let bin = postgresql().filter(|_| is_there("pgbench") && is_root() && is_there("tcpdump"));
    if !can_run(
        "requests_of_postgresql_are_what_pgbench_sent",
        "PostgreSQL, tcpdump and root",
        bin.is_some(),
    ) {
        return;
    }
    let bin = bin.expect("it was looked for");
    let mut lab = DatabaseLab::start("postgresql", 5432, |netns, dir| {
        // It does not run as root.
        let own = dir.join("own");
        std::fs::create_dir(&own).expect("a directory of ours");
        let (user, group) = ids_of("postgres");
        std::os::unix::fs::chown(&own, Some(user), Some(group)).expect("root may");
        let as_postgres = |mut command: Command, program: &str| {
            command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
            command.arg(bin.join(program)).arg("-D").arg(own.join("data")).current_dir(&own);
            command
        };
        let mut init = as_postgres(Command::new("setpriv"), "initdb");
        let made = init.args(["-A", "trust", "--no-sync"]).output().expect("util-linux is there");
        assert!(made.status.success(), "{}", text(&made.stderr));
        let mut serve = as_postgres(netns.command("setpriv"), "postgres");
        serve.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-k"]).arg(&own);
        serve
    });
    let script = "SELECT 1;\nSELECT count(*) FROM generate_series(1, 2000);\n";
    std::fs::write(lab.dir.path().join("script"), script).expect("it can be written");
    wait_for("PostgreSQL takes queries", LONG, || {
        let log = std::fs::read_to_string(lab.dir.path().join("log")).unwrap_or_default();
        log.contains("ready to accept connections").then_some(())
    });
    for way in ["simple", "extended", "prepared"] {
        let args = "-h 127.0.0.1 -U postgres -n -f script -c 3 -t 40 -M";
        let args: Vec<&str> = args.split(' ').chain([way, "postgres"]).collect();
        let said = lab.run("pgbench", &args, "");
        assert!(said.contains("actually processed: 120/120"), "{said}");
    }
    let found = lab.found(
        |lab: &DatabaseLab| {
            let query = "SELECT * FROM nowhere";
            let said = lab.run("psql", &["-h", "127.0.0.1", "-U", "postgres", "-c", query], "");
            assert!(said.contains("does not exist"), "{said}");
        },
        "Query 42P01",
    );
    // Two statements in each of 120 transactions; each of three clients prepares each statement
    // once.
    let expected =
        [("Query", 240), ("Parse/Bind/Execute", 240), ("Parse", 6), ("Bind/Execute", 240)];
    assert_eq!(found, counts(expected));
}

/// User and group by name, of /etc/passwd.
pub(crate) fn ids_of(name: &str) -> (u32, u32) {
    let users = std::fs::read_to_string("/etc/passwd").expect("every host has it");
    let line = users.lines().find(|line| line.split(':').next() == Some(name));
    let fields: Vec<&str> = line.expect("the package makes it").split(':').collect();
    (id_at(&fields, 2), id_at(&fields, 3))
}

fn id_at(fields: &[&str], at: usize) -> u32 {
    fields[at].parse().expect("a number")
}

#[test]
fn requests_of_mariadb_are_those_of_its_general_log() {
    let programs = ["mariadbd", "mariadb", "mariadb-slap", "tcpdump"];
    let is_ready = programs.into_iter().all(is_there) && is_root();
    if !can_run(
        "requests_of_mariadb_are_those_of_its_general_log",
        "MariaDB, tcpdump and root",
        is_ready,
    ) {
        return;
    }
    let mut lab = DatabaseLab::start("mariadb", 3306, |netns, dir| {
        let own = dir.join("own");
        let data = format!("--datadir={}", own.display());
        let made = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--user=mysql", "--skip-test-db", &data])
            .arg("--auth-root-authentication-method=normal")
            .output()
            .expect("it comes with the server");
        assert!(made.status.success(), "{}", text(&made.stdout));
        let mut serve = netns.command("mariadbd");
        let log = format!("--general-log-file={}", own.join("general").display());
        serve.args(["--no-defaults", "--user=mysql", "--skip-grant-tables", &data, &log]);
        serve.args(["--general-log", "--bind-address=127.0.0.1", "--port=3306"]);
        serve.arg(format!("--socket={}", own.join("socket").display()));
        serve.arg(format!("--pid-file={}", own.join("pid").display()));
        serve
    });
    let selects: String = (0..50).map(|number| format!("SELECT {number};\n")).collect();
    let client = ["--no-defaults", "-h", "127.0.0.1", "-u", "root"];
    lab.run("mariadb", &client, &selects);
    let load = "--query=SELECT 1|--number-of-queries=90|--concurrency=3|--create-schema=mysql";
    let slap: Vec<&str> = client.into_iter().chain(load.split('|')).collect();
    lab.run("mariadb-slap", &slap, "");
    let found = lab.found(
        |lab: &DatabaseLab| {
            let said = lab.run("mariadb", &client, "SELECT * FROM no.where;\n");
            assert!(said.contains("1146"), "{said}");
        },
        "COM_QUERY 1146",
    );
    let log = std::fs::read(lab.dir.path().join("own/general")).expect("it was asked for");
    let log = text(&log);
    let logged = log.lines().filter(|line| line.contains(" Query\t")).count();
    // The refused one is in the log as well.
    let logged = u64::try_from(logged).expect("few") - 1;
    assert!(logged >= 140, "{log}");
    assert_eq!(found, counts([("COM_QUERY", logged)]));
}

#[test]
fn requests_of_redis_are_those_that_it_counts() {
    let programs = ["redis-server", "redis-benchmark", "redis-cli", "tcpdump"];
    let is_ready = programs.into_iter().all(is_there) && is_root();
    if !can_run("requests_of_redis_are_those_that_it_counts", "Redis, tcpdump and root", is_ready) {
        return;
    }
    let mut lab = DatabaseLab::start("redis", 6379, |netns, dir| {
        let mut serve = netns.command("redis-server");
        serve.args(["--port", "6379", "--save", "", "--dir"]).arg(dir);
        serve
    });
    for load in ["-n 300 -c 3 -t get,set -q", "-n 320 -c 3 -P 8 -t incr -q"] {
        let args: Vec<&str> = ["-h", "127.0.0.1"].into_iter().chain(load.split(' ')).collect();
        lab.run("redis-benchmark", &args, "");
    }
    redis(&lab, &["lpush", "counter:__rand_int__", "1"]);
    let counted = redis(&lab, &["info", "commandstats"]);
    // `cmdstat_config|get:calls=4,usec=…,failed_calls=0`
    let mut expected = BTreeMap::new();
    for line in counted.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
        let (name, rest) = line.split_once(":calls=").expect("a count");
        let calls: u64 =
            rest.split(',').next().and_then(|text| text.parse().ok()).expect("a number");
        let failed = if line.contains("failed_calls=1") { " WRONGTYPE" } else { "" };
        let name = name.split('|').next().unwrap_or(name).to_uppercase();
        *expected.entry(name + failed).or_default() += calls;
    }
    assert_eq!(expected.get("INCR"), Some(&320), "{counted}");
    // Counting was a request as well.
    *expected.entry("INFO".to_owned()).or_default() += 1;
    assert_eq!(lab.found(|lab: &DatabaseLab| drop(redis(lab, &["echo", "x"])), "ECHO"), expected);
}

fn redis(lab: &DatabaseLab, args: &[&str]) -> String {
    lab.run("redis-cli", &[&["-h", "127.0.0.1"], args].concat(), "")
}

/// What Debian has no package of: an implementation in memory that speaks the protocol, asked by
/// MongoDB's own driver.
#[test]
fn requests_of_mongodb_are_what_its_driver_sent() {
    let beside = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (python, jars) = (beside.join("python/bin/python"), beside.join("mongo/libs"));
    let is_ready = python.is_file() && jars.is_dir() && is_there("java") && is_there("tcpdump");
    let test = "requests_of_mongodb_are_what_its_driver_sent";
    if !can_run(test, "jars, Python packages (cargo xtask setup) and root", is_ready && is_root()) {
        return;
    }
    let mut lab = DatabaseLab::start("mongodb", 27_017, |netns, _| {
        let mut serve = netns.command("java");
        serve.args(["-Xmx128m", "-cp", &format!("{}/*", jars.display())]);
        serve.arg("de.bwaldvogel.mongo.InMemoryMongoServer");
        serve
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/mongo.py");
    let [python, script] = [python, script].map(|path| path.display().to_string());
    let said = lab.run(&python, &[&script], "");
    let sent: BTreeMap<String, u64> = serde_json::from_str(&said).expect("what the driver counts");
    let mut found =
        lab.found(|lab: &DatabaseLab| drop(lab.run(&python, &[&script, "ping"], "")), "ping");
    // How connections begin is not among what the driver counts.
    for operation in ["OP_QUERY", "hello", "ismaster"] {
        found.remove(operation);
    }
    assert_eq!(found, sent);
}
