//! weir's benchmarks: each starts real weir processes, measures them from outside and writes a page under docs/bench/.
//!
//! Run as `cargo xtask bench NAME`, which builds weir first. What the figures must reach stands in each page.

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
mod peer;
mod queries;
mod random;
mod report;
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
struct Args {
    #[command(subcommand)]
    name: Name,
}

#[derive(Subcommand)]
enum Name {
    /// nginx JSON lines tailed by `weir up` until all are stored.
    Ingest {
        /// How many lines; several sizes are separated by commas.
        #[arg(long, value_delimiter = ',', default_values_t = [2_000_000, 5_000_000])]
        events: Vec<u32>,
        /// Runs of each size; the median is reported.
        #[arg(long, default_value_t = 3)]
        runs: u32,
    },
    /// What a line costs, and a request id to find, as the store grows by days of 5,000,000 lines.
    Growth {
        /// Sizes to measure at, in lines.
        #[arg(long, value_delimiter = ',', default_values_t = [5_000_000, 50_000_000])]
        events: Vec<u32>,
        /// Leaves the data directory here, for other measurements; it must not be there yet.
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
    },
    /// Several hubs over one PostgreSQL: lines in, the manifest at rest, queries that are dealt out.
    Cluster {
        /// How many lines.
        #[arg(long, default_value_t = 2_000_000)]
        events: u32,
        /// How often each question is asked.
        #[arg(long, default_value_t = 10)]
        times: u32,
    },
    /// What `weir agent` costs on a host with many connections.
    Host {
        /// Established TCP sockets.
        #[arg(long, default_value_t = 20_000)]
        sockets: u32,
        /// How long to measure.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// From starting `weir up` to the first page.
    FirstPage {
        /// Starts with an empty and with a used data directory.
        #[arg(long, default_value_t = 5)]
        runs: u32,
    },
    /// From writing a line to seeing it in SQL.
    Searchable {
        /// Lines a second.
        #[arg(long, default_value_t = 25_000)]
        rate: u32,
        /// How long to write.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// nginx JSON lines from an agent over the link to a hub's files.
    Road {
        /// How many lines as fast as they go.
        #[arg(long, default_value_t = 2_000_000)]
        events: u32,
        /// Runs of that; the median is reported.
        #[arg(long, default_value_t = 3)]
        runs: u32,
        /// Lines a second after that.
        #[arg(long, default_value_t = 25_000)]
        rate: u32,
        /// How long to write them.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// What an agent costs that follows thousands of logs, most of which rest.
    TailMany {
        /// Log files.
        #[arg(long, default_value_t = 5000)]
        files: u32,
        /// How many of them are written to in the second half.
        #[arg(long, default_value_t = 100)]
        active: u32,
        /// Lines a second to each of these.
        #[arg(long, default_value_t = 5)]
        rate: u32,
        /// How long to measure each half.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Six questions over stored lines.
    Queries {
        /// How many lines.
        #[arg(long, default_value_t = 2_000_000)]
        events: u32,
        /// How often each question is asked.
        #[arg(long, default_value_t = 20)]
        times: u32,
    },
    /// Captures through `weir wire`, beside tcpdump, tcptrace and tshark.
    Wire {
        /// Seconds of simulated traffic.
        #[arg(long, default_value_t = 30)]
        seconds: u32,
        /// Runs of each tool; the median is reported.
        #[arg(long, default_value_t = 3)]
        runs: u32,
    },
    /// A live tap: drops, its own cost, and what it costs the traffic.
    Live {
        /// Packets a second.
        #[arg(long, default_value_t = 300_000)]
        rate: u64,
        /// How long to send them.
        #[arg(long, default_value_t = 15)]
        seconds: u64,
        /// Turns with and without the tap.
        #[arg(long, default_value_t = 3)]
        runs: u32,
    },
    /// Mined thresholds on synthetic traffic and on recorded series: what they find, how often they are wrong.
    Thresholds {
        /// Seeds of the synthetic traffic.
        #[arg(long, default_value_t = 12)]
        seeds: u64,
        /// A copy of the Numenta Anomaly Benchmark, with its directories `data` and `labels`.
        #[arg(long)]
        nab: Option<PathBuf>,
    },
    /// `weir edge` beside nginx and HAProxy: cost of a request, idle connections, shares, failures of backends.
    Edge {
        /// Seconds of each load.
        #[arg(long, default_value_t = 4)]
        seconds: u64,
        /// Runs of each; the median is reported.
        #[arg(long, default_value_t = 3)]
        runs: u32,
    },
    /// Real faults, and what weir makes of them.
    Lab(lab::LabArgs),
    /// All of them with their defaults.
    All,
    /// Writes generated lines to a file, for measuring other programs.
    Generate {
        /// How many lines.
        #[arg(long, default_value_t = 1_000_000)]
        events: u32,
        /// The file to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Writes a capture of traffic whose truth is known.
    Capture(capture_command::CaptureArgs),
    /// Holds connections until standard input closes; used by `host`.
    #[command(hide = true)]
    Hold { connections: u32 },
    /// hyper by itself before backends; used by `edge`.
    #[command(hide = true)]
    HyperAlone { port: u16, backends: Vec<u16> },
}

/// Does what the command line says.
///
/// # Errors
/// When something cannot be measured or written.
pub fn main() -> anyhow::Result<()> {
    run(Args::parse().name)
}

fn run(name: Name) -> anyhow::Result<()> {
    match name {
        Name::Ingest { events, runs } => ingest::run(&events, runs.max(1)),
        Name::Cluster { events, times } => cluster::bench(events, times.max(1)),
        Name::Growth { events, keep } => growth::run(&events, keep),
        Name::Host { sockets, seconds } => host::run(sockets, Duration::from_secs(seconds)),
        Name::FirstPage { runs } => first_page::run(runs.max(1)),
        Name::Searchable { rate, seconds } => searchable::run(rate, Duration::from_secs(seconds)),
        Name::Road { events, runs, rate, seconds } => {
            road::run(events, runs.max(1), rate, Duration::from_secs(seconds))
        }
        Name::TailMany { files, active, rate, seconds } => {
            tail_many::run(&tail_many::Load { files, active, rate }, Duration::from_secs(seconds))
        }
        Name::Queries { events, times } => queries::run(events, times.max(1)),
        Name::Generate { events, out } => {
            let day = Micros((report::now().day() - 1) * 86_400_000_000);
            let bytes = data::write_day(&out, events, day)?;
            report::say(&format!("{events} lines, {bytes} bytes"));
            Ok(())
        }
        Name::Wire { seconds, runs } => wire::run(seconds.max(1), runs.max(1)),
        Name::Live { rate, seconds, runs } => live::run(rate.max(1), seconds.max(1), runs.max(1)),
        Name::Thresholds { seeds, nab } => thresholds::run(seeds.max(1), nab.as_deref()),
        Name::Edge { seconds, runs } => edge::run(seconds.max(1), runs.max(1)),
        Name::Capture(args) => capture_command::run(&args),
        Name::Hold { connections } => host::hold(connections),
        Name::HyperAlone { port, backends } => edge::alone::serve(port, &backends),
        Name::Lab(args) => lab::run(&args),
        Name::All => [
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
        ]
        .into_iter()
        .try_for_each(|name| {
            let args = Args::try_parse_from(["weir-bench", name])?;
            run(args.name)
        }),
    }
}
