//! `[[databases]]`: real servers with real replicas, faults in them, and weir's diagnosis.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::harness::weir as run_weir;
use super::harness::{Weir, can_run, free_port, is_root, quiet, serve, text, try_rows, wait_for};
use super::wire_databases::{ServerProgram, ids_of, is_there, postgresql};

const LONG: Duration = Duration::from_secs(60);

/// weir with these entries, watching nothing else.
pub(crate) fn watch(dir: &Path, entries: &str) -> Weir {
    let path = dir.join("weir.toml");
    std::fs::write(&path, entries).expect("it can be written");
    let mut command = serve("up", &dir.join("weir"));
    quiet(&mut command);
    command.arg("--config").arg(path);
    Weir::start(command)
}

/// Waits until `sql` answers true.
pub(crate) fn holds(weir: &Weir, sql: &str) {
    wait_for(sql, LONG, || (try_rows(&weir.url, sql).ok()?.first()?[0] == true).then_some(()));
}

/// Waits for a firing finding of `rule`.
fn fires(weir: &Weir, rule: &str) -> serde_json::Value {
    wait_for(rule, LONG, || {
        weir.findings(rule).into_iter().find(|found| found["state"] == "firing")
    })
}

pub(crate) fn start(command: &mut Command) -> ServerProgram {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    ServerProgram(command.spawn().expect("it is installed"))
}

/// What a command prints; it must succeed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it is installed");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

#[test]
fn keys_that_redis_throws_out_and_its_replica_are_seen() {
    let is_ready = is_there("redis-server") && is_there("redis-cli");
    if !can_run("keys_that_redis_throws_out_and_its_replica_are_seen", "Redis", is_ready) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (port, replica) = (free_port().to_string(), free_port().to_string());
    let server = |port: &str, more: &[&str]| {
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            port,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--requirepass",
            "sesame",
        ]);
        start(command.args(["--masterauth", "sesame"]).args(more).arg("--dir").arg(dir.path()))
    };
    let _primary = server(&port, &["--maxmemory", "4mb", "--maxmemory-policy", "volatile-lru"]);
    let _replica = server(&replica, &["--replicaof", "127.0.0.1", &port]);
    let _chained = server(&free_port().to_string(), &["--replicaof", "127.0.0.1", &replica]);
    let password = dir.path().join("password");
    std::fs::write(&password, "sesame\n").expect("it can be written");
    let entry = |port: &str, more: &str| {
        let file = password.display();
        format!(
            "[[databases]]\nsystem = \"redis\"\naddress = \"127.0.0.1:{port}\"\npassword_file = \"{file}\"\n{more}\n"
        )
    };
    let entries = entry(&port, "purpose = \"store\"") + &entry(&replica, "");
    let weir = watch(dir.path(), &entries);
    holds(
        &weir,
        &format!(
            "select count(*) > 0 from db_replica where role = 'replica' and is_running and server_address = '127.0.0.1:{port}'"
        ),
    );
    holds(
        &weir,
        &format!(
            "select count(*) > 0 from db_replica where role = 'source' and is_running and peer = '127.0.0.1:{port}'"
        ),
    );
    // The replica serves another one: it reports both sides.
    let of_replica = at_port(&replica);
    holds(
        &weir,
        &format!("select count(*) > 0 from db_replica where role = 'replica' and {of_replica}"),
    );
    holds(
        &weir,
        &format!(
            "select count(*) > 0 from db_member where is_self and role = 'relay' and source_member = '127.0.0.1:{port}' and is_read_only and {of_replica}"
        ),
    );
    let script =
        "for i = 1, 20000 do redis.call('setex', KEYS[1] .. i, 1000, string.rep('x', 500)) end";
    run(Command::new("redis-cli").args(["-p", &port, "-a", "sesame", "eval", script, "1", "k"]));
    let found = fires(&weir, "redis.evictions");
    assert_eq!(found["class"], "page", "{found}");
    let summary = found["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("evicted") && summary.contains("volatile-lru"), "{found}");
    let replay =
        ["rules", "replay", "redis.evictions", "--since", "10m", "--format", "json", "--url"];
    // It looks at the rule's own pace, which is slower than that of a weir in which something
    // begins.
    let replayed = wait_for("a replay that fires", LONG, || {
        let output = run_weir(&[&replay[..], &[&weir.url]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let replayed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let count = replayed["findings"].as_array().map(Vec::len)?;
        (count > 0).then_some(replayed)
    });
    assert_eq!(replayed["findings"][0]["class"], "page", "{replayed}");
    assert_eq!(replayed["findings"].as_array().map(Vec::len), Some(1), "{replayed}");
    let wrong = entry(&port, "").replace("password_file", "database = \"x\"\n#");
    drop(weir);
    let weir = watch(dir.path(), &wrong);
    holds(&weir, "select count(*) > 0 from db_server where error like '%NOAUTH%'");
}

#[test]
fn postgresql_replica_that_does_not_apply_and_sessions_behind_a_lock_are_found() {
    let name = "postgresql_replica_that_does_not_apply_and_sessions_behind_a_lock_are_found";
    let bin = postgresql().filter(|_| is_root());
    if !can_run(name, "PostgreSQL and root", bin.is_some()) {
        return;
    }
    let bin = bin.expect("it was looked for");
    let dir = tempfile::tempdir().expect("a directory");
    let own = dir.path().join("own");
    std::fs::create_dir(&own).expect("a directory of ours");
    let (user, group) = ids_of("postgres");
    for path in [dir.path(), &own] {
        std::os::unix::fs::chown(path, Some(user), Some(group)).expect("root may");
    }
    let password = own.join("password");
    std::fs::write(&password, "sesame\n").expect("it can be written");
    std::os::unix::fs::chown(&password, Some(user), Some(group)).expect("root may");
    // It does not run as root.
    let (first, second) = (own.join("first"), own.join("second"));
    let mut init = as_postgres(&bin, &own, "initdb");
    init.args(["-A", "scram-sha-256", "--no-sync", "-D"]).arg(&first);
    run(init.arg(format!("--pwfile={}", password.display())));
    let (port, replica) = (free_port().to_string(), free_port().to_string());
    let server = |data: &Path, port: &str| {
        let mut command = as_postgres(&bin, &own, "postgres");
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-p", port, "-k"]);
        start(command.arg(&own).arg("-D").arg(data))
    };
    let psql = |port: &str, sql: &str| {
        let mut command = as_postgres(&bin, &own, "psql");
        command.args(["-h", "127.0.0.1", "-U", "postgres", "-qAt", "-p", port, "-c", sql]);
        command
    };
    let is_up = |port: &str| {
        wait_for("PostgreSQL takes queries", LONG, || {
            let output = psql(port, "select 1").output().expect("it is installed");
            output.status.success().then_some(())
        });
    };
    let _first = server(&first, &port);
    is_up(&port);
    let mut copy = as_postgres(&bin, &own, "pg_basebackup");
    copy.args(["-h", "127.0.0.1", "-U", "postgres", "-R", "--no-sync", "-c", "fast", "-p", &port]);
    run(copy.arg("-D").arg(&second));
    let _second = server(&second, &replica);
    is_up(&replica);
    let entry = |port: &str| {
        let file = password.display();
        format!(
            "[[databases]]\nsystem = \"postgresql\"\naddress = \"127.0.0.1:{port}\"\nuser = \"postgres\"\npassword_file = \"{file}\"\n"
        )
    };
    run(&mut psql(&port, "create table t (x text)"));
    run(&mut psql(&port, "select pg_create_physical_replication_slot('gone', true)"));
    let weir = watch(dir.path(), &(entry(&port) + &entry(&replica)));
    holds(
        &weir,
        &format!(
            "select count(*) > 0 from db_server where not is_replica and connection_limit > 10 and data_directory = '{}' and {}",
            first.display(),
            at_port(&port)
        ),
    );
    holds(
        &weir,
        &format!(
            "select count(*) > 0 from db_replica where role = 'source' and is_running and not is_paused and {}",
            at_port(&replica)
        ),
    );
    // Nothing is unapplied, so there is no lag, however old the last commit is.
    holds(
        &weir,
        &format!(
            "select count(*) > 0 from db_replica where role = 'source' and unapplied_bytes = 0 and lag_seconds is null and {}",
            at_port(&replica)
        ),
    );
    holds(
        &weir,
        "select count(distinct member) = 2 and count(distinct cluster) = 1 and bool_and(cluster <> '' and term = 1) from db_member where is_self",
    );
    run(&mut psql(&replica, "select pg_wal_replay_pause()"));
    run(&mut psql(&port, "insert into t select repeat('x', 100) from generate_series(1, 20000)"));
    holds(
        &weir,
        &format!(
            "select count(*) > 0 from db_replica where role = 'replica' and state = 'streaming' and unapplied_bytes > 1000000 and {}",
            at_port(&port)
        ),
    );
    holds(
        &weir,
        "select count(*) > 0 from db_replica where role = 'slot' and peer = 'gone' and not is_running and retained_bytes > 1000000",
    );
    let found = fires(&weir, "pg.replica_lag");
    assert!(
        found["fix"].as_str().is_some_and(|fix| fix.contains("pg_wal_replay_resume")),
        "{found}"
    );

    let _blocker = start(&mut psql(&port, "begin; lock table t; select pg_sleep(60)"));
    // Else a waiter could be first.
    wait_for("the lock", LONG, || {
        let held = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted";
        (run(&mut psql(&port, held)).trim() == "1").then_some(())
    });
    let _waiters: Vec<ServerProgram> =
        (0..5).map(|_| start(&mut psql(&port, "select count(*) from t"))).collect();
    let found = fires(&weir, "pg.lock_pileup");
    let summary = found["summary"].as_str().unwrap_or_default();
    assert!(
        summary.contains("5 sessions") && summary.contains("of user postgres (active"),
        "{found}"
    );
}

fn as_postgres(bin: &Path, own: &Path, program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
    command.arg(bin.join(program)).current_dir(own).env("PGPASSWORD", "sesame");
    command
}

fn at_port(port: &str) -> String {
    format!("server_address = '127.0.0.1:{port}'")
}

#[test]
fn mariadb_replica_that_was_stopped_is_found() {
    let is_ready = is_there("mariadbd") && is_there("mariadb") && is_root();
    if !can_run("mariadb_replica_that_was_stopped_is_found", "MariaDB and root", is_ready) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (user, group) = ids_of("mysql");
    std::os::unix::fs::chown(dir.path(), Some(user), Some(group)).expect("root may");
    let server = |name: &str, id: &str, port: &str| {
        let own = dir.path().join(name);
        let data = format!("--datadir={}", own.display());
        let mut init = Command::new("mariadb-install-db");
        init.args(["--no-defaults", "--user=mysql", "--skip-test-db", &data]);
        run(init.arg("--auth-root-authentication-method=normal"));
        let mut serve = Command::new("mariadbd");
        serve.args([
            "--no-defaults",
            "--user=mysql",
            "--bind-address=127.0.0.1",
            "--log-bin",
            &data,
        ]);
        serve.args(["--server-id", id, "--port", port]);
        serve.arg(format!("--socket={}", own.join("socket").display()));
        start(serve.arg(format!("--pid-file={}", own.join("pid").display())))
    };
    let (port, replica) = (free_port().to_string(), free_port().to_string());
    let _first = server("first", "1", &port);
    let _second = server("second", "2", &replica);
    let sql = |name: &str, sql: &str| {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "-u", "root", "-e", sql]);
        command.arg(format!("--socket={}", dir.path().join(name).join("socket").display()));
        command
    };
    for name in ["first", "second"] {
        wait_for("MariaDB takes queries", LONG, || {
            let output = sql(name, "select 1").output().expect("it is installed");
            output.status.success().then_some(())
        });
        let grants = "create user weir@'127.0.0.1' identified by 'sesame'; \
            grant replication client, replication slave, replica monitor, select on *.* to weir@'127.0.0.1'";
        run(&mut sql(name, &format!("set sql_log_bin = 0; {grants}")));
    }
    let source = format!(
        "change master to master_host = '127.0.0.1', master_port = {port}, master_user = 'weir', \
        master_password = 'sesame', master_use_gtid = slave_pos; start slave"
    );
    run(&mut sql("second", &source));
    run(&mut sql(
        "first",
        "create database hb; create table hb.beat (at datetime(6)); insert into hb.beat values (utc_timestamp(6))",
    ));
    let password = dir.path().join("password");
    std::fs::write(&password, "sesame\n").expect("it can be written");
    let entry = |port: &str, more: &str| {
        let file = password.display();
        format!(
            "[[databases]]\nsystem = \"mysql\"\naddress = \"127.0.0.1:{port}\"\npassword_file = \"{file}\"\n{more}\n"
        )
    };
    let heartbeat = "heartbeat = \"select timestampdiff(microsecond, max(at), utc_timestamp(6)) / 1e6 from hb.beat\"";
    let weir = watch(dir.path(), &(entry(&port, "") + &entry(&replica, heartbeat)));
    holds(
        &weir,
        &format!(
            "select count(*) > 0 from db_server where not is_replica and connection_limit = 151 and connections > 0 and server_address = '127.0.0.1:{port}'"
        ),
    );
    holds(
        &weir,
        &format!(
            "select count(*) > 0 from db_replica where state = 'Yes/Yes' and is_running and heartbeat_seconds > 0 and peer = '127.0.0.1:{port}'"
        ),
    );
    assert_eq!(weir.findings("mysql.replica_broken").len(), 0);
    run(&mut sql("second", "stop slave sql_thread"));
    let found = fires(&weir, "mysql.replica_broken");
    let summary = found["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("receiver Yes, applier No"), "{found}");
    run(&mut sql("second", "start slave sql_thread"));
    holds(
        &weir,
        "select state = 'Yes/Yes' from db_replica where role = 'source' order by ts desc limit 1",
    );
    // A backup on the replica that locks what its source writes.
    let _backup = start(&mut sql("second", "lock tables hb.beat read; select sleep(60)"));
    wait_for("the lock", LONG, || {
        let asked =
            "select count(*) from information_schema.processlist where state = 'User sleep'";
        let output = sql("second", asked).output().expect("it is installed");
        String::from_utf8_lossy(&output.stdout).contains('1').then_some(())
    });
    run(&mut sql("first", "update hb.beat set at = utc_timestamp(6)"));
    let words = "applier state `Waiting for table metadata lock`";
    wait_for("a finding that says what it waits for", LONG, || {
        let mut found = weir.findings("mysql.replica_lag").into_iter();
        found.find(|found| found["summary"].as_str().is_some_and(|text| text.contains(words)))
    });
}
