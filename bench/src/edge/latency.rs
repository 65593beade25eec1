//! Latency at the same offered load, far below the capacity of each server.
//!
//! h2load sends the requests of all its connections together, so a response mostly waits for the
//! requests before it: the longest times are those of a whole burst.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::loads::{BEACON, FILE, on_processor_1};
use super::servers::Server;
use super::sorted;
use crate::report::Report;

const LOADS: [(&str, &str, u32); 2] = [("beacon", BEACON, 10_000), ("proxied 1 KiB", FILE, 5_000)];
/// Kept connections.
const CONNECTIONS: u32 = 64;
const ROUNDS: usize = 5;
const SECONDS: u32 = 4;

/// Measures percentiles of the servers in turns.
pub(crate) fn measure(page: &mut Report, servers: &[Server], dir: &Path) -> anyhow::Result<()> {
    let head = ["load", "server", "p50 ms", "p99 ms", "least", "most"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (name, path, rate) in LOADS {
        let mut seen = vec![Vec::new(); servers.len()];
        for _ in 0..ROUNDS {
            for (server, seen) in servers.iter().zip(&mut seen) {
                seen.push(round(server, path, rate, &dir.join("latency.log"))?);
            }
        }
        for (server, seen) in servers.iter().zip(&seen) {
            let [p50, p99] = [0, 1].map(|at| sorted(seen.iter().map(|round| round[at])));
            let figures = [p50[ROUNDS / 2], p99[ROUNDS / 2], p99[0], p99[ROUNDS - 1]];
            let mut row = vec![format!("{name}, {rate}/s"), server.name.to_owned()];
            row.extend(figures.map(|ms| format!("{ms:.2}")));
            rows.push(row);
        }
    }
    page.table(&rows);
    page.text(&format!(
        "At the same load: h2load with {CONNECTIONS} kept connections, {ROUNDS} rounds of {SECONDS} s in turns; the median of them, and of p99 \
         the least and the most. The requests of all connections come together, so p99 is about the time in which a server \
         answers that many."
    ));
    Ok(())
}

/// Measures p50 and p99 in milliseconds.
fn round(server: &Server, path: &str, rate: u32, log: &Path) -> anyhow::Result<[f64; 2]> {
    // h2load appends to an existing file.
    if log.exists() {
        fs::remove_file(log)?;
    }
    let each = format!("--rps={}", f64::from(rate) / f64::from(CONNECTIONS));
    let (connections, seconds) = (format!("-c{CONNECTIONS}"), format!("-D{SECONDS}"));
    let to = format!("--log-file={}", log.display());
    let url = format!("http://127.0.0.1:{}{path}", server.port);
    let output =
        on_processor_1("h2load", &["--h1", "-t1", &connections, &seconds, &each, &to], &url)?;
    let text = fs::read_to_string(log)
        .with_context(|| format!("cannot read the log of h2load, which printed {output}"))?;
    let mut micros: Vec<f64> = Vec::new();
    for line in text.lines() {
        let mut fields = line.split('\t').skip(1);
        let (status, took) = (fields.next(), fields.next().and_then(|took| took.parse().ok()));
        ensure!(status == Some("200"), "{}: a request failed: {line}", server.name);
        micros.push(took.with_context(|| format!("cannot read a line of h2load: {line}"))?);
    }
    let wanted = (rate * SECONDS) as usize;
    ensure!(
        micros.len() > wanted * 9 / 10,
        "{} answered {} of {wanted}",
        server.name,
        micros.len()
    );
    let micros = sorted(micros.into_iter());
    Ok([50, 99].map(|percent| micros[micros.len() * percent / 100] / 1000.0))
}
