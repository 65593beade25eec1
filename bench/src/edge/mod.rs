//! `edge`: cost of a request in `weir edge`, compared with nginx and HAProxy in the same run; idle
//! connections, balance, failures.
//!
//! The server has CPU 0, load generators and backends have CPU 1. Compare CPU time per request, not
//! requests per second, since both share a machine.

pub(crate) mod alone;
mod faults;
mod idle;
mod latency;
mod loads;
mod servers;

use std::time::Duration;

use anyhow::ensure;

use crate::data::pause;
use crate::report::Report;
use loads::{LOADS, Load};
use servers::{Server, TestSetup};

/// Runs of `seconds` each, in turns; the median is reported.
pub(crate) fn run(seconds: u64, runs: u32) -> anyhow::Result<()> {
    let mut page = Report::new("edge");
    page.text(
        "*µs* is user and system time per request of the server's process, with 64 connections of wrk. weir's first figure is \
         that of the threads that serve and of the one that encodes rows; the second is the whole process with a store of \
         its own (write-ahead log, Parquet, rules, page). nginx writes a JSON log through a buffer of 64 KiB, HAProxy sends its \
         log to a datagram socket. *hyper alone* is the library on which weir's edge is built, in a program that records nothing, limits nothing and \
         chooses no backend: the least that an edge can cost that is built on it, but for \
         proxied requests with a connection each, as it keeps none to the backends either. TLS is 1.3 with a certificate of ECDSA P-256 and the ciphers that each has; h2load has 16 \
         connections of 4 streams.",
    );
    let stage = TestSetup::new()?;
    let servers = stage.servers()?;
    costs(&mut page, &servers, seconds, runs)?;
    shares(&mut page, &servers[0])?;
    latency::measure(&mut page, &servers, stage.dir.path())?;
    drop(servers);
    idle::measure(&mut page, &stage.fresh()?)?;
    faults::measure(&mut page, &stage)?;
    page.text(
        "Bars: beacon no more than nginx with its log (7.9 µs on a quiet machine), proxied no more than nginx with its log (15.4); \
         p99 at the same load, TLS and HTTP/2 no more than nginx; idle ≤ 6,000 bytes; shares within 2 %; a killed backend costs no request, a hung one at most one a connection.",
    );
    page.write()
}

fn costs(page: &mut Report, servers: &[Server], seconds: u64, runs: u32) -> anyhow::Result<()> {
    let head = ["load", "server", "µs", "µs, whole process", "requests/s", "p99 ms"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for load in &LOADS {
        let servers: Vec<&Server> = servers.iter().filter(|server| load.suits(server)).collect();
        let mut figures: Vec<Vec<RequestCost>> = servers.iter().map(|_| Vec::new()).collect();
        for _ in 0..runs {
            for (server, figures) in servers.iter().zip(&mut figures) {
                figures.push(measure(server, load, seconds)?);
            }
        }
        for (server, figures) in servers.iter().zip(&figures) {
            let picks: [fn(&RequestCost) -> f64; 4] = [
                |figure| figure.own,
                |figure| figure.whole,
                |figure| figure.rate,
                |figure| figure.p99.unwrap_or_default(),
            ];
            let [own, whole, rate, p99] =
                picks.map(|pick| sorted(figures.iter().map(pick))[figures.len() / 2]);
            rows.push(vec![
                load.name.to_owned(),
                server.name.to_owned(),
                format!("{own:.1}"),
                format!("{whole:.1}"),
                format!("{rate:.0}"),
                match figures[0].p99 {
                    Some(_) => format!("{p99:.1}"),
                    None => String::new(),
                },
            ]);
        }
    }
    page.table(&rows);
    Ok(())
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Cost per request in one run.
struct RequestCost {
    own: f64,
    whole: f64,
    rate: f64,
    p99: Option<f64>,
}

fn measure(server: &Server, load: &Load, seconds: u64) -> anyhow::Result<RequestCost> {
    let before = server.cpu_seconds();
    let result = load.run(server, seconds)?;
    // Include what is written after the load.
    pause(Duration::from_millis(1500));
    let after = server.cpu_seconds();
    let micros_per_request = 1e6 / result.requests;
    Ok(RequestCost {
        own: (after.0 - before.0) * micros_per_request,
        whole: (after.1 - before.1) * micros_per_request,
        rate: result.rate,
        p99: result.p99,
    })
}

/// Reports the balance between backends over all loads.
fn shares(page: &mut Report, edge: &Server) -> anyhow::Result<()> {
    let sql = "select upstream_address, count(*) from request where tier = 'edge' and upstream_address is not null \
               group by 1 order by 1";
    let rows = edge.sql(sql)?;
    let counts: Vec<f64> = rows.iter().filter_map(|row| row[1].as_f64()).collect();
    ensure!(counts.len() == 4, "some backends got no requests: {rows:?}");
    let mean = counts.iter().sum::<f64>() / 4.0;
    let worst = counts.iter().map(|count| (count - mean).abs() / mean).fold(0.0, f64::max);
    page.text(&format!(
        "Shares of four equal backends over all loads: {counts:?}; the furthest is {:.2} % from the mean.",
        worst * 100.0
    ));
    Ok(())
}
