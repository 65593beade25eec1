//! Faults of databases, each a server of the scene's own on a socket that only its directory has.

use std::time::Duration;

use rustix::process::Signal;

use crate::error::{DrillError, Result};
use crate::fault::{Fault, of};
use crate::pause;
use crate::scene::{CLIENT, SERVER, Scene, output, run, until};

/// Whom PostgreSQL runs as: it refuses root.
const USER: &str = "postgres";
/// What is waited for.
const DATABASE: &str = "a database server";

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "Redis stopped",
        rules: &[&["db.not_answering"]],
        parameters: &[of("mebibytes", 8, 64, "MiB that it may hold")],
        tools: &["redis-server", "redis-cli"],
        set: |scene| {
            let mebibytes = scene.draw("mebibytes");
            redis(scene, &format!("{mebibytes}mb"))
        },
        inject: |scene| {
            scene.signal("redis", Signal::STOP)?;
            Ok(None)
        },
    },
    Fault {
        name: "PostgreSQL's sessions behind a lock",
        rules: &[&["pg.lock_pileup"]],
        parameters: &[of("sessions", 6, 20, "sessions that wait")],
        tools: &["psql", "setpriv"],
        set: |scene| {
            postgresql(scene, "first")?;
            psql(scene, "first", "create table stock (n int)").map(drop)
        },
        inject: |scene| {
            let sessions = scene.draw("sessions");
            ask(scene, "begin; lock table stock; select pg_sleep(120)")?;
            let held =
                "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and granted";
            until(DATABASE, || Ok(psql(scene, "first", held)?.trim() == "1"))?;
            (0..sessions).try_for_each(|_| ask(scene, "select count(*) from stock"))?;
            Ok(None)
        },
    },
    Fault {
        name: "PostgreSQL without connections",
        rules: &[&["db.connections_exhausted"]],
        parameters: &[of("connections", 16, 40, "connections that it takes")],
        tools: &["psql", "setpriv"],
        set: |scene| {
            let connections = scene.draw("connections");
            postgresql_with(scene, "first", &[&format!("max_connections={connections}")])
        },
        inject: |scene| {
            // The last of them are the drill's own and weir's.
            let most = psql(scene, "first", "show max_connections")?;
            let sessions = most.trim().parse().unwrap_or(16) - 4;
            (0..sessions).try_for_each(|_| ask(scene, "select pg_sleep(120)"))?;
            Ok(None)
        },
    },
    Fault {
        name: "PostgreSQL's replica does not apply",
        rules: &[&["pg.replica_lag"]],
        parameters: &[of("rows", 5_000, 60_000, "rows that are written meanwhile")],
        tools: &["psql", "setpriv"],
        set: |scene| {
            postgresql(scene, "first")?;
            psql(scene, "first", "create table stock (n int)")?;
            replica(scene)
        },
        inject: |scene| {
            let rows = scene.draw("rows");
            psql(scene, "second", "select pg_wal_replay_pause()")?;
            let write = format!("insert into stock select generate_series(1, {rows})");
            psql(scene, "first", &write).map(|_| None)
        },
    },
    Fault {
        name: "MariaDB's replica stopped",
        rules: &[&["mysql.replica_broken"]],
        parameters: &[of("rows", 10, 1000, "rows that are written meanwhile")],
        tools: &["mariadbd", "mariadb", "mariadb-install-db"],
        set: mariadb_pair,
        inject: |scene| {
            let rows = scene.draw("rows");
            sql(scene, "second", "stop slave sql_thread")?;
            sql(
                scene,
                "first",
                &format!("use shop; insert into stock select seq from seq_1_to_{rows}"),
            )?;
            Ok(None)
        },
    },
];

/// More of them.
pub(crate) const MORE: &[Fault] = &[
    Fault {
        name: "replication slot whose consumer is gone",
        rules: &[&["pg.slot_retains_wal"]],
        parameters: &[of("mebibytes", 16, 90, "MiB of log that are written meanwhile")],
        tools: &["psql", "setpriv", "mkfs.ext4", "mount"],
        set: |scene| {
            scene.disk(320, 16_384)?;
            std::os::unix::fs::symlink(scene.file("disk/first"), scene.file("first"))?;
            postgresql_at(scene, "first", "disk/first")?;
            let slot = "select pg_create_physical_replication_slot('moved_away', true)";
            psql(scene, "first", slot).map(drop)
        },
        inject: |scene| {
            let mebibytes = scene.draw("mebibytes");
            let write = format!(
                "select count(pg_logical_emit_message(false, 'order', repeat('x', 1048576))) from generate_series(1, {mebibytes})"
            );
            psql(scene, "first", &write).map(|_| None)
        },
    },
    Fault {
        name: "MariaDB's replica behind a lock",
        rules: &[&["mysql.replica_lag"]],
        parameters: &[of("rows", 10, 1000, "rows that are written meanwhile")],
        tools: &["mariadbd", "mariadb", "mariadb-install-db"],
        set: |scene| mariadb_pair(scene),
        inject: |scene| {
            let rows = scene.draw("rows");
            let (netns, socket) =
                (scene.server.clone(), format!("--socket={}/socket", scene.path("second")));
            let hold = "lock tables shop.stock read; select sleep(120)";
            let args = ["--no-defaults", "-u", "root", &socket, "-e", hold];
            scene.start("backup", &netns, "mariadb", &args)?;
            pause(Duration::from_millis(500));
            let write = format!("use shop; insert into stock select seq from seq_1_to_{rows}");
            sql(scene, "first", &write).map(|()| None)
        },
    },
    Fault {
        name: "MariaDB's replica cut off",
        rules: &[&["mysql.replica_broken"]],
        parameters: &[of("seconds", 4, 20, "seconds of silence that the replica bears")],
        tools: &["mariadbd", "mariadb", "mariadb-install-db", "nft"],
        set: |scene| {
            mariadb_pair(scene)?;
            let seconds = scene.draw("seconds");
            // Without heartbeats every silence would be one too many.
            let patience = format!(
                "stop slave; set global slave_net_timeout = {seconds}; change master to master_heartbeat_period = {}; start slave",
                seconds / 2
            );
            sql(scene, "second", &patience)
        },
        inject: |scene| {
            let netns = scene.server.clone();
            crate::way::filter(scene, &netns, &format!("ip saddr {CLIENT} drop"))?;
            Ok(None)
        },
    },
];

/// A Redis that weir is told of.
pub(crate) fn redis(scene: &mut Scene, memory: &str) -> Result<()> {
    let (socket, dir, netns) = (scene.path("redis"), scene.path(""), scene.server.clone());
    let args = ["--port", "0", "--unixsocket", &socket, "--save", "", "--dir", &dir];
    let limits = ["--maxmemory", memory, "--maxmemory-policy", "volatile-lru"];
    scene.start("redis", &netns, "redis-server", &[&args[..], &limits[..]].concat())?;
    scene.config =
        format!("[[databases]]\nsystem = \"redis\"\naddress = \"{socket}\"\npurpose = \"store\"\n");
    until(DATABASE, || Ok(run("redis-cli", &["-s", &socket, "ping"]).is_ok()))
}

/// A PostgreSQL of its own, that everybody on its socket may use, and that weir is told of.
fn postgresql(scene: &mut Scene, name: &str) -> Result<()> {
    postgresql_with(scene, name, &[])
}

/// The same whose files lie elsewhere in the scene's directory.
fn postgresql_at(scene: &mut Scene, name: &str, place: &str) -> Result<()> {
    let data = home(scene, place)?;
    run_as("initdb", &["-A", "trust", "--no-sync", "-D", &data])?;
    start(scene, name, &data, &[])
}

/// The same with settings.
fn postgresql_with(scene: &mut Scene, name: &str, settings: &[&str]) -> Result<()> {
    let data = home(scene, name)?;
    run_as("initdb", &["-A", "trust", "--no-sync", "-D", &data])?;
    start(scene, name, &data, settings)
}

/// A copy of the first that follows it.
fn replica(scene: &mut Scene) -> Result<()> {
    let (data, first) = (home(scene, "second")?, scene.path("first"));
    let copy = ["-h", &first, "-U", USER, "-R", "--no-sync", "-c", "fast", "-D", &data];
    run_as("pg_basebackup", &copy)?;
    start(scene, "second", &data, &[])
}

/// Its directory, which is its own, and where its data will be.
fn home(scene: &Scene, name: &str) -> Result<String> {
    let dir = scene.path(name);
    run("install", &["-d", "-o", USER, "-g", USER, "-m", "755", &dir])?;
    Ok(format!("{dir}/data"))
}

fn start(scene: &mut Scene, name: &str, data: &str, more: &[&str]) -> Result<()> {
    let (postgres, dir, netns) = (program("postgres")?, scene.path(name), scene.server.clone());
    let usual = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", &dir, "-D", data];
    let more: Vec<&str> = more.iter().flat_map(|setting| ["-c", setting]).collect();
    let args = [&AS[..], &[&postgres], &usual, &more].concat();
    scene.start("postgresql", &netns, "setpriv", &args)?;
    scene.config += &format!(
        "[[databases]]\nsystem = \"postgresql\"\naddress = \"{dir}/.s.PGSQL.5432\"\nuser = \"{USER}\"\n"
    );
    until(DATABASE, || Ok(psql(scene, name, "select 1").is_ok()))
}

const AS: [&str; 5] = ["--reuid", USER, "--regid", USER, "--clear-groups"];

fn run_as(name: &str, args: &[&str]) -> Result<()> {
    run("setpriv", &[&AS[..], &[&program(name)?], args].concat())
}

/// Where Debian has a program of its newest PostgreSQL.
fn program(name: &str) -> Result<String> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|entry| entry.path().join("bin").join(name));
    let newest = found.filter(|path| path.is_file()).max();
    newest.map(|path| path.display().to_string()).ok_or_else(|| {
        let what = format!("cannot make a PostgreSQL: no `{name}` below `/usr/lib/postgresql`");
        DrillError::new(what).hint("Debian has it in postgresql")
    })
}

fn psql(scene: &Scene, name: &str, sql: &str) -> Result<String> {
    output("psql", &["-h", &scene.path(name), "-U", USER, "-qAt", "-c", sql])
}

/// A session that nobody waits for.
fn ask(scene: &mut Scene, sql: &str) -> Result<()> {
    let (dir, netns) = (scene.path("first"), scene.server.clone());
    scene.start("session", &netns, "psql", &["-h", &dir, "-U", USER, "-qAt", "-c", sql])
}

/// A MariaDB of its own, on port 3306N of a side, that root may use on its socket, and that weir is told of.
fn mariadb(scene: &mut Scene, netns: &str, name: &str, id: &str) -> Result<()> {
    let dir = scene.path(name);
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
    scene.start("mariadb", netns, "mariadbd", &[&serve[..], &more[..]].concat())?;
    scene.config += &format!(
        "[[databases]]\nsystem = \"mysql\"\naddress = \"{dir}/socket\"\nuser = \"root\"\n"
    );
    until(DATABASE, || Ok(sql(scene, name, "select 1").is_ok()))
}

/// Two of them; the second follows the first, which is on the other side of the cable.
fn mariadb_pair(scene: &mut Scene) -> Result<()> {
    let (near, far) = (scene.server.clone(), scene.client.clone());
    mariadb(scene, &far, "first", "1")?;
    mariadb(scene, &near, "second", "2")?;
    let grants = format!(
        "set sql_log_bin = 0; create user copy@'{SERVER}' identified by 'copy'; grant replication slave on *.* to copy@'{SERVER}'"
    );
    sql(scene, "first", &grants)?;
    let source = format!(
        "change master to master_host = '{CLIENT}', master_port = 33061, master_user = 'copy', master_password = 'copy', \
         master_use_gtid = slave_pos; start slave"
    );
    sql(scene, "second", &source)?;
    sql(scene, "first", "create database shop; create table shop.stock (n int)")
}

fn sql(scene: &Scene, name: &str, sql: &str) -> Result<()> {
    let socket = format!("--socket={}/socket", scene.path(name));
    run("mariadb", &["--no-defaults", "-u", "root", &socket, "-e", sql])
}
