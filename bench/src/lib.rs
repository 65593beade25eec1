//! weir's benchmarks. Each starts real weir processes, measures them from outside, and writes a
//! page to `docs/bench/history/`.
//!
//! Run with `cargo xtask bench NAME`, which builds weir first. Each page states the required
//! figures.

mod blaster;
mod caches;
pub mod capture;
mod capture_command;
mod cluster;
mod data;
mod edge;
mod first_page;
mod generate;
mod growth;
mod host;
mod ingest;
mod lab;
mod live;
mod meter;
mod notify;
mod peer;
mod queries;
mod random;
mod report;
mod requirements;
mod road;
mod searchable;
mod tail_many;
mod thresholds;
mod weir;
mod wire;
mod wire_threads;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use weir_tables::Micros;

#[derive(Parser)]
#[command(about = "Measures weir; run in the root of the repository, as `cargo xtask bench NAME`")]
struct BenchArgs {
    #[command(subcommand)]
    name: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// nginx JSON lines tailed by `weir up` until all are stored.
    Ingest {
        /// Number of lines; separate several sizes by commas.
        #[arg(long, value_delimiter = ',', default_values_t = [2_000_000, 5_000_000])]
        events: Vec<u32>,
        /// Runs of each size; the median is reported.
        #[arg(long, default_value_t = 3)]
        runs: u32,
    },
    /// Cost of a line, and of finding a request id, as the store grows by days of 5,000,000 lines.
    Growth {
        /// Sizes to measure at, in lines.
        #[arg(long, value_delimiter = ',', default_values_t = [5_000_000, 50_000_000])]
        events: Vec<u32>,
        /// Keeps the data directory here, for other measurements; it must not exist yet.
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
    },
    /// Several hubs over one PostgreSQL: ingest, the idle manifest, distributed queries.
    Cluster {
        /// Number of lines.
        #[arg(long, default_value_t = 2_000_000)]
        events: u32,
        /// Runs of each query.
        #[arg(long, default_value_t = 10)]
        times: u32,
    },
    /// Cost of `weir agent` on a host with many connections.
    Host {
        /// Established TCP sockets.
        #[arg(long, default_value_t = 20_000)]
        sockets: u32,
        /// Seconds to measure.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Time from the start of `weir up` to the first page.
    FirstPage {
        /// Starts with an empty and with a used data directory.
        #[arg(long, default_value_t = 5)]
        runs: u32,
    },
    /// Time from writing a line to seeing it in SQL.
    Searchable {
        /// Lines per second.
        #[arg(long, default_value_t = 25_000)]
        rate: u32,
        /// Seconds to write.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// nginx JSON lines from an agent over the link to a hub's files.
    Road {
        /// Number of lines at full speed.
        #[arg(long, default_value_t = 2_000_000)]
        events: u32,
        /// Runs at full speed; the median is reported.
        #[arg(long, default_value_t = 3)]
        runs: u32,
        /// Lines per second afterwards.
        #[arg(long, default_value_t = 25_000)]
        rate: u32,
        /// Seconds to write them.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Cost of an agent that follows thousands of mostly idle logs.
    TailMany {
        /// Log files.
        #[arg(long, default_value_t = 5000)]
        files: u32,
        /// Number of them with writes in the second half.
        #[arg(long, default_value_t = 100)]
        active: u32,
        /// Lines per second to each of these.
        #[arg(long, default_value_t = 5)]
        rate: u32,
        /// Seconds to measure each half.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Six queries over stored lines.
    Queries {
        /// Number of lines.
        #[arg(long, default_value_t = 2_000_000)]
        events: u32,
        /// Runs of each query.
        #[arg(long, default_value_t = 20)]
        times: u32,
    },
    /// Captures through `weir wire`, compared with tcpdump, tcptrace and tshark.
    Wire {
        /// Seconds of simulated traffic.
        #[arg(long, default_value_t = 30)]
        seconds: u32,
        /// Runs of each tool; the median is reported.
        #[arg(long, default_value_t = 3)]
        runs: u32,
    },
    /// A live tap: drops, its own cost, and its cost to the traffic.
    Live {
        /// Packets per second.
        #[arg(long, default_value_t = 300_000)]
        rate: u64,
        /// Seconds to send them.
        #[arg(long, default_value_t = 15)]
        seconds: u64,
        /// Rounds with and without the tap.
        #[arg(long, default_value_t = 3)]
        runs: u32,
    },
    /// Mined thresholds on synthetic traffic and recorded series: recall and false alarms.
    Thresholds {
        /// Seeds of the synthetic traffic.
        #[arg(long, default_value_t = 12)]
        seeds: u64,
        /// A copy of the Numenta Anomaly Benchmark, with its directories `data` and `labels`.
        #[arg(long)]
        nab: Option<PathBuf>,
    },
    /// Time from a finding to the receiver's answer, compared with Alertmanager.
    Notify,
    /// `weir edge` compared with nginx and HAProxy: requests, idle connections, balance, failures.
    Edge {
        /// Seconds of each load.
        #[arg(long, default_value_t = 4)]
        seconds: u64,
        /// Runs of each; the median is reported.
        #[arg(long, default_value_t = 3)]
        runs: u32,
    },
    /// Real faults, and whether weir detects and names them.
    Lab(lab::LabArgs),
    /// Most benchmarks, with their defaults.
    All,
    /// Writes generated lines to a file, to measure other programs.
    Generate {
        /// Number of lines.
        #[arg(long, default_value_t = 1_000_000)]
        events: u32,
        /// The file to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Writes a capture of simulated traffic, and its true figures.
    Capture(capture_command::CaptureArgs),
    /// Holds connections until standard input closes; used by `host`.
    #[command(hide = true)]
    Hold { connections: u32 },
    /// A minimal proxy on hyper alone; used by `edge`.
    #[command(hide = true)]
    HyperAlone { port: u16, backends: Vec<u16> },
}

/// Runs the benchmark that the command line names.
///
/// # Errors
/// When something cannot be measured or written.
pub fn main() -> anyhow::Result<()> {
    run(BenchArgs::parse().name)
}

/// Checks what the benchmark needs, before it spends minutes and fails at its end.
fn check(name: &Benchmark) -> anyhow::Result<()> {
    match name {
        Benchmark::Generate { .. }
        | Benchmark::Capture(_)
        | Benchmark::Hold { .. }
        | Benchmark::HyperAlone { .. }
        | Benchmark::Lab(_) => return Ok(()),
        Benchmark::Edge { .. } => {
            let tools = ["taskset", "nginx", "haproxy", "openssl", "wrk", "h2load"];
            requirements::programs("edge", &tools)?;
        }
        Benchmark::Live { .. } => {
            requirements::programs("live", &["ip", "nginx", "wrk", "tcpdump"])?;
            requirements::root("live")?;
        }
        Benchmark::Wire { .. } => {
            let tools = ["tcpdump", "tcptrace", "tshark", "taskset"];
            requirements::programs("wire", &tools)?;
        }
        Benchmark::Notify => requirements::programs("notify", &["prometheus-alertmanager"])?,
        Benchmark::Cluster { .. } => {
            requirements::programs("cluster", &["setpriv", "chown"])?;
            requirements::root("cluster")?;
        }
        _ => {}
    }
    requirements::repository()
}

fn run(name: Benchmark) -> anyhow::Result<()> {
    check(&name)?;
    match name {
        Benchmark::Ingest { events, runs } => ingest::run(&events, runs.max(1)),
        Benchmark::Cluster { events, times } => cluster::bench([events, times.max(1)]),
        Benchmark::Growth { events, keep } => growth::run(&events, keep),
        Benchmark::Host { sockets, seconds } => host::run(sockets, Duration::from_secs(seconds)),
        Benchmark::FirstPage { runs } => first_page::run(runs.max(1)),
        Benchmark::Searchable { rate, seconds } => {
            searchable::run(rate, Duration::from_secs(seconds))
        }
        Benchmark::Road { events, runs, rate, seconds } => {
            road::run([events, runs.max(1), rate], Duration::from_secs(seconds))
        }
        Benchmark::TailMany { files, active, rate, seconds } => tail_many::run(
            &tail_many::TailLoad { files, active, rate },
            Duration::from_secs(seconds),
        ),
        Benchmark::Queries { events, times } => queries::run([events, times.max(1)]),
        Benchmark::Generate { events, out } => {
            let day = Micros((report::now().day() - 1) * 86_400_000_000);
            let bytes = data::write_day(&out, events, day)?;
            report::say(&format!("{events} lines, {bytes} bytes"));
            Ok(())
        }
        Benchmark::Wire { seconds, runs } => wire::run([seconds.max(1), runs.max(1)]),
        Benchmark::Live { rate, seconds, runs } => {
            live::run([rate.max(1), seconds.max(1)], runs.max(1))
        }
        Benchmark::Thresholds { seeds, nab } => thresholds::run(seeds.max(1), nab.as_deref()),
        Benchmark::Edge { seconds, runs } => edge::run(seconds.max(1), runs.max(1)),
        Benchmark::Notify => notify::run(),
        Benchmark::Capture(args) => capture_command::run(&args),
        Benchmark::Hold { connections } => host::hold(connections),
        Benchmark::HyperAlone { port, backends } => edge::alone::serve(port, &backends),
        Benchmark::Lab(args) => lab::run(&args),
        Benchmark::All => [
            "first-page",
            "host",
            "searchable",
            "ingest",
            "road",
            "tail-many",
            "queries",
            "wire",
            "live",
            "edge",
            "thresholds",
            "notify",
        ]
        .into_iter()
        .try_for_each(|name| {
            let args = BenchArgs::try_parse_from(["weir-bench", name])?;
            run(args.name)
        }),
    }
}
