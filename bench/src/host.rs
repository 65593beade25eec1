//! `host`: cost of `weir agent` on a host with many open connections.
//!
//! The connections are real, idle, and on loopback. A few child processes hold them, so that none
//! needs a raised limit of open files. Both ends are sockets of this host: 20,000 sockets are
//! 10,000 connections.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::weir::Weir;
use crate::{data, meter, report};

/// Connections per child, with two open files each.
const CONNECTIONS_EACH: u32 = 2000;
const WARM_UP: Duration = Duration::from_secs(10);

/// Measures the agent for `span`.
pub(crate) fn run(sockets: u32, span: Duration) -> anyhow::Result<()> {
    let mut page = report::Report::new("host");
    let holders = hold_many(sockets / 2)?;
    let established = established()?;
    ensure!(
        established >= u64::from(sockets),
        "only {established} of {sockets} sockets are established"
    );
    let dir = tempfile::tempdir()?;
    let data = dir.path().display().to_string();
    let hub = Weir::serve(&["hub", "--listen", "127.0.0.1:0", "--data", &data])?;
    let agent = Weir::agent(&["agent", "--hub", &hub.url])?;
    data::pause(WARM_UP);
    let (began, before, hub_before) =
        (Instant::now(), meter::cpu_seconds(agent.id()), meter::cpu_seconds(hub.id()));
    data::pause(span);
    let seconds = began.elapsed().as_secs_f64();
    let [agent_share, hub_share] = [(&agent, before), (&hub, hub_before)].map(|(weir, before)| {
        format!("{:.2} %", (meter::cpu_seconds(weir.id()) - before) / seconds * 100.0)
    });
    let (rss, peak) = meter::memory_mib(agent.id());
    let rows =
        hub.sql("select sum(rows), sum(failures), count(distinct collector) from collector_run")?;
    let samples = hub.number("select count(distinct ts) from listener")?;
    ensure!(samples > 0, "the agent sent no samples of listeners");
    page.text(&format!("`weir agent` sampling all host collectors at 1 Hz for {seconds:.0} s, {established} established TCP sockets, hub on the same host."));
    page.table(&[
        ["figure", "measured", "bar"].map(str::to_owned).to_vec(),
        vec!["agent, share of one core".to_owned(), agent_share, "0.5 %".to_owned()],
        vec![
            "agent, resident memory, MiB (now / peak)".to_owned(),
            format!("{rss:.1} / {peak:.1}"),
            "25".to_owned(),
        ],
        vec!["hub, share of one core".to_owned(), hub_share, "–".to_owned()],
        vec![
            "rows sent, failures, collectors".to_owned(),
            rows.first().map(ToString::to_string).unwrap_or_default(),
            "–".to_owned(),
        ],
        vec!["seconds sampled".to_owned(), samples.to_string(), "–".to_owned()],
    ]);
    page.own(agent.stop()? + hub.stop()?);
    drop(holders);
    page.write()
}

/// A child that holds connections until its standard input closes.
struct ConnectionHolder(Child);

impl Drop for ConnectionHolder {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn hold_many(connections: u32) -> anyhow::Result<Vec<ConnectionHolder>> {
    let mut holders = Vec::new();
    let mut left = connections;
    while left > 0 {
        let count = left.min(CONNECTIONS_EACH);
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["hold", &count.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = ConnectionHolder(command.spawn()?);
        let mut ready = String::new();
        BufReader::new(holder.0.stdout.take().context("stdout is piped")?).read_line(&mut ready)?;
        ensure!(ready.trim() == "ready", "a holder of {count} connections ended early");
        holders.push(holder);
        left -= count;
    }
    Ok(holders)
}

/// Runs such a child.
pub(crate) fn hold(connections: u32) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut both_ends = Vec::new();
    for _ in 0..connections {
        let near = TcpStream::connect(listener.local_addr()?)?;
        both_ends.push((near, listener.accept()?.0));
    }
    report::say("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// `CurrEstab` of `/proc/net/snmp`: established sockets of this network namespace.
fn established() -> anyhow::Result<u64> {
    let snmp = std::fs::read_to_string("/proc/net/snmp")?;
    let mut lines = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) =
        (lines.next().context("no Tcp line")?, lines.next().context("no Tcp values")?);
    let value = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "CurrEstab");
    Ok(value.context("no CurrEstab")?.1.parse()?)
}
