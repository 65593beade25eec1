//! `road`: the whole pipeline of a log line, from a file through an agent and the link to a hub's
//! Parquet files.
//!
//! The agent has joined the hub as a user's does. Each line must be stored exactly once at the end,
//! or the run fails. First at full speed, then at a steady rate.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::ingest::{counts, yesterday};
use crate::weir::{self, Weir, wait_for};
use crate::{data, meter, peer, report};

const LIMIT: Duration = Duration::from_secs(900);
/// Time at the steady rate before measuring, until rules have their baseline. Files are merged
/// later, once there are enough.
const SETTLE: Duration = Duration::from_secs(60);

/// Figures of a run at full speed.
struct RoadRun {
    seconds: f64,
    agent_cpu: f64,
    /// CPU seconds of agent and hub until the hub has ended with all rows in files.
    whole_cpu: f64,
    agent_mib: f64,
    hub_mib: f64,
}

/// Figures of a steady rate.
struct SteadyRun {
    /// Shares of a core of agent and hub in each span, in percent.
    spans: Vec<[f64; 2]>,
    /// Peak memory of both in MiB.
    mib: [f64; 2],
    /// CPU seconds of both to their ends.
    whole_cpu: f64,
}

/// A hub, and the configuration of an agent that has joined it.
pub(crate) struct JoinedPair {
    pub(crate) hub: Weir,
    config: String,
    pub(crate) tail: String,
}

impl JoinedPair {
    /// Starts a hub and joins an agent, which will tail `logs/*.log`; `collect` goes into that
    /// section of its configuration.
    pub(crate) fn start(dir: &Path, collect: &str) -> anyhow::Result<Self> {
        Self::start_with(dir, collect, &[])
    }

    /// Like [`Self::start`], with environment variables of the hub.
    pub(crate) fn start_with(
        dir: &Path,
        collect: &str,
        set: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        let logs = dir.join("logs");
        std::fs::create_dir(&logs)?;
        let config = dir.join("agent.toml");
        let agent_dir = dir.join("agent");
        let text = format!("[collect]\n{collect}[agent]\ndir = \"{}\"\n", agent_dir.display());
        std::fs::write(&config, text)?;
        let data = dir.join("data").display().to_string();
        let config = config.display().to_string();
        let on_loopback = ["--listen", "127.0.0.1:0", "--agents", "127.0.0.1:0"];
        let args = [&["hub", "--data", &data][..], &on_loopback].concat();
        let hub = Weir::serve_with(&args, set)?;
        join([&data, &config])?;
        Ok(Self { hub, config, tail: format!("{}/*.log", logs.display()) })
    }

    pub(crate) fn agent(&self) -> anyhow::Result<Weir> {
        Weir::agent(&["agent", "--config", &self.config, "--tail", &self.tail])
    }

    pub(crate) fn rows(&self) -> anyhow::Result<u64> {
        Ok(counts(&self.hub, &self.tail)?.iter().sum())
    }

    /// Whether all `lines` are stored. Polled, so it filters out rows of other logs only once there
    /// are enough.
    pub(crate) fn has(&self, lines: u64) -> anyhow::Result<bool> {
        let all = "select (select count(*) from request) + (select count(*) from log) + (select count(*) from reject)";
        Ok(self.hub.number(all)? >= lines && self.rows()? >= lines)
    }
}

/// Stores `events` lines at full speed, `runs` times; then `rate` lines per second for `runs` spans
/// without a pause.
pub(crate) fn run([events, runs, rate]: [u32; 3], span: Duration) -> anyhow::Result<()> {
    let mut page = report::Report::new("road");
    page.text("nginx JSON lines (15 fields and a request id): `weir agent` tails and parses them, sends them over the link (mutual TLS) to `weir hub` on the same host, which writes its log and Parquet files.");
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("generated");
    report::say(&format!("generating {events} lines"));
    data::write_day(&file, events, yesterday())?;
    // Alternate with the runs: the CPU share of a virtual machine changes within minutes.
    let mut ducks: Vec<_> = peer::duckdb(&file, events).into_iter().collect();
    let mut measured = Vec::new();
    for number in 1..=runs {
        report::say(&format!("run {number} of {runs}: {events} lines"));
        measured.push(once(&file, events)?);
        ducks.extend(peer::duckdb(&file, events));
    }
    measured.sort_by(|one, other| one.whole_cpu.total_cmp(&other.whole_cpu));
    page.own(measured.iter().map(|run| run.whole_cpu).sum());
    let median = &measured[measured.len() / 2];
    let slowness = slowness_of(&ducks);
    if let Some(duck) = peer::DuckDbFigures::mean(&ducks) {
        let line = duck.beside(median.whole_cpu * 1e6 / f64::from(events));
        page.text(&format!(
            "{line}. That is the mean of {}: before, between and after the runs. The bars are of a machine on which DuckDB takes {}; *there* is what \
             was measured, divided by how much slower this machine is by that: {slowness:.2} times.",
            figures(&ducks),
            peer::DuckDbFigures::SECONDS_OF_BARS,
        ));
    }
    page.text(&format!("{events} lines as fast as they go, median of {runs}:"));
    page.table(&fast(median, events, slowness));
    let steady = steady([rate, runs], span)?;
    page.own(steady.whole_cpu);
    ducks.drain(..ducks.len().saturating_sub(1));
    ducks.extend(peer::duckdb(&file, events));
    page.text(&format!(
        "{rate} lines a second for {runs} × {} s, after {} s of the same that are not measured; the mean of all; both took {} % in each. DuckDB before and after: {}.",
        span.as_secs(),
        SETTLE.as_secs(),
        steady.figures(),
        figures(&ducks)
    ));
    page.table(&slow(&steady, slowness_of(&ducks)));
    page.text("CPU-seconds are of whole processes with host sampling, rules and the counting queries of this benchmark. References at 2 M ready lines, relaying only: Fluent Bit 5.1 6.6 CPU-s per M with parsing, and at 25,000 lines/s 20.2 % of a core and 26 MiB; neither stores anything.");
    page.write()
}

fn once(file: &Path, events: u32) -> anyhow::Result<RoadRun> {
    let dir = tempfile::tempdir_in(file.parent().unwrap_or(Path::new(".")))?;
    let pair = JoinedPair::start(dir.path(), "")?;
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
    Ok(RoadRun { seconds, agent_cpu, whole_cpu, agent_mib, hub_mib })
}

/// A row of a table: name, figures measured and scaled to the machine of the bars, and the bar.
fn line(name: &str, figures: [f64; 2], bar: &str) -> Vec<String> {
    let digits = if figures[0] >= 1000.0 { 0 } else { 2 };
    let [measured, there] = figures.map(|value| match value.is_nan() {
        true => "–".to_owned(),
        false => format!("{value:.digits$}"),
    });
    vec![name.to_owned(), format!("**{measured}**"), there, bar.to_owned()]
}

fn memory(name: &str, mib: f64, bar: &str) -> Vec<String> {
    vec![name.to_owned(), format!("{mib:.0}"), "–".to_owned(), bar.to_owned()]
}

fn heads() -> Vec<String> {
    ["figure", "measured", "there", "bar"].map(str::to_owned).to_vec()
}

fn fast(run: &RoadRun, events: u32, slowness: f64) -> Vec<Vec<String>> {
    let events = f64::from(events);
    let speed = events / run.seconds;
    let [agent, both] = [run.agent_cpu, run.whole_cpu].map(|seconds| seconds * 1e6 / events);
    vec![
        heads(),
        line("written to visible, lines/s", [speed, speed * slowness], "350,000"),
        line("agent, CPU-s per M", [agent, agent / slowness], "2.5"),
        line("agent and hub, all rows in Parquet, CPU-s per M", [both, both / slowness], "5"),
        memory("agent, peak RSS MiB", run.agent_mib, "40"),
        memory("hub, peak RSS MiB", run.hub_mib, "–"),
    ]
}

/// How much slower this machine is than that of the bars.
fn slowness_of(ducks: &[peer::DuckDbFigures]) -> f64 {
    peer::DuckDbFigures::mean(ducks).map_or(f64::NAN, |duck| duck.slowness())
}

/// CPU-seconds per million lines of each.
fn figures(ducks: &[peer::DuckDbFigures]) -> String {
    ducks.iter().map(|duck| format!("{:.2}", duck.seconds)).collect::<Vec<_>>().join(", ")
}

fn steady([rate, runs]: [u32; 2], span: Duration) -> anyhow::Result<SteadyRun> {
    let dir = tempfile::tempdir()?;
    let pair = JoinedPair::start(dir.path(), "")?;
    let log = dir.path().join("logs/access.log");
    let agent = pair.agent()?;
    let (warm, _) = data::pace(&log, 100, Duration::from_secs(3), report::now())?;
    warm.last().context("nothing was written")?;
    wait_for("the first lines", Duration::from_secs(60), Duration::from_millis(50), || {
        Ok(pair.rows()? > 0)
    })?;
    let (_, mut lines) = data::pace(&log, rate, SETTLE, report::now())?;
    let (mut before, mut spans) = (cpu_of([&agent, &pair.hub]), Vec::new());
    for _ in 0..runs {
        let began = Instant::now();
        lines += data::pace(&log, rate, span, report::now())?.1;
        let (seconds, after) = (began.elapsed().as_secs_f64(), cpu_of([&agent, &pair.hub]));
        spans.push([0, 1].map(|at| (after[at] - before[at]) / seconds * 100.0));
        before = after;
    }
    wait_for("all lines", Duration::from_secs(60), Duration::from_millis(200), || pair.has(lines))?;
    let mib = [&agent, &pair.hub].map(|weir| meter::memory_mib(weir.id()).1);
    Ok(SteadyRun { spans, mib, whole_cpu: agent.stop()? + pair.hub.stop()? })
}

fn cpu_of(pair: [&Weir; 2]) -> [f64; 2] {
    pair.map(|weir| meter::cpu_seconds(weir.id()))
}

impl SteadyRun {
    fn mean(&self) -> [f64; 2] {
        let count = self.spans.iter().map(|_| 1.0).sum::<f64>();
        [0, 1].map(|at| self.spans.iter().map(|span| span[at]).sum::<f64>() / count)
    }

    /// Share of both in each span.
    fn figures(&self) -> String {
        self.spans
            .iter()
            .map(|[agent, hub]| format!("{:.2}", agent + hub))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn slow(steady: &SteadyRun, slowness: f64) -> Vec<Vec<String>> {
    let [agent, hub] = steady.mean();
    let both = agent + hub;
    vec![
        heads(),
        line("agent, % of a core", [agent, agent / slowness], "7"),
        line("agent and hub, % of a core", [both, both / slowness], "15"),
        memory("agent, peak RSS MiB", steady.mib[0], "40"),
        memory("hub, peak RSS MiB", steady.mib[1], "–"),
    ]
}

/// Joins the agent with this configuration. Retries, since the hub notes its address for agents
/// shortly after its start; until then, an invitation has the default port.
fn join([data, config]: [&str; 2]) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let token = weir::output(&["hub", "invite", "--data", data])?;
        match weir::output(&["agent", "join", token.trim(), "--config", config]) {
            Err(_) if Instant::now() < end => data::pause(Duration::from_millis(200)),
            joined => return joined.map(|_| ()),
        }
    }
}
