//! `tail-many`: cost of a `weir agent` that follows thousands of mostly idle logs.
//!
//! First nothing is written, then a few of the files get lines at a steady rate; the hub must have
//! every line once at the end. Measured with all default collectors, and with logs only.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::generate::Generator;
use crate::road::JoinedPair;
use crate::weir::{Weir, wait_for};
use crate::{data, meter, report};

/// Initial lines of each file.
const LINES_BEFORE: u32 = 20;
/// Time until idle files are left to inotify, and memory of the start is released.
const SETTLE: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(300);

/// Files and writes of the benchmark.
pub(crate) struct TailLoad {
    pub(crate) files: u32,
    pub(crate) active: u32,
    pub(crate) rate: u32,
}

/// Figures of one agent.
struct AgentFigures {
    began_seconds: f64,
    idle_share: f64,
    idle_mib: f64,
    active_share: f64,
    active_mib: f64,
    peak_mib: f64,
    used_seconds: f64,
}

/// Measures each half for `span`.
pub(crate) fn run(load: &TailLoad, span: Duration) -> anyhow::Result<()> {
    let mut page = report::Report::new("tail-many");
    page.text(&format!(
        "`weir agent` follows {} logs of nginx JSON lines that a glob found, hub on the same host. Nothing is written for {2} s; \
         then {1} of them get {3} lines a second each for {2} s. Shares are of one core, of the agent alone.",
        load.files,
        load.active,
        span.as_secs(),
        load.rate,
    ));
    let whole = once(load, span, "")?;
    let logs = once(load, span, "sample_host = false\nfind_logs = false\n")?;
    page.own(whole.used_seconds + logs.used_seconds);
    let both = [&whole, &logs];
    page.table(&[
        ["figure", "all collectors at 1 Hz", "logs alone", "bar"].map(str::to_owned).to_vec(),
        row(both, "nothing is written, % of a core", |f| format!("**{:.2}**", f.idle_share), "1"),
        row(both, "with lines arriving, % of a core", |f| format!("{:.2}", f.active_share), "–"),
        row(both, "RSS at rest, MiB", |f| format!("**{:.1}**", f.idle_mib), "80"),
        row(both, "RSS with lines arriving, MiB", |f| format!("{:.1}", f.active_mib), "80"),
        row(both, "peak RSS, start included, MiB", |f| format!("{:.1}", f.peak_mib), "80"),
        row(
            both,
            "from the start until all lines are at the hub, s",
            |f| format!("{:.1}", f.began_seconds),
            "–",
        ),
    ]);
    page.write()
}

/// A row of the table: a figure of both runs.
fn row(
    both: [&AgentFigures; 2],
    name: &str,
    of: fn(&AgentFigures) -> String,
    bar: &str,
) -> Vec<String> {
    vec![name.to_owned(), of(both[0]), of(both[1]), bar.to_owned()]
}

fn once(load: &TailLoad, span: Duration, collect: &str) -> anyhow::Result<AgentFigures> {
    let dir = tempfile::tempdir()?;
    let pair = JoinedPair::start(dir.path(), collect)?;
    let logs = dir.path().join("logs");
    let mut generator = Generator::new(42);
    for number in 0..load.files {
        write(&mut generator, &mut File::create(path(&logs, number))?, LINES_BEFORE)?;
    }
    let before = u64::from(load.files) * u64::from(LINES_BEFORE);
    let agent = pair.agent()?;
    wait_for("what was there", LIMIT, Duration::from_millis(200), || Ok(pair.rows()? >= before))?;
    let began_seconds = agent.started.elapsed().as_secs_f64();
    data::pause(SETTLE);
    let idle_share = share_while(&agent, || {
        data::pause(span);
        Ok(())
    })?;
    let idle_mib = meter::memory_mib(agent.id()).0;
    let mut written = before;
    let active_share = share_while(&agent, || {
        written += write_to_some(load, &logs, &mut generator, span)?;
        Ok(())
    })?;
    let (active_mib, peak_mib) = meter::memory_mib(agent.id());
    wait_for("every line", LIMIT, Duration::from_millis(200), || Ok(pair.rows()? >= written))?;
    ensure!(pair.rows()? == written, "{written} lines became {} rows", pair.rows()?);
    let used_seconds = agent.stop()? + pair.hub.stop()?;
    Ok(AgentFigures {
        began_seconds,
        idle_share,
        idle_mib,
        active_share,
        active_mib,
        peak_mib,
        used_seconds,
    })
}

/// Share of a core that the agent uses during `act`, in percent.
fn share_while(agent: &Weir, act: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let (began, before) = (Instant::now(), meter::cpu_seconds(agent.id()));
    act()?;
    Ok((meter::cpu_seconds(agent.id()) - before) / began.elapsed().as_secs_f64() * 100.0)
}

/// Writes to files spread over all, at staggered times. Returns the number of lines.
fn write_to_some(
    load: &TailLoad,
    logs: &Path,
    generator: &mut Generator,
    span: Duration,
) -> anyhow::Result<u64> {
    let step = (load.files / load.active.max(1)).max(1);
    let paths = (0..load.active).map(|number| path(logs, number * step % load.files));
    let files = paths.map(|path| OpenOptions::new().append(true).open(path));
    let mut files = files.collect::<Result<Vec<File>, _>>()?;
    let (began, mut lines) = (Instant::now(), 0_u64);
    while began.elapsed() < span {
        let due = began.elapsed().as_micros() * u128::from(load.rate * load.active) / 1_000_000;
        while u128::from(lines) < due {
            let at = usize::try_from(lines % u64::from(load.active))?;
            write(generator, &mut files[at], 1)?;
            lines += 1;
        }
        data::pause(Duration::from_millis(5));
    }
    Ok(lines)
}

fn path(logs: &Path, number: u32) -> std::path::PathBuf {
    logs.join(format!("app-{number:05}-access.log"))
}

fn write(generator: &mut Generator, file: &mut File, lines: u32) -> anyhow::Result<()> {
    let mut text = String::new();
    for _ in 0..lines {
        generator.line(report::now(), &mut text);
    }
    Ok(file.write_all(text.as_bytes())?)
}
