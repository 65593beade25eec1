//! `cluster`: what several hubs over one PostgreSQL and one directory cost: lines in, the manifest at rest, and queries that
//! are dealt out to one, two and four of them.
//!
//! All of it is on one machine, so what it tells is processor time, and how evenly work is split, not how much faster it gets.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::road::Pair;
use crate::weir::{Weir, wait_for};
use crate::{data, ingest, meter, report};

const LIMIT: Duration = Duration::from_secs(600);
/// How long hubs rest while the manifest's share is measured.
const REST: Duration = Duration::from_secs(30);
const HUBS: [usize; 3] = [1, 2, 4];
/// Each reads much and leaves little.
const QUESTIONS: &[(&str, &str)] = &[
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

/// PostgreSQL of this benchmark; ends with the value.
struct Database {
    child: Child,
    url: String,
}

impl Database {
    fn start(dir: &Path) -> anyhow::Result<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let bin =
            versions.map(|entry| entry.path().join("bin")).find(|bin| bin.join("initdb").exists());
        let bin = bin.context("PostgreSQL is missing (apt-get install postgresql)")?;
        let own = dir.join("postgresql");
        std::fs::create_dir(&own)?;
        for path in [dir, &own] {
            run(Command::new("chown").arg("postgres:").arg(path))?;
        }
        let as_its_user = |program: &str| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
            command.arg(bin.join(program)).current_dir(&own);
            command
        };
        let data = own.join("data");
        run(as_its_user("initdb")
            .args(["-A", "trust", "-U", "weir", "--no-sync", "-D"])
            .arg(&data))?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut server = as_its_user("postgres");
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

impl Drop for Database {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Stores `events` lines through a hub alone and through one of a cluster; then asks each question `times` times.
pub(crate) fn bench(events: u32, times: u32) -> anyhow::Result<()> {
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
    let database = Database::start(dir.path())?;
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

/// One, two and four hubs at rest, and their answers.
fn compare(
    hubs: &mut Vec<Weir>,
    database: &Database,
    (dir, files): (&Path, &str),
    times: u32,
) -> anyhow::Result<(Vec<Rest>, Vec<Answer>)> {
    let (mut rests, mut answers) = (Vec::new(), Vec::new());
    for count in HUBS {
        while hubs.len() < count {
            let data = dir.join(format!("hub{}", hubs.len())).display().to_string();
            let args =
                ["hub", "--listen", "127.0.0.1:0", "--agents", "127.0.0.1:0", "--data", &data];
            hubs.push(Weir::serve_with(&args, &options(database, files, hubs.len()))?);
        }
        wait_for("hubs know of each other", LIMIT, Duration::from_millis(200), || {
            let knows = |hub: &Weir| -> anyhow::Result<bool> {
                let status: Value = serde_json::from_str(&hub.get("/api/status")?)?;
                Ok(status["cluster"]["peers"].as_array().map_or(0, Vec::len) + 1 == count)
            };
            Ok(hubs
                .iter()
                .map(knows)
                .collect::<anyhow::Result<Vec<_>>>()?
                .iter()
                .all(|knows| *knows))
        })?;
        report::say(&format!("{count} hubs"));
        rests.push(rest(database, hubs));
        for (name, sql) in QUESTIONS {
            answers.push(ask(hubs, name, sql, times)?);
        }
    }
    for (at, answer) in answers.iter().enumerate() {
        let first = &answers[at % QUESTIONS.len()];
        ensure!(
            answer.rows == first.rows,
            "{} hubs answer `{}` otherwise",
            answer.hubs,
            answer.name
        );
    }
    Ok((rests, answers))
}

/// Variables of a hub of the cluster.
fn options(database: &Database, files: &str, number: usize) -> Vec<(&'static str, String)> {
    vec![
        ("WEIR_CLUSTER_MANIFEST", database.url.clone()),
        ("WEIR_CLUSTER_NAME", format!("hub{number}")),
        ("WEIR_CLUSTER_SPREAD_BYTES", "0".to_owned()),
        ("WEIR_STORE_SLOW_PATH", files.to_owned()),
        ("WEIR_API_COLUMN_CACHE_BYTES", "0".to_owned()),
    ]
}

/// A hub that has all lines in files; its agent is gone.
fn fill(place: &Path, file: &Path, events: u32, set: &[(&str, String)]) -> anyhow::Result<Weir> {
    let pair = Pair::start_with(place, "", set)?;
    let log: PathBuf = place.join("logs/access.log");
    std::fs::hard_link(file, &log)?;
    let agent = pair.agent()?;
    wait_for("all lines", LIMIT, Duration::from_millis(500), || pair.has(u64::from(events)))?;
    agent.stop()?;
    pair.hub.flush()?;
    Ok(pair.hub)
}

/// Shares of a core in per cent at rest: PostgreSQL, and each hub in the mean.
struct Rest {
    hubs: usize,
    database: f64,
    hub: f64,
}

fn rest(database: &Database, hubs: &[Weir]) -> Rest {
    data::pause(Duration::from_secs(5));
    let used = || {
        (database.cpu_seconds(), hubs.iter().map(|hub| meter::cpu_seconds(hub.id())).sum::<f64>())
    };
    let (before, began) = (used(), Instant::now());
    data::pause(REST);
    let (after, seconds) = (used(), began.elapsed().as_secs_f64());
    let share = |before: f64, after: f64| (after - before) / seconds * 100.0;
    let count = hubs.iter().map(|_| 1.0).sum::<f64>();
    Rest {
        hubs: hubs.len(),
        database: share(before.0, after.0),
        hub: share(before.1, after.1) / count,
    }
}

/// One question to so many hubs.
struct Answer {
    hubs: usize,
    name: &'static str,
    rows: Vec<Value>,
    wall_ms: f64,
    /// Of each hub, for one answer.
    cpu_ms: Vec<f64>,
}

fn ask(hubs: &[Weir], name: &'static str, sql: &str, times: u32) -> anyhow::Result<Answer> {
    let used = || hubs.iter().map(|hub| meter::cpu_seconds(hub.id())).collect::<Vec<_>>();
    let (before, began) = (used(), Instant::now());
    data::pause(Duration::from_secs(5));
    let idle = began.elapsed().as_secs_f64();
    let idle: Vec<f64> =
        used().iter().zip(&before).map(|(after, before)| (after - before) / idle).collect();
    let rows = hubs[0].sql(sql)?;
    let (before, began, mut walls) = (used(), Instant::now(), Vec::new());
    for _ in 0..times {
        let began = Instant::now();
        hubs[0].sql(sql)?;
        walls.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let seconds = began.elapsed().as_secs_f64();
    walls.sort_by(f64::total_cmp);
    let each = |((after, before), idle): ((&f64, &f64), &f64)| {
        ((after - before - idle * seconds) * 1e3 / f64::from(times)).max(0.0)
    };
    let cpu_ms = used().iter().zip(&before).zip(&idle).map(each).collect();
    Ok(Answer { hubs: hubs.len(), name, rows, wall_ms: walls[walls.len() / 2], cpu_ms })
}

fn rests_table(rests: &[Rest]) -> Vec<Vec<String>> {
    let heads = ["hubs at rest", "PostgreSQL, % of a core", "each hub, % of a core"];
    let mut table = vec![heads.map(str::to_owned).to_vec()];
    table.extend(rests.iter().map(|rest| {
        vec![rest.hubs.to_string(), format!("{:.2}", rest.database), format!("{:.2}", rest.hub)]
    }));
    table
}

fn answers_table(answers: &[Answer]) -> Vec<Vec<String>> {
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
