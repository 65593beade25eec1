//! `road`: the whole way of a log line, from a file by way of an agent and the link to a hub's Parquet files.
//!
//! Agent and hub are two processes that have joined each other as users do; each line must be there exactly once at the
//! end, or the run fails. First as fast as it goes, then at a steady rate.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::ingest::{counts, yesterday};
use crate::weir::{self, Weir, wait_for};
use crate::{data, meter, peer, report};

const LIMIT: Duration = Duration::from_secs(900);

/// What one run as fast as it goes showed.
struct Run {
    seconds: f64,
    agent_cpu: f64,
    /// Agent and hub, until the hub has ended and all rows are in files.
    whole_cpu: f64,
    agent_mib: f64,
    hub_mib: f64,
}

/// An agent and a hub that have joined.
pub(crate) struct Pair {
    pub(crate) hub: Weir,
    config: String,
    pub(crate) tail: String,
}

impl Pair {
    /// A hub and an agent that has joined it, which will tail `logs/*.log`; `collect` goes into that section of its
    /// configuration.
    pub(crate) fn start(dir: &Path, collect: &str) -> anyhow::Result<Self> {
        let logs = dir.join("logs");
        std::fs::create_dir(&logs)?;
        let config = dir.join("agent.toml");
        let agent_dir = dir.join("agent");
        let text = format!("[collect]\n{collect}[agent]\ndir = \"{}\"\n", agent_dir.display());
        std::fs::write(&config, text)?;
        let data = dir.join("data").display().to_string();
        let config = config.display().to_string();
        let on_loopback = ["--listen", "127.0.0.1:0", "--agents", "127.0.0.1:0"];
        let hub = Weir::serve(&[&["hub", "--data", &data][..], &on_loopback].concat())?;
        join(&data, &config)?;
        Ok(Self { hub, config, tail: format!("{}/*.log", logs.display()) })
    }

    pub(crate) fn agent(&self) -> anyhow::Result<Weir> {
        Weir::agent(&["agent", "--config", &self.config, "--tail", &self.tail])
    }

    pub(crate) fn rows(&self) -> anyhow::Result<u64> {
        Ok(counts(&self.hub, &self.tail)?.iter().sum())
    }

    /// Whether all `lines` are rows. Asked again and again: rows of other logs are told apart only when there are enough.
    pub(crate) fn has(&self, lines: u64) -> anyhow::Result<bool> {
        let all = "select (select count(*) from request) + (select count(*) from log) + (select count(*) from reject)";
        Ok(self.hub.number(all)? >= lines && self.rows()? >= lines)
    }
}

/// `events` lines as fast as they go, `runs` times; then `rate` lines a second for `span`.
pub(crate) fn run(events: u32, runs: u32, rate: u32, span: Duration) -> anyhow::Result<()> {
    let mut page = report::Report::new("road");
    page.text("nginx JSON lines (15 fields and a request id): `weir agent` tails and parses them, sends them over the link (mutual TLS) to `weir hub` on the same host, which writes its log and Parquet files.");
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("generated");
    report::say(&format!("generating {events} lines"));
    data::write_day(&file, events, yesterday())?;
    let mut measured = Vec::new();
    for number in 1..=runs {
        report::say(&format!("run {number} of {runs}: {events} lines"));
        measured.push(once(&file, events)?);
    }
    measured.sort_by(|one, other| one.whole_cpu.total_cmp(&other.whole_cpu));
    page.own(measured.iter().map(|run| run.whole_cpu).sum());
    let median = &measured[measured.len() / 2];
    if let Some(line) = peer::duckdb(&file, events, median.whole_cpu, 0) {
        page.text(
            &line.rsplit_once(", and ").map_or(line.clone(), |(before, _)| format!("{before}.")),
        );
    }
    page.text(&format!("{events} lines as fast as they go, median of {runs}:"));
    page.table(&fast(median, events));
    let (rows, used) = steady(rate, span)?;
    page.own(used);
    page.text(&format!("{rate} lines a second for {} s:", span.as_secs()));
    page.table(&rows);
    page.text("CPU-seconds are of whole processes with host sampling, rules and the counting queries of this benchmark. References at 2 M ready lines, relaying only: Fluent Bit 5.1 6.6 CPU-s per M with parsing, and at 25,000 lines/s 20.2 % of a core and 26 MiB; neither stores anything.");
    page.write()
}

fn once(file: &Path, events: u32) -> anyhow::Result<Run> {
    let dir = tempfile::tempdir_in(file.parent().unwrap_or(Path::new(".")))?;
    let pair = Pair::start(dir.path(), "")?;
    std::fs::hard_link(file, dir.path().join("logs/access.log"))?;
    let (mut agent_mib, mut hub_mib) = (0.0_f64, 0.0_f64);
    let agent = pair.agent()?;
    wait_for("all lines", LIMIT, Duration::from_millis(200), || {
        agent_mib = agent_mib.max(meter::memory_mib(agent.id()).1);
        hub_mib = hub_mib.max(meter::memory_mib(pair.hub.id()).1);
        pair.has(u64::from(events))
    })?;
    let seconds = agent.started.elapsed().as_secs_f64();
    ensure!(pair.rows()? == u64::from(events), "{events} lines became {} rows", pair.rows()?);
    let agent_cpu = agent.stop()?;
    let whole_cpu = agent_cpu + pair.hub.stop()?;
    Ok(Run { seconds, agent_cpu, whole_cpu, agent_mib, hub_mib })
}

fn fast(run: &Run, events: u32) -> Vec<Vec<String>> {
    let events = f64::from(events);
    let per_million = |seconds: f64| format!("**{:.2}**", seconds * 1e6 / events);
    let line = |name: &str, value: String, bar: &str| vec![name.to_owned(), value, bar.to_owned()];
    vec![
        line("figure", "measured".into(), "bar"),
        line("written to visible, lines/s", format!("{:.0}", events / run.seconds), "350,000"),
        line("agent, CPU-s per M", per_million(run.agent_cpu), "2.5"),
        line("agent and hub, all rows in Parquet, CPU-s per M", per_million(run.whole_cpu), "5"),
        line("agent, peak RSS MiB", format!("{:.0}", run.agent_mib), "40"),
        line("hub, peak RSS MiB", format!("{:.0}", run.hub_mib), "–"),
    ]
}

/// The table, and the processor time of both.
fn steady(rate: u32, span: Duration) -> anyhow::Result<(Vec<Vec<String>>, f64)> {
    let dir = tempfile::tempdir()?;
    let pair = Pair::start(dir.path(), "")?;
    let log = dir.path().join("logs/access.log");
    let agent = pair.agent()?;
    let (warm, _) = data::pace(&log, 100, Duration::from_secs(3), report::now())?;
    warm.last().context("nothing was written")?;
    wait_for("the first lines", Duration::from_secs(60), Duration::from_millis(50), || {
        Ok(pair.rows()? > 0)
    })?;
    let before = [&agent, &pair.hub].map(|weir| meter::cpu_seconds(weir.id()));
    let began = Instant::now();
    let (_, lines) = data::pace(&log, rate, span, report::now())?;
    let seconds = began.elapsed().as_secs_f64();
    let after = [&agent, &pair.hub].map(|weir| meter::cpu_seconds(weir.id()));
    let share = |at: usize| (after[at] - before[at]) / seconds * 100.0;
    wait_for("all lines", Duration::from_secs(60), Duration::from_millis(200), || pair.has(lines))?;
    let memory = [&agent, &pair.hub].map(|weir| meter::memory_mib(weir.id()).1);
    let line = |name: &str, value: String, bar: &str| vec![name.to_owned(), value, bar.to_owned()];
    let rows = vec![
        line("figure", "measured".into(), "bar"),
        line("agent, % of a core", format!("**{:.1}**", share(0)), "7"),
        line("agent and hub, % of a core", format!("**{:.1}**", share(0) + share(1)), "15"),
        line("agent, peak RSS MiB", format!("{:.0}", memory[0]), "40"),
        line("hub, peak RSS MiB", format!("{:.0}", memory[1]), "–"),
    ];
    Ok((rows, agent.stop()? + pair.hub.stop()?))
}

/// The hub says where agents find it a moment after it is up; until then an invitation names the usual port.
fn join(data: &str, config: &str) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let token = weir::output(&["hub", "invite", "--data", data])?;
        match weir::output(&["agent", "join", token.trim(), "--config", config]) {
            Err(_) if Instant::now() < end => data::pause(Duration::from_millis(200)),
            joined => return joined.map(|_| ()),
        }
    }
}
