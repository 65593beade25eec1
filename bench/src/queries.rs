//! `queries`: six queries of the comparison with peers over stored lines, warm: wall and CPU time.
//!
//! DuckDB runs the same queries over the same rows in memory, in the same run.
//!
//! A hub without ingest serves the files, so only its rules use CPU besides queries; that rate is
//! measured first and subtracted.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::weir::{Weir, wait_for};
use crate::{data, ingest, meter, peer, report};

/// Name, SQL (`$id` and `$site` stand for existing values), and the best peer's CPU time in ms.
const QUERIES: &[(&str, &str, u32)] = &[
    ("one request id", "select * from request where request_id = '$id'", 6),
    (
        "count by minute and status",
        "select date_trunc('minute', ts) as minute, http_response_status_code, count(*) as n from request group by 1, 2",
        40,
    ),
    (
        "ten paths with the highest p99",
        "select url_path, percentile(duration_seconds, 0.99) as p99 from request group by 1 order by 2 desc limit 10",
        123,
    ),
    (
        "last 100 with status 5xx of one site",
        "select * from request where server_address = '$site' and http_response_status_code >= 500 order by ts desc limit 100",
        12,
    ),
    (
        "substring of the user agent",
        "select count(*) from request where user_agent_original like '%Pixel 7%'",
        12,
    ),
    (
        "substring of the query",
        "select count(*) from request where url_query like '%harbour+museum%'",
        9,
    ),
];

/// Stores `events` lines, then runs each query `times` times.
pub(crate) fn run([events, times]: [u32; 2]) -> anyhow::Result<()> {
    let mut page = report::Report::new("queries");
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("access.log");
    report::say(&format!("generating {events} lines"));
    data::write_day(&file, events, ingest::yesterday())?;
    let data = dir.path().join("data").display().to_string();
    let up = Weir::serve(&[
        "up",
        "--listen",
        "127.0.0.1:0",
        "--data",
        &data,
        "--tail",
        &file.display().to_string(),
    ])?;
    let all = u64::from(events);
    wait_for("all lines", Duration::from_secs(900), Duration::from_millis(500), || {
        Ok(up.number("select (select count(*) from request) + (select count(*) from reject)")?
            >= all)
    })?;
    page.own(up.stop()?);
    let hub = Weir::serve(&["hub", "--listen", "127.0.0.1:0", "--data", &data])?;
    let (id, site) = (failed(&hub, "request_id")?, failed(&hub, "server_address")?);
    let idle = cpu_during(&hub, || {
        data::pause(Duration::from_secs(10));
        Ok(())
    })?;
    let idle_rate = idle.0 / idle.1;
    let queries: Vec<String> =
        QUERIES.iter().map(|(_, sql, _)| sql.replace("$id", &id).replace("$site", &site)).collect();
    let mut answers = Vec::new();
    for sql in &queries {
        let rows = hub.sql(sql)?.len();
        let mut walls = Vec::new();
        let (cpu, wall) = cpu_during(&hub, || {
            for _ in 0..times {
                let began = Instant::now();
                hub.sql(sql)?;
                walls.push(began.elapsed().as_secs_f64() * 1e3);
            }
            Ok(())
        })?;
        walls.sort_by(f64::total_cmp);
        let cpu_ms = (cpu - idle_rate * wall).max(0.0) * 1e3 / f64::from(times);
        answers.push((walls[walls.len() / 2], cpu_ms, rows));
    }
    page.own(hub.stop()?);
    let files = format!("{data}/data/request/*/*.parquet");
    let duckdb = peer::duckdb_queries(&files, times, &in_duckdb(&queries));
    page.table(&rows_of(&answers, duckdb.as_deref()));
    page.text(&format!("{events} nginx JSON lines in Parquet, asked over HTTP by one client; warm, {times} times each: median of wall times, mean of processor time less what the idle hub used ({:.1} % of a core).", idle_rate * 100.0));
    page.text("DuckDB: a table in memory with the rows of weir's files, 2 threads, asked in process, with `approx_quantile` for the percentile. The best peer's column is for 2 M lines on a quiet machine of the same type: VictoriaLogs, Elasticsearch, chDB or DuckDB, whichever was best at that question.");
    page.write()
}

/// A column's value in some request with a 5xx status.
fn failed(hub: &Weir, column: &str) -> anyhow::Result<String> {
    let sql =
        format!("select {column} from request where http_response_status_code >= 500 limit 1");
    let rows = hub.sql(&sql)?;
    let value = rows.first().and_then(|row| row[0].as_str()).map(str::to_owned);
    value.context("no row with a 5xx status")
}

/// Translates queries for DuckDB.
fn in_duckdb(queries: &[String]) -> Vec<String> {
    queries.iter().map(|sql| sql.replace("percentile(", "approx_quantile(")).collect()
}

/// The table of the page. `answers` has wall ms, CPU ms and rows of weir, `duckdb` wall and CPU ms.
fn rows_of(answers: &[(f64, f64, usize)], duckdb: Option<&[(f64, f64)]>) -> Vec<Vec<String>> {
    let heads = [
        "question",
        "wall ms",
        "CPU ms",
        "DuckDB, same run: wall ms",
        "CPU ms",
        "weir's CPU to DuckDB's",
        "best peer, CPU ms",
        "rows",
    ];
    let mut table = vec![heads.map(str::to_owned).to_vec()];
    for (at, ((name, _, best), (wall, cpu, rows))) in QUERIES.iter().zip(answers).enumerate() {
        let peer = duckdb.map(|figures| figures[at]);
        let [peer_wall, peer_cpu] = [peer.map(|peer| peer.0), peer.map(|peer| peer.1)]
            .map(|value| value.map_or("–".to_owned(), |ms| format!("{ms:.0}")));
        table.push(vec![
            (*name).to_owned(),
            format!("{wall:.0}"),
            format!("{cpu:.0}"),
            peer_wall,
            peer_cpu,
            peer.map_or("–".to_owned(), |peer| format!("{:.1}", cpu / peer.1)),
            best.to_string(),
            rows.to_string(),
        ]);
    }
    table
}

/// CPU and wall seconds of `hub` during `work`.
fn cpu_during(hub: &Weir, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<(f64, f64)> {
    let (before, began) = (meter::cpu_seconds(hub.id()), Instant::now());
    work()?;
    Ok((meter::cpu_seconds(hub.id()) - before, began.elapsed().as_secs_f64()))
}
