//! Flags of `weir drill`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::client::WeirArgs;
use crate::rules::args::ReplayFormat;

/// Make faults for real, in separate namespaces, and check whether they are found and diagnosed
/// correctly.
///
/// For practice, and to prove that alarms work. A fault gets a small web fleet (visitors, nginx, an
/// application, a file system) in network namespaces named weir-drill-…; nothing outside of them is
/// touched, and all of it is removed at the end, after kill -9 by `weir drill clean` or the next
/// run. `weir drill host` makes a bounded fault on this host itself, after confirmation. Needs
/// root.
///
/// Exit code of run: 0 found and named right, 1 not found in time, 2 found, but something else was
/// named or paged too, 64 and above when the drill itself failed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir drill list                                faults, with their parameters
  weir drill run application slow                beside a temporary weir
  weir drill run disk-full --param mebibytes=32 --seed 7
  weir drill run application slow --url http://127.0.0.1:4770     the weir that watches this host must find it
  weir drill run none healthy-and-busy --for 8h  whether a healthy fleet stays silent
  weir drill host listener --yes staging1        on this host itself, undone after a minute at the latest
  weir drill clean                               take away what a killed drill left")]
pub(crate) struct DrillArgs {
    #[command(subcommand)]
    pub(crate) action: DrillAction,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum DrillAction {
    /// List the faults, what each must be called, and their parameters.
    List {
        /// text for a person, json for a program.
        #[arg(long, value_enum, default_value_t = ReplayFormat::Text)]
        format: ReplayFormat,
    },
    Run(RunArgs),
    Host(HostArgs),
    /// Take away what drills left whose program was killed.
    Clean,
    #[command(hide = true)]
    App(AppArgs),
    #[command(hide = true)]
    Visit(VisitArgs),
    #[command(hide = true)]
    Flood(FloodArgs),
    #[command(hide = true)]
    Receive(ReceiveArgs),
    #[command(hide = true)]
    Names(NamesArgs),
    #[command(hide = true)]
    Relay(RelayArgs),
    #[command(hide = true)]
    Guard {
        #[arg(long)]
        dir: PathBuf,
        #[arg(long)]
        seconds: u64,
    },
}

/// Make a fault, and report what became of it.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// The fault's name, as `weir drill list` shows it; words may be joined by `-`.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) name: Vec<String>,
    /// A parameter, instead of one drawn from the seed; may be given more than once.
    #[arg(long, value_name = "NAME=NUMBER", value_parser = parameter)]
    pub(crate) param: Vec<(String, u64)>,
    /// Where the random parameters begin; the same seed makes the same fault.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How long is looked: for a fault at most [default: 40s, or longer where it takes longer by
    /// design]; where nothing is wrong, all the time [default: 20s].
    #[arg(long = "for", value_name = "SPAN", value_parser = weir_process::time_args::parse_since)]
    pub(crate) span: Option<Duration>,
    /// The weir that watches this host must find it, instead of one that is started for the drill:
    /// its alarms ring.
    #[command(flatten)]
    pub(crate) weir: WeirArgs,
    /// text for a person, json for a program.
    #[arg(long, value_enum, default_value_t = ReplayFormat::Text)]
    pub(crate) format: ReplayFormat,
}

/// Make a fault on this host itself: a staging host whose owner says yes.
///
/// Bounded kinds only: a listener that does not accept, a server in a quota, a file that takes the
/// room of a file system, a narrow line. Each is undone at the end, at Ctrl-C, when weir is killed,
/// and after --for at the latest.
#[derive(Args, Debug)]
pub(crate) struct HostArgs {
    /// listener, processor, disk or line, as `weir drill list` shows them.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The yes: the name of this host, as `uname -n` prints it.
    #[arg(long, value_name = "HOST")]
    pub(crate) yes: Option<String>,
    /// It is undone after this at the latest; at most 10m.
    #[arg(long = "for", value_name = "SPAN", default_value = "60s", value_parser = weir_process::time_args::parse_since)]
    pub(crate) span: Duration,
    /// For disk: a directory of the file system that is to be filled.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// For line: the network interface.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// A parameter, instead of one drawn from the seed; may be given more than once.
    #[arg(long, value_name = "NAME=NUMBER", value_parser = parameter)]
    pub(crate) param: Vec<(String, u64)>,
    /// Where the random parameters begin.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The weir that watches this host must find it, instead of one that is started for the drill:
    /// its alarms ring.
    #[command(flatten)]
    pub(crate) weir: WeirArgs,
    /// text for a person, json for a program.
    #[arg(long, value_enum, default_value_t = ReplayFormat::Text)]
    pub(crate) format: ReplayFormat,
}

fn parameter(text: &str) -> Result<(String, u64), String> {
    let parsed = text
        .split_once('=')
        .and_then(|(name, number)| Some((name.trim().to_owned(), number.trim().parse().ok()?)));
    parsed.ok_or_else(|| "write it as NAME=NUMBER, such as visitors=20".to_owned())
}

/// The application of a scene.
#[derive(Args, Debug)]
pub(crate) struct AppArgs {
    #[arg(long)]
    pub(crate) address: SocketAddr,
    #[arg(long)]
    pub(crate) backlog: i32,
    #[arg(long)]
    pub(crate) delay: PathBuf,
    #[arg(long, default_value_t = 1000)]
    pub(crate) bytes: usize,
    #[arg(long)]
    pub(crate) spin: bool,
    #[arg(long)]
    pub(crate) failing: Option<PathBuf>,
    #[arg(long)]
    pub(crate) failing_health: bool,
    #[arg(long)]
    pub(crate) files: Option<u64>,
    #[arg(long)]
    pub(crate) workers: Option<u64>,
    #[arg(long)]
    pub(crate) store: Option<SocketAddr>,
    #[arg(long)]
    pub(crate) journal: Option<PathBuf>,
    #[arg(long)]
    pub(crate) leak: bool,
    #[arg(long)]
    pub(crate) slow_page: Option<PathBuf>,
    #[arg(long)]
    pub(crate) last: bool,
    #[arg(long)]
    pub(crate) idle: Option<PathBuf>,
}

/// The visitors of a scene.
#[derive(Args, Debug)]
pub(crate) struct VisitArgs {
    #[arg(long)]
    pub(crate) address: SocketAddr,
    #[arg(long)]
    pub(crate) visitors: u64,
    #[arg(long, default_value_t = 50)]
    pub(crate) pause_millis: u64,
    #[arg(long)]
    pub(crate) hold: bool,
    #[arg(long)]
    pub(crate) slow_millis: Option<u64>,
    #[arg(long, default_value_t = 5000)]
    pub(crate) patience_millis: u64,
    #[arg(long, default_value_t = 1)]
    pub(crate) pages: u64,
    #[arg(long)]
    pub(crate) reuse_millis: Option<u64>,
}

/// Packets that nothing follows.
#[derive(Args, Debug)]
pub(crate) struct FloodArgs {
    #[arg(long)]
    pub(crate) address: SocketAddr,
    #[arg(long)]
    pub(crate) per_second: u64,
    #[arg(long)]
    pub(crate) datagrams: bool,
    #[arg(long, default_value_t = weir_drill::STEP)]
    pub(crate) burst: u64,
}

/// A reader of datagrams.
#[derive(Args, Debug)]
pub(crate) struct ReceiveArgs {
    #[arg(long)]
    pub(crate) address: SocketAddr,
    #[arg(long, default_value_t = 0)]
    pub(crate) pause_micros: u64,
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
}

/// A name server.
#[derive(Args, Debug)]
pub(crate) struct NamesArgs {
    #[arg(long)]
    pub(crate) at: SocketAddr,
    #[arg(long)]
    pub(crate) address: PathBuf,
    #[arg(long)]
    pub(crate) ttl: PathBuf,
    #[arg(long)]
    pub(crate) delay: Option<PathBuf>,
}

/// A narrow way.
#[derive(Args, Debug)]
pub(crate) struct RelayArgs {
    #[arg(long)]
    pub(crate) at: SocketAddr,
    #[arg(long)]
    pub(crate) to: SocketAddr,
    #[arg(long)]
    pub(crate) per_second: u64,
}
