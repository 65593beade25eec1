//! Cost of sampling a host once a second: CPU time per round and collector, and resident memory.
//!
//! ```text
//! cargo run -p weir-collect --example sample_cost -- [connections, default 20000] [rounds, default 60] [--fast]
//! ```
//! Separate processes hold both ends of the connections over loopback, so there are twice as many
//! established sockets, and the reported figures are the sampler's alone.
//! `--fast` runs the rounds back to back, with timestamps a second apart.

#![expect(clippy::print_stdout, reason = "the figures are for a person")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_collect::{HostOptions, HostSampler};
use weir_tables::Micros;

/// Connections per holding process: two descriptors each, below the usual hard limit of 20,000.
const HOLDER_LIMIT: usize = 9_000;

type BoxedError = Box<dyn std::error::Error>;

fn main() -> Result<(), BoxedError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| {
        let plain = arguments.iter().filter(|argument| !argument.starts_with("--"));
        plain.clone().nth(at).map_or(Ok(default), |argument| argument.parse())
    };
    let (connections, rounds) = (number(0, 20_000)?, number(1, 60)?);
    if arguments.iter().any(|argument| argument == "--hold") {
        return hold(connections);
    }
    let mut holders = Vec::new();
    let mut left = connections;
    while left > 0 {
        holders.push(start_holder(left.min(HOLDER_LIMIT))?);
        left = left.saturating_sub(HOLDER_LIMIT);
    }
    let result =
        measure(connections, rounds as u64, arguments.iter().any(|argument| argument == "--fast"));
    for mut holder in holders {
        drop(holder.stdin.take());
        holder.wait()?;
    }
    result
}

/// Opens the connections in another process, which holds them until its standard input ends.
fn start_holder(connections: usize) -> Result<Child, BoxedError> {
    let mut holder = Command::new(std::env::current_exe()?)
        .args([connections.to_string().as_str(), "--hold"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut ready = String::new();
    BufReader::new(holder.stdout.take().ok_or("no output")?).read_line(&mut ready)?;
    if ready.trim() == "ready" {
        Ok(holder)
    } else {
        Err("the connections could not be made".into())
    }
}

fn hold(connections: usize) -> Result<(), BoxedError> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let mut held: Vec<TcpStream> = Vec::with_capacity(2 * connections);
    for _ in 0..connections {
        held.push(TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?);
        held.push(listener.accept()?.0);
    }
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn measure(connections: usize, rounds: u64, is_fast: bool) -> Result<(), BoxedError> {
    let mut sampler =
        HostSampler::new(HostOptions { host: "cost".into(), ..HostOptions::default() });
    let start = Micros(1_800_000_000_000_000);
    let (mut rows, mut first_seconds, mut highest_seconds) = (0, 0.0, 0.0_f64);
    let began = Instant::now();
    let mut before_rest = 0.0;
    for round in 0..rounds {
        let before = cpu_seconds();
        let batches = sampler.sample(start + Duration::from_secs(round));
        rows += batches.iter().map(|batch| batch.rows.num_rows()).sum::<usize>();
        drop(batches);
        let spent = cpu_seconds() - before;
        if round == 0 {
            first_seconds = spent;
            before_rest = cpu_seconds();
        } else {
            highest_seconds = highest_seconds.max(spent);
        }
        if !is_fast {
            rest_until(began + Duration::from_secs(round + 1));
        }
    }
    let per_round = (cpu_seconds() - before_rest) / (rounds.max(2) - 1) as f64;
    println!("connections {connections}, rounds {rounds}, rows {rows}");
    println!("first round {:.3} ms", first_seconds * 1e3);
    println!(
        "other rounds: mean {:.3} ms, highest {:.3} ms, {:.3} % of a core at 1 Hz",
        per_round * 1e3,
        highest_seconds * 1e3,
        per_round * 100.0
    );
    println!("{:<16} {:>6} {:>12} {:>16}", "collector", "runs", "ms per run", "ms per round");
    for cost in sampler.costs() {
        println!(
            "{:<16} {:>6} {:>12.4} {:>16.4}",
            cost.collector,
            cost.runs,
            cost.cpu_seconds * 1e3 / cost.runs as f64,
            cost.cpu_seconds * 1e3 / rounds as f64
        );
    }
    println!("resident memory {:.1} MiB", resident_bytes()? / f64::from(1 << 20));
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a measurement at 1 Hz has to wait for the next second"
)]
fn rest_until(then: Instant) {
    std::thread::sleep(then.saturating_duration_since(Instant::now()));
}

/// CPU time of all threads, including finished ones that entered other namespaces.
fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn resident_bytes() -> Result<f64, BoxedError> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kibibytes: f64 = line.split_whitespace().next().ok_or("no figure")?.parse()?;
    Ok(kibibytes * 1024.0)
}
