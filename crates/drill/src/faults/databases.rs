//! Faults of databases, each a server that listens on a socket in the testbed's directory.

use std::time::Duration;

use rustix::process::Signal;

use crate::cgroups::DiskSize;
use crate::command::{output, run, until};
use crate::error::{DrillError, Result};
use crate::fault::{Fault, parameter};
use crate::pause;
use crate::testbed::{CLIENT, Netns, SERVER, TestBed};

/// User that PostgreSQL runs as, since it refuses root.
const USER: &str = "postgres";
/// Name of a server in errors of [`until`].
const DATABASE: &str = "a database server";

/// A database server of the testbed, which names its directory.
#[derive(Clone, Copy)]
pub(super) struct Instance(&'static str);

/// The primary of a replicated pair, or the only server.
pub(super) const PRIMARY: Instance = Instance("first");
/// The replica.
const REPLICA: Instance = Instance("second");

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "Redis stopped",
        rules: &[&["db.not_answering"]],
        parameters: &[parameter("mebibytes", 8..=64, "MiB of its memory limit")],
        tools: &["redis-server", "redis-cli"],
        set: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            redis(testbed, &format!("{mebibytes}mb"))
        },
        inject: |testbed| {
            testbed.signal("redis", Signal::STOP)?;
            Ok(None)
        },
    },
    Fault {
        name: "PostgreSQL's sessions behind a lock",
        rules: &[&["pg.lock_pileup"]],
        parameters: &[parameter("sessions", 6..=20, "waiting sessions")],
        tools: &["psql", "setpriv"],
        set: |testbed| {
            postgresql(testbed, PRIMARY)?;
            psql(testbed, PRIMARY, "create table stock (n int)").map(drop)
        },
        inject: |testbed| {
            let sessions = testbed.draw("sessions");
            start_session(testbed, "begin; lock table stock; select pg_sleep(120)")?;
            let held =
                "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted";
            until(DATABASE, || Ok(psql(testbed, PRIMARY, held)?.trim() == "1"))?;
            (0..sessions).try_for_each(|_| start_session(testbed, "select count(*) from stock"))?;
            Ok(None)
        },
    },
    Fault {
        name: "PostgreSQL without connections",
        rules: &[&["db.connections_exhausted"]],
        parameters: &[parameter("connections", 16..=40, "max_connections")],
        tools: &["psql", "setpriv"],
        set: |testbed| {
            let connections = testbed.draw("connections");
            postgresql_with(testbed, PRIMARY, &[&format!("max_connections={connections}")])
        },
        inject: |testbed| {
            // Leave four connections to the drill itself and to weir.
            let most = psql(testbed, PRIMARY, "show max_connections")?;
            let sessions = most.trim().parse().unwrap_or(16) - 4;
            (0..sessions).try_for_each(|_| start_session(testbed, "select pg_sleep(120)"))?;
            Ok(None)
        },
    },
    Fault {
        name: "PostgreSQL's replica does not apply",
        rules: &[&["pg.replica_lag"]],
        parameters: &[parameter("rows", 5_000..=60_000, "rows written meanwhile")],
        tools: &["psql", "setpriv"],
        set: |testbed| {
            postgresql(testbed, PRIMARY)?;
            psql(testbed, PRIMARY, "create table stock (n int)")?;
            replica(testbed)
        },
        inject: |testbed| {
            let rows = testbed.draw("rows");
            psql(testbed, REPLICA, "select pg_wal_replay_pause()")?;
            let write = format!("insert into stock select generate_series(1, {rows})");
            psql(testbed, PRIMARY, &write).map(|_| None)
        },
    },
    Fault {
        name: "MariaDB's replica stopped",
        rules: &[&["mysql.replica_broken"]],
        parameters: &[parameter("rows", 10..=1000, "rows written meanwhile")],
        tools: &["mariadbd", "mariadb", "mariadb-install-db"],
        set: mariadb_pair,
        inject: |testbed| {
            let rows = testbed.draw("rows");
            sql(testbed, REPLICA, "stop slave sql_thread")?;
            sql(
                testbed,
                PRIMARY,
                &format!("use shop; insert into stock select seq from seq_1_to_{rows}"),
            )?;
            Ok(None)
        },
    },
];

pub(crate) const MORE_FAULTS: &[Fault] = &[
    Fault {
        name: "replication slot whose consumer is gone",
        rules: &[&["pg.slot_retains_wal"]],
        parameters: &[parameter("mebibytes", 16..=90, "MiB of WAL written meanwhile")],
        tools: &["psql", "setpriv", "mkfs.ext4", "mount"],
        set: |testbed| {
            testbed.disk(DiskSize { mebibytes: 320, inodes: 16_384 })?;
            std::os::unix::fs::symlink(testbed.file("disk/first"), testbed.file("first"))?;
            postgresql_at(testbed, PRIMARY, "disk/first")?;
            let slot = "select pg_create_physical_replication_slot('moved_away', true)";
            psql(testbed, PRIMARY, slot).map(drop)
        },
        inject: |testbed| {
            let mebibytes = testbed.draw("mebibytes");
            let write = format!(
                "select count(pg_logical_emit_message(false, 'order', repeat('x', 1048576))) from generate_series(1, {mebibytes})"
            );
            psql(testbed, PRIMARY, &write).map(|_| None)
        },
    },
    Fault {
        name: "MariaDB's replica behind a lock",
        rules: &[&["mysql.replica_lag"]],
        parameters: &[parameter("rows", 10..=1000, "rows written meanwhile")],
        tools: &["mariadbd", "mariadb", "mariadb-install-db"],
        set: |testbed| mariadb_pair(testbed),
        inject: |testbed| {
            let rows = testbed.draw("rows");
            start_sql(testbed, REPLICA, "lock tables shop.stock read; select sleep(120)")?;
            pause(Duration::from_millis(500));
            let write = format!("use shop; insert into stock select seq from seq_1_to_{rows}");
            sql(testbed, PRIMARY, &write).map(|()| None)
        },
    },
    Fault {
        name: "MariaDB's replica cut off",
        rules: &[&["mysql.replica_broken"]],
        parameters: &[parameter(
            "seconds",
            4..=20,
            "seconds of silence until the replica gives up",
        )],
        tools: &["mariadbd", "mariadb", "mariadb-install-db", "nft"],
        set: |testbed| {
            mariadb_pair(testbed)?;
            let seconds = testbed.draw("seconds");
            // Send heartbeats, so that only a real outage exceeds the timeout.
            let patience = format!(
                "stop slave; set global slave_net_timeout = {seconds}; change master to master_heartbeat_period = {}; start slave",
                seconds / 2
            );
            sql(testbed, REPLICA, &patience)
        },
        inject: |testbed| {
            let netns = testbed.server.clone();
            crate::faults::network::filter(testbed, &netns, &format!("ip saddr {CLIENT} drop"))?;
            Ok(None)
        },
    },
];

/// Starts a Redis and configures weir to probe it.
pub(crate) fn redis(testbed: &mut TestBed, memory: &str) -> Result<()> {
    let (socket, dir, netns) = (testbed.path("redis"), testbed.path(""), testbed.server.clone());
    let args = ["--port", "0", "--unixsocket", &socket, "--save", "", "--dir", &dir];
    let limits = ["--maxmemory", memory, "--maxmemory-policy", "volatile-lru"];
    testbed.start("redis", &netns, "redis-server", &[&args[..], &limits[..]].concat())?;
    testbed.config =
        format!("[[databases]]\nsystem = \"redis\"\naddress = \"{socket}\"\npurpose = \"store\"\n");
    until(DATABASE, || Ok(run("redis-cli", &["-s", &socket, "ping"]).is_ok()))
}

/// Starts a PostgreSQL without passwords and configures weir to probe it.
fn postgresql(testbed: &mut TestBed, instance: Instance) -> Result<()> {
    postgresql_with(testbed, instance, &[])
}

/// Like [`postgresql`], with its data in the directory `place` of the testbed.
fn postgresql_at(testbed: &mut TestBed, instance: Instance, place: &str) -> Result<()> {
    let data = home(testbed, place)?;
    run_as("initdb", &["-A", "trust", "--no-sync", "-D", &data])?;
    start(testbed, instance, &data, &[])
}

/// Like [`postgresql`], with settings.
pub(super) fn postgresql_with(
    testbed: &mut TestBed,
    instance: Instance,
    settings: &[&str],
) -> Result<()> {
    let data = home(testbed, instance.0)?;
    run_as("initdb", &["-A", "trust", "--no-sync", "-D", &data])?;
    start(testbed, instance, &data, settings)
}

/// Starts a streaming replica of the primary.
fn replica(testbed: &mut TestBed) -> Result<()> {
    let (data, first) = (home(testbed, REPLICA.0)?, testbed.path(PRIMARY.0));
    let copy = ["-h", &first, "-U", USER, "-R", "--no-sync", "-c", "fast", "-D", &data];
    run_as("pg_basebackup", &copy)?;
    start(testbed, REPLICA, &data, &[])
}

/// Creates a directory owned by PostgreSQL's user and returns the path for its data.
fn home(testbed: &TestBed, name: &str) -> Result<String> {
    let dir = testbed.path(name);
    run("install", &["-d", "-o", USER, "-g", USER, "-m", "755", &dir])?;
    Ok(format!("{dir}/data"))
}

fn start(testbed: &mut TestBed, instance: Instance, data: &str, more: &[&str]) -> Result<()> {
    let (postgres, dir, netns) =
        (program("postgres")?, testbed.path(instance.0), testbed.server.clone());
    let usual = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", &dir, "-D", data];
    let more: Vec<&str> = more.iter().flat_map(|setting| ["-c", setting]).collect();
    let args = [&AS[..], &[&postgres], &usual, &more].concat();
    testbed.start("postgresql", &netns, "setpriv", &args)?;
    testbed.config += &format!(
        "[[databases]]\nsystem = \"postgresql\"\naddress = \"{dir}/.s.PGSQL.5432\"\nuser = \"{USER}\"\n"
    );
    until(DATABASE, || Ok(psql(testbed, instance, "select 1").is_ok()))
}

const AS: [&str; 5] = ["--reuid", USER, "--regid", USER, "--clear-groups"];

fn run_as(name: &str, args: &[&str]) -> Result<()> {
    run("setpriv", &[&AS[..], &[&program(name)?], args].concat())
}

/// Path of a program of Debian's newest PostgreSQL.
fn program(name: &str) -> Result<String> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|entry| entry.path().join("bin").join(name));
    let newest = found.filter(|path| path.is_file()).max();
    newest.map(|path| path.display().to_string()).ok_or_else(|| {
        let what = format!("cannot make a PostgreSQL: no `{name}` below `/usr/lib/postgresql`");
        DrillError::new(what).hint("Debian has it in postgresql")
    })
}

pub(super) fn psql(testbed: &TestBed, instance: Instance, sql: &str) -> Result<String> {
    output("psql", &["-h", &testbed.path(instance.0), "-U", USER, "-qAt", "-c", sql])
}

/// Starts a session of the primary in the background.
pub(super) fn start_session(testbed: &mut TestBed, sql: &str) -> Result<()> {
    let (dir, netns) = (testbed.path(PRIMARY.0), testbed.server.clone());
    testbed.start("session", &netns, "psql", &["-h", &dir, "-U", USER, "-qAt", "-c", sql])
}

/// Starts a MariaDB with server id N on port 3306N of a side, open to root on its socket, and
/// configures weir to probe it.
pub(super) fn mariadb(
    testbed: &mut TestBed,
    netns: &Netns,
    instance: Instance,
    id: &str,
) -> Result<()> {
    let dir = testbed.path(instance.0);
    let data = format!("--datadir={dir}");
    let init = ["--no-defaults", "--user=mysql", "--skip-test-db", &data];
    run(
        "mariadb-install-db",
        &[&init[..], &["--auth-root-authentication-method=normal"]].concat(),
    )?;
    let (socket, pid) = (format!("--socket={dir}/socket"), format!("--pid-file={dir}/pid"));
    let port = format!("--port=3306{id}");
    let serve = ["--no-defaults", "--user=mysql", "--skip-name-resolve", "--log-bin", &data];
    let more = [&*socket, &*pid, &*port, "--server-id", id, "--innodb-buffer-pool-size=16M"];
    testbed.start("mariadb", netns, "mariadbd", &[&serve[..], &more[..]].concat())?;
    testbed.config += &format!(
        "[[databases]]\nsystem = \"mysql\"\naddress = \"{dir}/socket\"\nuser = \"root\"\n"
    );
    until(DATABASE, || Ok(sql(testbed, instance, "select 1").is_ok()))
}

/// Starts a primary on the client's side and its replica on the server's.
fn mariadb_pair(testbed: &mut TestBed) -> Result<()> {
    let (near, far) = (testbed.server.clone(), testbed.client.clone());
    mariadb(testbed, &far, PRIMARY, "1")?;
    mariadb(testbed, &near, REPLICA, "2")?;
    let grants = format!(
        "set sql_log_bin = 0; create user copy@'{SERVER}' identified by 'copy'; grant replication slave on *.* to copy@'{SERVER}'"
    );
    sql(testbed, PRIMARY, &grants)?;
    let source = format!(
        "change master to master_host = '{CLIENT}', master_port = 33061, master_user = 'copy', master_password = 'copy', \
         master_use_gtid = slave_pos; start slave"
    );
    sql(testbed, REPLICA, &source)?;
    sql(testbed, PRIMARY, "create database shop; create table shop.stock (n int)")
}

pub(super) fn sql(testbed: &TestBed, instance: Instance, sql: &str) -> Result<()> {
    let socket = format!("--socket={}/socket", testbed.path(instance.0));
    run("mariadb", &["--no-defaults", "-u", "root", &socket, "-e", sql])
}

/// Starts a session of a MariaDB in the background.
pub(super) fn start_sql(testbed: &mut TestBed, instance: Instance, sql: &str) -> Result<()> {
    let (netns, socket) =
        (testbed.server.clone(), format!("--socket={}/socket", testbed.path(instance.0)));
    let args = ["--no-defaults", "-u", "root", &socket, "-e", sql];
    testbed.start("session", &netns, "mariadb", &args)
}
