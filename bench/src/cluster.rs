//! `cluster`: cost of several hubs over one PostgreSQL and one directory: ingest, the idle
//! manifest, and queries distributed to one, two and four hubs.
//!
//! All of it runs on one machine, so it measures CPU time and balance, not speedup.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::road::JoinedPair;
use crate::weir::{Weir, wait_for};
use crate::{data, ingest, meter, report};

const LIMIT: Duration = Duration::from_secs(600);
/// Idle time in which the manifest's share is measured.
const REST: Duration = Duration::from_secs(30);
const HUBS: [usize; 3] = [1, 2, 4];
/// Names and queries. Each reads much and returns little.
const QUERIES: &[(&str, &str)] = &[
    ("ids of requests, distinct", "select count(distinct request_id) from request"),
    (
        "ten paths with the highest p99",
        "select url_path, percentile(duration_seconds, 0.99) as p99 from request group by 1 order by 2 desc, 1 limit 10",
    ),
    (
        "substring of the query, by status",
        "select http_response_status_code, count(*) from request where url_query like '%a%e%' group by 1 order by 1",
    ),
];

/// A PostgreSQL server, stopped on drop.
struct PostgresServer {
    child: Child,
    url: String,
}

impl PostgresServer {
    fn start(dir: &Path) -> anyhow::Result<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let bin =
            versions.map(|entry| entry.path().join("bin")).find(|bin| bin.join("initdb").exists());
        let bin = bin.context("cannot run the benchmark `cluster`: no PostgreSQL below `/usr/lib/postgresql`\nhint: apt-get install postgresql")?;
        let own = dir.join("postgresql");
        std::fs::create_dir(&own)?;
        for path in [dir, &own] {
            run(Command::new("chown").arg("postgres:").arg(path))?;
        }
        let data = own.join("data");
        run(as_postgres(&bin.join("initdb"), &own)
            .args(["-A", "trust", "-U", "weir", "--no-sync", "-D"])
            .arg(&data))?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut server = as_postgres(&bin.join("postgres"), &own);
        server.args(["-c", "listen_addresses=127.0.0.1", "-p", &port.to_string(), "-k"]);
        server.arg(&own).arg("-D").arg(&data);
        let child = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let database = Self { child, url: format!("postgresql://weir@127.0.0.1:{port}/postgres") };
        wait_for("PostgreSQL", LIMIT, Duration::from_millis(100), || {
            let mut psql = Command::new(bin.join("psql"));
            psql.args([&database.url, "-c", "select 1"]).stdout(Stdio::null());
            Ok(psql.stderr(Stdio::null()).status()?.success())
        })?;
        Ok(database)
    }

    fn cpu_seconds(&self) -> f64 {
        meter::cpu_seconds(self.child.id())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A command that runs as the user `postgres`.
fn as_postgres(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
    command.arg(program).current_dir(dir);
    command
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Stores `events` lines through a single hub and through one of a cluster, then runs each query
/// `times` times.
pub(crate) fn bench([events, times]: [u32; 2]) -> anyhow::Result<()> {
    let mut page = report::Report::new("cluster");
    page.text("Hubs over one PostgreSQL 15 (with fsync) and one shared directory, all on this machine. nginx JSON lines (15 fields and a request id) come by way of one agent.");
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("generated");
    report::say(&format!("generating {events} lines"));
    data::write_day(&file, events, ingest::yesterday())?;
    let million = f64::from(events) / 1e6;

    report::say("a hub alone");
    let place = dir.path().join("alone");
    std::fs::create_dir(&place)?;
    let alone = fill(&place, &file, events, &[])?;
    let alone_cpu = alone.stop()?;

    report::say("a hub of a cluster");
    let database = PostgresServer::start(dir.path())?;
    let place = dir.path().join("hub0");
    std::fs::create_dir(&place)?;
    let files = dir.path().join("files").display().to_string();
    let before = database.cpu_seconds();
    let hub = fill(&place, &file, events, &options(&database, &files, 0))?;
    let (hub_cpu, database_cpu) = (meter::cpu_seconds(hub.id()), database.cpu_seconds() - before);
    page.own(alone_cpu + hub_cpu);
    page.table(&[
        vec!["lines in", "CPU-s per M of the hub", "of PostgreSQL"]
            .into_iter()
            .map(str::to_owned)
            .collect(),
        vec!["a hub alone".to_owned(), format!("{:.2}", alone_cpu / million), "–".to_owned()],
        vec![
            "one of a cluster".to_owned(),
            format!("{:.2}", hub_cpu / million),
            format!("{:.2}", database_cpu / million),
        ],
    ]);

    let mut hubs = vec![hub];
    let (rests, answers) = compare(&mut hubs, &database, (dir.path(), &files), times)?;
    page.table(&rests_table(&rests));
    page.table(&answers_table(&answers));
    page.text(&format!("Each question is asked {times} times of the first hub, which keeps no columns in memory (`api.column_cache_bytes = 0`), with `cluster.spread_bytes = 0`. *Share of each*: processor time of the busiest and of the idlest hub to the mean of all, less what they use at rest. The answers were the same."));
    for hub in hubs {
        page.own(hub.stop()?);
    }
    page.write()
}

/// Measures one, two and four hubs, idle and with queries.
fn compare(
    hubs: &mut Vec<Weir>,
    database: &PostgresServer,
    (dir, files): (&Path, &str),
    times: u32,
) -> anyhow::Result<(Vec<IdleShares>, Vec<QueryTiming>)> {
    let (mut rests, mut answers) = (Vec::new(), Vec::new());
    for count in HUBS {
        while hubs.len() < count {
            let data = dir.join(format!("hub{}", hubs.len())).display().to_string();
            let args =
                ["hub", "--listen", "127.0.0.1:0", "--agents", "127.0.0.1:0", "--data", &data];
            hubs.push(Weir::serve_with(&args, &options(database, files, hubs.len()))?);
        }
        wait_for("hubs know of each other", LIMIT, Duration::from_millis(200), || {
            for hub in hubs.iter() {
                let status: Value = serde_json::from_str(&hub.get("/api/status")?)?;
                if status["cluster"]["peers"].as_array().map_or(0, Vec::len) + 1 != count {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        report::say(&format!("{count} hubs"));
        rests.push(rest(database, hubs));
        for (name, sql) in QUERIES {
            answers.push(time_query(hubs, (name, sql), times)?);
        }
    }
    for (at, answer) in answers.iter().enumerate() {
        let first = &answers[at % QUERIES.len()];
        ensure!(
            answer.rows == first.rows,
            "{} hubs return another result for `{}`",
            answer.hubs,
            answer.name
        );
    }
    Ok((rests, answers))
}

/// Environment variables of a hub of the cluster.
fn options(database: &PostgresServer, files: &str, number: usize) -> Vec<(&'static str, String)> {
    vec![
        ("WEIR_CLUSTER_MANIFEST", database.url.clone()),
        ("WEIR_CLUSTER_NAME", format!("hub{number}")),
        ("WEIR_CLUSTER_SPREAD_BYTES", "0".to_owned()),
        ("WEIR_STORE_SLOW_PATH", files.to_owned()),
        ("WEIR_API_COLUMN_CACHE_BYTES", "0".to_owned()),
    ]
}

/// Starts a hub, stores all lines, and stops its agent.
fn fill(place: &Path, file: &Path, events: u32, set: &[(&str, String)]) -> anyhow::Result<Weir> {
    let pair = JoinedPair::start_with(place, "", set)?;
    let log: PathBuf = place.join("logs/access.log");
    std::fs::hard_link(file, &log)?;
    let agent = pair.agent()?;
    wait_for("all lines", LIMIT, Duration::from_millis(500), || pair.has(u64::from(events)))?;
    agent.stop()?;
    pair.hub.flush()?;
    Ok(pair.hub)
}

/// Shares of a core in percent while idle: PostgreSQL, and the mean hub.
struct IdleShares {
    hubs: usize,
    database: f64,
    hub: f64,
}

fn rest(database: &PostgresServer, hubs: &[Weir]) -> IdleShares {
    data::pause(Duration::from_secs(5));
    let (before, hubs_before, began) = (database.cpu_seconds(), hubs_cpu(hubs), Instant::now());
    data::pause(REST);
    let percent = 100.0 / began.elapsed().as_secs_f64();
    let hubs_cpu = hubs_cpu(hubs).iter().sum::<f64>() - hubs_before.iter().sum::<f64>();
    let count = hubs.iter().map(|_| 1.0).sum::<f64>();
    IdleShares {
        hubs: hubs.len(),
        database: (database.cpu_seconds() - before) * percent,
        hub: hubs_cpu * percent / count,
    }
}

/// CPU seconds of each hub so far.
fn hubs_cpu(hubs: &[Weir]) -> Vec<f64> {
    hubs.iter().map(|hub| meter::cpu_seconds(hub.id())).collect()
}

/// Time of a query with that number of hubs.
struct QueryTiming {
    hubs: usize,
    name: &'static str,
    rows: Vec<Value>,
    wall_ms: f64,
    /// CPU time of each hub per run.
    cpu_ms: Vec<f64>,
}

fn time_query(
    hubs: &[Weir],
    (name, sql): (&'static str, &str),
    times: u32,
) -> anyhow::Result<QueryTiming> {
    let (before, began) = (hubs_cpu(hubs), Instant::now());
    data::pause(Duration::from_secs(5));
    let idle = began.elapsed().as_secs_f64();
    let idle: Vec<f64> =
        hubs_cpu(hubs).iter().zip(&before).map(|(after, before)| (after - before) / idle).collect();
    let rows = hubs[0].sql(sql)?;
    let (before, began, mut walls) = (hubs_cpu(hubs), Instant::now(), Vec::new());
    for _ in 0..times {
        let began = Instant::now();
        hubs[0].sql(sql)?;
        walls.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let seconds = began.elapsed().as_secs_f64();
    walls.sort_by(f64::total_cmp);
    let used = hubs_cpu(hubs);
    let cpu_ms = used.iter().zip(&before).zip(&idle).map(|((after, before), idle)| {
        ((after - before - idle * seconds) * 1e3 / f64::from(times)).max(0.0)
    });
    let cpu_ms = cpu_ms.collect();
    Ok(QueryTiming { hubs: hubs.len(), name, rows, wall_ms: walls[walls.len() / 2], cpu_ms })
}

fn rests_table(rests: &[IdleShares]) -> Vec<Vec<String>> {
    let heads = ["hubs at rest", "PostgreSQL, % of a core", "each hub, % of a core"];
    let mut table = vec![heads.map(str::to_owned).to_vec()];
    table.extend(rests.iter().map(|rest| {
        vec![rest.hubs.to_string(), format!("{:.2}", rest.database), format!("{:.2}", rest.hub)]
    }));
    table
}

fn answers_table(answers: &[QueryTiming]) -> Vec<Vec<String>> {
    let heads = [
        "question",
        "hubs",
        "wall ms",
        "CPU ms of all",
        "CPU ms of the first",
        "share of each: most",
        "least",
    ];
    let mut table = vec![heads.map(str::to_owned).to_vec()];
    table.extend(answers.iter().map(|answer| {
        let all: f64 = answer.cpu_ms.iter().sum();
        let mean = all / answer.cpu_ms.iter().map(|_| 1.0).sum::<f64>();
        let most = answer.cpu_ms.iter().copied().fold(0.0, f64::max);
        let least = answer.cpu_ms.iter().copied().fold(f64::INFINITY, f64::min);
        vec![
            answer.name.to_owned(),
            answer.hubs.to_string(),
            format!("{:.0}", answer.wall_ms),
            format!("{all:.0}"),
            format!("{:.0}", answer.cpu_ms[0]),
            format!("{:.2}", most / mean),
            format!("{:.2}", least / mean),
        ]
    }));
    table
}
