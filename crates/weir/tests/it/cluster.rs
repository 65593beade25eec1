//! Several hubs over one PostgreSQL and one directory: an agent that moves on when its hub is
//! killed, and each line once.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::fleet::FleetHost;
use super::harness::{
    WEIR, Weir, can_run, free_address, is_root, quiet, request, text, wait_for, weir,
};
use super::heals;
use super::wire_databases::{ids_of, postgresql};

const PATIENCE: Duration = Duration::from_secs(60);

/// PostgreSQL of one test; ends with the value.
pub(super) struct ManifestDatabase {
    child: Child,
    port: u16,
}

impl ManifestDatabase {
    pub(super) fn start(bin: &Path, dir: &Path) -> Self {
        let own = dir.join("postgresql");
        std::fs::create_dir(&own).expect("a directory of ours");
        let (user, group) = ids_of("postgres");
        for path in [dir, &own] {
            std::os::unix::fs::chown(path, Some(user), Some(group)).expect("root may");
        }
        // It does not run as root.
        let data = own.join("data");
        let mut init = as_postgres(bin, &own, "initdb");
        let made = init.args(["-A", "trust", "-U", "weir", "--no-sync", "-D"]).arg(&data).output();
        assert!(made.expect("it is installed").status.success());
        let port = free_address().port();
        let mut server = as_postgres(bin, &own, "postgres");
        server.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-k"]).arg(&own);
        server.args(["-p", &port.to_string(), "-D"]).arg(&data);
        let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let database = Self { child: child.expect("it can be started"), port };
        wait_for("PostgreSQL takes queries", PATIENCE, || {
            let mut psql = Command::new(bin.join("psql"));
            psql.args(["-h", "127.0.0.1", "-U", "weir", "-d", "postgres", "-c", "select 1"]);
            let output = psql.args(["-p", &port.to_string()]).output().expect("it is installed");
            output.status.success().then_some(())
        });
        database
    }

    fn url(&self) -> String {
        format!("postgresql://weir@127.0.0.1:{}/postgres", self.port)
    }
}

fn as_postgres(bin: &Path, own: &Path, program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
    command.arg(bin.join(program)).current_dir(own);
    command
}

impl Drop for ManifestDatabase {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One hub of several.
pub(super) struct ClusterMember {
    data: PathBuf,
    page: std::net::SocketAddr,
    agents: std::net::SocketAddr,
}

impl ClusterMember {
    pub(super) fn new(dir: &Path, name: &str) -> Self {
        Self { data: dir.join(name), page: free_address(), agents: free_address() }
    }

    fn start(&self, database: &ManifestDatabase) -> Weir {
        let mut command = self.command(database);
        command.env("WEIR_STORE_FLUSH_SECONDS", "1");
        Weir::start(command)
    }

    pub(super) fn command(&self, database: &ManifestDatabase) -> Command {
        let mut command = Command::new(WEIR);
        command.arg("hub").arg("--data").arg(&self.data).args(["--log-level", "warn"]);
        command.args(["--listen", &self.page.to_string(), "--agents", &self.agents.to_string()]);
        command.args(["--cluster", &database.url()]);
        command.env("WEIR_STORE_SLOW_PATH", self.data.with_file_name("files"));
        command.env("WEIR_CLUSTER_NAME", self.data.file_name().expect("it has a name"));
        command.env("XDG_CONFIG_HOME", "/nonexistent");
        command.env("WEIR_LINK_HEARTBEAT_SECONDS", "1");
        // Every query is dealt out.
        command.env("WEIR_CLUSTER_SPREAD_BYTES", "0");
        quiet(&mut command);
        command
    }
}

fn write(log: &Path, numbers: std::ops::Range<u32>) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log");
    for number in numbers {
        writeln!(file, "line {number}").expect("it can be written");
    }
}

fn count(url: &str, sql: &str) -> String {
    let output = weir(&["query", sql, "--format", "csv", "--url", url]);
    text(&output.stdout).lines().nth(1).unwrap_or_default().to_owned()
}

fn has(url: &str, lines: u32) {
    let sql = "select count(*) || ' ' || count(distinct body) from log where body like 'line %'";
    wait_for(&format!("{lines} lines at {url}"), PATIENCE, || {
        (count(url, sql) == format!("{lines} {lines}")).then_some(())
    });
}

#[test]
fn agent_moves_on_when_its_hub_is_killed_and_each_hub_answers_for_all() {
    let name = "agent_moves_on_when_its_hub_is_killed_and_each_hub_answers_for_all";
    let bin = postgresql().filter(|_| is_root());
    if !can_run(name, "PostgreSQL and root", bin.is_some()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let database = ManifestDatabase::start(&bin.expect("it was looked for"), dir.path());
    let (one, two) = (ClusterMember::new(dir.path(), "one"), ClusterMember::new(dir.path(), "two"));
    let (first, second) = (one.start(&database), two.start(&database));
    wait_for("each hub knows of the other", PATIENCE, || {
        (knows_its_peer(&first) && knows_its_peer(&second)).then_some(())
    });
    // Who was invited at one hub is known at the other, whose address the agent has as well.
    let addresses = [one.agents.to_string(), two.agents.to_string()];
    let mut invite = Command::new(WEIR);
    invite.args([
        "hub",
        "invite",
        "--address",
        &addresses[0],
        "--address",
        &addresses[1],
        "--data",
    ]);
    let token =
        invite.arg(&one.data).env("XDG_CONFIG_HOME", "/nonexistent").output().expect("weir");
    assert!(token.status.success(), "{}", text(&token.stderr));
    let host_dir = dir.path().join("host");
    std::fs::create_dir(&host_dir).expect("a directory");
    let host = FleetHost(&host_dir);
    let joined = host.join(text(&token.stdout).trim(), "web1");
    assert!(joined.status.success(), "{}", text(&joined.stderr));
    wait_for("the agent is known at the other hub", PATIENCE, || {
        two.data.join("link/agents/web1").exists().then_some(())
    });
    let log = dir.path().join("app.log");
    write(&log, 0..500);
    let _agent = host.start_towards(&log, &[one.agents, two.agents], &[]);
    has(&first.url, 500);
    has(&second.url, 500);
    // Its hub is killed; what came into no file comes again, by way of the other one.
    write(&log, 500..900);
    first.kill();
    write(&log, 900..1200);
    has(&second.url, 1200);
    // The hub comes back, with rows in its log that are the other's by now.
    let first = one.start(&database);
    has(&first.url, 1200);
    write(&log, 1200..1300);
    has(&first.url, 1300);
    has(&second.url, 1300);
    let audit = weir(&["audit", &log.display().to_string(), "--host", "web1", "--url", &first.url]);
    assert!(audit.status.success(), "{}{}", text(&audit.stdout), text(&audit.stderr));
    query_survives_a_hub(&log, &first, second);
}

pub(super) fn knows_its_peer(hub: &Weir) -> bool {
    hub.get("/api/status")["cluster"]["peers"][0]["name"].is_string()
}

/// A query that both hubs are at work on, one of which is killed.
fn query_survives_a_hub(log: &Path, first: &Weir, second: Weir) {
    // Of several days, so that they are in several files.
    let mut file = std::fs::OpenOptions::new().append(true).open(log).expect("a log");
    for number in 0..1200 {
        let day = 10 + number % 4;
        writeln!(file, "2026-11-{day}T10:00:00Z dated {number}").expect("it can be written");
    }
    let dated = "log where body like '%dated %'";
    let days =
        format!("select count(*) || ' ' || count(distinct date_trunc('day', ts)) from {dated}");
    wait_for("lines of four days", PATIENCE, || {
        (count(&first.url, &days) == "1200 4").then_some(())
    });
    for hub in [first, &second] {
        let flushed = weir(&["store", "flush", "--url", &hub.url]);
        assert!(flushed.status.success(), "{}", text(&flushed.stderr));
    }
    wait_for("the files of the other hub", PATIENCE, || {
        (first.get("/api/status")["store"]["file_rows"].as_u64() >= Some(2500)).then_some(())
    });
    let side = format!("(select source, source_offset as n from {dated}");
    let sql = format!(
        "select count(*) from {side}) a join {side}) b on a.source = b.source
         join {side} and body ~ 'dated 11[0-3]') c on b.source = c.source and a.n + b.n >= c.n - 1000000000"
    );
    let before = pieces(&second);
    let url = first.url.clone();
    let asking = std::thread::spawn(move || count(&url, &sql));
    wait_for("a piece at the other hub", PATIENCE, || {
        (pieces(&second) > before || asking.is_finished()).then_some(())
    });
    assert!(!asking.is_finished(), "it was too quick: {:?}", asking.join());
    second.kill();
    let answer = asking.join().expect("it was asked");
    // 110 to 113 and 1100 to 1139: the answer comes within the time limit beside other tests.
    assert_eq!(answer, (1200 * 1200 * 44).to_string());
}

fn pieces(hub: &Weir) -> Option<u64> {
    hub.get("/api/status")["cluster"]["pieces"].as_u64()
}

/// Two hubs that write nothing to files by themselves; where each takes rows in.
pub(super) fn two_hubs(dir: &Path, database: &ManifestDatabase) -> ([Weir; 2], [String; 2]) {
    let intakes = [free_address().to_string(), free_address().to_string()];
    let start = |name: &str, intake: &String| {
        let mut command = ClusterMember::new(dir, name).command(database);
        command.env("WEIR_INTAKE_HTTP", intake);
        Weir::start(command)
    };
    ([start("one", &intakes[0]), start("two", &intakes[1])], intakes)
}

#[test]
fn cluster_is_backed_up_and_brought_back_by_commands() {
    let name = "cluster_is_backed_up_and_brought_back_by_commands";
    let bin = postgresql().filter(|_| is_root());
    if !can_run(name, "PostgreSQL and root", bin.is_some()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let database = ManifestDatabase::start(&bin.expect("it was looked for"), dir.path());
    let (hubs, intakes) = two_hubs(dir.path(), &database);
    for (part, intake) in intakes.iter().enumerate() {
        let lines: String = (0..100)
            .map(|n: usize| format!("{{\"message\": \"line {}\"}}\n", part * 100 + n))
            .collect();
        let (status, _, told) = request(intake, "POST", "/intake/jsonl?source=app", &[], &lines);
        assert_eq!(status, 200, "{told}");
    }
    let copy = dir.path().join("copy").display().to_string();
    let run = |args: &[&str], schema: &str, files: &str| {
        let mut command = Command::new(WEIR);
        command.args(args).env("XDG_CONFIG_HOME", "/nonexistent");
        command.env("WEIR_CLUSTER_MANIFEST", database.url()).env("WEIR_CLUSTER_SCHEMA", schema);
        command.env("WEIR_STORE_SLOW_PATH", dir.path().join(files));
        let output = command.output().expect("weir can be started");
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    };
    let (is_done, told) = run(&["backup", &copy], "weir", "files");
    assert!(is_done && !told.contains("is not there"), "{told}");
    let [first, second] = hubs;
    second.kill();
    let (is_done, told) = run(&["restore", &copy], "weir", "files");
    assert!(!is_done && told.contains("there is one in `weir`"), "{told}");
    let (is_done, told) = run(&["restore", &copy], "again", "again");
    assert!(is_done && told.contains("start hubs with empty data directories"), "{told}");
    let mut command = ClusterMember::new(dir.path(), "three").command(&database);
    command.env("WEIR_CLUSTER_SCHEMA", "again");
    command.env("WEIR_STORE_SLOW_PATH", dir.path().join("again"));
    let third = Weir::start(command);
    assert_eq!(
        read(authority_of(dir.path(), "three")),
        read(authority_of(dir.path(), "one")),
        "agents know them as the same fleet"
    );
    for hub in [&first, &third] {
        has(&hub.url, 200);
    }
    // A file of the new cluster is damaged and repaired while its hub runs.
    std::fs::write(only_entry(only_entry(dir.path().join("again/data/log"))), "PAR1")
        .expect("it is ours");
    let elsewhere = dir.path().join("elsewhere").display().to_string();
    let repair = ["store", "repair", "--data", &elsewhere];
    let (is_whole, told) = run(&repair, "again", "again");
    assert!(!is_whole && told.contains("has 4 bytes, not") && told.contains("  lost: "), "{told}");
    assert!(
        told.contains("the file is now `lost/log/") && told.contains("1 files mended"),
        "{told}"
    );
    let (is_whole, told) = run(&["store", "check"], "again", "again");
    assert!(is_whole && told.contains("every file is as the manifest says"), "{told}");
    let alone = dir.path().join("alone");
    let (is_done, told) =
        run(&["restore", &copy, "--data", &alone.display().to_string()], "weir", "files");
    assert!(is_done, "{told}");
    let mut command = super::harness::serve("hub", &alone);
    command.args(["--agents", &free_address().to_string()]);
    quiet(&mut command);
    has(&Weir::start(command).url, 200);
}

/// The leader orders, and the hub that has the agent carries the order: the agent is connected to the other one.
#[test]
fn order_of_the_leader_reaches_an_agent_of_another_hub() {
    let name = "order_of_the_leader_reaches_an_agent_of_another_hub";
    let bin = postgresql().filter(|_| is_root());
    if !can_run(name, "PostgreSQL and root", bin.is_some()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let database = ManifestDatabase::start(&bin.expect("it was looked for"), dir.path());
    let (config, rules) = (dir.path().join("weir.toml"), dir.path().join("rules"));
    std::fs::write(&config, heals::CONFIG).expect("it can be written");
    std::fs::create_dir(&rules).expect("a directory");
    std::fs::write(rules.join("test.stuck.sql"), heals::RULE).expect("it can be written");
    let start = |member: &ClusterMember| {
        let mut command = member.command(&database);
        command.arg("--config").arg(&config).env("WEIR_RULES_DIR", &rules);
        command.env("WEIR_STORE_FLUSH_SECONDS", "1");
        Weir::start(command)
    };
    let members = [ClusterMember::new(dir.path(), "one"), ClusterMember::new(dir.path(), "two")];
    let hubs = [start(&members[0]), start(&members[1])];
    wait_for("each hub knows of the other", PATIENCE, || {
        hubs.iter().all(knows_its_peer).then_some(())
    });
    let keys = hubs.each_ref().map(|hub| hub.get("/api/actions")["public_key"].clone());
    assert!(keys[0].is_string() && keys[0] == keys[1], "{keys:?}");
    let leads = |hub: &Weir| hub.get("/api/status")["cluster"]["is_leader"] == true;
    let leader = wait_for("a leader", PATIENCE, || hubs.iter().position(leads));
    let other = &members[1 - leader];
    let mut invite = Command::new(WEIR);
    invite.args(["hub", "invite", "--address", &other.agents.to_string(), "--data"]);
    invite.arg(&other.data).env("XDG_CONFIG_HOME", "/nonexistent");
    let token = invite.output().expect("weir can be started");
    assert!(token.status.success(), "{}", text(&token.stderr));
    let place = dir.path().join("host");
    std::fs::create_dir(&place).expect("a directory");
    let host = FleetHost(&place);
    let joined = host.join(text(&token.stdout).trim(), "web1");
    assert!(joined.status.success(), "{}", text(&joined.stderr));
    let log = dir.path().join("app.log");
    std::fs::write(&log, "stuck shop.service\n").expect("it can be written");
    let socket = dir.path().join("none.sock").display().to_string();
    let set = [("WEIR_ACT_SOCKET", socket.as_str()), ("WEIR_COLLECT_SAMPLE_HOST", "true")];
    let _agent = host.start_with(&log, other.agents, &set);
    let run = heals::run_in(&hubs[leader], "asked");
    let id = run["run_id"].as_str().expect("an id");
    // A person decides at any hub.
    let url = &hubs[1 - leader].url;
    let approved = weir(&["heal", "approve", id, "--by", "ada", "--url", url]);
    assert!(approved.status.success(), "{}", text(&approved.stderr));
    let refused = heals::run_in(&hubs[leader], "refused");
    assert_eq!(refused["refusal"], "by_host", "{refused}");
    assert!(refused["reason"].as_str().is_some_and(|why| why.contains("weir-act")), "{refused}");
}

fn authority_of(dir: &Path, name: &str) -> PathBuf {
    dir.join(name).join("link/authority.pem")
}

fn read(path: PathBuf) -> Vec<u8> {
    std::fs::read(path).expect("it is there")
}

fn only_entry(place: PathBuf) -> PathBuf {
    let mut entries = std::fs::read_dir(place).expect("it is there");
    entries.next().expect("there is one").expect("it can be read").path()
}

#[test]
fn hub_that_cannot_be_in_the_cluster_says_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let url = format!("postgresql://weir@{}/weir", free_address());
    let said = refusal_of(dir.path(), &["hub", "--cluster", &url], &[]);
    assert!(said.contains("`store.slow_path`"), "{said}");
    let files = dir.path().join("files").display().to_string();
    let place = [("WEIR_STORE_SLOW_PATH", files.as_str())];
    let said = refusal_of(dir.path(), &["hub", "--cluster", &url], &place);
    assert!(said.contains("cannot reach the manifest in PostgreSQL at `127.0.0.1:"), "{said}");
    let said = refusal_of(dir.path(), &["hub", "--cluster", "mysql://x"], &place);
    assert!(said.contains("postgresql://USER@HOST:5432/DATABASE"), "{said}");
    let said = refusal_of(dir.path(), &["up"], &[place[0], ("WEIR_CLUSTER_MANIFEST", &url)]);
    assert!(said.contains("`weir up` is a single hub"), "{said}");
}

fn refusal_of(dir: &Path, args: &[&str], set: &[(&str, &str)]) -> String {
    let mut command = Command::new(WEIR);
    command.args(args).arg("--data").arg(dir.join("data"));
    command.args(["--listen", "127.0.0.1:0", "--log-level", "warn"]);
    command.env("XDG_CONFIG_HOME", "/nonexistent").envs(set.iter().copied());
    let output = command.stdin(Stdio::null()).output().expect("weir can be started");
    assert!(!output.status.success());
    text(&output.stderr)
}
