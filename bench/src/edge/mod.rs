//! `edge`: what a request costs `weir edge`, beside nginx and HAProxy in the same run; idle connections, shares, failures.
//!
//! The server has processor 0, the load and the backends have processor 1. Processor time per request is the figure to
//! compare; requests a second are not, since both share a machine.

mod faults;
mod servers;

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::data::pause;
use crate::report::Report;
use servers::{Server, Stage};

/// A query like an analytics company's: 300 bytes.
const BEACON: &str = "/ping?h=example.org&p=%2Fnews%2Fstory-about-something&v=abcdef0123456789&n=12&k=ping&s=15000\
    &d=12&c=34&b=120&r=240&o=400&l=800&fp=300&lp=500&ls=0.02&ix=48&x0=value0000&x1=value0001&x2=value0002\
    &x3=value0003&x4=value0004&x5=value0005&x6=value0006&x7=value0007&x8=value0008&x9=value0009";
const FILE: &str = "/1k";
/// What browsers send: 700 bytes.
const HEADERS: &[&str] = &[
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
    "Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Accept-Language: en-US,en;q=0.9",
    "Referer: https://example.org/news/story-about-something",
    "Sec-Fetch-Dest: image",
    "Sec-Fetch-Mode: no-cors",
    "Sec-Fetch-Site: cross-site",
    "sec-ch-ua: \"Chromium\";v=\"130\", \"Google Chrome\";v=\"130\"",
    "sec-ch-ua-mobile: ?0",
    "sec-ch-ua-platform: \"Linux\"",
];
/// Idle connections that are held.
const IDLE: usize = 9_000;

/// Runs of `seconds` each, in turns; the median is reported.
pub(crate) fn run(seconds: u64, runs: u32) -> anyhow::Result<()> {
    let mut page = Report::new("edge");
    page.text(
        "*µs* is user and system time per request of the server's process, with 64 connections of wrk. weir's first figure is \
         that of the threads that serve and of the one that encodes rows; the second is the whole process with a store of \
         its own (write-ahead log, Parquet, rules, page). nginx writes a JSON log through a buffer of 64 KiB, HAProxy sends its \
         log to a datagram socket.",
    );
    let stage = Stage::new()?;
    let servers = stage.servers()?;
    costs(&mut page, &servers, seconds, runs)?;
    shares(&mut page, &servers[0])?;
    drop(servers);
    idle(&mut page, &stage.edge()?)?;
    faults::measure(&mut page, &stage)?;
    page.text(
        "Bars: beacon no more than nginx with its log (7.9 µs on a quiet machine), proxied no more than nginx with its log (15.4); \
         idle ≤ 6,000 bytes; shares within 2 %; a killed backend costs no request, a hung one at most one a connection.",
    );
    page.write()
}

/// One kind of load.
struct Load {
    name: &'static str,
    path: &'static str,
    is_new_connection: bool,
}

const LOADS: [Load; 4] = [
    Load { name: "beacon, kept connections", path: BEACON, is_new_connection: false },
    Load { name: "beacon, a connection each", path: BEACON, is_new_connection: true },
    Load { name: "proxied 1 KiB, kept connections", path: FILE, is_new_connection: false },
    Load { name: "proxied 1 KiB, a connection each", path: FILE, is_new_connection: true },
];

fn costs(page: &mut Report, servers: &[Server], seconds: u64, runs: u32) -> anyhow::Result<()> {
    let head = ["load", "server", "µs", "µs, whole process", "requests/s", "p99 ms"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for load in &LOADS {
        let fit: Vec<&Server> =
            servers.iter().filter(|server| load.path != BEACON || server.has_beacon).collect();
        let mut figures: Vec<Vec<Figure>> = fit.iter().map(|_| Vec::new()).collect();
        for _ in 0..runs {
            for (server, figures) in fit.iter().zip(&mut figures) {
                figures.push(measure(server, load, seconds)?);
            }
        }
        for (server, figures) in fit.iter().zip(&figures) {
            let median = |of: fn(&Figure) -> f64| {
                let mut values: Vec<f64> = figures.iter().map(of).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            rows.push(vec![
                load.name.to_owned(),
                server.name.to_owned(),
                format!("{:.1}", median(|figure| figure.own)),
                format!("{:.1}", median(|figure| figure.whole)),
                format!("{:.0}", median(|figure| figure.rate)),
                format!("{:.1}", median(|figure| figure.p99)),
            ]);
        }
    }
    page.table(&rows);
    Ok(())
}

/// One run.
struct Figure {
    own: f64,
    whole: f64,
    rate: f64,
    p99: f64,
}

fn measure(server: &Server, load: &Load, seconds: u64) -> anyhow::Result<Figure> {
    let before = server.cpu_seconds();
    let said = wrk(&server.url(load.path), seconds, load.is_new_connection)?;
    // What was collected during the load is written after it.
    pause(Duration::from_millis(1500));
    let after = server.cpu_seconds();
    let each = |seconds: f64| seconds * 1e6 / said.requests;
    Ok(Figure {
        own: each(after.0 - before.0),
        whole: each(after.1 - before.1),
        rate: said.rate,
        p99: said.p99,
    })
}

/// What wrk says.
struct Said {
    requests: f64,
    rate: f64,
    p99: f64,
}

fn wrk(url: &str, seconds: u64, is_new_connection: bool) -> anyhow::Result<Said> {
    let mut command = Command::new("taskset");
    command.args(["-c", "1", "wrk", "-t1", "-c64", "--latency", &format!("-d{seconds}s"), url]);
    for header in HEADERS {
        command.args(["-H", header]);
    }
    if is_new_connection {
        command.args(["-H", "Connection: close"]);
    }
    let output = command.output().context("cannot run wrk")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(!text.contains("Non-2xx"), "not every answer was good: {text}");
    let find = |what: &dyn Fn(&str) -> Option<f64>| text.lines().map(str::trim).find_map(what);
    let requests = find(&|line| line.split_once(" requests in ")?.0.parse().ok());
    let rate = find(&|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
    let p99 = find(&|line| milliseconds(line.strip_prefix("99%")?.trim()));
    let whole = requests.zip(rate).zip(p99);
    let ((requests, rate), p99) = whole.with_context(|| format!("wrk said {text}"))?;
    Ok(Said { requests, rate, p99 })
}

fn milliseconds(text: &str) -> Option<f64> {
    let (text, factor) = match text {
        _ if text.ends_with("us") => (text.strip_suffix("us")?, 0.001),
        _ if text.ends_with("ms") => (text.strip_suffix("ms")?, 1.0),
        _ => (text.strip_suffix('s')?, 1000.0),
    };
    Some(text.parse::<f64>().ok()? * factor)
}

/// Connections before memory is first looked at.
const FIRST: usize = 500;

/// Memory of connections that have asked once and rest, of a process that has none to reuse.
fn idle(page: &mut Report, edge: &Server) -> anyhow::Result<()> {
    let _first = (0..FIRST).map(|_| ask_once(edge)).collect::<Result<Vec<_>, _>>()?;
    pause(Duration::from_secs(12)); // its rules have all run
    let before = edge.memory_bytes();
    let mut held = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        held.push(ask_once(edge)?);
    }
    pause(Duration::from_secs(4));
    let after = edge.memory_bytes();
    let each = after.saturating_sub(before) / IDLE as u64;
    page.text(&format!(
        "Idle: {IDLE} connections that asked once and rest for 4 s hold {each} bytes each (proportional set size of the process)."
    ));
    Ok(())
}

fn ask_once(edge: &Server) -> anyhow::Result<TcpStream> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(("127.0.0.1", edge.port))?;
    stream.write_all(b"GET /ping?h=idle HTTP/1.1\r\nHost: a\r\n\r\n")?;
    ensure!(stream.read(&mut [0; 1024])? > 0, "no answer to a beacon");
    Ok(stream)
}

/// How evenly the backends were asked in all of the loads.
fn shares(page: &mut Report, edge: &Server) -> anyhow::Result<()> {
    let sql = "select upstream_address, count(*) from request where tier = 'edge' and upstream_address is not null \
               group by 1 order by 1";
    let rows = edge.sql(sql)?;
    let counts: Vec<f64> = rows.iter().filter_map(|row| row[1].as_f64()).collect();
    ensure!(counts.len() == 4, "not all backends were asked: {rows:?}");
    let mean = counts.iter().sum::<f64>() / 4.0;
    let worst = counts.iter().map(|count| (count - mean).abs() / mean).fold(0.0, f64::max);
    page.text(&format!(
        "Shares of four equal backends over all loads: {counts:?}; the furthest is {:.2} % from the mean.",
        worst * 100.0
    ));
    Ok(())
}
